//! The summary request: the complete input of a summarizer for one node, and nothing else.

use std::cell::OnceCell;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::facts::Facts;
use crate::message::Role;
use crate::node::{Level, NodeContent};
use crate::policy::SummaryLength;
use crate::time::Timestamp;

/// The writing strategy of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Level 1: everything important, under headings.
    Detailed,
    /// Level 1: the minimum needed to continue.
    Concise,
    /// Level 2: by theme.
    Thematic,
    /// Level 2: in time order.
    Chronological,
    /// Level 3 and above: results, decisions, open points.
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

    /// The name used in every interface.
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

/// The input for writing one node.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRequest {
    /// The node's level.
    pub level: Level,
    /// The writing strategy.
    pub strategy: Strategy,
    /// The target length, relative to the characters of the passages.
    pub length: SummaryLength,
    /// Whether near-identical points of different children appear only once.
    pub deduplicate: bool,
    /// The covered content, in order.
    pub passages: Vec<Passage>,
    /// The conversation that the passages come from.
    pub session: SessionInfo,
    /// The text of the conversation just before the passages. A summarizer does not quote it; it
    /// tells what is new in the passages.
    pub preceding: String,
    /// The facts of the passages, computed on first use.
    facts: OnceCell<Facts>,
}

impl SummaryRequest {
    /// Creates a request.
    #[must_use]
    pub const fn new(
        level: Level,
        strategy: Strategy,
        length: SummaryLength,
        deduplicate: bool,
        passages: Vec<Passage>,
        session: SessionInfo,
    ) -> Self {
        Self {
            level,
            strategy,
            length,
            deduplicate,
            passages,
            session,
            preceding: String::new(),
            facts: OnceCell::new(),
        }
    }

    /// The facts of all passages. Computed once, because the summarizer and the acceptance
    /// check both need them.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| Facts::of_passages(&self.passages))
    }

    /// Characters of the covered messages, or of the children's overviews.
    #[must_use]
    pub fn chars(&self) -> u64 {
        let chars = |passage: &Passage| match passage {
            Passage::Message(message) => u64::from(crate::text::chars(&message.text)),
            Passage::Tool(_) => 0,
            Passage::Node(child) => u64::from(crate::text::chars(&child.content.overview)),
        };
        self.passages.iter().map(chars).sum()
    }

    /// The target length in characters; `None` if it is given in sentences.
    #[must_use]
    pub fn target_chars(&self) -> Option<u64> {
        let chars = self.chars();
        match self.length {
            SummaryLength::Keep(ratio) => {
                Some((chars as f64 * f64::from(ratio.clamp(0.0, 1.0))) as u64)
            }
            SummaryLength::Sentences(..) => None,
            SummaryLength::Tokens(min, max) => {
                // Without a count, a token is about four characters.
                let per_token = match self.session.tokens {
                    0 => 4.0,
                    tokens => chars as f64 / tokens as f64,
                };
                let middle = f64::from(min) / 2.0 + f64::from(max) / 2.0;
                // A summary of a short source is still shorter than the source.
                Some(((middle * per_token) as u64).min(chars * 2 / 3))
            }
        }
    }
}

/// The conversation that a node belongs to, and the extent of the covered content. The title and
/// the participants help a model; they are not part of a node's id, because people change them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInfo {
    /// The conversation's title.
    pub title: Option<String>,
    /// Its participants, in order of appearance.
    pub participants: Vec<String>,
    /// The earliest and the latest time covered.
    pub range: Option<(Timestamp, Timestamp)>,
    /// Number of messages covered.
    pub messages: u32,
    /// Tokens of the passages' texts; 0 if unknown.
    pub tokens: u64,
}

/// A part of the content that a node covers.
// There are only a few dozen at a time, while a node is written.
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

/// A message or slice, as a summarizer sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct MessagePassage {
    /// The speaker's role.
    pub role: Role,
    /// The speaker's name, if known.
    pub author: Option<String>,
    /// The time of the message.
    pub at: Timestamp,
    /// The text.
    pub text: String,
}

/// A tool call, as a summarizer sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPassage {
    /// The tool's name.
    pub name: String,
    /// Whether the call succeeded, if known.
    pub success: Option<bool>,
    /// The arguments as JSON text, truncated.
    pub args: String,
    /// The beginning of the result as JSON text, truncated.
    pub result: String,
}

/// A node of the level below, as a summarizer sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePassage {
    /// The earliest time covered.
    pub range_start: Timestamp,
    /// The latest time covered.
    pub range_end: Timestamp,
    /// The node's content.
    pub content: NodeContent,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The target for a source of this size, in characters and tokens.
    fn target(length: SummaryLength, chars: usize, tokens: u64) -> Option<u64> {
        let (role, at) = (Role::User, Timestamp::from_micros(0));
        let text = MessagePassage { role, author: None, at, text: "x".repeat(chars) };
        let session = SessionInfo { tokens, ..SessionInfo::default() };
        let passages = vec![Passage::Message(text)];
        let (level, strategy) = (Level::FIRST, Strategy::Executive);
        SummaryRequest::new(level, strategy, length, true, passages, session).target_chars()
    }

    #[test]
    fn a_target_in_tokens_depends_on_the_text() {
        let tokens = SummaryLength::Tokens(200, 400);
        assert_eq!(target(tokens, 40_000, 10_000), Some(1200));
        assert_eq!(target(tokens, 20_000, 10_000), Some(600), "two characters per token");
        assert_eq!(target(tokens, 40_000, 0), Some(1200), "not counted");
        assert_eq!(target(tokens, 900, 225), Some(600), "two thirds of a short source");
        assert_eq!(target(SummaryLength::Keep(0.5), 900, 225), Some(450));
        assert_eq!(target(SummaryLength::Sentences(3, 4), 900, 225), None);
    }
}
