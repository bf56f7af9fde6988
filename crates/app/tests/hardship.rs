//! Hardship: writers that are killed, that meet, that have no room or no right to write, files that
//! are damaged or foreign, input that is odd. Every test runs the real program as real processes,
//! and asks three things of it: nothing acknowledged is lost, nothing is half-written, and whoever
//! is refused is told where and what to do.
//!
//! `TREERING_CRASH_KILLS` raises the number of killed writers, `TREERING_CRASH_SEED` changes the
//! moments; a failing test prints its seed.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

const FILE: &str = "treering.db";

/// Commands that only read.
const READING: [&str; 5] = ["sessions", "show", "stats", "export", "verify"];

// ---------------------------------------------------------------- crash

/// Writers are killed at any moment: while they make the store, recover it, commit, carry the log
/// over, or end.
#[test]
fn killed_writers_lose_nothing_and_leave_no_halves() {
    const KILLS_IN_A_LIFE: u64 = 20;
    let wanted: u64 = std::env::var("TREERING_CRASH_KILLS").map_or(300, |kills| kills.parse().unwrap());
    let mut chance = Chance::seeded();
    let (mut kills, mut acknowledged, mut unanswered) = (0, 0, 0);
    for no in 0.. {
        if kills >= wanted {
            break;
        }
        let mut life = Life::begin(no);
        let mut unchecked = 0;
        while life.kills < KILLS_IN_A_LIFE {
            life.round(&mut chance);
            unchecked += 1;
            if unchecked == 10 {
                life.check();
                unchecked = 0;
            }
        }
        life.check();
        kills += life.kills;
        let end = life.end();
        acknowledged += end.0;
        unanswered += end.1;
    }
    println!("{kills} kills: {acknowledged} turns acknowledged, {unanswered} more found whole");
    assert!(acknowledged > kills, "the writers hardly wrote; the kills come too early");
}

/// One store through many killed writers. Every other one has a writer that survives them all and
/// keeps the log open; in some the turns are so big that the log is carried over on the way.
struct Life {
    treering: Treering,
    _folder: TempDir,
    heavy: bool,
    survivor: Option<Writer>,
    survived: Vec<String>,
    rounds: Vec<Round>,
    kills: u64,
    acknowledged: usize,
    unanswered: usize,
}

/// What one killed writer was given and what it acknowledged.
struct Round {
    sent: Vec<String>,
    positions: Vec<u64>,
    /// How many of its turns are in the store, once that was looked up.
    kept: Option<usize>,
}

impl Life {
    fn begin(no: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let treering = Treering::at(&folder.path().join("home"));
        // A survivor makes the store, so lives without one are also killed while they make it.
        let survivor = (no % 2 == 1).then(|| Writer::start(&treering, "survivor"));
        Self {
            treering,
            _folder: folder,
            heavy: no % 5 == 2,
            survivor,
            survived: Vec::new(),
            rounds: Vec::new(),
            kills: 0,
            acknowledged: 0,
            unanswered: 0,
        }
    }

    fn round(&mut self, chance: &mut Chance) {
        let round = self.rounds.len();
        let mut writer = Writer::start(&self.treering, "victim");
        let (mut sent, mut acks) = (Vec::new(), Vec::new());
        for _ in 0..chance.below(6) + 1 {
            let mut lines = String::new();
            for _ in 0..chance.below(6) + 1 {
                let words = if self.heavy { 2000 + chance.below(8000) } else { chance.below(60) };
                let id = format!("r{round}.{}.{words}", sent.len());
                lines += &line(&id);
                sent.push(id);
            }
            writer.send(&lines);
            if chance.below(2) == 0 {
                acks.push(writer.acknowledgement());
            }
        }
        match chance.below(4) {
            0 => {}
            1 => {
                writer.close();
                chance.pause(4_000);
            }
            _ => chance.pause(15_000),
        }
        let (status, rest, errors) = writer.kill();
        assert_eq!(errors, "", "a writer complained before it was killed");
        acks.extend(rest);
        self.kills += u64::from(status.signal() == Some(9));
        let positions: Vec<u64> = acks.iter().flat_map(positions).collect();
        self.acknowledged += positions.len() / 2;
        self.rounds.push(Round { sent, positions, kept: None });
        if let Some(survivor) = &mut self.survivor {
            let id = format!("s.{round}.3");
            survivor.send(&line(&id));
            survivor.acknowledgement();
            self.survived.push(id);
        }
    }

    /// What is stored is what each writer was given, up to some turn that is not before the last
    /// acknowledged one; the last writer's input, given again, fills in exactly the rest.
    fn check(&mut self) {
        self.account();
        let Some(last) = self.rounds.last_mut() else { return };
        let input: String = last.sent.iter().map(|id| line(id)).collect();
        last.kept = None;
        self.treering.run(&["append", "--key", "victim"], input.as_bytes()).expect_success();
        self.account();
        let last = self.rounds.last().unwrap();
        assert_eq!(last.kept, Some(last.sent.len()), "a replay did not complete its turns");
        self.treering.verify();
    }

    fn account(&mut self) {
        let stored = self.treering.turns().remove("victim").unwrap_or_default();
        let mut from = 0;
        for round in &mut self.rounds {
            let kept = round.kept.unwrap_or_else(|| {
                let both = round.sent.iter().zip(&stored[from..]);
                both.take_while(|(sent, stored)| sent == stored).count()
            });
            assert!(stored[from..].starts_with(&round.sent[..kept]), "turns that were there are gone");
            assert!(kept * 2 >= round.positions.len(), "acknowledged turns of {:?} are lost", round.sent);
            let first = 2 * from as u64;
            let places: Vec<u64> = (first..first + round.positions.len() as u64).collect();
            assert_eq!(round.positions, places, "acknowledged positions are not where the turns are");
            if round.kept.is_none() {
                self.unanswered += kept - round.positions.len() / 2;
            }
            round.kept = Some(kept);
            from += kept;
        }
        assert_eq!(stored.len(), from, "turns that nobody wrote, or twice: {:?}", &stored[from..]);
    }

    fn end(self) -> (u64, usize) {
        if let Some(survivor) = self.survivor {
            survivor.finish().expect_success();
            assert_eq!(self.treering.turns()["survivor"], self.survived);
            self.treering.verify();
        }
        (self.acknowledged as u64, self.unanswered)
    }
}

// ---------------------------------------------------------------- several writers

#[test]
fn processes_write_to_different_conversations_at_once() {
    write_together(2, |no| format!("own-{no}"));
    write_together(4, |no| format!("own-{no}"));
}

#[test]
fn processes_write_to_the_same_conversation_at_once() {
    write_together(2, |_| "shared".into());
    write_together(4, |_| "shared".into());
}

/// Each process writes its turns, a few at a time, while another reads and adds everything up.
fn write_together(writers: usize, key: impl Fn(usize) -> String) {
    const TURNS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let treering = Treering::at(&folder.path().join("home"));
    let ids = |no: usize| -> Vec<String> { (0..TURNS).map(|turn| format!("w{no}.{turn}.20")).collect() };
    let writing = AtomicBool::new(true);
    thread::scope(|scope| {
        let started: Vec<Writer> = (0..writers).map(|no| Writer::start(&treering, &key(no))).collect();
        let write = |(no, mut writer): (usize, Writer)| {
            let ids = ids(no);
            scope.spawn(move || {
                for some in ids.chunks(1 + no) {
                    writer.send(&some.iter().map(|id| line(id)).collect::<String>());
                    writer.acknowledgement();
                }
                writer.finish()
            })
        };
        let threads: Vec<_> = started.into_iter().enumerate().map(write).collect();
        let reading = scope.spawn(|| {
            while writing.load(Ordering::SeqCst) {
                treering.verify();
            }
        });
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        writing.store(false, Ordering::SeqCst);
        for ended in ended {
            ended.unwrap().expect_success();
        }
        reading.join().unwrap();
    });
    let stored = treering.turns();
    for no in 0..writers {
        let prefix = format!("w{no}.");
        let own: Vec<_> = stored[&key(no)].iter().filter(|id| id.starts_with(&prefix)).cloned().collect();
        assert_eq!(own, ids(no), "the turns of writer {no}, in its order");
    }
    assert_eq!(stored.values().map(Vec::len).sum::<usize>(), writers * TURNS);
    assert_eq!(stored.len(), (0..writers).map(&key).collect::<BTreeSet<_>>().len());
    treering.verify();
}

/// Processes that stand before an empty place are let go at the same moment.
#[test]
fn processes_make_the_same_home_at_once() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let treering = Treering::at(&folder.path().join("not/there/yet"));
        let count = if round % 2 == 0 { 2 } else { 4 };
        let gate = "read go; exec \"$@\"";
        let mut waiting: Vec<Writer> = (0..count)
            .map(|_| {
                let mut command = Command::new("sh");
                let append = treering.command(&["append", "--key", "first"]);
                command.args(["-c", gate, "gate"]).arg(append.get_program()).args(append.get_args());
                Writer::spawn(command)
            })
            .collect();
        waiting.iter_mut().for_each(|writer| writer.send("go\n"));
        for (no, writer) in waiting.iter_mut().enumerate() {
            writer.send(&line(&format!("w{no}.0.1")));
        }
        for writer in waiting {
            let ended = writer.finish();
            assert_eq!(ended.errors, "", "round {round}");
            ended.expect_success();
        }
        let turns: BTreeSet<String> = treering.turns().remove("first").unwrap().into_iter().collect();
        assert_eq!(turns, (0..count).map(|no| format!("w{no}.0.1")).collect(), "round {round}");
        treering.verify();
    }
}

// ---------------------------------------------------------------- no right to write

#[test]
fn a_read_only_home_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("closed", false);
    place.forbid(&treering.home, 0o555);
    place.check_reading(&treering, 3);
}

#[test]
fn a_read_only_home_with_a_log_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("killed", true);
    assert!(fs::metadata(treering.home.join("treering.db-wal")).unwrap().len() > 0);
    place.forbid(&treering.home, 0o555);
    place.check_reading(&treering, 3);
}

/// Without its index, SQLite may not be able to read a log; then that is said, and nothing is
/// shown that leaves out what is in the log.
#[test]
fn a_read_only_home_with_a_log_alone_is_read_whole_or_refused() {
    let place = Unprivileged::new();
    let treering = place.store("log alone", true);
    fs::remove_file(treering.home.join("treering.db-shm")).unwrap();
    place.forbid(&treering.home, 0o555);
    let before = files(&treering.home);
    for command in READING {
        let ended = treering.run(&[command], b"");
        if ended.code == 0 {
            assert_eq!(treering.turns()["k"].len(), 3, "{command}");
        } else {
            ended.expect_complaint(&treering.home);
        }
    }
    treering.run(&["append", "--key", "k"], line("x.0.1").as_bytes()).expect_complaint(&treering.home);
    assert_eq!(changed(&treering.home, &before), [""; 0]);
    place.allow(&treering.home);
}

/// Only the file is read-only; files beside it could be made, and are not left behind.
#[test]
fn a_read_only_file_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("file", false);
    place.forbid(&treering.home, 0o777);
    place.check_reading(&treering, 3);
}

#[test]
fn a_read_only_place_without_a_store_says_so() {
    let place = Unprivileged::new();
    let treering = place.treering("empty");
    fs::create_dir(&treering.home).unwrap();
    place.forbid(&treering.home, 0o555);
    let append = treering.run(&["append", "--key", "k"], line("x.0.1").as_bytes());
    append.expect_complaint(&treering.home);
    let inside = Treering { home: treering.home.join("deeper"), ..treering.clone() };
    inside.run(&["sessions"], b"").expect_complaint(&treering.home);
    assert_eq!(files(&treering.home), BTreeMap::new());
    place.allow(&treering.home);
}

#[test]
fn a_read_only_store_of_a_newer_or_another_program_is_named_so() {
    let place = Unprivileged::new();
    let newer = place.store("newer", false);
    alter(&newer.home, "PRAGMA user_version = 999");
    let other = place.treering("other");
    fs::create_dir(&other.home).unwrap();
    alter(&other.home, "PRAGMA journal_mode = WAL; CREATE TABLE songs (name); PRAGMA user_version = 1");
    for (treering, word) in [(newer, "999"), (other, "another program")] {
        place.forbid(&treering.home, 0o555);
        let before = files(&treering.home);
        for command in READING {
            let complaint = treering.run(&[command], b"").expect_complaint(&treering.home);
            assert!(complaint.error.contains(word), "{command}: {complaint:?}");
            if word == "999" {
                assert!(complaint.hint.contains("newer"), "{command}: {complaint:?}");
            }
        }
        assert_eq!(changed(&treering.home, &before), [""; 0]);
        place.allow(&treering.home);
    }
}

/// A place where the program runs as a user who may not write what was forbidden. Permissions do
/// not bind root, so for root that is another user, who needs a copy of the program to run.
struct Unprivileged {
    folder: TempDir,
    program: PathBuf,
    user: Option<u32>,
}

impl Unprivileged {
    const NOBODY: u32 = 65534;

    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        permit(folder.path(), 0o755);
        let mut place = Self { folder, program: env!("CARGO_BIN_EXE_treering").into(), user: None };
        if fs::metadata(place.folder.path()).unwrap().uid() == 0 {
            let copy = place.folder.path().join("treering");
            fs::copy(&place.program, &copy).unwrap();
            permit(&copy, 0o755);
            (place.program, place.user) = (copy, Some(Self::NOBODY));
        }
        place
    }

    fn treering(&self, name: &str) -> Treering {
        Treering { program: self.program.clone(), home: self.folder.path().join(name), user: self.user }
    }

    /// A store of three turns, closed in order or left with its log by a killed writer.
    fn store(&self, name: &str, killed: bool) -> Treering {
        let treering = self.treering(name);
        let mut writer = Writer::start(&Treering::at(&treering.home), "k");
        writer.send(&(0..3).map(|no| line(&format!("t.{no}.9"))).collect::<String>());
        let mut stored = 0;
        while stored < 6 {
            stored += positions(&writer.acknowledgement()).len();
        }
        if killed {
            writer.kill();
        } else {
            writer.finish().expect_success();
        }
        treering
    }

    /// Takes the right to write from the files of a home, and sets that of the folder.
    fn forbid(&self, home: &Path, folder: u32) {
        fs::read_dir(home).unwrap().for_each(|entry| permit(&entry.unwrap().path(), 0o444));
        permit(home, folder);
    }

    /// So that the folder can be removed.
    fn allow(&self, home: &Path) {
        permit(home, 0o755);
    }

    fn check_reading(&self, treering: &Treering, turns: usize) {
        let before = files(&treering.home);
        for command in READING {
            treering.run(&[command], b"").expect_success();
            assert_eq!(changed(&treering.home, &before), [""; 0], "after {command}");
        }
        assert_eq!(treering.turns()["k"].len(), turns);
        treering.verify();
        let input = line("x.0.1");
        let complaint =
            treering.run(&["append", "--key", "k"], input.as_bytes()).expect_complaint(&treering.home);
        assert!(complaint.error.contains("read-only"), "{complaint:?}");
        assert!(complaint.hint.contains("write access"), "{complaint:?}");
        assert_eq!(changed(&treering.home, &before), [""; 0], "after append");
        self.allow(&treering.home);
    }
}

// ---------------------------------------------------------------- no room to write

/// A disk of each size fills up at another step: while the store is made, at the first commit, in
/// the middle of one, while the log is carried over at the end.
#[test]
fn a_full_disk_loses_nothing() {
    let Some(unshare) = namespaces() else {
        eprintln!(
            "SKIPPED a_full_disk_loses_nothing: neither `unshare -rm` nor `unshare -m` may mount a tmpfs"
        );
        return;
    };
    for kib in [16, 40, 72, 104, 136, 200, 512, 2048] {
        fill(unshare, kib);
    }
}

/// Runs in a mount namespace of its own, so that nothing stays mounted whatever happens.
const FILL: &str = r#"
set -u
cd "$1"
mount -t tmpfs -o "size=$2k" none disk || exit 99
treering() { program="$1"; shift; "$program" --home disk/home --json "$@"; }
treering "$3" append --key k < input > append.out 2> append.err; echo $? > append.code
treering "$3" append --key k < one > again.out 2> again.err; echo $? > again.code
for command in sessions stats verify export; do
    treering "$3" $command > $command.out 2> $command.err; echo $? > $command.code
done
if [ -e disk/home ]; then cp -r disk/home copy; fi
mount -o remount,size=64m disk
treering "$3" verify > freed.out 2> freed.err; echo $? > freed.code
treering "$3" export > kept.out 2> kept.err; echo $? > kept.code
treering "$3" append --key k < input > replay.out 2> replay.err; echo $? > replay.code
treering "$3" export > whole.out 2> whole.err; echo $? > whole.code
treering "$3" verify > last.out 2> last.err; echo $? > last.code
"#;

fn namespaces() -> Option<&'static str> {
    let works = |flags: &&str| {
        let script = "mount -t tmpfs -o size=64k none /mnt";
        let run = Command::new("unshare").args([flags, "sh", "-c", script]).output();
        run.is_ok_and(|run| run.status.success())
    };
    ["-rm", "-m"].into_iter().find(works)
}

fn fill(unshare: &str, kib: usize) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let ids: Vec<String> = (0..1000).map(|no| format!("f.{no}.{}", 100 + no)).collect();
    fs::create_dir(at("disk")).unwrap();
    fs::write(at("input"), ids.iter().map(|id| line(id)).collect::<String>()).unwrap();
    fs::write(at("one"), line("one.0.1")).unwrap();
    let script = Command::new("unshare")
        .args([unshare, "sh", "-c", FILL, "fill"])
        .args([folder.path().as_os_str(), kib.to_string().as_ref(), env!("CARGO_BIN_EXE_treering").as_ref()])
        .output()
        .unwrap();
    assert_ne!(script.status.code(), Some(99), "{}", String::from_utf8_lossy(&script.stderr));
    let step = |name: &str| {
        let text = |kind: &str| fs::read_to_string(at(&format!("{name}.{kind}"))).unwrap();
        let code = text("code").trim().parse().unwrap();
        Ended { what: format!("{name} on {kib} KiB"), code, output: text("out"), errors: text("err") }
    };
    let acknowledged = while_full(&step, &ids);
    let kept = once_freed(&step, &ids, &acknowledged);
    if at("copy").exists() {
        let copy = Treering::at(&at("copy"));
        copy.verify();
        assert_eq!(copy.turns().remove("k").unwrap_or_default(), kept, "{kib} KiB: the copy");
    }
}

/// Writers are told, readers still read. Gives the turns that were acknowledged.
fn while_full(step: &dyn Fn(&str) -> Ended, ids: &[String]) -> Vec<String> {
    let home = Path::new("disk/home");
    let appended = step("append");
    let complaint = appended.expect_complaint(home);
    assert!(complaint.error.contains("no space left"), "{}: {complaint:?}", appended.what);
    let messages = appended.output.lines().flat_map(|ack| positions(&parsed(ack))).count();
    let mut acknowledged = ids[..messages / 2].to_vec();
    for reading in ["sessions", "stats", "verify", "export"] {
        let ended = step(reading);
        if messages > 0 {
            ended.expect_success();
        } else if ended.code != 0 {
            ended.expect_complaint(home);
        }
    }
    let again = step("again");
    if again.code == 0 {
        // Something small may still have found room.
        acknowledged.push("one.0.1".into());
    } else {
        let complaint = again.expect_complaint(home);
        assert!(complaint.error.contains("no space left"), "{}: {complaint:?}", again.what);
    }
    acknowledged
}

/// With room again, everything acknowledged is there and nothing else, and a replay completes it.
/// Gives the turns that were there before the replay.
fn once_freed(step: &dyn Fn(&str) -> Ended, ids: &[String], acknowledged: &[String]) -> Vec<String> {
    step("freed").expect_success();
    let found = step("kept");
    let what = found.what.clone();
    let kept = turns_of(&found.expect_success()).remove("k").unwrap_or_default();
    assert_eq!(kept, acknowledged, "{what}");
    step("replay").expect_success();
    let whole = turns_of(&step("whole").expect_success()).remove("k").unwrap();
    let unique: BTreeSet<&String> = whole.iter().collect();
    assert_eq!(unique.len(), whole.len(), "{what}: turns are there twice");
    assert!(ids.iter().all(|id| unique.contains(id)), "{what}: the replay did not complete the turns");
    step("last").expect_success();
    kept
}

// ---------------------------------------------------------------- damaged and foreign files

#[test]
fn a_file_of_random_bytes_is_refused_and_left_alone() {
    let mut chance = Chance::seeded();
    for size in [2, 100, 5_000, 100_000] {
        let home = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..size).map(|_| chance.byte()).collect();
        fs::write(home.path().join(FILE), bytes).unwrap();
        let complaints = refused(home.path());
        assert!(complaints.iter().all(|it| it.error.contains("not a Treering store")), "{complaints:?}");
    }
}

#[test]
fn a_truncated_store_is_refused_and_left_alone() {
    let whole = sample_store();
    let length = whole.len() as u64;
    // SQLite takes the missing end of a last page for zeros.
    damaged(&whole[..whole.len() - 1], false, "a store without its last byte");
    for cut in [100, 511, 4096, length / 2, length / 2 / 4096 * 4096, length - 4096] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), &whole[..usize::try_from(cut).unwrap()]).unwrap();
        let treering = Treering::at(home.path());
        let before = files(home.path());
        for command in READING {
            let ended = treering.run(&[command], b"");
            assert_eq!(ended.code, 1, "{command} of a store cut at {cut} of {length}: {ended:?}");
            if !(command == "verify" && ended.lists_problems()) {
                ended.expect_complaint(home.path());
            }
        }
        assert_eq!(changed(home.path(), &before), [""; 0], "cut at {cut}");
    }
}

#[test]
fn damaged_pages_are_found_and_left_alone() {
    const PAGE: usize = 4096;
    let whole = sample_store();
    let mut chance = Chance::seeded();
    let pages = whole.len() / PAGE;
    for attempt in 0..40 {
        let mut bytes = whole.clone();
        // The first pages hold the schema and the roots; damage is spread over all of them.
        let page = if attempt < pages.min(12) { attempt } else { chance.index(pages) };
        let range = page * PAGE..(page + 1) * PAGE;
        let all = match attempt % 4 {
            0 => {
                bytes[range].iter_mut().for_each(|byte| *byte = chance.byte());
                true
            }
            1 => {
                bytes[range].fill(0);
                true
            }
            2 => {
                let other = chance.index(pages - 1) * PAGE;
                bytes.copy_within(other..other + PAGE, range.start);
                false
            }
            _ => {
                let at = page * PAGE + chance.index(PAGE - 8);
                (at..at + 8).for_each(|at| bytes[at] = chance.byte());
                false
            }
        };
        damaged(&bytes, all, &format!("page {page}, attempt {attempt}"));
    }
}

/// Every command copes with a damaged store; `verify` finds what is certainly damaged.
fn damaged(bytes: &[u8], certainly: bool, what: &str) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FILE), bytes).unwrap();
    let treering = Treering::at(home.path());
    let before = files(home.path());
    for command in READING {
        let ended = treering.run(&[command], b"");
        if command == "verify" && certainly {
            assert_eq!(ended.code, 1, "verify of {what}: {ended:?}");
        }
        if ended.code != 0 && !(command == "verify" && ended.lists_problems()) {
            ended.expect_complaint(home.path());
        }
        assert_eq!(changed(home.path(), &before), [""; 0], "{command} of {what}");
    }
    let ended = treering.run(&["append", "--key", "k"], line("after.0.5").as_bytes());
    if ended.code != 0 {
        ended.expect_complaint(home.path());
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    for journal in ["DELETE", "WAL"] {
        let home = tempfile::tempdir().unwrap();
        let script = format!("PRAGMA journal_mode = {journal}; CREATE TABLE songs (name)");
        alter(home.path(), &script);
        let complaints = refused(home.path());
        assert!(complaints.iter().all(|it| it.error.contains("another program")), "{complaints:?}");
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    for journal in ["WAL", "DELETE"] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), sample_store()).unwrap();
        alter(home.path(), &format!("PRAGMA journal_mode = {journal}; PRAGMA user_version = 999"));
        let complaints = refused(home.path());
        let clear = |it: &Complaint| it.error.contains("999") && it.hint.contains("newer");
        assert!(complaints.iter().all(clear), "{journal}: {complaints:?}");
    }
}

/// The log that another program, or a newer one, left when it was killed is not touched either.
#[test]
fn a_log_that_is_not_ours_is_left_alone() {
    let ours = sample_store();
    for script in ["CREATE TABLE songs (name)", "PRAGMA user_version = 999"] {
        let (source, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if script.starts_with("PRAGMA") {
            fs::write(source.path().join(FILE), &ours).unwrap();
        }
        let connection = Connection::open(source.path().join(FILE)).unwrap();
        connection.execute_batch(&format!("PRAGMA journal_mode = WAL; {script}")).unwrap();
        for name in [FILE, "treering.db-wal"] {
            fs::copy(source.path().join(name), home.path().join(name)).unwrap();
        }
        refused(home.path());
    }
}

/// A store that is not in use is one file: whoever copies it has everything.
#[test]
fn commands_that_read_leave_one_file() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FILE), sample_store()).unwrap();
    let before = files(home.path());
    for command in READING {
        Treering::at(home.path()).run(&[command], b"").expect_success();
        assert_eq!(changed(home.path(), &before), [""; 0], "after {command}");
    }
}

/// Every command is refused with a clear error, and the files stay as they are.
fn refused(home: &Path) -> Vec<Complaint> {
    let treering = Treering::at(home);
    let kept = |home: &Path| {
        let mut kept = files(home);
        // The index of the log is scratch space, made again by whoever opens it.
        kept.remove("treering.db-shm");
        kept
    };
    let before = kept(home);
    let mut complaints = Vec::new();
    for args in READING.map(|command| vec![command]).into_iter().chain([vec!["append", "--key", "k"]]) {
        let ended = treering.run(&args, line("x.0.1").as_bytes());
        complaints.push(ended.expect_complaint(home));
        assert!(kept(home) == before, "{args:?} changed {:?}", before.keys());
    }
    complaints
}

/// The file of a store with enough in it to have pages of every kind.
fn sample_store() -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let input: String = (0..300).map(|no| line(&format!("t.{no}.{}", no % 50 * 3))).collect();
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    let input: String = (0..3).map(|no| line(&format!("big.{no}.3000"))).collect();
    treering.run(&["append", "--key", "big"], input.as_bytes()).expect_success();
    assert_eq!(files(home.path()).len(), 1, "a store that was closed is one file");
    fs::read(home.path().join(FILE)).unwrap()
}

/// Does something to a store's file that Treering would not do.
fn alter(home: &Path, script: &str) {
    Connection::open(home.join(FILE)).unwrap().execute_batch(script).unwrap();
}

// ---------------------------------------------------------------- odd input

#[test]
fn a_bad_line_keeps_what_came_before_it() {
    let unfinished = &line("cut.0.1")[..40];
    let bad: [&[u8]; 5] = [
        b"{\"type\":\"turn\",\"user\":",
        b"[1,2]",
        b"\xff\xfe",
        b"{\"type\":\"turn\"}",
        unfinished.as_bytes(),
    ];
    for bad in bad {
        let home = tempfile::tempdir().unwrap();
        let treering = Treering::at(home.path());
        let ids: Vec<String> = (0..5).map(|no| format!("t.{no}.3")).collect();
        let mut input = ids.iter().map(|id| line(id)).collect::<String>().into_bytes();
        input.extend_from_slice(bad);
        input.push(b'\n');
        input.extend_from_slice(line("after.0.1").as_bytes());
        let ended = treering.run(&["append", "--key", "k"], &input);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.complaint().error.contains("line 6"), "{ended:?}");
        let acknowledged: Vec<u64> = ended.output.lines().flat_map(|ack| positions(&parsed(ack))).collect();
        assert_eq!(acknowledged, (0..10).collect::<Vec<_>>());
        assert_eq!(treering.turns()["k"], ids);
        treering.verify();
    }
}

#[test]
fn a_last_line_without_an_end_is_taken_when_it_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let input = line("t.0.3") + line("t.1.3").trim_end();
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    assert_eq!(treering.turns()["k"], ["t.0.3", "t.1.3"]);
    let ended = treering.run(&["append", "--key", "k"], &line("t.2.3").as_bytes()[..30]);
    assert!(ended.code == 1 && ended.complaint().error.contains("line 1"), "{ended:?}");
    assert_eq!(treering.turns()["k"].len(), 2);
}

#[test]
fn odd_text_comes_back_as_it_went_in() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let big = "Fünf Megabyte – 五 🪵\t".repeat(5 << 20 >> 5) + &"x".repeat(5 << 18);
    assert!(big.len() >= 5 << 20);
    let texts = [
        "nul \0 in the middle, and at the end \0",
        "\0",
        "👩‍👩‍👧‍👦 🏳️‍🌈 é e\u{301}",
        "שלום \u{202e}עולם\u{202c} مرحبا",
        "\u{feff}a byte order mark, a replacement \u{fffd}, a noncharacter \u{ffff}",
        "control \u{1}\u{1b}[31m\u{7f}\u{85}\u{2028} line\r\nends\r",
        "",
        big.as_str(),
    ];
    let said: String = texts
        .iter()
        .map(|text| format!("{}\n", json!({"type": "message", "role": "user", "text": text})))
        .collect();
    treering.run(&["append", "--key", "k"], said.as_bytes()).expect_success();
    let exported = treering.run(&["export"], b"").expect_success();
    let messages: Vec<Value> =
        exported.lines().map(parsed).filter(|line| line["type"] == "message").collect();
    let shown = parsed(&treering.run(&["show", "--full"], b"").expect_success());
    let steps: Vec<&Value> = shown["turns"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| turn["steps"].as_array().unwrap())
        .collect();
    assert_eq!((messages.len(), steps.len()), (texts.len(), texts.len()));
    for (at, text) in texts.iter().enumerate() {
        let head: String = text.chars().take(20).collect();
        assert!(messages[at]["text"] == *text, "export of {head:?}");
        assert!(steps[at]["text"] == *text, "show of {head:?}");
    }
    treering.verify();
}

#[test]
fn a_lone_surrogate_is_shown_replaced_and_kept_as_it_came() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let said = r#"{"type":"message","role":"user","text":"half \ud83d of \u0041 pair"}
{"type":"turn","user":"\udc00","assistant":"whole \ud83e\udeb5"}
"#;
    treering.run(&["append", "--key", "k"], said.as_bytes()).expect_success();
    let exported = treering.run(&["export"], b"").expect_success();
    let lines: Vec<&str> = exported.lines().filter(|line| line.contains("\"message\"")).collect();
    let text = |at: usize| -> String {
        #[derive(serde::Deserialize)]
        struct Text {
            text: String,
        }
        serde_json::from_str::<Text>(lines[at]).unwrap().text
    };
    assert_eq!((text(0), text(1)), ("half \u{fffd} of A pair".into(), "\u{fffd}".into()));
    assert_eq!(text(2), "whole 🪵");
    assert!(lines[0].contains(r"half \ud83d of \u0041 pair"), "{}", lines[0]);
    assert!(lines[1].contains(r"\udc00"), "{}", lines[1]);
    let shown = treering.run(&["show", "--full"], b"").expect_success();
    assert!(shown.contains(r"half \ud83d of \u0041 pair"), "{shown}");
    treering.verify();
    // The export of it goes in again and comes out the same.
    let second = tempfile::tempdir().unwrap();
    let copy = Treering::at(second.path());
    copy.run(&["append"], exported.as_bytes()).expect_success();
    assert_eq!(copy.run(&["export"], b"").expect_success(), exported);
}

#[test]
fn a_clock_that_goes_back_changes_no_order() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let times = [
        "2024-06-01T12:00:00Z",
        "2024-06-01T11:59:59.999999Z",
        "2020-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2030-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
    ];
    let said = |(no, at): (usize, &&str)| {
        let mut turn = parsed(&line(&format!("t.{no}.2")));
        turn["at"] = json!(at);
        format!("{turn}\n")
    };
    let lines: Vec<String> = times.iter().enumerate().map(said).collect();
    // A commit each, then all of it again in one.
    for line in &lines {
        treering.run(&["append", "--key", "k"], line.as_bytes()).expect_success();
    }
    treering.run(&["append", "--key", "k"], lines.concat().as_bytes()).expect_success();
    treering.run(&["append", "--key", "together"], lines.concat().as_bytes()).expect_success();
    let expected: Vec<String> = (0..times.len()).map(|no| format!("t.{no}.2")).collect();
    let stored = treering.turns();
    assert_eq!((&stored["k"], &stored["together"]), (&expected, &expected));
    treering.verify();
}

// ---------------------------------------------------------------- turns

/// A turn as a line of input. Everything in it follows from its id, whose last part is the number
/// of words that fill it up.
fn line(id: &str) -> String {
    let turn = json!({
        "type": "turn",
        "user": user_text(id),
        "assistant": assistant_text(id),
        "tool_calls": [{ "name": "look", "args": look(id) }],
        "external_id": id,
    });
    format!("{turn}\n")
}

/// All begin alike, so that all conversations want the same slug.
fn user_text(id: &str) -> String {
    format!("What was it that everybody began with? {}{id}", "word ".repeat(words(id).min(60)))
}

/// What is too much to be said is in the arguments of the tool call, whose tokens nobody counts.
fn look(id: &str) -> Value {
    json!({ "id": id, "words": "word ".repeat(words(id).saturating_sub(60)) })
}

fn words(id: &str) -> usize {
    id.rsplit('.').next().unwrap().parse().unwrap()
}

fn assistant_text(id: &str) -> String {
    format!("The answer to {id}.")
}

/// The ids of the turns in an export, by the key of their conversation. Every turn is whole, every
/// message in its place.
fn turns_of(export: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut records: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut key = String::new();
    for line in export.lines().map(parsed) {
        match line["type"].as_str() {
            Some("treering") => {}
            Some("conversation") => {
                key = line["external_id"].as_str().unwrap().to_owned();
                assert!(records.insert(key.clone(), Vec::new()).is_none(), "two conversations are {key}");
            }
            _ => records.get_mut(&key).unwrap().push(line),
        }
    }
    for (key, records) in records {
        for (no, turn) in records.chunks(3).enumerate() {
            let id = turn[0]["external_id"].as_str().unwrap().strip_suffix("/user").unwrap().to_owned();
            let [user, call, assistant] = turn else { panic!("half a turn: {turn:?}") };
            assert_eq!((&user["idx"], &user["role"]), (&json!(2 * no), &json!("user")));
            assert_eq!(user["text"], user_text(&id));
            assert_eq!((&call["type"], &call["args"]), (&json!("tool_call"), &look(&id)));
            assert_eq!((&assistant["idx"], &assistant["role"]), (&json!(2 * no + 1), &json!("assistant")));
            assert_eq!(assistant["text"], assistant_text(&id));
            found.entry(key.clone()).or_default().push(id);
        }
    }
    found
}

/// The positions of the messages that an acknowledgement names.
fn positions(ack: &Value) -> Vec<u64> {
    ack["messages"].as_array().unwrap().iter().map(|idx| idx.as_u64().unwrap()).collect()
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {}", &json[..json.len().min(200)]))
}

// ---------------------------------------------------------------- processes

/// The program, and the home it is run on.
#[derive(Clone)]
struct Treering {
    program: PathBuf,
    home: PathBuf,
    user: Option<u32>,
}

impl Treering {
    fn at(home: &Path) -> Self {
        Self { program: env!("CARGO_BIN_EXE_treering").into(), home: home.into(), user: None }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // The smaller tokenizer: it is made anew in every process.
        command.env("TREERING_TOKENS_TOKENIZER", "cl100k");
        command.arg("--home").arg(&self.home).arg("--json").args(args).current_dir("/");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs a command to its end.
    fn run(&self, args: &[&str], input: &[u8]) -> Ended {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let output = self.command(args).stdin(file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended::new(format!("{args:?}"), output.status, text(output.stdout), text(output.stderr))
    }

    fn turns(&self) -> BTreeMap<String, Vec<String>> {
        turns_of(&self.run(&["export"], b"").expect_success())
    }

    fn verify(&self) {
        let report = parsed(&self.run(&["verify"], b"").expect_success());
        assert_eq!(report["clean"], true, "{report}");
    }
}

/// How a command ended.
#[derive(Debug)]
struct Ended {
    what: String,
    code: i32,
    output: String,
    errors: String,
}

/// What was wrong, and what to do about it.
#[derive(Debug)]
struct Complaint {
    error: String,
    hint: String,
}

impl Ended {
    fn new(what: String, status: ExitStatus, output: String, errors: String) -> Self {
        assert!(!errors.contains("panicked"), "{what} panicked: {errors}");
        let code = status.code().unwrap_or_else(|| panic!("{what} ended with {status}: {errors}"));
        Self { what, code, output, errors }
    }

    #[track_caller]
    fn expect_success(self) -> String {
        assert!(self.code == 0 && self.errors.is_empty(), "{}: {} {}", self.what, self.code, self.errors);
        self.output
    }

    /// It failed, named the place and said what to do.
    #[track_caller]
    fn expect_complaint(&self, place: &Path) -> Complaint {
        assert_eq!(self.code, 1, "{}: {}", self.what, self.errors);
        let complaint = self.complaint();
        assert!(complaint.error.contains(&*place.to_string_lossy()), "{}: {complaint:?}", self.what);
        assert!(!complaint.hint.is_empty(), "{} does not say what to do: {complaint:?}", self.what);
        complaint
    }

    #[track_caller]
    fn complaint(&self) -> Complaint {
        assert!(!self.errors.contains("panicked"), "{} panicked: {}", self.what, self.errors);
        let said = parsed(&self.errors);
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        Complaint { error: text("error"), hint: text("hint") }
    }

    /// Whether it is a verification that found something.
    fn lists_problems(&self) -> bool {
        let report: Value = serde_json::from_str(&self.output).unwrap_or_default();
        report["problems"].as_array().is_some_and(|problems| !problems.is_empty())
    }
}

/// A process that appends what it is sent, for as long as it is sent something.
struct Writer {
    process: Child,
    input: Option<ChildStdin>,
    acknowledgements: Receiver<Value>,
    errors: File,
}

impl Writer {
    fn start(treering: &Treering, key: &str) -> Self {
        Self::spawn(treering.command(&["append", "--key", key]))
    }

    fn spawn(mut command: Command) -> Self {
        let errors = tempfile::tempfile().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().unwrap());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (said, acknowledgements) = mpsc::channel();
        thread::spawn(move || {
            let mut ack = String::new();
            // A line that was not finished acknowledges nothing.
            while output.read_line(&mut ack).is_ok_and(|_| ack.ends_with('\n')) {
                if said.send(parsed(&ack)).is_err() {
                    return;
                }
                ack.clear();
            }
        });
        Self { process, input, acknowledgements, errors }
    }

    fn send(&mut self, lines: &str) {
        self.input.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// Waits for the next acknowledgement.
    #[track_caller]
    fn acknowledgement(&mut self) -> Value {
        let ack = self.acknowledgements.recv();
        ack.unwrap_or_else(|_| panic!("the writer ended early: {}", read_errors(&mut self.errors)))
    }

    fn close(&mut self) {
        self.input = None;
    }

    /// Kills it; gives back the acknowledgements that nobody waited for.
    fn kill(mut self) -> (ExitStatus, Vec<Value>, String) {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        (status, self.acknowledgements.iter().collect(), read_errors(&mut self.errors))
    }

    /// Lets it end by itself.
    fn finish(mut self) -> Ended {
        self.close();
        let rest: Vec<String> = self.acknowledgements.iter().map(|ack| ack.to_string()).collect();
        let status = self.process.wait().unwrap();
        Ended::new("a writer".into(), status, rest.join("\n"), read_errors(&mut self.errors))
    }
}

fn read_errors(errors: &mut File) -> String {
    let mut text = String::new();
    errors.rewind().and_then(|()| errors.read_to_string(&mut text)).unwrap();
    text
}

/// Which files of a folder are not what they were.
fn changed(folder: &Path, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let now = files(folder);
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    names.into_iter().filter(|name| now.get(*name) != before.get(*name)).cloned().collect()
}

/// The files of a folder, byte by byte.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    fs::read_dir(folder).unwrap().map(read).collect()
}

fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

// ---------------------------------------------------------------- chance

/// Random numbers that a seed repeats; the seed is printed when the test that draws them fails.
struct Chance {
    seed: u64,
    state: u64,
}

impl Chance {
    fn seeded() -> Self {
        let seed = std::env::var("TREERING_CRASH_SEED").map_or(0x7265_6e67, |seed| seed.parse().unwrap());
        Self { seed, state: seed }
    }

    /// A number below `end` (splitmix64).
    fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    /// Lets a random time go by: what happens meanwhile is what the test is about.
    fn pause(&mut self, most_micros: u64) {
        thread::sleep(Duration::from_micros(self.below(most_micros)));
    }
}

impl Drop for Chance {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("TREERING_CRASH_SEED={} repeats this run", self.seed);
        }
    }
}
