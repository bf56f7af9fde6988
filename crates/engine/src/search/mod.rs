//! Search: everything that was said and every node over it, by words and by meaning at once.

mod as_of;
mod filter;
mod follow;
mod in_process;
mod index;
mod postings;
mod query_embedding;
mod rank;
mod scan;
mod simd;
mod snippet;
mod term_matches;
mod text;

use std::borrow::Cow;

use treering_core::fusion::Signals;
use treering_core::lexicon::TermId;
use treering_core::ports::{
    ConversationFilter, ConversationQuery, IndexError, IndexQuery, IndexSnapshot, ItemFilter,
    ItemRef, SearchCandidate, SearchIndex, StoredItem,
};
use treering_core::question::Question;
use treering_core::{
    ConversationId, ConversationState, Message, Node, Role, ThreadName, Timestamp, ToolCall,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use in_process::InProcessIndex;

pub(crate) use follow::IndexCache;
pub use snippet::Snippet;
pub(crate) use text::{call_text, content_hash, embedded_part, node_text};

/// What is asked for, and where.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The question or the words.
    pub text: String,
    /// Only in these conversations; in all of the tenant when empty.
    pub conversations: Vec<ConversationId>,
    /// Only what was said in conversations of this folder.
    pub cwd: Option<String>,
    /// Only in conversations in these states; in any when empty.
    pub states: Vec<ConversationState>,
    /// Only in this thread.
    pub thread: Option<ThreadName>,
    /// Only what this author said.
    pub author: Option<String>,
    /// Only what was said in this role.
    pub role: Option<Role>,
    /// Only these levels, 0 for messages; all when empty.
    pub levels: Vec<u8>,
    /// Only from this moment on.
    pub since: Option<Timestamp>,
    /// Only before this moment.
    pub until: Option<Timestamp>,
    /// At most so many hits.
    pub limit: usize,
    /// Only hits with at least this score.
    pub min_score: Option<f32>,
}

/// Something that was found.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Its conversation.
    pub conversation: ConversationId,
    /// What it is.
    pub item: HitItem,
    /// How well it fits.
    pub score: f32,
    /// Where the score comes from.
    pub signals: Signals,
    /// The part of its text that fits best, with the words that match.
    pub snippet: Snippet,
}

/// What can be found.
#[derive(Debug, Clone)]
pub enum HitItem {
    /// A message.
    Message(Box<Message>),
    /// A tool call.
    ToolCall(Box<ToolCall>),
    /// A node.
    Node(Box<Node>),
}

impl From<StoredItem> for HitItem {
    fn from(item: StoredItem) -> Self {
        match item {
            StoredItem::Message(message) => Self::Message(message),
            StoredItem::ToolCall(call) => Self::ToolCall(call),
            StoredItem::Node(node) => Self::Node(node),
        }
    }
}

impl HitItem {
    /// What it says.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Message(message) => Cow::Borrowed(&message.body.text),
            Self::Node(node) => Cow::Borrowed(&node.content.overview),
            Self::ToolCall(call) => Cow::Owned(call_text(call)),
        }
    }
}

impl Hit {
    /// Its level: 0 for a message or a tool call.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match &self.item {
            HitItem::Message(_) | HitItem::ToolCall(_) => 0,
            HitItem::Node(node) => node.level().number(),
        }
    }

    /// The parts of its score, by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 11] {
        self.signals.parts()
    }
}

/// What was found.
#[derive(Debug, Clone)]
pub struct SearchOutcome {
    /// The hits, the best first.
    pub hits: Vec<Hit>,
    /// Why only the words were looked at, where the meaning could not be.
    pub lexical_only_reason: Option<String>,
}

impl SearchOutcome {
    /// Number of hits.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.hits.len()
    }

    /// Whether nothing was found.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hits.is_empty()
    }
}

impl IntoIterator for SearchOutcome {
    type Item = Hit;
    type IntoIter = std::vec::IntoIter<Hit>;

    fn into_iter(self) -> Self::IntoIter {
        self.hits.into_iter()
    }
}

impl Engine {
    /// What fits a question best. Everything that was acknowledged before is looked at, whichever
    /// process stored it. Where the embedder fails, the words alone decide.
    pub fn search(&self, query: &Query) -> Result<SearchOutcome> {
        self.find_all(query, true)
    }

    /// The same without snippets, for callers that take whole texts.
    pub(crate) fn search_whole(&self, query: &Query) -> Result<SearchOutcome> {
        self.find_all(query, false)
    }

    fn find_all(&self, query: &Query, with_snippets: bool) -> Result<SearchOutcome> {
        let in_process = InProcessIndex(self);
        let index: &dyn SearchIndex = self.store().search_index().unwrap_or(&in_process);
        let index = index.snapshot(self.tenant())?;
        let (mut answer, question) = self.find_in(query, &*index, self.clock().now())?;
        if with_snippets {
            let matches = |line: &str, terms: &[TermId]| index.matches(line, terms);
            let hits = answer.hits.iter_mut();
            hits.for_each(|hit| hit.snippet = Snippet::of(&hit.item.text(), &question, &matches));
        }
        Ok(answer)
    }

    /// The hits of a query in an index, without snippets.
    fn find_in(
        &self,
        query: &Query,
        index: &dyn IndexSnapshot,
        now: Timestamp,
    ) -> Result<(SearchOutcome, Question)> {
        let question = Question::new(&query.text, now);
        let (model, dims) = index.model();
        let (vector, words_only) = self.embed_query(&query.text, model, dims);
        let filter = self.filter(query)?;
        let wanted = IndexQuery {
            question: &question,
            vector: &vector,
            filter: &filter,
            limit: query.limit,
        };
        let candidates = index.candidates(&wanted)?;
        Ok((
            SearchOutcome {
                hits: self.resolve(query, &candidates)?,
                lexical_only_reason: words_only,
            },
            question,
        ))
    }

    /// The filter of a query: the conversations of a folder or in some states are looked up.
    fn filter(&self, query: &Query) -> Result<ItemFilter> {
        let mut conversations =
            (!query.conversations.is_empty()).then(|| query.conversations.clone());
        if query.cwd.is_some() || !query.states.is_empty() {
            let filter = ConversationFilter {
                cwd: query.cwd.clone(),
                states: query.states.clone(),
                after: None,
                limit: usize::MAX,
            };
            let found = self.reader()?.conversations(&ConversationQuery::List(&filter))?;
            let found = found.into_iter().map(|conversation| conversation.id);
            let is_wanted =
                |id: &ConversationId| conversations.as_ref().is_none_or(|all| all.contains(id));
            conversations = Some(found.filter(is_wanted).collect());
        }
        Ok(ItemFilter {
            conversations,
            thread: query.thread.clone(),
            author: query.author.clone(),
            role: query.role,
            levels: query.levels.clone(),
            since: query.since,
            until: query.until,
        })
    }

    /// Reads candidates from the store in one call; those that are gone meanwhile are left out.
    fn resolve(&self, query: &Query, candidates: &[SearchCandidate]) -> Result<Vec<Hit>> {
        let is_wanted =
            |it: &&SearchCandidate| query.min_score.is_none_or(|least| it.signals.score() >= least);
        let candidates: Vec<&SearchCandidate> = candidates.iter().filter(is_wanted).collect();
        let reader = self.reader()?;
        let mut hits = Vec::with_capacity(query.limit.min(candidates.len()));
        for page in candidates.chunks(query.limit.max(1)) {
            let refs: Vec<ItemRef> = page.iter().map(|candidate| candidate.item).collect();
            let items = reader.items(&refs)?;
            hits.extend(items.into_iter().zip(page).filter_map(|(item, candidate)| {
                let (conversation, signals) = (candidate.item.conversation(), candidate.signals);
                let (found, snippet) = (HitItem::from(item?), Snippet::default());
                Some(Hit { conversation, item: found, score: signals.score(), signals, snippet })
            }));
            if hits.len() >= query.limit {
                break;
            }
        }
        hits.truncate(query.limit);
        Ok(hits)
    }
}

impl From<IndexError> for Error {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Store(error) => Self::Store(error),
            IndexError::Provider(error) => Self::Provider(error),
        }
    }
}

impl From<treering_core::ProviderError> for Error {
    fn from(error: treering_core::ProviderError) -> Self {
        Self::Provider(error)
    }
}
