//! An exhaustive exploration of the gate in a small model: every order in which two workers, a
//! crash, failures, a clock and a waiting context can act on the jobs of a conversation.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashSet, VecDeque};

use treering_core::{
    ConversationId, GateStatus, Job, JobKind, JobState, LEASE_MS, Level, NodeId, ProviderError,
    RetryPolicy, Timestamp, TurnNo,
};

/// The state of the waiting context.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Waiter {
    /// It has not started.
    Away,
    /// It read the signal and has not checked the gate yet.
    Marked(u8),
    /// It found the gate closed and sleeps until the signal changes.
    Asleep(u8),
    /// It continued; the flag says whether the gate was clear.
    Through(bool),
}

#[derive(Debug, Clone)]
struct World {
    /// The time, in steps slightly longer than a lease.
    clock: u8,
    /// The unfinished jobs in the store.
    jobs: Vec<Job>,
    planned: u8,
    /// The job that each worker believes it holds. The first worker is in the waiter's process.
    held_jobs: [Option<Job>; 2],
    /// Whether the first worker committed and has not raised the signal yet.
    signal_pending: bool,
    signal: u8,
    written_nodes: Vec<String>,
    crashes: u8,
    failures: u8,
    waiter: Waiter,
}

const STEP_MICROS: i64 = LEASE_MS as i64 * 1001;
const RETRY: RetryPolicy = RetryPolicy { retries: 1, base_delay_ms: 100, factor: 2.0 };

/// The jobs of one conversation: embed a turn, embed a level-1 node, embed a level-2 node.
fn work() -> [JobKind; 3] {
    let node = |name: &str| NodeId::from_stored(name.to_owned());
    let second = Level::FIRST.above();
    [
        JobKind::EmbedTurn(TurnNo(0)),
        JobKind::EmbedNode(Level::FIRST, 0, node("l1-x")),
        JobKind::EmbedNode(second, 0, node("l2-x")),
    ]
}

impl World {
    fn new() -> Self {
        Self {
            clock: 0,
            jobs: Vec::new(),
            planned: 0,
            held_jobs: [None, None],
            signal_pending: false,
            signal: 0,
            written_nodes: Vec::new(),
            crashes: 0,
            failures: 0,
            waiter: Waiter::Away,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_800_000_000_000_000 + i64::from(self.clock) * STEP_MICROS)
    }

    /// The job that a worker may lease, by the store's rule: due, and no lower job left.
    fn takes(&self) -> Option<usize> {
        let live = |job: &&Job| job.state != JobState::Dead;
        let lowest = self.jobs.iter().filter(live).map(|job| job.kind.height()).min()?;
        self.jobs.iter().position(|job| job.kind.height() == lowest && job.is_due(self.now()))
    }

    fn gate(&self) -> GateStatus {
        GateStatus::of(&self.jobs, |_| false)
    }

    /// Every possible next state, with the name of the step that leads to it.
    fn next(&self) -> Vec<(&'static str, Self)> {
        let mut steps = self.shared_steps();
        for worker in 0..self.held_jobs.len() {
            steps.extend(self.worker_steps(worker));
        }
        steps.extend(self.waiter_steps());
        steps
    }

    /// The state after a step.
    fn after(&self, name: &'static str, change: impl FnOnce(&mut Self)) -> (&'static str, Self) {
        let mut world = self.clone();
        change(&mut world);
        (name, world)
    }

    fn shared_steps(&self) -> Vec<(&'static str, Self)> {
        let mut steps = Vec::new();
        if let Some(kind) = work().get(usize::from(self.planned)) {
            steps.push(self.after("plan", |world| {
                let conversation = ConversationId::from_bytes([1; 16]);
                world.jobs.push(Job::plan(conversation, kind.clone(), world.now()));
                world.planned += 1;
                world.signal += 1;
            }));
        }
        if self.clock < 3 {
            steps.push(self.after("tick", |world| world.clock += 1));
        }
        if self.signal_pending {
            steps.push(self.after("raise", |world| {
                world.signal_pending = false;
                world.signal += 1;
            }));
        }
        steps
    }

    fn worker_steps(&self, worker: usize) -> Vec<(&'static str, Self)> {
        let Some(leased) = &self.held_jobs[worker] else {
            let lease = self.takes().map(|job| {
                self.after("lease", |world| {
                    let (name, now) = (format!("worker {worker}"), world.now());
                    world.jobs[job].lease(&name, now);
                    world.held_jobs[worker] = Some(world.jobs[job].clone());
                })
            });
            return lease.into_iter().collect();
        };
        let mut steps = vec![self.after("finish", |world| world.finish(worker, leased))];
        if self.failures < 1 {
            let fail =
                |error: ProviderError| move |world: &mut Self| world.fail(worker, leased, &error);
            steps.push(self.after("fail", fail(ProviderError::transient("busy"))));
            steps.push(self.after("give up", fail(ProviderError::permanent("no"))));
        }
        if self.crashes < 1 {
            steps.push(self.after("crash", |world| {
                world.held_jobs[worker] = None;
                world.crashes += 1;
            }));
        }
        steps
    }

    fn waiter_steps(&self) -> Vec<(&'static str, Self)> {
        let observed = |world: &mut Self| world.waiter = Waiter::Marked(world.signal);
        match self.waiter {
            Waiter::Away if self.planned > 0 => vec![self.after("mark", observed)],
            Waiter::Marked(observed) => vec![self.after("look", |world| {
                world.waiter = match world.gate().is_clear() {
                    true => Waiter::Through(true),
                    false => Waiter::Asleep(observed),
                };
            })],
            Waiter::Asleep(seen) => {
                let wake = (self.signal != seen).then(|| self.after("wake", observed));
                let time_out =
                    self.after("time out", |world| world.waiter = Waiter::Through(false));
                wake.into_iter().chain([time_out]).collect()
            }
            Waiter::Away | Waiter::Through(_) => Vec::new(),
        }
    }

    /// Commits a worker's result; does nothing if another worker has already committed it.
    fn finish(&mut self, worker: usize, leased: &Job) {
        self.held_jobs[worker] = None;
        let before = self.jobs.len();
        self.jobs.retain(|job| job.id != leased.id);
        if self.jobs.len() < before {
            self.written_nodes.push(leased.kind.to_string());
        }
        self.signal_pending |= worker == 0;
    }

    fn fail(&mut self, worker: usize, leased: &Job, error: &ProviderError) {
        let now = self.now();
        self.held_jobs[worker] = None;
        self.failures += 1;
        if let Some(job) = self.jobs.iter_mut().find(|job| job.id == leased.id) {
            job.fail(error, now, &RETRY);
        }
        self.signal_pending |= worker == 0;
    }

    /// A compact key that identifies the state.
    fn key(&self) -> String {
        use std::fmt::Write as _;
        let mut key = format!(
            "{} {} {} {} {} {} {:?}|",
            self.clock,
            self.planned,
            self.signal_pending,
            self.signal,
            self.crashes,
            self.failures,
            self.waiter
        );
        for job in self.jobs.iter().chain(self.held_jobs.iter().flatten()) {
            let due_at = match &job.state {
                JobState::Waiting { not_before } => format!("w{}", not_before.as_micros()),
                JobState::Leased { worker, until } => format!("{worker}{}", until.as_micros()),
                JobState::Dead => "dead".to_owned(),
            };
            write!(key, "{}{due_at}/{}|", job.kind.height(), job.failures).unwrap();
        }
        write!(key, "{:?}{:?}", self.held_jobs.each_ref().map(Option::is_some), self.written_nodes)
            .unwrap();
        key
    }

    fn check(&self) {
        let gate = self.gate();
        let lives = |job: &&Job| job.state != JobState::Dead;
        let failed = self.jobs.iter().filter(lives).filter(|job| job.failures > 0);
        let failed_height = failed.map(|job| job.kind.height()).min().unwrap_or(u8::MAX);
        // Neither a failed job nor a job that depends on it blocks the gate.
        let critical =
            |job: &&Job| job.kind.height() <= 1 && lives(job) && job.kind.height() < failed_height;
        assert_eq!(gate.is_clear(), self.jobs.iter().filter(critical).count() == 0, "{self:#?}");
        assert!(
            gate.pending.iter().all(|operation| !operation.description.contains("l2-")),
            "level 2 never holds"
        );
        let written_nodes: BTreeSet<&String> = self.written_nodes.iter().collect();
        assert_eq!(
            written_nodes.len(),
            self.written_nodes.len(),
            "nothing is made twice: {self:#?}"
        );
        // Every remaining job becomes due, now or after its delay or lease.
        let later = self.now().plus_micros(20 * STEP_MICROS);
        for job in self.jobs.iter().filter(|job| job.state != JobState::Dead) {
            assert!(job.is_due(later), "stranded for ever: {job:#?}");
        }
        // Work done in this process always wakes a sleeper in this process.
        if let Waiter::Asleep(observed) = self.waiter
            && gate.is_clear()
            && !self.signal_pending
            && self.signal == observed
        {
            let is_explained = self.crashes + self.failures > 0 || !self.written_nodes.is_empty();
            assert!(is_explained, "a lost wake-up: {self:#?}");
        }
    }
}

#[test]
fn the_gate_is_correct_in_every_order_of_events() {
    let mut seen: HashSet<String> = HashSet::new();
    let mut queue: VecDeque<World> = VecDeque::from([World::new()]);
    let mut steps: BTreeSet<&str> = BTreeSet::new();
    let mut outcomes: BTreeSet<bool> = BTreeSet::new();
    while let Some(world) = queue.pop_front() {
        world.check();
        if let Waiter::Through(clear) = world.waiter {
            outcomes.insert(clear);
        }
        for (name, next) in world.next() {
            steps.insert(name);
            if seen.insert(next.key()) {
                queue.push_back(next);
            }
        }
    }
    assert!(seen.len() > 5_000, "the world is worth exploring: {}", seen.len());
    assert_eq!(steps.len(), 12, "everything that can happen did: {steps:?}");
    assert_eq!(outcomes.len(), 2, "some got through with a clear gate, some with a timeout");
}

/// Checks that no wake-up is lost when the waiter's own process does all the work.
#[test]
fn no_wake_up_is_lost_within_a_process() {
    let mut seen: HashSet<String> = HashSet::new();
    let mut queue: VecDeque<World> = VecDeque::from([World::new()]);
    while let Some(world) = queue.pop_front() {
        if let Waiter::Asleep(observed) = world.waiter {
            let asleep_for_nothing =
                world.gate().is_clear() && !world.signal_pending && world.signal == observed;
            assert!(!asleep_for_nothing, "{world:#?}");
        }
        for (name, next) in world.next() {
            let is_explained = next.held_jobs[1].is_some() || next.crashes > 0;
            if name != "tick" && !is_explained && seen.insert(next.key()) {
                queue.push_back(next);
            }
        }
    }
    assert!(seen.len() > 300, "{}", seen.len());
}
