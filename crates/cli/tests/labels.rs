//! Labels and notes in every interface: the command line, HTTP and MCP.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::path::Path;

use crate::endpoints::{McpClient, TestServer};
use crate::home::Home;
use serde_json::{Value, json};

/// Two conversations of two users.
fn two_users() -> Home {
    let home = Home::new();
    let turn = ["--user", "How deep is the sill?", "--assistant", "2.35 m by the plan."];
    let key = |key: &'static str, label: &'static str| ["append", "--key", key, "--label", label];
    home.ok(&[&key("anna", "user=42")[..], &turn[..]].concat());
    home.ok(&[&key("ben", "user=43")[..], &turn[..]].concat());
    home
}

fn keys(sessions: &Value) -> Vec<&str> {
    sessions.as_array().unwrap().iter().map(|it| it["external_id"].as_str().unwrap()).collect()
}

#[test]
fn labels_are_set_listed_removed_and_filtered() {
    let home = two_users();
    assert_eq!(keys(&home.items(&["sessions", "--label", "user=42"])), ["anna"]);
    let printed = home.ok(&["label", "anna", "team=quay", "user=44"]);
    assert!(printed.contains("team=quay, user=44"), "{printed}");
    assert_eq!(keys(&home.items(&["sessions", "--label", "user=42"])), [""; 0]);
    let both = ["sessions", "--label", "team=quay", "--label", "user=44"];
    assert_eq!(keys(&home.items(&both)), ["anna"]);
    let listed = home.ok(&["sessions"]);
    assert!(listed.contains("team=quay") && listed.contains("user=43"), "{listed}");
    assert!(home.ok(&["show", "anna"]).contains("team=quay, user=44"));
    assert!(home.ok(&["label", "anna", "--remove", "team"]).contains("user=44"));
    assert_eq!(home.json(&["label", "anna"])["labels"], json!({ "user": "44" }));

    let search = |label: &str| home.items(&["search", "sill depth", "--label", label]);
    let found = search("user=43");
    assert!(!found.as_array().unwrap().is_empty());
    for hit in found.as_array().unwrap() {
        assert_eq!(hit["conversation"], home.json(&["label", "ben"])["id"], "{hit}");
    }
    assert_eq!(search("user=42"), json!([]));
    home.misused(&["search", "sill", "--label", "user"], &["name=value"]);
    home.refuses(&["label", "anna", "--remove", "team"], &["has no label \"team\""]);
    home.refuses(&["label", "anna", "a=1", "a=2"], &["already"]);

    let preview = home.ok(&["forget", "--label", "user=43"]);
    assert!(preview.contains("the whole conversation"), "{preview}");
    home.ok(&["forget", "--label", "user=43", "--yes"]);
    assert_eq!(keys(&home.items(&["sessions"])), ["anna"]);
}

/// A label of an append replaces the value that the conversation has, whichever way the turns come.
#[test]
fn an_append_sets_labels_of_an_existing_conversation() {
    let home = two_users();
    let labels = || home.json(&["label", "anna"])["labels"].clone();
    home.ok(&["append", "anna", "--text", "And now?", "--label", "user=1"]);
    assert_eq!(labels(), json!({ "user": "1" }));
    let line = "{\"type\":\"message\",\"role\":\"user\",\"text\":\"Again?\"}\n";
    let fed = home.feed(&["append", "anna", "--label", "user=2"], line);
    assert!(fed.status.success(), "{fed:?}");
    assert_eq!(labels(), json!({ "user": "2" }));
    home.ok(&["create", "--key", "anna", "--label", "user=3"]);
    assert_eq!(labels(), json!({ "user": "3" }));
}

/// Importers and hooks name the source in the label `source`.
#[test]
fn transcripts_are_labeled_with_their_source() {
    let home = Home::new();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
    for source in ["claude-code", "codex", "chatgpt"] {
        home.ok(&["import", "--no-tree", fixtures.join(source).to_str().unwrap()]);
        let label = format!("source={source}");
        let sessions = home.items(&["sessions", "--label", &label]);
        assert!(!sessions.as_array().unwrap().is_empty(), "{source}");
    }
    let prompt = json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": "c1",
        "generation_id": "g1", "prompt": "How deep is the sill?", "workspace_roots": ["/srv/tides"] });
    home.feed(&["hook", "cursor"], &prompt.to_string());
    let sessions = home.items(&["sessions", "--label", "source=cursor"]);
    assert_eq!(keys(&sessions), ["cursor/c1"]);
    let hit = &home.items(&["search", "sill", "--label", "source=cursor"])[0];
    assert_eq!((&hit["source"], &hit["project"]), (&json!("cursor"), &json!("/srv/tides")));
    for listed in [home.ok(&["sessions"]), home.ok(&["search", "how deep is the sill"])] {
        assert!(listed.contains("cursor · /srv/tides"), "{listed}");
    }
    let export = home.ok(&["export"]);
    let copy = Home::new();
    std::fs::write(copy.path().join("all.jsonl"), &export).unwrap();
    copy.ok(&["import", "--no-tree", "all.jsonl"]);
    assert_eq!(copy.ok(&["export"]), export);
    assert_eq!(keys(&copy.items(&["sessions", "--label", "source=cursor"])), ["cursor/c1"]);
}

#[test]
fn labels_are_set_and_filtered_over_http() {
    let home = two_users();
    let server = TestServer::start(home.path(), &[]);
    let turn = json!({ "type": "turn", "user": "Is the sill dry?", "assistant": "No." });
    let append = json!({ "key": "ben", "labels": { "team": "quay" }, "entries": [turn] });
    server.post("/v1/append", &append);
    let listed = server.get("/v1/conversations?labels=user=43,team=quay");
    assert_eq!(keys(&listed["conversations"]), ["ben"]);
    let patch = json!({ "labels": { "user": "45", "team": null } });
    let (status, changed) = server.request("PATCH", "/v1/conversations/ben", &[], Some(&patch));
    assert_eq!((status, &changed["labels"]), (200, &json!({ "user": "45" })));
    let search = json!({ "query": "sill", "labels": { "user": "45" } });
    let found = server.post("/v1/search", &search);
    let hits = found["hits"].as_array().unwrap();
    assert!(!hits.is_empty() && hits.iter().all(|hit| hit["conversation"] == changed["id"]));
    let created = server.post("/v1/conversations", &json!({ "labels": { "user": "9" } }));
    assert_eq!(created["labels"], json!({ "user": "9" }));
    let invalid = json!({ "query": "sill", "labels": { "us er": "45" } });
    let (status, problem) = server.request("POST", "/v1/search", &[], Some(&invalid));
    assert!(status == 400 && problem["error"].to_string().contains("us er"), "{problem}");
    let preview = server.post("/v1/forget", &json!({ "label": "user=45" }));
    assert_eq!(preview["conversations"].as_array().unwrap().len(), 1);
}

#[test]
fn labels_are_set_and_filtered_over_mcp() {
    let home = two_users();
    let mut client = McpClient::start(home.path());
    client.ok("remember", &json!({ "key": "ben", "user": "Dry?", "labels": { "team": "quay" } }));
    let sessions = client.text("sessions", &json!({ "labels": { "team": "quay" } }));
    assert_eq!(sessions.matches("\n- `").count(), 0, "{sessions}");
    assert!(sessions.contains("`team=quay` · `user=43`"), "{sessions}");
    let found = client.text("search", &json!({ "query": "sill", "labels": { "user": "42" } }));
    assert!(found.contains("> How deep is the sill?"), "{found}");
    assert_eq!(found.lines().filter(|line| line.starts_with('-')).count(), 1, "{found}");
    let preview = client.ok("forget", &json!({ "label": "user=42" }));
    assert_eq!(preview["conversations"].as_array().unwrap().len(), 1);
    client.end();
}

#[test]
fn notes_are_kept_listed_pinned_corrected_and_withdrawn() {
    let home = Home::new();
    let project = tempfile::tempdir().unwrap();
    let folder = project.path().to_str().unwrap();
    let remember = |text: &str| home.json(&["remember", text, "--project", folder]);
    let port = remember("The staging port is 7410.")["note"].as_str().unwrap().to_owned();
    assert!(port.starts_with("notes-") && port.ends_with("#0"), "{port}");
    let general =
        ["remember", "--everywhere", "--pin", "--author", "Ana", "Write British English."];
    assert_eq!(home.json(&general)["note"], "notes#0");
    assert_eq!(home.items(&["sessions"]), json!([]), "no conversation is made");

    let listed = |args: &[&str]| home.json(&[&["notes", "--project", folder], args].concat());
    let texts = |list: &Value| -> Vec<String> {
        let text = |it: &Value| it["text"].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(text).collect()
    };
    assert_eq!(
        texts(&listed(&[])),
        ["Write British English.", "The staging port is 7410."],
        "pinned first"
    );
    home.ok(&["notes", &port, "--correct", "The staging port is 7411."]);
    home.ok(&["notes", &port, "--pin"]);
    let context = home.ok(&["context", "--project", folder, "--budget", "600"]);
    let (note, other) = (context.find("7411"), context.find("British English"));
    assert!(context.contains("## Pinned notes") && note.is_some() && other.is_some(), "{context}");
    assert!(!context.contains("7410"), "{context}");
    assert!(home.ok(&["search", "staging port"]).contains("7411"));
    let history = home.ok(&["show", &port, "--history"]);
    assert!(history.contains("7410"), "the earlier text stays: {history}");
    home.ok(&["notes", &port, "--withdraw"]);
    assert_eq!(texts(&listed(&[])), ["Write British English."]);
    assert_eq!(listed(&["--all"])[1]["withdrawn"], true);
    assert!(!home.ok(&["context", "--project", folder, "--budget", "600"]).contains("7411"));
    home.misused(&["notes", "--pin"], &["<NOTE>"]);
    home.misused(&["notes", &port, "--pin", "--unpin"], &["cannot be used"]);
    home.refuses(&["notes", "nothing#1", "--pin"], &["nothing"]);
    home.refuses(&["append", "--key", "treering:notes", "--user", "x"], &["reserved"]);

    let export = home.ok(&["export"]);
    let copy = Home::new();
    let file = project.path().join("copy.jsonl");
    std::fs::write(&file, &export).unwrap();
    copy.ok(&["import", file.to_str().unwrap()]);
    let copied = copy.json(&["notes", "--everything"]);
    assert_eq!((&copied[0]["note"], &copied[0]["pinned"]), (&json!("notes#0"), &json!(true)));
}

#[test]
fn notes_are_kept_and_changed_over_http() {
    let home = Home::new();
    let server = TestServer::start(home.path(), &[]);
    let note =
        json!({ "text": "Never deploy on Fridays.", "project_path": "/srv/shop", "pinned": true });
    let stored = server.post("/v1/notes", &note);
    assert_eq!((&stored["note"], &stored["pinned"]), (&json!("notes-shop#0"), &json!(true)));
    let context = json!({ "project_path": "/srv/shop", "budget": 600 });
    assert!(server.post("/v1/context", &context).to_string().contains("Fridays"));
    let change = |body: Value| server.request("PATCH", "/v1/notes/notes-shop/0", &[], Some(&body));
    assert_eq!(change(json!({ "text": "Never deploy on Mondays." })).0, 200);
    assert_eq!(change(json!({ "pinned": false })).1["pinned"], false);
    assert_eq!(change(json!({ "pinned": true, "withdrawn": true })).0, 400);
    let listed = server.get("/v1/notes?project_path=/srv/shop");
    assert_eq!(listed["notes"][0]["text"], "Never deploy on Mondays.");
    assert_eq!(server.get("/v1/conversations")["conversations"], json!([]));
    assert_eq!(change(json!({ "withdrawn": true })).1["withdrawn"], true);
    assert_eq!(server.get("/v1/notes")["notes"], json!([]));
    let (status, problem) = server.request("POST", "/v1/notes", &[], Some(&json!({ "text": "" })));
    assert!(status == 400 && problem.to_string().contains("empty"), "{problem}");
}

#[test]
fn notes_are_kept_and_changed_over_mcp() {
    let home = Home::new();
    let mut client = McpClient::start(home.path());
    let note =
        json!({ "text": "Never deploy on Fridays.", "project_path": "/srv/shop", "pinned": true });
    assert_eq!(client.ok("remember", &note)["note"], "notes-shop#0");
    assert_eq!(client.text("sessions", &json!({})), "No conversations.");
    let listed = client.text("notes", &json!({ "project_path": "/srv/shop" }));
    assert!(listed.contains("`notes-shop#0`") && listed.contains("> Never deploy"), "{listed}");
    let context =
        client.text("context", &json!({ "project_path": "/srv/shop", "max_tokens": 800 }));
    assert!(context.contains("## Pinned notes") && context.contains("Fridays"), "{context}");
    let corrected = json!({ "note": "notes-shop#0", "text": "Never deploy on Mondays." });
    assert!(client.text("notes", &corrected).contains("Mondays"));
    let withdrawn = json!({ "note": "notes-shop#0", "withdrawn": true });
    assert!(client.text("notes", &withdrawn).contains("withdrawn"));
    assert_eq!(client.text("notes", &json!({})), "No notes.");
    client.end();
}
