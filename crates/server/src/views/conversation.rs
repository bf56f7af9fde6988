//! Views of conversations and turns.

use serde::Serialize;
use serde_json::value::RawValue;
use treering_core::text::preview;
use treering_core::{Conversation, Json, Labels, Message, Thread};
use treering_engine::{TurnItem, WholeTurn};

/// A conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationView {
    /// The id. A unique prefix is accepted wherever an id is.
    pub id: String,
    /// The slug, unique within the tenant.
    pub slug: String,
    /// The title, from the source or a user.
    pub title: Option<String>,
    /// `open`, `closed` or `archived`.
    pub state: &'static str,
    /// The participants.
    pub participants: Vec<String>,
    /// The working directory.
    pub cwd: Option<String>,
    /// The project that the working directory belongs to.
    pub project_path: Option<String>,
    /// The id at the source.
    pub external_id: Option<String>,
    /// The labels, such as the `source` of an imported conversation.
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Time of the first message.
    pub started_at: String,
    /// Time of the last activity.
    pub last_activity: String,
    /// Number of turns.
    pub turns: u32,
    /// Number of messages.
    pub messages: u32,
    /// Number of tool calls.
    pub tool_calls: u32,
    /// Characters in all messages.
    pub chars: u64,
    /// Tokens in all messages.
    pub tokens: u64,
    /// Beginning of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
}

impl ConversationView {
    /// Builds the view of a conversation.
    #[must_use]
    pub fn of(it: &Conversation, last: Option<&Message>) -> Self {
        Self {
            id: it.id.to_string(),
            slug: it.slug.clone(),
            title: it.title.clone(),
            state: it.state.as_str(),
            participants: it.participants.clone(),
            cwd: it.cwd.clone(),
            project_path: it.project_path.clone(),
            external_id: it.external_id.as_ref().map(ToString::to_string),
            labels: it.labels.clone(),
            started_at: it.started_at.to_string(),
            last_activity: it.last_activity.to_string(),
            turns: it.totals.turns,
            messages: it.totals.messages,
            tool_calls: it.totals.tool_calls,
            chars: it.totals.chars,
            tokens: it.totals.tokens,
            last_message: last.map(|message| preview(&message.body.text, 200)),
        }
    }
}

/// A page of turns.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationPage {
    /// The conversation.
    pub conversation: ConversationView,
    /// The conversation's threads.
    pub threads: Vec<ThreadView>,
    /// The turns, in order.
    pub turns: Vec<TurnView>,
    /// First turn of the next page; null on the last page.
    pub next: Option<u32>,
}

impl ConversationPage {
    /// Builds a page of turns.
    #[must_use]
    pub fn of(conversation: &Conversation, turns: &[WholeTurn], next: Option<u32>) -> Self {
        Self {
            conversation: ConversationView::of(conversation, None),
            threads: conversation.threads.iter().map(ThreadView::of).collect(),
            turns: turns.iter().map(TurnView::of).collect(),
            next,
        }
    }
}

/// A thread of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ThreadView {
    /// The name.
    pub name: String,
    /// The parent thread.
    pub parent: Option<String>,
    /// Position of the last message shared with the parent.
    pub fork_idx: Option<u32>,
}

impl ThreadView {
    /// Builds the view of a thread.
    #[must_use]
    pub fn of(thread: &Thread) -> Self {
        let fork = thread.fork.as_ref();
        Self {
            name: thread.name.to_string(),
            parent: fork.map(|fork| fork.parent.to_string()),
            fork_idx: fork.and_then(|fork| fork.after).map(|idx| idx.0),
        }
    }
}

/// A turn: messages and tool calls in order.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TurnView {
    /// Turn number, from 0.
    pub turn: u32,
    /// The thread.
    pub thread: String,
    /// Whether the assistant answered.
    pub answered: bool,
    /// Start time.
    pub started_at: String,
    /// End time.
    pub ended_at: String,
    /// Messages and tool calls, in order.
    pub steps: Vec<StepView>,
}

/// A message or tool call of a turn.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepView {
    /// A message.
    Message {
        /// Position in the conversation.
        idx: u32,
        /// `user`, `assistant`, `system` or `tool`.
        role: &'static str,
        /// The speaker.
        author: Option<String>,
        /// The text.
        text: String,
        /// Structured parts, as received.
        #[schema(value_type = Option<serde_json::Value>)]
        parts: Option<Box<RawValue>>,
        /// Time of the message.
        at: String,
        /// Number of characters.
        chars: u32,
        /// Number of tokens.
        tokens: u32,
        /// Content hash.
        hash: String,
        /// The id at the source.
        external_id: Option<String>,
        /// Whether the content was forgotten; only the position, role and time remain.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        forgotten: bool,
        /// The time of the last edit.
        #[serde(skip_serializing_if = "Option::is_none")]
        edited_at: Option<String>,
        /// Whether the message is marked as wrong.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        wrong: bool,
        /// The text that is returned instead of a wrong message.
        #[serde(skip_serializing_if = "Option::is_none")]
        correction: Option<String>,
    },
    /// A tool call.
    ToolCall {
        /// The tool's name.
        name: String,
        /// The arguments.
        #[schema(value_type = Option<serde_json::Value>)]
        args: Option<Box<RawValue>>,
        /// The result; null while pending.
        #[schema(value_type = Option<serde_json::Value>)]
        result: Option<Box<RawValue>>,
        /// Whether it succeeded.
        success: Option<bool>,
        /// Duration in milliseconds.
        duration_ms: Option<u64>,
        /// Time of the call.
        at: String,
        /// The id at the source.
        external_id: Option<String>,
    },
}

impl TurnView {
    /// Builds the view of a turn.
    #[must_use]
    pub fn of(turn: &WholeTurn) -> Self {
        Self {
            turn: turn.turn.no.0,
            thread: turn.turn.thread.to_string(),
            answered: turn.turn.answered,
            started_at: turn.turn.started_at.to_string(),
            ended_at: turn.turn.ended_at.to_string(),
            steps: turn.items().into_iter().map(step_view).collect(),
        }
    }
}

fn step_view(step: TurnItem<'_>) -> StepView {
    match step {
        TurnItem::Message(message) => StepView::Message {
            idx: message.idx.0,
            role: message.body.role.as_str(),
            author: message.body.author.clone(),
            text: message.body.text.clone(),
            parts: message.body.parts.as_ref().and_then(raw),
            at: message.body.at.to_string(),
            chars: message.chars,
            tokens: message.tokens,
            hash: message.hash.to_string(),
            external_id: message.body.external_id.as_ref().map(ToString::to_string),
            forgotten: message.body.forgotten,
            edited_at: message.body.edited_at.map(|at| at.to_string()),
            wrong: message.body.correction.is_some(),
            correction: message.body.correction.as_ref().and_then(|it| it.text.clone()),
        },
        TurnItem::ToolCall(it) => {
            let outcome = it.call.outcome.as_ref();
            StepView::ToolCall {
                name: it.call.name.clone(),
                args: raw(&it.call.args),
                result: outcome.and_then(|outcome| raw(&outcome.result)),
                success: outcome.and_then(|outcome| outcome.success),
                duration_ms: outcome.and_then(|outcome| outcome.duration_ms),
                at: it.call.at.to_string(),
                external_id: it.call.external_id.as_ref().map(ToString::to_string),
            }
        }
    }
}

fn raw(json: &Json) -> Option<Box<RawValue>> {
    RawValue::from_string(json.as_str().to_owned()).ok()
}
