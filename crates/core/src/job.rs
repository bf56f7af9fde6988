//! Jobs: durable units of background work. What a job does is decided when it is planned, and
//! its exact span is its identity, so that planning or running it twice changes nothing.

use std::fmt;

use crate::hash::ContentHash;
use crate::ids::TurnNo;
use crate::node::{Covers, Level, NodeId};
use crate::time::Timestamp;

/// Identity of a job, from its kind and exactly what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub ContentHash);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobKind {
    /// Give a turn its vector.
    EmbedTurn(TurnNo),
    /// Write the node of a sealed window or group.
    Summarise(Level, Covers),
    /// Give a node its vector.
    EmbedNode(Level, NodeId),
}

impl JobKind {
    /// Whether the next context of the conversation waits for it: turns and level 1 do, what
    /// lies above never does.
    #[must_use]
    pub fn is_critical(&self) -> bool {
        match self {
            Self::EmbedTurn(_) => true,
            Self::Summarise(level, _) | Self::EmbedNode(level, _) => *level == Level::FIRST,
        }
    }
}

/// Where a job stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobState {
    /// It can run from that moment on.
    Waiting {
        /// Not before this moment.
        not_before: Timestamp,
    },
    /// A worker has it until its lease ends.
    Leased {
        /// Who has it.
        worker: String,
        /// When the lease ends and another may take it.
        until: Timestamp,
    },
    /// It was given up, and says why.
    Dead {
        /// The last error.
        reason: String,
    },
}

/// A job and how far it is. A finished job is gone: what it made is its trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// What is to be done.
    pub kind: JobKind,
    /// Where it stands.
    pub state: JobState,
    /// How often it has been tried.
    pub attempts: u32,
    /// When it was planned.
    pub planned_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_level_one_hold_the_gate_and_nothing_else_does() {
        let second = Level::FIRST.above();
        let node = NodeId::new(second, ContentHash::of_fields(&[]), Timestamp::from_micros(0));
        assert_eq!(node.as_str().split('-').collect::<Vec<_>>()[0], "l2");
        assert!(JobKind::EmbedTurn(TurnNo(0)).is_critical());
        assert!(JobKind::Summarise(Level::FIRST, Covers::Nodes(vec![])).is_critical());
        assert!(JobKind::EmbedNode(Level::FIRST, node.clone()).is_critical());
        assert!(!JobKind::Summarise(second, Covers::Nodes(vec![])).is_critical());
        assert!(!JobKind::EmbedNode(second, node).is_critical());
    }
}
