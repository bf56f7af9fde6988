//! Reads nodes and the totals of each level.

use tokio_postgres::Row;
use treering_core::ports::{LevelTotals, NodeFilter, NodeVersion, StoreResult};
use treering_core::{ConversationId, Level, Node, NodeId, NodeSpec, Provenance, SourceTotals};

use super::{TenantReader, end, limit};
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::{Columns, Decoded, SqlValue, values};

/// Whether a higher node covers a node: the group that contains it has been summarized, or the
/// top, which is the last node by level and ordinal, covers it as a root.
fn is_covered() -> String {
    let top = NodeSpec::TOP_ORDINAL;
    format!(
        "CASE WHEN n.parent IS NULL
            THEN n.ordinal <> {top} AND {top} = (SELECT p.ordinal FROM nodes p WHERE p.tenant = n.tenant
                AND p.conversation = n.conversation ORDER BY p.level DESC, p.ordinal DESC LIMIT 1)
            ELSE EXISTS (SELECT FROM nodes p WHERE p.tenant = n.tenant
                AND p.conversation = n.conversation AND p.level = n.level + 1 AND p.ordinal = n.parent) END"
    )
}

/// Read by [`node`].
pub(super) fn node_columns() -> String {
    format!(
        "n.id, n.parent, n.dirty, n.range_start, n.range_end, n.first_idx, n.until_idx, n.messages, n.turns,
        n.raw_chars, n.raw_tokens, n.source_chars, n.made_by, n.made_at, n.took_ms, n.chars, n.tokens, n.grounded,
        n.retained, n.spec, n.content, n.invented, {}",
        is_covered()
    )
}

impl TenantReader<'_> {
    pub(super) fn read_nodes(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<Node>> {
        self.query_all(self.node_query(id, filter, &node_columns()), node)
    }

    pub(super) fn read_node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>> {
        let columns = format!("n.level, n.ordinal, n.seq, n.parent, n.dirty, {}", is_covered());
        self.query_all(self.node_query(id, filter, &columns), version)
    }

    fn node_query(&self, id: ConversationId, filter: &NodeFilter, columns: &str) -> SqlQuery {
        let mut values = values![self.tenant.as_str(), id];
        let mut bind = |value: SqlValue| {
            values.push(value);
            format!("${}", values.len())
        };
        let mut sql =
            format!("SELECT {columns} FROM nodes n WHERE n.tenant = $1 AND n.conversation = $2");
        if let Some(level) = filter.level {
            sql.push_str(&format!(" AND n.level = {}", bind(level.number().into())));
        }
        match filter.parent {
            None => {}
            Some(None) => sql.push_str(" AND n.parent IS NULL"),
            Some(Some(parent)) => sql.push_str(&format!(" AND n.parent = {}", bind(parent.into()))),
        }
        if let Some(id) = &filter.id {
            sql.push_str(&format!(" AND n.id = {}", bind(id.as_str().into())));
        }
        if filter.dirty {
            sql.push_str(" AND n.dirty");
        }
        if let Some(idx) = filter.around {
            let idx = bind(idx.0.into());
            sql.push_str(&format!(" AND n.first_idx <= {idx} AND n.until_idx > {idx}"));
        }
        let mut count = usize::MAX;
        if let Some(span) = filter.ordinals {
            let (from, until) = (bind(span.from.into()), bind(end(span.until).into()));
            sql.push_str(&format!(" AND n.ordinal >= {from} AND n.ordinal < {until}"));
            count = span.limit;
        }
        sql.push_str(&format!(" ORDER BY n.level, n.ordinal LIMIT {}", bind(limit(count))));
        SqlQuery::new(sql, values)
    }

    pub(super) fn read_nodes_by_id(
        &self,
        prefix: &str,
        count: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        let sql = "SELECT n.conversation, n.id FROM nodes n
            WHERE n.tenant = $1 AND n.id >= $2 AND starts_with(n.id, $2) ORDER BY n.id LIMIT $3";
        let query = SqlQuery::new(sql, values![self.tenant.as_str(), prefix, count]);
        self.query_all(query, |row| Ok((row.conversation(0)?, NodeId::from_stored(row.text(1)?))))
    }

    pub(super) fn read_level_totals(
        &self,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>> {
        let (fallback_separator, is_covered) = (Provenance::FALLBACK_SEPARATOR, is_covered());
        // The top may be written from nodes below the roots, so the tokens of its source are
        // estimated from the characters.
        let top = NodeSpec::TOP_ORDINAL;
        let sql = format!(
            "SELECT n.level, count(*), count(*) FILTER (WHERE n.dirty), sum(n.chars)::bigint, sum(n.tokens)::bigint,
                sum(n.source_chars)::bigint, sum(n.raw_tokens)::bigint, sum(n.took_ms)::bigint, max(n.took_ms),
                sum(n.grounded), sum(n.retained), count(*) FILTER (WHERE NOT n.is_covered),
                coalesce(sum(n.raw_tokens) FILTER (WHERE NOT n.is_covered), 0)::bigint,
                coalesce(sum(n.tokens) FILTER (WHERE NOT n.is_covered), 0)::bigint,
                count(*) FILTER (WHERE strpos(n.made_by, '{fallback_separator}') > 0), sum(n.source_tokens)::bigint
            FROM (SELECT n.*, {is_covered} AS is_covered,
                    CASE WHEN n.level = 1 THEN n.raw_tokens
                        WHEN n.ordinal = {top} THEN n.tokens * n.source_chars / greatest(n.chars, 1)
                        ELSE (SELECT coalesce(sum(k.tokens), 0) FROM nodes k
                            WHERE k.tenant = n.tenant AND k.conversation = n.conversation
                            AND k.level = n.level - 1 AND k.parent = n.ordinal) END AS source_tokens
                FROM nodes n WHERE n.tenant = $1 AND ($2::bytea IS NULL OR n.conversation = $2)) n
            GROUP BY n.level ORDER BY n.level"
        );
        let query = SqlQuery::new(sql, values![self.tenant.as_str(), conversation]);
        self.query_all(query, |row| {
            Ok(LevelTotals {
                level: row.number(0)?,
                nodes: row.number(1)?,
                dirty: row.number(2)?,
                chars: row.number(3)?,
                tokens: row.number(4)?,
                source_chars: row.number(5)?,
                raw_tokens: row.number(6)?,
                took_ms: row.number(7)?,
                slowest_ms: row.number(8)?,
                grounded: row.value(9)?,
                retained: row.value(10)?,
                uncovered: row.number(11)?,
                uncovered_raw_tokens: row.number(12)?,
                uncovered_tokens: row.number(13)?,
                fallbacks: row.number(14)?,
                source_tokens: row.number(15)?,
            })
        })
    }
}

/// Reads a node from [`node_columns`].
pub(super) fn node(row: &Row) -> Decoded<Node> {
    Ok(Node {
        id: NodeId::from_stored(row.text(0)?),
        parent: row.optional_number(1)?,
        dirty: row.flag(2)?,
        range_start: row.time(3)?,
        range_end: row.time(4)?,
        source: SourceTotals {
            from: row.number(5)?,
            until: row.number(6)?,
            messages: row.number(7)?,
            turns: row.number(8)?,
            raw_chars: row.number(9)?,
            raw_tokens: row.number(10)?,
            chars: row.number(11)?,
        },
        provenance: Provenance { by: row.text(12)?, at: row.time(13)?, took_ms: row.number(14)? },
        chars: row.number(15)?,
        tokens: row.number(16)?,
        grounded: row.value::<f64>(17)? as f32,
        retained: row.value::<f64>(18)? as f32,
        spec: row.parsed(19)?,
        content: row.parsed(20)?,
        invented: row.parsed(21)?,
        superseded: row.flag(22)?,
    })
}

fn version(row: &Row) -> Decoded<NodeVersion> {
    Ok(NodeVersion {
        level: Level::new(row.number(0)?).ok_or("no such level")?,
        ordinal: row.number(1)?,
        seq: row.number(2)?,
        parent: row.optional_number(3)?,
        dirty: row.flag(4)?,
        superseded: row.flag(5)?,
    })
}
