//! Search in the past: the present index, limited to the state that a conversation had before.

use treering_core::ports::{AsOf, Change, NodeFilter, RestoredMessage, Span, StoreResult};
use treering_core::{Conversation, ConversationId, Level, MessageIdx, Reader, Timestamp};

use super::index::ItemEmbedding;
use super::{Query, SearchOutcome, SearchTime};
use crate::engine::Engine;
use crate::error::Result;
use crate::recall::PastVersions;

impl Engine {
    /// The state of a conversation when it had `end` messages, which is less than the present number.
    pub(crate) fn state_as_of(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
        end: u32,
        versions: &PastVersions,
    ) -> Result<AsOf> {
        let id = conversation.id;
        let next = reader.messages(id, Span::starting(MessageIdx(end), 1))?.pop();
        let levels = (1..).map_while(Level::new).zip(&conversation.tree_state.sealed);
        let nodes = levels.map(|(level, sealed)| sealed_at(reader, id, (level, *sealed), end));
        Ok(AsOf {
            messages: end,
            turns: next.map_or(u32::MAX, |message| message.turn.0.saturating_add(1)),
            nodes: nodes.collect::<StoreResult<_>>()?,
            restored: self.restored(reader, id, versions)?,
        })
    }

    /// The hits of a query in a conversation as it was, without snippets.
    pub(crate) fn search_as_of(
        &self,
        query: &Query,
        (as_of, versions): (&AsOf, &PastVersions),
        now: Timestamp,
    ) -> Result<SearchOutcome> {
        let moment = SearchTime { now, as_of: Some(as_of), versions };
        self.with_index(|index| Ok(self.find_in(query, index, &moment)?.0))
    }

    /// The amended messages as they were, with their vectors.
    fn restored(
        &self,
        reader: &dyn Reader,
        id: ConversationId,
        versions: &PastVersions,
    ) -> Result<Vec<RestoredMessage>> {
        if versions.is_empty() {
            return Ok(Vec::new());
        }
        let mut messages = Vec::new();
        for idx in versions.positions() {
            messages.extend(reader.messages(id, Span::starting(MessageIdx(idx), 1))?);
        }
        let messages = messages.into_iter().map(|message| versions.restore(message));
        let changes: Vec<Change> = messages.map(|message| Change::Message(id, message)).collect();
        let (model, dims) = self.with_index(|index| {
            let (model, dims) = index.model();
            Ok((model.to_owned(), dims))
        })?;
        let embeddings = self.embeddings_of(reader, (&model, dims), &changes)?;
        let restored = changes.into_iter().zip(embeddings).filter_map(|(change, embedding)| {
            let Change::Message(_, message) = change else { return None };
            let vector = match embedding {
                ItemEmbedding::Ready(vector) => vector,
                ItemEmbedding::Pending(_) => Vec::new(),
            };
            Some(RestoredMessage { message, vector })
        });
        Ok(restored.collect())
    }
}

/// The number of nodes of a level that were sealed when the conversation had `end` messages. Nodes
/// are numbered in the order in which they seal.
fn sealed_at(
    reader: &dyn Reader,
    id: ConversationId,
    (level, sealed): (Level, u32),
    end: u32,
) -> StoreResult<u32> {
    let (mut low, mut high) = (0, sealed);
    while low < high {
        let middle = low + (high - low) / 2;
        // A node that is not written yet has no row; the next one decides.
        let ordinals = Some(Span { from: middle, until: Some(high), limit: 1 });
        let node = reader.nodes(id, &NodeFilter { ordinals, ..NodeFilter::at(level) })?.pop();
        match node {
            Some(node) if node.spec.is_sealed_at(MessageIdx(end), node.source.until) => {
                low = node.ordinal() + 1;
            }
            _ => high = middle,
        }
    }
    Ok(low)
}
