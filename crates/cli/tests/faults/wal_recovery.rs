//! Recovery of write-ahead logs that a killed writer left behind, intact and damaged.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use treering::{Engine, Options};

use crate::processes::{FILE, Treering, WriterProcess, changed, files};
use crate::rng::SeededRng;
use crate::turns::{line, parsed, positions};

const LOG: &str = "treering.db-wal";
/// The log and its index.
const LOG_PREFIX: &str = "treering.db-";
const TURNS: usize = 200;
/// Maximum number of turns per commit.
const BATCH: usize = 4;
const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

/// A home whose writer was killed after all its turns were acknowledged.
pub(crate) fn killed_home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut writer = WriterProcess::start(&Treering::at(home.path()), "k");
    let ids: Vec<String> = (0..TURNS).map(|no| format!("t.{no}.9")).collect();
    for batch in ids.chunks(BATCH) {
        writer.send(&batch.iter().map(|id| line(id)).collect::<String>());
        let mut messages = 0;
        while messages < 2 * batch.len() {
            messages += positions(&writer.acknowledgement()).len();
        }
    }
    writer.kill();
    home
}

/// A copy of a home with one bit of the WAL flipped.
pub(crate) fn flipped(home: &Path, at: usize, bit: usize) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for (name, mut bytes) in files(home) {
        if name == LOG {
            bytes[at] ^= 1 << bit;
        }
        fs::write(copy.path().join(name), bytes).unwrap();
    }
    copy
}

/// The number of frames in a WAL, and the first frame of its last commit.
fn frames(log: &[u8]) -> (usize, usize) {
    let count = (log.len() - HEADER) / FRAME;
    let is_commit = |frame: &usize| log[HEADER + frame * FRAME + 4..][..4] != [0; 4];
    let commits: Vec<usize> = (0..count).filter(is_commit).collect();
    assert_eq!(commits.last(), Some(&(count - 1)), "the log ends with a commit");
    (count, commits[commits.len() - 2] + 1)
}

/// Offsets to damage: every word of the header, and in frames across the WAL every header field
/// and three bytes of the page.
fn offsets(log: &[u8]) -> Vec<usize> {
    const IN_FRAME: [usize; 9] = [3, 7, 11, 15, 19, 23, 24, 24 + 2000, FRAME - 1];
    let (count, last) = frames(log);
    let some = [0, 1, count / 4, count / 2, count * 3 / 4, last - 1, last, count - 1];
    let in_frames =
        some.into_iter().flat_map(|frame| IN_FRAME.map(|at| HEADER + frame * FRAME + at));
    (0..8).map(|word| 4 * word + 2).chain(in_frames).collect()
}

fn open(home: &Path) -> Engine {
    let tokenizer = "cl100k".parse().unwrap();
    treering::open_engine_with(home, Options { tokenizer, ..Options::default() }).unwrap()
}

#[test]
fn no_flipped_wal_bit_loses_turns_silently() {
    let home = killed_home();
    let log = fs::read(home.path().join(LOG)).unwrap();
    let (count, last) = frames(&log);
    let offsets = offsets(&log);
    assert!(offsets.len() >= 40);
    for (no, at) in offsets.into_iter().enumerate() {
        let copy = flipped(home.path(), at, no % 8);
        let engine = open(copy.path());
        let report = engine.verify(|_| ()).unwrap();
        let missing = 2 * TURNS as u64 - report.messages;
        let warnings = engine.open_warnings();
        let of_log = report
            .problems
            .iter()
            .filter(|problem| problem.description.contains("the log was damaged"));
        let description =
            format!("byte {at}, {missing} messages missing: {warnings:?} {:?}", report.problems);
        // The last commits may belong to the worker, which adds no messages.
        let is_before_turns = at < HEADER + (count * 3 / 4 + 1) * FRAME;
        assert!(missing > 0 || !is_before_turns, "every frame counts: {description}");
        assert!(!warnings.is_empty() && !engine.warnings().is_empty(), "silent: {description}");
        if at < HEADER + last * FRAME {
            assert_eq!(of_log.count(), 1, "{description}");
        } else {
            assert!(missing <= 2 * BATCH as u64, "{description}");
            assert_eq!(
                of_log.count() + report.warnings.len(),
                1,
                "{description}: {:?}",
                report.warnings
            );
        }
        assert_eq!(
            fs::read_dir(copy.path()).unwrap().filter(|it| is_aside(it.as_ref().unwrap())).count(),
            1
        );
        drop(engine);
        // Later openings still warn about damage, but not about a commit that was merely
        // incomplete.
        let told_again = open(copy.path()).open_warnings();
        assert_eq!(told_again.is_empty(), report.is_clean(), "{description}");
    }
}

fn is_aside(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with("treering.db-wal.")
}

#[test]
fn commands_report_a_damaged_wal_until_its_copy_is_deleted() {
    let home = killed_home();
    let log = fs::read(home.path().join(LOG)).unwrap();
    let (count, _) = frames(&log);
    let damaged = flipped(home.path(), HEADER + count / 2 * FRAME + 1000, 3);
    let treering = Treering::at(damaged.path());
    for command in ["sessions", "stats", "status", "verify"] {
        let ended = treering.run(&[command], b"");
        let warning = parsed(&ended.errors)["warning"].as_str().unwrap().to_owned();
        assert!(
            warning.contains("the log was damaged") && warning.contains(".damaged-"),
            "{warning}"
        );
        assert_eq!(ended.code, i32::from(command == "verify"), "{ended:?}");
        assert_eq!(ended.lists_problems(), command == "verify", "{ended:?}");
    }
    let doctor = treering.run(&["doctor", "--offline"], b"");
    assert!(doctor.code == 1 && doctor.output.contains("the log was damaged"), "{doctor:?}");
    for entry in fs::read_dir(damaged.path()).unwrap().map(Result::unwrap).filter(is_aside) {
        fs::remove_file(entry.path()).unwrap();
    }
    treering.verify();
    treering.run(&["doctor", "--offline"], b"").expect_success();

    let incomplete = flipped(home.path(), HEADER + (count - 1) * FRAME + 1000, 3);
    let treering = Treering::at(incomplete.path());
    let first = treering.run(&["sessions"], b"");
    assert!(first.code == 0 && first.errors.contains("incomplete commit"), "{first:?}");
    let second = treering.run(&["sessions"], b"");
    assert!(second.code == 0 && second.errors.is_empty(), "{second:?}");
    let verified = treering.run(&["verify"], b"");
    assert!(verified.code == 0 && verified.output.contains("incomplete commit"), "{verified:?}");
    let doctor = treering.run(&["doctor", "--offline"], b"");
    assert!(doctor.code == 0 && doctor.output.contains("incomplete commit"), "{doctor:?}");
}

/// The WAL of a killed writer is not damaged, even if a second writer continued it and was
/// killed.
#[test]
fn the_wal_of_killed_writers_is_not_reported_as_damaged() {
    let mut chance = SeededRng::seeded();
    for round in 0..5 {
        let home = tempfile::tempdir().unwrap();
        let treering = Treering::at(home.path());
        let mut other_writer = WriterProcess::start(&treering, "survivor");
        other_writer.send(&line("s.0.1"));
        other_writer.acknowledgement();
        for victim in 0..2 {
            let mut writer = WriterProcess::start(&treering, "victim");
            writer.send(&line(&format!("v{victim}.0.1")));
            writer.acknowledgement();
            writer
                .send(&(1..200).map(|no| line(&format!("v{victim}.{no}.800"))).collect::<String>());
            chance.pause(60_000);
            writer.kill();
            other_writer.send(&line(&format!("s.{}.1", victim + 1)));
            other_writer.acknowledgement();
        }
        other_writer.kill();
        let engine = open(home.path());
        let warnings = engine.warnings();
        assert!(
            warnings.iter().all(|warning| !warning.contains("damaged:")),
            "round {round}: {warnings:?}"
        );
        let report = engine.verify(|_| ()).unwrap();
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
        drop(engine);
        assert_eq!(treering.turns()["survivor"], ["s.0.1", "s.1.1", "s.2.1"], "round {round}");
    }
}

#[test]
fn a_wal_without_its_database_is_refused_and_left_alone() {
    for (is_emptied, is_open) in [(false, false), (true, false), (false, true)] {
        let home = tempfile::tempdir().unwrap();
        let treering = Treering::at(home.path());
        let mut writer = WriterProcess::start(&treering, "k");
        writer.send(&line("t.0.9"));
        writer.acknowledgement();
        let mut open = Some(writer);
        if !is_open {
            open.take().unwrap().kill();
        }
        match is_emptied {
            true => fs::write(home.path().join(FILE), "").unwrap(),
            false => fs::remove_file(home.path().join(FILE)).unwrap(),
        }
        let before = files(home.path());
        let commands: [&[&str]; 7] = [
            &["sessions"],
            &["show"],
            &["export"],
            &["verify"],
            &["search", "x"],
            &["work"],
            &["append"],
        ];
        for args in commands {
            let error = treering.run(args, line("x.0.1").as_bytes()).expect_error(home.path());
            assert!(error.error.contains("database is missing or empty"), "{args:?}: {error:?}");
        }
        let doctor = treering.run(&["doctor", "--offline"], b"");
        assert!(doctor.code == 1 && doctor.output.contains("missing or empty"), "{doctor:?}");
        // A writer that is still open goes on writing its log.
        let is_writers = |name: &String| open.is_some() && name.starts_with(LOG_PREFIX);
        let mut changed = changed(home.path(), &before);
        changed.retain(|name| !is_writers(name));
        assert_eq!(changed, [""; 0]);
        drop(open.map(WriterProcess::kill));
    }
}
