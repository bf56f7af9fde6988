//! Reads the tree: nodes, jobs and the log.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Row, ToSql, params, params_from_iter};
use treering_core::commit::LogLine;
use treering_core::job::LEASE_MS;
use treering_core::node::{Making, Source};
use treering_core::ports::{Arrivals, JobFilter, LevelTotals, LogFilter, NodeFilter, NodeMark, StoreResult};
use treering_core::{
    ContentHash, ConversationId, ConversationKey, Job, JobId, JobKind, JobState, Level, Node, NodeId, Task,
    TenantId, TurnNo,
};

use super::codes;
use super::follow::number;
use super::read::{Access, View, end, moment, rows, unreadable};

const NODE: &str =
    "n.id, n.parent, n.dirty, n.range_start, n.range_end, n.first_idx, n.until_idx, n.messages,
    n.turns, n.raw_chars, n.raw_tokens, n.source_chars, n.made_by, n.made_at, n.took_ms, n.chars, n.tokens,
    n.grounded, n.retained, n.task, n.content, n.invented,
    n.parent IS NOT NULL AND EXISTS (SELECT 1 FROM nodes p WHERE p.conversation = n.conversation
        AND p.level = n.level + 1 AND p.ordinal = n.parent)";

const MARK: &str = "n.level, n.ordinal, n.pk, n.parent, n.dirty,
    n.parent IS NOT NULL AND EXISTS (SELECT 1 FROM nodes p WHERE p.conversation = n.conversation
        AND p.level = n.level + 1 AND p.ordinal = n.parent)";

const JOB: &str =
    "j.id, j.kind, j.height, j.state, j.moment, j.failures, j.planned_at, j.worker, j.error, j.work,
    c.id, j.place";

impl<C: Access> View<'_, C> {
    fn pk(&self, key: &ConversationKey) -> StoreResult<Option<i64>> {
        let sql = "SELECT pk FROM conversations WHERE tenant = ?1 AND id = ?2";
        self.one(sql, params![key.tenant.as_str(), key.id.as_bytes()], |row| row.get(0))
    }

    pub(super) fn read_nodes(&self, key: &ConversationKey, filter: &NodeFilter) -> StoreResult<Vec<Node>> {
        self.find_nodes(key, filter, NODE, node)
    }

    pub(super) fn read_node_marks(
        &self,
        key: &ConversationKey,
        filter: &NodeFilter,
    ) -> StoreResult<Vec<NodeMark>> {
        self.find_nodes(key, filter, MARK, mark)
    }

    fn find_nodes<T>(
        &self,
        key: &ConversationKey,
        filter: &NodeFilter,
        columns: &str,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> StoreResult<Vec<T>> {
        let Some(pk) = self.pk(key)? else { return Ok(Vec::new()) };
        // Who asks for a parent gets few of very many, which the order of the answer must not make read them all.
        let by =
            if filter.parent.is_some() && filter.level.is_some() { "INDEXED BY nodes_parent" } else { "" };
        let mut sql = format!("SELECT {columns} FROM nodes n {by} WHERE n.conversation = ?");
        let mut params: Vec<Value> = vec![pk.into()];
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
        self.many(&sql, params_from_iter(params), read)
    }

    pub(super) fn read_node_arrivals(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: usize,
    ) -> StoreResult<Arrivals<Node>> {
        let sql = format!(
            "SELECT {NODE}, n.pk, c.id FROM nodes n CROSS JOIN conversations c ON c.pk = n.conversation
            WHERE n.pk > ?2 AND c.tenant = ?1 ORDER BY n.pk LIMIT ?3"
        );
        let items = self.many(&sql, params![tenant.as_str(), after as i64, rows(limit)], |row| {
            Ok((number(row, 23)?, ConversationId::from_bytes(row.get(24)?), node(row)?))
        })?;
        self.arrived(items, "nodes", "pk", after, limit)
    }

    pub(super) fn read_nodes_by_id(
        &self,
        tenant: &TenantId,
        prefix: &str,
        limit: usize,
    ) -> StoreResult<Vec<(ConversationId, NodeId)>> {
        let sql = "SELECT c.id, n.id FROM nodes n JOIN conversations c ON c.pk = n.conversation
            WHERE n.id >= ?2 AND n.id < ?2 || char(1114111) AND c.tenant = ?1 ORDER BY n.id LIMIT ?3";
        self.many(sql, params![tenant.as_str(), prefix, rows(limit)], |row| {
            Ok((ConversationId::from_bytes(row.get(0)?), NodeId::from_stored(row.get(1)?)))
        })
    }

    pub(super) fn read_level_totals(
        &self,
        tenant: &TenantId,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Vec<LevelTotals>> {
        let covered = "EXISTS (SELECT 1 FROM nodes p WHERE p.conversation = n.conversation
            AND p.level = n.level + 1 AND p.ordinal = n.parent)";
        let standing_in = Making::STANDING_IN;
        let sql = format!(
            "SELECT n.level, count(*), sum(n.dirty), sum(n.chars), sum(n.tokens), sum(n.source_chars),
                sum(n.raw_tokens), sum(n.took_ms), max(n.took_ms), sum(n.grounded), sum(n.retained),
                sum(NOT {covered}), sum(iif({covered}, 0, n.raw_tokens)), sum(iif({covered}, 0, n.tokens)),
                sum(instr(n.made_by, '{standing_in}') > 0)
            FROM nodes n JOIN conversations c ON c.pk = n.conversation
            WHERE c.tenant = ?1 AND (?2 IS NULL OR c.id = ?2) GROUP BY n.level ORDER BY n.level"
        );
        let whole = |row: &Row<'_>, at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
        self.many(&sql, params![tenant.as_str(), conversation.as_ref().map(|id| id.as_bytes())], |row| {
            Ok(LevelTotals {
                level: row.get(0)?,
                nodes: row.get(1)?,
                dirty: row.get(2)?,
                chars: whole(row, 3)?,
                tokens: whole(row, 4)?,
                source_chars: whole(row, 5)?,
                raw_tokens: whole(row, 6)?,
                took_ms: whole(row, 7)?,
                slowest_ms: whole(row, 8)?,
                grounded: row.get(9)?,
                retained: row.get(10)?,
                uncovered: row.get(11)?,
                uncovered_raw_tokens: whole(row, 12)?,
                uncovered_tokens: whole(row, 13)?,
                stand_ins: row.get(14)?,
            })
        })
    }

    pub(super) fn read_jobs(&self, tenant: &TenantId, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        // Either way an index gives the jobs in their order, and reading ends at the limit.
        let (from, order) = match filter.conversation {
            Some(_) => ("conversations c CROSS JOIN jobs j", "j.height, j.place, j.pk"),
            None => ("jobs j CROSS JOIN conversations c", "j.height, j.pk"),
        };
        let mut sql = format!("SELECT {JOB} FROM {from} ON c.pk = j.conversation WHERE c.tenant = ?");
        let mut params: Vec<Value> = vec![tenant.as_str().to_owned().into()];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND c.id = ?");
            params.push(id.as_bytes().to_vec().into());
        }
        if let Some((least, most)) = filter.heights {
            sql.push_str(" AND j.height BETWEEN ? AND ?");
            params.extend([i64::from(least).into(), i64::from(most).into()]);
        }
        if let Some(prefix) = &filter.id_prefix {
            sql.push_str(" AND hex(j.id) LIKE ?");
            params.push(format!("{}%", digits(prefix)).into());
        }
        if let Some(now) = filter.due {
            sql.push_str(
                " AND ((j.state = 0 AND (j.moment <= ? OR j.failures = 0))
                    OR (j.state = 1 AND (j.moment <= ? OR j.moment > ?)))
                AND NOT EXISTS (SELECT 1 FROM jobs k WHERE k.conversation = j.conversation
                    AND k.height < j.height AND k.state < 2)",
            );
            let (now, impossible) =
                (now.as_micros(), now.plus_micros(2 * LEASE_MS as i64 * 1000).as_micros());
            params.extend([now.into(), now.into(), impossible.into()]);
        }
        sql.push_str(&format!(" ORDER BY {order} LIMIT ?"));
        params.push(rows(filter.limit).into());
        self.many(&sql, params_from_iter(params), |row| job(row, self.tasks))
    }

    pub(super) fn read_job(&self, tenant: &TenantId, it: &Job) -> StoreResult<Option<Job>> {
        let sql = format!(
            "SELECT {JOB} FROM conversations c CROSS JOIN jobs j ON j.conversation = c.pk
            WHERE c.tenant = ?1 AND c.id = ?2 AND j.height = ?3 AND j.place = ?4 AND j.id = ?5"
        );
        let (conversation, id) = (it.conversation.as_bytes(), it.id.0.as_bytes());
        let params = params![tenant.as_str(), conversation, it.kind.height(), it.kind.place(), id];
        self.one(&sql, params, |row| job(row, self.tasks))
    }

    pub(super) fn read_log(&self, tenant: &TenantId, filter: &LogFilter) -> StoreResult<Vec<LogLine>> {
        let mut sql = "SELECT l.at, c.id, l.job, l.event, l.text, l.took_ms FROM log l
            LEFT JOIN conversations c ON c.pk = l.conversation WHERE ifnull(c.tenant, l.tenant) = ?"
            .to_owned();
        let mut params: Vec<Box<dyn ToSql>> = vec![Box::new(tenant.as_str().to_owned())];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND c.id = ?");
            params.push(Box::new(*id.as_bytes()));
        }
        if let Some(prefix) = &filter.job_prefix {
            sql.push_str(" AND hex(l.job) LIKE ?");
            params.push(Box::new(format!("{}%", digits(prefix))));
        }
        sql.push_str(" ORDER BY l.pk DESC LIMIT ?");
        params.push(Box::new(rows(filter.limit)));
        let mut lines = self.many(&sql, params_from_iter(params), log_line)?;
        lines.reverse();
        Ok(lines)
    }

    pub(super) fn read_log_arrivals(
        &self,
        tenant: &TenantId,
        after: u64,
        limit: usize,
    ) -> StoreResult<Arrivals<LogLine>> {
        let sql = "SELECT l.at, c.id, l.job, l.event, l.text, l.took_ms, l.pk
            FROM log l CROSS JOIN conversations c ON c.pk = l.conversation
            WHERE l.pk > ?2 AND c.tenant = ?1 ORDER BY l.pk LIMIT ?3";
        let items = self.many(sql, params![tenant.as_str(), after as i64, rows(limit)], |row| {
            Ok((number(row, 6)?, ConversationId::from_bytes(row.get(1)?), log_line(row)?))
        })?;
        self.arrived(items, "log", "pk", after, limit)
    }
}

fn log_line(row: &Row<'_>) -> rusqlite::Result<LogLine> {
    Ok(LogLine {
        at: moment(row, 0)?,
        conversation: row.get::<_, Option<_>>(1)?.map(ConversationId::from_bytes),
        job: JobId(ContentHash::from_bytes(row.get(2)?)),
        event: codes::event(row.get(3)?).ok_or_else(|| unreadable(3, "no such event"))?,
        text: row.get(4)?,
        took_ms: row.get::<_, Option<i64>>(5)?.map(i64::unsigned_abs),
    })
}

/// Only what a hexadecimal id can begin with, so that nothing else gets into a pattern.
fn digits(prefix: &str) -> String {
    prefix.chars().map(|c| if c.is_ascii_hexdigit() { c.to_ascii_uppercase() } else { '-' }).collect()
}

fn node(row: &Row<'_>) -> rusqlite::Result<Node> {
    let whole = |at: usize| row.get::<_, i64>(at).map(i64::unsigned_abs);
    Ok(Node {
        id: NodeId::from_stored(row.get(0)?),
        parent: row.get(1)?,
        dirty: row.get(2)?,
        range_start: moment(row, 3)?,
        range_end: moment(row, 4)?,
        source: Source {
            from: row.get(5)?,
            until: row.get(6)?,
            messages: row.get(7)?,
            turns: row.get(8)?,
            raw_chars: whole(9)?,
            raw_tokens: whole(10)?,
            chars: whole(11)?,
        },
        making: Making { by: row.get(12)?, at: moment(row, 13)?, took_ms: whole(14)? },
        chars: row.get(15)?,
        tokens: row.get(16)?,
        grounded: row.get(17)?,
        retained: row.get(18)?,
        task: parsed(row, 19)?,
        content: parsed(row, 20)?,
        invented: parsed(row, 21)?,
        superseded: row.get(22)?,
    })
}

fn mark(row: &Row<'_>) -> rusqlite::Result<NodeMark> {
    Ok(NodeMark {
        level: Level::new(row.get(0)?).ok_or_else(|| unreadable(0, "no such level"))?,
        ordinal: row.get(1)?,
        arrival: number(row, 2)?,
        parent: row.get(3)?,
        dirty: row.get(4)?,
        superseded: row.get(5)?,
    })
}

/// Tasks that were read before, by what is stored of them. While a provider fails, the same ones are read for every context.
#[derive(Default)]
pub(super) struct Tasks(Mutex<HashMap<Box<str>, Task>>);

impl Tasks {
    /// How many are remembered; beyond that, all are forgotten.
    const MOST: usize = 4096;

    fn read(&self, row: &Row<'_>, at: usize) -> rusqlite::Result<Task> {
        let stored = row.get_ref(at)?.as_str()?;
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = tasks.get(stored) {
            return Ok(task.clone());
        }
        let task: Task = parsed(row, at)?;
        if tasks.len() >= Self::MOST {
            tasks.clear();
        }
        tasks.insert(stored.into(), task.clone());
        Ok(task)
    }
}

fn job(row: &Row<'_>, tasks: &Tasks) -> rusqlite::Result<Job> {
    let height: u8 = row.get(2)?;
    let kind = match row.get(1)? {
        0 => JobKind::EmbedTurn(TurnNo(parsed(row, 9)?)),
        1 => JobKind::Summarise(tasks.read(row, 9)?),
        2 => {
            let level = Level::new(height).ok_or_else(|| unreadable(2, "no such level"))?;
            JobKind::EmbedNode(level, row.get(11)?, parsed(row, 9)?)
        }
        _ => return Err(unreadable(1, "no such kind of job")),
    };
    let state = match row.get(3)? {
        0 => JobState::Waiting { not_before: moment(row, 4)? },
        1 => JobState::Leased { worker: row.get(7)?, until: moment(row, 4)? },
        2 => JobState::Dead,
        _ => return Err(unreadable(3, "no such state")),
    };
    Ok(Job {
        id: JobId(ContentHash::from_bytes(row.get(0)?)),
        conversation: ConversationId::from_bytes(row.get(10)?),
        kind,
        state,
        failures: row.get(5)?,
        planned_at: moment(row, 6)?,
        error: row.get(8)?,
    })
}

pub(super) fn parsed<T: serde::de::DeserializeOwned>(row: &Row<'_>, at: usize) -> rusqlite::Result<T> {
    serde_json::from_str(row.get_ref(at)?.as_str()?).map_err(|why| unreadable(at, why))
}
