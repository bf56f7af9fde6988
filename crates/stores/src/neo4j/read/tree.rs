//! Reads nodes and the totals of each level.

use treering_core::ports::{LevelTotals, NodeFilter, NodeVersion, StoreResult};
use treering_core::{ConversationId, Node, NodeId, NodeSpec, Provenance, SourceTotals};

use super::messages::level;
use super::{GraphView, end, rows};
use crate::neo4j::bolt::Cypher;
use crate::neo4j::values::{BoltRow, Read};

/// Whether a higher node covers `n`: the group that contains it has been summarized, or the top,
/// which is the last node by level and ordinal, covers it as a root.
fn is_covered() -> String {
    let top = NodeSpec::TOP_ORDINAL;
    format!(
        "CASE WHEN n.parent IS NULL
            THEN n.ordinal <> {top} AND {top} = head(COLLECT {{
                MATCH (p:ConversationSummary {{tenant: n.tenant, sessionId: n.sessionId}})
                RETURN p.ordinal ORDER BY p.level DESC, p.ordinal DESC LIMIT 1 }})
            ELSE EXISTS {{ MATCH (p:ConversationSummary {{tenant: n.tenant,
                sessionId: n.sessionId, level: n.level + 1, ordinal: n.parent}}) }} END"
    )
}

pub(super) fn node_columns() -> String {
    format!(
        "n.uuid, n.spec, n.parent, {}, n.dirty, n.content, n.rangeStart, n.timestamp, n.fromIdx,
        n.untilIdx, n.messageCount, n.turnCount, n.rawChars, n.rawTokens, n.sourceChars,
        n.generatedBy, n.generatedAt, n.tookMs, n.charCount, n.tokens, n.grounded, n.retained,
        n.invented",
        is_covered()
    )
}

impl GraphView<'_> {
    pub(super) fn read_nodes(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<Node>> {
        self.query(self.select_nodes(id, filter, &node_columns()), node)
    }

    pub(super) fn read_node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>> {
        let columns = format!("n.level, n.ordinal, n.seq, n.parent, n.dirty, {}", is_covered());
        self.query(self.select_nodes(id, filter, &columns), version)
    }

    fn select_nodes(&self, id: ConversationId, filter: &NodeFilter, columns: &str) -> Cypher {
        let parent = match filter.parent {
            None => "true",
            Some(None) => "n.parent IS NULL",
            Some(Some(_)) => "n.parent = $parent",
        };
        let level = if filter.level.is_some() { "n.level = $level" } else { "true" };
        let (mut ordinals, mut limit) = ("true", usize::MAX);
        if let Some(span) = filter.ordinals {
            (ordinals, limit) = ("n.ordinal >= $from AND n.ordinal < $until", span.limit);
        }
        let id_is = if filter.id.is_some() { "n.uuid = $id" } else { "true" };
        let dirty = if filter.dirty { "n.dirty" } else { "true" };
        let around = match filter.around {
            Some(_) => "n.fromIdx <= $around AND n.untilIdx > $around",
            None => "true",
        };
        let query = format!(
            "MATCH (n:ConversationSummary) WHERE n.tenant = $tenant AND n.sessionId = $session
                AND {level} AND {ordinals} AND {parent} AND {id_is} AND {dirty} AND {around}
            WITH n ORDER BY n.level, n.ordinal LIMIT $limit
            RETURN {columns} ORDER BY n.level, n.ordinal"
        );
        self.of_conversation(id, &query)
            .with("level", filter.level.map(|level| level.number()))
            .with("from", filter.ordinals.map(|span| span.from))
            .with("until", end(filter.ordinals.and_then(|span| span.until)))
            .with("parent", filter.parent.flatten())
            .with("id", filter.id.as_ref().map(|id| id.as_str()))
            .with("around", filter.around.map(|idx| idx.0))
            .with("limit", rows(limit))
    }

    pub(super) fn read_nodes_by_id(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        let statement = self.statement(
            "MATCH (n:ConversationSummary) WHERE n.tenant = $tenant AND n.uuid STARTS WITH $prefix
            RETURN n.sessionId, n.uuid ORDER BY n.uuid LIMIT $limit",
        );
        let statement = statement.with("prefix", prefix).with("limit", rows(limit));
        self.query(statement, |row| Ok((row.take()?, NodeId::from_stored(row.take()?))))
    }

    pub(super) fn read_node_count(&self) -> StoreResult<u32> {
        let query = "MATCH (n:ConversationSummary)
            WHERE n.tenant = $tenant AND n.sessionId IS NOT NULL RETURN count(n)";
        Ok(self.query_one(self.statement(query), BoltRow::take)?.unwrap_or(0))
    }

    pub(super) fn read_level_totals(
        &self,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>> {
        // The top may be written from nodes below the roots, so the tokens of its source are
        // estimated from the characters.
        let of_one = if conversation.is_some() { "AND n.sessionId = $session" } else { "" };
        let (separator, covered) = (Provenance::FALLBACK_SEPARATOR, is_covered());
        let query = format!(
            "MATCH (n:ConversationSummary)
            WHERE n.tenant = $tenant AND n.sessionId IS NOT NULL {of_one}
            WITH n, CASE WHEN {covered} THEN 0 ELSE 1 END AS uncovered,
                CASE WHEN n.level = 1 THEN n.rawTokens
                    WHEN n.ordinal = {top} THEN n.tokens * n.sourceChars /
                        CASE WHEN n.charCount > 0 THEN n.charCount ELSE 1 END
                    ELSE reduce(sum = 0, tokens IN COLLECT {{
                        MATCH (k:ConversationSummary {{tenant: n.tenant, sessionId: n.sessionId,
                            level: n.level - 1}}) WHERE k.parent = n.ordinal RETURN k.tokens
                    }} | sum + tokens) END AS source
            RETURN n.level AS level, count(n), sum(CASE WHEN n.dirty THEN 1 ELSE 0 END),
                sum(CASE WHEN n.generatedBy CONTAINS $separator THEN 1 ELSE 0 END), sum(uncovered),
                sum(n.charCount), sum(n.tokens), sum(n.sourceChars), sum(source), sum(n.rawTokens),
                sum(uncovered * n.rawTokens), sum(uncovered * n.tokens), sum(n.tookMs),
                max(n.tookMs), sum(n.grounded), sum(n.retained) ORDER BY level",
            top = NodeSpec::TOP_ORDINAL
        );
        let statement = self.of_tenant(&query).with("separator", separator);
        self.query(statement.with("session", conversation), |row| {
            Ok(LevelTotals {
                level: row.take()?,
                nodes: row.take()?,
                dirty: row.take()?,
                fallbacks: row.take()?,
                uncovered: row.take()?,
                chars: row.take()?,
                tokens: row.take()?,
                source_chars: row.take()?,
                source_tokens: row.take()?,
                raw_tokens: row.take()?,
                uncovered_raw_tokens: row.take()?,
                uncovered_tokens: row.take()?,
                took_ms: row.take()?,
                slowest_ms: row.take()?,
                grounded: row.take()?,
                retained: row.take()?,
            })
        })
    }
}

/// Reads a node from [`node_columns`].
pub(super) fn node(row: &mut BoltRow) -> Read<Node> {
    Ok(Node {
        id: NodeId::from_stored(row.take()?),
        spec: row.json()?,
        parent: row.take()?,
        superseded: row.take()?,
        dirty: row.take()?,
        content: row.json()?,
        range_start: row.take()?,
        range_end: row.take()?,
        source: SourceTotals {
            from: row.take()?,
            until: row.take()?,
            messages: row.take()?,
            turns: row.take()?,
            raw_chars: row.take()?,
            raw_tokens: row.take()?,
            chars: row.take()?,
        },
        provenance: Provenance { by: row.take()?, at: row.take()?, took_ms: row.take()? },
        chars: row.take()?,
        tokens: row.take()?,
        grounded: row.take()?,
        retained: row.take()?,
        invented: row.take()?,
    })
}

fn version(row: &mut BoltRow) -> Read<NodeVersion> {
    Ok(NodeVersion {
        level: level(row)?,
        ordinal: row.take()?,
        seq: row.take()?,
        parent: row.take()?,
        dirty: row.take()?,
        superseded: row.take()?,
    })
}
