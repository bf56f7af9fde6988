//! Conversations of a ChatGPT data export. Each is a tree with one active path.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource, ToolResult,
};

use super::branches::{BranchNode, split_into_threads};
use super::text::{self, DecodedText};
use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, args_of, external};

#[derive(Deserialize)]
struct ChatGptConversation<'a> {
    title: Option<String>,
    create_time: Option<f64>,
    #[serde(borrow)]
    mapping: HashMap<String, ChatGptNode<'a>>,
    current_node: Option<String>,
    conversation_id: Option<String>,
    id: Option<String>,
}

#[derive(Deserialize)]
struct ChatGptNode<'a> {
    #[serde(borrow)]
    message: Option<ChatGptMessage<'a>>,
    parent: Option<String>,
}

#[derive(Deserialize)]
struct ChatGptMessage<'a> {
    author: Author,
    create_time: Option<f64>,
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    recipient: Option<String>,
    #[serde(default)]
    metadata: Option<ChatGptMetadata>,
    status: Option<String>,
    end_turn: Option<bool>,
}

#[derive(Deserialize)]
struct Author {
    role: String,
    name: Option<String>,
}

#[derive(Deserialize)]
struct ChatGptMetadata {
    #[serde(default)]
    is_visually_hidden_from_conversation: Option<bool>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    aggregate_result: Option<Execution>,
}

/// The result of a code execution.
#[derive(Deserialize)]
struct Execution {
    status: Option<String>,
    start_time: Option<f64>,
    end_time: Option<f64>,
}

#[derive(Deserialize)]
struct Content<'a> {
    content_type: String,
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    // Parse conversations one at a time, because an export can be very large.
    let conversations = match text::parse::<Vec<&RawValue>>(&source.text) {
        Ok(conversations) => conversations,
        Err(_) => vec![text::parse::<&RawValue>(&source.text)?],
    };
    for raw in conversations {
        let conversation: ChatGptConversation<'_> = text::parse(raw.get())?;
        let imported = conversation.to_imported(source.modified, sink);
        sink.emit(imported)?;
    }
    Ok(())
}

impl ChatGptConversation<'_> {
    fn to_imported(&self, modified: Timestamp, sink: &mut Sink<'_>) -> ImportedConversation {
        let Self { title, create_time, mapping, current_node, conversation_id, id } = self;
        let id = conversation_id.as_deref().or(id.as_deref()).or(current_node.as_deref());
        let mut imported = ImportedConversation::named(Format::ChatGpt, id.unwrap_or_default());
        imported.conversation.title_source = TitleSource::Source;
        imported.conversation.title = title.clone().filter(|title| !title.trim().is_empty());
        let start = create_time.and_then(Timestamp::from_seconds).unwrap_or(modified);

        let tree = MessageTree::of(mapping, start);
        let mut nodes = Vec::with_capacity(mapping.len());
        for TreeNode { id, at, call, .. } in &tree.nodes {
            let node = &mapping[*id];
            let entries = node
                .message
                .as_ref()
                .map_or_else(Vec::new, |message| entries(id, message, *call, *at, sink));
            nodes.push(BranchNode { id, parent: node.parent.as_deref(), entries });
        }
        split_into_threads(&mut imported, nodes, current_node.as_deref());
        imported
    }
}

/// A message in the tree, with what it inherits from its ancestors.
struct TreeNode<'a> {
    depth: usize,
    /// The time of the message, or that of its nearest ancestor with one.
    at: Timestamp,
    id: &'a str,
    /// The call that a tool message answers: the nearest ancestor that is not a spinner, if it is a
    /// call. A second answer to the same call becomes a message.
    call: Option<&'a str>,
}

/// The messages of a conversation, parents before children and siblings by time. The order in the
/// file is arbitrary.
struct MessageTree<'a> {
    nodes: Vec<TreeNode<'a>>,
}

impl<'a> MessageTree<'a> {
    fn of(mapping: &'a HashMap<String, ChatGptNode<'_>>, start: Timestamp) -> Self {
        let parent = |node: &'a ChatGptNode<'_>| {
            node.parent.as_deref().filter(|parent| mapping.contains_key(*parent))
        };
        let mut children: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
        for (id, node) in mapping {
            children.entry(parent(node)).or_default().push(id);
        }
        let mut nodes: Vec<TreeNode<'a>> = Vec::with_capacity(mapping.len());
        let mut open: Vec<(&str, usize, Timestamp, Option<&str>)> = Vec::new();
        let roots = children.remove(&None).unwrap_or_default();
        open.extend(roots.into_iter().map(|id| (id, 0, start, None)));
        while let Some((id, depth, inherited, call)) = open.pop() {
            let message = mapping[id].message.as_ref();
            let own = message.and_then(|it| it.create_time).and_then(Timestamp::from_seconds);
            let at = own.unwrap_or(inherited);
            nodes.push(TreeNode { depth, at, id, call });
            let call = match message {
                Some(message) if message.is_spinner() => call,
                Some(message) if message.is_call() => Some(id),
                _ => None,
            };
            let below = children.remove(&Some(id)).unwrap_or_default();
            open.extend(below.into_iter().map(|id| (id, depth + 1, at, call)));
        }
        // A damaged file may contain cycles, which no root leads to.
        let cyclic = children.into_values().flatten();
        nodes.extend(cyclic.map(|id| TreeNode { depth: usize::MAX, at: start, id, call: None }));
        nodes.sort_by(|one, other| {
            (one.depth, one.at, one.id).cmp(&(other.depth, other.at, other.id))
        });
        Self { nodes }
    }
}

/// The entries of a message. `call` is the call that a tool message answers.
fn entries(
    id: &str,
    message: &ChatGptMessage<'_>,
    call: Option<&str>,
    at: Timestamp,
    sink: &mut Sink<'_>,
) -> Vec<EntryKind> {
    let Some(raw) = message.content else { return Vec::new() };
    if message.is_spinner() {
        sink.skip("progress messages of tools");
        return Vec::new();
    }
    let body = content(raw);
    if body.text.is_empty() && body.original.is_none() {
        sink.skip("empty messages");
        return Vec::new();
    }
    let recipient = message.recipient.as_deref().unwrap_or("all");
    let role = message.author.role.as_str();
    if role == "assistant" && recipient != "all" {
        return vec![EntryKind::ToolCall(NewToolCall {
            name: recipient.to_owned(),
            args: args_of(&body.text),
            outcome: None,
            at,
            external_id: Some(external(id)),
        })];
    }
    if role == "tool"
        && let Some(call) = call
    {
        let result = body.original.unwrap_or_else(|| Json::string(&body.text));
        let outcome =
            ToolResult { result, success: message.success(), duration_ms: message.duration() };
        return vec![EntryKind::ToolResult { call: external(call), outcome, at }];
    }
    let hidden = message
        .metadata
        .as_ref()
        .and_then(|m| m.is_visually_hidden_from_conversation)
        .unwrap_or(false);
    let role = match role {
        _ if hidden => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        _ => Role::System,
    };
    let mut new = NewMessage::new(role, body.text, at);
    new.author.clone_from(&message.author.name);
    new.parts = body.original;
    new.external_id = Some(external(id));
    let ends_turn = role == Role::Assistant && message.end_turn == Some(true);
    let end = ends_turn.then_some(EntryKind::TurnEnd);
    std::iter::once(EntryKind::Message(new)).chain(end).collect()
}

impl ChatGptMessage<'_> {
    fn is_spinner(&self) -> bool {
        self.author.role == "tool"
            && self.metadata.as_ref().and_then(|m| m.command.as_deref()) == Some("spinner")
    }

    /// Whether the assistant calls a tool.
    fn is_call(&self) -> bool {
        self.author.role == "assistant"
            && self.recipient.as_deref().is_some_and(|recipient| recipient != "all")
    }

    /// Whether the tool succeeded, from the first field that reports it.
    fn success(&self) -> Option<bool> {
        let metadata = self.metadata.as_ref();
        if metadata.and_then(|m| m.is_error) == Some(true) {
            return Some(false);
        }
        let execution = metadata
            .and_then(|m| m.aggregate_result.as_ref())
            .and_then(|execution| execution.status.as_deref());
        let finished = self.status.as_deref().map(|status| status != "finished_with_error");
        execution.map(|status| status == "success").or(finished)
    }

    fn duration(&self) -> Option<u64> {
        let execution = self.metadata.as_ref()?.aggregate_result.as_ref()?;
        let seconds = execution.end_time? - execution.start_time?;
        (seconds.is_finite() && seconds >= 0.0).then_some((seconds * 1000.0).round() as u64)
    }
}

/// The text of a content, with the raw JSON if it holds more than text.
fn content(raw: &RawValue) -> DecodedText {
    let raw_content = || Some(Json::from_raw(raw));
    let Ok(content) = text::parse::<Content<'_>>(raw.get()) else {
        return DecodedText { text: String::new(), original: raw_content() };
    };
    let mut texts = Vec::new();
    let mut is_plain_text =
        matches!(content.content_type.as_str(), "text" | "code" | "execution_output");
    for part in &content.parts {
        #[derive(Deserialize)]
        struct Transcript {
            text: Option<String>,
        }
        match text::string(part) {
            Some(DecodedText { text, original }) => {
                is_plain_text &= original.is_none();
                texts.push(text);
            }
            None => {
                is_plain_text = false;
                texts.extend(text::parse::<Transcript>(part.get()).ok().and_then(|part| part.text));
            }
        }
    }
    for raw in [content.text, content.result, content.content].into_iter().flatten() {
        if let Some(DecodedText { text, original }) = text::string(raw) {
            is_plain_text &= original.is_none();
            texts.push(text);
        }
    }
    if content.content_type == "reasoning_recap" {
        // A recap such as `Thought for 6 seconds` is not an answer.
        texts.clear();
    }
    texts.retain(|text| !text.is_empty());
    DecodedText {
        text: texts.join("\n\n"),
        original: if is_plain_text { None } else { raw_content() },
    }
}
