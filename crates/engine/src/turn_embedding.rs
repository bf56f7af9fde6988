//! The embedding of a turn: one vector of the text of the whole turn. Ranking uses the vectors of
//! messages and tool calls instead (ADR 17).

use std::collections::HashMap;

use treering_core::ports::{Change, Span, StoreResult};
use treering_core::{
    ContentHash, ContentVectors, ConversationId, ProviderError, Reader, TurnNo, Write,
    embedding_text,
};

use crate::embed::{TextToEmbed, embed_texts, texts_to_embed};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::history::WholeTurn;
use crate::history::whole_turns;

/// The vector of a turn, with the text that it stands for.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnEmbedding {
    /// The turn.
    pub turn: TurnNo,
    /// The model of the vector.
    pub model: String,
    /// The hash of the text, under which the vector is stored.
    pub hash: ContentHash,
    /// The embedded text.
    pub text: String,
    /// The vector.
    pub vector: Vec<f32>,
}

impl WholeTurn {
    /// The text of the turn that is embedded, at its full length.
    #[must_use]
    pub fn embedding_text(&self) -> String {
        embedding_text::of_turn(&self.messages, &self.tool_calls)
    }
}

impl Engine {
    /// The embeddings of turns of a conversation, by the model that search uses. A turn whose text
    /// is too short has none. Missing vectors are computed; they are stored unless the model is
    /// instant, so that a paid model embeds each turn once.
    pub fn turn_embeddings(
        &self,
        id: ConversationId,
        turns: &[WholeTurn],
    ) -> Result<Vec<TurnEmbedding>> {
        let max_chars = self.embed_text_options().max_chars;
        let texts = turns.iter().flat_map(|turn| {
            let text = turn.embedding_text();
            let embedded = texts_to_embed(std::iter::once(text.as_str()), max_chars);
            embedded.into_iter().map(|text| (turn.turn.no, text))
        });
        let (numbers, texts): (Vec<TurnNo>, Vec<TextToEmbed>) = texts.unzip();
        let (model, vectors) = self.vectors_of(id, &texts)?;
        let embedding = |(turn, (hash, text)): (TurnNo, TextToEmbed)| {
            let vector = vectors.get(&hash)?.clone();
            Some(TurnEmbedding { turn, model: model.clone(), hash, text, vector })
        };
        Ok(numbers.into_iter().zip(texts).filter_map(embedding).collect())
    }

    /// The vectors of texts of a conversation, and their model. Stored vectors are not computed
    /// again.
    fn vectors_of(
        &self,
        id: ConversationId,
        texts: &[TextToEmbed],
    ) -> Result<(String, HashMap<ContentHash, Vec<f32>>)> {
        let reader = self.reader()?;
        let revision = reader.audit().revision()?;
        let model = self.active_vector_index(&*reader)?.model;
        let embedder = self.embedder_named(&model).ok_or_else(|| {
            let message =
                format!("the model {model:?}, whose vectors search uses, is not configured");
            Error::Provider(ProviderError::permanent(message))
        })?;
        let hashes: Vec<ContentHash> = texts.iter().map(|(hash, _)| *hash).collect();
        let stored = hashes.iter().copied().zip(reader.vectors(&model, &hashes)?);
        let mut vectors: HashMap<ContentHash, Vec<f32>> =
            stored.filter_map(|(hash, vector)| Some((hash, vector?))).collect();
        drop(reader);
        let mut missing = texts.to_vec();
        missing.retain(|(hash, _)| !vectors.contains_key(hash));
        let meter = self.spend_meter(Some(id));
        let embedded =
            self.with_circuit_breaker(&model, || embed_texts(embedder, &missing, &meter));
        meter.log_redactions(&format!("called {model} for the vectors of turns"));
        let embedded = embedded.map_err(Error::Provider)?;
        if !embedder.is_instant() && !embedded.is_empty() {
            self.store_vectors(&model, revision, embedded.clone())?;
        }
        vectors.extend(embedded);
        Ok((model, vectors))
    }

    /// Stores vectors, unless search has switched to another model or something was forgotten in
    /// the meantime.
    fn store_vectors(&self, model: &str, revision: u64, vectors: ContentVectors) -> Result<()> {
        let (engine, model) = (self.clone(), model.to_owned());
        self.commit_with(self.tenant_scope(), move |reader| {
            let is_active = engine.active_vector_index(reader)?.model == model
                && reader.audit().revision()? == revision;
            let write = is_active.then(|| Write::PutVectors(model.clone(), vectors.clone()));
            Ok((write.into_iter().collect(), ()))
        })
    }
}

/// The texts of the turns that changes belong to.
pub(crate) fn turn_texts(reader: &dyn Reader, changes: &[Change]) -> StoreResult<Vec<String>> {
    let mut turns: Vec<(ConversationId, TurnNo)> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Message(id, message) => Some((*id, message.turn)),
            Change::ToolCall(id, call) => Some((*id, call.turn)),
            Change::Node(..) | Change::JobEvent(..) | Change::Vector(..) | Change::Removed(_) => {
                None
            }
        })
        .collect();
    turns.sort_unstable();
    turns.dedup();
    let mut texts = Vec::with_capacity(turns.len());
    for (id, turn) in turns {
        let span = Span::between(turn, TurnNo(turn.0.saturating_add(1)));
        texts.extend(whole_turns(reader, id, span)?.iter().map(WholeTurn::embedding_text));
    }
    Ok(texts)
}
