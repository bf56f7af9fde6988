//! Reads the change feed and vectors. Every node of the feed has the sequence number of its last
//! write. A commit takes its numbers under the lock of the tenant, so that no smaller number
//! appears later.

use std::collections::HashMap;

use treering_core::ports::{Change, ChangeFilter, Changes, Cursor, StoreResult};
use treering_core::{ContentHash, ConversationId, IndexRebuild, Invalid, VectorIndex};

use super::jobs::{JOB_EVENT, job_event};
use super::messages::{MESSAGE, TOOL_CALL, message, tool_call};
use super::tree::{node, node_columns};
use super::{GraphView, rows};
use crate::neo4j::bolt::Cypher;
use crate::neo4j::values::{BoltRow, Read};

/// A change and its sequence number.
type NumberedChange = (i64, Change);

/// A kind of node in the feed: its pattern and its columns.
#[derive(Clone, Copy)]
enum FeedSource {
    Messages,
    Removals,
    ToolCalls,
    Nodes,
    JobEvents,
    Vectors,
}

impl FeedSource {
    /// The sources that a filter asks for.
    fn of(filter: &ChangeFilter<'_>) -> Vec<Self> {
        let all = [
            (filter.messages, Self::Messages),
            (filter.messages, Self::Removals),
            (filter.tool_calls, Self::ToolCalls),
            (filter.nodes, Self::Nodes),
            (filter.job_events, Self::JobEvents),
            (filter.vectors_of.is_some(), Self::Vectors),
        ];
        all.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, source)| source).collect()
    }

    /// The variable, the label and a condition on it.
    const fn pattern(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Messages => ("m", "TreeringMessage", ""),
            Self::Removals => ("r", "TreeringRemoval", ""),
            Self::ToolCalls => ("t", "ToolCall", ""),
            Self::Nodes => ("n", "ConversationSummary", ""),
            // An event of no conversation is no change of one.
            Self::JobEvents => ("e", "TreeringJobEvent", " AND e.sessionId IS NOT NULL"),
            Self::Vectors => ("v", "TreeringVector", " AND v.model = $model"),
        }
    }

    fn columns(self) -> String {
        match self {
            Self::Messages => MESSAGE.to_owned(),
            Self::Removals => "r.sessionId".to_owned(),
            Self::ToolCalls => TOOL_CALL.to_owned(),
            Self::Nodes => node_columns(),
            Self::JobEvents => JOB_EVENT.to_owned(),
            Self::Vectors => "v.hash, v.vector".to_owned(),
        }
    }

    fn decode(self, row: &mut BoltRow) -> Read<NumberedChange> {
        let seq = row.take()?;
        let of: Option<ConversationId> = row.take()?;
        let id = of.unwrap_or(ConversationId::from_bytes([0; 16]));
        let change = match self {
            Self::Messages => Change::Message(id, message(row)?),
            Self::Removals => Change::Removed(id),
            Self::ToolCalls => Change::ToolCall(id, tool_call(row)?),
            Self::Nodes => Change::Node(id, Box::new(node(row)?)),
            Self::JobEvents => Change::JobEvent(id, job_event(row)?),
            Self::Vectors => Change::Vector(row.take()?, row.take()?),
        };
        Ok((seq, change))
    }
}

impl GraphView<'_> {
    /// The numbers bound the rows to read. They are read under the lock of the tenant, when no
    /// commit is under way; the rows up to the bound do not change any more, except that a later
    /// commit may give one a number beyond it.
    pub(super) fn read_changes(
        &self,
        after: &Cursor,
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<Changes> {
        let after = sequence_number(after)?;
        let sources = FeedSource::of(filter);
        let (latest, mut numbers) = self.numbers_after(after, &sources, filter, limit)?;
        numbers.sort_unstable();
        let until = match limit.checked_sub(1).map(|last| numbers.get(last)) {
            _ if numbers.len() <= limit => latest.max(after),
            Some(Some(last)) => *last,
            _ => after,
        };
        let mut changes = Vec::new();
        if numbers.first().is_some_and(|first| *first <= until) {
            let select = |source: &FeedSource| {
                let (it, label, condition) = source.pattern();
                let session = match source {
                    FeedSource::Vectors => "null".to_owned(),
                    _ => format!("{it}.sessionId"),
                };
                self.statement(format!(
                    "MATCH ({it}:{label}) WHERE {it}.tenant = $tenant AND {it}.seq > $after
                        AND {it}.seq <= $until{condition}
                    RETURN {it}.seq AS number, {session} AS owner, {}",
                    source.columns()
                ))
                .with("after", after)
                .with("until", until)
                .with("model", filter.vectors_of)
            };
            let statements: Vec<Cypher> = sources.iter().map(select).collect();
            for (source, rows) in sources.iter().zip(self.run_all(&statements)?) {
                changes.extend(self.decoded(rows, |row| source.decode(row))?);
            }
        }
        changes.sort_by_key(|(seq, _)| *seq);
        Ok(Changes {
            items: changes.into_iter().map(|(_, change)| change).collect(),
            cursor: cursor(until),
            is_last: until >= latest,
        })
    }

    /// The end of the feed, and the numbers after a cursor, at most one more of each source than
    /// the limit.
    fn numbers_after(
        &self,
        after: i64,
        sources: &[FeedSource],
        filter: &ChangeFilter<'_>,
        limit: usize,
    ) -> StoreResult<(i64, Vec<i64>)> {
        let lists: Vec<String> = sources
            .iter()
            .map(|source| {
                let (it, label, condition) = source.pattern();
                // The order is that of the index, so that it is read only up to the limit.
                let order = if matches!(source, FeedSource::Vectors) { "v.model, " } else { "" };
                format!(
                    "COLLECT {{ MATCH ({it}:{label}) WHERE {it}.tenant = $tenant
                        AND {it}.seq > $after{condition}
                    RETURN {it}.seq ORDER BY {it}.tenant, {order}{it}.seq LIMIT $limit }}"
                )
            })
            .collect();
        let lists = if lists.is_empty() { "[]".to_owned() } else { lists.join(" + ") };
        let statement = self
            .of_tenant(&format!("RETURN x.seq, {lists}"))
            .with("after", after)
            .with("limit", rows(limit.saturating_add(1)))
            .with("model", filter.vectors_of);
        let found = self.query_one(statement, |row| Ok((row.take()?, row.take()?)))?;
        Ok(found.unwrap_or_default())
    }

    /// Hashes the last messages up to a cursor with their sequence numbers. Messages keep their
    /// number, and another history has another message at one of these numbers.
    pub(super) fn read_history(&self, at: &Cursor) -> StoreResult<Option<ContentHash>> {
        let at = sequence_number(at)?;
        let statement = self.of_tenant(
            "RETURN x.seq, COLLECT {
                MATCH (m:TreeringMessage) WHERE m.tenant = $tenant AND m.seq <= $at
                WITH m ORDER BY m.tenant DESC, m.seq DESC LIMIT 16
                RETURN toString(m.seq) + ' ' + m.sessionId + ' ' + toString(m.idx) + ' ' + m.hash
                    + ' ' + toString(m.timestamp) }",
        );
        let found = self.query_one(statement.with("at", at), |row| {
            Ok((row.take::<i64>()?, row.take::<Vec<String>>()?))
        })?;
        let (latest, messages) = found.unwrap_or_default();
        let fields: Vec<&[u8]> = messages.iter().map(String::as_bytes).collect();
        Ok((latest >= at).then(|| ContentHash::of_fields(&fields)))
    }

    pub(super) fn read_vector_index(&self) -> StoreResult<Option<VectorIndex>> {
        if let Some(state) = &self.state {
            return Ok(state.tenant.vector_index.clone());
        }
        let query = "MATCH (x:TreeringTenant {name: $tenant})
            RETURN x.vectorModel, x.nextVectorModel, x.nextVectorSeq";
        Ok(self.query_one(self.statement(query), vector_index)?.flatten())
    }

    pub(super) fn read_vectors(
        &self,
        model: &str,
        of: &[ContentHash],
    ) -> StoreResult<Vec<Option<Vec<f32>>>> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let statement = self.statement(
            "UNWIND $hashes AS hash
            MATCH (v:TreeringVector {tenant: $tenant, model: $model, hash: hash})
            RETURN v.hash, v.vector",
        );
        let statement = statement.with("model", model).with("hashes", of.to_vec());
        let found = self.query(statement, |row| Ok((row.take()?, row.take()?)))?;
        let found: HashMap<ContentHash, Vec<f32>> = found.into_iter().collect();
        Ok(of.iter().map(|hash| found.get(hash).cloned()).collect())
    }
}

/// Reads the vector index of a tenant from its model, the next one and the progress of the rebuild.
pub(in crate::neo4j) fn vector_index(row: &mut BoltRow) -> Read<Option<VectorIndex>> {
    let (model, next, done) = (row.take::<Option<_>>()?, row.take()?, row.take::<Option<_>>()?);
    let done = cursor(done.unwrap_or(0));
    let next: Option<String> = next;
    let next = next.map(|model| IndexRebuild { model, done });
    Ok(model.map(|model| VectorIndex { model, next }))
}

/// The cursor after a sequence number.
pub(in crate::neo4j) fn cursor(seq: i64) -> Cursor {
    if seq == 0 { Cursor::start() } else { seq.to_string().parse().unwrap_or_default() }
}

/// The sequence number behind a cursor of this store.
pub(in crate::neo4j) fn sequence_number(cursor: &Cursor) -> Result<i64, Invalid> {
    if *cursor == Cursor::start() {
        return Ok(0);
    }
    let number = cursor.as_str().parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| {
        Invalid::new(format!("cursor {:?}", cursor.as_str()), "this store did not return it")
    })
}
