//! Views of search results.

use serde::Serialize;
use treering_core::{Coverage, MessageIdx, Timestamp};
use treering_engine::{Engine, Hit, HitItem, Result, Snippet};

use super::work::Slugs;

/// A search hit.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct HitView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The program that the conversation comes from: its label `source`.
    pub source: Option<String>,
    /// The conversation's project path, or else its working directory.
    pub project: Option<String>,
    /// 0 for messages and tool calls, 1 and above for nodes.
    pub level: u8,
    /// The score, from 0 to 1.
    pub score: f32,
    /// Whether the score is below 0.5: hits without an answer often have such a score.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub weak: bool,
    /// The later message that supersedes this one, such as `tidewatch #42`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<String>,
    /// The weighted signals. Their sum ranks the hits.
    pub parts: Vec<SignalView>,
    /// The best-matching excerpt.
    pub snippet: String,
    /// Byte ranges of matches in the snippet.
    #[schema(value_type = Vec<Vec<usize>>)]
    pub matches: Vec<(usize, usize)>,
    /// Time of the message or call, or the end of the node's range.
    pub at: String,
    /// The item.
    #[serde(flatten)]
    pub item: FoundView,
    /// The other messages and tool calls of the turn that match, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same_turn: Vec<SameTurnView>,
    /// Nodes above the item, lowest first.
    pub up: Vec<String>,
    /// The node's sources: node ids, or message positions.
    pub down: Vec<String>,
}

/// Another item of a hit's turn that matches.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SameTurnView {
    /// The score, from 0 to 1.
    pub score: f32,
    /// The item.
    #[serde(flatten)]
    pub item: FoundView,
}

/// One component of a score.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SignalView {
    /// The name of the signal.
    pub signal: &'static str,
    /// Its weighted value.
    pub score: f32,
}

/// The item that matched.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FoundView {
    /// A message.
    Message {
        /// Position in the conversation.
        idx: u32,
        /// The turn.
        turn: u32,
        /// The thread.
        thread: String,
        /// `user`, `assistant`, `system` or `tool`.
        role: &'static str,
        /// The speaker.
        author: Option<String>,
        /// Whether it was edited.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        edited: bool,
    },
    /// A tool call.
    Call {
        /// The tool's name.
        call: String,
        /// The turn.
        turn: u32,
        /// Position in the turn.
        order: u32,
        /// The thread.
        thread: String,
        /// Whether it succeeded.
        success: Option<bool>,
        /// Position of the last message before the call.
        after: u32,
    },
    /// A node.
    Node {
        /// The node's id.
        node: String,
        /// Position of the first message covered.
        covers_from: u32,
        /// One past the last message covered.
        covers_until: u32,
        /// Number of the group above the node.
        parent: Option<u32>,
    },
}

/// The fields of all kinds of [`FoundView`]. Its schema has them side by side: generators of clients
/// cannot flatten a choice.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "only the schema is used")]
struct FoundFields {
    /// Position of a message in the conversation.
    idx: Option<u32>,
    /// The turn of a message or tool call.
    turn: Option<u32>,
    /// The thread of a message or tool call.
    thread: Option<String>,
    /// The role of a message: `user`, `assistant`, `system` or `tool`.
    role: Option<String>,
    /// The speaker of a message.
    author: Option<String>,
    /// Whether a message was edited.
    edited: Option<bool>,
    /// The name of the tool that was called.
    call: Option<String>,
    /// Position of a tool call in the turn.
    order: Option<u32>,
    /// Whether a tool call succeeded.
    success: Option<bool>,
    /// Position of the last message before a tool call.
    after: Option<u32>,
    /// The id of a node.
    node: Option<String>,
    /// Position of the first message that a node covers.
    covers_from: Option<u32>,
    /// One past the last message that a node covers.
    covers_until: Option<u32>,
    /// Number of the group above a node.
    parent: Option<u32>,
}

impl utoipa::PartialSchema for FoundView {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        FoundFields::schema()
    }
}

impl utoipa::ToSchema for FoundView {}

impl HitView {
    /// Builds the views of hits.
    pub fn all(hits: &[Hit], engine: &Engine) -> Result<Vec<Self>> {
        let mut slugs = Slugs::of(engine);
        hits.iter().map(|hit| Self::of(hit, engine, &mut slugs)).collect()
    }

    /// The snippet with its matches between two marks.
    #[must_use]
    pub fn marked_snippet(&self, open: &str, close: &str) -> String {
        Snippet { text: self.snippet.clone(), matches: self.matches.clone() }.marked(open, close)
    }

    fn of(hit: &Hit, engine: &Engine, slugs: &mut Slugs<'_>) -> Result<Self> {
        let (at, item) = found(hit);
        let parts = hit.parts().into_iter().filter(|(_, score)| score.abs() > 0.0005);
        let (up, down) = path(hit, engine)?;
        let conversation = slugs.conversation(hit.conversation);
        let source = conversation.and_then(|it| it.labels.source()).map(str::to_owned);
        let project =
            conversation.and_then(|it| it.project_path.clone().or_else(|| it.cwd.clone()));
        Ok(Self {
            conversation: hit.conversation.to_string(),
            slug: slugs.get(hit.conversation),
            source,
            project,
            level: hit.level(),
            score: hit.score,
            weak: hit.is_weak(),
            superseded_by: hit
                .superseded_by
                .map(|(id, idx)| format!("{} #{}", slugs.get(id), idx.0)),
            parts: parts.map(|(signal, score)| SignalView { signal, score }).collect(),
            snippet: hit.snippet.text.clone(),
            matches: hit.snippet.matches.clone(),
            at: at.to_string(),
            item,
            same_turn: hit
                .same_turn
                .iter()
                .map(|other| SameTurnView { score: other.score, item: found(other).1 })
                .collect(),
            up,
            down,
        })
    }
}

/// The time of a hit, and the item.
fn found(hit: &Hit) -> (Timestamp, FoundView) {
    match &hit.item {
        HitItem::Message(message) => (
            message.body.at,
            FoundView::Message {
                idx: message.idx.0,
                turn: message.turn.0,
                thread: message.thread.to_string(),
                role: message.body.role.as_str(),
                author: message.body.author.clone(),
                edited: message.body.edited_at.is_some(),
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
                after: call.before.0.saturating_sub(1),
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
    }
}

/// The nodes above a hit, and the sources of a node.
fn path(hit: &Hit, engine: &Engine) -> Result<(Vec<String>, Vec<String>)> {
    let first = match &hit.item {
        HitItem::Message(message) => message.idx,
        HitItem::ToolCall(call) => MessageIdx(call.before.0.saturating_sub(1)),
        HitItem::Node(node) => MessageIdx(node.source.from),
    };
    let over = engine.ancestors_of(hit.conversation, first)?;
    let up = over.iter().filter(|node| node.level().number() > hit.level());
    let down = match &hit.item {
        HitItem::Node(node) => match &node.spec.covers {
            Coverage::Nodes(children) | Coverage::Whole(children) => {
                children.iter().map(ToString::to_string).collect()
            }
            Coverage::Messages(_) => {
                (node.source.from..node.source.until).map(|idx| idx.to_string()).collect()
            }
        },
        HitItem::Message(_) | HitItem::ToolCall(_) => Vec::new(),
    };
    Ok((up.map(|node| node.id.to_string()).collect(), down))
}
