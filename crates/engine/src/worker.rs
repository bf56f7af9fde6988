//! The worker: takes due jobs under a lease, runs them, and commits what they made together with
//! what follows from it. Several workers, in one process or many, share the work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use treering_core::commit::{LogEvent, LogLine};
use treering_core::node::Making;
use treering_core::ports::JobFilter;
use treering_core::{
    Advice, Commit, ConversationId, Job, JobKind, Node, ProviderError, Task, TenantId, Write,
};

use crate::embed;
use crate::error::{Error, Result};
use crate::faults::{self, Fault};
use crate::grow::{Grower, policy_of};
use crate::leases::Leases;
use crate::material::Material;
use crate::memory::Memory;
use crate::summarise::{Written, summarise};

/// How many jobs a thread takes at once from a summariser on this machine.
const LOCAL_BATCH: usize = 4;
/// How many texts' jobs are embedded at once.
const EMBEDDED_AT_ONCE: usize = 32;
/// How often a worker in a pause looks whether it should stop.
const PAUSE_STEP: Duration = Duration::from_millis(100);
/// How often an idle worker looks for work that other processes planned.
const IDLE: Duration = Duration::from_millis(500);
/// How often who waits for a worker looks whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Which jobs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Scope {
    /// Only those of this conversation.
    pub conversation: Option<ConversationId>,
    /// Only those up to this height: 0 for turns, then the levels.
    pub up_to: Option<u8>,
    /// Only those of exactly this height.
    pub only: Option<u8>,
}

/// What became of one run of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Ran {
    /// It is done.
    Done,
    /// Somebody else had done it, or what it works on is gone.
    Moot,
    /// It failed, and is tried again or was given up.
    Failed(ProviderError),
}

/// How much a worker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Worked {
    /// Jobs that are done.
    pub done: u32,
    /// Runs that failed.
    pub failed: u32,
}

/// A node that was written, or why there is none.
type Attempt = std::result::Result<Finished, ProviderError>;

/// A node that was written.
struct Finished {
    node: Node,
    /// What is to be said about it in the log.
    note: String,
    /// The tool calls in what it covers that had no result.
    unanswered: usize,
}

/// Runs the jobs of a memory.
#[derive(Clone)]
pub struct Worker {
    memory: Memory,
    leases: Arc<Leases>,
    /// Whose turn it is to have a stand-in write.
    stand_in: Arc<Mutex<()>>,
}

impl Worker {
    /// A worker with a name of its own.
    pub fn new(memory: Memory) -> Result<Self> {
        let mut random = [0; 6];
        getrandom::fill(&mut random).map_err(|error| {
            treering_core::Invalid::new("worker", format!("the system gives no randomness: {error}"))
        })?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{}-{digits}", std::process::id());
        let leases = Arc::new(Leases::new(memory.clone(), name));
        Ok(Self { memory, leases, stand_in: Arc::default() })
    }

    /// Runs due jobs, several at once, until none is due any more. `after` is told of each run.
    pub fn run(&self, scope: &Scope, after: &(dyn Fn(&Job, &Ran) + Sync)) -> Result<Worked> {
        self.run_until(&AtomicBool::new(false), scope, after)
    }

    /// The same, until `stop` is set: jobs at hand are finished, no other is taken.
    pub fn run_until(
        &self,
        stop: &AtomicBool,
        scope: &Scope,
        after: &(dyn Fn(&Job, &Ran) + Sync),
    ) -> Result<Worked> {
        // Threads cost more than looking, and the one in the background looks whenever something was stored.
        if self.memory.jobs(&self.due(scope, 1))?.is_empty() {
            return Ok(Worked::default());
        }
        let worked = Mutex::new(Worked::default());
        let running = AtomicBool::new(true);
        let settings = self.memory.work();
        let first_error = thread::scope(|threads| {
            let keeper = threads.spawn(|| self.leases.keep(&running));
            let hands: Vec<_> = (0..settings.concurrency.max(1))
                .map(|_| threads.spawn(|| self.lend_a_hand(scope, after, &worked, [&running, stop])))
                .collect();
            let ends: Vec<Result<()>> =
                hands.into_iter().map(|hand| hand.join().unwrap_or_else(panicked)).collect();
            running.store(false, Ordering::Release);
            self.memory.signal().raise();
            drop(keeper.join());
            ends.into_iter().find_map(Result::err)
        });
        match first_error {
            Some(error) => Err(error),
            None => Ok(*worked.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Runs jobs in the background until the handle is dropped.
    pub fn spawn(self) -> WorkerHandle {
        let stop = Arc::new(AtomicBool::new(false));
        let (leases, memory, asked) = (Arc::clone(&self.leases), self.memory.clone(), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut next_change = Instant::now();
            while !asked.load(Ordering::Acquire) {
                let mark = self.memory.signal().mark();
                let worked = self.run_until(&asked, &Scope::default(), &|_, _| {});
                if worked.is_err() || worked.is_ok_and(|worked| worked == Worked::default()) {
                    if Instant::now() >= next_change && self.reindex_if_wanted().is_err() {
                        next_change =
                            Instant::now() + Duration::from_millis(self.memory.work().retry.base_delay_ms);
                    }
                    self.memory.signal().wait(mark, IDLE);
                }
            }
        });
        WorkerHandle { stop, leases, memory, thread: Some(thread) }
    }

    /// Goes over to the vectors of the configured model, if search does not go by them yet. What
    /// fails is tried again later, and `status` shows that it is not done.
    fn reindex_if_wanted(&self) -> Result<()> {
        if self.memory.wants_reindexing()? {
            self.memory.reindex(&mut |_| ())?;
        }
        Ok(())
    }

    /// One thread's share of the work.
    fn lend_a_hand(
        &self,
        scope: &Scope,
        after: &(dyn Fn(&Job, &Ran) + Sync),
        worked: &Mutex<Worked>,
        [running, stop]: [&AtomicBool; 2],
    ) -> Result<()> {
        let remote = !self.memory.works_at_once();
        let batch = if remote { 1 } else { LOCAL_BATCH };
        while running.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
            let mark = self.memory.signal().mark();
            let jobs = self.take_some(scope, batch)?;
            faults::reach(Fault::Leased);
            if jobs.is_empty() {
                // What others are at may make more work: it is over when nobody has any left.
                if self.leases.is_empty() {
                    return Ok(());
                }
                self.memory.signal().wait(mark, Duration::from_millis(20));
                continue;
            }
            let mut pause_ms = if remote { self.memory.work().batch_delay_ms } else { 0 };
            self.leases.add(&jobs);
            let (embeddings, others): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(embed::is_embedding);
            let together = std::iter::once(embeddings).filter(|jobs| !jobs.is_empty());
            for jobs in together.chain(others.into_iter().map(|job| vec![job])) {
                let ran = self.run_jobs(&jobs);
                self.leases.remove(&jobs);
                self.memory.signal().raise();
                let ran = ran.inspect_err(|_| running.store(false, Ordering::Release))?;
                for (job, ran) in jobs.iter().zip(&ran) {
                    match ran {
                        Ran::Done => lock(worked).done += 1,
                        Ran::Failed(ProviderError { advice: Advice::Wait(ms), .. }) => {
                            pause_ms = pause_ms.max(*ms);
                            continue;
                        }
                        Ran::Failed(_) => lock(worked).failed += 1,
                        Ran::Moot => {}
                    }
                    after(job, ran);
                }
            }
            let until = Instant::now() + Duration::from_millis(pause_ms);
            while running.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) && Instant::now() < until {
                thread::sleep(PAUSE_STEP.min(until.saturating_duration_since(Instant::now())));
            }
        }
        Ok(())
    }

    /// Leases jobs that are due: many turns to embed, or else a few others.
    fn take_some(&self, scope: &Scope, batch: usize) -> Result<Vec<Job>> {
        if scope.only.is_none_or(|only| only == 0) {
            let turns = self.take(&Scope { only: Some(0), ..*scope }, EMBEDDED_AT_ONCE)?;
            if !turns.is_empty() {
                return Ok(turns);
            }
        }
        self.take(scope, batch)
    }

    /// The jobs of a scope that are due now.
    fn due(&self, scope: &Scope, limit: usize) -> JobFilter {
        let heights = match (scope.only, scope.up_to) {
            (Some(only), _) => Some((only, only)),
            (None, Some(most)) => Some((0, most)),
            (None, None) => None,
        };
        let due = Some(self.memory.clock().now());
        JobFilter { conversation: scope.conversation, heights, due, ..JobFilter::all(limit) }
    }

    /// Leases jobs that are due.
    fn take(&self, scope: &Scope, limit: usize) -> Result<Vec<Job>> {
        let filter = self.due(scope, limit);
        // Looking costs little; the write lock is taken only when there is something to take.
        if self.memory.jobs(&filter)?.is_empty() {
            return Ok(Vec::new());
        }
        let now = self.memory.clock().now();
        let (tenant, name) = (self.memory.tenant().clone(), self.leases.worker().to_owned());
        self.memory.commit_with(move |reader| {
            let mut jobs = reader.jobs(&tenant, &filter)?;
            jobs.iter_mut().for_each(|job| job.lease(&name, now));
            let writes = jobs.iter().cloned().map(Write::PutJob).collect();
            Ok((Commit { tenant: tenant.clone(), writes }, jobs))
        })
    }

    /// Runs jobs: one that writes a node, or several that embed.
    fn run_jobs(&self, jobs: &[Job]) -> Result<Vec<Ran>> {
        if let [Job { kind: JobKind::Summarise(task), .. }] = jobs {
            let job = &jobs[0];
            return Ok(vec![match self.write_node(job, task)? {
                None => self.drop_moot(job)?,
                Some(Err(error)) => self.fail(job, error)?,
                Some(Ok(finished)) => self.finish(job, task, finished)?,
            }]);
        }
        faults::reach(Fault::Read);
        let ran = embed::run(&self.memory, jobs)?;
        faults::reach(Fault::Finished);
        for (job, ran) in jobs.iter().zip(&ran) {
            if let Ran::Failed(error) = ran {
                self.fail(job, error.clone())?;
            }
        }
        Ok(ran)
    }

    /// Has the node of a task written. Nothing when what it covers is gone.
    fn write_node(&self, job: &Job, task: &Task) -> Result<Option<Attempt>> {
        let key = self.memory.key(job.conversation);
        let material = Material::read(&*self.memory.store().reader()?, &key, task, self.memory.last_long())?;
        let Some(material) = material else { return Ok(None) };
        faults::reach(Fault::Read);
        let started = Instant::now();
        let written = summarise(&self.memory, job, &material, &self.stand_in);
        let Written { content, fidelity, by, note } = match written {
            Ok(written) => written,
            Err(error) => return Ok(Some(Err(error))),
        };
        faults::reach(Fault::Written);
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let tokens = self.memory.tokenizer().count(&content.overview);
        let node = Node {
            id: material.id,
            task: Task { covers: material.covers, ..task.clone() },
            parent: None,
            superseded: false,
            dirty: false,
            chars: treering_core::text::chars(&content.overview),
            tokens,
            content,
            range_start: material.range_start,
            range_end: material.range_end,
            source: material.source,
            making: Making { by, at: self.memory.clock().now(), took_ms },
            grounded: fidelity.grounded,
            retained: fidelity.retained,
            invented: fidelity.invented,
        };
        Ok(Some(Ok(Finished { node, note, unanswered: material.unanswered })))
    }

    /// Stores a node with everything that follows from it, and takes its job away.
    fn finish(&self, job: &Job, task: &Task, finished: Finished) -> Result<Ran> {
        let (task, Finished { node, note, unanswered }) = (task.clone(), finished);
        let (key, job, now) = (self.memory.key(job.conversation), job.clone(), self.memory.clock().now());
        let (memory, general) = (self.memory.clone(), self.memory.policy().clone());
        faults::reach(Fault::Finishing);
        let ran = self.memory.commit_with(move |reader| {
            let mut commit = Commit { tenant: key.tenant.clone(), writes: Vec::new() };
            let stored = reader.job(&key.tenant, &job)?;
            let (Some(mut job), Some(mut conversation)) = (stored, reader.conversation(&key)?) else {
                return Ok((commit, Ran::Moot));
            };
            // A result that came meanwhile belongs into it: it is written once more.
            if unanswered > 0 {
                let material = Material::read(reader, &key, &task, memory.last_long())?;
                if material.is_some_and(|material| material.unanswered < unanswered) {
                    job.release(now);
                    commit.writes.push(Write::PutJob(job));
                    return Ok((commit, Ran::Moot));
                }
            }
            let policy = policy_of(&general, &conversation)?;
            let grower = Grower { reader, key: &key, policy: &policy, now };
            let (mut node, before) = (node.clone(), conversation.growth.clone());
            let follows = grower.finished(&mut conversation, &mut node)?;
            let mut line = released(reader, &key.tenant, &job, &node, now)?;
            line.text.push_str(&note);
            if conversation.growth != before {
                commit.writes.push(Write::PutConversation(conversation));
            }
            let embedded = embed::node(&memory, reader, key.id, &node, now)?;
            commit.writes.extend([Write::PutNode(key.id, Box::new(node)), Write::RemoveJob(job)]);
            commit.writes.push(Write::AddLog(line));
            commit.writes.extend(embedded);
            commit.writes.extend(follows);
            Ok((commit, Ran::Done))
        })?;
        faults::reach(Fault::Finished);
        Ok(ran)
    }

    fn fail(&self, job: &Job, error: ProviderError) -> Result<Ran> {
        let (key, job, now) = (self.memory.key(job.conversation), job.clone(), self.memory.clock().now());
        let (retry, name) = (self.memory.work().retry, self.leases.worker().to_owned());
        let failure = error.clone();
        self.memory.commit_with(move |reader| {
            let mut commit = Commit { tenant: key.tenant.clone(), writes: Vec::new() };
            // Who gave the job back, or was too late for it, has no say about it.
            let held = reader.job(&key.tenant, &job)?.filter(|job| job.is_held_by(&name));
            let Some(mut job) = held else { return Ok((commit, ())) };
            job.fail(&failure, now, &retry);
            if let Advice::Wait(_) = failure.advice {
                commit.writes.push(Write::PutJob(job));
                return Ok((commit, ()));
            }
            let dead = job.state == treering_core::JobState::Dead;
            let line = LogLine {
                at: now,
                conversation: Some(key.id),
                job: job.id,
                event: if dead { LogEvent::Dead } else { LogEvent::Fail },
                text: format!("{} failed: {}", job.kind, failure.reason),
                took_ms: None,
            };
            commit.writes.extend([Write::PutJob(job), Write::AddLog(line)]);
            Ok((commit, ()))
        })?;
        Ok(Ran::Failed(error))
    }

    fn drop_moot(&self, job: &Job) -> Result<Ran> {
        let (tenant, job) = (self.memory.tenant().clone(), job.clone());
        self.memory.commit_with(move |_| {
            let writes = vec![Write::RemoveJob(job.clone())];
            Ok((Commit { tenant: tenant.clone(), writes }, Ran::Moot))
        })
    }
}

/// The line that says what was done, how long it took and what remains.
fn released(
    reader: &dyn treering_core::Reader,
    tenant: &TenantId,
    job: &Job,
    node: &Node,
    now: treering_core::Timestamp,
) -> treering_core::ports::StoreResult<LogLine> {
    const COUNTED: usize = 20;
    let filter = JobFilter { limit: COUNTED + 2, ..JobFilter::of(job.conversation) };
    let remain = reader.jobs(tenant, &filter)?.iter().filter(|other| other.id != job.id).count();
    let remain = if remain > COUNTED { format!("more than {COUNTED}") } else { remain.to_string() };
    let after = now.as_micros().saturating_sub(job.planned_at.as_micros()).max(0) / 1000;
    let (kind, from, to, by) = (&job.kind, node.source.chars, node.chars, &node.making.by);
    let text =
        format!("{kind} done by {by}: {from} → {to} chars, {after} ms after planning, {remain} remain");
    Ok(LogLine {
        at: now,
        conversation: Some(job.conversation),
        job: job.id,
        event: LogEvent::Release,
        text,
        took_ms: Some(node.making.took_ms),
    })
}

/// A worker in the background. It stops, after the jobs at hand, when this is dropped.
#[must_use]
pub struct WorkerHandle {
    stop: Arc<AtomicBool>,
    leases: Arc<Leases>,
    memory: Memory,
    thread: Option<JoinHandle<()>>,
}

impl WorkerHandle {
    /// Has it take no more jobs. It is not waited for.
    pub fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.memory.signal().raise();
    }

    /// Stops it, and waits for the jobs at hand until a moment at the most. Those that still run then are given back
    /// for another worker to take; their calls are left alone, and what they bring harms nothing. How many these are.
    pub fn stop_by(mut self, deadline: Instant) -> Result<usize> {
        self.ask_to_stop();
        let Some(thread) = self.thread.take() else { return Ok(0) };
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return self.leases.give_back();
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(0)
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.ask_to_stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Result<()> {
    let why = "a thread of it panicked; its jobs run again when their leases end";
    Err(Error::Invalid(treering_core::Invalid::new("worker", why)))
}
