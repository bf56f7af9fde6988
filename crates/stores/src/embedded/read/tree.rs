//! Reads nodes and the totals of each level.

use std::ops::Deref;

use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use treering_core::ports::{LevelTotals, NodeFilter, NodeVersion, Span, StoreResult};
use treering_core::{ConversationId, Level, Node, NodeId, NodeSpec, Provenance, SourceTotals};

use super::{TenantView, end, parsed, rows, timestamp, unreadable, unsigned};

/// Whether a higher node covers a node: the group that contains it has been summarized, or the
/// top, which is the last node by level and ordinal, covers it as a root.
fn is_covered() -> String {
    let top = NodeSpec::TOP_ORDINAL;
    format!(
        "iif(n.parent IS NULL,
            n.ordinal <> {top} AND {top} = (SELECT p.ordinal FROM nodes p WHERE p.tenant = n.tenant
                AND p.conversation = n.conversation ORDER BY p.level DESC, p.ordinal DESC LIMIT 1),
            EXISTS (SELECT 1 FROM nodes p WHERE p.tenant = n.tenant
                AND p.conversation = n.conversation AND p.level = n.level + 1 AND p.ordinal = n.parent))"
    )
}

const VERSION: &str = "n.level, n.ordinal, n.seq, n.parent, n.dirty";

pub(super) fn node_columns() -> String {
    format!(
        "n.id, n.parent, n.dirty, n.range_start, n.range_end, n.first_idx, n.until_idx, n.messages, n.turns,
        n.raw_chars, n.raw_tokens, n.source_chars, n.made_by, n.made_at, n.took_ms, n.chars, n.tokens, n.grounded,
        n.retained, n.task, n.content, n.invented, {}",
        is_covered()
    )
}

impl<C: Deref<Target = Connection>> TenantView<'_, C> {
    pub(super) fn read_nodes(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<Node>> {
        self.find_nodes(id, filter, &node_columns(), node)
    }

    pub(super) fn read_node(
        &self,
        id: ConversationId,
        level: Level,
        ordinal: u32,
    ) -> StoreResult<Option<Node>> {
        let ordinals = Some(Span::between(ordinal, ordinal.saturating_add(1)));
        Ok(self.read_nodes(id, &NodeFilter { ordinals, ..NodeFilter::at(level) })?.pop())
    }

    pub(super) fn read_node_versions(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeVersion>> {
        self.find_nodes(id, filter, &format!("{VERSION}, {}", is_covered()), version)
    }

    fn find_nodes<T>(
        &self,
        id: ConversationId,
        filter: &NodeFilter,
        columns: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let Some(row) = self.row(id)? else { return Ok(Vec::new()) };
        // Few nodes share a parent. Without the hint, SQLite scans the whole level to get the
        // order.
        let by = if filter.parent.is_some() && filter.level.is_some() {
            "INDEXED BY nodes_parent"
        } else {
            ""
        };
        let mut sql =
            format!("SELECT {columns} FROM nodes n {by} WHERE n.tenant = ? AND n.conversation = ?");
        let mut params: Vec<Value> = vec![self.tenant.into(), row.pk.into()];
        if let Some(level) = filter.level {
            sql.push_str(" AND n.level = ?");
            params.push(i64::from(level.number()).into());
        }
        match filter.parent {
            None => {}
            Some(None) => sql.push_str(" AND n.parent IS NULL"),
            Some(Some(parent)) => {
                sql.push_str(" AND n.parent = ?");
                params.push(i64::from(parent).into());
            }
        }
        if let Some(id) = &filter.id {
            sql.push_str(" AND n.id = ?");
            params.push(id.as_str().to_owned().into());
        }
        if filter.dirty {
            sql.push_str(" AND n.dirty");
        }
        if let Some(idx) = filter.around {
            sql.push_str(" AND n.first_idx <= ? AND n.until_idx > ?");
            params.extend([i64::from(idx.0).into(), i64::from(idx.0).into()]);
        }
        let mut limit = usize::MAX;
        if let Some(span) = filter.ordinals {
            sql.push_str(" AND n.ordinal >= ? AND n.ordinal < ?");
            params.extend([i64::from(span.from).into(), end(span.until).into()]);
            limit = span.limit;
        }
        sql.push_str(" ORDER BY n.level, n.ordinal LIMIT ?");
        params.push(rows(limit).into());
        self.query_all(&sql, params_from_iter(params), read)
    }

    pub(super) fn read_nodes_by_id(
        &self,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        let sql = "SELECT c.id, n.id FROM nodes n JOIN conversations c ON c.pk = n.conversation
            WHERE n.tenant = ?1 AND n.id >= ?2 AND n.id < ?2 || char(1114111) ORDER BY n.id LIMIT ?3";
        self.query_all(sql, params![self.tenant, prefix, rows(limit)], |row| {
            Ok((ConversationId::from_bytes(row.get(0)?), NodeId::from_stored(row.get(1)?)))
        })
    }

    pub(super) fn read_node_count(&self) -> StoreResult<u32> {
        let sql = "SELECT count(*) FROM nodes WHERE tenant = ?1";
        Ok(self.query_one(sql, [self.tenant], |row| row.get(0))?.unwrap_or(0))
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
            "SELECT n.level, count(*), sum(n.dirty), sum(n.chars), sum(n.tokens), sum(n.source_chars),
                sum(n.raw_tokens), sum(n.took_ms), max(n.took_ms), sum(n.grounded), sum(n.retained),
                sum(NOT ({is_covered})), sum(iif({is_covered}, 0, n.raw_tokens)),
                sum(iif({is_covered}, 0, n.tokens)), sum(instr(n.made_by, '{fallback_separator}') > 0),
                sum(CASE WHEN n.level = 1 THEN n.raw_tokens
                    WHEN n.ordinal = {top} THEN n.tokens * n.source_chars / max(n.chars, 1)
                    ELSE (SELECT ifnull(sum(k.tokens), 0) FROM nodes k
                        WHERE k.tenant = n.tenant AND k.conversation = n.conversation
                        AND k.level = n.level - 1 AND k.parent = n.ordinal) END)
            FROM nodes n JOIN conversations c ON c.pk = n.conversation
            WHERE n.tenant = ?1 AND (?2 IS NULL OR c.id = ?2) GROUP BY n.level ORDER BY n.level"
        );
        self.query_all(
            &sql,
            params![self.tenant, conversation.as_ref().map(|id| id.as_bytes())],
            |row| {
                Ok(LevelTotals {
                    level: row.get(0)?,
                    nodes: row.get(1)?,
                    dirty: row.get(2)?,
                    chars: unsigned(row, 3)?,
                    tokens: unsigned(row, 4)?,
                    source_chars: unsigned(row, 5)?,
                    raw_tokens: unsigned(row, 6)?,
                    took_ms: unsigned(row, 7)?,
                    slowest_ms: unsigned(row, 8)?,
                    grounded: row.get(9)?,
                    retained: row.get(10)?,
                    uncovered: row.get(11)?,
                    uncovered_raw_tokens: unsigned(row, 12)?,
                    uncovered_tokens: unsigned(row, 13)?,
                    fallbacks: row.get(14)?,
                    source_tokens: unsigned(row, 15)?,
                })
            },
        )
    }
}

/// Reads a node from [`node_columns`].
pub(super) fn node(row: &Row<'_>) -> rusqlite::Result<Node> {
    Ok(Node {
        id: NodeId::from_stored(row.get(0)?),
        parent: row.get(1)?,
        dirty: row.get(2)?,
        range_start: timestamp(row, 3)?,
        range_end: timestamp(row, 4)?,
        source: SourceTotals {
            from: row.get(5)?,
            until: row.get(6)?,
            messages: row.get(7)?,
            turns: row.get(8)?,
            raw_chars: unsigned(row, 9)?,
            raw_tokens: unsigned(row, 10)?,
            chars: unsigned(row, 11)?,
        },
        provenance: Provenance {
            by: row.get(12)?,
            at: timestamp(row, 13)?,
            took_ms: unsigned(row, 14)?,
        },
        chars: row.get(15)?,
        tokens: row.get(16)?,
        grounded: row.get(17)?,
        retained: row.get(18)?,
        spec: parsed(row, 19)?,
        content: parsed(row, 20)?,
        invented: parsed(row, 21)?,
        superseded: row.get(22)?,
    })
}

fn version(row: &Row<'_>) -> rusqlite::Result<NodeVersion> {
    Ok(NodeVersion {
        level: Level::new(row.get(0)?).ok_or_else(|| unreadable(0, "no such level"))?,
        ordinal: row.get(1)?,
        seq: unsigned(row, 2)?,
        parent: row.get(3)?,
        dirty: row.get(4)?,
        superseded: row.get(5)?,
    })
}
