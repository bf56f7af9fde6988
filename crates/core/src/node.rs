//! Nodes: the summaries of a conversation. A node always has its summary; a node that is not
//! written yet is a job.

use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::coverage::{Coverage, CoveredSession};
use crate::forget::RemovedNode;
use crate::grouping::{GroupReason, Member};
use crate::hash::ContentHash;
use crate::ids::{MessageIdx, ThreadName};
use crate::parameters::Assignment;
use crate::points::RankedLine;
use crate::policy::SummaryStyle;
use crate::time::Timestamp;
use crate::tool::ToolCall;
use crate::windowing::SealReason;

/// The height in the tree: level 1 covers messages, level n + 1 covers nodes of level n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(u8);

impl Level {
    /// The level directly above the messages.
    pub const FIRST: Self = Self(1);

    /// The level with this number; `None` for 0, the messages.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The next higher level.
    #[must_use]
    pub const fn above(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The next lower level; `None` below the first.
    #[must_use]
    pub const fn below(self) -> Option<Self> {
        Self::new(self.0.saturating_sub(1))
    }

    /// The level's number, from 1.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Content-addressed id of a node, derived from the covered content and the summary style.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(String);

impl NodeId {
    /// The id of the node at `level` that covers content with this hash and ends at
    /// `range_end`.
    #[must_use]
    pub fn new(level: Level, covered: ContentHash, range_end: Timestamp) -> Self {
        Self(format!("l{level}-{}-{}", &covered.to_string()[..16], range_end.day()))
    }

    /// Wraps an id read from the store.
    #[must_use]
    pub const fn from_stored(id: String) -> Self {
        Self(id)
    }

    /// The id as text, e.g. `l1-3f9a0c…-20251209`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A position between two characters of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TextPosition {
    /// The message.
    pub idx: MessageIdx,
    /// The number of the message's characters before the position.
    pub offset: u32,
}

impl TextPosition {
    /// The position after a message.
    #[must_use]
    pub const fn after(idx: MessageIdx) -> Self {
        Self { idx: MessageIdx(idx.0 + 1), offset: 0 }
    }
}

impl fmt::Display for TextPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            0 => write!(f, "{}", self.idx),
            offset => write!(f, "{}+{offset}", self.idx),
        }
    }
}

/// A window: a run of messages of one thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The thread.
    pub thread: ThreadName,
    /// The start, inclusive.
    pub from: TextPosition,
    /// The end, exclusive.
    pub until: TextPosition,
}

/// A slice of an oversized message, or a whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The message.
    pub idx: MessageIdx,
    /// The start of the slice, in characters.
    pub from: u32,
    /// The end of the slice, exclusive, in characters.
    pub until: u32,
}

impl Window {
    /// One past the last message that the window touches.
    #[must_use]
    pub const fn end(&self) -> MessageIdx {
        MessageIdx(self.until.idx.0 + (self.until.offset > 0) as u32)
    }

    /// Whether a tool call belongs to the window. A call belongs to the window of the message
    /// that follows it.
    #[must_use]
    pub fn has_call(&self, call: &ToolCall) -> bool {
        call.thread == self.thread && self.from.idx <= call.before && call.before < self.end()
    }

    /// The part of a message inside the window, given the message's length in characters.
    #[must_use]
    pub fn slice(&self, idx: MessageIdx, chars: u32) -> Option<Slice> {
        if idx < self.from.idx || idx >= self.end() {
            return None;
        }
        let from = if idx == self.from.idx { self.from.offset } else { 0 };
        let until = if idx == self.until.idx { self.until.offset } else { chars };
        // An edit may have shortened the message.
        let from = from.min(chars);
        Some(Slice { idx, from, until: until.min(chars).max(from) })
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = match self.until {
            TextPosition { idx, offset: 0 } => {
                TextPosition { idx: MessageIdx(idx.0.saturating_sub(1)), offset: 0 }
            }
            within => within,
        };
        if !self.thread.is_main() {
            write!(f, "{} ", self.thread)?;
        }
        if last == self.from { write!(f, "{last}") } else { write!(f, "{}–{last}", self.from) }
    }
}

/// Why a node was planned: the reason why its window or group sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SealCause {
    /// A window.
    Window(SealReason),
    /// A group.
    Group(GroupReason),
    /// The conversation closed.
    Closed,
}

impl SealCause {
    /// The reason as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window(reason) => reason.as_str(),
            Self::Group(reason) => reason.as_str(),
            Self::Closed => SealReason::Closed.as_str(),
        }
    }
}

/// The specification of a node: its coverage and its style, fixed when the window or group
/// seals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// The node's level.
    pub level: Level,
    /// The node's ordinal within its level, in sealing order.
    pub ordinal: u32,
    /// The covered content.
    pub covers: Coverage,
    /// The summary style.
    #[serde(rename = "manner")]
    pub style: SummaryStyle,
    /// The reason for sealing.
    pub cause: SealCause,
    /// The message whose arrival sealed it. `None` for nodes sealed before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_by: Option<MessageIdx>,
    /// The number of turns that a window touches. `None` for groups, and for windows sealed before
    /// this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// The policy overrides of the update that planned it. They hold for the groups that follow
    /// from it, and are part of its id only through the style.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Assignment>,
    /// Set in a job that regenerates a node after its text was erased. The children that it
    /// lists may have other ids by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<RemovedNode>,
}

impl NodeSpec {
    /// The ordinal of the top, the summary of a whole closed conversation. No other node has it,
    /// so the top never takes the place of a group.
    pub const TOP_ORDINAL: u32 = 1 << 31;

    /// Whether it is the top.
    #[must_use]
    pub const fn is_top(&self) -> bool {
        matches!(self.covers, Coverage::Whole(_))
    }

    /// Whether it was sealed when only the messages before `end` existed. If `sealed_by` is
    /// unknown, it counts as sealed once everything it covers exists.
    #[must_use]
    pub fn is_sealed_at(&self, end: MessageIdx, covers_until: u32) -> bool {
        self.sealed_by.map_or(covers_until <= end.0, |by| by < end)
    }
}

/// The state of a finished node. Pending and failed are states of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// The highest summary of the content it covers.
    Active,
    /// A higher node covers it.
    Superseded,
    /// The conversation is closed.
    Archived,
}

impl NodeState {
    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Archived => "archived",
        }
    }
}

/// The content of a node. Lists are in order of first mention and contain no duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeContent {
    /// The summary text.
    pub overview: String,
    /// Files mentioned.
    pub files_mentioned: Vec<String>,
    /// Findings.
    pub key_findings: Vec<String>,
    /// Decisions.
    pub decisions: Vec<String>,
    /// Open tasks.
    pub action_items: Vec<String>,
    /// Unanswered questions.
    pub unresolved: Vec<String>,
    /// Tools used, with their outcomes.
    pub tools_used: Vec<ToolUse>,
    /// Topics.
    pub topics: Vec<String>,
    /// Named entities.
    pub entities: Vec<String>,
    /// Functions, types, variables and other code identifiers.
    pub identifiers: Vec<String>,
    /// URLs.
    pub urls: Vec<String>,
    /// Dates and times mentioned, as written.
    pub dates: Vec<String>,
    /// Numbers with their units, as written.
    pub numbers: Vec<String>,
    /// Free labels.
    pub tags: Vec<String>,
    /// The points of the overview, most important first; empty if the summarizer did not rank
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankedLine>,
}

/// The calls of one tool, by outcome.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool's name.
    pub name: String,
    /// Successful calls.
    pub succeeded: u32,
    /// Failed calls.
    pub failed: u32,
    /// Calls with an unknown outcome.
    pub unknown: u32,
}

/// Totals of the content that a node was written from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceTotals {
    /// The first message covered.
    pub from: u32,
    /// One past the last message covered.
    pub until: u32,
    /// Messages; a slice counts as one.
    pub messages: u32,
    /// Turns.
    pub turns: u32,
    /// Characters of the messages.
    pub raw_chars: u64,
    /// Tokens of the messages.
    pub raw_tokens: u64,
    /// Characters of the summarized input: the messages, or the overviews of the children.
    pub chars: u64,
}

/// The origin of a node: the summarizer, the time, the duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The summarizer that wrote the node.
    pub by: String,
    /// The wall-clock time of generation.
    pub at: Timestamp,
    /// The generation time, in milliseconds.
    pub took_ms: u64,
}

impl Provenance {
    /// The author of a node that a caller wrote.
    pub const CALLER: &str = "caller";

    /// Separates the name of a fallback summarizer from the name of the one it replaced.
    pub const FALLBACK_SEPARATOR: &str = " for ";

    /// Whether a caller wrote the node.
    #[must_use]
    pub fn is_by_caller(&self) -> bool {
        self.by == Self::CALLER
    }

    /// The name of a fallback summarizer together with the one it replaced.
    #[must_use]
    pub fn fallback_label(name: &str, other: &str) -> String {
        if name == other {
            name.to_owned()
        } else {
            format!("{name}{}{other}", Self::FALLBACK_SEPARATOR)
        }
    }

    /// The fallback summarizer that wrote the node, if one did.
    #[must_use]
    pub fn fallback_name(&self) -> Option<&str> {
        self.by.split_once(Self::FALLBACK_SEPARATOR).map(|(name, _)| name)
    }
}

/// A summary in the tree, always complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The node's id.
    pub id: NodeId,
    /// The node's coverage, position and style.
    pub spec: NodeSpec,
    /// The ordinal of the group that covers the node, once it is sealed.
    pub parent: Option<u32>,
    /// Whether a higher node covers it: that group's node exists, or the top does.
    pub superseded: bool,
    /// Whether covered content has changed since the node was written.
    pub dirty: bool,
    /// The content.
    pub content: NodeContent,
    /// The earliest time covered.
    pub range_start: Timestamp,
    /// The latest time covered; also the node's creation time.
    pub range_end: Timestamp,
    /// Totals of the covered content.
    pub source: SourceTotals,
    /// The origin of the node.
    pub provenance: Provenance,
    /// Characters of the overview.
    pub chars: u32,
    /// Tokens of the overview.
    pub tokens: u32,
    /// Share of the node's facts that occur in the covered content, from 0 to 1.
    pub grounded: f32,
    /// Share of the covered content's facts that the node keeps, from 0 to 1.
    pub retained: f32,
    /// Facts that do not occur in the covered content: names, numbers, paths, dates.
    pub invented: Vec<String>,
}

impl Node {
    /// The node's level.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.spec.level
    }

    /// The node's ordinal within its level.
    #[must_use]
    pub const fn ordinal(&self) -> u32 {
        self.spec.ordinal
    }

    /// The creation time, which is the latest time covered.
    #[must_use]
    pub const fn created_at(&self) -> Timestamp {
        self.range_end
    }

    /// The node's state, given whether its conversation is open.
    #[must_use]
    pub const fn state(&self, conversation_is_open: bool) -> NodeState {
        match (self.superseded, conversation_is_open) {
            (true, _) => NodeState::Superseded,
            (false, true) => NodeState::Active,
            (false, false) => NodeState::Archived,
        }
    }

    /// The compression ratio: 0 if the node is as long as its input, close to 1 if it is much
    /// shorter.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.source.chars {
            0 => 0.0,
            chars => 1.0 - f64::from(self.chars) / chars as f64,
        }
    }

    /// The node's sizes, as grouping needs them.
    #[must_use]
    pub const fn member(&self) -> Member {
        Member {
            chars: self.chars,
            tokens: self.tokens,
            messages: self.source.messages,
            raw_chars: self.source.raw_chars,
        }
    }
}
