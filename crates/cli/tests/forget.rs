//! `treering forget` and `audit`, and the same over HTTP and MCP.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::Path;

use crate::endpoints::{McpClient, TestServer, ok};
use crate::home::Home;
use serde_json::json;

fn append(home: &Home, turn: usize, user: &str, answer: &str) {
    let id = format!("t{turn}");
    let ids = ["--key", "tide", "--external-id", &id];
    home.ok(&[&["append", "--user", user, "--assistant", answer], &ids[..]].concat());
}

/// Turns whose words no other turn has.
fn fill(home: &Home, turns: usize) {
    for turn in 0..turns {
        append(home, turn, &format!("ask{turn}zq the depth"), &format!("reply{turn}zq metres"));
    }
}

/// Turns that are long enough for summaries.
fn fill_with_summaries(home: &Home) {
    for turn in 0..8 {
        let more = format!("The gauge of berth {turn} was read again in the morning. ").repeat(40);
        append(home, turn, &format!("ask{turn}zq? {more}"), &format!("reply{turn}zq. {more}"));
    }
    home.ok(&["work"]);
}

fn is_in_files(folder: &Path, word: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in_files(&path, word),
            false => {
                let bytes = std::fs::read(&path).unwrap();
                bytes.windows(word.len()).any(|window| window == word.as_bytes())
            }
        }
    })
}

#[test]
fn a_turn_is_forgotten_only_with_yes() {
    let home = Home::new();
    fill(&home, 4);
    let preview = home.ok(&["forget", "tide", "--turn", "1"]);
    assert!(preview.contains("2 messages") && preview.contains("Nothing was forgotten"));
    assert!(is_in_files(home.path(), "ask1zq"), "a preview forgets nothing");
    std::fs::create_dir_all(home.path().join("spool")).unwrap();
    std::fs::write(home.path().join("spool/1.bad"), "ask1zq").unwrap();
    let report = home.json(&["forget", "tide", "--turn", "1", "--yes"]);
    assert_eq!((&report["forgotten"], &report["bytes"]), (&json!(true), &json!("erased")));
    assert_eq!(report["erased"]["messages"], 2);
    assert!(!is_in_files(home.path(), "ask1zq") && !is_in_files(home.path(), "reply1zq"));
    assert!(is_in_files(home.path(), "ask2zq"), "others survive");
    assert!(home.ok(&["show", "tide"]).contains("(forgotten)"));
    let audit = home.json(&["audit"]);
    assert_eq!(audit["records"][0]["id"], report["record"]);
    assert!(!audit.to_string().contains("ask1zq"));
    home.ok(&["verify"]);
}

#[test]
fn a_forgotten_turn_does_not_return_unless_it_may() {
    let home = Home::new();
    fill(&home, 3);
    let copy = home.ok(&["export"]);
    let record = home.json(&["forget", "tide", "--range", "2..3", "--yes"])["record"].clone();
    fill(&home, 3);
    let file = home.path().join("copy.jsonl");
    std::fs::write(&file, &copy).unwrap();
    let imported = home.ok(&["import", file.to_str().unwrap()]);
    assert!(imported.contains("forgotten"), "{imported}");
    let hits = home.items(&["search", "ask1zq"]);
    assert!(!hits.to_string().contains("ask1zq the depth"), "{hits}");
    home.ok(&["forget", record.as_str().unwrap(), "--allow-return"]);
    fill(&home, 3);
    assert!(home.items(&["search", "ask1zq"]).to_string().contains("ask1zq the depth"));
}

#[test]
fn postponed_bytes_are_shown_and_erased_later() {
    let home = Home::new();
    fill(&home, 3);
    let report = home.json(&["forget", "tide", "--message", "0", "--fast", "--yes"]);
    assert_eq!(report["bytes"], "postponed");
    assert!(home.ok(&["verify"]).contains("forgotten content"));
    home.ok(&["forget", "--scrub"]);
    assert!(!home.ok(&["verify"]).contains("forgotten content"));
    assert!(!is_in_files(home.path(), "ask0zq"));
}

#[test]
fn unclear_targets_are_refused() {
    let home = Home::new();
    fill(&home, 2);
    home.refuses(&["forget"], &["name a conversation"]);
    home.refuses(&["forget", "--turn", "1"], &["conversation"]);
    home.refuses(&["forget", "tide", "--range", "3..1"], &["A..B"]);
    home.refuses(&["forget", "tide", "--turn", "9"], &["nothing to forget"]);
    home.misused(&["forget", "tide", "--turn", "1", "--message", "2"], &["cannot be used with"]);
    assert!(is_in_files(home.path(), "ask0zq"));
}

#[test]
fn http_forgets_with_the_token_of_a_preview() {
    let home = tempfile::tempdir().unwrap();
    let server = TestServer::start(home.path(), &[]);
    let turn = |number: usize| json!({ "key": "k", "entries": [{ "type": "message", "role": "user", "text": format!("word{number}zq") }] });
    (0..3).for_each(|number| drop(server.post("/v1/append", &turn(number))));
    let request = json!({ "conversation": "k", "message": 1 });
    let preview = server.post("/v1/forget", &request);
    assert_eq!(preview["forgotten"], false);
    assert!(
        server.post("/v1/search", &json!({ "query": "word1zq" })).to_string().contains("word1zq")
    );
    let wrong = json!({ "conversation": "k", "message": 1, "token": "0".repeat(32) });
    let (status, _) = server.request("POST", "/v1/forget", &[], Some(&wrong));
    assert_eq!(status, 400);
    let token = &preview["token"];
    let report =
        server.post("/v1/forget", &json!({ "conversation": "k", "message": 1, "token": token }));
    assert_eq!((&report["forgotten"], &report["bytes"]), (&json!(true), &json!("erased")));
    let found = server.post("/v1/search", &json!({ "query": "word1zq" }));
    assert!(found["hits"].as_array().unwrap().iter().all(|hit| hit["idx"] != 1), "{found}");
    assert_eq!(server.get("/v1/audit")["records"][0]["target"], "message");
    let page = server.get("/v1/conversations/k");
    assert_eq!(page["turns"][0]["steps"][1]["forgotten"], true, "{page}");
    server.stop();
    assert!(!is_in_files(home.path(), "word1zq"));
}

#[test]
fn mcp_forgets_in_two_steps() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    client.ok("remember", &json!({ "key": "k", "user": "plainzq", "assistant": "fine" }));
    client.ok("remember", &json!({ "key": "k", "user": "secretzq", "assistant": "noted" }));
    let preview = client.ok("forget", &json!({ "conversation": "k", "turn": 1 }));
    assert!(preview["forgotten"] == false && preview["token"].is_string());
    let call = json!({ "conversation": "k", "turn": 1, "token": preview["token"] });
    assert_eq!(client.ok("forget", &call)["erased"]["messages"], 2);
    client.end();
    assert!(!is_in_files(home.path(), "secretzq") && is_in_files(home.path(), "plainzq"));
    assert_eq!(ok(home.path(), &["audit"])["records"].as_array().unwrap().len(), 1);
}

/// Each absence has a positive control: the same question about a turn that stays.
#[test]
fn the_whole_life_of_a_forgotten_turn() {
    let (gone, kept) = ("ask1zq", "ask2zq");
    let home = Home::new();
    let is_found = |home: &Home, word: &str| {
        home.items(&["search", word, "--level", "0"]).to_string().contains(&format!("{word}?"))
    };
    // Write, find, export.
    fill_with_summaries(&home);
    assert!(is_found(&home, gone) && is_found(&home, kept));
    let copy = home.ok(&["export"]);
    assert!(copy.contains(gone) && copy.contains(kept));
    let summaries = |home: &Home| home.json(&["show", "tide", "--tree"]).to_string();
    assert!(summaries(&home).contains("l1-"), "there are summaries");
    // Delete, not found.
    home.ok(&["forget", "tide", "--turn", "1", "--yes"]);
    assert!(!is_found(&home, gone) && is_found(&home, kept));
    // Feed the source again, not found.
    fill_with_summaries(&home);
    let file = home.path().join("copy.jsonl");
    std::fs::write(&file, &copy).unwrap();
    home.ok(&["import", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert!(!is_found(&home, gone) && is_found(&home, kept));
    // Run every background job, not found.
    home.ok(&["update", "tide", "--full"]);
    home.ok(&["work"]);
    assert!(!is_found(&home, gone) && is_found(&home, kept));
    // Absent from each derived kind.
    let context = home.ok(&["context", "tide", "--budget", "100000"]);
    assert!(!context.contains(gone) && context.contains(kept));
    let now = home.ok(&["export"]);
    assert!(!now.contains(gone) && now.contains(kept));
    for command in [&["logs"][..], &["jobs"], &["show", "tide", "--tree"], &["audit"]] {
        assert!(!home.json(command).to_string().contains(gone), "{command:?}");
    }
    assert!(!is_in_files(home.path(), gone) && is_in_files(home.path(), kept));
    // Audited.
    assert_eq!(home.json(&["audit"])["records"].as_array().unwrap().len(), 1);
    // A copy elsewhere: imported, deleted, and absent when it is imported again.
    let other = Home::new();
    let file = other.path().join("copy.jsonl");
    std::fs::write(&file, &copy).unwrap();
    other.ok(&["import", file.to_str().unwrap()]);
    assert!(is_found(&other, gone) && is_found(&other, kept));
    other.ok(&["forget", "tide", "--turn", "1", "--yes"]);
    other.ok(&["import", file.to_str().unwrap()]);
    assert!(!is_found(&other, gone) && is_found(&other, kept));
    for home in [&home, &other] {
        home.ok(&["verify"]);
    }
}

/// Killed after the rows are erased, a forget is complete but for the bytes, which `--scrub`
/// erases.
#[cfg(all(unix, debug_assertions))]
#[test]
fn a_forget_that_dies_is_completed_later() {
    use std::os::unix::process::ExitStatusExt as _;

    const SIGABRT: i32 = 6;
    for fault in treering_engine::KillPoint::FORGET {
        let home = Home::new();
        fill_with_summaries(&home);
        let mut command = home.command(&["forget", "tide", "--turn", "1", "--yes"]);
        let killed = command.env("TREERING_FAULT", fault.as_str()).output().unwrap();
        assert_eq!(killed.status.signal(), Some(SIGABRT), "{fault:?}: {killed:?}");
        assert!(is_in_files(home.path(), "ask1zq"), "{fault:?}: the bytes are still there");
        assert!(home.ok(&["verify"]).contains("forgotten content"), "{fault:?}");
        assert!(!home.ok(&["export"]).contains("ask1zq"), "{fault:?}");
        home.ok(&["work"]);
        home.ok(&["forget", "--scrub"]);
        assert!(!is_in_files(home.path(), "ask1zq"), "{fault:?}");
        assert!(!home.ok(&["verify"]).contains("forgotten content"), "{fault:?}");
        assert!(home.ok(&["show", "tide", "--tree"]).contains("l1-"), "{fault:?}");
    }
}
