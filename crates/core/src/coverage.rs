//! The coverage of a node: messages, nodes or sessions.

use serde::{Deserialize, Serialize};

use crate::hash::ContentHash;
use crate::ids::ConversationId;
use crate::node::{NodeId, Window};

/// The content that a node covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coverage {
    /// A window: consecutive messages of one thread.
    Messages(Window),
    /// A group: adjacent nodes of the level below, in time order.
    Nodes(Vec<NodeId>),
    /// A whole closed conversation: the roots of its tree, of any level, in time order.
    Whole(Vec<NodeId>),
    /// Adjacent sessions of a project, in time order.
    Sessions(Vec<CoveredSession>),
}

/// A session that a node of a project tree covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredSession {
    /// The session.
    pub conversation: ConversationId,
    /// The hash of what the node was written from: the roots of the session's tree, and the
    /// messages that no node covers.
    pub content: ContentHash,
}

impl Coverage {
    /// The covered sessions; none outside project trees.
    #[must_use]
    pub fn sessions(&self) -> &[CoveredSession] {
        match self {
            Self::Sessions(sessions) => sessions,
            Self::Messages(_) | Self::Nodes(_) | Self::Whole(_) => &[],
        }
    }

    /// The covered nodes; none for a window and for sessions.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        match self {
            Self::Messages(_) | Self::Sessions(_) => &[],
            Self::Nodes(nodes) | Self::Whole(nodes) => nodes,
        }
    }
}
