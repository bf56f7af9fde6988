//! Search in the past: builds an index over one conversation as it was, for one query.

use std::sync::{Arc, RwLock};

use treering_core::ports::{Change, NodeFilter, Span};
use treering_core::{ConversationId, MessageIdx, Timestamp, TurnNo};

use super::in_process::ItemIndexSnapshot;
use super::index::ItemIndex;
use super::{Query, SearchOutcome};
use crate::engine::Engine;
use crate::error::Result;
use crate::recall::PastVersions;

impl Engine {
    /// The hits of a query in a conversation as it was with `end` messages, without snippets.
    pub(crate) fn search_as_of(
        &self,
        query: &Query,
        id: ConversationId,
        end: u32,
        now: Timestamp,
    ) -> Result<SearchOutcome> {
        let reader = self.reader()?;
        let model = self.active_vector_index(&*reader)?.model;
        let dims = self.dims_of(&model)?;
        let messages = reader.messages(id, Span::between(MessageIdx(0), MessageIdx(end)))?;
        let mut calls = reader.tool_calls(id, Span::starting(TurnNo(0), usize::MAX))?;
        calls.retain(|call| call.before.0 < end);
        let mut nodes = reader.nodes(id, &NodeFilter::default())?;
        nodes.retain(|node| node.spec.is_sealed_at(MessageIdx(end), node.source.until));
        let past = PastVersions::read(&*reader, id, end, now)?;
        nodes.retain(|node| !past.is_in(node.source.from..node.source.until));
        let messages =
            messages.into_iter().map(|message| Change::Message(id, past.restore(message)));
        let calls = calls.into_iter().map(|call| Change::ToolCall(id, call));
        let nodes = nodes.into_iter().map(|node| Change::Node(id, Box::new(node)));
        let changes: Vec<Change> = messages.chain(calls).chain(nodes).collect();
        let mut index = ItemIndex::new(&model, dims);
        for (change, embedding) in
            changes.iter().zip(self.embeddings_of(&*reader, (&model, dims), &changes)?)
        {
            index.add(change, embedding);
        }
        drop(reader);
        let index = ItemIndexSnapshot::new(Arc::new(RwLock::new(index)));
        Ok(self.find_in(query, &index, now)?.0)
    }
}
