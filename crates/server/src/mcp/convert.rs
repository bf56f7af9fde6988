//! Converts engine results to MCP results, sized for a model.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use treering_core::text::preview;
use treering_core::{Conversation, Message, MessageIdx, Node};
use treering_engine::{Context, Engine, Error, TurnItem, WholeTurn};

use super::types::{
    ContextResult, ExpandLine, ExpandResult, SearchHit, SearchResult, SessionLine, SessionsResult,
    StatusResult, UpdateResult,
};
use crate::service::requests::{StatsRequest, StatusRequest};
use crate::service::{
    ConversationList, ExpandedItem, Expansion, SearchAnswer, Service, ServiceError,
};
use crate::views::{
    ConversationView, ExpandView, FoundView, HitView, LineView, NodeView, StatsView, UpdateView,
};

/// Maximum characters of a listing line; `expand` reads the rest.
const LINE_CHARS: usize = 400;
/// Approximate token cost of a result without its lines.
const FRAME_TOKENS: u32 = 60;

/// The remaining token budget of a result.
pub(super) struct TokenBudget<'a> {
    engine: &'a Engine,
    left: u32,
}

impl<'a> TokenBudget<'a> {
    pub(super) const fn new(engine: &'a Engine, max_tokens: u32) -> Self {
        Self { engine, left: max_tokens.saturating_sub(FRAME_TOKENS) }
    }

    /// Deducts the cost of an item, if the budget allows it.
    fn take(&mut self, it: &impl Serialize) -> bool {
        let json = serde_json::to_string(it).unwrap_or_default();
        let left = self.left.checked_sub(self.engine.count_tokens(&json));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Takes items in order until the budget is exhausted. Returns them and the number left out.
    pub(super) fn fill<T: Serialize>(
        &mut self,
        items: impl IntoIterator<Item = T>,
    ) -> (Vec<T>, usize) {
        let mut items = items.into_iter();
        let mut filled = Vec::new();
        while let Some(item) = items.next() {
            if !self.take(&item) {
                return (filled, 1 + items.count());
            }
            filled.push(item);
        }
        (filled, 0)
    }

    /// Truncates a text to the budget, and returns whether it was truncated. Leaves a quarter of
    /// the budget for what follows.
    fn cut(&mut self, text: &str) -> (String, bool) {
        if self.take(&text) {
            return (text.to_owned(), false);
        }
        let budget = self.left - self.left / 4;
        let tokens = self.engine.count_tokens(text).max(1);
        let mut chars = text.chars().count() * budget as usize / tokens as usize;
        loop {
            let cut: String = text.chars().take(chars).chain(['…']).collect();
            if chars == 0 || self.engine.count_tokens(&cut) <= budget {
                self.take(&cut);
                return (cut, true);
            }
            chars = chars * 9 / 10;
        }
    }
}

/// The id of a message for the other tools.
fn message_id(slug: &str, idx: MessageIdx) -> String {
    format!("{slug}#{}", idx.0)
}

pub(super) fn search(answer: SearchAnswer, engine: &Engine, max_tokens: u32) -> SearchResult {
    let hits = answer.hits.into_iter().map(hit);
    let (hits, left_out) = TokenBudget::new(engine, max_tokens).fill(hits);
    let advice = match hits.is_empty() {
        true => {
            "Nothing found. Try other words, fewer filters, or `sessions` to list conversations."
        }
        false => "`expand` an id to read it in full, with its turn and higher summaries.",
    };
    SearchResult { hits, left_out, words_only: answer.words_only, advice }
}

pub(super) fn hit(hit: HitView) -> SearchHit {
    let (id, speaker) = match hit.item {
        FoundView::Message { idx, role, author, .. } => (
            message_id(&hit.slug, MessageIdx(idx)),
            Some(author.unwrap_or_else(|| role.to_owned())),
        ),
        FoundView::Call { call, after, .. } => {
            (message_id(&hit.slug, MessageIdx(after)), Some(format!("tool {call}")))
        }
        FoundView::Node { node, .. } => (node, None),
    };
    SearchHit {
        id,
        conversation: hit.slug,
        level: hit.level,
        speaker,
        at: hit.at,
        snippet: hit.snippet,
        score: hit.score,
        superseded_by: hit.superseded_by,
    }
}

fn speaker(message: &Message) -> String {
    message.body.author.clone().unwrap_or_else(|| message.body.role.as_str().to_owned())
}

pub(super) fn context(context: &Context, slug: String) -> ContextResult {
    let receipt = &context.receipt;
    let mut nodes: Vec<String> =
        receipt.items.iter().filter_map(|item| item.node.clone()).collect();
    nodes.dedup();
    ContextResult {
        text: context.markdown(),
        conversation: slug,
        tokens: receipt.tokens,
        budget: receipt.budget,
        nodes,
        messages_left_out: receipt
            .left_out
            .iter()
            .map(|span| span.until.saturating_sub(span.from))
            .sum(),
        degraded: receipt.gate.degraded,
    }
}

pub(super) fn expand(expansion: Expansion, engine: &Engine, max_tokens: u32) -> ExpandResult {
    let Expansion { conversation, item, around } = expansion;
    let budget = TokenBudget::new(engine, max_tokens);
    match item {
        ExpandedItem::Node(node) => expand_node(conversation, &node, around, budget),
        ExpandedItem::Message(message, turns) => {
            expand_message(conversation, &message, &turns, around, budget)
        }
        ExpandedItem::Conversation => expand_conversation(conversation, around, budget),
    }
}

/// A conversation: its title and its topmost nodes.
fn expand_conversation(
    conversation: Conversation,
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> ExpandResult {
    let (down, left_out) = budget.fill(around.down.into_iter().map(|it| line(it, &conversation)));
    ExpandResult {
        id: conversation.slug.clone(),
        level: 0,
        at: format!("{} to {}", conversation.started_at, conversation.last_activity),
        text: conversation.title.unwrap_or_else(|| conversation.slug.clone()),
        details: None,
        up: Vec::new(),
        down,
        before: None,
        after: None,
        cut: false,
        left_out,
        conversation: conversation.slug,
    }
}

/// A node: its text, the nodes above it and its sources.
fn expand_node(
    conversation: Conversation,
    node: &Node,
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> ExpandResult {
    let view = NodeView::of(&conversation, node);
    let (text, cut) = budget.cut(&node.content.overview);
    let details = details(&view).filter(|details| budget.take(details));
    let (up, up_left) = budget.fill(around.up.into_iter().map(|it| line(it, &conversation)));
    let (down, down_left) = budget.fill(around.down.into_iter().map(|it| line(it, &conversation)));
    ExpandResult {
        id: view.id,
        conversation: conversation.slug,
        level: view.level,
        at: format!("{} to {}", view.range_start, view.range_end),
        text,
        details,
        up,
        down,
        before: None,
        after: None,
        cut,
        left_out: up_left + down_left,
    }
}

/// The non-empty lists of a node's content, without the overview.
fn details(node: &NodeView) -> Option<serde_json::Value> {
    let mut content = serde_json::to_value(&node.content).ok()?;
    let object = content.as_object_mut()?;
    object.remove("overview");
    object.retain(|_, value| value.as_array().is_some_and(|list| !list.is_empty()));
    (!object.is_empty()).then_some(content)
}

fn line(line: LineView, conversation: &Conversation) -> ExpandLine {
    let id = match line.level {
        0 => format!("{}{}", conversation.slug, line.id),
        _ => line.id,
    };
    ExpandLine { id, level: line.level, text: preview(&line.text, LINE_CHARS) }
}

/// A message: its text, the nodes above it and the rest of its turn.
fn expand_message(
    conversation: Conversation,
    message: &Message,
    turns: &[WholeTurn],
    around: ExpandView,
    mut budget: TokenBudget<'_>,
) -> ExpandResult {
    let (slug, idx) = (conversation.slug.as_str(), message.idx);
    let (text, cut) = budget.cut(&format!("{}: {}", speaker(message), message.body.text));
    let (up, up_left) = budget.fill(around.up.into_iter().map(|it| line(it, &conversation)));
    let others = turns.iter().flat_map(WholeTurn::items);
    let (down, down_left) = budget.fill(others.filter_map(|step| other_step(&step, slug, idx)));
    ExpandResult {
        id: message_id(slug, idx),
        level: 0,
        at: message.body.at.to_string(),
        text,
        details: None,
        up,
        down,
        before: idx.0.checked_sub(1).map(|before| message_id(slug, MessageIdx(before))),
        after: (idx.0 + 1 < conversation.totals.messages)
            .then(|| message_id(slug, MessageIdx(idx.0 + 1))),
        cut,
        left_out: up_left + down_left,
        conversation: conversation.slug,
    }
}

/// A line for another message or a tool call of the turn of message `idx`.
fn other_step(step: &TurnItem<'_>, slug: &str, idx: MessageIdx) -> Option<ExpandLine> {
    let (id, text) = match step {
        TurnItem::Message(message) if message.idx == idx => return None,
        TurnItem::Message(message) => {
            (message.idx, format!("{}: {}", speaker(message), message.body.text))
        }
        TurnItem::ToolCall(call) => {
            let result = call.call.outcome.as_ref().map(|outcome| outcome.result.to_text());
            let args = call.call.args.to_text();
            let result = result.unwrap_or_default();
            (idx, format!("tool {} {args} → {result}", call.call.name))
        }
    };
    Some(ExpandLine { id: message_id(slug, id), level: 0, text: preview(&text, LINE_CHARS) })
}

pub(super) fn sessions(list: ConversationList, engine: &Engine, max_tokens: u32) -> SessionsResult {
    let line = |it: ConversationView| SessionLine {
        conversation: it.slug,
        title: it.title,
        state: it.state,
        cwd: it.cwd,
        turns: it.turns,
        tokens: it.tokens,
        last_activity: it.last_activity,
        last_message: it.last_message,
    };
    let (sessions, left) =
        TokenBudget::new(engine, max_tokens).fill(list.conversations.into_iter().map(line));
    SessionsResult { sessions, more: list.more || left > 0 }
}

pub(super) fn update(view: UpdateView) -> UpdateResult {
    UpdateResult {
        conversation: view.slug,
        job: view.job,
        jobs_by_level: view.jobs_by_level,
        tokens_in: view.tokens_in,
        tokens_out: view.tokens_out,
        dollars: view.dollars,
        jobs_left: view.left,
        jobs_failed: view.failed,
    }
}

pub(super) fn status(
    service: &Service,
    request: &StatusRequest,
    max_tokens: u32,
) -> Result<StatusResult, ServiceError> {
    let stats = StatsView::of(service.engine())?;
    let mut conversation = match (&request.conversation, stats.conversations) {
        (None, 0) => None,
        _ => Some(service.status(request)?),
    };
    let stats_request = StatsRequest { conversation: request.conversation.clone() };
    let compression = match &stats_request.conversation {
        Some(_) => service.stats(&stats_request)?.compression,
        None => None,
    };
    let mut left_out = 0;
    if let Some(it) = &mut conversation {
        // Failed operations come first: they need attention, while pending ones resolve on their
        // own.
        let (failed, pending) = (std::mem::take(&mut it.failed), std::mem::take(&mut it.pending));
        let mut budget = TokenBudget::new(service.engine(), max_tokens);
        budget.take(it);
        for (operations, list) in [(failed, &mut it.failed), (pending, &mut it.pending)] {
            let left;
            (*list, left) = budget.fill(operations);
            left_out += left;
        }
    }
    Ok(StatusResult {
        conversations: stats.conversations,
        turns: stats.turns,
        tokens: stats.tokens,
        writes_refused: stats.store.writes_refused,
        nodes_by_level: stats.tree.levels.iter().map(|level| level.nodes).collect(),
        conversation,
        compression,
        left_out,
    })
}

/// A structured result, with the same JSON as text for clients without structured output.
pub(super) fn structured(result: &impl Serialize) -> CallToolResult {
    CallToolResult::structured(serde_json::to_value(result).unwrap_or_default())
}

/// A tool error with advice for the model.
pub(super) fn refused(refusal: &ServiceError) -> CallToolResult {
    let text = format!("{refusal}.\nNext step: {}.", advice(refusal));
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn advice(refusal: &ServiceError) -> String {
    match refusal {
        ServiceError::Engine(Error::ConversationNotFound { .. }) => {
            "call `sessions` to list conversations; use a slug, an id or an id prefix".into()
        }
        ServiceError::Engine(Error::NodeNotFound(_)) => {
            "use an id from `search`, `context` or `expand`; a rebuilt tree has new ids".into()
        }
        ServiceError::Engine(Error::Ambiguous { .. }) => "use one of these full names".into(),
        ServiceError::Engine(Error::SlugTaken(_)) => "choose another title".into(),
        ServiceError::Engine(Error::Provider(_)) => {
            "retry in a minute; meanwhile `search` uses words only, `context` raw messages".into()
        }
        // No change to the arguments would help.
        ServiceError::Engine(Error::Store(error)) => {
            let hint = error
                .hint()
                .unwrap_or_else(|| "retry; if it fails again, run `treering doctor`".into());
            format!("the arguments are valid; tell the user: {hint}")
        }
        ServiceError::Engine(error) => {
            error.hint().unwrap_or_else(|| "correct the argument and call again".into())
        }
        ServiceError::InvalidRequest(_) => "correct the arguments and call again".into(),
        ServiceError::NoConversations | ServiceError::NotFound(_) => {
            "call `sessions` to list conversations, or `remember` to store a turn".into()
        }
        ServiceError::Forbidden(scope) => format!("ask the user for a token with scope {scope}"),
        ServiceError::Stopping => "call again in a few seconds".into(),
        ServiceError::Internal(_) => {
            "call again; if it fails again, ask the user to check the Treering log".into()
        }
    }
}
