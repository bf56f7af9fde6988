//! A reader without write permission, next to a writer that runs as another user.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use treering_testkit::SetOnDrop;

use crate::permissions::Unprivileged;
use crate::processes::{FILE, Treering, WriterProcess, permit};
use crate::turns::{line, parsed, turns_of};

/// A home with three turns that the reader can read but not write. `None` if the test cannot
/// switch to another user.
fn shared_home(sandbox: &Unprivileged) -> Option<(Treering, Treering)> {
    if sandbox.user.is_none() {
        eprintln!("SKIPPED: only root can run a reader as another user");
        return None;
    }
    let reader = sandbox.treering("shared");
    let writer = Treering::at(&reader.home);
    append(&writer, 0, 3);
    permit(&reader.home, 0o755);
    // SQLite gives the WAL and its index the same permissions.
    permit(&reader.home.join(FILE), 0o644);
    Some((reader, writer))
}

fn id(turn: usize) -> String {
    format!("t.{turn}.9")
}

/// Appends turns in a separate process, which then closes the store.
fn append(writer: &Treering, from: usize, until: usize) {
    let input: String = (from..until).map(|turn| line(&id(turn))).collect();
    writer.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
}

fn has_log(home: &Path) -> bool {
    home.join("treering.db-wal").exists()
}

#[test]
fn a_reader_follows_a_writer_that_appends_closes_and_appends_again() {
    let sandbox = Unprivileged::new();
    let Some((reader, writer)) = shared_home(&sandbox) else { return };
    let mut tail = TailProcess::start(&reader);
    let mut turns = 3;
    for _ in 0..3 {
        let mut open = WriterProcess::start(&writer, "k");
        for _ in 0..3 {
            open.send(&line(&id(turns)));
            open.acknowledgement();
            turns += 1;
        }
        assert!(has_log(&reader.home));
        assert_eq!(reader.turns()["k"].len(), turns, "with the log");
        reader.verify();
        tail.follow(turns);
        open.finish().expect_success();
        append(&writer, turns, turns + 1);
        turns += 1;
        tail.follow(turns);
        assert_eq!(reader.turns()["k"].len(), turns, "after the writer closed");
        reader.verify();
    }
    drop(tail);
    append(&writer, turns, turns + 1);
    assert!(!has_log(&reader.home), "the last to close empties the log");
    assert_eq!(reader.turns()["k"].len(), turns + 1);
    let error =
        reader.run(&["append", "--key", "k"], line("x.0.1").as_bytes()).expect_error(&reader.home);
    assert!(error.error.contains("read-only"), "{error:?}");
    assert_eq!(fs::read_dir(&reader.home).unwrap().count(), 3, "the store and its locks");
}

/// A reader never mistakes concurrent writers for damage, and never shows a partial history.
#[test]
fn a_reader_never_reports_a_busy_store_as_damaged() {
    const ROUNDS: usize = 12;
    let sandbox = Unprivileged::new();
    let Some((reader, writer)) = shared_home(&sandbox) else { return };
    let (written, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(3));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _end = SetOnDrop(&written);
            for round in 0..ROUNDS {
                append(&writer, 3 + round * 5, 8 + round * 5);
                acknowledged.store(8 + round * 5, Ordering::SeqCst);
            }
        });
        let mut reads = 0;
        while !written.load(Ordering::SeqCst) || reads == 0 {
            let before = acknowledged.load(Ordering::SeqCst);
            for command in ["export", "verify"] {
                let ended = reader.run(&[command], b"");
                if ended.code != 0 {
                    let error = ended.reported_error();
                    let is_transient = error.error.contains("while it was read")
                        || error.error.contains("where its index can be written");
                    assert!(is_transient, "{command}: {error:?}");
                    continue;
                }
                reads += 1;
                if command == "export" {
                    let turns = turns_of(&ended.output).remove("k").unwrap();
                    assert!(turns.iter().cloned().eq((0..turns.len()).map(id)), "{turns:?}");
                    assert!(turns.len() >= before, "{} of {before} turns", turns.len());
                } else {
                    assert_eq!(parsed(&ended.output)["clean"], true, "{}", ended.output);
                }
            }
        }
    });
    assert_eq!(reader.turns()["k"].len(), 3 + ROUNDS * 5);
}

/// `treering tail`, which keeps the store open.
struct TailProcess {
    process: Child,
    lines: BufReader<std::process::ChildStdout>,
    turns: usize,
}

impl TailProcess {
    /// Starts following after the three turns that are already stored.
    fn start(reader: &Treering) -> Self {
        let mut command = reader.command(&["tail"]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first_line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut first_line).unwrap();
        assert!(first_line.contains("following"), "{first_line}");
        let lines = BufReader::new(process.stdout.take().unwrap());
        Self { process, lines, turns: 3 }
    }

    /// Waits for events of this many turns, and for the context event after the last one.
    fn follow(&mut self, turns: usize) {
        let mut event = String::new();
        while self.turns < turns || event != "context" {
            let mut line = String::new();
            assert!(
                self.lines.read_line(&mut line).unwrap() > 0,
                "it ended after {} turns",
                self.turns
            );
            parsed(&line)["event"].as_str().unwrap().clone_into(&mut event);
            self.turns += usize::from(event == "turn");
        }
    }
}

impl Drop for TailProcess {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
