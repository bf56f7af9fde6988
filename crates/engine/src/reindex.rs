//! Reindexing: from the vectors of one model to those of another. The new ones are made behind the
//! old ones, portion by portion; search goes by the old ones until one commit cuts over. What was
//! made stays when it is interrupted, and several processes may share the work.

use treering_core::Write;
use treering_core::ports::{ChangeFilter, Cursor, Reader, StoreResult};
use treering_core::vector_index::{ContentVectors, VectorIndex};

use crate::embed::{TextToEmbed, embed_texts, text_of, texts_to_embed, without_vectors};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kill_points::{self, KillPoint};

/// How many things are embedded between two commits.
const PORTION: usize = 64;

/// How far a change of the model is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexProgress {
    /// The model in use.
    pub from: String,
    /// The model that is to follow.
    pub to: String,
    /// Messages, tool calls and nodes that have been looked at.
    pub done: u64,
    /// Vectors that were made; the others were there.
    pub made: u64,
}

/// What became of a change of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexReport {
    /// The model that was in use before.
    pub from: String,
    /// The model in use now.
    pub to: String,
    /// Messages, tool calls and nodes that were looked at.
    pub done: u64,
    /// Vectors that were made; the others were there.
    pub made: u64,
}

/// A portion of what has to be embedded, and how far that gets.
struct Portion {
    texts: Vec<TextToEmbed>,
    things: u64,
    done: Cursor,
    /// Whether nothing was left.
    is_end: bool,
}

impl Engine {
    /// Which model's vectors search goes by, and which are on their way.
    pub fn vector_index(&self) -> Result<VectorIndex> {
        Ok(self.active_vector_index(&*self.reader()?)?)
    }

    /// Whether search goes by another model than the one that is configured.
    pub fn needs_reindex(&self) -> Result<bool> {
        Ok(self.vector_index()?.model != self.embedder().name())
    }

    /// Has everything embedded by the configured model and cuts over to it. `after` is told after
    /// each portion.
    pub fn reindex(&self, after: &mut dyn FnMut(&ReindexProgress)) -> Result<ReindexReport> {
        let embedder = self.embedder();
        let index = self.begin()?;
        let mut state =
            ReindexProgress { from: index.model, to: embedder.name().to_owned(), done: 0, made: 0 };
        while let Some(next) = self.vector_index()?.next.filter(|next| next.model == state.to) {
            let reader = self.reader()?;
            let portion = self.portion(&*reader, &next.done)?;
            if portion.is_end || embedder.is_instant() {
                drop(reader);
                if self.cut_over(&state.to)? {
                    break;
                }
                continue;
            }
            let lacking = without_vectors(&*reader, &state.to, portion.texts)?;
            drop(reader);
            let purse = self.spend_meter(None);
            let vectors = embed_texts(embedder, &lacking, &purse);
            purse.log_redactions(&format!("{} was asked for vectors to change over to", state.to));
            let vectors = vectors.map_err(Error::Provider)?;
            kill_points::reach(KillPoint::Reindexing);
            state.done += portion.things;
            state.made += vectors.len() as u64;
            self.advance(next.done, portion.done, &state.to, vectors)?;
            kill_points::reach(KillPoint::Reindexed);
            after(&state);
        }
        let ReindexProgress { from, to, done, made } = state;
        Ok(ReindexReport { from, to, done, made })
    }

    /// Puts the index on its way to the configured model.
    fn begin(&self) -> Result<VectorIndex> {
        let memory = self.clone();
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = memory.active_vector_index(reader)?;
            let towards = index.clone().towards(memory.embedder().name());
            let mut writes = Vec::new();
            if towards != index {
                // Of a model that is given up nothing is needed any more.
                writes.extend(index.next.map(|next| Write::DropVectors(next.model)));
                writes.push(Write::PutVectorIndex(towards.clone()));
            }
            Ok((writes, towards))
        })
    }

    /// The next page of what has to be embedded.
    fn portion(&self, reader: &dyn Reader, done: &Cursor) -> StoreResult<Portion> {
        let changes = reader.changes(done, &ChangeFilter::content(), PORTION)?;
        let texts: Vec<String> = changes.items.iter().map(text_of).collect();
        let texts = texts_to_embed(texts.iter().map(String::as_str));
        let is_end = changes.items.is_empty() && changes.is_last;
        Ok(Portion { texts, things: changes.items.len() as u64, done: changes.cursor, is_end })
    }

    /// Keeps the vectors of a portion. Where another process got further meanwhile, it stays there.
    fn advance(
        &self,
        from: Cursor,
        to: Cursor,
        model: &str,
        vectors: ContentVectors,
    ) -> Result<()> {
        let (memory, model) = (self.clone(), model.to_owned());
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = memory.active_vector_index(reader)?;
            let mut writes = Vec::new();
            if let Some(next) = index.next.as_ref().filter(|next| next.model == model) {
                writes.push(Write::PutVectors(model.clone(), vectors.clone()));
                if next.done == from {
                    writes.push(Write::PutVectorIndex(index.clone().advanced(&model, to.clone())));
                }
            }
            Ok((writes, ()))
        })
    }

    /// Cuts over if nothing has come since, and says whether the model is in use now.
    fn cut_over(&self, model: &str) -> Result<bool> {
        let (memory, model) = (self.clone(), model.to_owned());
        kill_points::reach(KillPoint::CuttingOver);
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = memory.active_vector_index(reader)?;
            let mut writes = Vec::new();
            let mut is_over = index.model == model;
            if let Some(next) = index.next.as_ref().filter(|next| next.model == model) {
                let complete =
                    memory.embedder().is_instant() || memory.portion(reader, &next.done)?.is_end;
                if complete {
                    writes.push(Write::DropVectors(index.model.clone()));
                    writes.push(Write::PutVectorIndex(index.clone().cut_over()));
                    is_over = true;
                }
            }
            Ok((writes, is_over))
        })
    }
}
