//! Backups that are taken while other processes write, and restored.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use treering_testkit::SetOnDrop;

use crate::damage::alter;
use crate::processes::{FILE, Treering, WriterProcess, changed, files};
use crate::turns::{line, parsed};
use crate::wal_recovery::{flipped, killed_home};

fn backup(treering: &Treering, file: &Path) -> Value {
    parsed(&treering.run(&["backup", file.to_str().unwrap()], b"").expect_success())
}

fn restore(treering: &Treering, file: &Path) -> Value {
    parsed(&treering.run(&["restore", "--yes", file.to_str().unwrap()], b"").expect_success())
}

/// A store with this many turns.
fn store(home: &Path, turns: usize) -> Treering {
    let treering = Treering::at(home);
    let input: String = (0..turns).map(|no| line(&format!("t.{no}.9"))).collect();
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    treering
}

#[test]
fn backups_under_load_contain_all_acknowledged_turns() {
    const WRITERS: usize = 3;
    let folder = tempfile::tempdir().unwrap();
    let treering = Treering::at(&folder.path().join("home"));
    let acknowledged: [AtomicUsize; WRITERS] = Default::default();
    let stopped = AtomicBool::new(false);
    let mut backups: Vec<(PathBuf, Vec<usize>)> = Vec::new();
    thread::scope(|scope| {
        let _stop = SetOnDrop(&stopped);
        for (no, acknowledged) in acknowledged.iter().enumerate() {
            let mut writer = WriterProcess::start(&treering, &format!("w{no}"));
            let stopped = &stopped;
            scope.spawn(move || {
                for turn in (0..).take_while(|_| !stopped.load(Ordering::SeqCst)) {
                    writer.send(&line(&format!("w{no}.{turn}.50")));
                    writer.acknowledgement();
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
                writer.finish().expect_success();
            });
        }
        while acknowledged.iter().any(|it| it.load(Ordering::SeqCst) == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        for round in 0..5 {
            let before = acknowledged.iter().map(|it| it.load(Ordering::SeqCst)).collect();
            let file = folder.path().join(format!("{round}.db"));
            backup(&treering, &file);
            backups.push((file, before));
        }
    });
    for (round, (file, before)) in backups.iter().enumerate() {
        let copy = Treering::at(&folder.path().join(format!("copy-{round}")));
        assert_eq!(restore(&copy, file)["replaced"], Value::Null);
        copy.verify();
        let turns = copy.turns();
        for (no, before) in before.iter().enumerate() {
            let found = &turns[&format!("w{no}")];
            let written = (0..found.len()).map(|turn| format!("w{no}.{turn}.50"));
            assert!(found.iter().cloned().eq(written), "backup {round} has gaps");
            assert!(found.len() >= *before, "backup {round} lacks turns of writer {no}");
        }
    }
}

#[test]
fn a_backup_is_private_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (treering, out) = (store(&folder.path().join("home"), 3), folder.path().join("out"));
    fs::create_dir(&out).unwrap();
    let file = out.join("a.db");
    let report = backup(&treering, &file);
    assert_eq!((&report["conversations"], &report["messages"]), (&1.into(), &6.into()));
    assert_eq!(report["bytes"], fs::metadata(&file).unwrap().len());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let before = files(&out);
    let refused = treering.run(&["backup", file.to_str().unwrap()], b"");
    assert!(refused.code == 1 && refused.reported_error().error.contains("exists"), "{refused:?}");
    let missing_folder = out.join("none").join("a.db");
    treering.run(&["backup", missing_folder.to_str().unwrap()], b"").reported_error();
    assert_eq!(changed(&out, &before), [""; 0], "nothing partial is left either");
}

/// A store of three turns, and its backup.
fn backed_up_store(folder: &Path) -> (Treering, PathBuf) {
    let treering = store(&folder.join("home"), 3);
    let file = folder.join("three.db");
    backup(&treering, &file);
    (treering, file)
}

fn writer_of_one_turn(treering: &Treering) -> WriterProcess {
    let mut writer = WriterProcess::start(treering, "k");
    writer.send(&line("u.0.9"));
    writer.acknowledgement();
    writer
}

#[test]
fn the_replaced_store_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (treering, file) = backed_up_store(folder.path());
    // A killed writer leaves its last turns in the WAL.
    let writer = writer_of_one_turn(&treering);
    writer.kill();
    let unanswered = treering.run(&["restore", file.to_str().unwrap()], b"");
    assert!(unanswered.code == 1 && unanswered.errors.contains("--yes"), "{unanswered:?}");
    let restored = restore(&treering, &file);
    assert_eq!((&restored["conversations"], &restored["messages"]), (&1.into(), &6.into()));
    assert!(restored["modified"].is_string() && restored["schema_version"].is_u64(), "{restored}");
    assert_eq!(treering.turns()["k"].len(), 3);
    treering.verify();
    let kept = PathBuf::from(restored["replaced"].as_str().unwrap());
    assert_eq!(kept.parent(), Some(&*treering.home));
    assert_eq!(restore(&treering, &kept)["messages"], 8, "what was kept is a backup too");
    assert_eq!(treering.turns()["k"].len(), 4);
    treering.verify();
}

#[test]
fn invalid_backups_are_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let treering = store(&at("home"), 3);
    let valid = at("good.db");
    backup(&treering, &valid);
    let bytes_of_valid = fs::read(&valid).unwrap();
    let text = bytes_of_valid.windows(14).position(|it| it == b"The answer to ").unwrap();
    let damaged = |at: usize| {
        let mut bytes = bytes_of_valid.clone();
        bytes[at] ^= 1;
        bytes
    };
    let files_and_words: BTreeMap<&str, (Vec<u8>, &str)> = BTreeMap::from([
        ("empty", (Vec::new(), "not a Treering store")),
        ("noise", (vec![7; 9000], "not a Treering store")),
        ("cut", (bytes_of_valid[..bytes_of_valid.len() / 2].to_vec(), "damaged")),
        ("tree", (damaged(bytes_of_valid.len() / 2 / 4096 * 4096), "damaged")),
        ("text", (damaged(text), "not what was stored")),
    ]);
    for (name, (bytes, _)) in &files_and_words {
        fs::write(at(name), bytes).unwrap();
    }
    let mut cases: Vec<(PathBuf, &str)> =
        files_and_words.iter().map(|(name, (_, word))| (at(name), *word)).collect();
    for (name, script, word) in [
        ("newer", "PRAGMA user_version = 999", "999"),
        ("other", "CREATE TABLE songs (name)", "another program"),
    ] {
        fs::create_dir(at(name)).unwrap();
        if name == "newer" {
            fs::copy(&valid, at(name).join(FILE)).unwrap();
        }
        alter(&at(name), script);
        cases.push((at(name).join(FILE), word));
    }
    fs::copy(&valid, at("logged")).unwrap();
    fs::write(at("logged-wal"), "x").unwrap();
    cases.push((at("logged"), "log"));
    cases.push((at("missing"), "no such file"));
    cases.push((treering.home.join(FILE), "the store itself"));
    let before = files(&treering.home);
    for (file, word) in cases {
        let refused = treering.run(&["restore", "--yes", file.to_str().unwrap()], b"");
        let error = refused.expect_error(&file);
        assert!(error.error.contains(word), "{}: {error:?}", file.display());
        assert_eq!(changed(&treering.home, &before), [""; 0], "{}", file.display());
    }
}

#[test]
fn an_open_home_is_not_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (treering, file) = backed_up_store(folder.path());
    let mut writer = writer_of_one_turn(&treering);
    let refused = treering.run(&["restore", "--yes", file.to_str().unwrap()], b"");
    let error = refused.expect_error(&treering.home);
    assert!(error.error.contains("another process"), "{error:?}");
    writer.send(&line("u.1.9"));
    writer.acknowledgement();
    writer.finish().expect_success();
    assert_eq!(treering.turns()["k"].len(), 5);
    treering.verify();
}

/// The warning about a damaged WAL recommends a restore, so a restore must end the warning.
#[test]
fn restoring_a_backup_ends_the_warning_about_a_damaged_wal() {
    let killed_dir = killed_home();
    let home = flipped(killed_dir.path(), 10_000, 0);
    let treering = Treering::at(home.path());
    assert!(treering.run(&["sessions"], b"").errors.contains("the log was damaged"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("good.db");
    backup(&Treering::at(killed_dir.path()), &file);
    restore(&treering, &file);
    treering.run(&["sessions"], b"").expect_success();
    treering.verify();
    // A missing database is replaced as well.
    fs::remove_file(home.path().join(FILE)).unwrap();
    assert!(restore(&treering, &file)["replaced"].is_null());
    treering.verify();
}
