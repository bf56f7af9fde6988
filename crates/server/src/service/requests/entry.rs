//! The schema of entries: every shape that [`treering::jsonl::parse_line`] reads, except for the
//! lines that name a conversation. Only described here; that function parses them.

#![expect(dead_code, reason = "only the schemas are used")]

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::RoleName;

/// An entry of an append: a line of Treering's JSON Lines format, or a message as chat APIs have
/// them.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "no value is made")]
pub(super) enum EntryRequest {
    Turn(TurnEntry),
    Message(MessageEntry),
    ToolCall(ToolCallEntry),
    ToolResult(ToolResultEntry),
    Thread(ThreadEntry),
    TurnEnd(TurnEndEntry),
    Chat(ChatEntry),
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TurnType {
    Turn,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum MessageType {
    Message,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ToolCallType {
    ToolCall,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ToolResultType {
    ToolResult,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum ThreadType {
    Thread,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum TurnEndType {
    TurnEnd,
}

/// A field whose value is JSON null and not absent.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum NullableField {
    Parts,
    Args,
    Result,
}

/// A complete turn.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "type": "turn",
    "user": "Which port does staging use?",
    "assistant": "7410, since March.",
    "tool_calls": [{ "name": "grep", "args": { "pattern": "port" }, "result": "7410" }],
    "at": "2026-03-02T08:41:00Z",
    "external_id": "turn-7"
})))]
pub(super) struct TurnEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: TurnType,
    /// The user's message.
    #[schema(max_length = 4000000)]
    user: Option<String>,
    /// The assistant's answer.
    #[schema(max_length = 4000000)]
    assistant: Option<String>,
    /// Tool calls in between.
    #[schema(max_items = 200)]
    #[serde(default)]
    tool_calls: Vec<TurnToolCall>,
    /// Author of the user's message.
    #[schema(max_length = 200)]
    author: Option<String>,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
    /// Time; default: now.
    #[schema(max_length = 40)]
    at: Option<String>,
    /// Id at the source; an entry is stored only once.
    #[schema(min_length = 1, max_length = 100)]
    external_id: Option<String>,
}

/// A tool call of a turn.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TurnToolCall {
    /// The tool's name.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// The arguments.
    args: Option<Value>,
    /// The result.
    result: Option<Value>,
    /// Whether it succeeded.
    success: Option<bool>,
    /// Duration in milliseconds.
    duration_ms: Option<u64>,
    /// Time; default: that of the turn.
    #[schema(max_length = 40)]
    at: Option<String>,
    /// Id of the call at its source.
    #[schema(min_length = 1, max_length = 100)]
    external_id: Option<String>,
}

/// One message. `type` may be left out.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "type": "message",
    "role": "user",
    "text": "Which port does staging use?",
    "author": "Ana",
    "external_id": "message-7"
})))]
pub(super) struct MessageEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: Option<MessageType>,
    #[schema(inline)]
    role: RoleName,
    /// The text.
    #[schema(max_length = 4000000)]
    text: String,
    /// The content as its source has it, if it is more than text.
    parts: Option<Value>,
    /// The author.
    #[schema(max_length = 200)]
    author: Option<String>,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
    /// Time; default: now.
    #[schema(max_length = 40)]
    at: Option<String>,
    /// Id at the source; an entry is stored only once.
    #[schema(min_length = 1, max_length = 100)]
    external_id: Option<String>,
    /// Position in an export; not used.
    idx: Option<u32>,
    /// Fields that are null and not absent.
    #[serde(default)]
    #[schema(inline)]
    null_fields: Vec<NullableField>,
    /// Whether the message is a placeholder of a forgotten one.
    #[serde(default)]
    forgotten: bool,
    /// Time of the last edit.
    #[schema(max_length = 40)]
    edited_at: Option<String>,
    /// Time at which the message was marked as wrong.
    #[schema(max_length = 40)]
    wrong_at: Option<String>,
    /// The correction; needs `wrong_at`.
    #[schema(max_length = 4000000)]
    correction: Option<String>,
    /// Earlier versions of the text, oldest first.
    #[serde(default)]
    history: Vec<VersionEntry>,
}

/// An earlier version of a message.
#[derive(Deserialize, ToSchema)]
struct VersionEntry {
    /// Time at which the next version replaced it.
    #[schema(max_length = 40)]
    replaced_at: String,
    /// The text.
    #[schema(max_length = 4000000)]
    text: String,
    /// The content as its source has it, if it is more than text.
    parts: Option<Value>,
    /// Fields that are null and not absent.
    #[serde(default)]
    #[schema(inline)]
    null_fields: Vec<NullableField>,
    /// Time at which it was marked as wrong.
    #[schema(max_length = 40)]
    wrong_at: Option<String>,
    /// The correction; needs `wrong_at`.
    #[schema(max_length = 4000000)]
    correction: Option<String>,
}

/// A tool call of the current turn. Its result can follow.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "type": "tool_call",
    "name": "grep",
    "args": { "pattern": "port" },
    "external_id": "call-7"
})))]
pub(super) struct ToolCallEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: ToolCallType,
    /// The tool's name.
    #[schema(min_length = 1, max_length = 200)]
    name: String,
    /// The arguments.
    args: Option<Value>,
    /// The result.
    result: Option<Value>,
    /// Fields that are null and not absent.
    #[serde(default)]
    #[schema(inline)]
    null_fields: Vec<NullableField>,
    /// Whether it succeeded.
    success: Option<bool>,
    /// Duration in milliseconds.
    duration_ms: Option<u64>,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
    /// Time; default: now.
    #[schema(max_length = 40)]
    at: Option<String>,
    /// Id of the call at its source, which a result names.
    #[schema(min_length = 1, max_length = 100)]
    external_id: Option<String>,
}

/// The result of an earlier tool call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "type": "tool_result",
    "call": "call-7",
    "result": "port = 7410",
    "success": true
})))]
pub(super) struct ToolResultEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: ToolResultType,
    /// The `external_id` of the call.
    #[schema(min_length = 1, max_length = 100)]
    call: String,
    /// The result.
    result: Value,
    /// Whether the call succeeded.
    success: Option<bool>,
    /// Duration in milliseconds.
    duration_ms: Option<u64>,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
    /// Time; default: now.
    #[schema(max_length = 40)]
    at: Option<String>,
}

/// A new thread.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "type": "thread", "name": "side", "parent": "main", "fork_idx": 0 })))]
pub(super) struct ThreadEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: ThreadType,
    /// Its name.
    #[schema(min_length = 1, max_length = 100)]
    name: String,
    /// The thread that it branches off; default: main.
    #[schema(min_length = 1, max_length = 100)]
    parent: Option<String>,
    /// Position of the last shared message; default: none is shared.
    fork_idx: Option<u32>,
}

/// The end of the current turn.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "type": "turn_end" })))]
pub(super) struct TurnEndEntry {
    #[serde(rename = "type")]
    #[schema(inline)]
    kind: TurnEndType,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
}

/// A message as chat APIs have them. A message with the role `tool` is the result of a call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({
    "role": "assistant",
    "content": "Let me look.",
    "tool_calls": [{
        "id": "call-7",
        "type": "function",
        "function": { "name": "grep", "arguments": "{\"pattern\": \"port\"}" }
    }]
})))]
pub(super) struct ChatEntry {
    /// `user`, `assistant`, `system`, `developer` or `tool`.
    #[schema(min_length = 1, max_length = 40)]
    role: String,
    /// A text, or a list of parts.
    content: Option<Value>,
    /// The author.
    #[schema(max_length = 200)]
    name: Option<String>,
    /// The same as `name`.
    #[schema(max_length = 200)]
    author: Option<String>,
    /// Tool calls of the assistant.
    #[schema(value_type = Vec<Object>, max_items = 200)]
    #[serde(default)]
    tool_calls: Vec<Value>,
    /// The call whose result this is.
    tool_call_id: Option<String>,
    /// A function call of the assistant, in the older form.
    #[schema(value_type = Option<Object>)]
    function_call: Option<Value>,
    /// The refusal of the assistant.
    refusal: Option<String>,
    /// The reasoning of the assistant.
    reasoning_content: Option<Value>,
    /// Time; default: now.
    #[schema(max_length = 40)]
    at: Option<String>,
    /// Time as text or as a Unix time.
    timestamp: Option<Value>,
    /// The same as `timestamp`.
    created_at: Option<Value>,
    /// The same as `timestamp`.
    created: Option<Value>,
    /// The same as `timestamp`.
    ts: Option<Value>,
    /// Thread; default: main.
    #[schema(min_length = 1, max_length = 100)]
    thread: Option<String>,
    /// Id at the source; an entry is stored only once.
    #[schema(min_length = 1, max_length = 100)]
    external_id: Option<String>,
}
