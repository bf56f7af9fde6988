//! Search: everything that was said and every node over it, by words and by meaning at once.

mod arena;
mod rank;
mod scan;
mod snippet;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use treering_core::fusion::Signals;
use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::question::Question;
use treering_core::{
    ConversationId, ConversationKey, ConversationState, Level, Message, MessageIdx, Node, Role, TenantId,
    ThreadName, Timestamp,
};

use crate::error::{Error, Result};
use crate::memory::Memory;
use arena::{Arena, embedded_part, node_text};

pub use snippet::Snippet;

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
    /// A node.
    Node(Box<Node>),
}

impl Hit {
    /// Its level: 0 for a message.
    #[must_use]
    pub const fn level(&self) -> u8 {
        match &self.found {
            Found::Message(_) => 0,
            Found::Node(node) => node.level().number(),
        }
    }

    /// The parts of its score, by name.
    #[must_use]
    pub fn parts(&self) -> [(&'static str, f32); 10] {
        self.signals.parts()
    }
}

/// The arenas of a process, by tenant.
#[derive(Default)]
pub(crate) struct Arenas(Mutex<HashMap<TenantId, Arc<RwLock<Arena>>>>);

impl Memory {
    /// What fits a question best, the best first. Everything that was acknowledged before is
    /// looked at, whichever process stored it.
    pub fn search(&self, query: &Query) -> Result<Vec<Hit>> {
        let arena = self.arena()?;
        let question = Question::new(&query.text, self.clock().now());
        let vector = self.embed_question(&query.text)?;
        let filter = self.filter(query, &arena)?;
        let ranked = {
            let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
            rank::rank(&arena, &question, &vector, &filter, query.limit.saturating_mul(2).max(query.limit))
        };
        self.resolve(query, &question, &arena, ranked)
    }

    /// Everything that is searched, with what has come since the last question.
    fn arena(&self) -> Result<Arc<RwLock<Arena>>> {
        const PORTION: usize = 2000;
        let arena = {
            let mut arenas = self.arenas().0.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = || Arc::new(RwLock::new(Arena::new(self.embedder().dims())));
            Arc::clone(arenas.entry(self.tenant().clone()).or_insert_with(fresh))
        };
        loop {
            let seen = arena.read().unwrap_or_else(PoisonError::into_inner).seen;
            let reader = self.store().reader()?;
            let messages = reader.arrivals(self.tenant(), seen.0, PORTION)?;
            let nodes = reader.node_arrivals(self.tenant(), seen.1, PORTION)?;
            drop(reader);
            if messages.is_empty() && nodes.is_empty() {
                return Ok(arena);
            }
            let texts: Vec<&str> = messages.iter().map(|(.., it)| embedded_part(&it.said.text)).collect();
            let vectors = self.embed(&texts)?;
            let of_nodes: Vec<String> = nodes.iter().map(|(.., node)| node_text(node)).collect();
            let texts: Vec<&str> = of_nodes.iter().map(|text| embedded_part(text)).collect();
            let node_vectors = self.embed(&texts)?;
            let mut arena = arena.write().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have added them meanwhile.
            if arena.seen != seen {
                continue;
            }
            for ((number, id, message), vector) in messages.iter().zip(&vectors) {
                arena.add_message(*id, message, vector);
                arena.seen.0 = *number;
            }
            for ((number, id, node), vector) in nodes.iter().zip(&node_vectors) {
                arena.add_node(*id, node, vector);
                arena.seen.1 = *number;
            }
        }
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.embedder().embed(texts).map_err(Error::Provider)
    }

    fn embed_question(&self, text: &str) -> Result<Vec<f32>> {
        Ok(self.embed(&[embedded_part(text)])?.pop().unwrap_or_default())
    }

    /// The filter of a query, in the terms of the arena.
    fn filter(&self, query: &Query, arena: &RwLock<Arena>) -> Result<rank::Filter> {
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
                return Ok(rank::Filter::nothing());
            }
        }
        let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
        Ok(rank::Filter::of(&arena, query, &wanted))
    }

    /// Reads what was ranked from the store: what is gone meanwhile is left out.
    fn resolve(
        &self,
        query: &Query,
        question: &Question,
        arena: &RwLock<Arena>,
        ranked: Vec<rank::Ranked>,
    ) -> Result<Vec<Hit>> {
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
            let snippet = match &found {
                Found::Message(message) => Snippet::of(&message.said.text, question),
                Found::Node(node) => Snippet::of(&node.content.overview, question),
            };
            hits.push(Hit { conversation: id, found, score: ranked.score, signals: ranked.signals, snippet });
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
