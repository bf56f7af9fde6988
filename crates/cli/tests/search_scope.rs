//! Exclusions, archived conversations and results by turn, in every interface.

#![allow(clippy::panic, clippy::unwrap_used)]

use crate::endpoints::{McpClient, TestServer};
use crate::home::Home;
use serde_json::{Value, json};

/// Two sessions in which the same was asked, under the keys that hooks give them.
fn two_sessions() -> Home {
    let home = Home::new();
    for key in ["claude-code:one", "codex:two"] {
        let turn = ["--user", "Which port does staging use?", "--assistant", "Staging uses 7410."];
        home.ok(&[&["append", "--key", key, "--title", key][..], &turn[..]].concat());
    }
    home
}

fn slugs(hits: &Value) -> Vec<&str> {
    let mut slugs: Vec<&str> =
        hits.as_array().unwrap().iter().map(|hit| hit["slug"].as_str().unwrap()).collect();
    slugs.sort_unstable();
    slugs
}

#[test]
fn the_command_line_excludes_and_groups() {
    let home = two_sessions();
    let search =
        |args: &[&str]| home.items(&[&["search", "which port does staging use"], args].concat());
    let found = search(&[]);
    assert_eq!(slugs(&found), ["claude-code-one", "codex-two"], "one result for each turn");
    for hit in found.as_array().unwrap() {
        assert_eq!((&hit["idx"], &hit["same_turn"][0]["idx"]), (&json!(1), &json!(0)), "{hit}");
    }
    let printed = home.ok(&["search", "which port does staging use"]);
    assert!(printed.contains("Staging uses 7410.\n     also user #0"), "{printed}");
    assert_eq!(search(&["--each-item"]).as_array().unwrap().len(), 4);
    assert_eq!(slugs(&search(&["--exclude", "codex:two"])), ["claude-code-one"]);
    let part = search(&["--exclude", "codex-two#1", "--in", "codex-two"]);
    assert_eq!((part.as_array().unwrap().len(), &part[0]["idx"]), (1, &json!(0)));
    assert_eq!(search(&["--exclude", "codex-two#0..", "--in", "codex-two"]), json!([]));
    let users = search(&["--exclude-role", "assistant"]);
    assert!(users.as_array().unwrap().iter().all(|hit| hit["role"] == "user"), "{users}");
    home.refuses(&["search", "port", "--exclude", "codex-two#x"], &["my-chat#4..9"]);
    home.refuses(&["search", "port", "--exclude", "codex-two#9..4"], &["my-chat#4..9"]);
    home.refuses(&["search", "port", "--exclude", "nobody"], &["nobody"]);

    home.ok(&["archive", "codex-two"]);
    assert_eq!(slugs(&search(&[])), ["claude-code-one"]);
    // The archived conversation has a summary of the whole.
    let turns = |args: &[&str]| search(&[&["--level", "0"], args].concat());
    assert_eq!(slugs(&turns(&["--archived"])), ["claude-code-one", "codex-two"]);
    assert_eq!(slugs(&turns(&["--state", "archived"])), ["codex-two"]);
    assert_eq!(slugs(&turns(&["--in", "codex-two"])), ["codex-two"]);
    assert!(home.ok(&["context", "codex-two", "--query", "port"]).contains("7410"));
}

#[test]
fn http_leaves_out_the_session_that_asks() {
    let home = two_sessions();
    let server = TestServer::start(home.path(), &[]);
    let search = |fields: Value| {
        let mut body = json!({ "query": "staging port" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        server.post("/v1/search", &body)["hits"].clone()
    };
    assert_eq!(slugs(&search(json!({ "asked_by": "codex:two" }))), ["claude-code-one"]);
    let named = json!({ "asked_by": "codex:two", "conversations": ["codex:two"] });
    assert_eq!(slugs(&search(named)), ["codex-two"], "it was asked for");
    assert_eq!(slugs(&search(json!({ "asked_by": "not captured yet" }))).len(), 2);
    let exclude = json!({ "exclude": ["claude-code-one"], "exclude_roles": ["user", "tool"] });
    let hits = search(exclude);
    assert_eq!((slugs(&hits), &hits[0]["role"]), (vec!["codex-two"], &json!("assistant")));
    assert!(hits[0].get("same_turn").is_none(), "the question is left out: {hits}");
    assert_eq!(search(json!({ "each_item": true })).as_array().unwrap().len(), 4);
}

#[test]
fn mcp_leaves_out_the_session_that_asks() {
    let home = two_sessions();
    let query = json!({ "query": "staging port" });
    let mut client = McpClient::start_with_variable(home.path(), "CLAUDE_CODE_SESSION_ID", "one");
    let found = client.text("search", &query);
    assert!(found.contains("codex-two#") && !found.contains("claude-code-one#"), "{found}");
    let named = json!({ "query": "staging port", "conversations": ["claude-code:one"] });
    assert!(client.text("search", &named).contains("claude-code-one#"));
    client.end();

    let mut client = McpClient::start(home.path());
    assert_eq!(client.text("search", &query).matches("- `").count(), 2);
    let meta = json!({ "x-codex-turn-metadata": { "session_id": "two", "turn_id": "t" } });
    let call = json!({ "name": "search", "arguments": query, "_meta": meta });
    let found = client.ask("tools/call", &call)["content"][0]["text"].to_string();
    assert!(found.contains("claude-code-one#") && !found.contains("codex-two#"), "{found}");
    client.end();
}
