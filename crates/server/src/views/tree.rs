//! Nodes, what lies over and under them, and updates of trees.

use serde::Serialize;
use treering_core::spend::Money;
use treering_core::{Conversation, ConversationState, Coverage, MessageIdx, Node, NodeContent};
use treering_engine::{Engine, Estimate, Result};

/// What lies over and under something.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ExpandView {
    /// The nodes over it, the lowest first.
    pub up: Vec<LineView>,
    /// What it was written from.
    pub down: Vec<LineView>,
}

/// A node or message in a listing.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LineView {
    /// 0 for messages, 1 and above for nodes.
    pub level: u8,
    /// The id of a node, or the position of a message.
    pub id: String,
    /// What it says.
    pub text: String,
}

impl LineView {
    fn of(node: &Node) -> Self {
        Self {
            level: node.level().number(),
            id: node.id.to_string(),
            text: node.content.overview.clone(),
        }
    }
}

impl ExpandView {
    /// What lies over a message.
    pub fn of_message(
        conversation: &Conversation,
        idx: MessageIdx,
        memory: &Engine,
    ) -> Result<Self> {
        let over = memory.ancestors_of(conversation.id, idx)?;
        Ok(Self { up: over.iter().map(LineView::of).collect(), down: Vec::new() })
    }

    /// What lies over a node, and what it was written from.
    pub fn of_node(conversation: &Conversation, node: &Node, memory: &Engine) -> Result<Self> {
        let over = memory.ancestors_of(conversation.id, MessageIdx(node.source.from))?;
        let up =
            over.iter().filter(|other| other.level() > node.level()).map(LineView::of).collect();
        let down = match &node.spec.covers {
            Coverage::Nodes(_) => {
                memory.children(conversation.id, node)?.iter().map(LineView::of).collect()
            }
            Coverage::Messages(_) => memory
                .messages_of(conversation.id, node)?
                .iter()
                .map(|message| LineView {
                    level: 0,
                    id: message.idx.to_string(),
                    text: format!(
                        "{}: {}",
                        message.body.author.as_deref().unwrap_or(message.body.role.as_str()),
                        message.body.text
                    ),
                })
                .collect(),
        };
        Ok(Self { up, down })
    }
}

/// A node with everything about it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NodeView {
    /// Its id.
    pub id: String,
    /// The id of its conversation.
    pub conversation: String,
    /// The slug of its conversation.
    pub slug: String,
    /// Its level.
    pub level: u8,
    /// Its number within the level.
    pub ordinal: u32,
    /// How it stands.
    pub state: &'static str,
    /// Whether it has to be written anew.
    pub dirty: bool,
    /// What it was written from.
    pub covers: CoversView,
    /// What it says.
    #[schema(value_type = Object)]
    pub content: NodeContent,
    /// When it was planned.
    pub created_at: String,
    /// When the first thing it covers was said.
    pub range_start: String,
    /// When the last thing it covers was said.
    pub range_end: String,
    /// When it was written.
    pub generated_at: String,
    /// Who wrote it.
    pub generated_by: String,
    /// How long that took.
    pub generation_ms: u64,
    /// How it was to be written.
    pub strategy: &'static str,
    /// Why its window or group was sealed.
    pub sealed_because: &'static str,
    /// Turns it covers.
    pub turns: u32,
    /// Messages it covers.
    pub messages: u32,
    /// Characters it was written from.
    pub source_chars: u64,
    /// Characters of its overview.
    pub chars: u32,
    /// Tokens of its overview.
    pub tokens: u32,
    /// How much smaller it is than what it was written from.
    pub ratio: f64,
    /// The share of what it states that its sources state.
    pub grounded: f32,
    /// The share of the facts of its sources that it keeps.
    pub retained: f32,
    /// What it states that nothing it covers does.
    pub invented: Vec<String>,
}

/// What a node was written from.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoversView {
    /// Messages of a thread.
    Messages {
        /// The thread.
        thread: String,
        /// The first message.
        from_idx: u32,
        /// The first character of it.
        from_offset: u32,
        /// The last message.
        until_idx: u32,
        /// One past its last character.
        until_offset: u32,
    },
    /// Nodes of the level below.
    Nodes(Vec<String>),
}

impl NodeView {
    /// The view of a node.
    #[must_use]
    pub fn of(conversation: &Conversation, node: &Node) -> Self {
        let covers = match &node.spec.covers {
            Coverage::Messages(window) => CoversView::Messages {
                thread: window.thread.to_string(),
                from_idx: window.from.idx.0,
                from_offset: window.from.offset,
                until_idx: window.until.idx.0,
                until_offset: window.until.offset,
            },
            Coverage::Nodes(children) => {
                CoversView::Nodes(children.iter().map(ToString::to_string).collect())
            }
        };
        Self {
            id: node.id.to_string(),
            conversation: conversation.id.to_string(),
            slug: conversation.slug.clone(),
            level: node.level().number(),
            ordinal: node.ordinal(),
            state: node.state(conversation.state == ConversationState::Open).as_str(),
            dirty: node.dirty,
            covers,
            content: node.content.clone(),
            created_at: node.created_at().to_string(),
            range_start: node.range_start.to_string(),
            range_end: node.range_end.to_string(),
            generated_at: node.provenance.at.to_string(),
            generated_by: node.provenance.by.clone(),
            generation_ms: node.provenance.took_ms,
            strategy: node.spec.manner.strategy.as_str(),
            sealed_because: node.spec.cause.as_str(),
            turns: node.source.turns,
            messages: node.source.messages,
            source_chars: node.source.chars,
            chars: node.chars,
            tokens: node.tokens,
            ratio: node.ratio(),
            grounded: node.grounded,
            retained: node.retained,
            invented: node.invented.clone(),
        }
    }
}

/// An update of a tree.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub struct UpdateView {
    /// The id of the conversation.
    pub conversation: String,
    /// The slug of the conversation.
    pub slug: String,
    /// Its id in the log; nothing where nothing was written.
    pub job: Option<String>,
    /// Whether it was only estimated.
    pub dry_run: bool,
    /// Jobs for each level, from the first on; those above the first are estimated.
    pub jobs_by_level: Vec<u32>,
    /// Calls to a summariser.
    pub calls: u32,
    /// Tokens it reads.
    pub tokens_in: u64,
    /// Tokens it writes.
    pub tokens_out: u64,
    /// What it costs, in US dollars; nothing where the price of the model is not known.
    pub dollars: Option<f64>,
    /// Nodes that are taken down for it.
    pub felled: u32,
    /// Jobs that were done before it returned.
    pub done: u32,
    /// Jobs that failed before it returned.
    pub failed: u32,
}

impl UpdateView {
    /// The view of an update of a conversation, before anything was done.
    #[must_use]
    pub fn of(conversation: &Conversation, estimate: &Estimate) -> Self {
        let levels = estimate.jobs.iter().rposition(|jobs| *jobs > 0).map_or(0, |last| last + 1);
        Self {
            conversation: conversation.id.to_string(),
            slug: conversation.slug.clone(),
            jobs_by_level: estimate.jobs[..levels].to_vec(),
            calls: estimate.calls,
            tokens_in: estimate.tokens_in,
            tokens_out: estimate.tokens_out,
            dollars: estimate.cost.map(Money::dollars),
            felled: estimate.dropped_nodes,
            ..Self::default()
        }
    }
}
