//! Nodes: the summaries that grow over a conversation. A node always has its summary; a node
//! that is only wanted is a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grouping::{GroupReason, Member};
use crate::hash::ContentHash;
use crate::ids::{ConversationId, MessageIdx, ThreadName};
use crate::policy::SummaryStyle;
use crate::time::Timestamp;
use crate::tool::ToolCall;
use crate::windowing::SealReason;

/// Height in the tree: 1 covers messages, n + 1 covers nodes of level n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Level(u8);

impl Level {
    /// The level over the messages.
    pub const FIRST: Self = Self(1);

    /// A level from its number, if it has one above the messages.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }

    /// The level over this one.
    #[must_use]
    pub const fn above(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The level under this one; none under the first.
    #[must_use]
    pub const fn below(self) -> Option<Self> {
        Self::new(self.0.saturating_sub(1))
    }

    /// Its number, from 1.
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

/// Identity of a node, from what it covers and how it is written: the same work twice gives the
/// same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(String);

impl NodeId {
    /// The id of the node of `level` that covers content with this hash and ends on that day.
    #[must_use]
    pub fn new(level: Level, covered: ContentHash, range_end: Timestamp) -> Self {
        Self(format!("l{level}-{}-{}", &covered.to_string()[..16], range_end.day()))
    }

    /// An id that was stored before.
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

/// A place between two characters of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TextPosition {
    /// The message.
    pub idx: MessageIdx,
    /// So many of its characters come before.
    pub offset: u32,
}

impl TextPosition {
    /// The place after a message.
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

/// A window: what one thread said from one place to another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Window {
    /// The thread.
    pub thread: ThreadName,
    /// Where it begins.
    pub from: TextPosition,
    /// Where it ends.
    pub until: TextPosition,
}

/// Part of a message: a slice of an oversized one, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Slice {
    /// The message.
    pub idx: MessageIdx,
    /// Where the slice begins, in characters.
    pub from: u32,
    /// One past where it ends, in characters.
    pub until: u32,
}

impl Window {
    /// One past the last message it touches.
    #[must_use]
    pub const fn end(&self) -> MessageIdx {
        MessageIdx(self.until.idx.0 + (self.until.offset > 0) as u32)
    }

    /// Whether a tool call belongs to it: a call belongs to the window of the message it came before.
    #[must_use]
    pub fn has_call(&self, call: &ToolCall) -> bool {
        call.thread == self.thread && self.from.idx <= call.before && call.before < self.end()
    }

    /// What of a message of its thread, that has so many characters, lies in it.
    #[must_use]
    pub fn slice(&self, idx: MessageIdx, chars: u32) -> Option<Slice> {
        if idx < self.from.idx || idx >= self.end() {
            return None;
        }
        let from = if idx == self.from.idx { self.from.offset } else { 0 };
        let until = if idx == self.until.idx { self.until.offset } else { chars };
        Some(Slice { idx, from, until })
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

/// What a node covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// A window: consecutive messages of one thread.
    Messages(Window),
    /// A group: adjacent nodes of the level below, in the order of time.
    Nodes(Vec<NodeId>),
}

/// Why a window or group was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A window.
    Window(SealReason),
    /// A group.
    Group(GroupReason),
}

impl Cause {
    /// The reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window(reason) => reason.as_str(),
            Self::Group(reason) => reason.as_str(),
        }
    }
}

/// A node that is wanted: exactly what it covers and how it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Its height.
    pub level: Level,
    /// Its number among the nodes of that height, in the order they were sealed.
    pub ordinal: u32,
    /// What it covers.
    pub covers: Coverage,
    /// How it is written.
    pub manner: SummaryStyle,
    /// Why it was sealed.
    pub cause: Cause,
    /// The message whose arrival sealed it: from then on it counts as there. Unknown for what was
    /// sealed before this was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_by: Option<MessageIdx>,
}

impl NodeSpec {
    /// Whether it was sealed once the messages before `end` were there. What does not say when
    /// it was counts from the moment that all it covers is there.
    #[must_use]
    pub fn is_sealed_at(&self, end: MessageIdx, covers_until: u32) -> bool {
        self.sealed_by.map_or(covers_until <= end.0, |by| by < end)
    }
}

/// Where a finished node stands. Waiting and failing belong to its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// The highest summary of what it covers.
    Active,
    /// A higher node covers it.
    Superseded,
    /// Its conversation is closed.
    Archived,
}

impl NodeState {
    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Superseded => "superseded",
            Self::Archived => "archived",
        }
    }
}

/// What a node says. Lists are in order of first mention and say nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeContent {
    /// The text, in the form of its level.
    pub overview: String,
    /// Files that were mentioned.
    pub files_mentioned: Vec<String>,
    /// What was found out.
    pub key_findings: Vec<String>,
    /// What was decided.
    pub decisions: Vec<String>,
    /// What is to be done.
    pub action_items: Vec<String>,
    /// Questions left open.
    pub unresolved: Vec<String>,
    /// Tools that were used, and how that went.
    pub tools_used: Vec<ToolUse>,
    /// What it was about.
    pub topics: Vec<String>,
    /// Names that occur.
    pub entities: Vec<String>,
    /// Functions, types, variables and other names of code.
    pub identifiers: Vec<String>,
    /// Addresses.
    pub urls: Vec<String>,
    /// Dates and times that were spoken of, as they were written.
    pub dates: Vec<String>,
    /// Numbers with their units, as they were written.
    pub numbers: Vec<String>,
    /// Free labels.
    pub tags: Vec<String>,
}

/// How often a tool was used, and how that went.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ToolUse {
    /// The tool.
    pub name: String,
    /// Calls that went well.
    pub succeeded: u32,
    /// Calls that failed.
    pub failed: u32,
    /// Calls whose end is not known.
    pub unknown: u32,
}

/// What a node was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceTotals {
    /// The first message it covers.
    pub from: u32,
    /// One past the last message it covers.
    pub until: u32,
    /// Messages, a slice counting as one.
    pub messages: u32,
    /// Turns.
    pub turns: u32,
    /// Characters of the messages.
    pub raw_chars: u64,
    /// Tokens of the messages.
    pub raw_tokens: u64,
    /// Characters of what it was written from: the messages, or the overviews of its children.
    pub chars: u64,
}

/// How a node came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The summariser that wrote it.
    pub by: String,
    /// When it was really generated.
    pub at: Timestamp,
    /// How long that took, in milliseconds.
    pub took_ms: u64,
}

impl Provenance {
    /// What stands between the name of a stand-in and the name of the one it stood in for.
    pub const FALLBACK_SEPARATOR: &str = " for ";

    /// The name of a stand-in, with the one it stood in for.
    #[must_use]
    pub fn fallback_label(name: &str, other: &str) -> String {
        if name == other {
            name.to_owned()
        } else {
            format!("{name}{}{other}", Self::FALLBACK_SEPARATOR)
        }
    }

    /// The stand-in that wrote it, where one did.
    #[must_use]
    pub fn fallback_name(&self) -> Option<&str> {
        self.by.split_once(Self::FALLBACK_SEPARATOR).map(|(name, _)| name)
    }
}

/// A summary in the tree. Always complete.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// What it covers, where it stands in the tree and how it is written.
    pub spec: NodeSpec,
    /// The number of the group that covers it, once one is sealed.
    pub parent: Option<u32>,
    /// Whether that group has its node.
    pub superseded: bool,
    /// Whether something it covers has changed since it was written.
    pub dirty: bool,
    /// What it says.
    pub content: NodeContent,
    /// The earliest moment it covers.
    pub range_start: Timestamp,
    /// The latest moment it covers; also counts as the moment it was made.
    pub range_end: Timestamp,
    /// What it was made from.
    pub source: SourceTotals,
    /// How it came about.
    pub provenance: Provenance,
    /// Characters of the overview.
    pub chars: u32,
    /// Tokens of the overview.
    pub tokens: u32,
    /// Share of its facts that occur in what it covers, from 0 to 1.
    pub grounded: f32,
    /// Share of the facts of what it covers that it keeps, from 0 to 1.
    pub retained: f32,
    /// What it says that occurs in nothing it covers: names, numbers, paths, dates.
    pub invented: Vec<String>,
}

impl Node {
    /// Its height.
    #[must_use]
    pub const fn level(&self) -> Level {
        self.spec.level
    }

    /// Its number among the nodes of its height.
    #[must_use]
    pub const fn ordinal(&self) -> u32 {
        self.spec.ordinal
    }

    /// The moment that counts as the one it was made at: the latest it covers.
    #[must_use]
    pub const fn created_at(&self) -> Timestamp {
        self.range_end
    }

    /// Where it stands, given whether its conversation goes on.
    #[must_use]
    pub const fn state(&self, conversation_is_open: bool) -> NodeState {
        match (self.superseded, conversation_is_open) {
            (true, _) => NodeState::Superseded,
            (false, true) => NodeState::Active,
            (false, false) => NodeState::Archived,
        }
    }

    /// How much smaller it is than what it was written from: 0 when it is as large, near 1 when
    /// hardly anything is left.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        match self.source.chars {
            0 => 0.0,
            chars => 1.0 - f64::from(self.chars) / chars as f64,
        }
    }

    /// It as grouping sees it.
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

/// The hash of a window's content: what was said in it, and how it is written up.
#[must_use]
pub fn hash_of_window(
    conversation: ConversationId,
    thread: &ThreadName,
    slices: impl Iterator<Item = (ContentHash, Slice)>,
    manner: &SummaryStyle,
) -> ContentHash {
    let mut fields: Vec<Vec<u8>> = vec![
        b"window".to_vec(),
        conversation.as_bytes().to_vec(),
        thread.as_str().as_bytes().to_vec(),
    ];
    fields.push(style_key(manner));
    for (hash, slice) in slices {
        // The position tells apart what is said twice in the same words.
        let numbers = [slice.idx.0, slice.from, slice.until].map(u32::to_le_bytes).concat();
        fields.push([hash.as_bytes().as_slice(), &numbers].concat());
    }
    hash_of(&fields)
}

/// The hash of a group's content: its children, and how it is written up.
#[must_use]
pub fn hash_of_group(
    conversation: ConversationId,
    level: Level,
    children: &[NodeId],
    manner: &SummaryStyle,
) -> ContentHash {
    let mut fields: Vec<Vec<u8>> = vec![
        b"group".to_vec(),
        conversation.as_bytes().to_vec(),
        vec![level.number()],
        style_key(manner),
    ];
    fields.extend(children.iter().map(|child| child.as_str().as_bytes().to_vec()));
    hash_of(&fields)
}

pub(crate) fn style_key(manner: &SummaryStyle) -> Vec<u8> {
    let SummaryStyle { strategy, length, deduplicate, overlap_chars, prompt } = manner;
    format!("{strategy}/{length}/{deduplicate}/{overlap_chars}/{prompt}").into_bytes()
}

fn hash_of(fields: &[Vec<u8>]) -> ContentHash {
    ContentHash::of_fields(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
