//! Homes without write permission.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::damage::alter;
use crate::processes::{READING, Treering, WriterProcess, changed, files, permit};
use crate::turns::{line, positions};

#[test]
fn a_read_only_home_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("closed", false);
    place.forbid(&treering.home, 0o555);
    place.check_reading(&treering, 3);
}

#[test]
fn a_read_only_home_with_a_wal_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("killed", true);
    assert!(fs::metadata(treering.home.join("treering.db-wal")).unwrap().len() > 0);
    place.forbid(&treering.home, 0o555);
    place.check_reading(&treering, 3);
}

/// SQLite may be unable to read a WAL without its index. The program then fails rather than show
/// a history without the turns in the WAL.
#[test]
fn a_read_only_wal_without_its_index_is_read_completely_or_refused() {
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
            ended.expect_error(&treering.home);
        }
    }
    treering.run(&["append", "--key", "k"], line("x.0.1").as_bytes()).expect_error(&treering.home);
    assert_eq!(changed(&treering.home, &before), [""; 0]);
    place.allow(&treering.home);
}

/// The damaged WAL cannot be copied aside here, but the missing data is reported all the same.
#[test]
fn a_damaged_wal_in_a_read_only_home_is_reported() {
    let place = Unprivileged::new();
    let treering = place.store("damaged", false);
    let mut writer = WriterProcess::start(&Treering::at(&treering.home), "k");
    for turn in 3..6 {
        writer.send(&line(&format!("t.{turn}.9")));
        writer.acknowledgement();
    }
    writer.kill();
    let log = treering.home.join("treering.db-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[100] ^= 1;
    fs::write(&log, bytes).unwrap();
    place.forbid(&treering.home, 0o555);
    let before = files(&treering.home);
    for command in ["stats", "verify"] {
        let ended = treering.run(&[command], b"");
        assert!(ended.errors.contains("is damaged"), "{ended:?}");
        assert_eq!(ended.lists_problems(), command == "verify", "{ended:?}");
    }
    assert_eq!(changed(&treering.home, &before), [""; 0]);
    place.allow(&treering.home);
}

/// Only the file is read-only. Files can be created next to it, but none is left behind.
#[test]
fn a_read_only_file_is_read_and_left_alone() {
    let place = Unprivileged::new();
    let treering = place.store("file", false);
    place.forbid(&treering.home, 0o777);
    place.check_reading(&treering, 3);
}

#[test]
fn a_read_only_folder_without_a_store_is_refused() {
    let place = Unprivileged::new();
    let treering = place.treering("empty");
    fs::create_dir(&treering.home).unwrap();
    place.forbid(&treering.home, 0o555);
    let append = treering.run(&["append", "--key", "k"], line("x.0.1").as_bytes());
    append.expect_error(&treering.home);
    let inside = Treering { home: treering.home.join("deeper"), ..treering.clone() };
    inside.run(&["sessions"], b"").expect_error(&treering.home);
    assert_eq!(files(&treering.home), BTreeMap::new());
    place.allow(&treering.home);
}

#[test]
fn a_read_only_store_of_a_newer_or_another_program_is_refused() {
    let place = Unprivileged::new();
    let newer = place.store("newer", false);
    alter(&newer.home, "PRAGMA user_version = 999");
    let other = place.treering("other");
    fs::create_dir(&other.home).unwrap();
    alter(
        &other.home,
        "PRAGMA journal_mode = WAL; CREATE TABLE songs (name); PRAGMA user_version = 1",
    );
    for (treering, word) in [(newer, "999"), (other, "another program")] {
        place.forbid(&treering.home, 0o555);
        let before = files(&treering.home);
        for command in READING {
            let complaint = treering.run(&[command], b"").expect_error(&treering.home);
            assert!(complaint.error.contains(word), "{command}: {complaint:?}");
            if word == "999" {
                assert!(complaint.hint.contains("newer"), "{command}: {complaint:?}");
            }
        }
        assert_eq!(changed(&treering.home, &before), [""; 0]);
        place.allow(&treering.home);
    }
}

/// An environment in which the program runs as a user without write permission. Permissions do
/// not bind root, so root runs it as another user, who needs a copy of the program.
pub(crate) struct Unprivileged {
    folder: TempDir,
    program: PathBuf,
    /// The user that runs the program, if not the user of the test.
    pub(crate) user: Option<u32>,
}

impl Unprivileged {
    const NOBODY: u32 = 65534;

    pub(crate) fn new() -> Self {
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

    pub(crate) fn treering(&self, name: &str) -> Treering {
        Treering {
            program: self.program.clone(),
            home: self.folder.path().join(name),
            user: self.user,
        }
    }

    /// A store of three turns, closed cleanly or left with its WAL by a killed writer.
    fn store(&self, name: &str, killed: bool) -> Treering {
        let treering = self.treering(name);
        let mut writer = WriterProcess::start(&Treering::at(&treering.home), "k");
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

    /// Makes the files of a home read-only and sets the mode of its folder.
    fn forbid(&self, home: &Path, folder: u32) {
        fs::read_dir(home).unwrap().for_each(|entry| permit(&entry.unwrap().path(), 0o444));
        permit(home, folder);
    }

    /// Makes the folder writable again, so that it can be removed.
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
            treering.run(&["append", "--key", "k"], input.as_bytes()).expect_error(&treering.home);
        assert!(complaint.error.contains("read-only"), "{complaint:?}");
        assert!(complaint.hint.contains("write access"), "{complaint:?}");
        assert_eq!(changed(&treering.home, &before), [""; 0], "after append");
        self.allow(&treering.home);
    }
}
