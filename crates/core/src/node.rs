//! Nodes: the summaries that grow over a conversation. A node always has its summary; a node
//! that is only wanted is a job.

use std::fmt;

use crate::hash::ContentHash;
use crate::ids::{MessageIdx, ThreadName};
use crate::time::Timestamp;

/// Height in the tree: 1 covers messages, n + 1 covers nodes of level n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// Identity of a node, from what it covers: the same work twice gives the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(String);

impl NodeId {
    /// The id of the node of `level` that covers content with this hash and ends on that day.
    #[must_use]
    pub fn new(level: Level, covered: ContentHash, range_end: Timestamp) -> Self {
        Self(format!("l{level}-{}-{}", &covered.to_string()[..16], range_end.day()))
    }

    /// The id as text, e.g. `l1-3f9a0c…-20251209`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Part of a message: a slice of an oversized one, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The message.
    pub idx: MessageIdx,
    /// Where the slice begins, in characters.
    pub from: u32,
    /// One past where it ends, in characters.
    pub until: u32,
}

/// What a node covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Covers {
    /// A window: consecutive messages of one thread.
    Messages(ThreadName, Vec<Slice>),
    /// A group: adjacent nodes of the level below.
    Nodes(Vec<NodeId>),
}

/// Where a finished node stands. Waiting and failing belong to its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// The finest summary of what it covers that nothing higher replaces.
    Active,
    /// A higher node covers it.
    Superseded,
    /// Its conversation is closed.
    Archived,
}

/// What a node says. Lists are in order of first mention and say nothing twice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
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

/// A summary in the tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its identity.
    pub id: NodeId,
    /// Its height.
    pub level: Level,
    /// What it covers.
    pub covers: Covers,
    /// What it says.
    pub content: NodeContent,
    /// Where it stands.
    pub state: NodeState,
    /// The earliest moment it covers.
    pub range_start: Timestamp,
    /// The latest moment it covers; also counts as the moment it was made.
    pub range_end: Timestamp,
    /// When it was really generated.
    pub generated_at: Timestamp,
    /// How many turns it covers.
    pub turns: u32,
    /// Characters of the overview.
    pub chars: u32,
    /// Tokens of the overview.
    pub tokens: u32,
    /// Share of its facts that occur in what it covers, from 0 to 1.
    pub grounded: f32,
    /// Share of the facts of what it covers that it keeps, from 0 to 1.
    pub retained: f32,
}
