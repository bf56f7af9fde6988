//! Group commit: writers that arrive together are applied together and share a sync.
//!
//! There is no thread of its own. The first writer leads: it applies everything that waits, in
//! order, hands the lead to the first of those that arrived meanwhile, and only then waits for
//! the disk; so the disk works on one batch while the next is applied. Nobody is answered before
//! the disk has what they wrote. A leader waits a moment for the writers of the last batches to
//! come back, so that they share its sync. A writer that comes alone pays nothing for all this.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::StoreError;
use treering_core::ports::{Plan, StoreResult};

/// The most that one sync carries, so that nobody waits for an endless batch.
const LARGEST_BATCH: usize = 256;

/// How long a leader waits for others at the most: about what a sync costs.
const COMPANY: Duration = Duration::from_micros(500);

/// The line of writers.
#[derive(Default)]
pub(super) struct Queue {
    line: Mutex<Line>,
    /// Enough have joined the line.
    changed: Condvar,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Ticket>>,
    led: bool,
    /// How many the next batch waits for: as many as were in line or with the disk when the last
    /// one was gathered.
    expected: usize,
    /// Writers that wait for the disk.
    syncing: usize,
    /// Whether the leader waits for its batch to grow.
    growing: bool,
}

/// One writer's place in the line.
struct Ticket {
    state: Mutex<State>,
    changed: Condvar,
}

enum State {
    Waiting(Plan),
    /// A leader has the plan.
    Taken,
    /// This writer leads the next batch, its own plan first.
    Leads(Plan),
    Done(StoreResult<()>),
}

impl Queue {
    /// Commits a plan, alone or with others. `apply` applies a batch and answers for each plan;
    /// it is called by one thread at a time. `sync` makes durable what was applied before it was
    /// called; it may be called by several threads.
    pub(super) fn commit(
        &self,
        plan: Plan,
        apply: impl Fn(&mut [Plan]) -> Vec<StoreResult<()>>,
        sync: impl Fn() -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut line = lock(&self.line);
        if line.led {
            let ticket =
                Arc::new(Ticket { state: Mutex::new(State::Waiting(plan)), changed: Condvar::new() });
            line.waiting.push_back(Arc::clone(&ticket));
            if line.growing && line.waiting.len() + 1 >= line.expected {
                self.changed.notify_one();
            }
            drop(line);
            match ticket.wait() {
                Turn::Done(result) => return result,
                Turn::Lead(plan) => return self.lead(plan, apply, sync),
            }
        }
        line.led = true;
        drop(line);
        self.lead(plan, apply, sync)
    }

    fn lead(
        &self,
        own: Plan,
        apply: impl Fn(&mut [Plan]) -> Vec<StoreResult<()>>,
        sync: impl Fn() -> StoreResult<()>,
    ) -> StoreResult<()> {
        // Leadership passes on even if a plan panics: nobody may wait for ever.
        let handover = Handover(self);
        let (mut plans, tickets) = self.gather(own);
        let results = apply(&mut plans);
        let syncing = Syncing::new(self, plans.len());
        drop(handover);
        let synced = if results.iter().any(Result::is_ok) { sync() } else { Ok(()) };
        drop(syncing);
        let mut results = results.into_iter().map(|result| result.and_then(|()| synced.clone()));
        let result = results.next().unwrap_or_else(|| Err(lost()));
        for ticket in tickets {
            ticket.set(State::Done(results.next().unwrap_or_else(|| Err(lost()))));
        }
        result
    }

    /// The leader's plan and those that wait, in order.
    fn gather(&self, own: Plan) -> (Vec<Plan>, Vec<Followed>) {
        let mut line = lock(&self.line);
        let waited = Instant::now();
        line.growing = true;
        while line.waiting.len() + 1 < line.expected {
            let left = COMPANY.saturating_sub(waited.elapsed());
            if left.is_zero() {
                break;
            }
            let (back, _) = self.changed.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner);
            line = back;
        }
        line.growing = false;
        let count = line.waiting.len().min(LARGEST_BATCH - 1);
        line.expected = line.waiting.len() + 1 + line.syncing;
        let mut plans = vec![own];
        let mut tickets = Vec::with_capacity(count);
        for ticket in line.waiting.drain(..count) {
            let taken = std::mem::replace(&mut *lock(&ticket.state), State::Taken);
            if let State::Waiting(plan) = taken {
                plans.push(plan);
                tickets.push(Followed(ticket));
            }
        }
        (plans, tickets)
    }
}

/// Makes the next writer in line the leader when the current one is through.
struct Handover<'a>(&'a Queue);

impl Drop for Handover<'_> {
    fn drop(&mut self) {
        let mut line = lock(&self.0.line);
        let Some(next) = line.waiting.pop_front() else {
            line.led = false;
            return;
        };
        drop(line);
        let mut state = lock(&next.state);
        if let State::Waiting(plan) = std::mem::replace(&mut *state, State::Taken) {
            *state = State::Leads(plan);
        }
        drop(state);
        next.changed.notify_one();
    }
}

/// Writers that wait for the disk.
struct Syncing<'a>(&'a Queue, usize);

impl<'a> Syncing<'a> {
    fn new(queue: &'a Queue, writers: usize) -> Self {
        lock(&queue.line).syncing += writers;
        Self(queue, writers)
    }
}

impl Drop for Syncing<'_> {
    fn drop(&mut self) {
        lock(&self.0.line).syncing -= self.1;
    }
}

/// A writer that was promised an answer; it gets one even if the leader does not come back.
struct Followed(Arc<Ticket>);

impl Followed {
    fn set(&self, state: State) {
        *lock(&self.0.state) = state;
        self.0.changed.notify_one();
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if matches!(*lock(&self.0.state), State::Taken) {
            self.set(State::Done(Err(lost())));
        }
    }
}

enum Turn {
    Lead(Plan),
    Done(StoreResult<()>),
}

impl Ticket {
    fn wait(&self) -> Turn {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Leads(plan) => return Turn::Lead(plan),
                State::Done(result) => return Turn::Done(result),
                waiting => *state = waiting,
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn lost() -> StoreError {
    StoreError::Failed {
        path: Default::default(),
        detail: "the writer that led this commit stopped; nothing was written".into(),
    }
}

/// A plan that panicked left no half-made state behind these locks, so poison is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
