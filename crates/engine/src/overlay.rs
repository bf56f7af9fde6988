//! A view of one conversation's tree with writes that are not committed. A dry run plans on it
//! with the same code as a real run.

use std::collections::BTreeMap;

use treering_core::ports::{
    Audit, ChangeFilter, Changes, ConversationFilter, ConversationQuery, Cursor, ExistingItem,
    ItemRef, JobEventFilter, JobFilter, Ledger, LevelTotals, NodeFilter, NodeVersion, Span,
    StoreResult, StoredItem,
};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationTotals, ExternalId, Job, JobEvent,
    JobId, JobKind, Level, Message, MessageIdx, MessageVersion, Node, NodeId, Reader, ToolCall,
    Turn, TurnNo, VectorIndex, Write,
};

/// A reader with pending changes to the nodes and summary jobs of one conversation. Everything
/// else comes from the store.
pub(crate) struct Overlay<'a> {
    reader: &'a dyn Reader,
    id: ConversationId,
    pub(crate) conversation: Conversation,
    nodes: BTreeMap<(Level, u32), Node>,
    /// Jobs that write nodes, in the order in which a worker runs them.
    jobs: BTreeMap<(u8, u32, JobId), Job>,
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(reader: &'a dyn Reader, conversation: Conversation) -> StoreResult<Self> {
        let id = conversation.id;
        let nodes = reader.nodes(id, &NodeFilter::default())?;
        let nodes = nodes.into_iter().map(|node| ((node.level(), node.ordinal()), node)).collect();
        let mut overlay = Self { reader, id, conversation, nodes, jobs: BTreeMap::new() };
        reader.jobs(&JobFilter::of(id))?.into_iter().for_each(|job| overlay.put_job(job));
        Ok(overlay)
    }

    fn put_job(&mut self, job: Job) {
        if matches!(job.kind, JobKind::Summarize(_)) {
            self.jobs.insert(key_of(&job), job);
        }
    }

    /// The queued jobs that write nodes, in the order in which a worker runs them.
    pub(crate) fn queue(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// Applies the writes that concern the tree, and ignores the others.
    pub(crate) fn apply(&mut self, writes: Vec<Write>) {
        for write in writes {
            match write {
                Write::PutConversation(conversation) => self.conversation = conversation,
                Write::PutNode(_, node) => {
                    self.nodes.insert((node.level(), node.ordinal()), *node);
                }
                Write::SetParent(_, level, ordinals, parent) => {
                    self.change(level, &ordinals, |node| node.parent = parent);
                }
                Write::MarkDirty(_, level, ordinals) => {
                    self.change(level, &ordinals, |node| node.dirty = true);
                }
                Write::RemoveNodes(_, level, ordinals) => {
                    self.nodes
                        .retain(|(of, ordinal), _| *of != level || !ordinals.contains(ordinal));
                }
                Write::DropTree(_, level) => {
                    self.nodes.retain(|(of, _), _| *of < level);
                    self.jobs.retain(|(height, ..), _| *height < level.number());
                    let children = self.nodes.values_mut().filter(|it| it.level().above() == level);
                    children.for_each(|node| node.parent = None);
                }
                Write::AddJob(job) if self.jobs.contains_key(&key_of(&job)) => {}
                Write::AddJob(job) | Write::PutJob(job) => self.put_job(job),
                Write::RemoveJob(job) => drop(self.jobs.remove(&key_of(&job))),
                _ => {}
            }
        }
    }

    fn change(&mut self, level: Level, ordinals: &[u32], change: impl Fn(&mut Node)) {
        for ordinal in ordinals {
            if let Some(node) = self.nodes.get_mut(&(level, *ordinal)) {
                change(node);
            }
        }
    }

    fn selected(&self, filter: &NodeFilter) -> impl Iterator<Item = &Node> {
        let NodeFilter { level, ordinals, parent, id, dirty, around } = filter.clone();
        let contains = move |span: &Span<u32>, ordinal: u32| {
            ordinal >= span.from && span.until.is_none_or(|until| ordinal < until)
        };
        self.nodes.values().filter(move |node| {
            level.is_none_or(|level| level == node.level())
                && ordinals.as_ref().is_none_or(|span| contains(span, node.ordinal()))
                && parent.is_none_or(|parent| parent == node.parent)
                && id.as_ref().is_none_or(|id| *id == node.id)
                && (!dirty || node.dirty)
                && around.is_none_or(|MessageIdx(idx)| {
                    (node.source.from..node.source.until).contains(&idx)
                })
        })
    }
}

const fn key_of(job: &Job) -> (u8, u32, JobId) {
    (job.kind.height(), job.kind.position(), job.id)
}

impl Reader for Overlay<'_> {
    fn nodes(&self, id: ConversationId, filter: &NodeFilter) -> StoreResult<Vec<Node>> {
        match id == self.id {
            true => Ok(self.selected(filter).cloned().collect()),
            false => self.reader.nodes(id, filter),
        }
    }

    fn jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        match filter.conversation == Some(self.id) {
            true => Ok(self.jobs.values().cloned().collect()),
            false => self.reader.jobs(filter),
        }
    }

    fn conversations(&self, query: &ConversationQuery<'_>) -> StoreResult<Vec<Conversation>> {
        match query {
            ConversationQuery::Id(id) if *id == self.id => Ok(vec![self.conversation.clone()]),
            query => self.reader.conversations(query),
        }
    }

    fn conversation_ids(&self, filter: &ConversationFilter) -> StoreResult<Vec<ConversationId>> {
        self.reader.conversation_ids(filter)
    }

    fn turns(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<Turn>> {
        self.reader.turns(id, span)
    }

    fn messages(&self, id: ConversationId, span: Span<MessageIdx>) -> StoreResult<Vec<Message>> {
        self.reader.messages(id, span)
    }

    fn tool_calls(&self, id: ConversationId, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>> {
        self.reader.tool_calls(id, span)
    }

    fn items(&self, refs: &[ItemRef]) -> StoreResult<Vec<Option<StoredItem>>> {
        self.reader.items(refs)
    }

    fn existing(
        &self,
        id: ConversationId,
        ids: &[&ExternalId],
    ) -> StoreResult<Vec<Option<ExistingItem>>> {
        self.reader.existing(id, ids)
    }

    fn owners(&self, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>> {
        self.reader.owners(ids)
    }

    fn versions(
        &self,
        id: ConversationId,
        span: Span<MessageIdx>,
    ) -> StoreResult<Vec<(MessageIdx, MessageVersion)>> {
        self.reader.versions(id, span)
    }

    fn node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>> {
        self.reader.node_versions(id, filter)
    }

    fn nodes_by_id_prefix(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        self.reader.nodes_by_id_prefix(prefix, limit)
    }

    fn job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>> {
        self.reader.job_events(filter)
    }

    fn changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes> {
        self.reader.changes(after, filter, limit)
    }

    fn history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>> {
        self.reader.history(at)
    }

    fn node_count(&self) -> StoreResult<u32> {
        let in_store = self.reader.node_versions(self.id, &NodeFilter::default())?.len();
        let others = (self.reader.node_count()? as usize).saturating_sub(in_store);
        Ok(u32::try_from(others + self.nodes.len()).unwrap_or(u32::MAX))
    }

    fn vector_index(&self) -> StoreResult<Option<VectorIndex>> {
        self.reader.vector_index()
    }

    fn vectors(&self, model: &str, of: &[ContentHash]) -> StoreResult<Vec<Option<Vec<f32>>>> {
        self.reader.vectors(model, of)
    }

    fn totals(&self) -> StoreResult<(u32, ConversationTotals)> {
        self.reader.totals()
    }

    fn level_totals(&self, conversation: Option<ConversationId>) -> StoreResult<Vec<LevelTotals>> {
        self.reader.level_totals(conversation)
    }

    fn ledger(&self) -> &dyn Ledger {
        self.reader.ledger()
    }

    fn audit(&self) -> &dyn Audit {
        self.reader.audit()
    }
}
