//! The store contract for jobs and job events. Like nodes, both belong to one conversation and
//! tenant.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{JobEventFilter, JobFilter, NodeFilter};
use treering_core::{
    BatchSizes, Job, JobEvent, JobEventKind, JobId, JobKind, JobState, LEASE_MS, MessageIdx, Role,
    Store, TenantId, Timestamp, TurnNo, Write,
};

use crate::contract::tree::{id, level, node, nodes, put_node, task};
use crate::contract::{
    at, commit, commit_for, conversation, everything, key, message, put, reader, tenant,
};

/// A job of conversation `number`: embeds a turn at height 0, summarizes a node above.
pub fn job(number: u8, height: u8, ordinal: u32) -> Job {
    let kind = match height {
        0 => JobKind::EmbedTurn(TurnNo(ordinal)),
        level => JobKind::Summarize(task(level, ordinal)),
    };
    Job::plan(key(number).id, kind, at(0))
}

pub(crate) fn add_jobs(store: &dyn Store, jobs: &[Job]) {
    commit(store, jobs.iter().cloned().map(Write::AddJob).collect()).unwrap();
}

fn jobs(store: &dyn Store, filter: &JobFilter) -> Vec<Job> {
    reader(store).jobs(filter).unwrap()
}

fn everyone() -> JobFilter {
    JobFilter::all(usize::MAX)
}

fn due(now: Timestamp) -> JobFilter {
    JobFilter { due: Some(now), ..everyone() }
}

/// Conversation and height of each job.
pub(crate) fn heights(store: &dyn Store, filter: &JobFilter) -> Vec<(u8, u8)> {
    let found = jobs(store, filter);
    found.iter().map(|job| (job.conversation.as_bytes()[0], job.kind.height())).collect()
}

fn line(number: u8, job: JobId, text: &str) -> JobEvent {
    let conversation = Some(key(number).id);
    JobEvent {
        at: at(5),
        conversation,
        job,
        kind: JobEventKind::Acquire,
        text: text.into(),
        took_ms: None,
    }
}

pub fn lines_about_no_conversation_are_kept_by_tenant(store: &dyn Store) {
    put(store, 1);
    let with_conversation = line(1, job(1, 1, 0).id, "about one");
    let without_conversation =
        JobEvent { conversation: None, ..line(1, with_conversation.job, "about none") };
    commit(
        store,
        vec![
            Write::AddJobEvent(with_conversation.clone()),
            Write::AddJobEvent(without_conversation.clone()),
        ],
    )
    .unwrap();
    commit_for(store, tenant("others"), vec![Write::AddJobEvent(without_conversation.clone())])
        .unwrap();
    let reader = reader(store);
    assert_eq!(
        reader.job_events(&whole_log()).unwrap(),
        [with_conversation.clone(), without_conversation.clone()]
    );
    let other_tenant = store.reader(&tenant("others")).unwrap();
    assert_eq!(other_tenant.job_events(&whole_log()).unwrap(), [without_conversation]);
    let of_one = JobEventFilter { conversation: with_conversation.conversation, ..whole_log() };
    assert_eq!(reader.job_events(&of_one).unwrap().len(), 1);
}

fn whole_log() -> JobEventFilter {
    JobEventFilter { conversation: None, job_prefix: None, limit: usize::MAX }
}

fn logged(store: &dyn Store, filter: &JobEventFilter) -> Vec<String> {
    let lines = reader(store).job_events(filter).unwrap();
    lines.into_iter().map(|line| line.text).collect()
}

pub fn a_job_comes_back_as_it_was_added(store: &dyn Store) {
    put(store, 1);
    let mut all = [job(1, 0, 3), job(1, 1, 0), job(1, 2, 0), job(1, 2, 1)];
    all[0].state = JobState::Dead;
    all[1].lease("4711-c0ffee", at(60));
    (all[2].failures, all[2].error) = (2, Some("slow down; \0🌊".into()));
    let embed = JobKind::EmbedNode(level(2), 0, id(level(2), 0));
    all[3] = Job::plan(key(1).id, embed, at(7));
    add_jobs(store, &all);
    assert_eq!(jobs(store, &everyone()), all);
    let reader = reader(store);
    for job in &all {
        assert_eq!(reader.job(job).unwrap().as_ref(), Some(job));
        let in_other_conversation = Job { conversation: key(2).id, ..job.clone() };
        assert_eq!(reader.job(&in_other_conversation).unwrap(), None);
    }
}

pub fn a_job_is_added_once(store: &dyn Store) {
    put(store, 1);
    let mut first = job(1, 1, 0);
    first.lease("first", at(1));
    let mut again = job(1, 1, 0);
    (again.failures, again.planned_at) = (3, at(99));
    add_jobs(store, &[first.clone(), again.clone()]);
    add_jobs(store, &[again]);
    assert_eq!(jobs(store, &everyone()), [first]);
}

/// Each write of a commit applies to the conversation that it names.
pub fn a_commit_may_be_of_two_conversations(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let jobs_of = [job(1, 1, 0), job(2, 1, 0)];
    let add_message =
        |number: u8| Write::AddMessage(key(number).id, message(1, 0, Role::User, "more"));
    let [one, two] = jobs_of.clone().map(Write::AddJob);
    commit(store, vec![add_message(1), two, add_message(2), one]).unwrap();
    let reader = reader(store);
    for (number, job) in [1, 2].into_iter().zip(jobs_of) {
        let filter = JobFilter { conversation: Some(key(number).id), ..everyone() };
        assert_eq!(jobs(store, &filter), [job]);
        assert_eq!(reader.messages(key(number).id, everything(MessageIdx(0))).unwrap().len(), 2);
    }
    drop(reader);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn a_job_that_is_gone_stays_gone(store: &dyn Store) {
    put(store, 1);
    let (mut kept, removed) = (job(1, 1, 0), job(1, 1, 1));
    add_jobs(store, &[kept.clone(), removed.clone()]);
    for _ in 0..2 {
        commit(store, vec![Write::RemoveJob(removed.clone())]).unwrap();
    }
    kept.lease("worker", at(1));
    (kept.failures, kept.error) = (1, Some("busy".into()));
    commit(store, vec![Write::PutJob(kept.clone()), Write::PutJob(removed.clone())]).unwrap();
    assert_eq!(jobs(store, &everyone()), [kept.clone()]);
    assert_eq!(reader(store).job(&removed).unwrap(), None);
    kept.release(at(3));
    commit(store, vec![Write::PutJob(kept.clone())]).unwrap();
    assert_eq!(jobs(store, &everyone()), [kept], "the lease is gone");
}

pub fn replacing_a_job_replaces_its_work(store: &dyn Store) {
    put(store, 1);
    let (mut planned, other) = (job(1, 1, 0), job(1, 2, 0));
    add_jobs(store, &[planned.clone(), other.clone()]);
    let mut work = task(1, 0);
    work.overrides = vec!["group_chars=7000".parse().unwrap(), "wiggle=0.1".parse().unwrap()];
    work.turns = Some(9);
    planned.kind = JobKind::Summarize(work);
    commit(store, vec![Write::PutJob(planned.clone())]).unwrap();
    assert_eq!(jobs(store, &everyone()), [planned.clone(), other]);
    let leased =
        store.lease(&key(1).tenant, &due(at(5)), "worker", BatchSizes { turns: 1, others: 1 });
    let kinds: Vec<JobKind> = leased.unwrap().into_iter().map(|job| job.kind).collect();
    assert_eq!(kinds, [planned.kind], "a worker gets the new work");
}

pub fn jobs_come_lower_levels_first_then_as_planned(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let planned = [job(1, 2, 8), job(2, 1, 5), job(1, 0, 9), job(1, 1, 7), job(2, 1, 1)];
    add_jobs(store, &planned);
    let [second, other, turn, first, last] = planned;
    let check = |filter: JobFilter, expected: &[&Job]| {
        assert_eq!(jobs(store, &filter).iter().collect::<Vec<_>>(), expected, "{filter:?}");
    };
    check(everyone(), &[&turn, &other, &first, &last, &second]);
    check(JobFilter::all(2), &[&turn, &other]);
    check(JobFilter::of(key(1).id), &[&turn, &first, &second]);
    check(JobFilter { heights: Some((1, 1)), ..everyone() }, &[&other, &first, &last]);
    check(JobFilter { heights: Some((1, 2)), ..JobFilter::of(key(1).id) }, &[&first, &second]);
    check(JobFilter::of(key(3).id), &[]);
    check(JobFilter { summaries: true, limit: 2, ..JobFilter::of(key(1).id) }, &[&first, &second]);
    // Within a conversation, jobs for earlier messages come first.
    check(JobFilter::of(key(2).id), &[&last, &other]);
    check(JobFilter { limit: 1, ..JobFilter::of(key(2).id) }, &[&last]);
}

/// Several jobs target one position: two plans of a node with different settings, and its
/// embedding.
pub fn jobs_at_one_place_with_different_styles_are_distinct(store: &dyn Store) {
    put(store, 1);
    let written = job(1, 1, 4);
    let mut rewritten = task(1, 4);
    rewritten.style.overlap_chars += 1;
    let rewritten = Job::plan(key(1).id, JobKind::Summarize(rewritten), at(0));
    let embedded = Job::plan(key(1).id, JobKind::EmbedNode(level(1), 4, id(level(1), 4)), at(0));
    let all = [written, rewritten, embedded];
    add_jobs(store, &all);
    add_jobs(store, &all);
    assert_eq!(jobs(store, &JobFilter::of(key(1).id)), all);
    let mut leased = all[1].clone();
    leased.lease("worker", at(1));
    commit(store, vec![Write::PutJob(leased.clone()), Write::RemoveJob(all[0].clone())]).unwrap();
    assert_eq!(jobs(store, &JobFilter::of(key(1).id)), [leased.clone(), all[2].clone()]);
    let now = |job| reader(store).job(job).unwrap();
    assert_eq!(
        [now(&all[0]), now(&all[1]), now(&all[2])],
        [None, Some(leased), Some(all[2].clone())]
    );
}

pub fn a_job_is_due_when_its_moment_has_come(store: &dyn Store) {
    put(store, 1);
    let lease = LEASE_MS as i64 * 1000;
    let waiting = |micros| JobState::Waiting { not_before: at(0).plus_micros(micros) };
    let leased = |micros| JobState::Leased { worker: "w".into(), until: at(0).plus_micros(micros) };
    let cases = [
        (waiting(0), 1, true),
        (waiting(1), 1, false),
        // A job that never failed has no backoff, so the clock was set back.
        (waiting(1), 0, true),
        (leased(0), 0, true),
        (leased(1), 0, false),
        (leased(2 * lease), 0, false),
        // No lease is this long, so the clock was set back.
        (leased(2 * lease + 1), 0, true),
        (JobState::Dead, 0, false),
        (JobState::Dead, 4, false),
    ];
    for (ordinal, (state, failures, expected)) in (0..).zip(cases) {
        let job = Job { state, failures, ..job(1, 0, ordinal) };
        add_jobs(store, std::slice::from_ref(&job));
        let of = JobFilter { id_prefix: Some(job.id.to_string()), ..due(at(0)) };
        assert_eq!(jobs(store, &of).len(), usize::from(expected), "{job:?}");
        assert_eq!(job.is_due(at(0)), expected, "{job:?}");
    }
}

pub fn lower_levels_are_due_first(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let mut first = job(1, 1, 0);
    add_jobs(store, &[first.clone(), job(1, 2, 0), job(1, 2, 1), job(1, 3, 0), job(2, 2, 0)]);
    assert_eq!(
        heights(store, &due(at(0))),
        [(1, 1), (2, 2)],
        "conversations do not wait for each other"
    );
    let filter = JobFilter { heights: Some((2, 9)), ..due(at(0)) };
    assert_eq!(heights(store, &filter), [(2, 2)], "jobs outside the filter block too");
    // A leased or retrying job still blocks the levels above.
    first.lease("worker", at(0));
    commit(store, vec![Write::PutJob(first.clone())]).unwrap();
    assert_eq!(heights(store, &due(at(1))), [(2, 2)]);
    (first.failures, first.state) = (1, JobState::Waiting { not_before: at(60) });
    commit(store, vec![Write::PutJob(first.clone())]).unwrap();
    assert_eq!(heights(store, &due(at(59))), [(2, 2)]);
    assert_eq!(heights(store, &due(at(60))), [(1, 1), (2, 2)]);
    commit(store, vec![Write::RemoveJob(first.clone())]).unwrap();
    assert_eq!(heights(store, &due(at(0))), [(1, 2), (1, 2), (2, 2)]);
}

pub fn a_job_given_up_holds_nothing_back(store: &dyn Store) {
    put(store, 1);
    let given_up = Job { state: JobState::Dead, failures: 4, ..job(1, 1, 0) };
    add_jobs(store, &[given_up, job(1, 2, 0)]);
    assert_eq!(heights(store, &due(at(0))), [(1, 2)]);
}

pub fn jobs_are_found_by_their_first_digits(store: &dyn Store) {
    put(store, 1);
    let all = [job(1, 1, 0), job(1, 1, 1), job(1, 2, 0)];
    add_jobs(store, &all);
    let find =
        |prefix: &str| jobs(store, &JobFilter { id_prefix: Some(prefix.into()), ..everyone() });
    for job in &all {
        let digits = job.id.to_string();
        assert_eq!(find(&digits), std::slice::from_ref(job));
        assert_eq!(find(&digits[..9]), std::slice::from_ref(job), "an odd number of digits");
        assert_eq!(find(&job.id.short()), std::slice::from_ref(job));
        assert_eq!(find(&digits[1..]), []);
    }
    for nothing in ["%", "_", "zz", "not hex"] {
        assert_eq!(find(nothing), [], "{nothing}");
    }
}

pub fn the_newest_lines_of_the_log_come_oldest_first(store: &dyn Store) {
    put(store, 1);
    let mut all = Vec::new();
    for (number, event) in JobEventKind::ALL.into_iter().enumerate() {
        let took_ms = (number % 2 == 1).then_some(u64::from(u32::MAX) + number as u64);
        // Events are ordered by insertion, not by time.
        let at = at(-(number as i64));
        let text = format!("line {number} \0'🌊'");
        all.push(JobEvent { at, kind: event, took_ms, ..line(1, job(1, 1, 0).id, &text) });
    }
    for lines in all.chunks(4) {
        commit(store, lines.iter().cloned().map(Write::AddJobEvent).collect()).unwrap();
    }
    let log = |filter: &JobEventFilter| reader(store).job_events(filter).unwrap();
    assert_eq!(log(&whole_log()), all);
    assert_eq!(log(&JobEventFilter { limit: 2, ..whole_log() }), all[all.len() - 2..]);
    assert_eq!(log(&JobEventFilter { limit: 0, ..whole_log() }), []);
}

pub fn the_log_is_read_by_conversation_and_job(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let (first, second) = (job(1, 1, 0).id, job(2, 1, 0).id);
    let lines = [
        line(1, first, "a"),
        line(2, second, "b"),
        line(1, job(1, 1, 1).id, "c"),
        line(1, first, "d"),
    ];
    commit(store, lines.map(Write::AddJobEvent).to_vec()).unwrap();
    let check = |filter: JobEventFilter, expected: &[&str]| {
        assert_eq!(logged(store, &filter), expected, "{filter:?}");
    };
    let of_job = |prefix: &str| JobEventFilter { job_prefix: Some(prefix.into()), ..whole_log() };
    check(JobEventFilter { conversation: Some(key(1).id), ..whole_log() }, &["a", "c", "d"]);
    check(of_job(&first.to_string()), &["a", "d"]);
    check(JobEventFilter { limit: 1, ..of_job(&first.short()) }, &["d"]);
    check(JobEventFilter { conversation: Some(key(2).id), ..of_job(&first.short()) }, &[]);
    check(of_job("%"), &[]);
}

pub fn trees_of_tenants_are_apart(store: &dyn Store) {
    let (it, job) = (conversation(1), job(1, 1, 0));
    for name in ["a", "b"] {
        let mut node = node(1, 0);
        node.content.overview = format!("of {name}");
        let failed = Job { error: Some(name.into()), ..job.clone() };
        let writes = vec![
            Write::PutConversation(it.clone()),
            put_node(1, node),
            Write::AddJob(failed),
            Write::AddJobEvent(line(1, job.id, name)),
        ];
        commit_for(store, tenant(name), writes).unwrap();
    }
    commit_for(store, tenant("b"), vec![Write::MarkDirty(it.id, level(1), vec![0])]).unwrap();
    for (name, seen) in [("a", 1), ("b", 1), ("c", 0)] {
        let reader = store.reader(&tenant(name)).unwrap();
        let nodes = reader.nodes(it.id, &NodeFilter::default()).unwrap();
        let jobs = reader.jobs(&everyone()).unwrap();
        let log = reader.job_events(&whole_log()).unwrap();
        let totals = reader.level_totals(None).unwrap();
        let found = reader.nodes_by_id_prefix("l1", 9).unwrap();
        assert_eq!(
            [nodes.len(), jobs.len(), log.len(), totals.len(), found.len()],
            [seen; 5],
            "{name}"
        );
        assert_eq!(reader.jobs(&due(at(0))).unwrap(), jobs);
        assert_eq!(reader.job(&job).unwrap(), jobs.first().cloned());
        if seen > 0 {
            assert_eq!(nodes[0].content.overview, format!("of {name}"));
            assert_eq!((nodes[0].dirty, totals[0].dirty), (name == "b", u32::from(name == "b")));
            assert_eq!((jobs[0].error.as_deref(), log[0].text.as_str()), (Some(name), name));
        }
    }
    commit_for(store, tenant("b"), vec![Write::DropTree(it.id, level(1))]).unwrap();
    let reader = store.reader(&tenant("a")).unwrap();
    assert_eq!(reader.nodes(it.id, &NodeFilter::default()).unwrap().len(), 1);
    assert_eq!(reader.jobs(&everyone()).unwrap().len(), 1);
}

pub fn a_tree_without_a_conversation_is_refused_whole(store: &dyn Store) {
    put(store, 1);
    let orphans = [
        put_node(7, node(1, 0)),
        Write::AddJob(job(7, 1, 0)),
        Write::AddJobEvent(line(7, job(7, 1, 0).id, "of nobody")),
    ];
    for orphan in orphans {
        commit(store, vec![put_node(1, node(1, 0)), Write::AddJob(job(1, 1, 0)), orphan])
            .unwrap_err();
        assert_eq!(nodes(store, 1, &NodeFilter::default()), []);
        assert_eq!(jobs(store, &everyone()), []);
        assert_eq!(logged(store, &whole_log()), [""; 0]);
    }
}

const SIZES: BatchSizes = BatchSizes { turns: 3, others: 2 };

fn lease(store: &dyn Store, now: Timestamp, worker: &str) -> Vec<Job> {
    store.lease(&TenantId::default(), &due(now), worker, SIZES).unwrap()
}

pub fn a_batch_has_turns_or_else_others(store: &dyn Store) {
    put(store, 1);
    add_jobs(store, &[0, 1, 2, 3].map(|ordinal| job(1, 0, ordinal)));
    put(store, 2);
    add_jobs(store, &[0, 1, 2].map(|ordinal| job(2, 1, ordinal)));
    let batch = |now| -> Vec<(u8, u32)> {
        lease(store, now, "w").iter().map(|job| (job.kind.height(), job.kind.position())).collect()
    };
    assert_eq!(batch(at(0)), [(0, 0), (0, 1), (0, 2)]);
    assert_eq!(batch(at(0)), [(0, 3)]);
    assert_eq!(batch(at(0)), [(1, 0), (1, 1)]);
    assert_eq!(batch(at(0)), [(1, 2)]);
    assert_eq!(batch(at(0)), []);
    let stored = jobs(store, &everyone());
    assert!(stored.iter().all(|job| job.is_leased_by("w")));
    let later = at(0).plus_micros(LEASE_MS as i64 * 1000);
    assert_eq!(batch(later).len(), 3, "expired leases are granted again");
}

/// Workers lease concurrently until no job is due.
pub fn no_job_is_leased_twice(store: &dyn Store) {
    put(store, 1);
    add_jobs(store, &(0..60).map(|ordinal| job(1, 0, ordinal)).collect::<Vec<_>>());
    let workers: Vec<String> = (0..8).map(|number| format!("worker {number}")).collect();
    let mut leased: Vec<u32> = std::thread::scope(|scope| {
        let work = |worker: &String| -> Vec<u32> {
            let batches = std::iter::from_fn(|| Some(lease(store, at(0), worker)));
            let leased = batches.take_while(|batch| !batch.is_empty()).flatten();
            leased.map(|job| job.kind.position()).collect()
        };
        let threads: Vec<_> =
            workers.iter().map(|worker| scope.spawn(move || work(worker))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    leased.sort_unstable();
    assert_eq!(leased, (0..60).collect::<Vec<_>>());
}

pub fn tenants_with_due_jobs_come_in_turn(store: &dyn Store) {
    for name in ["c", "a", "b", "d", "e"] {
        let later =
            Job { failures: 1, state: JobState::Waiting { not_before: at(9) }, ..job(1, 1, 0) };
        let job = if name == "e" { later } else { job(1, 1, 0) };
        commit_for(
            store,
            tenant(name),
            vec![Write::PutConversation(conversation(1)), Write::AddJob(job)],
        )
        .unwrap();
    }
    commit_for(store, tenant("c"), vec![Write::RemoveJob(job(1, 1, 0))]).unwrap();
    let all = |now: Timestamp| -> Vec<String> {
        let next =
            |after: &Option<TenantId>| store.tenant_with_due_jobs(now, after.as_ref()).unwrap();
        let mut names: Vec<String> =
            std::iter::successors(next(&None), |tenant| next(&Some(tenant.clone())))
                .map(|tenant| tenant.to_string())
                .collect();
        names.sort();
        names
    };
    assert_eq!(all(at(0)), ["a", "b", "d"]);
    assert_eq!(all(at(9)), ["a", "b", "d", "e"]);
    store.lease(&tenant("b"), &due(at(0)), "w", SIZES).unwrap();
    assert_eq!(all(at(0)), ["a", "d"]);
}
