//! The past: a store as one conversation was at one moment, for asking what was known then. It
//! can only be read.

use std::sync::Arc;

use treering_core::commit::LogLine;
use treering_core::conversation::{Conversation, Totals};
use treering_core::error::StoreError;
use treering_core::index::{VectorIndex, Vectors};
use treering_core::ports::{
    Arrivals, ConversationFilter, Description, JobFilter, Known, LevelTotals, LogFilter, NodeFilter,
    NodeMark, Plan, Span, SpendFilter, StoreResult,
};
use treering_core::quota::Taken;
use treering_core::spend::Spent;
use treering_core::{
    Clock, ContentHash, ConversationId, ConversationKey, ExternalId, Invalid, Job, Message, MessageIdx, Node,
    NodeId, Reader, Store, TenantId, Timestamp, ToolCall, Turn, TurnNo,
};

/// A clock that shows one moment.
pub(crate) struct Stopped(pub(crate) Timestamp);

impl Clock for Stopped {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// A store as one conversation was at one moment.
pub(crate) struct Past {
    store: Arc<dyn Store>,
    key: ConversationKey,
    /// One past the last message that was there.
    end: u32,
}

impl Past {
    pub(crate) fn new(store: Arc<dyn Store>, key: ConversationKey, end: u32) -> Self {
        Self { store, key, end }
    }
}

impl Store for Past {
    fn commit(&self, _: Plan) -> StoreResult<()> {
        Err(unchangeable())
    }

    fn reader(&self) -> StoreResult<Box<dyn Reader + '_>> {
        Ok(Box::new(PastReader { reader: self.store.reader()?, key: &self.key, end: self.end }))
    }

    fn check(&self) -> StoreResult<Vec<String>> {
        self.store.check()
    }

    fn repair(&self) -> StoreResult<Vec<String>> {
        Err(unchangeable())
    }

    fn describe(&self) -> StoreResult<Description> {
        self.store.describe()
    }
}

fn unchangeable() -> StoreError {
    StoreError::Refused(Invalid::new("commit", "the past cannot be changed"))
}

struct PastReader<'a> {
    reader: Box<dyn Reader + 'a>,
    key: &'a ConversationKey,
    end: u32,
}

impl PastReader<'_> {
    fn was_there(&self, node: &Node) -> bool {
        node.task.is_sealed_at(MessageIdx(self.end), node.source.until)
    }

    /// What there is, numbered from 1, after a number.
    fn numbered<T>(&self, all: Vec<T>, after: u64, limit: usize) -> Arrivals<T> {
        let numbered = (1..).zip(all).map(|(number, it)| (number, self.key.id, it));
        let items: Vec<_> = numbered.skip_while(|(number, ..)| *number <= after).take(limit).collect();
        let through = items.last().map_or(after, |(number, ..)| *number);
        Arrivals { items, through }
    }

    fn only(&self, tenant: &TenantId, found: Option<Conversation>) -> Option<Conversation> {
        found.filter(|conversation| *tenant == self.key.tenant && conversation.id == self.key.id)
    }
}

impl Reader for PastReader<'_> {
    fn conversation(&self, key: &ConversationKey) -> StoreResult<Option<Conversation>> {
        Ok(self.only(&key.tenant, self.reader.conversation(key)?))
    }

    fn conversation_by_external_id(
        &self,
        tenant: &TenantId,
        id: &ExternalId,
    ) -> StoreResult<Option<Conversation>> {
        Ok(self.only(tenant, self.reader.conversation_by_external_id(tenant, id)?))
    }

    fn conversation_by_slug(&self, tenant: &TenantId, slug: &str) -> StoreResult<Option<Conversation>> {
        Ok(self.only(tenant, self.reader.conversation_by_slug(tenant, slug)?))
    }

    fn conversations_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<ConversationId>> {
        let mut ids = self.reader.conversations_by_id_prefix(tenant, prefix, limit)?;
        ids.retain(|id| *id == self.key.id);
        Ok(ids)
    }

    fn conversations(
        &self,
        tenant: &TenantId,
        filter: &ConversationFilter,
    ) -> StoreResult<Vec<Conversation>> {
        let mut found = self.reader.conversations(tenant, filter)?;
        found.retain(|conversation| conversation.id == self.key.id);
        Ok(found)
    }

    fn turns(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<Turn>> {
        let mut turns = self.reader.turns(key, span)?;
        turns.retain(|turn| turn.until.0 <= self.end);
        Ok(turns)
    }

    fn messages(&self, key: &ConversationKey, span: Span<MessageIdx>) -> StoreResult<Vec<Message>> {
        let mut messages = self.reader.messages(key, span)?;
        messages.retain(|message| message.idx.0 < self.end);
        Ok(messages)
    }

    fn tool_calls(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<ToolCall>> {
        let mut calls = self.reader.tool_calls(key, span)?;
        calls.retain(|call| call.before.0 < self.end);
        Ok(calls)
    }

    fn known(&self, key: &ConversationKey, ids: &[&ExternalId]) -> StoreResult<Vec<Option<Known>>> {
        self.reader.known(key, ids)
    }

    fn holders(&self, tenant: &TenantId, ids: &[&ExternalId]) -> StoreResult<Vec<Option<ConversationId>>> {
        self.reader.holders(tenant, ids)
    }

    fn nodes(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<Node>> {
        let mut nodes = self.reader.nodes(key, filter)?;
        nodes.retain(|node| self.was_there(node));
        Ok(nodes)
    }

    fn node_marks(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<NodeMark>> {
        let nodes = self.reader.nodes(key, filter)?;
        let marks = self.reader.node_marks(key, filter)?;
        Ok(marks
            .into_iter()
            .zip(nodes)
            .filter(|(_, node)| self.was_there(node))
            .map(|(mark, _)| mark)
            .collect())
    }

    fn nodes_by_id_prefix(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        self.reader.nodes_by_id_prefix(tenant, prefix, limit)
    }

    fn level_totals(
        &self,
        tenant: &TenantId,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>> {
        self.reader.level_totals(tenant, conversation)
    }

    fn jobs(&self, tenant: &TenantId, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        self.reader.jobs(tenant, filter)
    }

    fn job(&self, tenant: &TenantId, job: &Job) -> StoreResult<Option<Job>> {
        self.reader.job(tenant, job)
    }

    fn log(&self, tenant: &TenantId, filter: &LogFilter) -> StoreResult<Vec<LogLine>> {
        self.reader.log(tenant, filter)
    }

    fn arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Message>> {
        if *tenant != self.key.tenant || after >= u64::from(self.end) {
            return Ok(Arrivals { items: Vec::new(), through: after });
        }
        // A message's arrival is its place in the one conversation there is, counted from 1.
        let from = MessageIdx(u32::try_from(after).unwrap_or(u32::MAX));
        let span = Span { from, until: Some(MessageIdx(self.end)), limit };
        let messages = self.reader.messages(self.key, span)?;
        let items: Vec<_> =
            messages.into_iter().map(|it| (u64::from(it.idx.0) + 1, self.key.id, it)).collect();
        let through = items.last().map_or(u64::from(self.end), |(number, ..)| *number);
        Ok(Arrivals { items, through })
    }

    fn call_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<ToolCall>> {
        if *tenant != self.key.tenant {
            return Ok(Arrivals { items: Vec::new(), through: after });
        }
        let calls = self.tool_calls(self.key, Span::starting(TurnNo(0), usize::MAX))?;
        Ok(self.numbered(calls, after, limit))
    }

    fn node_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<Node>> {
        if *tenant != self.key.tenant {
            return Ok(Arrivals { items: Vec::new(), through: after });
        }
        let nodes = self.nodes(self.key, &NodeFilter::default())?;
        Ok(self.numbered(nodes, after, limit))
    }

    fn log_arrivals(&self, tenant: &TenantId, after: u64, limit: usize) -> StoreResult<Arrivals<LogLine>> {
        self.reader.log_arrivals(tenant, after, limit)
    }

    fn vector_index(&self, tenant: &TenantId) -> StoreResult<Option<VectorIndex>> {
        self.reader.vector_index(tenant)
    }

    fn vectors(
        &self,
        tenant: &TenantId,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        self.reader.vectors(tenant, model, of)
    }

    fn vector_arrivals(
        &self,
        tenant: &TenantId,
        model: &str,
        after: u64,
        limit: usize,
    ) -> StoreResult<(Vectors, u64)> {
        self.reader.vector_arrivals(tenant, model, after, limit)
    }

    fn spent(&self, tenant: &TenantId, filter: &SpendFilter) -> StoreResult<Vec<(String, Spent)>> {
        self.reader.spent(tenant, filter)
    }

    fn taken(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<Taken>> {
        self.reader.taken(provider, since)
    }

    fn totals(&self, tenant: &TenantId) -> StoreResult<(u32, Totals)> {
        self.reader.totals(tenant)
    }

    fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        self.reader.tenants()
    }
}
