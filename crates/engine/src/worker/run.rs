//! Running jobs: writes nodes, has texts embedded, and commits the result together with what follows from it.

use std::time::Instant;

use treering_core::commit::{LogEvent, LogLine};
use treering_core::node::Making;
use treering_core::ports::{JobFilter, StoreResult};
use treering_core::{Advice, Job, JobKind, JobState, Node, ProviderError, Reader, Task, Timestamp, Write};

use super::{Ran, Worker};
use crate::embed;
use crate::error::Result;
use crate::faults::{self, Fault};
use crate::grow::{Grower, policy_of};
use crate::material::Material;
use crate::memory::Memory;
use crate::summarise::{Written, summarise};

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

impl Worker {
    /// Runs jobs: one that writes a node, or several that embed.
    pub(super) fn run_jobs(&self, memory: &Memory, jobs: &[Job]) -> Result<Vec<Ran>> {
        if let [Job { kind: JobKind::Summarise(task), .. }] = jobs {
            let job = &jobs[0];
            return Ok(vec![match self.write_node(memory, job, task)? {
                None => discard_stale_job(memory, job)?,
                Some(Err(error)) => self.fail(memory, job, error)?,
                Some(Ok(finished)) => finish(memory, job, task, finished)?,
            }]);
        }
        faults::reach(Fault::Read);
        let ran = embed::run(memory, jobs)?;
        faults::reach(Fault::Finished);
        for (job, ran) in jobs.iter().zip(&ran) {
            if let Ran::Failed(error) = ran {
                self.fail(memory, job, error.clone())?;
            }
        }
        Ok(ran)
    }

    /// Has the node of a task written. Nothing when what it covers is gone.
    fn write_node(&self, memory: &Memory, job: &Job, task: &Task) -> Result<Option<Attempt>> {
        let key = memory.key(job.conversation);
        let material = Material::read(&*memory.reader()?, &key, task, memory.last_long())?;
        let Some(material) = material else { return Ok(None) };
        faults::reach(Fault::Read);
        let started = Instant::now();
        let written = summarise(memory, job, &material, &self.stand_in);
        let Written { content, fidelity, by, note } = match written {
            Ok(written) => written,
            Err(error) => return Ok(Some(Err(error))),
        };
        faults::reach(Fault::Written);
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let tokens = memory.tokenizer().count(&content.overview);
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
            making: Making { by, at: memory.clock().now(), took_ms },
            grounded: fidelity.grounded,
            retained: fidelity.retained,
            invented: fidelity.invented,
        };
        Ok(Some(Ok(Finished { node, note, unanswered: material.unanswered })))
    }

    fn fail(&self, memory: &Memory, job: &Job, error: ProviderError) -> Result<Ran> {
        let (key, job, now) = (memory.key(job.conversation), job.clone(), memory.clock().now());
        let (retry, name) = (memory.work().retry, self.leases.worker().to_owned());
        let failure = error.clone();
        memory.commit_with(memory.scope_of(key.id), move |reader| {
            let mut writes = Vec::new();
            // Who gave the job back, or was too late for it, has no say about it.
            let held = reader.job(&job)?.filter(|job| job.is_held_by(&name));
            let Some(mut job) = held else { return Ok((writes, ())) };
            job.fail(&failure, now, &retry);
            if let Advice::Wait(_) = failure.advice {
                writes.push(Write::PutJob(job));
                return Ok((writes, ()));
            }
            let dead = job.state == JobState::Dead;
            let line = LogLine {
                at: now,
                conversation: Some(key.id),
                job: job.id,
                event: if dead { LogEvent::Dead } else { LogEvent::Fail },
                text: format!("{} failed: {}", job.kind, failure.reason),
                took_ms: None,
            };
            writes.extend([Write::PutJob(job), Write::AddLog(line)]);
            Ok((writes, ()))
        })?;
        Ok(Ran::Failed(error))
    }
}

/// Stores a node with everything that follows from it, and takes its job away.
fn finish(memory: &Memory, job: &Job, task: &Task, finished: Finished) -> Result<Ran> {
    let (task, Finished { node, note, unanswered }) = (task.clone(), finished);
    let (key, job, now) = (memory.key(job.conversation), job.clone(), memory.clock().now());
    let (owner, general) = (memory.clone(), memory.policy().clone());
    faults::reach(Fault::Finishing);
    let ran = memory.commit_with(memory.scope_of(key.id), move |reader| {
        let mut writes = Vec::new();
        let stored = reader.job(&job)?;
        let (Some(mut job), Some(mut conversation)) = (stored, reader.conversation(key.id)?) else {
            return Ok((writes, Ran::Moot));
        };
        // A result that came meanwhile belongs into it: it is written once more.
        if unanswered > 0 {
            let material = Material::read(reader, &key, &task, owner.last_long())?;
            if material.is_some_and(|material| material.unanswered < unanswered) {
                job.release(now);
                writes.push(Write::PutJob(job));
                return Ok((writes, Ran::Moot));
            }
        }
        let policy = policy_of(&general, &conversation)?;
        let grower = Grower { reader, key: &key, policy: &policy, now };
        let (mut node, before) = (node.clone(), conversation.growth.clone());
        let follows = grower.finished(&mut conversation, &mut node)?;
        let mut line = released(reader, &job, &node, now)?;
        line.text.push_str(&note);
        if conversation.growth != before {
            writes.push(Write::PutConversation(conversation));
        }
        let embedded = embed::node(&owner, reader, key.id, &node, now)?;
        writes.extend([Write::PutNode(key.id, Box::new(node)), Write::RemoveJob(job)]);
        writes.push(Write::AddLog(line));
        writes.extend(embedded);
        writes.extend(follows);
        Ok((writes, Ran::Done))
    })?;
    faults::reach(Fault::Finished);
    Ok(ran)
}

/// Removes a job whose input is gone.
fn discard_stale_job(memory: &Memory, job: &Job) -> Result<Ran> {
    let job = job.clone();
    memory.commit_with(memory.scope_of(job.conversation), move |_| {
        let writes = vec![Write::RemoveJob(job.clone())];
        Ok((writes, Ran::Moot))
    })
}

/// The line that says what was done, how long it took and what remains.
fn released(reader: &dyn Reader, job: &Job, node: &Node, now: Timestamp) -> StoreResult<LogLine> {
    const COUNTED: usize = 20;
    let filter = JobFilter { limit: COUNTED + 2, ..JobFilter::of(job.conversation) };
    let remain = reader.jobs(&filter)?.iter().filter(|other| other.id != job.id).count();
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
