//! The brief: everything a summariser is given to write one node, and nothing else.

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::facts::Facts;
use crate::message::Role;
use crate::node::{Level, NodeContent};
use crate::policy::Length;
use crate::time::Timestamp;

/// In which way a node tells what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Level 1: everything of weight, under headings.
    Detailed,
    /// Level 1: the least that can be gone on with.
    Concise,
    /// Level 2: by theme.
    Thematic,
    /// Level 2: in the order of time.
    Chronological,
    /// Level 3 and above: results, decisions, what is open.
    Executive,
    /// Level 3 and above: the technical state.
    Technical,
}

impl Strategy {
    /// Every strategy.
    pub const ALL: [Self; 6] = [
        Self::Detailed,
        Self::Concise,
        Self::Thematic,
        Self::Chronological,
        Self::Executive,
        Self::Technical,
    ];

    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Detailed => "detailed",
            Self::Concise => "concise",
            Self::Thematic => "thematic",
            Self::Chronological => "chronological",
            Self::Executive => "executive",
            Self::Technical => "technical",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Strategy {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|strategy| strategy.as_str() == word).ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            Invalid::new(format!("strategy {word:?}"), format!("a strategy is one of {words}"))
        })
    }
}

/// What one node is to be written from.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRequest {
    /// The height of the node.
    pub level: Level,
    /// In which way it tells.
    pub strategy: Strategy,
    /// How long it should be, against the characters of the passages.
    pub length: Length,
    /// Whether near-identical points of different children are said once.
    pub deduplicate: bool,
    /// What it covers, in order.
    pub passages: Vec<Passage>,
    /// The facts of the passages, once somebody asked for them.
    facts: OnceCell<Facts>,
}

impl SummaryRequest {
    /// A brief.
    #[must_use]
    pub const fn new(
        level: Level,
        strategy: Strategy,
        length: Length,
        deduplicate: bool,
        passages: Vec<Passage>,
    ) -> Self {
        Self { level, strategy, length, deduplicate, passages, facts: OnceCell::new() }
    }

    /// The facts of everything that it covers. Computed once: the summariser and the acceptance both need them.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::of_passages(&self.passages))
    }

    /// Characters of what it covers: what was said, or the overviews of the children.
    #[must_use]
    pub fn chars(&self) -> u64 {
        let chars = |passage: &Passage| match passage {
            Passage::Message(said) => u64::from(crate::text::chars(&said.text)),
            Passage::Tool(_) => 0,
            Passage::Node(child) => u64::from(crate::text::chars(&child.content.overview)),
        };
        self.passages.iter().map(chars).sum()
    }
}

/// A piece of what a node covers.
// There are a few dozen at a time, and only while a node is written.
#[allow(clippy::large_enum_variant)]
#[derive(Debug, Clone, PartialEq)]
pub enum Passage {
    /// A message, or a slice of one.
    Message(MessagePassage),
    /// A tool call between the messages.
    Tool(ToolPassage),
    /// A node of the level below.
    Node(NodePassage),
}

/// What somebody said.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePassage {
    /// Who speaks.
    pub role: Role,
    /// The speaker's name, where there is one.
    pub author: Option<String>,
    /// When.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// A tool call as a summariser sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPassage {
    /// The tool.
    pub name: String,
    /// Whether it went well, where that is known.
    pub success: Option<bool>,
    /// Its arguments, as JSON text, cut at a bound.
    pub args: String,
    /// The head of its result, as JSON text, cut at a bound.
    pub result: String,
}

/// A node of the level below as a summariser sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePassage {
    /// The earliest moment it covers.
    pub range_start: Timestamp,
    /// The latest moment it covers.
    pub range_end: Timestamp,
    /// What it says.
    pub content: NodeContent,
}
