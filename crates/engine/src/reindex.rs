//! Reindexing: replaces the vectors of one model with those of another. New vectors are built in
//! batches while search uses the old ones, until one commit cuts over. An interrupted run keeps
//! its progress, and several processes may share the work.

use std::borrow::Cow;

use treering_core::ports::{Change, ChangeFilter, Cursor, StoreResult};
use treering_core::{ContentVectors, Reader, VectorIndex, Write};

use crate::embed::{TextToEmbed, embed_texts, texts_to_embed, without_vectors};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::kill_points::{self, KillPoint};
use crate::search::text_to_embed;
use crate::turn_embedding::turn_texts;

/// Items embedded between two commits.
const PORTION: usize = 64;

/// Progress of a reindex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexProgress {
    /// The model in use.
    pub from: String,
    /// The new model.
    pub to: String,
    /// Messages, tool calls and nodes processed.
    pub done: u64,
    /// Vectors created; the others existed already.
    pub embedded: u64,
}

/// The result of a reindex.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReindexReport {
    /// The previous model.
    pub from: String,
    /// The model in use now.
    pub to: String,
    /// Messages, tool calls and nodes processed.
    pub done: u64,
    /// Vectors created; the others existed already.
    pub embedded: u64,
}

/// A page of texts to embed, and the cursor after it.
struct ReindexBatch {
    texts: Vec<TextToEmbed>,
    item_count: u64,
    done: Cursor,
    /// Whether the page is empty because the feed has ended.
    is_end: bool,
}

impl Engine {
    /// The model whose vectors search uses, and the one being built.
    pub fn vector_index(&self) -> Result<VectorIndex> {
        Ok(self.active_vector_index(&*self.reader()?)?)
    }

    /// Whether search uses another model than the configured one.
    pub fn needs_reindex(&self) -> Result<bool> {
        Ok(self.vector_index()?.model != self.embedder().name())
    }

    /// Embeds everything with the configured model and cuts over to it. Calls `after` for each
    /// batch.
    pub fn reindex(&self, after: &mut dyn FnMut(&ReindexProgress)) -> Result<ReindexReport> {
        let embedder = self.embedder();
        let index = self.begin()?;
        let mut state = ReindexProgress {
            from: index.model,
            to: embedder.name().to_owned(),
            done: 0,
            embedded: 0,
        };
        while let Some(next) = self.vector_index()?.next.filter(|next| next.model == state.to) {
            let reader = self.reader()?;
            let revision = reader.audit().revision()?;
            let batch = self.next_batch(&*reader, &next.done)?;
            if batch.is_end || embedder.is_instant() {
                drop(reader);
                if self.cut_over(&state.to)? {
                    break;
                }
                continue;
            }
            let missing = without_vectors(&*reader, &state.to, batch.texts)?;
            drop(reader);
            let meter = self.spend_meter(None);
            let vectors = embed_texts(embedder, &missing, &meter);
            meter.log_redactions(&format!("called {} for the vectors of a reindex", state.to));
            let vectors = vectors.map_err(Error::Provider)?;
            kill_points::check(KillPoint::Reindexing);
            state.done += batch.item_count;
            state.embedded += vectors.len() as u64;
            self.advance((next.done, batch.done), &state.to, revision, vectors)?;
            kill_points::check(KillPoint::Reindexed);
            after(&state);
        }
        let ReindexProgress { from, to, done, embedded } = state;
        Ok(ReindexReport { from, to, done, embedded })
    }

    /// Marks the configured model as the target of the index.
    fn begin(&self) -> Result<VectorIndex> {
        let engine = self.clone();
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = engine.active_vector_index(reader)?;
            let target = index.clone().rebuilding_for(engine.embedder().name());
            let mut writes = Vec::new();
            if target != index {
                // Vectors of an abandoned target model are not needed.
                writes.extend(index.next.map(|next| Write::DropVectors(next.model)));
                writes.push(Write::PutVectorIndex(target.clone()));
            }
            Ok((writes, target))
        })
    }

    /// The next page of texts to embed.
    fn next_batch(&self, reader: &dyn Reader, done: &Cursor) -> StoreResult<ReindexBatch> {
        let changes = reader.changes(done, &ChangeFilter::content(), PORTION)?;
        let (options, embeds_nodes) =
            (self.embed_text_options(), self.search_settings().embed_nodes);
        let is_embedded = |it: &&Change| embeds_nodes || !matches!(it, Change::Node(..));
        let embedded = changes.items.iter().filter(is_embedded);
        let mut texts: Vec<Cow<'_, str>> = embedded.map(text_to_embed).collect();
        if options.turns {
            texts.extend(turn_texts(reader, &changes.items)?.into_iter().map(Cow::Owned));
        }
        let texts = texts_to_embed(texts.iter().map(AsRef::as_ref), options.max_chars);
        let is_end = changes.items.is_empty() && changes.is_last;
        Ok(ReindexBatch {
            texts,
            item_count: changes.items.len() as u64,
            done: changes.cursor,
            is_end,
        })
    }

    /// Stores the vectors of a page. The cursor moves only if no other process has moved it.
    /// Stores nothing if something was forgotten since `revision`, when the page was read.
    fn advance(
        &self,
        (from, to): (Cursor, Cursor),
        model: &str,
        revision: u64,
        vectors: ContentVectors,
    ) -> Result<()> {
        let (engine, model) = (self.clone(), model.to_owned());
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = engine.active_vector_index(reader)?;
            let mut writes = Vec::new();
            if reader.audit().revision()? != revision {
                return Ok((writes, ()));
            }
            if let Some(next) = index.next.as_ref().filter(|next| next.model == model) {
                writes.push(Write::PutVectors(model.clone(), vectors.clone()));
                if next.done == from {
                    writes.push(Write::PutVectorIndex(index.clone().advanced(&model, to.clone())));
                }
            }
            Ok((writes, ()))
        })
    }

    /// Cuts over if there are no new changes, and returns whether the model is in use now.
    fn cut_over(&self, model: &str) -> Result<bool> {
        let (engine, model) = (self.clone(), model.to_owned());
        kill_points::check(KillPoint::CuttingOver);
        self.commit_with(self.tenant_scope(), move |reader| {
            let index = engine.active_vector_index(reader)?;
            let mut writes = Vec::new();
            let mut is_over = index.model == model;
            if let Some(next) = index.next.as_ref().filter(|next| next.model == model) {
                let complete =
                    engine.embedder().is_instant() || engine.next_batch(reader, &next.done)?.is_end;
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
