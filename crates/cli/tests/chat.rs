//! `treering chat` against a scripted model server: the requests, the stored turns, and the
//! errors when no answer arrives.

#![allow(
    clippy::unwrap_used,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

use crate::home::Home;
use serde_json::{Value, json};
use treering_testkit::fault_server::{FaultServer, ScriptedResponse};

/// A streamed answer, piece by piece.
fn streamed(pieces: &[&str]) -> String {
    let event = |delta: Value, finish: Value| {
        format!("data: {}\n\n", json!({ "choices": [{ "delta": delta, "finish_reason": finish }] }))
    };
    let mut body: String =
        pieces.iter().map(|piece| event(json!({ "content": piece }), Value::Null)).collect();
    body.push_str(&event(json!({}), json!("stop")));
    body.push_str(&format!(
        "data: {}\n\n",
        json!({ "choices": [], "usage": { "prompt_tokens": 50, "completion_tokens": 4 } })
    ));
    body.push_str("data: [DONE]\n\n");
    body
}

fn response(text: &str) -> ScriptedResponse {
    ScriptedResponse::json(&json!({
        "choices": [{ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }],
        "usage": { "prompt_tokens": 60, "completion_tokens": 5 },
    }))
}

/// A home whose settings name this server as the model.
fn with_model(server: &FaultServer) -> Home {
    let home = Home::new();
    let settings = format!(
        "chat.model = \"compatible/parrot\"\nproviders.compatible.base_url = \"{}/v1\"\n",
        server.url()
    );
    std::fs::write(home.path().join("treering.toml"), settings).unwrap();
    home
}

fn stored_messages(home: &Home) -> Vec<(String, String)> {
    let conversation = home.json(&["show"]);
    let steps = conversation["turns"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|turn| turn["steps"].as_array().unwrap());
    steps
        .map(|step| {
            (step["role"].as_str().unwrap().to_owned(), step["text"].as_str().unwrap().to_owned())
        })
        .collect()
}

fn pairs(messages: &[(&str, &str)]) -> Vec<(String, String)> {
    messages.iter().map(|(role, text)| ((*role).to_owned(), (*text).to_owned())).collect()
}

#[test]
fn chat_without_a_model_explains_how_to_configure_one() {
    let home = Home::new();
    home.refuses(
        &["chat", "--say", "Hello?"],
        &["no model is configured", "chat.model", "ollama/", "docs/models.md"],
    );
    assert_eq!(home.items(&["sessions"]), json!([]), "nothing was begun");
    home.refuses(
        &["--set", "chat.model=parrot", "chat"],
        &["chat.model", "PROVIDER/MODEL", "ollama"],
    );
}

#[test]
fn a_question_is_answered_stored_and_remembered() {
    let server = FaultServer::start([
        ScriptedResponse::events(&streamed(&["On ", "7410", "\u{1b}[2J."])),
        response("Since March."),
    ]);
    let home = with_model(&server);
    let secret = "Which port does staging use? My key is AKIAIOSFODNN7EXAMPLE.";
    assert_eq!(
        home.ok(&["chat", "--say", secret]),
        "On 7410\u{fffd}[2J.\n",
        "no escape sequence gets through"
    );
    let answer = home.json(&["chat", "--last", "--say", "Since when is that port in use?"]);
    assert_eq!(
        (&answer["text"], &answer["question"], &answer["answer"]),
        (&json!("Since March."), &json!(2), &json!(3))
    );
    assert_eq!((&answer["tokens_in"], &answer["model"]), (&json!(60), &json!("compatible/parrot")));
    assert_eq!(
        stored_messages(&home),
        pairs(&[
            ("user", secret),
            ("assistant", "On 7410\u{1b}[2J."),
            ("user", "Since when is that port in use?"),
            ("assistant", "Since March."),
        ])
    );
    let requests: Vec<Value> = server
        .requests()
        .iter()
        .map(|request| serde_json::from_str(&request.body).unwrap())
        .collect();
    assert_eq!(
        (&requests[0]["stream"], &requests[0]["messages"][0]["role"]),
        (&json!(true), &json!("system"))
    );
    let second = requests[1]["messages"].as_array().unwrap();
    assert!(
        second[1]["content"].as_str().unwrap().starts_with("Which port does staging use?"),
        "{second:?}"
    );
    let last = second.last().unwrap()["content"].as_str().unwrap();
    assert!(last.ends_with("Since when is that port in use?"), "{last}");
    assert!(
        server.requests().iter().all(|request| !request.body.contains("AKIAIOSFODNN7EXAMPLE")),
        "the secret got out"
    );
    assert!(home.ok(&["verify"]).contains("no problems found"));
}

#[test]
fn an_interrupted_answer_is_stored_and_reported() {
    let half = streamed(&["The sill ", "is 13"]).replace("data: [DONE]\n\n", "");
    let cut = half.split_inclusive("\n\n").take(2).collect::<String>();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    let server = FaultServer::start([
        ScriptedResponse::Truncate(format!("{head}{cut}")),
        ScriptedResponse::refuse(401, "no such key"),
    ]);
    let home = with_model(&server);
    let output = home.run(&["chat", "--say", "How high is the sill?"]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("your message is stored"), "{stderr}");
    assert_eq!(
        stored_messages(&home),
        pairs(&[("user", "How high is the sill?"), ("assistant", "The sill is 13")])
    );
    home.refuses(&["chat", "--last", "--say", "And now?"], &["401", "your message is stored"]);
    assert_eq!(stored_messages(&home).last().unwrap().1, "And now?");
}

#[test]
fn piped_lines_become_turns_of_one_conversation() {
    let server = FaultServer::start([response("One."), response("Two.")]);
    let home = with_model(&server);
    let output = home.feed(&["--json", "chat", "--title", "Count with me"], "first\n\nsecond\n");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["conversation"], lines[1]["conversation"]);
    assert_eq!(home.items(&["sessions"])[0]["slug"], "count-with-me");
    assert_eq!(stored_messages(&home).len(), 4);
}
