//! Transcripts of Cursor's agent (`~/.cursor/projects/*/agent-transcripts`): one message per line,
//! without ids and times.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{EntryKind, Json, NewMessage, NewToolCall, Role};

use super::blocks::{self, MessageContent};
use super::{
    Format, Identity, ImportError, ImportedConversation, Sink, SourceFile, external, stem, text,
};

#[derive(Deserialize)]
struct CursorLine<'a> {
    role: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    message: Option<CursorMessage<'a>>,
}

#[derive(Deserialize)]
struct CursorMessage<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let id = stem(&source.path);
    let mut imported = ImportedConversation::named(Format::Cursor, &id);
    // The hooks capture the same conversation under this key.
    imported.conversation.external_id = Some(external(&format!("cursor/{id}")));
    imported.identity = Identity::ByPrompt;
    let mut position = text::LinePosition::default();
    for record in text::records::<CursorLine<'_>>(source, &mut position, sink)?.records {
        let line = record.value;
        let content = line.message.and_then(|message| message.content);
        let role = match (line.role.as_deref(), line.kind.as_deref()) {
            (Some("user"), _) => Role::User,
            (Some("assistant"), _) => Role::Assistant,
            (_, Some("turn_ended")) => {
                imported.push(EntryKind::TurnEnd);
                continue;
            }
            (Some(other), _) | (None, Some(other)) => {
                sink.skip(format!("{other} records"));
                continue;
            }
            (None, None) => {
                sink.skip("records without a role");
                continue;
            }
        };
        let Some(content) = content else {
            sink.skip("messages without content");
            continue;
        };
        message(role, content, source, &mut imported);
    }
    sink.emit(imported)
}

fn message(
    role: Role,
    content: &RawValue,
    source: &SourceFile,
    imported: &mut ImportedConversation,
) {
    let blocks = blocks::blocks(content);
    let MessageContent { text, mut parts } = blocks::message_content(content, &blocks);
    let query = query(&text).filter(|_| role == Role::User);
    if query.is_some_and(|query| query.len() < text.len()) {
        // Cursor's attachments are kept beside the prompt.
        parts = Some(Json::from_raw(content));
    }
    let text = query.unwrap_or(&text);
    if !text.is_empty() || parts.is_some() {
        let mut new = NewMessage::new(role, text, source.modified);
        new.parts = parts;
        imported.push(EntryKind::Message(new));
    }
    for block in blocks.iter().filter(|block| block.kind == "tool_use") {
        imported.push(EntryKind::ToolCall(NewToolCall {
            name: block.name.clone().unwrap_or_else(|| "tool".into()),
            args: block.args(),
            outcome: None,
            at: source.modified,
            external_id: None,
        }));
    }
}

/// The words of the user, without the context that Cursor put around them.
fn query(text: &str) -> Option<&str> {
    let from = text.find("<user_query>")? + "<user_query>".len();
    let until = text[from..].find("</user_query>")? + from;
    Some(text[from..until].trim())
}
