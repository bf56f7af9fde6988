//! Search from the command line: one process writes while others search.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::home::Home;

/// A process that keeps appending while others search.
struct AppendProcess {
    child: Child,
    lines: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl AppendProcess {
    fn begin(home: &Home, key: &str) -> Self {
        let mut command = home.command(&["--json", "append", "--key", key]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (lines, answers) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, lines, answers }
    }

    /// Stores a line. Returns the position of its first message.
    fn store(&mut self, line: &Value) -> u64 {
        writeln!(self.lines.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()["messages"][0].as_u64().unwrap()
    }

    fn end(mut self) {
        drop(self.lines.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn hits(home: &Home, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["search"].iter().chain(args).copied().collect();
    home.items(&args).as_array().unwrap().clone()
}

#[test]
fn acknowledged_turns_are_found_by_another_process() {
    let home = Home::new();
    let mut writers = [AppendProcess::begin(&home, "quay"), AppendProcess::begin(&home, "lock")];
    let objects = [
        "the sluice gate",
        "un câble d'amarrage",
        "rate_limit_per_minute",
        "潮位の記録",
        "version 4.17",
    ];
    for (round, object) in objects.iter().enumerate() {
        for (writer, location) in writers.iter_mut().zip(["quay", "lock"]) {
            let user = format!("{location} {round}: please look after {object}");
            let call = json!({ "name": "note", "args": { "about": format!("{location}_{round}") }, "result": "kept" });
            let idx = writer
                .store(&json!({ "type": "turn", "user": user, "assistant": "Done.", "tool_calls": [call] }));
            let found = hits(&home, &[object]);
            let this =
                found.iter().find(|hit| hit["snippet"].as_str().unwrap().contains(&user)).unwrap();
            assert_eq!(
                (this["idx"].as_u64(), this["level"].as_u64()),
                (Some(idx), Some(0)),
                "{object}"
            );
            let called = hits(&home, &[&format!("{location}_{round}")]);
            assert!(called.iter().any(|hit| hit["call"] == "note"), "{called:?}");
        }
    }
    writers.into_iter().for_each(AppendProcess::end);
    home.ok(&["verify"]);
}

#[test]
fn filters_are_exact() {
    let home = Home::new();
    let append = |tenant: &str, key: &str, author: &str, at: &str| {
        let text = format!("{author} of {tenant} in {key} asks about the harbour dredger");
        home.ok(&[
            "--tenant", tenant, "append", "--key", key, "--title", key, "--author", author, "--at",
            at, "--text", &text,
        ]);
    };
    append("north", "spring", "Ana", "2026-03-02T08:00:00Z");
    append("north", "autumn", "Yann", "2026-10-02T08:00:00Z");
    append("south", "spring", "Juno", "2026-03-02T08:00:00Z");
    let authors = |args: &[&str]| -> Vec<String> {
        let args: Vec<&str> = ["harbour dredger"].iter().chain(args).copied().collect();
        let mut authors: Vec<String> = hits(&home, &args)
            .iter()
            .map(|hit| hit["author"].as_str().unwrap().to_owned())
            .collect();
        authors.sort();
        authors
    };
    assert_eq!(authors(&["--tenant", "north"]), ["Ana", "Yann"]);
    assert_eq!(authors(&["--tenant", "south"]), ["Juno"]);
    assert_eq!(authors(&["--tenant", "east"]), [""; 0]);
    assert_eq!(authors(&["--tenant", "north", "--in", "autumn"]), ["Yann"]);
    assert_eq!(authors(&["--tenant", "north", "--author", "Ana"]), ["Ana"]);
    assert_eq!(authors(&["--tenant", "north", "--since", "2026-09-01"]), ["Yann"]);
    assert_eq!(authors(&["--tenant", "north", "--until", "2026-09-01"]), ["Ana"]);
    assert_eq!(authors(&["--tenant", "north", "--role", "assistant"]), [""; 0]);
    assert_eq!(authors(&["--tenant", "north", "--limit", "1"]).len(), 1);
    assert_eq!(authors(&["--tenant", "north", "--min-score", "1"]), [""; 0]);
    home.refuses(&["--tenant", "south", "search", "dredger", "--in", "autumn"], &["autumn"]);
}

#[test]
fn hits_link_to_the_nodes_above_and_below() {
    let home = Home::demo();
    let found = hits(&home, &["how deep is the sill", "--level", "0"]);
    assert_eq!(found, hits(&home, &["how deep is the sill", "--level", "0"]), "not the same twice");
    let message = found.iter().find(|hit| hit["up"][0].is_string()).unwrap();
    let (idx, over) = (message["idx"].to_string(), message["up"][0].as_str().unwrap());
    let ids = |lines: &Value| -> Vec<String> {
        lines
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(json!(ids(&home.json(&["expand", "tidewatch", &idx])["up"])), message["up"]);
    assert!(
        ids(&home.json(&["expand", over])["down"]).contains(&format!("#{idx}")),
        "{over} does not hold {idx}"
    );

    let group = &hits(&home, &["Brevitel or Sillage", "--level", "2"])[0];
    let children = ids(&home.json(&["expand", group["node"].as_str().unwrap()])["down"]);
    assert_eq!(json!(children), group["down"]);
    let child = home.json(&["expand", &children[0]]);
    assert!(ids(&child["up"]).contains(&group["node"].as_str().unwrap().to_owned()));
    assert!(!ids(&child["down"]).is_empty());
    let output = home.ok(&["search", "Brevitel or Sillage", "--level", "2", "--explain"]);
    assert!(output.contains("level 2") && output.contains(" + "), "{output}");
    assert!(!ids(&home.json(&["expand", "tidewatch"])["down"]).is_empty());
    home.refuses(&["expand", "l1-ffffffff"], &["l1-ffffffff"]);
}

#[test]
fn reindex_status_names_the_model_in_use() {
    let home = Home::demo();
    let status = home.json(&["reindex", "--status"]);
    assert_eq!(status["model"], status["configured"]);
    assert_eq!(status["next"], Value::Null);
    assert!(home.ok(&["reindex"]).contains("nothing to do"));
    home.refuses(&["--set", "embed.model=best", "reindex"], &["best", "bundled"]);
}

/// The files of the index, without the lock.
fn index_files(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.path().join("index/tenant-default"));
    let names = entries.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| name != "lock");
    names.sort();
    names
}

#[test]
fn a_command_leaves_its_index_to_the_next() {
    let home = Home::new();
    let lines: Vec<String> = (0..1100)
        .map(|number| {
            let at = format!("2026-01-01T{:02}:{:02}:00Z", number / 60, number % 60);
            let text = format!("buoy {number} reports wind {}", number % 7);
            json!({"type": "message", "role": "user", "text": text, "at": at}).to_string()
        })
        .collect();
    let conversation = json!({"type": "conversation", "external_id": "buoys"}).to_string();
    let file = home.path().join("buoys.jsonl");
    std::fs::write(&file, format!("{conversation}\n{}\n", lines.join("\n"))).unwrap();
    home.ok(&["import", file.to_str().unwrap(), "--no-tree"]);
    let imported = index_files(&home);
    assert_eq!(imported.len(), 2, "a segment and the manifest: {imported:?}");
    let search = || home.items(&["search", "what does buoy 1042 report", "--limit", "30"]);
    let answer = search();
    assert_eq!(answer[0]["idx"], 1042);
    std::fs::remove_dir_all(home.path().join("index")).unwrap();
    assert_eq!(search(), answer, "the index is built again");
    assert_eq!(index_files(&home), imported, "and stored again");
    let segment = home.path().join("index/tenant-default").join(&imported[0]);
    std::fs::write(segment, "damaged").unwrap();
    assert_eq!(search(), answer);
    assert_eq!(index_files(&home), imported);
}
