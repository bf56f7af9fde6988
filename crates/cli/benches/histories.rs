//! Measures hooks on long transcripts, and importers at growing sizes, as real processes.
//!
//! `cargo bench --bench histories`, or one part: `-- hooks`, `-- importers`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod report;

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use report::{millis, row};
use serde_json::json;

/// The time of a process, and its peak memory in MB.
struct Usage {
    time: Duration,
    peak_mb: f64,
}

/// Runs the program and polls its peak memory until it ends.
fn run(home: &Path, args: &[&str], input: &str) -> Usage {
    let started = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_treering"))
        .args(args)
        .env_clear()
        .env("TREERING_HOME", home.join("memory"))
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kb = 0.0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
        peak_kb = kb.unwrap_or(peak_kb).max(peak_kb);
        std::thread::sleep(Duration::from_micros(500));
    }
    Usage { time: started.elapsed(), peak_mb: peak_kb / 1024.0 }
}

/// A session of Claude Code: turns with six tool calls of 3 KB each.
struct Session {
    text: String,
    latest: Option<String>,
    records: u64,
}

impl Session {
    fn record(&mut self, kind: &str, content: &serde_json::Value, end: bool) {
        self.records += 1;
        let uuid = format!("00000000-0000-4000-8000-{:012x}", self.records);
        let record = json!({ "type": kind, "uuid": uuid, "parentUuid": self.latest, "sessionId": "s", "cwd": "/w",
            "timestamp": "2026-03-01T10:00:00Z",
            "message": { "content": content, "stop_reason": end.then_some("end_turn") } });
        writeln!(self.text, "{record}").unwrap();
        self.latest = Some(uuid);
    }

    fn turn(&mut self) {
        let number = self.records;
        self.record("user", &json!(format!("Look at part {number} of the pump.")), false);
        for call in 0..6 {
            let id = format!("toolu_{number}_{call}");
            let body = format!("valve {number} of {call} is open; ").repeat(100);
            self.record("assistant", &json!([{ "type": "tool_use", "id": id, "name": "Read", "input": { "path": "pump.rs" } }]), false);
            self.record(
                "user",
                &json!([{ "type": "tool_result", "tool_use_id": id, "content": body }]),
                false,
            );
        }
        self.record(
            "assistant",
            &json!([{ "type": "text", "text": format!("Part {number} is fine.") }]),
            true,
        );
    }
}

fn hooks() {
    println!("\nA hook after one more turn");
    for megabytes in [3, 27, 270] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("session.jsonl");
        let mut session = Session { text: String::new(), latest: None, records: 0 };
        while session.text.len() < megabytes * 1_000_000 {
            session.turn();
        }
        fs::write(&path, &session.text).unwrap();
        run(home.path(), &["import", "--no-tree", path.to_str().unwrap()], "");
        session.text.clear();
        let input = json!({ "transcript_path": path, "hook_event_name": "Stop" }).to_string();
        let mut usages: Vec<Usage> = (0..21)
            .map(|_| {
                session.turn();
                let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
                file.write_all(session.text.as_bytes()).unwrap();
                session.text.clear();
                run(home.path(), &["hook", "claude-code"], &input)
            })
            .collect();
        usages.sort_by_key(|usage| usage.time);
        let peak = usages.iter().map(|usage| usage.peak_mb).fold(0.0, f64::max);
        row(&format!("{megabytes} MB: time, median of 21"), millis(usages[10].time), 50.0, "ms");
        row(&format!("{megabytes} MB: peak memory"), peak, 60.0, "MB");
    }
}

/// A ChatGPT export with one conversation of so many messages in a row.
fn chatgpt(messages: usize) -> String {
    let mut mapping = serde_json::Map::new();
    for number in 0..messages {
        let role = if number % 2 == 0 { "user" } else { "assistant" };
        let parent = number.checked_sub(1).map(|parent| format!("n{parent}"));
        let message = json!({ "author": { "role": role }, "create_time": 1_760_000_000 + number,
            "content": { "content_type": "text", "parts": [format!("Message {number} about the pump.")] } });
        mapping.insert(format!("n{number}"), json!({ "message": message, "parent": parent }));
    }
    json!([{ "title": "Pumps", "create_time": 1_760_000_000, "mapping": mapping, "id": "c1",
        "current_node": format!("n{}", messages - 1) }])
    .to_string()
}

/// A Markdown transcript of so many bytes.
fn markdown(bytes: usize) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        write!(text, "## User\n\nWhat about valve {number}?\n\n## Assistant\n\nIt is open.\n\n")
            .unwrap();
    }
    text
}

fn importers() {
    println!("\nImporters at ten times the size: the time grows ten times");
    let measure = |label: &str, name: &str, make: &dyn Fn(usize) -> String, sizes: [usize; 3]| {
        let mut before: Option<f64> = None;
        for size in sizes {
            let home = tempfile::tempdir().unwrap();
            let path: PathBuf = home.path().join(name);
            let text = make(size);
            fs::write(&path, &text).unwrap();
            let usage = run(home.path(), &["import", "--dry-run", path.to_str().unwrap()], "");
            let megabytes = text.len() as f64 / 1e6;
            println!(
                "  {label}, {size}: {:.0} ms, {:.0} MB of memory for {megabytes:.1} MB",
                millis(usage.time),
                usage.peak_mb
            );
            if let Some(before) = before {
                row("  ratio to the size before", millis(usage.time) / before, 12.0, "x");
            }
            before = Some(millis(usage.time));
        }
    };
    measure("chatgpt messages", "conversations.json", &chatgpt, [2_000, 20_000, 200_000]);
    measure("markdown bytes", "chat.md", &markdown, [300_000, 3_000_000, 30_000_000]);
}

fn main() {
    let part = std::env::args().nth(1).filter(|part| !part.starts_with("--"));
    let runs = |name: &str| part.as_deref().is_none_or(|part| part == name);
    if runs("hooks") {
        hooks();
    }
    if runs("importers") {
        importers();
    }
}
