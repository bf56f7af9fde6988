//! What search found.

use serde::Serialize;
use treering_core::{Coverage, MessageIdx};
use treering_engine::{Engine, Hit, HitItem, Result};

use super::work::Slugs;

/// Something that was found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct HitView {
    /// The id of its conversation.
    pub conversation: String,
    /// The slug of its conversation.
    pub slug: String,
    /// 0 for messages and tool calls, 1 and above for nodes.
    pub level: u8,
    /// How well it fits.
    pub score: f32,
    /// Where the score comes from.
    pub parts: Vec<SignalView>,
    /// The part of it that fits best.
    pub snippet: String,
    /// The places in the snippet that match, in bytes.
    #[schema(value_type = Vec<Vec<usize>>)]
    pub matches: Vec<(usize, usize)>,
    /// When it was said, or when what the node covers ended.
    pub at: String,
    /// What it is.
    #[serde(flatten)]
    pub what: FoundView,
    /// The nodes over it, from the lowest up.
    pub up: Vec<String>,
    /// What a node was written from: nodes, or positions of messages.
    pub down: Vec<String>,
}

/// A part of a score.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SignalView {
    /// What it comes from.
    pub signal: &'static str,
    /// How much it adds.
    pub score: f32,
}

/// What was found.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum FoundView {
    /// A message.
    Message {
        /// Its position.
        idx: u32,
        /// Its turn.
        turn: u32,
        /// Its thread.
        thread: String,
        /// `user`, `assistant`, `system` or `tool`.
        role: &'static str,
        /// Who said it.
        author: Option<String>,
    },
    /// A tool call.
    Call {
        /// The tool.
        call: String,
        /// Its turn.
        turn: u32,
        /// Its place in the turn.
        order: u32,
        /// Its thread.
        thread: String,
        /// Whether it succeeded.
        success: Option<bool>,
    },
    /// A node.
    Node {
        /// Its id.
        node: String,
        /// The first message it covers.
        covers_from: u32,
        /// One past the last message it covers.
        covers_until: u32,
        /// The number of the group over it.
        parent: Option<u32>,
    },
}

impl HitView {
    /// The views of hits.
    pub fn all(hits: &[Hit], memory: &Engine) -> Result<Vec<Self>> {
        let mut slugs = Slugs::of(memory);
        hits.iter().map(|hit| Self::of(hit, memory, &mut slugs)).collect()
    }

    fn of(hit: &Hit, memory: &Engine, slugs: &mut Slugs<'_>) -> Result<Self> {
        let (at, what) = match &hit.item {
            HitItem::Message(message) => (
                message.body.at,
                FoundView::Message {
                    idx: message.idx.0,
                    turn: message.turn.0,
                    thread: message.thread.to_string(),
                    role: message.body.role.as_str(),
                    author: message.body.author.clone(),
                },
            ),
            HitItem::ToolCall(call) => (
                call.call.at,
                FoundView::Call {
                    call: call.call.name.clone(),
                    turn: call.turn.0,
                    order: call.order,
                    thread: call.thread.to_string(),
                    success: call.call.outcome.as_ref().and_then(|outcome| outcome.success),
                },
            ),
            HitItem::Node(node) => (
                node.range_end,
                FoundView::Node {
                    node: node.id.to_string(),
                    covers_from: node.source.from,
                    covers_until: node.source.until,
                    parent: node.parent,
                },
            ),
        };
        let parts = hit.parts().into_iter().filter(|(_, score)| score.abs() > 0.0005);
        let (up, down) = path(hit, memory)?;
        Ok(Self {
            conversation: hit.conversation.to_string(),
            slug: slugs.get(hit.conversation),
            level: hit.level(),
            score: hit.score,
            parts: parts.map(|(signal, score)| SignalView { signal, score }).collect(),
            snippet: hit.snippet.text.clone(),
            matches: hit.snippet.matches.clone(),
            at: at.to_string(),
            what,
            up,
            down,
        })
    }
}

/// The nodes over a hit, and what a node was written from.
fn path(hit: &Hit, memory: &Engine) -> Result<(Vec<String>, Vec<String>)> {
    let first = match &hit.item {
        HitItem::Message(message) => message.idx,
        HitItem::ToolCall(call) => MessageIdx(call.before.0.saturating_sub(1)),
        HitItem::Node(node) => MessageIdx(node.source.from),
    };
    let over = memory.ancestors_of(hit.conversation, first)?;
    let up = over.iter().filter(|node| node.level().number() > hit.level());
    let down = match &hit.item {
        HitItem::Node(node) => match &node.spec.covers {
            Coverage::Nodes(children) => children.iter().map(ToString::to_string).collect(),
            Coverage::Messages(_) => {
                (node.source.from..node.source.until).map(|idx| idx.to_string()).collect()
            }
        },
        HitItem::Message(_) | HitItem::ToolCall(_) => Vec::new(),
    };
    Ok((up.map(|node| node.id.to_string()).collect(), down))
}
