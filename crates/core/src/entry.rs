//! Entries: messages, tool calls, results, forks and ends of turns as they arrive, before they
//! are stored.

use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::ids::{ExternalId, MessageIdx, ThreadName};
use crate::json::Json;
use crate::message::NewMessage;
use crate::time::Timestamp;
use crate::tool::{NewToolCall, ToolResult};

/// The maximum size of a text, argument or result, in bytes.
pub(crate) const MAX_ENTRY_BYTES: usize = 256 << 20;

/// An incoming item and its thread. Callers pass messages as received; the engine counts their
/// tokens before it takes the store's lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<M = NewMessage> {
    /// The thread that the entry belongs to.
    pub thread: ThreadName,
    /// The entry's content.
    pub kind: EntryKind<M>,
}

/// The kinds of entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind<M = NewMessage> {
    /// A message.
    Message(M),
    /// A tool call, with or without its result.
    ToolCall(NewToolCall),
    /// The result of an earlier tool call.
    ToolResult {
        /// The external id of the call.
        call: ExternalId,
        /// The result.
        outcome: ToolResult,
        /// The time of the result.
        at: Timestamp,
    },
    /// The point where this thread branches off another.
    Fork {
        /// The parent thread.
        parent: ThreadName,
        /// The last shared message.
        after: ForkPoint,
    },
    /// The end of the thread's latest turn: whatever follows opens a new one.
    TurnEnd,
}

/// The last message that a thread shares with its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkPoint {
    /// No message is shared.
    Start,
    /// The message at this position.
    Position(MessageIdx),
    /// The message with this external id; like `Start` if the conversation does not contain it.
    External(ExternalId),
}

/// A message with its sizes and hash. They are computed before the store's lock is taken,
/// because they are expensive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedMessage {
    /// The message.
    pub body: NewMessage,
    /// The content hash.
    pub hash: ContentHash,
    pub(crate) chars: u32,
    pub(crate) tokens: u32,
}

/// An entry whose message is counted and hashed.
pub type CountedEntry = Entry<CountedMessage>;

impl CountedMessage {
    pub(crate) fn new(body: NewMessage, tokens: &dyn Fn(&str) -> u32) -> Self {
        Self {
            chars: crate::text::chars(&body.text),
            tokens: tokens(&body.text),
            hash: body.hash(),
            body,
        }
    }
}

impl From<EntryKind> for Entry {
    /// An entry of the main thread.
    fn from(kind: EntryKind) -> Self {
        Self { thread: ThreadName::main(), kind }
    }
}

impl Entry {
    /// A message in a thread.
    #[must_use]
    pub const fn message(thread: ThreadName, message: NewMessage) -> Self {
        Self { thread, kind: EntryKind::Message(message) }
    }

    /// The end of the latest turn of a thread.
    #[must_use]
    pub const fn turn_end(thread: ThreadName) -> Self {
        Self { thread, kind: EntryKind::TurnEnd }
    }

    /// The time of the entry; a fork and the end of a turn have none.
    #[must_use]
    pub const fn at(&self) -> Option<Timestamp> {
        match &self.kind {
            EntryKind::Message(message) => Some(message.at),
            EntryKind::ToolCall(call) => Some(call.at),
            EntryKind::ToolResult { at, .. } => Some(*at),
            EntryKind::Fork { .. } | EntryKind::TurnEnd => None,
        }
    }

    /// The entry with a plausible time; see [`Timestamp::plausible`].
    #[must_use]
    pub fn with_plausible_time(mut self, now: Timestamp) -> Self {
        match &mut self.kind {
            EntryKind::Message(message) => message.at = message.at.plausible(now),
            EntryKind::ToolCall(call) => call.at = call.at.plausible(now),
            EntryKind::ToolResult { at, .. } => *at = at.plausible(now),
            EntryKind::Fork { .. } | EntryKind::TurnEnd => {}
        }
        self
    }

    /// Counts and hashes the message. Refuses an entry that cannot be stored as received.
    pub fn counted(self, tokens: &dyn Fn(&str) -> u32) -> Result<CountedEntry, Invalid> {
        validate(&self.kind)?;
        let kind = match self.kind {
            EntryKind::Message(message) => EntryKind::Message(CountedMessage::new(message, tokens)),
            EntryKind::ToolCall(call) => EntryKind::ToolCall(call),
            EntryKind::ToolResult { call, outcome, at } => {
                EntryKind::ToolResult { call, outcome, at }
            }
            EntryKind::Fork { parent, after } => EntryKind::Fork { parent, after },
            EntryKind::TurnEnd => EntryKind::TurnEnd,
        };
        Ok(Entry { thread: self.thread, kind })
    }
}

impl CountedEntry {
    /// The external id that the entry is stored under or refers to.
    #[must_use]
    pub fn external_id(&self) -> Option<&ExternalId> {
        match &self.kind {
            EntryKind::Message(message) => message.body.external_id.as_ref(),
            EntryKind::ToolCall(call) => call.external_id.as_ref(),
            EntryKind::ToolResult { call, .. } => Some(call),
            EntryKind::Fork { after: ForkPoint::External(id), .. } => Some(id),
            EntryKind::Fork { .. } | EntryKind::TurnEnd => None,
        }
    }
}

fn validate(kind: &EntryKind) -> Result<(), Invalid> {
    let (tag, bytes) = match kind {
        EntryKind::Message(message) => {
            let bytes = |text: &str, parts: &Option<Json>| {
                text.len().max(parts.as_ref().map_or(0, |parts| parts.as_str().len()))
            };
            let earlier = message.history.iter().map(|it| bytes(&it.text, &it.parts)).max();
            ("message", bytes(&message.text, &message.parts).max(earlier.unwrap_or(0)))
        }
        EntryKind::ToolCall(call) => {
            if call.name.is_empty() && !call.is_forgotten() {
                return Err(Invalid::new("tool call", "a tool call needs the name of the tool"));
            }
            let result = call.outcome.as_ref().map_or(0, |outcome| outcome.result.as_str().len());
            ("tool call", call.args.as_str().len().max(result))
        }
        EntryKind::ToolResult { outcome, .. } => ("tool result", outcome.result.as_str().len()),
        EntryKind::Fork { .. } | EntryKind::TurnEnd => return Ok(()),
    };
    if bytes > MAX_ENTRY_BYTES {
        return Err(Invalid::new(
            format!("{tag} of {} MiB", bytes >> 20),
            format!("the maximum is {} MiB; split it", MAX_ENTRY_BYTES >> 20),
        ));
    }
    Ok(())
}
