//! Search: an index that finds candidates for a question. The in-process index follows a store's change feed; a store
//! with indexes of its own answers where the data is. Either way `fusion` judges the candidates.

use super::{ItemRef, StoreResult};
use crate::error::{ProviderError, StoreError};
use crate::fusion::Signals;
use crate::ids::{ConversationId, TenantId, ThreadName};
use crate::lexicon::TermId;
use crate::message::Role;
use crate::question::Question;
use crate::time::Timestamp;

/// An index over everything that is searched.
pub trait SearchIndex: Send + Sync {
    /// The index of a tenant, with everything that was committed before the call.
    fn snapshot(&self, tenant: &TenantId) -> Result<Box<dyn IndexSnapshot + '_>, IndexError>;
}

/// The index of one tenant, for one question.
pub trait IndexSnapshot {
    /// The model whose vectors are compared, and how many numbers they have; 0 where there is no vector yet.
    fn model(&self) -> (&str, usize);

    /// The best candidates for a question, the best first: up to twice as many as the limit, since some may be gone from
    /// the store meanwhile.
    fn candidates(&self, query: &IndexQuery<'_>) -> StoreResult<Vec<SearchCandidate>>;

    /// The words of a line that match one of these terms: from, until, in bytes.
    fn matches(&self, line: &str, terms: &[TermId]) -> Vec<(usize, usize)>;
}

/// What to find.
#[derive(Debug, Clone, Copy)]
pub struct IndexQuery<'a> {
    /// The question.
    pub question: &'a Question,
    /// Its vector by the model of the index; zeros where there is none.
    pub vector: &'a [f32],
    /// Which items may be found.
    pub filter: &'a ItemFilter,
    /// Maximum number of hits.
    pub limit: usize,
}

/// Which items may be found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemFilter {
    /// Only those of these conversations.
    pub conversations: Option<Vec<ConversationId>>,
    /// Only those of this thread.
    pub thread: Option<ThreadName>,
    /// Only those of this author, in any case.
    pub author: Option<String>,
    /// Only messages of this role.
    pub role: Option<Role>,
    /// Only these levels, 0 for messages and tool calls; all when empty.
    pub levels: Vec<u8>,
    /// Only those from this moment on.
    pub since: Option<Timestamp>,
    /// Only those before this moment.
    pub until: Option<Timestamp>,
}

/// An item that may answer a question.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchCandidate {
    /// The item.
    pub item: ItemRef,
    /// What is known about how it fits.
    pub signals: Signals,
}

/// An index could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The embedder failed.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}
