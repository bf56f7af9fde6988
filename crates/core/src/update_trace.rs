//! Traces an update through the job events: the events of the update, of the jobs it planned,
//! and of the jobs that followed from them. Only reads events; it never changes them.

use std::collections::HashSet;

use crate::commit::{JobEvent, JobEventKind};
use crate::job::JobId;

/// The events that belong to an update, given the events of its conversation from the update's
/// own event on, in commit order.
///
/// Events of one commit share one timestamp. An update owns the jobs that its own commit
/// planned, and the jobs that were planned by a commit that finished one of its jobs. It no
/// longer owns a finished job, even if the same job is planned again.
#[must_use]
pub fn events_of_update(update: JobId, lines: &[JobEvent]) -> Vec<JobEvent> {
    let mut open: HashSet<JobId> = HashSet::new();
    let mut events = Vec::new();
    for commit in lines.chunk_by(|one, next| one.at == next.at) {
        let finishes =
            |line: &JobEvent| line.kind == JobEventKind::Release && open.contains(&line.job);
        if commit.iter().any(|line| line.job == update || finishes(line)) {
            let planned = commit.iter().filter(|line| line.kind.is_planning());
            open.extend(planned.map(|line| line.job).collect::<Vec<_>>());
        }
        events.extend(
            commit.iter().filter(|line| line.job == update || open.contains(&line.job)).cloned(),
        );
        for done in commit.iter().filter(|line| line.kind == JobEventKind::Release) {
            open.remove(&done.job);
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::ContentHash;
    use crate::ids::ConversationId;
    use crate::time::Timestamp;

    fn id(name: &str) -> JobId {
        JobId(ContentHash::of_fields(&[name.as_bytes()]))
    }

    fn check(log: &[(i64, &str, JobEventKind)], events: &[usize]) {
        let lines: Vec<JobEvent> = log
            .iter()
            .map(|(at, job, event)| JobEvent {
                at: Timestamp::from_micros(*at),
                conversation: Some(ConversationId::from_bytes([1; 16])),
                job: id(job),
                kind: *event,
                text: String::new(),
                took_ms: None,
            })
            .collect();
        let expected: Vec<JobEvent> = events.iter().map(|index| lines[*index].clone()).collect();
        assert_eq!(events_of_update(id("update"), &lines), expected);
    }

    #[test]
    fn jobs_planned_by_others_are_left_out() {
        use JobEventKind::{Acquire, Dead, Fail, Release, Retry, Update};
        let log = [
            (1, "update", Update),
            (1, "a", Acquire),
            (1, "b", Retry),
            (2, "other", Acquire),
            (3, "a", Fail),
            (4, "other", Release),
            (4, "over other", Acquire),
            (5, "a", Release),
            (5, "over a", Acquire),
            (6, "b", Dead),
            (7, "over a", Release),
            (8, "over other", Release),
        ];
        check(&log, &[0, 1, 2, 4, 7, 8, 9, 10]);
    }

    #[test]
    fn a_replanned_job_belongs_to_its_last_planner() {
        use JobEventKind::{Acquire, Release, Update};
        let log = [
            (1, "update", Update),
            (1, "a", Acquire),
            (2, "a", Release),
            (3, "later", Update),
            (3, "a", Acquire),
            (4, "a", Release),
        ];
        check(&log, &[0, 1, 2]);
    }
}
