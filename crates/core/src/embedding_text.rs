//! The texts that are embedded: the text of a turn, the text of a node, and how long a text may be.

use std::borrow::Cow;

use crate::{Message, NodeContent, Role, ToolCall, prompt};

/// Default of the maximum length of an embedded text, in characters.
pub const MAX_CHARS: usize = 4000;
/// Minimum length of an embedded text, in characters. A shorter one carries no meaning of its own.
pub const MIN_CHARS: usize = 10;
/// Characters of each tool result in the text of a turn.
const RESULT_CHARS: usize = 200;

/// The text of a turn: the user, the assistant, and each tool with the head of its result.
#[must_use]
pub fn of_turn(messages: &[Message], calls: &[ToolCall]) -> String {
    let texts_of = |role: Role| {
        let bodies = messages.iter().map(|message| &message.body);
        bodies.filter(move |body| body.role == role && !body.text.is_empty())
    };
    let mut parts = Vec::new();
    for (label, role) in [("User", Role::User), ("Assistant", Role::Assistant)] {
        let texts: Vec<&str> = texts_of(role).map(|body| body.text.as_str()).collect();
        if !texts.is_empty() {
            parts.push(format!("{label}: {}", texts.join("\n")));
        }
    }
    let calls = calls.iter().map(|call| {
        let result = call.call.outcome.as_ref().map(|outcome| outcome.result.to_text());
        tool_line(&call.call.name, result.as_deref().unwrap_or_default())
    });
    let answers = texts_of(Role::Tool)
        .map(|body| tool_line(body.author.as_deref().unwrap_or("tool"), &body.text));
    let tools: Vec<String> = calls.chain(answers).collect();
    if !tools.is_empty() {
        parts.push("Tools used:".to_owned());
        parts.extend(tools);
    }
    parts.join("\n")
}

fn tool_line(name: &str, result: &str) -> String {
    format!("- {name}: {}", head(result, RESULT_CHARS))
}

/// The text of a node: overview, actions, files, findings and decisions.
#[must_use]
pub fn of_node(content: &NodeContent) -> String {
    let lists = [
        ("Actions", &content.action_items, "; "),
        ("Files", &content.files_mentioned, ", "),
        ("Findings", &content.key_findings, "; "),
        ("Decisions", &content.decisions, "; "),
    ];
    let lists = lists.into_iter().filter(|(_, list, _)| !list.is_empty());
    let mut text = prompt::without_headings(&content.overview).into_owned();
    for (label, list, separator) in lists {
        text.push_str(&format!("\n\n{label}: {}", list.join(separator)));
    }
    text
}

/// The embedded part of a text: all of it, or its first `max_chars` characters and an ellipsis.
/// Empty if the text is too short to be embedded.
#[must_use]
pub fn embedded_part(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.chars().nth(MIN_CHARS - 1).is_none() {
        return Cow::Borrowed("");
    }
    truncated(text, max_chars)
}

/// A text truncated to `max_chars` characters; an ellipsis shows that there was more.
#[must_use]
pub fn truncated(text: &str, max_chars: usize) -> Cow<'_, str> {
    let start = head(text, max_chars);
    match start.len() < text.len() {
        true => Cow::Owned(format!("{start}...")),
        false => Cow::Borrowed(text),
    }
}

fn head(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ContentHash, Json, MessageIdx, NewMessage, NewToolCall, ThreadName, Timestamp, ToolResult,
        TurnNo,
    };

    fn at() -> Timestamp {
        Timestamp::from_micros(0)
    }

    fn message(role: Role, text: &str) -> Message {
        Message {
            idx: MessageIdx(0),
            turn: TurnNo(0),
            turns: 1,
            thread: ThreadName::main(),
            body: NewMessage::new(role, text, at()),
            chars: crate::text::chars(text),
            tokens: 0,
            hash: ContentHash::of_fields(&[]),
        }
    }

    fn call(name: &str, result: Option<Json>) -> ToolCall {
        let outcome = |result| ToolResult { result, success: Some(true), duration_ms: None };
        let call = NewToolCall {
            name: name.into(),
            args: Json::empty_object(),
            outcome: result.map(outcome),
            at: at(),
            external_id: None,
        };
        let (turn, before) = (TurnNo(0), MessageIdx(1));
        ToolCall { turn, thread: ThreadName::main(), order: 0, before, call }
    }

    #[test]
    fn a_turn_is_its_user_its_assistant_and_the_heads_of_its_results() {
        let messages = [
            message(Role::System, "Be brief."),
            message(Role::User, "Where is the gauge?"),
            message(Role::Assistant, "I look."),
            message(Role::Assistant, "At Kerzavel."),
        ];
        assert_eq!(
            of_turn(&messages, &[]),
            "User: Where is the gauge?\nAssistant: I look.\nAt Kerzavel."
        );
        let calls = [
            call("grep", Some(Json::string(&"é".repeat(300)))),
            call("read", Some(Json::new(r#"{"depth": 7.4}"#).unwrap())),
            call("wait", None),
        ];
        assert_eq!(
            of_turn(&messages[1..2], &calls),
            format!(
                "User: Where is the gauge?\nTools used:\n- grep: {}\n- read: {{\"depth\": 7.4}}\n- wait: ",
                "é".repeat(200)
            )
        );
        let answer = [message(Role::Tool, "7.4 m")];
        assert_eq!(of_turn(&answer, &[]), "Tools used:\n- tool: 7.4 m");
        assert_eq!(of_turn(&[message(Role::User, "")], &[]), "");
    }

    #[test]
    fn a_node_has_its_lists_under_their_labels() {
        let mut content = NodeContent {
            overview: "The gauge moved.".into(),
            files_mentioned: vec!["a.rs".into(), "b.rs".into()],
            key_findings: vec!["It drifts".into(), "Kerzavel is calm".into()],
            ..NodeContent::default()
        };
        assert_eq!(
            of_node(&content),
            "The gauge moved.\n\nFiles: a.rs, b.rs\n\nFindings: It drifts; Kerzavel is calm"
        );
        content.action_items = vec!["Ask Yann".into()];
        content.decisions = vec!["Keep it".into()];
        assert_eq!(
            of_node(&content),
            "The gauge moved.\n\nActions: Ask Yann\n\nFiles: a.rs, b.rs\n\n\
             Findings: It drifts; Kerzavel is calm\n\nDecisions: Keep it"
        );
    }

    #[test]
    fn texts_are_measured_in_characters() {
        assert_eq!(embedded_part("ééééééééé", MAX_CHARS), "", "nine characters, eighteen bytes");
        assert_eq!(embedded_part("éééééééééé", MAX_CHARS), "éééééééééé");
        assert_eq!(embedded_part("0123456789ab", 12), "0123456789ab");
        assert_eq!(embedded_part("0123456789abé", 12), "0123456789ab...");
        assert_eq!(truncated("short", 12), "short");
    }
}
