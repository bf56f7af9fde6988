//! Stored text cannot control the terminal, whichever command prints it.

#![allow(clippy::panic, clippy::unwrap_used)]

use crate::home::Home;
use serde_json::json;

/// Sequences that write to the clipboard, set the title, clear the screen and hide text; 8-bit
/// controls; characters that reorder text or carry text that nobody sees.
const HOSTILE: &str = "\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]0;title\u{1b}\\\u{1b}[2J\u{1b}[8m\u{9b}2J\
    \u{9d}0;title\u{9c}\u{8}\u{202e}\u{2066}\u{e0041}\u{e0042}\rtide";

fn hostile() -> Home {
    let home = Home::new();
    let named = |name: &str| format!("{name} {HOSTILE}");
    let message = |role: &str, id: u32| {
        json!({"type": "message", "role": role, "author": named("Ana"), "text": named("sill"),
               "external_id": format!("{id}{HOSTILE}")})
    };
    let call = json!({"type": "tool_call", "name": named("shell"), "args": {"cmd": named("ls")},
                      "result": named("gauge"), "success": false, "external_id": named("call")});
    let head = json!({"type": "conversation", "slug": "tides", "title": named("Tides"),
                      "cwd": format!("/{HOSTILE}"), "external_id": named("key"),
                      "policy": ["min_flush_chars=100", "window_chars=400"]});
    let mut lines = vec![json!({"type": "treering", "version": 4}), head];
    for turn in 0..12 {
        lines.extend([message("user", 2 * turn), message("assistant", 2 * turn + 1)]);
    }
    lines.push(call);
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(home.path().join("tides.jsonl"), lines.join("\n")).unwrap();
    home.ok(&["import", "tides.jsonl"]);
    home.ok(&["work"]);
    home
}

#[test]
fn no_stored_text_controls_the_terminal() {
    let home = hostile();
    for args in [
        &["import", "tides.jsonl"][..],
        &["append", "tides", "--user", HOSTILE, "--assistant", HOSTILE],
        &["sessions"],
        &["search", "sill"],
        &["search", "gauge", "--explain"],
        &["show", "tides"],
        &["show", "tides", "--full"],
        &["show", "tides", "--tree"],
        &["show", "tides", "--nodes"],
        &["show", "tides", "--embeddings"],
        &["context", "tides", "--receipt"],
        &["expand", "tides"],
        &["expand", "tides#3"],
        &["threads", "tides"],
        &["label", "tides"],
        &["status", "tides"],
        &["policy", "tides"],
        &["update", "tides", "--dry-run"],
        &["logs"],
        &["jobs"],
        &["stats"],
        &["verify"],
        &["forget", "tides"],
        &["forget", "--author", HOSTILE],
        &["rename", "tides", HOSTILE],
        &["show", HOSTILE],
        &["close", "tide"],
        &["audit"],
        &["sessions", "--all"],
    ] {
        // As in a terminal, where styles are printed.
        let output = home.command(args).env("CLICOLOR_FORCE", "1").output().unwrap();
        for printed in [output.stdout, output.stderr] {
            let printed = String::from_utf8(printed).unwrap();
            let styles = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m", "[36m"];
            let is_style = |rest: &str| styles.iter().any(|style| rest.starts_with(style));
            let foreign = printed.split('\u{1b}').skip(1).find(|rest| !is_style(rest));
            assert_eq!(foreign, None, "{args:?}: {printed:?}");
            let is_unsafe = |c: char| {
                (c.is_control() && !"\n\t\u{1b}".contains(c))
                    || ('\u{202a}'..='\u{202e}').contains(&c)
                    || ('\u{2066}'..='\u{2069}').contains(&c)
                    || ('\u{e0000}'..='\u{e007f}').contains(&c)
            };
            assert_eq!(printed.find(is_unsafe), None, "{args:?}: {printed:?}");
        }
    }
}

#[test]
fn json_keeps_the_stored_text() {
    let home = hostile();
    let page = home.json(&["show", "tides"]);
    assert!(page["conversation"]["title"].as_str().unwrap().contains("\u{1b}]52;c;"));
}
