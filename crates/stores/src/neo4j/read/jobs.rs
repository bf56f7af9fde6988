//! Reads jobs and their events.

use treering_core::ports::{JobEventFilter, JobFilter, StoreResult};
use treering_core::{
    ContentHash, ConversationId, Job, JobEvent, JobEventKind, JobId, JobKind, LEASE_MS, TenantId,
    Timestamp,
};

use super::{GraphView, PlannedState, rows};
use crate::neo4j::bolt::{BoltValue, Cypher};
use crate::neo4j::values::{BoltRow, Read, unreadable};
use crate::row_codec::{decode_work, job_state};

const JOB: &str = "j.jobId, j.sessionId, j.kind, j.height, j.position, j.work, j.state, j.moment,
    j.worker, j.failures, j.plannedAt, j.error";

pub(super) const JOB_EVENT: &str = "e.timestamp, e.sessionId, e.jobId, e.kind, e.text, e.tookMs";

/// The names of the kinds and states of jobs, in the order of their codes.
pub(in crate::neo4j) const KINDS: [&str; 4] =
    ["embed-turn", "summarize", "embed-node", "plan-project"];
pub(in crate::neo4j) const STATES: [&str; 3] = ["pending", "generating", "failed"];

/// Whether a job is due. A lease that ends impossibly late was taken before the clock was set back,
/// and counts as expired.
const IS_DUE: &str = "((j.state = 'pending' AND (j.moment <= $now OR j.failures = 0))
    OR (j.state = 'generating' AND (j.moment <= $now OR j.moment > $impossible)))";

/// Whether no unfinished job of the same conversation has a smaller height.
const IS_LOWEST: &str = "NOT EXISTS { MATCH (k:TreeringJob)
    WHERE k.tenant = j.tenant AND k.sessionId = j.sessionId AND k.height < j.height
        AND k.state <> 'failed' }";

/// Adds the parameters of [`IS_DUE`].
fn with_now(statement: Cypher, now: Timestamp) -> Cypher {
    let impossible = now.plus_micros(2 * LEASE_MS as i64 * 1000);
    statement.with("now", now).with("impossible", impossible)
}

/// Asks whether a tenant has a due job.
pub(in crate::neo4j) fn has_due_jobs(tenant: &TenantId, now: Timestamp) -> Cypher {
    let query = format!(
        "MATCH (j:TreeringJob) WHERE j.tenant = $tenant AND j.sessionId IS NOT NULL AND {IS_DUE} RETURN 1 LIMIT 1"
    );
    with_now(Cypher::new(query).with("tenant", tenant.as_str()), now)
}

/// Asks for the next tenant with a due job.
pub(in crate::neo4j) fn tenant_with_due_jobs(after: Option<&TenantId>, now: Timestamp) -> Cypher {
    let query = format!(
        "MATCH (t:TreeringTenant) WHERE t.name > $after
            AND EXISTS {{ MATCH (j:TreeringJob) WHERE j.tenant = t.name AND j.sessionId IS NOT NULL
                AND {IS_DUE} }}
        RETURN t.name ORDER BY t.name LIMIT 1"
    );
    let after = after.map_or("", TenantId::as_str);
    with_now(Cypher::new(query).with("after", after), now)
}

/// The number of jobs of a conversation that a commit reads before its plan.
const FEW: usize = 64;

/// Lists the jobs of the conversation `$session`, one more than are used.
pub(in crate::neo4j) fn few_jobs_query() -> String {
    format!(
        "COLLECT {{ MATCH (j:TreeringJob) WHERE j.tenant = $tenant AND j.sessionId = $session
            WITH j ORDER BY j.height, j.position, j.seq LIMIT {} RETURN [{JOB}] }}",
        FEW + 1
    )
}

/// Reads the jobs of [`few_jobs_query`]; `None` if there are too many.
pub(in crate::neo4j) fn few_jobs(rows: Vec<BoltValue>) -> Read<Option<Vec<Job>>> {
    if rows.len() > FEW {
        return Ok(None);
    }
    let decode = |row| match row {
        BoltValue::List(columns) => job(&mut BoltRow::new(columns)),
        _ => unreadable("a job without its columns"),
    };
    rows.into_iter().map(decode).collect::<Read<_>>().map(Some)
}

/// Whether a filter without a time selects a job of the conversation that it names.
fn is_selected(filter: &JobFilter, job: &Job) -> bool {
    let height = job.kind.height();
    let has_prefix = |prefix: &String| job.id.to_string().starts_with(&prefix.to_ascii_lowercase());
    filter.heights.is_none_or(|(lowest, highest)| (lowest..=highest).contains(&height))
        && filter.only.is_none_or(|only| only == (job.kind.position(), job.id))
        && filter.id_prefix.as_ref().is_none_or(has_prefix)
        && (!filter.summaries || matches!(job.kind, JobKind::Summarize(_)))
}

impl GraphView<'_> {
    pub(super) fn read_jobs(&self, filter: &JobFilter) -> StoreResult<Vec<Job>> {
        if let Some(PlannedState { conversation: (id, _), jobs: Some(jobs), .. }) = &self.state
            && filter.conversation == Some(*id)
            && filter.due.is_none()
        {
            let selected = jobs.iter().filter(|job| is_selected(filter, job));
            return Ok(selected.take(filter.limit).cloned().collect());
        }
        let mut conditions = vec!["j.tenant = $tenant AND j.sessionId IS NOT NULL".to_owned()];
        let mut add = |is_set: bool, condition: &str| {
            conditions.extend(is_set.then(|| condition.to_owned()));
        };
        add(filter.conversation.is_some(), "j.sessionId = $session");
        add(filter.heights.is_some(), "j.height >= $lowest AND j.height <= $highest");
        add(filter.only.is_some(), "j.position = $position AND j.jobId = $job");
        add(filter.id_prefix.is_some(), "j.jobId STARTS WITH $prefix");
        add(filter.summaries, "j.kind = 'summarize'");
        add(filter.due.is_some(), &format!("{IS_DUE} AND {IS_LOWEST}"));
        let order = match filter.conversation {
            Some(_) => "j.height, j.position, j.seq",
            None => "j.height, j.seq",
        };
        let query = format!(
            "MATCH (j:TreeringJob) WHERE {} RETURN {JOB} ORDER BY {order} LIMIT $limit",
            conditions.join(" AND ")
        );
        let statement = match filter.conversation {
            Some(id) => self.of_conversation(id, &query),
            None => self.of_tenant(&query),
        };
        let (lowest, highest) = filter.heights.unwrap_or_default();
        let statement = statement
            .with("lowest", lowest)
            .with("highest", highest)
            .with("position", filter.only.map(|(position, _)| position))
            .with("job", filter.only.map(|(_, id)| id.0))
            .with("prefix", filter.id_prefix.as_ref().map(|prefix| prefix.to_ascii_lowercase()))
            .with("limit", rows(filter.limit));
        self.query(with_now(statement, filter.due.unwrap_or(Timestamp::from_micros(0))), job)
    }

    pub(super) fn read_job_events(&self, filter: &JobEventFilter) -> StoreResult<Vec<JobEvent>> {
        let session = filter.conversation.map_or("", |_| "AND e.sessionId = $session");
        let job = filter.job_prefix.as_ref().map_or("", |_| "AND e.jobId STARTS WITH $prefix");
        let statement = self.of_tenant(&format!(
            "MATCH (e:TreeringJobEvent) WHERE e.tenant = $tenant AND e.seq > 0 {session} {job}
            RETURN {JOB_EVENT} ORDER BY e.tenant DESC, e.seq DESC LIMIT $limit"
        ));
        let prefix = filter.job_prefix.as_ref().map(|prefix| prefix.to_ascii_lowercase());
        let statement = statement.with("session", filter.conversation).with("prefix", prefix);
        let mut events = self.query(statement.with("limit", rows(filter.limit)), job_event)?;
        events.reverse();
        Ok(events)
    }
}

/// Reads a job event from [`JOB_EVENT`].
pub(super) fn job_event(row: &mut BoltRow) -> Read<JobEvent> {
    let (at, conversation): (_, Option<ConversationId>) = (row.take()?, row.take()?);
    let (job, name) = (JobId(row.take()?), row.take::<String>()?);
    let kind = JobEventKind::ALL.into_iter().find(|kind| kind.as_str() == name);
    let Some(kind) = kind else { return unreadable(format!("there is no event {name:?}")) };
    Ok(JobEvent { at, conversation, job, kind, text: row.take()?, took_ms: row.take()? })
}

/// Reads a job from [`JOB`].
fn job(row: &mut BoltRow) -> Read<Job> {
    let (id, conversation) = (JobId(row.take::<ContentHash>()?), row.take()?);
    let kind = code(&row.take::<String>()?, &KINDS)?;
    let place = (row.take()?, row.take()?);
    let kind = decode_work(kind, place, &row.take::<String>()?).or_else(unreadable)?;
    let state = code(&row.take::<String>()?, &STATES)?;
    let state = job_state(state, row.take()?, row.take()?).or_else(unreadable)?;
    let (failures, planned_at, error) = (row.take()?, row.take()?, row.take()?);
    Ok(Job { id, conversation, kind, state, failures, planned_at, error })
}

/// The code of a name.
fn code(name: &str, names: &[&str]) -> Read<i64> {
    match names.iter().position(|known| *known == name) {
        Some(code) => Ok(code as i64),
        None => unreadable(format!("{name:?} is no kind or state of a job")),
    }
}
