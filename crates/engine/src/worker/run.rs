//! Runs jobs: writes nodes and embeds texts, and commits each result together with the jobs that
//! follow from it.

use std::time::Instant;

use treering_core::ports::StoreResult;
use treering_core::{
    Conversation, ConversationKind, ConversationState, Job, JobEvent, JobEventKind, JobKind,
    JobState, Node, NodeSpec, Provenance, ProviderError, RetryAdvice, Timestamp, Write,
};

use super::{JobOutcome, Worker};
use crate::embed;
use crate::engine::Engine;
use crate::error::Result;
use crate::kill_points::{self, KillPoint};
use crate::project;
use crate::summarize::{WrittenSummary, summarize};
use crate::summary_input::SummaryInput;
use crate::tree_planner::{TreePlanner, policy_of};

/// A written node, or the reason why there is none.
type Attempt = std::result::Result<WrittenNode, ProviderError>;

/// A node and the data that its commit needs.
struct WrittenNode {
    node: Node,
    /// Text to append to the job event.
    note: String,
    /// Number of covered tool calls that had no result.
    unanswered: usize,
    /// The revision of the audit before the input was read.
    revision: u64,
}

impl Worker {
    /// Runs one job that writes a node or plans a project, or several that embed.
    pub(super) fn run_jobs(&self, engine: &Engine, jobs: &[Job]) -> Result<Vec<JobOutcome>> {
        if let [job @ Job { kind: JobKind::PlanProject, .. }] = jobs {
            return Ok(vec![project::run(engine, job)?]);
        }
        let revision = engine.reader()?.audit().revision()?;
        if let [Job { kind: JobKind::Summarize(task), .. }] = jobs {
            let job = &jobs[0];
            return Ok(vec![match self.write_node(engine, job, task)? {
                None => discard_stale_job(engine, job)?,
                Some(Err(error)) => self.fail(engine, job, error, revision)?,
                Some(Ok(finished)) => finish(engine, job, task, finished)?,
            }]);
        }
        kill_points::check(KillPoint::Read);
        let mut outcomes = embed::run(engine, jobs)?;
        kill_points::check(KillPoint::Finished);
        for (job, outcome) in jobs.iter().zip(&mut outcomes) {
            if let JobOutcome::Failed(error) = outcome {
                *outcome = self.fail(engine, job, error.clone(), revision)?;
            }
        }
        Ok(outcomes)
    }

    /// Writes the node of a task. Returns `None` if its input no longer exists.
    fn write_node(&self, engine: &Engine, job: &Job, task: &NodeSpec) -> Result<Option<Attempt>> {
        let key = engine.key(job.conversation);
        let reader = engine.reader()?;
        let revision = reader.audit().revision()?;
        let material = SummaryInput::read(&*reader, &key, task, engine.long_message_cache())?;
        drop(reader);
        let Some(material) = material else { return Ok(None) };
        kill_points::check(KillPoint::Read);
        let started = Instant::now();
        let written = summarize(engine, job, &material, &self.fallback_lock);
        let WrittenSummary { content, fidelity, by, note } = match written {
            Ok(written) => written,
            Err(error) => return Ok(Some(Err(error))),
        };
        kill_points::check(KillPoint::Written);
        let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let tokens = engine.tokenizer().count(&content.overview);
        let provenance = Provenance { by, at: engine.clock().now(), took_ms };
        let unanswered = material.unanswered;
        let node = material.into_node(task, content, tokens, fidelity, provenance);
        Ok(Some(Ok(WrittenNode { node, note, unanswered, revision })))
    }

    /// Records that a job failed, unless something was forgotten or amended since `revision`: the
    /// error may quote it, so the job only runs again.
    fn fail(
        &self,
        engine: &Engine,
        job: &Job,
        failure: ProviderError,
        revision: u64,
    ) -> Result<JobOutcome> {
        let (key, job, now) = (engine.key(job.conversation), job.clone(), engine.clock().now());
        let (retry, name) = (engine.work().retry, self.leases.worker().to_owned());
        engine.commit_with(engine.scope_of(key.id), move |reader| {
            let mut writes = Vec::new();
            // A worker that released the job or lost its lease must not change it.
            let leased = reader.job(&job)?.filter(|job| job.is_leased_by(&name));
            let Some(mut job) = leased else { return Ok((writes, JobOutcome::Stale)) };
            if reader.audit().revision()? != revision {
                job.release(now);
                writes.push(Write::PutJob(job));
                return Ok((writes, JobOutcome::Stale));
            }
            job.fail(&failure, now, &retry);
            let outcome = JobOutcome::Failed(failure.clone());
            if let RetryAdvice::Throttled(_) = failure.advice {
                writes.push(Write::PutJob(job));
                return Ok((writes, outcome));
            }
            let dead = job.state == JobState::Dead;
            let line = JobEvent {
                at: now,
                conversation: Some(key.id),
                job: job.id,
                kind: if dead { JobEventKind::Dead } else { JobEventKind::Fail },
                text: format!("{} failed: {}", job.kind, failure.reason),
                took_ms: None,
            };
            writes.extend([Write::PutJob(job), Write::AddJobEvent(line)]);
            Ok((writes, outcome))
        })
    }
}

/// Stores a node with the jobs that follow from it, and removes its own job.
fn finish(
    engine: &Engine,
    job: &Job,
    task: &NodeSpec,
    finished: WrittenNode,
) -> Result<JobOutcome> {
    let (task, WrittenNode { node, note, unanswered, revision }) = (task.clone(), finished);
    let (key, job, now) = (engine.key(job.conversation), job.clone(), engine.clock().now());
    let (owner, general) = (engine.clone(), engine.policy().clone());
    kill_points::check(KillPoint::Finishing);
    let outcome = engine.commit_with(engine.scope_of(key.id), move |reader| {
        let mut writes = Vec::new();
        let stored = reader.job(&job)?;
        let (Some(mut job), Some(mut conversation)) = (stored, reader.conversation(key.id)?) else {
            return Ok((writes, JobOutcome::Stale));
        };
        // The input may have been forgotten in the meantime, so the job runs again.
        if reader.audit().revision()? != revision {
            job.release(now);
            writes.push(Write::PutJob(job));
            return Ok((writes, JobOutcome::Stale));
        }
        // A tool result arrived in the meantime and belongs in the node, so the job runs again.
        if unanswered > 0 {
            let material = SummaryInput::read(reader, &key, &task, owner.long_message_cache())?;
            if material.is_some_and(|material| material.unanswered < unanswered) {
                job.release(now);
                writes.push(Write::PutJob(job));
                return Ok((writes, JobOutcome::Stale));
            }
        }
        let policy = policy_of(&general, &conversation)?;
        let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
        let mut node = node.clone();
        // An update may have set overrides since the job was leased.
        if let JobKind::Summarize(task) = &job.kind {
            node.spec.overrides.clone_from(&task.overrides);
            node.spec.replaces = task.replaces;
        }
        let before = conversation.tree_state.clone();
        store_node(&owner, &planner, &mut conversation, (node, &job), &note, &mut writes)?;
        if conversation.tree_state != before {
            writes.push(Write::PutConversation(conversation));
        }
        Ok((writes, JobOutcome::Done))
    })?;
    kill_points::check(KillPoint::Finished);
    Ok(outcome)
}

/// Adds the writes that store a node: it replaces its job and any older version of itself, and
/// plans the jobs that follow from it. Changes the tree state of the conversation, which the caller
/// writes. `writes` has the other writes of the commit.
pub(crate) fn store_node(
    engine: &Engine,
    planner: &TreePlanner<'_>,
    conversation: &mut Conversation,
    (mut node, job): (Node, &Job),
    note: &str,
    writes: &mut Vec<Write>,
) -> StoreResult<()> {
    let (id, now) = (conversation.id, planner.now);
    let is_of_project = conversation.kind() == ConversationKind::Project;
    let follows = match is_of_project {
        true => Vec::new(),
        false => planner.plan_parent(conversation, &mut node)?,
    };
    let is_rewrite = !is_of_project && planner.node(node.level(), node.ordinal())?.is_some();
    let mut line = released(job, &node, now);
    line.text.push_str(note);
    let embedded = embed::plan_node_job(engine, planner.reader, id, &node, now)?;
    writes.extend([Write::PutNode(id, Box::new(node.clone())), Write::RemoveJob(job.clone())]);
    writes.push(Write::AddJobEvent(line));
    writes.extend(embedded);
    writes.extend(follows);
    if !is_of_project {
        planner.plan_top_after(conversation, job, Some(&node), writes)?;
    }
    // An open session changes its project's tree only when something of it is regenerated.
    if is_of_project || is_rewrite || conversation.state != ConversationState::Open {
        writes.extend(project::job_of(planner.reader, conversation, now)?);
    }
    Ok(())
}

/// Removes a job whose input no longer exists.
fn discard_stale_job(engine: &Engine, job: &Job) -> Result<JobOutcome> {
    let (key, job, now) = (engine.key(job.conversation), job.clone(), engine.clock().now());
    let general = engine.policy().clone();
    engine.commit_with(engine.scope_of(key.id), move |reader| {
        let mut writes = vec![Write::RemoveJob(job.clone())];
        if let Some(mut conversation) = reader.conversation(key.id)? {
            let (policy, before) =
                (policy_of(&general, &conversation)?, conversation.tree_state.clone());
            let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
            match conversation.kind() {
                ConversationKind::Project => {
                    writes.extend(project::job_of(reader, &conversation, now)?);
                }
                _ => planner.plan_top_after(&mut conversation, &job, None, &mut writes)?,
            }
            if conversation.tree_state != before {
                writes.push(Write::PutConversation(conversation));
            }
        }
        Ok((writes, JobOutcome::Stale))
    })
}

/// The event that records the job's result.
fn released(job: &Job, node: &Node, now: Timestamp) -> JobEvent {
    let (kind, from, to, by) = (&job.kind, node.source.chars, node.chars, &node.provenance.by);
    let text = format!("{kind} done by {by}: {from} → {to} chars");
    JobEvent {
        at: now,
        conversation: Some(job.conversation),
        job: job.id,
        kind: JobEventKind::Release,
        text,
        took_ms: Some(node.provenance.took_ms),
    }
}
