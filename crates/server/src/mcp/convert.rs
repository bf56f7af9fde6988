//! Converts engine results to MCP results, sized for a model.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use treering_core::text::preview;
use treering_core::{Conversation, Message, MessageIdx};
use treering_engine::{Engine, Error, Hit, HitItem, TurnItem};

use super::types::{
    ContextResult, ExpandLine, ExpandResult, SearchHit, SessionLine, SessionsResult, StatusResult,
    UpdateResult,
};
use crate::service::{ContextAnswer, ConversationList, Service, ServiceError};
use crate::views::{
    ConversationView, ExpandView, LineView, NodeView, Slugs, StatsView, UpdateView,
};

/// Maximum characters of a listing line; `expand` reads the rest.
const LINE_CHARS: usize = 400;
/// Approximate token cost of a result without its lines.
const FRAME_TOKENS: u32 = 60;

/// The remaining token budget of a result.
pub(super) struct TokenBudget<'a> {
    memory: &'a Engine,
    left: u32,
}

impl<'a> TokenBudget<'a> {
    pub(super) const fn new(memory: &'a Engine, max_tokens: u32) -> Self {
        Self { memory, left: max_tokens.saturating_sub(FRAME_TOKENS) }
    }

    /// Deducts the cost of an item, if the budget allows it.
    fn take(&mut self, it: &impl Serialize) -> bool {
        let json = serde_json::to_string(it).unwrap_or_default();
        let left = self.left.checked_sub(self.memory.count_tokens(&json));
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Takes items in order until the budget is exhausted. Returns them and the number left out.
    pub(super) fn fill<T: Serialize>(
        &mut self,
        items: impl IntoIterator<Item = T>,
    ) -> (Vec<T>, usize) {
        let mut items = items.into_iter();
        let mut taken = Vec::new();
        while let Some(item) = items.next() {
            if !self.take(&item) {
                return (taken, 1 + items.count());
            }
            taken.push(item);
        }
        (taken, 0)
    }

    /// Truncates a text to the budget, and returns whether it was truncated. Leaves a quarter of
    /// the budget for what follows.
    fn cut(&mut self, text: &str) -> (String, bool) {
        if self.take(&text) {
            return (text.to_owned(), false);
        }
        let room = self.left - self.left / 4;
        let tokens = self.memory.count_tokens(text).max(1);
        let mut chars = text.chars().count() * room as usize / tokens as usize;
        loop {
            let cut: String = text.chars().take(chars).chain(['…']).collect();
            if chars == 0 || self.memory.count_tokens(&cut) <= room {
                self.take(&cut);
                return (cut, true);
            }
            chars = chars * 9 / 10;
        }
    }
}

/// The id of a message for the other tools.
pub(super) fn message_id(slug: &str, idx: MessageIdx) -> String {
    format!("{slug}#{}", idx.0)
}

pub(super) fn hits(hits: &[Hit], memory: &Engine) -> Vec<SearchHit> {
    let mut slugs = Slugs::of(memory);
    hits.iter().map(|hit| self::hit(hit, slugs.get(hit.conversation))).collect()
}

fn hit(hit: &Hit, conversation: String) -> SearchHit {
    let (id, who, at) = match &hit.item {
        HitItem::Message(message) => {
            (message_id(&conversation, message.idx), Some(speaker(message)), message.body.at)
        }
        HitItem::ToolCall(call) => {
            let idx = MessageIdx(call.before.0.saturating_sub(1));
            (message_id(&conversation, idx), Some(format!("tool {}", call.call.name)), call.call.at)
        }
        HitItem::Node(node) => (node.id.to_string(), None, node.range_end),
    };
    let (level, score, snippet) = (hit.level(), hit.score, hit.snippet.text.clone());
    SearchHit { id, conversation, level, who, at: at.to_string(), snippet, score }
}

fn speaker(message: &Message) -> String {
    message.body.author.clone().unwrap_or_else(|| message.body.role.as_str().to_owned())
}

pub(super) fn context(answer: ContextAnswer, slug: String) -> ContextResult {
    let receipt = answer.receipt;
    let mut nodes: Vec<String> =
        receipt.items.iter().filter_map(|item| item.node.clone()).collect();
    nodes.dedup();
    ContextResult {
        text: answer.text.unwrap_or_default(),
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

/// Expands a node: its text, the nodes above it and its sources.
pub(super) fn node(
    id: &str,
    memory: &Engine,
    max_tokens: u32,
) -> Result<ExpandResult, ServiceError> {
    let (conversation, node) = memory.find_node(id)?;
    let around = ExpandView::of_node(&conversation, &node, memory)?;
    let view = NodeView::of(&conversation, &node);
    let mut room = TokenBudget::new(memory, max_tokens);
    let (text, cut) = room.cut(&node.content.overview);
    let details = details(&view).filter(|details| room.take(details));
    let (up, over_left) =
        room.fill(around.up.into_iter().map(|line| self::line(line, &conversation)));
    let (down, left) =
        room.fill(around.down.into_iter().map(|line| self::line(line, &conversation)));
    Ok(ExpandResult {
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
        left_out: left + over_left,
    })
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

/// Expands a message: its text, the rest of its turn and the nodes above it.
pub(super) fn message(
    reference: &str,
    idx: MessageIdx,
    memory: &Engine,
    max_tokens: u32,
) -> Result<ExpandResult, ServiceError> {
    use treering_core::TurnNo;
    use treering_core::ports::Span;
    let it = memory.find(reference)?;
    let found =
        memory.messages(it.id, Span::starting(idx, 1))?.pop().filter(|found| found.idx == idx);
    let Some(found) = found else {
        let (slug, end) = (&it.slug, it.totals.messages);
        return Err(ServiceError::NotFound(format!(
            "{slug} has {end} messages, counted from 0; message {} does not exist",
            idx.0
        )));
    };
    let turn = Span::between(found.turn, TurnNo(found.turn.0.saturating_add(1)));
    let turns = memory.turns(it.id, turn)?;
    let others = turns.iter().flat_map(|turn| turn.items()).filter_map(|step| match step {
        TurnItem::Message(message) if message.idx == idx => None,
        TurnItem::Message(message) => Some(ExpandLine {
            id: message_id(&it.slug, message.idx),
            level: 0,
            text: preview(&format!("{}: {}", speaker(message), message.body.text), LINE_CHARS),
        }),
        TurnItem::ToolCall(call) => {
            let result = call
                .call
                .outcome
                .as_ref()
                .map_or_else(String::new, |it| it.result.to_text().into_owned());
            let text = format!("tool {} {} → {result}", call.call.name, call.call.args.to_text());
            Some(ExpandLine {
                id: message_id(&it.slug, idx),
                level: 0,
                text: preview(&text, LINE_CHARS),
            })
        }
    });
    let mut room = TokenBudget::new(memory, max_tokens);
    let (text, cut) = room.cut(&format!("{}: {}", speaker(&found), found.body.text));
    let over = ExpandView::of_message(&it, idx, memory)?.up;
    let (up, over_left) = room.fill(over.into_iter().map(|line| self::line(line, &it)));
    let (down, left) = room.fill(others.collect::<Vec<_>>());
    Ok(ExpandResult {
        id: message_id(&it.slug, idx),
        level: 0,
        at: found.body.at.to_string(),
        text,
        details: None,
        up,
        down,
        before: idx.0.checked_sub(1).map(|before| message_id(&it.slug, MessageIdx(before))),
        after: (idx.0 + 1 < it.totals.messages)
            .then(|| message_id(&it.slug, MessageIdx(idx.0 + 1))),
        cut,
        left_out: left + over_left,
        conversation: it.slug,
    })
}

pub(super) fn sessions(list: ConversationList, memory: &Engine, max_tokens: u32) -> SessionsResult {
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
        TokenBudget::new(memory, max_tokens).fill(list.conversations.into_iter().map(line));
    SessionsResult { sessions, more: list.more || left > 0 }
}

pub(super) fn update(view: UpdateView, jobs_left: u32, jobs_failed: u32) -> UpdateResult {
    UpdateResult {
        conversation: view.slug,
        job: view.job,
        jobs_by_level: view.jobs_by_level,
        tokens_in: view.tokens_in,
        tokens_out: view.tokens_out,
        dollars: view.dollars,
        jobs_left,
        jobs_failed,
    }
}

pub(super) fn status(
    service: &Service,
    conversation: Option<&str>,
    max_tokens: u32,
) -> Result<StatusResult, ServiceError> {
    let stats = StatsView::of(service.memory())?;
    let mut conversation = match (conversation, stats.conversations) {
        (None, 0) => None,
        (reference, _) => Some(service.status(reference)?),
    };
    let mut left_out = 0;
    if let Some(it) = &mut conversation {
        // Failed operations come first: they need attention, while pending ones resolve on their
        // own.
        let (failed, pending) = (std::mem::take(&mut it.failed), std::mem::take(&mut it.pending));
        let mut room = TokenBudget::new(service.memory(), max_tokens);
        room.take(it);
        for (operations, taken) in [(failed, &mut it.failed), (pending, &mut it.pending)] {
            let left;
            (*taken, left) = room.fill(operations);
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
        ServiceError::NotFound(_) => {
            "call `sessions` to list conversations, or `remember` to store a turn".into()
        }
        ServiceError::Forbidden(scope) => format!("ask the user for a token with scope {scope}"),
        ServiceError::Stopping => "call again in a few seconds".into(),
        ServiceError::Internal(_) => {
            "call again; if it fails again, ask the user to check the Treering log".into()
        }
    }
}
