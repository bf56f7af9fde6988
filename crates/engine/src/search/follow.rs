//! Following the store: before each question an arena takes in what has come since the last one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use treering_core::index::{VectorIndex, Vectors};
use treering_core::ports::{Reader, StoreResult};
use treering_core::{ContentHash, Embedder, TenantId};

use super::arena::{Arena, Seen, Sense};
use super::text::{call_text, content_hash, embedded_part, node_text};
use crate::error::{Error, Result};
use crate::memory::Memory;

/// How much is taken in at once.
const PORTION: usize = 200;

/// The arenas of a process, by tenant.
#[derive(Default)]
pub(crate) struct Arenas(Mutex<HashMap<TenantId, Slot>>);

/// The arena of a tenant.
struct Slot {
    arena: Arc<RwLock<Arena>>,
    /// Another one, of another model, is being made.
    is_replaced: bool,
}

impl Memory {
    /// The index that search goes by: where nobody has chosen one, that of an embedder whose
    /// vectors need not be kept.
    pub(crate) fn index_in_use(&self, reader: &dyn Reader) -> StoreResult<VectorIndex> {
        let chosen = reader.vector_index(self.tenant())?;
        Ok(chosen.unwrap_or_else(|| {
            let instant = self.embedders().find(|embedder| embedder.is_instant());
            VectorIndex::of(instant.unwrap_or_else(|| self.embedder()).name())
        }))
    }

    /// Makes ready what the first who asks would wait for: the tables of the tokenizer at once, the index in the
    /// background. What cannot be made ready is told to who needs it.
    pub fn warm_up(&self) {
        self.tokenizer().count("warm");
        let memory = self.clone();
        std::thread::spawn(move || {
            if !memory.embedder().is_remote() {
                drop(memory.embedder().embed(&["warm"]));
            }
            drop(memory.arena());
        });
    }

    /// Everything that is searched, with what has come since the last question. After a change of
    /// the model the arena of the old one answers until that of the new one is made.
    pub(super) fn arena(&self) -> Result<Arc<RwLock<Arena>>> {
        let model = self.index_in_use(&*self.store().reader()?)?.model;
        let mut slots = self.slots();
        if let Some(slot) = slots.get_mut(self.tenant()) {
            let arena = Arc::clone(&slot.arena);
            let (is_old, is_blind) = {
                let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
                (arena.model != model, arena.dims == 0)
            };
            if is_blind && !is_old && self.dims_of(&model)? > 0 {
                drop(slots);
                self.replace_arena(&model);
                return self.arena();
            }
            if is_old && !slot.is_replaced {
                slot.is_replaced = true;
                let memory = self.clone();
                std::thread::spawn(move || memory.replace_arena(&model));
            }
            drop(slots);
            self.follow(&arena)?;
            return Ok(arena);
        }
        drop(slots);
        let made = self.made_arena(&model)?;
        let slot = || Slot { arena: Arc::clone(&made), is_replaced: false };
        let arena = Arc::clone(&self.slots().entry(self.tenant().clone()).or_insert_with(slot).arena);
        // Another thread was quicker, and may have looked before the latest came.
        if Arc::ptr_eq(&arena, &made) { Ok(arena) } else { self.arena() }
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<TenantId, Slot>> {
        self.arenas().0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made_arena(&self, model: &str) -> Result<Arc<RwLock<Arena>>> {
        let arena = Arc::new(RwLock::new(Arena::new(model, self.dims_of(model)?)));
        self.follow(&arena)?;
        Ok(arena)
    }

    /// How many numbers the vectors of a model have. Those that are kept say so; where there is none yet, nobody beyond
    /// this machine is asked, and 0 says that nothing can be found by what it means.
    fn dims_of(&self, model: &str) -> Result<usize> {
        let Some(embedder) = self.embedder_named(model) else { return Ok(0) };
        if !embedder.is_remote() {
            return Ok(embedder.dims());
        }
        let (kept, _) = self.store().reader()?.vector_arrivals(self.tenant(), model, 0, 1)?;
        Ok(kept.first().map_or(0, |(_, vector)| vector.len()))
    }

    fn replace_arena(&self, model: &str) {
        let made = self.made_arena(model);
        if let Some(slot) = self.slots().get_mut(self.tenant()) {
            slot.is_replaced = false;
            // Where it could not be made, the next question tries again.
            if let Ok(arena) = made {
                slot.arena = arena;
            }
        }
    }

    /// Takes in what has come before now. Other threads may do so at the same time.
    fn follow(&self, arena: &RwLock<Arena>) -> Result<()> {
        loop {
            let (model, dims, seen) = {
                let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
                (arena.model.clone(), arena.dims, arena.seen)
            };
            match self.come(&model, dims, seen)? {
                None => return Ok(()),
                Some(come) if come.messages.len() >= PORTION => {
                    self.follow_far(arena, (&model, dims), come)?;
                }
                Some(come) => {
                    let is_all = come.is_all();
                    // What comes from now on is for the next question: where much comes, there is always more.
                    if come.enter(arena) && is_all {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes in much: while one portion is entered the next is read and embedded.
    fn follow_far(&self, arena: &RwLock<Arena>, (model, dims): (&str, usize), first: Come) -> Result<()> {
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::sync_channel::<Come>(1);
            let reading = scope.spawn(move || {
                let mut next = Some(first);
                while let Some(come) = next.take() {
                    let seen = come.now;
                    if send.send(come).is_ok() {
                        next = self.come(model, dims, seen)?;
                    }
                }
                Ok(())
            });
            receive.into_iter().for_each(|come| {
                come.enter(arena);
            });
            reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// What has come after what was seen; nothing when that was all.
    fn come(&self, model: &str, dims: usize, seen: Seen) -> Result<Option<Come>> {
        let embedder = self.embedder_named(model);
        let (reader, tenant) = (self.store().reader()?, self.tenant());
        let messages = reader.arrivals(tenant, seen.messages, PORTION)?;
        let calls = reader.call_arrivals(tenant, seen.calls, PORTION)?;
        let nodes = reader.node_arrivals(tenant, seen.nodes, PORTION)?;
        let is_kept = dims > 0 && embedder.is_some_and(|embedder| !embedder.is_instant());
        let (vectors, through) = match is_kept {
            true => reader.vector_arrivals(tenant, model, seen.vectors, PORTION)?,
            false => (Vec::new(), 0),
        };
        let now =
            Seen { messages: messages.through, calls: calls.through, nodes: nodes.through, vectors: through };
        if now == seen {
            return Ok(None);
        }
        let of_calls: Vec<String> = calls.items.iter().map(|(.., call)| call_text(call)).collect();
        let of_nodes: Vec<String> = nodes.items.iter().map(|(.., node)| node_text(node)).collect();
        let said = messages.items.iter().map(|(.., message)| message.said.text.as_str());
        let texts: Vec<&str> = said
            .chain(of_calls.iter().map(String::as_str))
            .chain(of_nodes.iter().map(String::as_str))
            .map(embedded_part)
            .collect();
        let senses = self.senses(&*reader, (model, dims), embedder, &texts)?;
        Ok(Some(Come {
            messages: messages.items,
            calls: calls.items,
            nodes: nodes.items,
            senses,
            vectors,
            seen,
            now,
        }))
    }

    /// What texts mean to a model: its vectors as far as they are there.
    fn senses(
        &self,
        reader: &dyn Reader,
        (model, dims): (&str, usize),
        embedder: Option<&dyn Embedder>,
        texts: &[&str],
    ) -> Result<Vec<Sense>> {
        let Some(embedder) = embedder.filter(|_| dims > 0) else {
            return Ok(texts.iter().map(|_| Sense::Known(Vec::new())).collect());
        };
        if embedder.is_instant() {
            let vectors = embedder.embed(texts).map_err(Error::Provider)?;
            return Ok(vectors.into_iter().map(Sense::Known).collect());
        }
        let hashes: Vec<ContentHash> = texts.iter().map(|text| content_hash(text)).collect();
        let kept = reader.vectors(self.tenant(), model, &hashes)?;
        let sense = |((text, hash), kept): ((&&str, ContentHash), Option<Vec<f32>>)| match kept {
            Some(vector) if vector.len() == dims => Sense::Known(vector),
            _ if text.is_empty() => Sense::Known(vec![0.0; dims]),
            _ => Sense::Awaited(hash),
        };
        Ok(texts.iter().zip(hashes).zip(kept).map(sense).collect())
    }
}

/// What has come since the last question.
struct Come {
    messages: Vec<(u64, treering_core::ConversationId, treering_core::Message)>,
    calls: Vec<(u64, treering_core::ConversationId, treering_core::ToolCall)>,
    nodes: Vec<(u64, treering_core::ConversationId, treering_core::Node)>,
    /// What each of them means, in this order.
    senses: Vec<Sense>,
    vectors: Vectors,
    /// What it comes after, and how far it gets.
    seen: Seen,
    now: Seen,
}

impl Come {
    /// Whether it was everything that was there when it was read.
    fn is_all(&self) -> bool {
        [self.messages.len(), self.calls.len(), self.nodes.len(), self.vectors.len()]
            .iter()
            .all(|it| *it < PORTION)
    }

    /// Enters it, unless the arena has seen other things meanwhile; tells whether it did.
    fn enter(self, arena: &RwLock<Arena>) -> bool {
        let mut arena = arena.write().unwrap_or_else(PoisonError::into_inner);
        if arena.seen != self.seen {
            return false;
        }
        let mut senses = self.senses.into_iter();
        for ((_, id, message), sense) in self.messages.iter().zip(senses.by_ref()) {
            arena.add_message(*id, message, sense);
        }
        for ((_, id, call), sense) in self.calls.iter().zip(senses.by_ref()) {
            arena.add_call(*id, call, sense);
        }
        for ((_, id, node), sense) in self.nodes.iter().zip(senses.by_ref()) {
            arena.add_node(*id, node, sense);
        }
        for (hash, vector) in &self.vectors {
            arena.add_vector(hash, vector);
        }
        arena.seen = self.now;
        true
    }
}
