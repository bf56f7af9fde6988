//! Packing: decides what goes into a context, and why. The input is a source of pieces, a profile
//! and a budget; the output is the chosen pieces in order, each with its reason, and the omissions.
//!
//! One packer runs every profile, section by section. No content appears twice: a section never
//! takes what an earlier one covers, except that hits may quote messages that a summary covers.
//! The budget is never exceeded: the cost of a piece is the cost of its rendered text, and
//! costs are additive.

mod budget_split;
mod cut;
mod profile;
mod recall;
mod refinement;
mod runs;
mod sections;
mod thread_spans;

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::{Deserialize, Serialize};

use crate::ids::{MessageIdx, TurnNo};
use crate::node::{Level, Slice, TextPosition};
use crate::word_weights::weighted_terms;

pub use budget_split::{BudgetSplit, stable_prefix_end};
pub use profile::{BlockStyle, Profile, Section, SectionSource};
pub use recall::RecallCandidate;
pub use sections::pack;
pub use thread_spans::ThreadSpan;

/// The identity of a piece within its conversation: a node, a turn, a message or a slice of a
/// message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKey {
    /// The heading of a conversation, in a context over several.
    Heading,
    /// A node, by level and ordinal.
    Node(Level, u32),
    /// A whole turn.
    Turn(TurnNo),
    /// A message or a slice of one.
    Message(Slice),
}

impl PieceKey {
    /// The level; 0 for headings, turns and messages.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match self {
            Self::Node(level, _) => level.number(),
            Self::Heading | Self::Turn(_) | Self::Message(_) => 0,
        }
    }
}

/// How much of a piece is rendered. Each level includes the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DetailLevel {
    /// A turn as two excerpts, or the heading of a conversation.
    Mention,
    /// The beginning, or the part that matches the question, with an ellipsis.
    Gist,
    /// The most important points of a node, this many.
    Points(u16),
    /// The full text.
    Text,
    /// The full text and the lists of a node.
    Details,
}

impl fmt::Display for DetailLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mention => f.pad("mention"),
            Self::Gist => f.pad("gist"),
            Self::Points(1) => f.pad("1 point"),
            Self::Points(number) => f.pad(&format!("{number} points")),
            Self::Text => f.pad("text"),
            Self::Details => f.pad("details"),
        }
    }
}

impl Serialize for DetailLevel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The cost of a piece at each detail level it supports, coarsest first; finer levels cost
/// more.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs(Box<[(DetailLevel, u32)]>);

impl FromIterator<(DetailLevel, u32)> for Costs {
    fn from_iter<T: IntoIterator<Item = (DetailLevel, u32)>>(costs: T) -> Self {
        Self(costs.into_iter().collect())
    }
}

impl std::ops::Deref for Costs {
    type Target = [(DetailLevel, u32)];
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// The information that a reader gets from a piece: the terms that each detail level adds to the one before it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Information {
    /// The terms of all levels, level by level.
    terms: Box<[WeightedTerm]>,
    /// The end of each level among the terms.
    ends: Box<[usize]>,
}

/// A term: the hash of its stem, and its weight.
type WeightedTerm = (u64, f32);

impl Information {
    /// The information in the texts that the detail levels add, coarsest first. Each text has a
    /// factor for its worth.
    pub fn of<'t>(added: impl IntoIterator<Item = Vec<(&'t str, f32)>>) -> Self {
        let (mut terms, mut ends) = (Vec::new(), Vec::new());
        for texts in added {
            let mut level: Vec<WeightedTerm> = Vec::new();
            for (text, worth) in texts {
                let weighted = weighted_terms(text);
                level.extend(weighted.map(|(stem, weight)| (hash(&stem), weight * worth)));
            }
            level.sort_by(|one, other| one.0.cmp(&other.0).then(other.1.total_cmp(&one.1)));
            level.dedup_by_key(|term| term.0);
            terms.append(&mut level);
            ends.push(terms.len());
        }
        Self { terms: terms.into(), ends: ends.into() }
    }

    /// The terms that a detail level adds, by its index among the costs.
    fn added(&self, level: usize) -> &[WeightedTerm] {
        let end = |level: usize| self.ends.get(level).copied();
        let start = level.checked_sub(1).and_then(end).unwrap_or(0);
        end(level).map_or(&[], |end| &self.terms[start..end])
    }
}

fn hash(stem: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    stem.hash(&mut hasher);
    hasher.finish()
}

/// Content that can be part of a context.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// The piece's identity.
    pub key: PieceKey,
    /// The start of the covered range.
    pub from: TextPosition,
    /// The end of the covered range, exclusive.
    pub until: TextPosition,
    /// Tokens of the covered messages.
    pub weight: u32,
    /// Characters of the covered messages.
    pub chars: u32,
    /// The cost at each detail level.
    pub costs: Costs,
    /// The information at each detail level.
    pub information: Information,
    /// The minimum cost of the pieces that replace it when it is expanded; `None` for messages,
    /// which cannot be expanded.
    pub min_expanded_cost: Option<u32>,
    /// Whether the coarsest cover must contain it. Only over several conversations.
    pub is_required: bool,
}

impl Piece {
    /// The index of the first message it touches, and one past the last.
    #[must_use]
    pub(crate) const fn span(&self) -> (u32, u32) {
        (self.from.idx.0, end_of(self.until))
    }
}

/// One past the last message before a position.
const fn end_of(place: TextPosition) -> u32 {
    place.idx.0 + (place.offset > 0) as u32
}

/// How much of a message's position is shown before the speaker's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderStyle {
    /// Nothing: the message continues the one above it.
    None,
    /// The number: the message above is from the same day.
    Number,
    /// The number and the day.
    Day,
    /// The number, the day and the minute.
    Minute,
}

/// Provides the pieces of a conversation that a profile needs. All pieces belong to one
/// snapshot.
pub trait PieceSource {
    /// The error when pieces cannot be read.
    type Error;

    /// The coarsest complete cover of the stable prefix, in time order: the highest nodes, and
    /// messages that no node covers. Over several conversations, each begins with its heading.
    fn roots(&mut self) -> Result<Vec<Piece>, Self::Error>;

    /// The messages after the stable prefix, in time order.
    fn recent_tail(&mut self) -> Result<Vec<Piece>, Self::Error>;

    /// Extends the stable prefix to the end, so that the tail is empty.
    fn merge_tail(&mut self);

    /// The children of a node, in time order: nodes of the level below, or messages.
    fn below(&mut self, node: &Piece) -> Result<Vec<Piece>, Self::Error>;

    /// The latest messages in time order, at least this many if they exist.
    fn latest(&mut self, messages: usize) -> Result<Vec<Piece>, Self::Error>;

    /// The latest turns in time order, at least this many if they exist, in a labeled style.
    fn latest_turns(&mut self, turns: usize) -> Result<Vec<Piece>, Self::Error>;

    /// The stretches of each thread that a piece with this key and range covers.
    fn thread_spans(
        &mut self,
        key: PieceKey,
        range: (TextPosition, TextPosition),
    ) -> Result<Vec<ThreadSpan>, Self::Error>;

    /// A piece with the costs that it has in a style.
    fn styled(&mut self, piece: Piece, style: BlockStyle) -> Piece;

    /// The turn that a message belongs to.
    fn turn(&self, idx: MessageIdx) -> Option<u32>;

    /// The latest nodes of a level in time order, at least this many if they exist.
    fn level(&mut self, level: Level, nodes: usize) -> Result<Vec<Piece>, Self::Error>;

    /// The matches for the question, best first; empty if there is no question. They are
    /// messages with their neighbors, or turns in a labeled style, and nodes.
    fn hits(&mut self, style: BlockStyle) -> Result<Vec<RecallCandidate>, Self::Error>;

    /// The cost of a hit at a detail level it supports, with this header.
    fn cost_of_hit(&mut self, hit: &RecallCandidate, detail: DetailLevel, lead: HeaderStyle)
    -> u32;

    /// The maximum cost of the header of a run of messages.
    fn cost_of_run(&self) -> u32;

    /// The maximum cost of the note about omitted content.
    fn cost_of_note(&self) -> u32;
}

/// The reason why a piece is in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackReason {
    /// It is a pinned note.
    Pinned,
    /// It is among the latest messages.
    Recent,
    /// No node covers it yet.
    #[serde(alias = "unsummarised")]
    Unsummarized,
    /// It is part of the coarsest complete cover.
    Cover,
    /// It replaces a node that covers it, because there was room for more detail.
    Refined,
    /// It matches the question.
    Hit,
    /// It is adjacent to a match.
    #[serde(alias = "neighbour")]
    Neighbor,
    /// The profile requests its level.
    Level,
    /// It is the part of a node that no other section covers.
    Trimmed,
}

impl PackReason {
    /// The name used in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Recent => "recent",
            Self::Unsummarized => "unsummarized",
            Self::Cover => "cover",
            Self::Refined => "refined",
            Self::Hit => "hit",
            Self::Neighbor => "neighbor",
            Self::Level => "level",
            Self::Trimmed => "trimmed",
        }
    }
}

/// The reason why content is not in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The budget had no room for it.
    NoRoom,
    /// The profile does not request it.
    NotAskedFor,
    /// It is truncated, because the budget had no room for the rest.
    Cut,
}

impl SkipReason {
    /// The reason as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "no room",
            Self::NotAskedFor => "not requested by the profile",
            Self::Cut => "truncated to fit",
        }
    }
}

/// A piece that was placed in a context.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedItem {
    /// The piece's identity.
    pub key: PieceKey,
    /// The start of the covered range.
    pub from: TextPosition,
    /// The end of the covered range, exclusive.
    pub until: TextPosition,
    /// The detail level.
    pub detail_level: DetailLevel,
    /// The reason.
    pub reason: PackReason,
    /// The match score; 0 if the item is not a match.
    pub score: f32,
    /// The cost in tokens.
    pub cost: u32,
    /// Whether it is a message whose predecessor is not shown directly before it. Its header states
    /// its number and time.
    pub begins_run: bool,
}

impl PackedItem {
    fn of(piece: &Piece, (detail_level, cost): (DetailLevel, u32), reason: PackReason) -> Self {
        let Piece { key, from, until, .. } = *piece;
        Self { key, from, until, detail_level, reason, score: 0.0, cost, begins_run: false }
    }

    /// The index of the first message it touches, and one past the last.
    #[must_use]
    pub const fn span(&self) -> (u32, u32) {
        (self.from.idx.0, end_of(self.until))
    }
}

/// Content that is missing or truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Omission {
    /// The first message.
    pub from: u32,
    /// One past the last message.
    pub until: u32,
    /// The reason.
    pub why: SkipReason,
}

/// The items of a context, before rendering.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextPlan {
    /// The items of each section of the profile, in profile order. Each section is in time
    /// order; matches in a labeled style are best first.
    pub sections: Vec<Vec<PackedItem>>,
    /// Missing or truncated content, in time order.
    pub left_out: Vec<Omission>,
    /// Hits that did not fit the budget.
    pub hits_left_out: u32,
    /// The total cost, including headings.
    pub cost: u32,
}

impl ContextPlan {
    /// Every item, in rendering order.
    pub fn items(&self) -> impl Iterator<Item = &PackedItem> {
        self.sections.iter().flatten()
    }
}
