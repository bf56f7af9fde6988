//! Private passages, exclusions and pauses keep text out of the store, and masks keep secrets out
//! of what is recalled, in real processes.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use crate::home::{Home, run_with_input};
use serde_json::{Value, json};

const KEY: &str = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8xWz1y";

/// Whether a file below a folder contains a text.
fn is_in_files(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => is_in_files(&path, text),
            false => fs::read(&path)
                .unwrap_or_default()
                .windows(text.len())
                .any(|bytes| bytes == text.as_bytes()),
        }
    })
}

fn hook(home: &Home, agent: &str, input: &Value) {
    let output = run_with_input(&mut home.command(&["hook", agent]), &input.to_string());
    assert!(output.status.success());
}

/// A transcript of Claude Code with a message at each of these times.
fn write_transcript(path: &Path, messages: &[(&str, &str)]) {
    let line = |(number, (at, text)): (usize, &(&str, &str))| {
        let message = json!({ "role": "user", "content": text });
        let line = json!({ "type": "user", "uuid": format!("u{number}"), "sessionId": "s1",
            "timestamp": at, "cwd": "/w", "message": message });
        format!("{line}\n")
    };
    fs::write(path, messages.iter().enumerate().map(line).collect::<String>()).unwrap();
}

#[test]
fn private_passages_are_stored_by_no_path() {
    let home = Home::new();
    let appended = home.json(&[
        "append",
        "--title",
        "Titled <private>zq1vk</private>",
        "--user",
        "My code is <private>zq2vk</private>, fine?",
        "--assistant",
        "<private>zq3vk</private>",
        "--tool",
        r#"{"name":"t","args":{"a":"<private>zq4vk</private>"},"result":"x <PRIVATE>zq5vk"}"#,
    ]);
    assert_eq!(appended["private"], 5, "{appended}");
    let line = r#"{"type":"message","role":"user","text":"a \u003cprivate\u003ezq6vk</private>"}"#;
    let output = run_with_input(&mut home.command(&["--json", "append", "--key", "k"]), line);
    assert!(output.status.success());
    let transcript = home.path().join("t.jsonl");
    write_transcript(&transcript, &[("2026-03-01T08:00:00Z", "b <private>zq7vk</private> c")]);
    let imported = home.json(&["import", transcript.to_str().unwrap()]);
    assert_eq!(imported["total"]["skipped"]["private passages"], 1, "{imported}");
    fs::remove_file(&transcript).unwrap();
    let prompt = json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": "c1",
        "generation_id": "g", "prompt": "d <private>zq8vk</private>" });
    hook(&home, "cursor", &prompt);
    let slug = appended["slug"].as_str().unwrap();
    home.json(&["rename", slug, "New <private>zq9vk</private>"]);
    for number in 1..=9 {
        let word = format!("zq{number}vk");
        assert!(!is_in_files(home.path(), &word), "{word} was stored");
    }
    assert!(is_in_files(home.path(), "My code is [private], fine?"), "the rest was stored");
}

#[test]
fn the_spool_has_no_private_passage() {
    let home = Home::new();
    fs::write(home.path().join("treering.db"), "no store ".repeat(200)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let transcript = folder.path().join("t.jsonl");
    write_transcript(&transcript, &[("2026-03-01T08:00:00Z", "kept <private>zq1vk</private>")]);
    hook(&home, "claude-code", &json!({ "transcript_path": transcript }));
    let prompt = json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": "c1",
        "generation_id": "g", "prompt": "kept <private>zq2vk</private>" });
    hook(&home, "cursor", &prompt);
    let spool = home.path().join("spool");
    assert_eq!(fs::read_dir(&spool).unwrap().count(), 2);
    assert!(is_in_files(&spool, "kept [private]"));
    assert!(!is_in_files(&spool, "zq1vk") && !is_in_files(&spool, "zq2vk"));
}

#[test]
fn excluded_folders_and_patterns_are_not_stored() {
    let home = Home::new();
    let secret = home.path().join("secret/deep");
    fs::create_dir_all(&secret).unwrap();
    fs::write(
        home.path().join("treering.toml"),
        format!(
            "[capture]\nexclude_folders = [{:?}]\nexclude_patterns = [\".env\", \"ACME-*\"]",
            home.path().join("secret")
        ),
    )
    .unwrap();
    let cwd = secret.to_str().unwrap();
    let hidden = home.json(&["append", "--cwd", cwd, "--user", "zq1vk"]);
    assert_eq!((&hidden["excluded"], &hidden["messages"]), (&json!(1), &json!([])), "{hidden}");
    let shown = home.json(&[
        "append",
        "--user",
        "Ask about ACME-zq2vk today",
        "--tool",
        r#"{"name":"read","args":{"path":"/app/.env"},"result":"zq3vk"}"#,
    ]);
    assert_eq!(shown["excluded"], 2, "{shown}");
    let slug = shown["slug"].as_str().unwrap();
    home.json(&["rename", slug, "A plan of ACME-zq4vk"]);
    home.json(&["append", "--title", "About ACME-zq5vk", "--user", "Hello"]);
    for word in ["zq1vk", "zq2vk", "zq3vk", "zq4vk", "zq5vk"] {
        assert!(!is_in_files(home.path(), word), "{word} was stored");
    }
    assert!(is_in_files(home.path(), "Ask about [excluded] today"));
    assert!(is_in_files(home.path(), "A plan of [excluded]"));
    let output = home.run(&["create", "--cwd", cwd]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("capture.exclude_folders"));
}

#[test]
fn a_pause_is_left_out_now_and_later() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let transcript = folder.path().join("t.jsonl");
    let claude = json!({ "transcript_path": transcript });
    let cursor = json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": "c1",
        "generation_id": "g", "prompt": "zq5vk in cursor" });
    write_transcript(&transcript, &[("2026-03-01T08:00:00Z", "zq1vk before")]);
    hook(&home, "claude-code", &claude);

    let paused = home.json(&["pause", "--for", "1h"]);
    let (from, until) = (read_pause(&home, "from"), paused["until"].as_str().unwrap().to_owned());
    assert_eq!(home.json(&["status"])["capture_paused_until"], until.as_str());
    let checks = home.json(&["doctor", "--offline"]);
    assert!(checks.to_string().contains("capture is paused until"), "{checks}");
    let during = [("2026-03-01T08:00:00Z", "zq1vk before"), (&*from, "zq2vk during")];
    write_transcript(&transcript, &during);
    hook(&home, "claude-code", &claude);
    hook(&home, "cursor", &cursor);
    home.json(&["append", "--user", "zq3vk asked for"]);

    home.json(&["resume"]);
    assert_eq!(home.json(&["status"])["capture_paused"], false);
    let now = jiff_now(&home);
    write_transcript(&transcript, &[during[0], during[1], (&*now, "zq4vk after")]);
    hook(&home, "claude-code", &claude);
    let imported = home.json(&["import", transcript.to_str().unwrap()]);
    assert_eq!(imported["total"]["skipped"]["entries from a pause of capture"], 1, "{imported}");
    let is_found = |word: &str| home.items(&["search", word]).to_string().contains(word);
    for (word, expected) in [("zq1vk", true), ("zq2vk", false), ("zq3vk", true), ("zq4vk", true)] {
        assert_eq!(is_found(word), expected, "{word}");
    }
    assert!(!is_in_files(home.path(), "zq5vk"));

    home.json(&["import", "--include-paused", transcript.to_str().unwrap()]);
    assert!(is_found("zq2vk"), "a person may ask for it");
}

/// A time of the latest pause.
fn read_pause(home: &Home, field: &str) -> String {
    let text = fs::read_to_string(home.path().join("pauses.json")).unwrap();
    let pauses: Value = serde_json::from_str(&text).unwrap();
    pauses.as_array().unwrap().last().unwrap()[field].as_str().unwrap().to_owned()
}

/// A time after the latest pause.
fn jiff_now(home: &Home) -> String {
    let end: treering_core::Timestamp = read_pause(home, "until").parse().unwrap();
    end.plus_micros(1_000_000).to_string()
}

#[test]
fn secrets_are_masked_wherever_they_are_recalled() {
    let home = Home::new();
    let text = format!("The staging key is {KEY} and it works.");
    let tool = json!({ "name": "deploy", "args": { "api_key": KEY }, "result": KEY }).to_string();
    let turn = ["append", "--user", &text, "--assistant", "Noted.", "--tool", &tool];
    let slug = home.json(&turn)["slug"].as_str().unwrap().to_owned();
    home.json(&["close", &slug]);
    home.json(&["work"]);
    let message = format!("{slug}#0");
    let recalled: [&[&str]; 5] = [
        &["search", "staging key"],
        &["context", &slug, "--query", "staging key"],
        &["context", &slug, "--query", "staging key", "--as-of", "0"],
        &["expand", &message],
        &["sessions"],
    ];
    for args in recalled {
        let masked = home.json(args).to_string();
        assert!(!masked.contains(KEY), "{args:?}: {masked}");
        let open: Vec<&str> = ["--set", "recall.mask_secrets=false"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        if args[0] != "sessions" {
            assert!(masked.contains("[redacted API key]"), "{args:?}: {masked}");
            assert!(home.json(&open).to_string().contains(KEY), "{args:?} has the key at all");
        }
    }
    assert!(home.json(&["show", &slug]).to_string().contains(KEY), "the record is unchanged");
}
