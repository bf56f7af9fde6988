//! Tests of the crash model on hand-written recordings.

use std::collections::BTreeSet;

use super::*;

const FILE: FileId = FileId(0);

fn created() -> DiskOp {
    DiskOp::Created { file: FILE, name: "a".into() }
}

fn write(offset: u64, bytes: &[u8]) -> DiskOp {
    DiskOp::Write { file: FILE, offset, bytes: bytes.to_vec(), is_lie: false }
}

fn found(bytes: &[u8]) -> DiskOp {
    DiskOp::Found { file: FILE, name: "a".into(), bytes: bytes.to_vec() }
}

/// All contents of the file over many crashes after the last entry; `None` if it is missing.
fn outcomes(entries: Vec<DiskOp>) -> BTreeSet<Option<Vec<u8>>> {
    let log = DiskTrace { entries, first_cut: 0 };
    let mut replay = Replay::new(&log);
    let states = (0..700).map(|number| {
        let mut probe = CrashPoint::sample(&log, 1, "outcomes", number);
        probe.cut = log.entries.len();
        replay.crash(&probe).files.remove("a")
    });
    states.collect()
}

fn contents(all: &[&[u8]]) -> BTreeSet<Option<Vec<u8>>> {
    all.iter().map(|bytes| Some(bytes.to_vec())).collect()
}

#[test]
fn synced_writes_survive_and_others_may_be_lost_in_any_order() {
    let entries = vec![
        found(b"...."),
        write(0, b"A"),
        DiskOp::Sync { file: FILE, start: 2 },
        write(1, b"B"),
        write(2, b"C"),
    ];
    assert_eq!(outcomes(entries), contents(&[b"A...", b"AB..", b"A.C.", b"ABC."]));
}

#[test]
fn a_write_that_comes_during_a_sync_is_not_covered() {
    let entries =
        vec![found(b".."), write(0, b"A"), write(1, b"B"), DiskOp::Sync { file: FILE, start: 2 }];
    assert_eq!(outcomes(entries), contents(&[b"A.", b"AB"]));
}

#[test]
fn a_write_behind_a_lost_one_leaves_zeros() {
    let entries = vec![found(b""), write(0, b"A"), write(1, b"B")];
    assert_eq!(outcomes(entries), contents(&[b"", b"A", b"\0", b"\0B", b"\0\0", b"AB", b"A\0"]));
}

#[test]
fn a_truncate_may_or_may_not_have_happened() {
    let entries = vec![found(b"abcd"), DiskOp::Truncate { file: FILE, size: 2, is_lie: false }];
    assert_eq!(outcomes(entries), contents(&[b"abcd", b"ab"]));
}

#[test]
fn a_created_file_may_be_missing_until_its_directory_is_synced() {
    let mut entries = vec![created(), write(0, b"A"), DiskOp::Sync { file: FILE, start: 2 }];
    assert_eq!(outcomes(entries.clone()), BTreeSet::from([None, Some(b"A".to_vec())]));
    entries.push(DiskOp::DirectorySync { start: 3 });
    assert_eq!(outcomes(entries), contents(&[b"A"]));
}

#[test]
fn a_deleted_file_may_be_back_until_its_directory_is_synced() {
    let mut entries = vec![found(b"A"), DiskOp::Deleted { name: "a".into() }];
    assert_eq!(outcomes(entries.clone()), BTreeSet::from([None, Some(b"A".to_vec())]));
    entries.push(DiskOp::DirectorySync { start: 2 });
    assert_eq!(outcomes(entries), BTreeSet::from([None]));
}

#[test]
fn a_file_that_replaces_a_deleted_one_has_contents_of_its_own() {
    let entries = vec![
        found(b"old"),
        DiskOp::Deleted { name: "a".into() },
        DiskOp::Created { file: FileId(1), name: "a".into() },
        DiskOp::Write { file: FileId(1), offset: 0, bytes: b"new".to_vec(), is_lie: false },
        DiskOp::Sync { file: FileId(1), start: 4 },
    ];
    let expected = BTreeSet::from([None, Some(b"old".to_vec()), Some(b"new".to_vec())]);
    assert_eq!(outcomes(entries), expected);
}

#[test]
fn after_a_failed_sync_a_later_one_saves_only_newer_writes() {
    let mut entries = vec![
        found(b".."),
        write(0, b"A"),
        DiskOp::FailedSync { file: FILE, start: 2 },
        write(1, b"B"),
        DiskOp::Sync { file: FILE, start: 4 },
    ];
    assert_eq!(outcomes(entries.clone()), contents(&[b".B", b"AB"]));
    entries.extend([write(0, b"A"), DiskOp::Sync { file: FILE, start: 6 }]);
    assert_eq!(outcomes(entries), contents(&[b"AB"]), "a second write is durable");
}

#[test]
fn a_write_the_disk_lied_about_never_becomes_durable() {
    let lying_write = DiskOp::Write { file: FILE, offset: 0, bytes: b"A".to_vec(), is_lie: true };
    let entries = vec![found(b"."), lying_write, DiskOp::Sync { file: FILE, start: 2 }];
    assert_eq!(outcomes(entries), contents(&[b".", b"A"]));
}

#[test]
fn a_torn_write_is_torn_at_the_sectors_of_the_file() {
    assert_eq!(sectors_of(500, 600), [(0, 12), (12, 524), (524, 600)]);
    assert_eq!(sectors_of(1024, 512), [(0, 512)]);
    let entries = vec![found(&[0; 1024]), write(0, &[1; 1024])];
    let sectors = |content: &Vec<u8>| (content[0], content[511], content[512], content[1023]);
    let torn: BTreeSet<_> = outcomes(entries).iter().flatten().map(sectors).collect();
    assert_eq!(torn, BTreeSet::from([(0, 0, 0, 0), (1, 1, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1)]));
}

#[test]
fn a_seed_repeats_a_state() {
    let entries = (0..40).map(|index| write(index * 700, &[7; 700])).collect();
    let log = DiskTrace { entries, first_cut: 0 };
    let state = |number| {
        let probe = CrashPoint::sample(&log, 3, "repeats", number);
        let mut entries = vec![created(), DiskOp::DirectorySync { start: 1 }];
        entries.extend(log.entries.iter().cloned());
        Replay::new(&DiskTrace { entries, first_cut: 0 }).crash(&probe).files
    };
    assert_eq!(state(6), state(6));
    assert_ne!(state(6), state(13));
}
