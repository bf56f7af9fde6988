//! Views of nodes, their neighbors in the tree, and tree updates.

use serde::Serialize;
use treering_core::spend::Money;
use treering_core::{Conversation, ConversationState, Coverage, MessageIdx, Node, NodeContent};
use treering_engine::{Engine, Estimate, OutlineLine, Result};

use super::ConversationView;

/// The tree around a node or message.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ExpandView {
    /// Nodes above, lowest first.
    pub up: Vec<LineView>,
    /// The node's sources.
    pub down: Vec<LineView>,
}

/// A node and the tree around it.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ExpandedNodeView {
    /// The node.
    pub node: NodeView,
    /// The nodes above it, and its sources.
    pub around: ExpandView,
}

/// A node or message in a listing.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct LineView {
    /// 0 for messages, 1 and above for nodes.
    pub level: u8,
    /// A node id, or a message position.
    pub id: String,
    /// The overview of a node, or the text of a message.
    pub text: String,
}

impl LineView {
    /// The line of a node.
    #[must_use]
    pub fn of(node: &Node) -> Self {
        Self {
            level: node.level().number(),
            id: node.id.to_string(),
            text: node.content.overview.clone(),
        }
    }
}

impl ExpandView {
    /// Reads the nodes above a message.
    pub fn of_message(
        conversation: &Conversation,
        idx: MessageIdx,
        engine: &Engine,
    ) -> Result<Self> {
        let over = engine.ancestors_of(conversation.id, idx)?;
        Ok(Self { up: over.iter().map(LineView::of).collect(), down: Vec::new() })
    }

    /// Reads the nodes above a node and its sources.
    pub fn of_node(conversation: &Conversation, node: &Node, engine: &Engine) -> Result<Self> {
        let over = engine.ancestors_of(conversation.id, MessageIdx(node.source.from))?;
        let up =
            over.iter().filter(|other| other.level() > node.level()).map(LineView::of).collect();
        let down = match &node.spec.covers {
            Coverage::Nodes(_) | Coverage::Whole(_) => {
                engine.children(conversation.id, node)?.iter().map(LineView::of).collect()
            }
            Coverage::Sessions(_) => {
                engine.session_summaries(node)?.iter().map(LineView::of).collect()
            }
            Coverage::Messages(_) => engine
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

/// The tree of a conversation as an outline.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TreePage {
    /// The conversation.
    pub conversation: ConversationView,
    /// The nodes and open windows, each below the node that covers it.
    pub branches: Vec<BranchView>,
}

/// A node or an open window in an outline.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct BranchView {
    /// 0 for an open window, 1 and above for nodes.
    pub level: u8,
    /// The node's id; empty for an open window.
    pub id: String,
    /// The messages or nodes that it covers.
    pub covers: String,
    /// Number of turns covered.
    pub turns: u32,
    /// Characters in the sources.
    pub source_chars: u64,
    /// Characters in the overview.
    pub chars: u64,
    /// `open`, `pending`, `generating`, `failed`, `dirty`, `active`, `superseded` or `archived`.
    pub state: &'static str,
    /// Why its window or group was sealed.
    pub sealed_because: &'static str,
    /// Depth below the topmost nodes, from 0.
    pub depth: usize,
}

impl TreePage {
    /// Builds the view of an outline.
    #[must_use]
    pub fn of(conversation: &Conversation, outline: &[OutlineLine]) -> Self {
        let branch = |line: &OutlineLine| BranchView {
            level: line.level,
            id: line.id.clone(),
            covers: line.covers.clone(),
            turns: line.turns,
            source_chars: line.source_chars,
            chars: line.chars,
            state: line.state,
            sealed_because: line.sealed_because,
            depth: line.prefix.chars().count() / 3,
        };
        Self {
            conversation: ConversationView::of(conversation, None),
            branches: outline.iter().map(branch).collect(),
        }
    }
}

/// A node with its metadata.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct NodeView {
    /// The node's id.
    pub id: String,
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The level, from 1.
    pub level: u8,
    /// Number within the level.
    pub ordinal: u32,
    /// The node's state.
    pub state: &'static str,
    /// Whether it must be regenerated.
    pub dirty: bool,
    /// The sources.
    pub covers: CoversView,
    /// The summary.
    #[schema(value_type = Object)]
    pub content: NodeContent,
    /// Time the node was planned.
    pub created_at: String,
    /// Time of the first message covered.
    pub range_start: String,
    /// Time of the last message covered.
    pub range_end: String,
    /// Time the summary was written.
    pub generated_at: String,
    /// The model or fallback that wrote it.
    pub generated_by: String,
    /// Generation time.
    pub generation_ms: u64,
    /// The summary strategy.
    pub strategy: &'static str,
    /// Why its window or group was sealed.
    pub sealed_because: &'static str,
    /// Number of turns covered.
    pub turns: u32,
    /// Number of messages covered.
    pub messages: u32,
    /// Characters in the sources.
    pub source_chars: u64,
    /// Characters in the overview.
    pub chars: u32,
    /// Tokens in the overview.
    pub tokens: u32,
    /// Compression: 1 − chars / source_chars.
    pub ratio: f64,
    /// Share of the summary's facts found in the sources.
    pub grounded: f32,
    /// Share of the sources' facts kept in the summary.
    pub retained: f32,
    /// Facts found in no source.
    pub invented: Vec<String>,
}

/// The sources of a node.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoversView {
    /// Messages of a thread.
    Messages(WindowView),
    /// Nodes of the level below.
    Nodes(Vec<String>),
    /// A whole closed conversation: the topmost nodes of its tree.
    Whole(Vec<String>),
    /// Sessions of a project.
    Sessions(Vec<String>),
}

/// Messages of a thread.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct WindowView {
    /// The thread.
    pub thread: String,
    /// The first message.
    pub from_idx: u32,
    /// Offset of the first character in the first message.
    pub from_offset: u32,
    /// The last message.
    pub until_idx: u32,
    /// Offset past the last character in the last message.
    pub until_offset: u32,
}

impl NodeView {
    /// Builds the view of a node.
    #[must_use]
    pub fn of(conversation: &Conversation, node: &Node) -> Self {
        let ids =
            || node.spec.covers.nodes().iter().map(ToString::to_string).collect::<Vec<String>>();
        let covers = match &node.spec.covers {
            Coverage::Messages(window) => CoversView::Messages(WindowView {
                thread: window.thread.to_string(),
                from_idx: window.from.idx.0,
                from_offset: window.from.offset,
                until_idx: window.until.idx.0,
                until_offset: window.until.offset,
            }),
            Coverage::Nodes(_) => CoversView::Nodes(ids()),
            Coverage::Whole(_) => CoversView::Whole(ids()),
            Coverage::Sessions(sessions) => CoversView::Sessions(
                sessions.iter().map(|it| it.conversation.to_string()).collect(),
            ),
        };
        Self {
            id: node.id.to_string(),
            conversation: conversation.id.to_string(),
            slug: conversation.slug.clone(),
            level: node.level().number(),
            // The top is alone at its level.
            ordinal: if node.spec.is_top() { 0 } else { node.ordinal() },
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
            strategy: node.spec.style.strategy.as_str(),
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

/// A tree update, planned or estimated.
#[derive(Debug, Default, Serialize, utoipa::ToSchema)]
pub struct UpdateView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The update's id in the log; null for a dry run.
    pub job: Option<String>,
    /// Whether this is only an estimate.
    pub dry_run: bool,
    /// Jobs per level, from level 1. With a remote summarizer, levels above 1 are estimates.
    pub jobs_by_level: Vec<u32>,
    /// Number of summarizer calls.
    pub calls: u32,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Cost in US dollars; null if the price is unknown.
    pub dollars: Option<f64>,
    /// Nodes dropped by the update.
    pub dropped_nodes: u32,
    /// Dropped nodes that a caller stored. The summarizer regenerates them.
    pub dropped_caller_nodes: u32,
    /// Jobs completed before the call returned.
    pub done: u32,
    /// Jobs that failed before the call returned.
    pub failed: u32,
    /// Jobs that were unfinished when the call returned.
    pub left: u32,
}

impl UpdateView {
    /// Builds the view of an update from its estimate.
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
            dropped_nodes: estimate.dropped_nodes,
            dropped_caller_nodes: estimate.dropped_caller_nodes,
            ..Self::default()
        }
    }
}
