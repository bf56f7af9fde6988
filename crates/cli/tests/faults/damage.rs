//! Store files that are damaged or belong to other programs.

use std::fs;
use std::path::Path;

use rusqlite::Connection;

use crate::processes::{FILE, READING, ReportedError, Treering, changed, files};
use crate::rng::SeededRng;
use crate::turns::line;

#[test]
fn a_file_of_random_bytes_is_refused_and_left_alone() {
    let mut chance = SeededRng::seeded();
    for size in [2, 100, 5_000, 100_000] {
        let home = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..size).map(|_| chance.byte()).collect();
        fs::write(home.path().join(FILE), bytes).unwrap();
        let errors = refused(home.path());
        assert!(errors.iter().all(|it| it.error.contains("not a Treering store")), "{errors:?}");
    }
}

#[test]
fn a_truncated_store_is_refused_and_left_alone() {
    let intact = sample_store();
    let length = intact.len() as u64;
    // SQLite reads the missing end of the last page as zeros.
    damaged(&intact[..intact.len() - 1], false, "a store without its last byte");
    for cut in [100, 511, 4096, length / 2, length / 2 / 4096 * 4096, length - 4096] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), &intact[..usize::try_from(cut).unwrap()]).unwrap();
        let treering = Treering::at(home.path());
        let before = files(home.path());
        for command in READING {
            let ended = treering.run(&[command], b"");
            assert_eq!(ended.code, 1, "{command} of a store cut at {cut} of {length}: {ended:?}");
            if !(command == "verify" && ended.lists_problems()) {
                ended.expect_error(home.path());
            }
        }
        assert_eq!(changed(home.path(), &before), [""; 0], "cut at {cut}");
    }
}

#[test]
fn damaged_pages_are_found_and_left_alone() {
    const PAGE: usize = 4096;
    let intact = sample_store();
    let mut chance = SeededRng::seeded();
    let pages = intact.len() / PAGE;
    for attempt in 0..40 {
        let mut bytes = intact.clone();
        // The first pages hold the schema and the roots, so each is damaged once; the rest are
        // random.
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

/// Every command handles a damaged store; if `certainly` is set, `verify` must report the damage.
fn damaged(bytes: &[u8], certainly: bool, description: &str) {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FILE), bytes).unwrap();
    let treering = Treering::at(home.path());
    let before = files(home.path());
    for command in READING {
        let ended = treering.run(&[command], b"");
        if command == "verify" && certainly {
            assert_eq!(ended.code, 1, "verify of {description}: {ended:?}");
        }
        // A page that reads as an empty table can make the store look empty. `verify` still
        // reports the rows that refer to it.
        let looks_empty =
            || !certainly && ended.reported_error().error.starts_with("no conversations yet");
        let lists_problems = || command == "verify" && ended.lists_problems();
        if ended.code != 0 && !lists_problems() && !looks_empty() {
            ended.expect_error(home.path());
        }
        assert_eq!(changed(home.path(), &before), [""; 0], "{command} of {description}");
    }
    let ended = treering.run(&["append", "--key", "k"], line("after.0.5").as_bytes());
    if ended.code != 0 {
        ended.expect_error(home.path());
    }
}

#[test]
fn a_database_of_another_program_is_refused_and_left_alone() {
    for journal in ["DELETE", "WAL"] {
        let home = tempfile::tempdir().unwrap();
        let script = format!("PRAGMA journal_mode = {journal}; CREATE TABLE songs (name)");
        alter(home.path(), &script);
        let errors = refused(home.path());
        assert!(errors.iter().all(|it| it.error.contains("another program")), "{errors:?}");
    }
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    for journal in ["WAL", "DELETE"] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FILE), sample_store()).unwrap();
        alter(home.path(), &format!("PRAGMA journal_mode = {journal}; PRAGMA user_version = 999"));
        let errors = refused(home.path());
        let clear = |it: &ReportedError| it.error.contains("999") && it.hint.contains("newer");
        assert!(errors.iter().all(clear), "{journal}: {errors:?}");
    }
}

/// The WAL of another program, or of a newer version, is not touched either.
#[test]
fn a_foreign_wal_is_left_alone() {
    let store_bytes = sample_store();
    for script in ["CREATE TABLE songs (name)", "PRAGMA user_version = 999"] {
        let (source, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        if script.starts_with("PRAGMA") {
            fs::write(source.path().join(FILE), &store_bytes).unwrap();
        }
        let connection = Connection::open(source.path().join(FILE)).unwrap();
        connection.execute_batch(&format!("PRAGMA journal_mode = WAL; {script}")).unwrap();
        for name in [FILE, "treering.db-wal"] {
            fs::copy(source.path().join(name), home.path().join(name)).unwrap();
        }
        refused(home.path());
    }
}

/// A closed store is a single file, so that copying that file copies everything.
#[test]
fn read_commands_leave_a_single_file() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(FILE), sample_store()).unwrap();
    let before = files(home.path());
    for command in READING {
        Treering::at(home.path()).run(&[command], b"").expect_success();
        assert_eq!(changed(home.path(), &before), [""; 0], "after {command}");
    }
}

/// Every command fails with a clear error and leaves the files unchanged.
fn refused(home: &Path) -> Vec<ReportedError> {
    let treering = Treering::at(home);
    let kept = |home: &Path| {
        let mut kept = files(home);
        // The WAL index is scratch space that every opening process may rebuild.
        kept.remove("treering.db-shm");
        kept
    };
    let before = kept(home);
    let mut errors = Vec::new();
    for args in
        READING.map(|command| vec![command]).into_iter().chain([vec!["append", "--key", "k"]])
    {
        let ended = treering.run(&args, line("x.0.1").as_bytes());
        errors.push(ended.expect_error(home));
        assert!(kept(home) == before, "{args:?} changed {:?}", before.keys());
    }
    errors
}

/// A store file large enough to have pages of every kind.
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

/// Alters a store's file behind Treering's back.
pub(crate) fn alter(home: &Path, script: &str) {
    Connection::open(home.join(FILE)).unwrap().execute_batch(script).unwrap();
}
