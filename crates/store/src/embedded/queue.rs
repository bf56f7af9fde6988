//! Group commit: writers that arrive together are applied together and share a sync.
//!
//! There is no thread of its own. The first writer leads: it opens a transaction and applies its
//! own plan, then those of whoever joined the line meanwhile, in order; so the next writers get
//! ready while the first are applied. It waits a moment for the writers of the last batches to
//! come back, so that they share its sync, then closes the batch, hands the lead to the first of
//! those that came too late, and only then waits for the disk; so the disk works on one batch
//! while the next is applied. Nobody is answered before the disk has what they wrote. A writer
//! that comes alone pays nothing for all this.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use treering_core::StoreError;
use treering_core::ports::StoreResult;

use super::ahead::Planned;
use super::vigil::{self, Vigils};

/// The most that one sync carries, so that nobody waits for an endless batch.
const LARGEST_BATCH: usize = 256;

/// How long a leader waits for others at the most: about what a sync costs.
const COMPANY: Duration = Duration::from_micros(500);

/// The line of writers.
#[derive(Default)]
pub(super) struct Queue {
    line: Mutex<Line>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Ticket>>,
    led: bool,
    /// How many were in the last batch, in line or with the disk when it was closed.
    last: usize,
    /// How many the next batch waits for: as many as at the last two, so that two who met once do
    /// not wait for each other again.
    expected: usize,
    /// Writers that wait for the disk.
    syncing: usize,
    vigils: Vigils,
}

/// One writer's place in the line.
struct Ticket {
    place: Mutex<Place>,
    changed: Condvar,
    /// Whether the writer has been told something: what it looks at while it is awake.
    told: AtomicBool,
}

struct Place {
    state: State,
    /// Whether the writer has to be woken.
    asleep: bool,
}

enum State {
    Waiting(Planned),
    /// A leader has the plan.
    Taken,
    /// This writer leads the next batch, its own plan first.
    Leads(Planned),
    /// The plan is given back, for its writer to drop.
    Done(StoreResult<()>, Option<Planned>),
}

impl Queue {
    /// Whether somebody is at work, for whom a plan would wait.
    pub(super) fn is_led(&self) -> bool {
        lock(&self.line).led
    }

    /// Commits a plan, alone or with others. `apply` applies a batch and answers for each of its
    /// plans; it is called by one thread at a time. `sync` makes durable what was applied before
    /// it was called; it may be called by several threads.
    pub(super) fn commit(
        &self,
        plan: Planned,
        apply: impl Fn(&mut Batch<'_>) -> Vec<StoreResult<()>>,
        sync: impl Fn() -> StoreResult<()>,
    ) -> StoreResult<()> {
        let mut line = lock(&self.line);
        if line.led {
            let ticket = Arc::new(Ticket::new(plan));
            line.waiting.push_back(Arc::clone(&ticket));
            let writers = line.expected;
            let awake = line.vigils.begin(writers);
            drop(line);
            if awake && !vigil::keep(&ticket.told) {
                lock(&self.line).vigils.end_in_vain();
            }
            match ticket.wait() {
                Turn::Done(result, spent) => {
                    drop(spent);
                    return result;
                }
                Turn::Lead(plan) => return self.lead(plan, apply, sync),
            }
        }
        line.led = true;
        drop(line);
        self.lead(plan, apply, sync)
    }

    fn lead(
        &self,
        own: Planned,
        apply: impl Fn(&mut Batch<'_>) -> Vec<StoreResult<()>>,
        sync: impl Fn() -> StoreResult<()>,
    ) -> StoreResult<()> {
        // Leadership passes on even if a plan panics: nobody may wait for ever.
        let handover = Handover(self);
        let mut batch = Batch::new(self, own);
        let results = apply(&mut batch);
        let syncing = Syncing::new(self, batch.plans.len());
        drop(handover);
        let synced = if results.iter().any(Result::is_ok) { sync() } else { Ok(()) };
        drop(syncing);
        let mut results = results.into_iter().map(|result| result.and_then(|()| synced.clone()));
        let result = results.next().unwrap_or_else(|| Err(lost()));
        let Batch { plans, followed, .. } = batch;
        for (writer, plan) in followed.into_iter().zip(plans.into_iter().skip(1)) {
            writer.answer(results.next().unwrap_or_else(|| Err(lost())), plan);
        }
        result
    }
}

/// What one transaction carries: the leader's plan and those of the writers that join it.
pub(super) struct Batch<'a> {
    queue: &'a Queue,
    /// The leader's first.
    plans: Vec<Planned>,
    followed: Vec<Followed>,
    /// How many were given out.
    given: usize,
    /// How long the leader may still wait for others.
    patience: Duration,
}

impl<'a> Batch<'a> {
    fn new(queue: &'a Queue, own: Planned) -> Self {
        Self { queue, plans: vec![own], followed: Vec::new(), given: 0, patience: COMPANY }
    }

    /// The next plan to apply; `None` closes the batch.
    pub(super) fn next(&mut self) -> Option<&mut Planned> {
        if self.given == self.plans.len() && !self.grow() {
            return None;
        }
        self.given += 1;
        self.plans.get_mut(self.given - 1)
    }

    /// The plans that were given out.
    pub(super) fn given(&mut self) -> &mut [Planned] {
        &mut self.plans[..self.given]
    }

    /// Takes in everybody who waits: what fails now is nobody's own fault.
    pub(super) fn give_all(&mut self) -> usize {
        self.patience = Duration::ZERO;
        while self.next().is_some() {}
        self.given
    }

    /// Takes in the next writer in line, having waited for one if more are to be expected.
    fn grow(&mut self) -> bool {
        let mut line = lock(&self.queue.line);
        loop {
            let full = self.plans.len() == LARGEST_BATCH;
            if !full && let Some(ticket) = line.waiting.pop_front() {
                let taken = std::mem::replace(&mut lock(&ticket.place).state, State::Taken);
                if let State::Waiting(plan) = taken {
                    self.plans.push(plan);
                    self.followed.push(Followed(Some(ticket)));
                    return true;
                }
                continue;
            }
            if full || self.plans.len() >= line.expected || self.patience.is_zero() {
                let present = self.plans.len() + line.waiting.len() + line.syncing;
                line.expected = present.min(line.last);
                line.last = present;
                return false;
            }
            // They are about to come: to be put to sleep and woken would take longer.
            drop(line);
            let since = Instant::now();
            std::thread::yield_now();
            self.patience = self.patience.saturating_sub(since.elapsed());
            line = lock(&self.queue.line);
        }
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
        let waiting = std::mem::replace(&mut lock(&next.place).state, State::Taken);
        if let State::Waiting(plan) = waiting {
            next.tell(State::Leads(plan));
        }
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
struct Followed(Option<Arc<Ticket>>);

impl Followed {
    fn answer(mut self, result: StoreResult<()>, plan: Planned) {
        if let Some(ticket) = self.0.take() {
            ticket.tell(State::Done(result, Some(plan)));
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Some(ticket) = self.0.take() {
            ticket.tell(State::Done(Err(lost()), None));
        }
    }
}

enum Turn {
    Lead(Planned),
    Done(StoreResult<()>, Option<Planned>),
}

impl Ticket {
    const fn new(plan: Planned) -> Self {
        let place = Place { state: State::Waiting(plan), asleep: false };
        Self { place: Mutex::new(place), changed: Condvar::new(), told: AtomicBool::new(false) }
    }

    fn tell(&self, state: State) {
        let mut place = lock(&self.place);
        place.state = state;
        let asleep = place.asleep;
        drop(place);
        self.told.store(true, Ordering::Release);
        if asleep {
            self.changed.notify_one();
        }
    }

    fn wait(&self) -> Turn {
        let mut place = lock(&self.place);
        loop {
            match std::mem::replace(&mut place.state, State::Taken) {
                State::Leads(plan) => return Turn::Lead(plan),
                State::Done(result, spent) => return Turn::Done(result, spent),
                waiting => place.state = waiting,
            }
            place.asleep = true;
            place = self.changed.wait(place).unwrap_or_else(PoisonError::into_inner);
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
