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
    let sandbox = Unprivileged::new();
    let treering = sandbox.store("closed", false);
    sandbox.forbid(&treering.home, 0o555);
    sandbox.check_reading(&treering, 3);
}

#[test]
fn a_read_only_home_with_a_wal_is_read_and_left_alone() {
    let sandbox = Unprivileged::new();
    let treering = sandbox.store("killed", true);
    assert!(fs::metadata(treering.home.join("treering.db-wal")).unwrap().len() > 0);
    sandbox.forbid(&treering.home, 0o555);
    sandbox.check_reading(&treering, 3);
}

/// SQLite may be unable to read a WAL without its index. The program then fails rather than show
/// a history without the turns in the WAL.
#[test]
fn a_read_only_wal_without_its_index_is_read_completely_or_refused() {
    let sandbox = Unprivileged::new();
    let treering = sandbox.store("log alone", true);
    fs::remove_file(treering.home.join("treering.db-shm")).unwrap();
    sandbox.forbid(&treering.home, 0o555);
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
    sandbox.allow(&treering.home);
}

/// The damaged WAL cannot be copied aside here, but the missing data is reported all the same.
#[test]
fn a_damaged_wal_in_a_read_only_home_is_reported() {
    let sandbox = Unprivileged::new();
    let treering = sandbox.store("damaged", false);
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
    sandbox.forbid(&treering.home, 0o555);
    let before = files(&treering.home);
    for command in ["stats", "verify"] {
        let ended = treering.run(&[command], b"");
        assert!(ended.errors.contains("is damaged"), "{ended:?}");
        assert_eq!(ended.lists_problems(), command == "verify", "{ended:?}");
    }
    assert_eq!(changed(&treering.home, &before), [""; 0]);
    sandbox.allow(&treering.home);
}

/// Only the file is read-only. Files can be created next to it, but none is left behind.
#[test]
fn a_read_only_file_is_read_and_left_alone() {
    let sandbox = Unprivileged::new();
    let treering = sandbox.store("file", false);
    sandbox.forbid(&treering.home, 0o777);
    sandbox.check_reading(&treering, 3);
}

#[test]
fn a_read_only_folder_without_a_store_is_refused() {
    let sandbox = Unprivileged::new();
    let treering = sandbox.treering("empty");
    fs::create_dir(&treering.home).unwrap();
    sandbox.forbid(&treering.home, 0o555);
    let append = treering.run(&["append", "--key", "k"], line("x.0.1").as_bytes());
    append.expect_error(&treering.home);
    let subfolder = Treering { home: treering.home.join("deeper"), ..treering.clone() };
    subfolder.run(&["sessions"], b"").expect_error(&treering.home);
    assert_eq!(files(&treering.home), BTreeMap::new());
    sandbox.allow(&treering.home);
}

#[test]
fn a_read_only_store_of_a_newer_or_another_program_is_refused() {
    let sandbox = Unprivileged::new();
    let newer = sandbox.store("newer", false);
    alter(&newer.home, "PRAGMA user_version = 999");
    let other = sandbox.treering("other");
    fs::create_dir(&other.home).unwrap();
    alter(
        &other.home,
        "PRAGMA journal_mode = WAL; CREATE TABLE songs (name); PRAGMA user_version = 1",
    );
    for (treering, word) in [(newer, "999"), (other, "another program")] {
        sandbox.forbid(&treering.home, 0o555);
        let before = files(&treering.home);
        for command in READING {
            let error = treering.run(&[command], b"").expect_error(&treering.home);
            assert!(error.error.contains(word), "{command}: {error:?}");
            if word == "999" {
                assert!(error.hint.contains("newer"), "{command}: {error:?}");
            }
        }
        assert_eq!(changed(&treering.home, &before), [""; 0]);
        sandbox.allow(&treering.home);
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
        let mut sandbox =
            Self { folder, program: env!("CARGO_BIN_EXE_treering").into(), user: None };
        if fs::metadata(sandbox.folder.path()).unwrap().uid() == 0 {
            let copy = sandbox.folder.path().join("treering");
            fs::copy(&sandbox.program, &copy).unwrap();
            permit(&copy, 0o755);
            (sandbox.program, sandbox.user) = (copy, Some(Self::NOBODY));
        }
        sandbox
    }

    pub(crate) fn treering(&self, name: &str) -> Treering {
        Treering {
            program: self.program.clone(),
            home: self.folder.path().join(name),
            user: self.user,
        }
    }

    /// A store of three turns, closed cleanly or left with its WAL by a killed writer.
    fn store(&self, name: &str, kill_writer: bool) -> Treering {
        let treering = self.treering(name);
        let mut writer = WriterProcess::start(&Treering::at(&treering.home), "k");
        writer.send(&(0..3).map(|no| line(&format!("t.{no}.9"))).collect::<String>());
        let mut stored = 0;
        while stored < 6 {
            stored += positions(&writer.acknowledgement()).len();
        }
        if kill_writer {
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
        let error =
            treering.run(&["append", "--key", "k"], input.as_bytes()).expect_error(&treering.home);
        assert!(error.error.contains("read-only"), "{error:?}");
        assert!(error.hint.contains("write access"), "{error:?}");
        assert_eq!(changed(&treering.home, &before), [""; 0], "after append");
        self.allow(&treering.home);
    }
}
