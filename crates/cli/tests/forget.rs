//! `treering forget` and `audit`, and the same over HTTP and MCP.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::endpoints::{McpClient, TestServer, ok};
use crate::home::Home;
use serde_json::json;
use treering::capture::{HookCapture, Spool};
use treering::{ItemSelection, MessageIdx};
use treering_core::Clock as _;
use treering_engine::SystemClock;
use treering_testkit::SetOnDrop;

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
    let slug = home.items(&["sessions"])[0]["slug"].as_str().unwrap().to_owned();
    assert!(preview.contains(&format!("{slug}#2 user: ask1zq the depth")), "{preview}");
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
    let listed = home.ok(&["audit"]);
    assert!(listed.contains("turn: 2 messages") && listed.contains("messages #2–#3"), "{listed}");
    assert!(home.ok(&["audit", "forget-x"]).contains("no record begins with"));
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
    home.refuses(&["forget", "tide", "--turn", "9"], &["it has 2 turns"]);
    home.refuses(&["forget", "tide", "--message", "9"], &["it has 4 messages"]);
    home.refuses(&["forget", "tide", "--thread", "side"], &["its threads are main"]);
    home.refuses(&["forget", "--author", "Ana"], &["nothing to forget", "by this author"]);
    let record = home.json(&["forget", "tide", "--message", "3", "--yes"])["record"].clone();
    home.refuses(&["forget", "tide", "--message", "3"], &["it was forgotten before"]);
    home.refuses(&["forget", record.as_str().unwrap()], &["--allow-return"]);
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
    let sample = &preview["samples"][0];
    assert_eq!((&sample["idx"], &sample["text"]), (&json!(1), &json!("word1zq")));
    let report =
        server.post("/v1/forget", &json!({ "conversation": "k", "message": 1, "token": token }));
    assert_eq!((&report["forgotten"], &report["bytes"]), (&json!(true), &json!("erased")));
    for narrower in ["label", "project"] {
        let both = json!({ narrower: "a=b", "secrets": true });
        let (status, refusal) = server.request("POST", "/v1/forget", &[], Some(&both));
        assert_eq!(status, 400, "secrets of other conversations: {refusal}");
    }
    let found = server.post("/v1/search", &json!({ "query": "word1zq" }));
    assert!(found["hits"].as_array().unwrap().iter().all(|hit| hit["idx"] != 1), "{found}");
    assert_eq!(server.get("/v1/audit")["records"][0]["target"], "message");
    let page = server.get("/v1/conversations/k");
    assert_eq!(page["turns"][0]["steps"][1]["forgotten"], true, "{page}");
    let path = format!("/v1/audit/{}/allow-return", report["record"].as_str().unwrap());
    assert_eq!(server.post(&path, &json!({}))["record"], report["record"]);
    assert_eq!(server.request("POST", "/v1/audit/forget-x/allow-return", &[], None).0, 400);
    server.stop();
    assert!(!is_in_files(home.path(), "word1zq"));
}

/// A token that may append cannot erase: a forget cannot be undone, and reaches the whole tenant.
#[test]
fn forgetting_over_http_needs_the_scope_admin() {
    let home = tempfile::tempdir().unwrap();
    let token = |scopes: &str| {
        let created = ok(home.path(), &["token", "create", "--scopes", scopes]);
        format!("Bearer {}", created["token"].as_str().unwrap())
    };
    let (writer, admin) = (token("read,write"), token("admin"));
    let server = TestServer::start(home.path(), &[]);
    let entry = json!({ "type": "message", "role": "user", "text": "wordzq" });
    server.post("/v1/append", &json!({ "key": "k", "entries": [entry] }));
    let request = json!({ "conversation": "k" });
    let ask = |token: &str, request: &serde_json::Value| {
        server.request("POST", "/v1/forget", &[("Authorization", token)], Some(request))
    };
    assert_eq!(ask(&writer, &request).0, 403, "not even a preview");
    let (status, preview) = ask(&admin, &request);
    assert_eq!((status, &preview["forgotten"]), (200, &json!(false)));
    let confirmed = json!({ "conversation": "k", "token": preview["token"] });
    assert_eq!(ask(&writer, &confirmed).0, 403);
    assert_eq!(ask(&admin, &confirmed).1["forgotten"], true);
    let edit = json!({ "text": "x" });
    let path = "/v1/conversations/k/messages/0";
    let headers = [("Authorization", writer.as_str())];
    assert_eq!(server.request("PATCH", path, &headers, Some(&edit)).0, 404, "an edit needs write");
    server.stop();
}

#[test]
fn mcp_edits_and_corrects() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    client.ok("remember", &json!({ "key": "k", "user": "Port?", "assistant": "It is oldzq." }));
    let edited = client.ok("amend", &json!({ "id": "k#1", "text": "It is newzq." }));
    assert_eq!((&edited["wrong"], edited["edited_at"].is_string()), (&json!(false), true));
    let message = client.text("expand", &json!({ "id": "k#1" }));
    assert!(message.contains("newzq") && !message.contains("oldzq"), "{message}");
    let wrong = json!({ "id": "k#1", "wrong": true, "correction": "It is rightzq." });
    assert_eq!(client.ok("amend", &wrong)["wrong"], true);
    let context = client.text("context", &json!({ "conversation": "k" }));
    assert!(context.contains("rightzq") && !context.contains("newzq"), "{context}");
    client.ok("amend", &json!({ "id": "k#0", "wrong": true }));
    for id in ["k#0", "k#1"] {
        let shown = client.text("expand", &json!({ "id": id }));
        assert!(shown.contains("left out: it was forgotten or is wrong"), "{id}: {shown}");
    }
    for (arguments, reason) in [
        (json!({ "id": "k", "wrong": true }), "my-chat#42"),
        (json!({ "id": "k#1" }), "set text"),
        (json!({ "id": "k#1", "text": "x", "wrong": true }), "not both"),
    ] {
        let refused = client.refused("amend", &arguments);
        assert!(refused.contains(reason), "{arguments}: {refused}");
    }
    client.end();
    let history = ok(home.path(), &["show", "k#1", "--history"]);
    assert_eq!(history["versions"][0]["text"], "It is oldzq.");
}

/// A library that forgets reaches the captures that hooks have not stored yet.
#[test]
fn a_library_reaches_the_spool() {
    let home = tempfile::tempdir().unwrap();
    let memory = treering::Memory::builder(home.path()).without_background_work().open().unwrap();
    let chat = memory.conversation("k").unwrap();
    chat.turn("plainzq", "fine").unwrap();
    let entry = |id: &str, text: &str| json!({ "type": "message", "role": "user", "text": text, "external_id": id });
    let entries =
        json!({ "key": "k", "entries": [entry("a", "spooledzq"), entry("b", "otherzq")] });
    let spool = Spool::for_tenant(home.path(), memory.engine().tenant());
    spool.keep(&HookCapture::Entries(entries), SystemClock.now()).unwrap();
    let failure = home.path().join("capture/cursor.failure");
    std::fs::create_dir_all(failure.parent().unwrap()).unwrap();
    std::fs::write(&failure, "{\"at\":1,\"error\":\"quoted spooledzq\"}").unwrap();
    assert!(is_in_files(home.path(), "spooledzq"));
    let report = chat.forget(ItemSelection::Message(MessageIdx(2))).run().unwrap();
    assert_eq!(report.scrub.unwrap().pending, None);
    assert!(spool.is_empty() && !is_in_files(home.path(), "spooledzq"));
    assert!(is_in_files(home.path(), "otherzq") && is_in_files(home.path(), "plainzq"));
}

/// One process searches, builds contexts and summarizes, while others edit, correct and forget. It
/// never returns what a finished command has changed.
#[test]
fn a_process_that_searches_follows_one_that_forgets() {
    const TURNS: usize = 12;
    let home = tempfile::tempdir().unwrap();
    let parameters = "[\"window_chars=600\", \"min_flush_chars=0\", \"group_children=2\"]";
    let settings = format!("[tree]\nparameters = {parameters}\n");
    std::fs::write(home.path().join("treering.toml"), settings).unwrap();
    let server = TestServer::start(home.path(), &[]);
    let append = |turn: usize| {
        let id = format!("t{turn}");
        let turn = json!({ "type": "turn", "user": format!("ask{turn}zq the depth of berth {turn} at low tide today"),
            "assistant": format!("reply{turn}zq metres at the quay, as the gauge of berth {turn} says"), "external_id": id });
        server.post("/v1/append", &json!({ "key": "k", "entries": [turn] }));
    };
    (0..TURNS).for_each(append);
    let found = |word: &str, levels: &[u8]| {
        let query = json!({ "query": word, "levels": levels, "limit": 30 });
        server.post("/v1/search", &query)["hits"].to_string()
    };
    let context = |word: &str| {
        let request = json!({ "conversation": "k", "query": word, "budget": 20_000 });
        server.post("/v1/context", &request).to_string()
    };
    for text in [found("reply3zq", &[0]), context("reply3zq")] {
        assert!(text.contains("reply3zq metres"), "it is there before: {text}");
    }
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = SetOnDrop(&stopped);
        scope.spawn(|| {
            let mut turn = TURNS;
            while !stopped.load(Ordering::Relaxed) {
                append(turn);
                server.post("/v1/search", &json!({ "query": "depth of the berth" }));
                server.post("/v1/conversations/k/update", &json!({}));
                turn += 1;
            }
        });
        for turn in 0..6 {
            let (message, number) = (format!("k#{}", 2 * turn + 1), turn.to_string());
            match turn % 3 {
                0 => drop(ok(home.path(), &["forget", "k", "--turn", &number, "--yes"])),
                1 => drop(ok(
                    home.path(),
                    &["edit", &message, "--regenerate", "--text", "It is newzq."],
                )),
                _ => drop(ok(home.path(), &["correct", &message])),
            }
            let gone = format!("reply{turn}zq");
            // A summary that covers an edited message may show the earlier text until it is regenerated.
            let texts = match turn % 3 {
                1 => vec![found(&gone, &[0])],
                _ => vec![found(&gone, &[0, 1, 2]), context(&gone)],
            };
            for text in texts {
                assert!(!text.contains(&format!("{gone} metres")), "{turn}: {text}");
            }
        }
    });
    for text in [found("reply9zq", &[0]), context("reply9zq")] {
        assert!(text.contains("reply9zq metres"), "others stay: {text}");
    }
    server.stop();
    ok(home.path(), &["work"]);
    ok(home.path(), &["forget", "--scrub"]);
    assert_eq!(ok(home.path(), &["verify"])["clean"], true);
    for turn in [0, 3] {
        assert!(!is_in_files(home.path(), &format!("reply{turn}zq")), "{turn}");
    }
    assert!(is_in_files(home.path(), "reply9zq"));
}

#[test]
fn mcp_forgets_in_two_steps() {
    let home = tempfile::tempdir().unwrap();
    let mut client = McpClient::start(home.path());
    client.ok("remember", &json!({ "key": "k", "user": "plainzq", "assistant": "fine" }));
    client.ok("remember", &json!({ "key": "k", "user": "secretzq", "assistant": "noted" }));
    let preview = client.ok("forget", &json!({ "conversation": "k", "turn": 1 }));
    assert!(preview["forgotten"] == false && preview["token"].is_string());
    let shown = client.call("forget", &json!({ "conversation": "k", "turn": 1 }));
    let shown = shown["content"][0]["text"].as_str().unwrap();
    assert!(shown.contains("> secretzq") && shown.contains("repeat the call"), "{shown}");
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
