//! Conversations of a Claude.ai data export.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource};

use super::blocks::{self, TranscriptBlock};
use super::branches::{BranchNode, split_into_threads};
use super::text::{self, DecodedText};
use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external};

#[derive(Deserialize)]
struct ClaudeAiConversation<'a> {
    uuid: String,
    name: Option<String>,
    created_at: Option<String>,
    #[serde(borrow)]
    chat_messages: Vec<&'a RawValue>,
    current_leaf_message_uuid: Option<String>,
}

#[derive(Deserialize)]
struct ClaudeAiMessage<'a> {
    uuid: String,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    sender: String,
    created_at: Option<String>,
    #[serde(default)]
    attachments: Vec<ClaudeAttachment>,
    #[serde(borrow, default)]
    files: Option<&'a RawValue>,
    parent_message_uuid: Option<String>,
}

#[derive(Deserialize)]
struct ClaudeAttachment {
    #[serde(default)]
    file_name: String,
    extracted_content: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    for raw in text::parse::<Vec<&RawValue>>(&source.text)? {
        let conversation: ClaudeAiConversation<'_> = text::parse(raw.get())?;
        let mut imported = ImportedConversation::named(Format::ClaudeAi, &conversation.uuid);
        imported.conversation.title_source = TitleSource::Source;
        imported.conversation.title = conversation.name.filter(|name| !name.trim().is_empty());
        let start = parse_time(conversation.created_at.as_deref()).unwrap_or(source.modified);
        let messages: Vec<(&RawValue, ClaudeAiMessage<'_>)> = conversation
            .chat_messages
            .into_iter()
            .map(|raw| Ok((raw, text::parse(raw.get())?)))
            .collect::<Result<_, ImportError>>()?;
        let ids: HashMap<&str, ()> = messages.iter().map(|(_, m)| (m.uuid.as_str(), ())).collect();
        // Older exports have no parent ids; each message then follows the previous one.
        let is_tree = messages.iter().any(|(_, m)| {
            m.parent_message_uuid.as_deref().is_some_and(|parent| ids.contains_key(parent))
        });
        let mut nodes: Vec<BranchNode<'_>> = Vec::with_capacity(messages.len());
        for (raw, message) in &messages {
            let before = nodes.last().map(|node| node.id);
            let parent = if is_tree { message.parent_message_uuid.as_deref() } else { before };
            let at = parse_time(message.created_at.as_deref()).unwrap_or(start);
            nodes.push(BranchNode {
                id: &message.uuid,
                parent,
                entries: entries(raw, message, at, sink),
            });
        }
        split_into_threads(&mut imported, nodes, conversation.current_leaf_message_uuid.as_deref());
        sink.emit(imported)?;
    }
    Ok(())
}

fn parse_time(text: Option<&str>) -> Option<Timestamp> {
    text?.parse().ok()
}

/// The entries of a message: its tool calls, then the message.
fn entries(
    raw: &RawValue,
    message: &ClaudeAiMessage<'_>,
    at: Timestamp,
    sink: &mut Sink<'_>,
) -> Vec<EntryKind> {
    let blocks = message.content.map(blocks::blocks).unwrap_or_default();
    let mut entries = tools(&message.uuid, &blocks, at);
    let content = message.content.map(|content| blocks::message_content(content, &blocks));
    let (mut text, mut parts) =
        content.map_or((String::new(), None), |content| (content.text, content.parts));
    if text.is_empty()
        && entries.is_empty()
        && let Some(DecodedText { text: message_text, original }) =
            message.text.and_then(text::string)
    {
        text = message_text;
        parts = parts.or(original);
    }
    for attachment in &message.attachments {
        let Some(content) = attachment.extracted_content.as_deref().filter(|c| !c.is_empty())
        else {
            continue;
        };
        let name =
            if attachment.file_name.is_empty() { "pasted text" } else { &attachment.file_name };
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text = format!("{text}{gap}[{name}]\n{content}");
    }
    let has_files = message.files.is_some_and(|files| !matches!(files.get(), "[]" | "null"));
    if has_files || !message.attachments.is_empty() {
        parts = Some(Json::from_raw(raw));
    }
    if text.is_empty() && parts.is_none() {
        if entries.is_empty() {
            sink.skip("empty messages");
        }
        return entries;
    }
    let role = if message.sender == "human" { Role::User } else { Role::Assistant };
    let mut new = NewMessage::new(role, text, at);
    new.parts = parts;
    new.external_id = Some(external(&message.uuid));
    entries.push(EntryKind::Message(new));
    entries
}

/// The tool calls of a message with their results, paired in order if they have no id.
fn tools(message: &str, blocks: &[TranscriptBlock<'_>], at: Timestamp) -> Vec<EntryKind> {
    let mut calls: Vec<NewToolCall> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        match block.kind.as_str() {
            "tool_use" => {
                let id = block.id.clone().unwrap_or_else(|| format!("{message}/{number}"));
                calls.push(NewToolCall {
                    name: block.name.clone().unwrap_or_else(|| "tool".into()),
                    args: block.args(),
                    outcome: None,
                    at: parse_time(block.start_timestamp.as_deref()).unwrap_or(at),
                    external_id: Some(external(&id)),
                });
            }
            "tool_result" => {
                let call_id = block.tool_use_id.as_deref().map(external);
                let position = calls.iter().position(|call| match &call_id {
                    Some(id) => call.external_id.as_ref() == Some(id),
                    None => call.outcome.is_none(),
                });
                if let Some(call) = position.and_then(|position| calls.get_mut(position)) {
                    let stop = parse_time(block.stop_timestamp.as_deref());
                    let elapsed = stop.map(|stop| stop.as_micros() - call.at.as_micros());
                    let duration_ms = elapsed.and_then(|micros| u64::try_from(micros / 1000).ok());
                    call.outcome = Some(block.outcome(duration_ms));
                }
            }
            _ => {}
        }
    }
    calls.into_iter().map(EntryKind::ToolCall).collect()
}
