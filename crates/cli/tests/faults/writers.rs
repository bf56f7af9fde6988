//! Concurrent writers.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;

use crate::processes::{Treering, WriterProcess};
use crate::turns::line;

#[test]
fn processes_write_to_different_conversations_concurrently() {
    write_together(2, |no| format!("own-{no}"));
    write_together(4, |no| format!("own-{no}"));
}

#[test]
fn processes_write_to_the_same_conversation_concurrently() {
    write_together(2, |_| "shared".into());
    write_together(4, |_| "shared".into());
}

/// Each process writes its turns, a few at a time, while another process reads and verifies.
fn write_together(writers: usize, key: impl Fn(usize) -> String) {
    const TURNS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let treering = Treering::at(&folder.path().join("home"));
    let ids =
        |no: usize| -> Vec<String> { (0..TURNS).map(|turn| format!("w{no}.{turn}.20")).collect() };
    let writing = AtomicBool::new(true);
    thread::scope(|scope| {
        let started: Vec<WriterProcess> =
            (0..writers).map(|no| WriterProcess::start(&treering, &key(no))).collect();
        let write = |(no, mut writer): (usize, WriterProcess)| {
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
        let turns_of_writer: Vec<_> =
            stored[&key(no)].iter().filter(|id| id.starts_with(&prefix)).cloned().collect();
        assert_eq!(turns_of_writer, ids(no), "the turns of writer {no}, in its order");
    }
    assert_eq!(stored.values().map(Vec::len).sum::<usize>(), writers * TURNS);
    assert_eq!(stored.len(), (0..writers).map(&key).collect::<BTreeSet<_>>().len());
    treering.verify();
}

/// Processes wait at a gate and are released together while the home does not exist yet.
#[test]
fn processes_create_the_same_home_concurrently() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let treering = Treering::at(&folder.path().join("not/there/yet"));
        let count = if round % 2 == 0 { 2 } else { 4 };
        let gate = "read go; exec \"$@\"";
        let mut waiting: Vec<WriterProcess> = (0..count)
            .map(|_| {
                let mut command = Command::new("sh");
                let append = treering.command(&["append", "--key", "first"]);
                command
                    .args(["-c", gate, "gate"])
                    .arg(append.get_program())
                    .args(append.get_args());
                WriterProcess::spawn(command)
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
        let turns: BTreeSet<String> =
            treering.turns().remove("first").unwrap().into_iter().collect();
        assert_eq!(turns, (0..count).map(|no| format!("w{no}.0.1")).collect(), "round {round}");
        treering.verify();
    }
}
