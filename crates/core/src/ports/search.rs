//! The search port: an index that finds candidates for a question. The in-process index follows
//! the store's change feed; a store may provide an index of its own instead. In both
//! cases `fusion` ranks the candidates.

use super::{ItemRef, StoreResult};
use crate::error::{ProviderError, StoreError};
use crate::fusion::Signals;
use crate::ids::{ConversationId, TenantId, ThreadName};
use crate::lexicon::TermId;
use crate::message::{Message, Role};
use crate::question::Question;
use crate::time::Timestamp;

/// An index over all searchable items.
pub trait SearchIndex: Send + Sync {
    /// A snapshot of a tenant's index, including everything committed before the call.
    fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn IndexSnapshot + '_>, IndexError>;
}

/// The index of one tenant, for one question.
pub trait IndexSnapshot {
    /// The embedding model of the index and its number of dimensions; 0 while there is no
    /// vector.
    fn model(&self) -> (&str, usize);

    /// The best candidates for a question, best first. Returns up to twice the limit, because
    /// some items may have been deleted from the store in the meantime, and beyond that the items
    /// that may contain a literal of the question.
    fn candidates(&self, query: &IndexQuery<'_>) -> StoreResult<Vec<SearchCandidate>>;

    /// The byte ranges of the words in `line` that match one of the terms.
    fn matches(&self, line: &str, terms: &[TermId]) -> Vec<(usize, usize)>;
}

/// A search request.
#[derive(Debug, Clone, Copy)]
pub struct IndexQuery<'a> {
    /// The question.
    pub question: &'a Question,
    /// The question's vector from the index's model; zeros if there is none.
    pub vector: &'a [f32],
    /// The items to search.
    pub filter: &'a ItemFilter,
    /// The state of the conversation to search, if it is an earlier one. The filter then names that
    /// conversation alone.
    pub as_of: Option<&'a AsOf>,
    /// Whether similarity alone decides, and not the words of the question.
    pub semantic: bool,
    /// Maximum number of hits.
    pub limit: usize,
}

/// Restricts the items that a search returns.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemFilter {
    /// Only items of these conversations.
    pub conversations: Option<Vec<ConversationId>>,
    /// No items of these conversations.
    pub excluded: Vec<ConversationId>,
    /// No messages with these roles, and no tool calls if they include the role of tools.
    pub excluded_roles: Vec<Role>,
    /// Only items of this thread.
    pub thread: Option<ThreadName>,
    /// Only items of this author, ignoring case.
    pub author: Option<String>,
    /// Only messages with this role.
    pub role: Option<Role>,
    /// Only these levels, 0 for messages and tool calls; all if empty.
    pub levels: Vec<u8>,
    /// Only items from this time on.
    pub since: Option<Timestamp>,
    /// Only items before this time.
    pub until: Option<Timestamp>,
}

/// A conversation as it was when it had only its first messages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AsOf {
    /// The number of messages.
    pub messages: u32,
    /// The number of turns, the one that begins next included.
    pub turns: u32,
    /// The number of sealed nodes at each level, from level 1 on.
    pub nodes: Vec<u32>,
    /// The messages that were amended later, as they were.
    pub restored: Vec<RestoredMessage>,
}

/// A message before a later amendment.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoredMessage {
    /// The message.
    pub message: Message,
    /// Its vector from the index's model; empty if there is none.
    pub vector: Vec<f32>,
}

/// An item that may answer a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchCandidate {
    /// The item.
    pub item: ItemRef,
    /// The signals for ranking.
    pub signals: Signals,
    /// Whether it contains all terms of one of the question's literals. Its text decides whether
    /// they stand there as typed.
    pub has_literal_terms: bool,
}

/// The index could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The embedder failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}
