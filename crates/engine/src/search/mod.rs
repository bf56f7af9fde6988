//! Search over messages, tool calls and nodes, by words and by embedding similarity at once.

mod as_of;
mod filter;
mod in_process;
mod index;
mod index_build;
mod index_cache;
mod named_authors;
mod postings;
mod query_embedding;
mod query_terms;
mod rank;
mod scan;
mod seal;
mod segment;
mod segment_chain;
mod segment_format;
mod semantic;
mod simd;
mod snippet;
mod term_matches;
mod text;
mod text_order;
mod topics;

use std::borrow::Cow;
use std::time::Instant;

use treering_core::fusion::{MIN_SCORE, Signals, WEAK_BELOW};
use treering_core::lexicon::TermId;
use treering_core::ports::{
    ConversationFilter, ConversationQuery, IndexError, IndexQuery, IndexSnapshot, ItemFilter,
    ItemRef, SearchCandidate, SearchIndex, StoredItem,
};
use treering_core::{
    COMPARED, ConversationId, ConversationState, Message, MessageIdx, Node, Question, Role,
    ThreadName, Timestamp, ToolCall, prompt,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use in_process::InProcessIndex;

pub(crate) use index_cache::IndexCache;
pub use snippet::Snippet;
pub(crate) use text::{call_text, content_hash, text_to_embed};

/// A search query with its filters.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The question or the words to search for.
    pub text: String,
    /// Only these conversations; all of the tenant if empty.
    pub conversations: Vec<ConversationId>,
    /// Only conversations whose working directory is this folder or lies below it.
    pub cwd: Option<String>,
    /// Only conversations of this project: their working directory or their project path is this
    /// folder or lies below it.
    pub project: Option<String>,
    /// Only conversations in these states; any state if empty.
    pub states: Vec<ConversationState>,
    /// Only this thread.
    pub thread: Option<ThreadName>,
    /// Only messages of this author.
    pub author: Option<String>,
    /// Only messages with this role.
    pub role: Option<Role>,
    /// Only these levels, 0 for messages; all levels if empty.
    pub levels: Vec<u8>,
    /// Only items at or after this time.
    pub since: Option<Timestamp>,
    /// Only items before this time.
    pub until: Option<Timestamp>,
    /// Only nodes that list one of these names among their topics, entities, identifiers or tags,
    /// and the messages under such a node of level 1, ignoring case; everything if empty.
    pub topics: Vec<String>,
    /// Rank by the similarity of embeddings alone, and not by words.
    pub semantic: bool,
    /// Maximum number of hits.
    pub limit: usize,
    /// Minimum score of a hit; [`MIN_SCORE`] if there is none, and 0 for a semantic query.
    pub min_score: Option<f32>,
}

impl Query {
    /// The score of a candidate: all signals, or the similarity alone.
    fn score(&self, candidate: &SearchCandidate) -> f32 {
        let signals = candidate.signals;
        if self.semantic { signals.similarity.clamp(0.0, 1.0) } else { signals.score() }
    }

    fn min_score(&self) -> f32 {
        let default = if self.semantic { 0.0 } else { MIN_SCORE };
        self.min_score.unwrap_or(default)
    }

    /// The number of candidates to rank. Topics are compared after ranking, so that a query with
    /// topics needs many more candidates than hits.
    fn candidates(&self) -> usize {
        const WITH_TOPICS: usize = 5000;
        match self.limit {
            0 => 0,
            limit if self.topics.is_empty() => limit.max(COMPARED),
            limit => limit.max(WITH_TOPICS),
        }
    }
}

/// A search result.
#[derive(Debug, Clone)]
pub struct Hit {
    /// Its conversation.
    pub conversation: ConversationId,
    /// The message, tool call or node.
    pub item: HitItem,
    /// Its score, from 0 to 1.
    pub score: f32,
    /// The signals that the score is computed from.
    pub signals: Signals,
    /// The best matching part of its text, with the matches marked.
    pub snippet: Snippet,
    /// The later message that supersedes it, if the question is about the present.
    pub superseded_by: Option<(ConversationId, MessageIdx)>,
}

/// The kinds of items that search finds.
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
    /// The searched text of the item.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Message(message) => Cow::Borrowed(&message.body.text),
            Self::Node(node) => prompt::without_headings(&node.content.overview),
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

    /// Whether a memory that cannot answer the question returns such hits too.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.score < WEAK_BELOW
    }

    /// The weighted signals by name. Their sum ranks the hits, and the score is a function of it.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 12] {
        self.signals.parts()
    }
}

/// The result of a search.
#[derive(Debug, Clone)]
pub struct SearchOutcome {
    /// The hits, best first.
    pub hits: Vec<Hit>,
    /// Why the search used words only, if no query embedding was available.
    pub lexical_only_reason: Option<String>,
}

impl SearchOutcome {
    /// Number of hits.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.hits.len()
    }

    /// Whether there are no hits.
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
    /// Finds the items that fit a query best. The search sees every commit acknowledged before
    /// it, whichever process wrote it. If the embedder fails, words alone decide; a semantic query
    /// fails then.
    pub fn search(&self, query: &Query) -> Result<SearchOutcome> {
        let started = Instant::now();
        let found = self.find_all(query, true)?;
        self.measure(|measures| {
            measures.search.add(started.elapsed());
            let is_empty = found.hits.is_empty();
            measures.searches_empty += u64::from(is_empty);
            measures.searches_found += u64::from(!is_empty);
        });
        Ok(found)
    }

    /// Like [`Engine::search`], without snippets, for callers that take whole texts.
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
        // Without a vector in the index there is nothing to compare, which is no failure.
        if let Some(why) = words_only.as_ref().filter(|_| query.semantic && dims > 0) {
            let why = format!("a semantic search needs the embedding of the query: {why}");
            return Err(treering_core::ProviderError::transient(why).into());
        }
        let filter = self.filter(query)?;
        let index_query = IndexQuery {
            question: &question,
            vector: &vector,
            filter: &filter,
            semantic: query.semantic,
            limit: query.candidates(),
        };
        let mut candidates = index.candidates(&index_query)?;
        text_order::rank_as_typed(&*self.reader()?, &question, &mut candidates)?;
        let mut hits = self.resolve(query, &candidates)?;
        text_order::rank_latest_first(&question, &mut hits);
        hits.truncate(query.limit);
        Ok((SearchOutcome { hits, lexical_only_reason: words_only }, question))
    }

    /// The item filter of a query. Directories and states are resolved to conversations.
    fn filter(&self, query: &Query) -> Result<ItemFilter> {
        let mut conversations =
            (!query.conversations.is_empty()).then(|| query.conversations.clone());
        if query.cwd.is_some() || query.project.is_some() || !query.states.is_empty() {
            let filter = ConversationFilter {
                cwd: query.cwd.clone(),
                project: query.project.clone(),
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

    /// Reads the candidates from the store page by page: the hits, and as many as are compared
    /// with each other. Items deleted in the meantime are skipped.
    fn resolve(&self, query: &Query, candidates: &[SearchCandidate]) -> Result<Vec<Hit>> {
        let min_score = query.min_score();
        let is_wanted = |it: &&SearchCandidate| query.score(it) >= min_score;
        let candidates: Vec<&SearchCandidate> = candidates.iter().filter(is_wanted).collect();
        let reader = self.reader()?;
        let limit = query.limit.max(COMPARED);
        let mut hits = Vec::with_capacity(limit.min(candidates.len()));
        for page in candidates.chunks(limit) {
            let refs: Vec<ItemRef> = page.iter().map(|candidate| candidate.item).collect();
            let items = reader.items(&refs)?;
            for (item, candidate) in items.into_iter().zip(page) {
                let (conversation, signals) = (candidate.item.conversation(), candidate.signals);
                let Some(item) = item.map(HitItem::from) else { continue };
                if topics::has_one(&*reader, conversation, &item, &query.topics)? {
                    let (score, snippet) = (query.score(candidate), Snippet::default());
                    let superseded_by = None;
                    hits.push(Hit { conversation, item, score, signals, snippet, superseded_by });
                }
            }
            if hits.len() >= limit {
                break;
            }
        }
        hits.truncate(limit);
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
