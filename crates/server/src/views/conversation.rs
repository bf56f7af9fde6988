//! Conversations and their turns.

use serde::Serialize;
use serde_json::value::RawValue;
use treering_core::conversation::Thread;
use treering_core::text::preview;
use treering_core::{Conversation, Json, Message};
use treering_engine::{TurnItem, WholeTurn};

/// A conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationView {
    /// Its id; the first digits will do wherever one is asked for.
    pub id: String,
    /// Its name, unique within the tenant.
    pub slug: String,
    /// What it is called at its source, or by a person.
    pub title: Option<String>,
    /// `open`, `closed` or `archived`.
    pub state: &'static str,
    /// Who takes part.
    pub participants: Vec<String>,
    /// The folder it took place in.
    pub cwd: Option<String>,
    /// The project that folder belongs to.
    pub project_path: Option<String>,
    /// Its identity at its source.
    pub external_id: Option<String>,
    /// When it began.
    pub started_at: String,
    /// When something was last said.
    pub last_activity: String,
    /// How many turns it has.
    pub turns: u32,
    /// How many messages it has.
    pub messages: u32,
    /// How many tool calls it has.
    pub tool_calls: u32,
    /// Characters of all messages.
    pub chars: u64,
    /// Tokens of all messages.
    pub tokens: u64,
    /// The beginning of the last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_message: Option<String>,
}

impl ConversationView {
    /// The view of a conversation.
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

/// Turns of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ConversationPage {
    /// The conversation.
    pub conversation: ConversationView,
    /// Its threads.
    pub threads: Vec<ThreadView>,
    /// The turns, in order.
    pub turns: Vec<TurnView>,
    /// The number of the turn that the next page begins with; nothing on the last one.
    pub next: Option<u32>,
}

/// A thread of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ThreadView {
    name: String,
    /// The thread it leaves.
    parent: Option<String>,
    /// The position of the message after which it leaves it.
    fork_idx: Option<u32>,
}

impl ThreadView {
    /// The view of a thread.
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

/// A turn: what was said and done, in the order it happened.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TurnView {
    /// Its number, counted from 0.
    pub turn: u32,
    /// Its thread.
    pub thread: String,
    /// Whether the assistant answered.
    pub answered: bool,
    /// When it began.
    pub started_at: String,
    /// When it ended.
    pub ended_at: String,
    /// What was said and done.
    pub steps: Vec<StepView>,
}

/// One thing of a turn.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StepView {
    /// Something was said.
    Message {
        /// Its position in the conversation.
        idx: u32,
        /// `user`, `assistant`, `system` or `tool`.
        role: &'static str,
        /// Who said it.
        author: Option<String>,
        /// What was said.
        text: String,
        /// What there is beside the text, as it came.
        #[schema(value_type = Option<serde_json::Value>)]
        parts: Option<Box<RawValue>>,
        /// When.
        at: String,
        /// Its characters.
        chars: u32,
        /// Its tokens.
        tokens: u32,
        /// The hash of what was said.
        hash: String,
        /// Its identity at its source.
        external_id: Option<String>,
    },
    /// A tool was called.
    ToolCall {
        /// The tool.
        name: String,
        /// What it was called with.
        #[schema(value_type = Option<serde_json::Value>)]
        args: Option<Box<RawValue>>,
        /// What it answered; nothing where it has not yet.
        #[schema(value_type = Option<serde_json::Value>)]
        result: Option<Box<RawValue>>,
        /// Whether it succeeded.
        success: Option<bool>,
        /// How long it took.
        duration_ms: Option<u64>,
        /// When.
        at: String,
        /// Its identity at its source.
        external_id: Option<String>,
    },
}

impl TurnView {
    /// The view of a turn.
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
