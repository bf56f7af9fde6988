//! Changes and removes jobs.

use treering_core::Job;

use super::StatementBuilder;
use crate::codes::{job_kind_code, job_state_code};
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::read::{KINDS, STATES};
use crate::neo4j::values::map;
use crate::row_codec::{encode_work, lease_of};
use treering_core::Timestamp;

const JOB: &str = "MATCH (j:TreeringJob {tenant: $tenant, sessionId: $session, height: $height,
    position: $position, jobId: $job})";

impl StatementBuilder<'_> {
    pub(super) fn put_job(&mut self, job: &Job) {
        let changed = [
            ("state", state(job)),
            ("moment", moment(job)),
            ("worker", lease_of(job).1.into()),
            ("failures", job.failures.into()),
            ("error", job.error.as_deref().into()),
            ("work", work(job)),
        ];
        let [height, position, id] = place(job);
        let query = format!("{JOB} SET j += $properties");
        self.run(job.conversation, query, [height, position, id, ("properties", map(changed))]);
    }

    pub(super) fn remove_job(&mut self, job: &Job) {
        self.run(job.conversation, format!("{JOB} DELETE j"), place(job));
    }
}

fn place(job: &Job) -> [(&'static str, BoltValue); 3] {
    [
        ("height", job.kind.height().into()),
        ("position", job.kind.position().into()),
        ("job", job.id.0.into()),
    ]
}

fn state(job: &Job) -> BoltValue {
    let code = usize::try_from(job_state_code(&job.state)).unwrap_or_default();
    STATES.get(code).copied().into()
}

fn moment(job: &Job) -> BoltValue {
    Timestamp::from_micros(lease_of(job).0).into()
}

fn work(job: &Job) -> BoltValue {
    encode_work(&job.kind).map_or(BoltValue::Null, BoltValue::Text)
}

/// The properties of a new job. `seq` keeps the order of planning.
pub(super) fn job_properties(tenant: &str, job: &Job, seq: i64) -> BoltValue {
    let code = usize::try_from(job_kind_code(&job.kind)).unwrap_or_default();
    map([
        ("tenant", tenant.into()),
        ("sessionId", job.conversation.into()),
        ("height", job.kind.height().into()),
        ("position", job.kind.position().into()),
        ("jobId", job.id.0.into()),
        ("kind", KINDS.get(code).copied().into()),
        ("state", state(job)),
        ("moment", moment(job)),
        ("worker", lease_of(job).1.into()),
        ("failures", job.failures.into()),
        ("plannedAt", job.planned_at.into()),
        ("error", job.error.as_deref().into()),
        ("work", work(job)),
        ("seq", seq.into()),
    ])
}
