//! Writes the tree: nodes, jobs and the log. Statements come from the connection's cache: these
//! writes are rare beside the messages they follow from.

use rusqlite::{Connection, params};
use serde_json::json;
use treering_core::commit::LogLine;
use treering_core::{Job, JobKind, JobState, Level, Node, TenantId};

use super::codes::{event_code, job_kind_code, job_state_code};

type Result<T> = rusqlite::Result<T>;

/// What lines of the log about no conversation have in its place: no row has this number.
const OF_NONE: i64 = 0;
/// How many lines of the log are kept at the least.
const KEPT_LINES: i64 = 100_000;

pub(super) fn put_node(connection: &Connection, conversation: i64, node: &Node) -> Result<()> {
    let sql = "INSERT INTO nodes (conversation, level, ordinal, id, parent, dirty, range_start, range_end,
            first_idx, until_idx, messages, turns, raw_chars, raw_tokens, source_chars, made_by, made_at,
            took_ms, chars, tokens, grounded, retained, task, content, invented)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,
            ?21, ?22, ?23, ?24, ?25)";
    let source = &node.source;
    let place = params![conversation, node.level().number(), node.ordinal()];
    let remove = "DELETE FROM nodes WHERE conversation = ?1 AND level = ?2 AND ordinal = ?3";
    connection.prepare_cached(remove)?.execute(place)?;
    connection.prepare_cached(sql)?.execute(params![
        conversation,
        node.level().number(),
        node.ordinal(),
        node.id.as_str(),
        node.parent,
        node.dirty,
        node.range_start.as_micros(),
        node.range_end.as_micros(),
        source.from,
        source.until,
        source.messages,
        source.turns,
        source.raw_chars as i64,
        source.raw_tokens as i64,
        source.chars as i64,
        node.making.by,
        node.making.at.as_micros(),
        node.making.took_ms as i64,
        node.chars,
        node.tokens,
        node.grounded,
        node.retained,
        text_of(&node.task)?,
        text_of(&node.content)?,
        text_of(&node.invented)?,
    ])?;
    Ok(())
}

pub(super) fn set_parent(
    connection: &Connection,
    conversation: i64,
    level: Level,
    ordinals: &[u32],
    parent: Option<u32>,
) -> Result<()> {
    let sql = "UPDATE nodes SET parent = ?4 WHERE conversation = ?1 AND level = ?2 AND ordinal = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    for ordinal in ordinals {
        statement.execute(params![conversation, level.number(), ordinal, parent])?;
    }
    Ok(())
}

pub(super) fn mark_dirty(
    connection: &Connection,
    conversation: i64,
    level: Level,
    ordinals: &[u32],
) -> Result<()> {
    let sql = "UPDATE nodes SET dirty = 1 WHERE conversation = ?1 AND level = ?2 AND ordinal = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    for ordinal in ordinals {
        statement.execute(params![conversation, level.number(), ordinal])?;
    }
    Ok(())
}

pub(super) fn fell_tree(connection: &Connection, conversation: i64, level: Level) -> Result<()> {
    let params = params![conversation, level.number()];
    for sql in [
        "DELETE FROM nodes WHERE conversation = ?1 AND level >= ?2",
        "DELETE FROM jobs WHERE conversation = ?1 AND height >= ?2",
        "UPDATE nodes SET parent = NULL WHERE conversation = ?1 AND level = ?2 - 1",
    ] {
        connection.prepare_cached(sql)?.execute(params)?;
    }
    Ok(())
}

pub(super) fn add_job(connection: &Connection, conversation: i64, job: &Job, work: &str) -> Result<()> {
    // Asked beforehand: an insert that asks by itself, of the table that it inserts into, keeps what it selected in a table
    // of its own, and a copy of each page that it changes.
    let asked = "SELECT 1 FROM jobs WHERE conversation = ?1 AND height = ?2 AND place = ?3 AND id = ?4";
    let (height, place) = (job.kind.height(), job.kind.place());
    if connection.prepare_cached(asked)?.exists(params![conversation, height, place, job.id.0.as_bytes()])? {
        return Ok(());
    }
    let sql = "INSERT INTO jobs (conversation, height, place, id, kind, state, moment, failures, planned_at,
            worker, error, work)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    let (moment, worker) = lease_of(job);
    connection.prepare_cached(sql)?.execute(params![
        conversation,
        height,
        place,
        job.id.0.as_bytes(),
        job_kind_code(&job.kind),
        job_state_code(&job.state),
        moment,
        job.failures,
        job.planned_at.as_micros(),
        worker,
        job.error,
        work,
    ])?;
    Ok(())
}

pub(super) fn put_job(connection: &Connection, conversation: i64, job: &Job) -> Result<()> {
    let sql = "UPDATE jobs SET state = ?5, moment = ?6, failures = ?7, worker = ?8, error = ?9
        WHERE conversation = ?1 AND height = ?2 AND place = ?3 AND id = ?4";
    let (moment, worker) = lease_of(job);
    connection.prepare_cached(sql)?.execute(params![
        conversation,
        job.kind.height(),
        job.kind.place(),
        job.id.0.as_bytes(),
        job_state_code(&job.state),
        moment,
        job.failures,
        worker,
        job.error,
    ])?;
    Ok(())
}

pub(super) fn remove_job(connection: &Connection, conversation: i64, job: &Job) -> Result<()> {
    let sql = "DELETE FROM jobs WHERE conversation = ?1 AND height = ?2 AND place = ?3 AND id = ?4";
    let params = params![conversation, job.kind.height(), job.kind.place(), job.id.0.as_bytes()];
    connection.prepare_cached(sql)?.execute(params)?;
    Ok(())
}

pub(super) fn add_log(
    connection: &Connection,
    tenant: &TenantId,
    conversation: Option<i64>,
    line: &LogLine,
) -> Result<()> {
    let sql = "INSERT INTO log (at, conversation, tenant, job, event, took_ms, text)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let pk = connection.prepare_cached(sql)?.insert(params![
        line.at.as_micros(),
        conversation.unwrap_or(OF_NONE),
        conversation.is_none().then_some(tenant.as_str()),
        line.job.0.as_bytes(),
        event_code(line.event),
        line.took_ms.map(|ms| ms as i64),
        line.text,
    ])?;
    if pk % 1000 == 0 {
        connection.prepare_cached("DELETE FROM log WHERE pk < ?1")?.execute([pk - KEPT_LINES])?;
    }
    Ok(())
}

/// The moment and the worker that a state is about.
fn lease_of(job: &Job) -> (i64, Option<&str>) {
    match &job.state {
        JobState::Waiting { not_before } => (not_before.as_micros(), None),
        JobState::Leased { worker, until } => (until.as_micros(), Some(worker)),
        JobState::Dead => (0, None),
    }
}

/// How what a job does is written in its row.
pub(super) fn work_of(kind: &JobKind) -> Result<String> {
    Ok(match kind {
        JobKind::EmbedTurn(turn) => json!(turn.0).to_string(),
        JobKind::EmbedNode(.., node) => json!(node.as_str()).to_string(),
        JobKind::Summarise(task) => text_of(task)?,
    })
}

pub(super) fn text_of(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|why| rusqlite::Error::ToSqlConversionFailure(Box::new(why)))
}
