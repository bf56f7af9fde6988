//! The frame of MCP results: their size, structured data, and errors with advice.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use treering_core::fence;
use treering_engine::{Engine, Error};

use super::types::{StatusResult, UpdateResult};
use crate::service::requests::{StatsRequest, StatusRequest};
use crate::service::{Service, ServiceError};
use crate::views::{StatsView, UpdateView};

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
    pub(super) fn take(&mut self, it: &impl Serialize) -> bool {
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
    pub(super) fn cut(&mut self, text: &str) -> (String, bool) {
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

/// A result that a model reads. It has no structured content, because some clients give a model
/// only that, and others only the text.
pub(super) fn text(text: &str) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(fence::visible(text))])
}

/// Structured data, with one sentence for clients without structured content.
pub(super) fn data(result: &impl Serialize, sentence: &str) -> CallToolResult {
    let mut answer = text(sentence);
    answer.structured_content =
        visible_json(result).and_then(|json| serde_json::from_str(&json)).ok();
    answer
}

/// A tool error with advice for the model.
pub(super) fn refused(refusal: &ServiceError) -> CallToolResult {
    let text = format!("{refusal}.\nNext step: {}.", advice(refusal));
    CallToolResult::error(vec![ContentBlock::text(fence::visible(&text))])
}

/// Data as JSON that hides nothing from a model.
pub(super) fn visible_json(data: &impl Serialize) -> serde_json::Result<String> {
    Ok(fence::visible_json(&serde_json::to_string(data)?).into_owned())
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
