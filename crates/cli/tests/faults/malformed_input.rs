//! Malformed and unusual input.

use serde_json::Value;
use serde_json::json;

use crate::processes::Treering;
use crate::turns::{line, parsed, positions};

#[test]
fn lines_before_a_malformed_line_are_stored() {
    let unfinished = &line("cut.0.1")[..40];
    let bad: [&[u8]; 5] = [
        b"{\"type\":\"turn\",\"user\":",
        b"[1,2]",
        b"\xff\xfe",
        b"{\"type\":\"turn\"}",
        unfinished.as_bytes(),
    ];
    for bad in bad {
        let home = tempfile::tempdir().unwrap();
        let treering = Treering::at(home.path());
        let ids: Vec<String> = (0..5).map(|no| format!("t.{no}.3")).collect();
        let mut input = ids.iter().map(|id| line(id)).collect::<String>().into_bytes();
        input.extend_from_slice(bad);
        input.push(b'\n');
        input.extend_from_slice(line("after.0.1").as_bytes());
        let ended = treering.run(&["append", "--key", "k"], &input);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.reported_error().error.contains("line 6"), "{ended:?}");
        let acknowledged: Vec<u64> =
            ended.output.lines().flat_map(|ack| positions(&parsed(ack))).collect();
        assert_eq!(acknowledged, (0..10).collect::<Vec<_>>());
        assert_eq!(treering.turns()["k"], ids);
        treering.verify();
    }
}

#[test]
fn a_complete_last_line_needs_no_newline() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let input = line("t.0.3") + line("t.1.3").trim_end();
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    assert_eq!(treering.turns()["k"], ["t.0.3", "t.1.3"]);
    let ended = treering.run(&["append", "--key", "k"], &line("t.2.3").as_bytes()[..30]);
    assert!(ended.code == 1 && ended.reported_error().error.contains("line 1"), "{ended:?}");
    assert_eq!(treering.turns()["k"].len(), 2);
}

#[test]
fn unusual_text_round_trips() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let big = "Ein Megabyte – 一 🪵\t".repeat(1 << 20 >> 5) + &"x".repeat(1 << 19);
    assert!(big.len() >= 1 << 20);
    let texts = [
        "nul \0 in the middle, and at the end \0",
        "\0",
        "👩‍👩‍👧‍👦 🏳️‍🌈 é e\u{301}",
        "שלום \u{202e}עולם\u{202c} مرحبا",
        "\u{feff}a byte order mark, a replacement \u{fffd}, a noncharacter \u{ffff}",
        "control \u{1}\u{1b}[31m\u{7f}\u{85}\u{2028} line\r\nends\r",
        "",
        big.as_str(),
    ];
    let input: String = texts
        .iter()
        .map(|text| format!("{}\n", json!({"type": "message", "role": "user", "text": text})))
        .collect();
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    let exported = treering.run(&["export"], b"").expect_success();
    let messages: Vec<Value> =
        exported.lines().map(parsed).filter(|line| line["type"] == "message").collect();
    let output = parsed(&treering.run(&["show", "--full"], b"").expect_success());
    let steps: Vec<&Value> = output["turns"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| turn["steps"].as_array().unwrap())
        .collect();
    assert_eq!((messages.len(), steps.len()), (texts.len(), texts.len()));
    for (at, text) in texts.iter().enumerate() {
        let head: String = text.chars().take(20).collect();
        assert!(messages[at]["text"] == *text, "export of {head:?}");
        assert!(steps[at]["text"] == *text, "show of {head:?}");
    }
    treering.verify();
}

#[test]
fn a_lone_surrogate_is_replaced_in_output_and_kept_in_the_store() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let input = r#"{"type":"message","role":"user","text":"half \ud83d of \u0041 pair"}
{"type":"turn","user":"\udc00","assistant":"whole \ud83e\udeb5"}
"#;
    treering.run(&["append", "--key", "k"], input.as_bytes()).expect_success();
    let exported = treering.run(&["export"], b"").expect_success();
    let lines: Vec<&str> = exported.lines().filter(|line| line.contains("\"message\"")).collect();
    let text = |at: usize| -> String {
        #[derive(serde::Deserialize)]
        struct Text {
            text: String,
        }
        serde_json::from_str::<Text>(lines[at]).unwrap().text
    };
    assert_eq!((text(0), text(1)), ("half \u{fffd} of A pair".into(), "\u{fffd}".into()));
    assert_eq!(text(2), "whole 🪵");
    assert!(lines[0].contains(r"half \ud83d of \u0041 pair"), "{}", lines[0]);
    assert!(lines[1].contains(r"\udc00"), "{}", lines[1]);
    let output = treering.run(&["show", "--full"], b"").expect_success();
    assert!(output.contains(r"half \ud83d of \u0041 pair"), "{output}");
    treering.verify();
    // The export can be appended to an empty store and exports identically.
    let second = tempfile::tempdir().unwrap();
    let copy = Treering::at(second.path());
    copy.run(&["append"], exported.as_bytes()).expect_success();
    assert_eq!(copy.run(&["export"], b"").expect_success(), exported);
}

#[test]
fn a_clock_that_goes_back_does_not_change_the_order() {
    let home = tempfile::tempdir().unwrap();
    let treering = Treering::at(home.path());
    let times = [
        "2024-06-01T12:00:00Z",
        "2024-06-01T11:59:59.999999Z",
        "2020-01-01T00:00:00Z",
        "1969-12-31T23:59:59Z",
        "2030-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
    ];
    let line_at = |(no, at): (usize, &&str)| {
        let mut turn = parsed(&line(&format!("t.{no}.2")));
        turn["at"] = json!(at);
        format!("{turn}\n")
    };
    let lines: Vec<String> = times.iter().enumerate().map(line_at).collect();
    // First one commit per line, then all lines again in one commit.
    for line in &lines {
        treering.run(&["append", "--key", "k"], line.as_bytes()).expect_success();
    }
    treering.run(&["append", "--key", "k"], lines.concat().as_bytes()).expect_success();
    treering.run(&["append", "--key", "together"], lines.concat().as_bytes()).expect_success();
    let expected: Vec<String> = (0..times.len()).map(|no| format!("t.{no}.2")).collect();
    let stored = treering.turns();
    assert_eq!((&stored["k"], &stored["together"]), (&expected, &expected));
    treering.verify();
}
