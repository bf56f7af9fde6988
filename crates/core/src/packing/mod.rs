//! Packing: what goes into a context, and why. A forest of pieces, a profile and a budget go in;
//! the chosen pieces in order, each with its reason, and what was left out come out.
//!
//! One packer runs every profile, section by section. Nothing is said twice: a section never
//! takes what an earlier one tells, except that hits may quote what stands as a summary. The budget is
//! never exceeded: what a piece costs is its cost as it is written, and costs add up.

mod cut;
mod profile;
mod recall;
mod sections;

use serde::{Deserialize, Serialize};

use crate::ids::MessageIdx;
use crate::node::{Level, Slice, TextPosition};

pub use cut::{BudgetSplit, stable_prefix_end};
pub use profile::{Profile, Section, SectionSource};
pub use recall::RecallCandidate;
pub use sections::pack;

/// What a piece is: a node, or a message or a slice of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKey {
    /// A node, by level and number.
    Node(Level, u32),
    /// What one message says from one character to another.
    Message(Slice),
}

impl PieceKey {
    /// Its level: 0 for what was said.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match self {
            Self::Node(level, _) => level.number(),
            Self::Message(_) => 0,
        }
    }
}

/// How much of a piece is told. Each grain tells what the one before it tells, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DetailLevel {
    /// A line that says where it lies and what it is about.
    Mention,
    /// Its beginning, or the part that fits a question, cut with an ellipsis.
    Gist,
    /// All of its text.
    Text,
    /// Its text, and the lists of a node.
    Details,
}

impl DetailLevel {
    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mention => "mention",
            Self::Gist => "gist",
            Self::Text => "text",
            Self::Details => "details",
        }
    }
}

/// What a piece costs at each grain it can be told at, the coarsest first; finer is dearer. There are thousands of pieces in
/// a long conversation, and each goes through several hands: so these are kept in place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    of: [(DetailLevel, u32); Costs::MOST],
    count: usize,
}

impl Costs {
    /// As many as there are grains.
    const MOST: usize = 4;
}

impl FromIterator<(DetailLevel, u32)> for Costs {
    fn from_iter<T: IntoIterator<Item = (DetailLevel, u32)>>(costs: T) -> Self {
        let mut it = Self { of: [(DetailLevel::Mention, 0); Self::MOST], count: 0 };
        for (place, cost) in it.of.iter_mut().zip(costs) {
            *place = cost;
            it.count += 1;
        }
        it
    }
}

impl std::ops::Deref for Costs {
    type Target = [(DetailLevel, u32)];
    fn deref(&self) -> &Self::Target {
        &self.of[..self.count]
    }
}

/// Something that can stand in a context.
#[derive(Debug, Clone, PartialEq)]
pub struct Piece {
    /// What it is.
    pub key: PieceKey,
    /// Where what it covers begins.
    pub from: TextPosition,
    /// Where what it covers ends.
    pub until: TextPosition,
    /// Tokens of the messages it covers.
    pub weight: u32,
    /// What it costs.
    pub costs: Costs,
    /// At least what stands in its place once it is unfolded; nothing can be unfolded in a
    /// message.
    pub min_expanded_cost: Option<u32>,
}

impl Piece {
    /// The cost at a grain, or at the next coarser one that it has.
    fn cost(&self, grain: DetailLevel) -> Option<(DetailLevel, u32)> {
        self.costs.iter().rev().find(|(its, _)| *its <= grain).copied()
    }

    /// The number of the first message it touches, and one past the last.
    #[must_use]
    pub const fn span(&self) -> (u32, u32) {
        (self.from.idx.0, end_of(self.until))
    }
}

/// One past the last message before a place.
const fn end_of(place: TextPosition) -> u32 {
    place.idx.0 + (place.offset > 0) as u32
}

/// What a message says about its place, before the name of who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderStyle {
    /// Nothing: it goes on from what is above it.
    None,
    /// Its number: what is above it was said on the same day.
    Number,
    /// Its number and its day.
    Day,
    /// Its number, its day and the minute.
    Minute,
}

/// The pieces of a conversation, as far as a profile asks for them. Everything is of one moment.
pub trait PieceSource {
    /// Why pieces could not be given.
    type Error;

    /// The coarsest complete cover of what is settled: the highest nodes, and messages where no
    /// node stands; in the order of time.
    fn roots(&mut self) -> Result<Vec<Piece>, Self::Error>;

    /// What came after what is settled, in the order of time.
    fn recent_tail(&mut self) -> Result<Vec<Piece>, Self::Error>;

    /// Everything counts as settled from now on, and nothing is fresh.
    fn merge_tail(&mut self);

    /// What a node covers: nodes of the level below, or messages; in the order of time.
    fn below(&mut self, key: PieceKey) -> Result<Vec<Piece>, Self::Error>;

    /// The latest messages, at least so many of them where there are as many, in the order of time.
    fn latest(&mut self, messages: usize) -> Result<Vec<Piece>, Self::Error>;

    /// The turn that a message belongs to.
    fn turn(&self, idx: MessageIdx) -> Option<u32>;

    /// The latest nodes of a level, at least so many where there are as many, in the order of time.
    fn level(&mut self, level: Level, nodes: usize) -> Result<Vec<Piece>, Self::Error>;

    /// What fits the question, the best first; nothing where nothing was asked.
    fn hits(&mut self) -> Result<Vec<RecallCandidate>, Self::Error>;

    /// The cost of a hit at a grain it has, with what it says about its place.
    fn cost_of_hit(&mut self, hit: &RecallCandidate, grain: DetailLevel, lead: HeaderStyle) -> u32;

    /// At most what it costs to say where a run of messages begins.
    fn cost_of_run(&self) -> u32;

    /// At most what it costs to say that something was left out.
    fn cost_of_note(&self) -> u32;
}

/// Why a piece is in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PackReason {
    /// It is among the latest.
    Recent,
    /// No node covers it yet.
    Unsummarised,
    /// It is part of the coarsest complete cover.
    Cover,
    /// It stands in the place of a node that covers it: there was room for more.
    Refined,
    /// It fits the question.
    Hit,
    /// It stands next to what fits the question.
    Neighbour,
    /// The profile asks for its level.
    Level,
}

impl PackReason {
    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Recent => "recent",
            Self::Unsummarised => "unsummarised",
            Self::Cover => "cover",
            Self::Refined => "refined",
            Self::Hit => "hit",
            Self::Neighbour => "neighbour",
            Self::Level => "level",
        }
    }
}

/// Why something is not in a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// There was no room for it.
    NoRoom,
    /// The profile does not ask for it.
    NotAskedFor,
    /// Only part of it is there: the rest had no room.
    Cut,
}

impl SkipReason {
    /// The reason in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoom => "no room",
            Self::NotAskedFor => "not asked for by the profile",
            Self::Cut => "cut: no room for all of it",
        }
    }
}

/// A piece in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct PackedItem {
    /// What it is.
    pub key: PieceKey,
    /// Where what it covers begins.
    pub from: TextPosition,
    /// Where what it covers ends.
    pub until: TextPosition,
    /// How much of it is told.
    pub detail_level: DetailLevel,
    /// Why it is there.
    pub reason: PackReason,
    /// How well it fits the question; 0 where that is not why it is there.
    pub score: f32,
    /// What it costs.
    pub cost: u32,
}

impl PackedItem {
    fn of(piece: &Piece, (detail_level, cost): (DetailLevel, u32), reason: PackReason) -> Self {
        let Piece { key, from, until, .. } = *piece;
        Self { key, from, until, detail_level, reason, score: 0.0, cost }
    }

    /// The number of the first message it touches, and one past the last.
    #[must_use]
    pub const fn span(&self) -> (u32, u32) {
        (self.from.idx.0, end_of(self.until))
    }
}

/// Something that is not there, or not wholly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Omission {
    /// The first message.
    pub from: u32,
    /// One past the last message.
    pub until: u32,
    /// Why.
    pub why: SkipReason,
}

/// What goes into a context.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContextPlan {
    /// What each section of the profile holds, in the order of time; in the order of the profile.
    pub sections: Vec<Vec<PackedItem>>,
    /// What is not there, or not wholly, in the order of time.
    pub left_out: Vec<Omission>,
    /// Hits that had no room.
    pub hits_left_out: u32,
    /// What everything costs, headings included.
    pub cost: u32,
}

impl ContextPlan {
    /// Every item, in the order it is told.
    pub fn items(&self) -> impl Iterator<Item = &PackedItem> {
        self.sections.iter().flatten()
    }
}
