//! Search: everything that was said and every node over it, by words and by meaning at once.

mod arena;
mod filter;
mod follow;
mod held;
mod postings;
mod rank;
mod scan;
mod sense;
mod simd;
mod snippet;
mod text;

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use treering_core::fusion::Signals;
use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::question::Question;
use treering_core::{
    ConversationId, ConversationKey, ConversationState, Level, Message, MessageIdx, Node, Role, ThreadName,
    Timestamp, ToolCall, TurnNo,
};

use crate::error::{Error, Result};
use crate::memory::Memory;
use arena::{Arena, CALL};
use filter::Filter;

pub(crate) use follow::Arenas;
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
    pub found: Found,
    /// How well it fits.
    pub score: f32,
    /// Where the score comes from.
    pub signals: Signals,
    /// The part of its text that fits best, with the words that match.
    pub snippet: Snippet,
}

/// What can be found.
#[derive(Debug, Clone)]
pub enum Found {
    /// A message.
    Message(Box<Message>),
    /// A tool call.
    Call(Box<ToolCall>),
    /// A node.
    Node(Box<Node>),
}

impl Found {
    /// What it says.
    fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Message(message) => Cow::Borrowed(&message.said.text),
            Self::Node(node) => Cow::Borrowed(&node.content.overview),
            Self::Call(call) => Cow::Owned(call_text(call)),
        }
    }
}

impl Hit {
    /// Its level: 0 for a message or a tool call.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match &self.found {
            Found::Message(_) | Found::Call(_) => 0,
            Found::Node(node) => node.level().number(),
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
pub struct Answer {
    /// The hits, the best first.
    pub hits: Vec<Hit>,
    /// Why only the words were looked at, where the meaning could not be.
    pub words_only: Option<String>,
}

impl Memory {
    /// What fits a question best. Everything that was acknowledged before is looked at, whichever
    /// process stored it. Where the embedder fails, the words alone decide.
    pub fn search(&self, query: &Query) -> Result<Answer> {
        self.find_all(query, true)
    }

    /// The same without snippets, for who takes whole texts.
    pub(crate) fn search_whole(&self, query: &Query) -> Result<Answer> {
        self.find_all(query, false)
    }

    fn find_all(&self, query: &Query, with_snippets: bool) -> Result<Answer> {
        let arena = self.arena()?;
        let question = Question::new(&query.text, self.clock().now());
        let (vector, words_only) = self.sense_of(&query.text, &arena);
        let filter = self.filter(query, &arena)?;
        let ranked = {
            let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
            rank::rank(&arena, &question, &vector, &filter, query.limit)
        };
        let mut hits = self.resolve(query, &arena, ranked)?;
        if with_snippets {
            let lexer = &arena.read().unwrap_or_else(PoisonError::into_inner).lexer;
            hits.iter_mut().for_each(|hit| hit.snippet = Snippet::of(&hit.found.text(), &question, lexer));
        }
        Ok(Answer { hits, words_only })
    }

    /// The filter of a query, in the terms of the arena.
    fn filter(&self, query: &Query, arena: &RwLock<Arena>) -> Result<Filter> {
        let mut wanted = query.conversations.clone();
        if query.cwd.is_some() || !query.states.is_empty() {
            let filter = treering_core::ports::ConversationFilter {
                cwd: query.cwd.clone(),
                states: query.states.clone(),
                after: None,
                limit: usize::MAX,
            };
            let found = self.store().reader()?.conversations(self.tenant(), &filter)?;
            let found = found.into_iter().map(|conversation| conversation.id);
            wanted = match wanted.is_empty() {
                true => found.collect(),
                false => found.filter(|id| wanted.contains(id)).collect(),
            };
            if wanted.is_empty() {
                return Ok(Filter::nothing());
            }
        }
        let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
        Ok(Filter::of(&arena, query, &wanted))
    }

    /// Reads what was ranked from the store: what is gone meanwhile is left out.
    fn resolve(&self, query: &Query, arena: &RwLock<Arena>, ranked: Vec<rank::Ranked>) -> Result<Vec<Hit>> {
        let reader = self.store().reader()?;
        let mut hits = Vec::with_capacity(query.limit.min(ranked.len()));
        for ranked in ranked {
            if hits.len() >= query.limit {
                break;
            }
            if query.min_score.is_some_and(|least| ranked.score < least) {
                continue;
            }
            let (id, item) = {
                let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
                let item = arena.items[ranked.item as usize];
                (arena.shelves[item.conversation as usize].id, item)
            };
            let key = ConversationKey { tenant: self.tenant().clone(), id };
            let found = found(&*reader, &key, &item)?;
            let Some(found) = found else { continue };
            let (score, signals) = (ranked.score, ranked.signals);
            hits.push(Hit { conversation: id, found, score, signals, snippet: Snippet::default() });
        }
        Ok(hits)
    }
}

fn found(
    reader: &dyn treering_core::Reader,
    key: &ConversationKey,
    item: &arena::Item,
) -> StoreResult<Option<Found>> {
    let number = item.number;
    if item.flags & CALL != 0 {
        let turn = Span::between(TurnNo(number), TurnNo(number.saturating_add(1)));
        let calls = reader.tool_calls(key, turn)?;
        let call = calls.into_iter().find(|call| call.order == u32::from(item.order));
        return Ok(call.map(|call| Found::Call(Box::new(call))));
    }
    let Some(level) = Level::new(item.level) else {
        let message = reader.messages(key, Span::starting(MessageIdx(number), 1))?.pop();
        let message = message.filter(|message| message.idx.0 == number);
        return Ok(message.map(|message| Found::Message(Box::new(message))));
    };
    let ordinals = Some(Span::between(number, number.saturating_add(1)));
    let node = reader.nodes(key, &NodeFilter { ordinals, ..NodeFilter::at(level) })?.pop();
    Ok(node.map(|node| Found::Node(Box::new(node))))
}

impl From<treering_core::ProviderError> for Error {
    fn from(error: treering_core::ProviderError) -> Self {
        Self::Provider(error)
    }
}
