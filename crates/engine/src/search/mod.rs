//! Search over messages, tool calls and nodes, by words and by embedding similarity at once.

mod as_of;
mod exclude;
mod filter;
mod in_process;
mod index;
mod index_build;
mod index_cache;
mod named_authors;
mod past;
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
mod turns;

use std::borrow::Cow;
use std::time::Instant;

use treering_core::fusion::{MIN_SCORE, Signals, WEAK_BELOW};
use treering_core::lexicon::TermId;
use treering_core::ports::{
    AsOf, ConversationFilter, IndexError, IndexQuery, IndexSnapshot, ItemFilter, ItemRef,
    SearchCandidate, SearchIndex, StoredItem,
};
use treering_core::{
    COMPARED, ConversationId, ConversationState, Label, Message, MessageIdx, Node, Question, Role,
    ThreadName, Timestamp, ToolCall, prompt,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::recall::PastVersions;
use in_process::InProcessIndex;

pub use exclude::Exclusion;
pub(crate) use index_cache::IndexCache;
pub use snippet::Snippet;
use text::call_text;
pub(crate) use text::{content_hash, embedded_call_text, text_to_embed};

/// Number of items to compare for each turn of a result.
const ITEMS_PER_TURN: usize = 4;

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
    /// Only conversations with all of these labels.
    pub labels: Vec<Label>,
    /// Only conversations in these states. If empty, any state but archived.
    pub states: Vec<ConversationState>,
    /// Search archived conversations too. One that `conversations` names is always searched.
    pub archived: bool,
    /// Items to leave out.
    pub exclude: Vec<Exclusion>,
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
    /// Return one hit for each turn, with the other items of the turn that match.
    pub by_turn: bool,
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

    /// The number of candidates to rank. Topics and excluded messages are compared after ranking,
    /// so that a query with one of them needs many more candidates than hits.
    fn candidates(&self) -> usize {
        const COMPARED_LATER: usize = 5000;
        let is_message_range = |it: &Exclusion| matches!(it, Exclusion::Messages(..));
        let is_compared_later =
            !self.topics.is_empty() || self.exclude.iter().any(is_message_range);
        match self.limit {
            0 => 0,
            limit if is_compared_later => limit.max(COMPARED_LATER),
            limit if self.by_turn => limit.max(COMPARED).saturating_mul(ITEMS_PER_TURN),
            limit => limit.max(COMPARED),
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
    /// The other messages and tool calls of its turn that match, best first, without snippets. Only
    /// for a query by turn.
    pub same_turn: Vec<Hit>,
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
            Self::Message(message) => message.recalled_text(),
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

/// The time that a search is about.
struct SearchTime<'a> {
    now: Timestamp,
    /// The state of the conversation then; `None` for the present.
    as_of: Option<&'a AsOf>,
    /// The messages that were amended since.
    versions: &'a PastVersions,
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
        let versions = PastVersions::default();
        let moment = SearchTime { now: self.clock().now(), as_of: None, versions: &versions };
        self.with_index(|index| {
            let (mut answer, question) = self.find_in(query, index, &moment)?;
            if with_snippets {
                let matches = |line: &str, terms: &[TermId]| index.matches(line, terms);
                let hits = answer.hits.iter_mut();
                hits.for_each(|hit| {
                    hit.snippet = Snippet::of(&hit.item.text(), &question, &matches);
                });
            }
            Ok(answer)
        })
    }

    /// Calls `search` with the up-to-date index of the tenant.
    fn with_index<T>(&self, search: impl FnOnce(&dyn IndexSnapshot) -> Result<T>) -> Result<T> {
        let in_process = InProcessIndex(self);
        let index: &dyn SearchIndex = self.store().search_index().unwrap_or(&in_process);
        search(&*index.snapshot(self.tenant())?)
    }

    /// The hits of a query in an index, without snippets.
    fn find_in(
        &self,
        query: &Query,
        index: &dyn IndexSnapshot,
        moment: &SearchTime<'_>,
    ) -> Result<(SearchOutcome, Question)> {
        let question = Question::new(&query.text, moment.now);
        let (model, dims) = index.model();
        let (vector, words_only) = self.embed_query(&question.plain, model, dims);
        // Without a vector in the index there is nothing to compare, which is no failure.
        if let Some(why) = words_only.as_ref().filter(|_| query.semantic && dims > 0) {
            let why = format!("a semantic search needs the embedding of the query: {why}");
            return Err(treering_core::ProviderError::transient(why).into());
        }
        let filter = self.filter(query)?;
        let mut index_query = IndexQuery {
            question: &question,
            vector: &vector,
            filter: &filter,
            as_of: moment.as_of,
            semantic: query.semantic,
            limit: query.candidates(),
        };
        let hits = loop {
            self.check_canceled()?;
            let mut candidates = index.candidates(&index_query)?;
            let is_wanted = |it: &&SearchCandidate| query.score(it) >= query.min_score();
            let is_all = candidates.iter().filter(is_wanted).count() < index_query.limit;
            let reader = self.reader()?;
            text_order::rank_as_typed(&*reader, &question, moment.versions, &mut candidates)?;
            drop(reader);
            let mut hits = self.resolve(query, &candidates, moment.versions)?;
            text_order::rank_latest_first(&question, &mut hits);
            if query.by_turn {
                let (is_full, by_turn) = turns::by_turn(hits, &question, query.limit);
                hits = by_turn;
                // Many candidates may belong to few turns.
                if !is_full && !is_all {
                    index_query.limit = index_query.limit.saturating_mul(4);
                    continue;
                }
            }
            hits.truncate(query.limit);
            break hits;
        };
        Ok((SearchOutcome { hits, lexical_only_reason: words_only }, question))
    }

    /// The item filter of a query. Directories, labels and states are resolved to conversations.
    fn filter(&self, query: &Query) -> Result<ItemFilter> {
        let reader = self.reader()?;
        let mut conversations =
            (!query.conversations.is_empty()).then(|| query.conversations.clone());
        let scope = ConversationFilter {
            cwd: query.cwd.clone(),
            project: query.project.clone(),
            labels: query.labels.clone(),
            states: query.states.clone(),
            ..ConversationFilter::all(usize::MAX)
        };
        if scope != ConversationFilter::all(usize::MAX) {
            let found = reader.conversation_ids(&scope)?;
            let is_wanted =
                |id: &ConversationId| conversations.as_ref().is_none_or(|all| all.contains(id));
            conversations = Some(found.into_iter().filter(is_wanted).collect());
        }
        let mut excluded = exclude::conversations(&query.exclude);
        if query.conversations.is_empty() && query.states.is_empty() && !query.archived {
            let states = vec![ConversationState::Archived];
            let archived = ConversationFilter { states, ..ConversationFilter::all(usize::MAX) };
            excluded.extend(reader.conversation_ids(&archived)?);
        }
        Ok(ItemFilter {
            conversations,
            excluded,
            excluded_roles: exclude::roles(&query.exclude),
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
    fn resolve(
        &self,
        query: &Query,
        candidates: &[SearchCandidate],
        versions: &PastVersions,
    ) -> Result<Vec<Hit>> {
        let min_score = query.min_score();
        let is_wanted = |it: &&SearchCandidate| query.score(it) >= min_score;
        let candidates: Vec<&SearchCandidate> = candidates.iter().filter(is_wanted).collect();
        let reader = self.reader()?;
        let (limit, recall) = (query.limit.max(COMPARED), self.recall_options());
        let mut hits: Vec<Hit> = Vec::with_capacity(limit.min(candidates.len()));
        let mut read = 0;
        for page in candidates.chunks(limit) {
            self.check_canceled()?;
            let refs: Vec<ItemRef> = page.iter().map(|candidate| candidate.item).collect();
            let items = reader.items(&refs)?;
            for (item, candidate) in items.into_iter().zip(page) {
                let (conversation, signals) = (candidate.item.conversation(), candidate.signals);
                let item = item.map(|item| versions.restore_item(item));
                let item =
                    item.filter(|it| !matches!(it, StoredItem::Message(it) if it.is_left_out()));
                let Some(item) = item.map(|item| recall.item(item)) else { continue };
                if !exclude::is_excluded(&query.exclude, conversation, &item)
                    && topics::has_one(&*reader, conversation, &item, &query.topics)?
                {
                    let (score, snippet) = (query.score(candidate), Snippet::default());
                    let (superseded_by, same_turn) = (None, Vec::new());
                    hits.push(Hit {
                        conversation,
                        item,
                        score,
                        signals,
                        snippet,
                        superseded_by,
                        same_turn,
                    });
                }
            }
            read += page.len();
            // The other items of the turns are among the candidates too.
            let is_enough = match query.by_turn {
                true => {
                    read >= limit.saturating_mul(ITEMS_PER_TURN) && turns::count(&hits) >= limit
                }
                false => hits.len() >= limit,
            };
            if is_enough {
                break;
            }
        }
        if !query.by_turn {
            hits.truncate(limit);
        }
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
