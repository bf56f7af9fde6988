//! Contexts over a scope in every interface: a project, labels, several conversations, everything.

#![allow(clippy::panic, clippy::unwrap_used)]

use crate::endpoints::{McpClient, TestServer};
use crate::home::Home;
use serde_json::{Value, json};

/// Three conversations: two in a project, one in a folder below it, and one elsewhere.
fn projects() -> Home {
    let home = Home::new();
    let append = |key: &str, folder: &str, answer: &str, day: &str| {
        let folder = home.path().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let label = format!("user={key}");
        let folder = folder.to_str().unwrap();
        home.ok(&[
            "append",
            "--key",
            key,
            "--cwd",
            folder,
            "--label",
            &label,
            "--at",
            day,
            "--user",
            "Which pump did we choose for the lock?",
            "--assistant",
            answer,
        ]);
    };
    append("one", "work/lock", "The Halberg pump, for its price.", "2026-03-01T10:00:00Z");
    append(
        "two",
        "work/lock",
        "The Halberg pump was replaced by the Ronda.",
        "2026-03-02T10:00:00Z",
    );
    append(
        "below",
        "work/lock/docs",
        "The manual of the Ronda is 40 pages.",
        "2026-03-03T10:00:00Z",
    );
    append("other", "work/quay", "No pump, the quay is dry.", "2026-03-04T10:00:00Z");
    home
}

fn check(text: &str, has: &[&str], lacks: &[&str]) {
    has.iter().for_each(|word| assert!(text.contains(word), "{word}: {text}"));
    lacks.iter().for_each(|word| assert!(!text.contains(word), "{word}: {text}"));
}

#[test]
fn a_project_is_told_in_the_order_of_time() {
    let home = projects();
    let folder = home.path().join("work/lock").canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let text = home.ok(&["context", "--project", folder, "--budget", "1500"]);
    let first = text.lines().next().unwrap();
    check(first, &["Record of the earlier conversations", folder], &[]);
    check(&text, &["Halberg", "Ronda", "manual"], &["quay is dry"]);
    let place = |word: &str| text.find(word).unwrap();
    assert!(place("2026-03-01") < place("2026-03-02") && place("2026-03-02") < place("2026-03-03"));
    let receipt = home.ok(&["context", "--project", folder, "--receipt"]);
    check(&receipt, &["the project", "mention"], &[]);
    let text = home.ok(&["context", "--project", folder, "--exclude", "two"]);
    check(&text, &["Halberg pump, for"], &["replaced by"]);
}

#[test]
fn labels_several_conversations_and_everything_are_scopes() {
    let home = projects();
    check(&home.ok(&["context", "--label", "user=two"]), &["replaced"], &["manual", "dry"]);
    check(&home.ok(&["context", "one", "other"]), &["for its price", "dry"], &["manual"]);
    check(&home.ok(&["context", "--everything"]), &["for its price", "dry", "manual"], &[]);
    home.ok(&["archive", "other"]);
    check(&home.ok(&["context", "--everything"]), &["for its price"], &["dry"]);
    home.refuses(&["context", "--everything", "--as-of", "1"], &["one conversation"]);
    home.refuses(&["context", "--everything", "--profile", "tiered"], &["tiered", "cut"]);
    home.refuses(&["context", "--everything", "--diff"], &["one conversation"]);
}

#[test]
fn http_and_mcp_take_the_same_scopes() {
    let home = projects();
    let folder = home.path().join("work/lock");
    let scope = json!({ "project_path": folder, "exclude": ["two"] });
    let server = TestServer::start(home.path(), &[]);
    let answer = server.post("/v1/context", &scope);
    let of = |answer: &Value| answer["text"].as_str().unwrap().to_owned();
    check(&of(&answer), &["for its price", "manual"], &["replaced by", "dry"]);
    assert_eq!(answer["receipt"]["sessions"].as_array().unwrap().len(), 2, "{answer}");
    let mut client = McpClient::start(home.path());
    check(&client.text("context", &scope), &["for its price", "manual"], &["replaced by"]);
    let asked = json!({ "project_path": folder, "asked_by": "two" });
    check(&client.text("context", &asked), &["for its price", "manual"], &["replaced by"]);
    let nobody = json!({ "project_path": folder, "asked_by": "nobody" });
    check(&client.text("context", &nobody), &["replaced by"], &[]);
    client.end();
}
