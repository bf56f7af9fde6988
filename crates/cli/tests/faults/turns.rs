//! Generates turns and finds them again in exports.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::json;

/// A turn as a line of input. Its content is derived from its id, whose last part is the number
/// of filler words.
pub(crate) fn line(id: &str) -> String {
    let turn = json!({
        "type": "turn",
        "user": user_text(id),
        "assistant": assistant_text(id),
        "tool_calls": [{ "name": "look", "args": look(id) }],
        "external_id": id,
    });
    format!("{turn}\n")
}

/// The user's text. All begin alike, so that all conversations compete for the same slug.
pub(crate) fn user_text(id: &str) -> String {
    format!("What was it that everybody began with? {}{id}", "word ".repeat(words(id).min(60)))
}

/// The tool call's arguments. They take the filler beyond 60 words, because their tokens are not
/// counted, which is faster.
pub(crate) fn look(id: &str) -> Value {
    json!({ "id": id, "words": "word ".repeat(words(id).saturating_sub(60)) })
}

pub(crate) fn words(id: &str) -> usize {
    id.rsplit('.').next().unwrap().parse().unwrap()
}

pub(crate) fn assistant_text(id: &str) -> String {
    format!("The answer to {id}.")
}

/// The ids of the turns in an export, by the key of their conversation. Asserts that every turn
/// is complete and every message in its position.
pub(crate) fn turns_of(export: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut records: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut key = String::new();
    for line in export.lines().map(parsed) {
        match line["type"].as_str() {
            Some("treering" | "turn_end") => {}
            Some("conversation") => {
                key = line["external_id"].as_str().unwrap().to_owned();
                assert!(
                    records.insert(key.clone(), Vec::new()).is_none(),
                    "two conversations are {key}"
                );
            }
            _ => records.get_mut(&key).unwrap().push(line),
        }
    }
    for (key, records) in records {
        for (no, turn) in records.chunks(3).enumerate() {
            let id =
                turn[0]["external_id"].as_str().unwrap().strip_suffix("/user").unwrap().to_owned();
            let [user, call, assistant] = turn else { panic!("half a turn: {turn:?}") };
            assert_eq!((&user["idx"], &user["role"]), (&json!(2 * no), &json!("user")));
            assert_eq!(user["text"], user_text(&id));
            assert_eq!((&call["type"], &call["args"]), (&json!("tool_call"), &look(&id)));
            assert_eq!(
                (&assistant["idx"], &assistant["role"]),
                (&json!(2 * no + 1), &json!("assistant"))
            );
            assert_eq!(assistant["text"], assistant_text(&id));
            found.entry(key.clone()).or_default().push(id);
        }
    }
    found
}

/// The message positions in an acknowledgement.
pub(crate) fn positions(ack: &Value) -> Vec<u64> {
    ack["messages"].as_array().unwrap().iter().map(|idx| idx.as_u64().unwrap()).collect()
}

pub(crate) fn parsed(json: &str) -> Value {
    serde_json::from_str(json)
        .unwrap_or_else(|error| panic!("{error}: {}", &json[..json.len().min(200)]))
}
