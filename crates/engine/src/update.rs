//! `update`: completes the tree of a conversation or rebuilds it, under the conversation's policy
//! or a one-time override.

use treering_core::chat::Usage;
use treering_core::ports::{JobFilter, NodeFilter, StoreResult};
use treering_core::spend::{Money, Price};
use treering_core::{
    Assignment, ContentHash, Conversation, ConversationId, ConversationKey, ConversationKind,
    ConversationState, Invalid, Job, JobEvent, JobEventKind, JobId, JobKind, JobState, Level, Node,
    Policy, Reader, StoreError, Timestamp, TreeState, Write,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::overlay::Overlay;
use crate::pacing::UpdateLimits;
use crate::project;
use crate::rehearsal::{Rehearsal, kept_chars};
use crate::summary_input::{LongMessageCache, SummaryInput};
use crate::tree_planner::{TreePlanner, policy_of};

/// The extent of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UpdateStrategy {
    /// Missing, dirty and failed nodes, and those that a fallback wrote.
    #[default]
    Incremental,
    /// The whole tree, from the messages up.
    Full,
}

/// An update of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Update {
    /// The extent of the update.
    pub strategy: UpdateStrategy,
    /// Only this level; with [`UpdateStrategy::Full`], this level and those above it.
    pub level: Option<Level>,
    /// Policy overrides for this update only.
    pub policy: Vec<Assignment>,
    /// The pace of its jobs in this process.
    pub pace: UpdateLimits,
}

/// The estimated work of an update.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Estimate {
    /// Jobs of each level, from the first up. The last entry counts all levels from the eighth up.
    pub jobs: [u32; 8],
    /// Number of summarizer calls.
    pub calls: u32,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Number of nodes that are dropped.
    pub dropped_nodes: u32,
    /// Number of dropped nodes that a caller wrote.
    pub dropped_caller_nodes: u32,
    /// The cost, if the price of the model is known.
    pub cost: Option<Money>,
    /// Whether a local summarizer wrote the summaries, so that the figures are exact.
    pub exact: bool,
}

/// A planned update.
#[derive(Debug, Clone)]
pub struct PlannedUpdate {
    /// Its id in the job events.
    pub id: JobId,
    /// The work of the jobs that are queued now. More follow from them.
    pub estimate: Estimate,
    /// Number of jobs now queued for this conversation.
    pub queued: u32,
}

impl Engine {
    /// Rehearses an update without writing anything: all jobs that it plans, and those that
    /// follow from them. With a local summarizer the result is exact.
    pub fn estimate(&self, id: ConversationId, update: &Update) -> Result<Estimate> {
        let reader = self.reader()?;
        let updater = self.updater(id, update)?;
        let (writes, planned) = updater.plan(&*reader)?;
        let Some(conversation) = reader.conversation(id)? else { return Ok(planned.estimate) };
        let policy = policy_of(&updater.general, &conversation)?;
        let mut overlay = Overlay::new(&*reader, conversation.clone())?;
        overlay.apply(writes);
        let only = update.level.filter(|_| update.strategy == UpdateStrategy::Incremental);
        let (now, long) = (updater.now, LongMessageCache::default());
        let rehearsal = Rehearsal { engine: self, policy: &policy, now, only, long };
        let estimate = updater.priced(rehearsal.run(&mut overlay)?);
        let Estimate { dropped_nodes, dropped_caller_nodes, .. } = planned.estimate;
        Ok(Estimate { dropped_nodes, dropped_caller_nodes, ..estimate })
    }

    /// Plans an update. The jobs are durable when it returns, and any worker runs them.
    pub fn update(&self, id: ConversationId, update: &Update) -> Result<PlannedUpdate> {
        let updater = self.updater(id, update)?;
        let key = self.key(id);
        // Before the commit, because a worker may take the jobs at once.
        self.running_updates().begin(key.clone(), updater.id(), update.pace);
        let planned = self.commit_with(self.scope_of(id), move |reader| updater.plan(reader));
        if planned.is_err() {
            self.running_updates().end(&key);
        }
        let planned = planned?;
        self.end_finished_update(&key)?;
        Ok(planned)
    }

    fn updater(&self, id: ConversationId, update: &Update) -> Result<Updater> {
        if let Some(level) = update.level.filter(|level| *level > Level::FIRST)
            && let Some(parameter) = update.policy.iter().find(|it| it.is_of_level_one())
        {
            let why = format!(
                "it concerns level 1, and this update begins at level {level}; leave it out, or \
                 update level 1 or every level"
            );
            return Err(Invalid::new(format!("policy parameter {parameter}"), why).into());
        }
        let (general, now) = (self.policy().clone(), self.clock().now());
        let summarizer = self.summarizer_name().to_owned();
        let price = match self.summarizer().is_remote() {
            true => self.spending().prices.find(&summarizer),
            false => Some(Price { input: 0.0, output: 0.0 }),
        };
        // Fallback nodes are not regenerated while a cap forbids the calls.
        let upgrades = self.spend(Some(id))?.cap_reached.is_none();
        Ok(Updater {
            key: self.key(id),
            general,
            now,
            summarizer,
            price,
            upgrades,
            update: update.clone(),
        })
    }
}

struct Updater {
    key: ConversationKey,
    general: Policy,
    now: Timestamp,
    /// The configured summarizer.
    summarizer: String,
    /// Its price, if known.
    price: Option<Price>,
    /// Whether nodes that a fallback wrote are regenerated.
    upgrades: bool,
    update: Update,
}

impl Updater {
    fn plan(&self, reader: &dyn Reader) -> StoreResult<(Vec<Write>, PlannedUpdate)> {
        let Some(mut conversation) = reader.conversation(self.key.id)? else {
            let subject = format!("conversation {}", self.key.id);
            return Err(StoreError::Refused(Invalid::new(subject, "it does not exist")));
        };
        let base = policy_of(&self.general, &conversation)?;
        // An invalid override is refused here, and not ignored as in later plans.
        base.with(&self.update.policy)?;
        let (key, now, overrides) = (&self.key, self.now, self.update.policy.as_slice());
        let planner = TreePlanner { reader, key, policy: &base, overrides, now };
        let before = conversation.clone();
        let (mut writes, dropped) = match self.update.strategy {
            _ if conversation.kind() == ConversationKind::Project => {
                self.update_project(reader, &conversation)?
            }
            UpdateStrategy::Incremental => (self.catch_up(&planner, &mut conversation)?, [0, 0]),
            UpdateStrategy::Full => self.rebuild(&planner, &mut conversation)?,
        };
        let mut all = self.override_queue(reader)?;
        let overlay = |all: &[Write], writes: &[Write]| {
            let mut overlay = Overlay::new(reader, before.clone())?;
            overlay.apply(all.iter().chain(writes).cloned().collect());
            StoreResult::Ok(overlay)
        };
        let planner = TreePlanner { reader: &overlay(&all, &writes)?, ..planner };
        planner.plan_top(&mut conversation, None, overrides, &mut writes)?;
        if conversation != before {
            all.push(Write::PutConversation(conversation.clone()));
        }
        let queued = self.queue(reader, &writes)?;
        let overlay = overlay(&all, &writes)?;
        let estimate = self.priced(self.queued_work(&overlay, &queued)?);
        let [dropped_nodes, dropped_caller_nodes] = dropped;
        let estimate = Estimate { dropped_nodes, dropped_caller_nodes, ..estimate };
        let id = self.id();
        // This event precedes those of the planned jobs, as `events_of_update` expects.
        all.push(Write::AddJobEvent(JobEvent {
            at: self.now,
            conversation: Some(conversation.id),
            job: id,
            kind: JobEventKind::Update,
            text: self.describe(reader, queued.len(), dropped_nodes)?,
            took_ms: None,
        }));
        all.extend(writes);
        let queued = u32::try_from(queued.len()).unwrap_or(u32::MAX);
        Ok((all, PlannedUpdate { id, estimate, queued }))
    }

    /// Plans the tree of a project again; a full update drops it first.
    fn update_project(
        &self,
        reader: &dyn Reader,
        project: &Conversation,
    ) -> StoreResult<(Vec<Write>, [u32; 2])> {
        let (mut writes, mut dropped) = (Vec::new(), 0);
        if self.update.strategy == UpdateStrategy::Full {
            let nodes = reader.node_versions(project.id, &NodeFilter::default())?.len();
            dropped = u32::try_from(nodes).unwrap_or(u32::MAX);
            writes.push(Write::DropTree(project.id, Level::FIRST));
        }
        writes.extend(project::job_of(reader, project, self.now)?);
        Ok((writes, [dropped, 0]))
    }

    /// The text of the event that begins the update.
    fn describe(&self, reader: &dyn Reader, queued: usize, dropped: u32) -> StoreResult<String> {
        let levels = reader.level_totals(Some(self.key.id))?;
        let nodes: u32 = levels.iter().map(|level| level.nodes).sum();
        let dirty: u32 = levels.iter().map(|level| level.dirty).sum();
        let dirty_ratio = f64::from(dirty) / f64::from(nodes.max(1));
        let depth = reader.jobs(&JobFilter::all(usize::MAX))?.len();
        let strategy = match self.update.strategy {
            UpdateStrategy::Incremental => "incremental",
            UpdateStrategy::Full => "full",
        };
        let overrides: String =
            self.update.policy.iter().map(|assignment| format!("; {assignment}")).collect();
        Ok(format!(
            "update begun: {strategy}, {queued} jobs queued, {dropped} nodes deleted, queue depth \
             {depth}, dirty ratio {dirty_ratio:.2}{overrides}"
        ))
    }

    fn id(&self) -> JobId {
        let micros = self.now.as_micros().to_le_bytes();
        JobId(ContentHash::of_fields(&[b"update", self.key.id.as_bytes(), &micros]))
    }

    /// Plans the missing work: unprocessed messages, dirty nodes, nodes that a fallback wrote,
    /// and jobs that were given up.
    fn catch_up(
        &self,
        planner: &TreePlanner<'_>,
        conversation: &mut Conversation,
    ) -> StoreResult<Vec<Write>> {
        let mut tasks = planner.catch_up(conversation, conversation.totals.messages)?;
        if !self.update.policy.is_empty() {
            tasks.extend(planner.reopen(conversation)?);
        }
        // The conversation may have been closed while its tree was turned off.
        if conversation.state != ConversationState::Open {
            tasks.extend(planner.close(conversation));
        }
        let mut nodes = planner.reader.nodes(self.key.id, &NodeFilter::default())?;
        nodes.retain(|node| node.dirty || self.is_to_be_upgraded(node));
        // The top follows once the nodes below it are written.
        let (tops, nodes): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.spec.is_top());
        tasks.extend(nodes.into_iter().map(|node| node.spec));
        let mut writes = planner.jobs(tasks);
        let dirty = |top: Node| Write::MarkDirty(self.key.id, top.level(), vec![top.ordinal()]);
        writes.extend(tops.into_iter().map(dirty));
        writes.extend(planner.regroup_ungrouped(conversation)?);
        for mut job in planner.reader.jobs(&JobFilter::of(self.key.id))? {
            if job.state == JobState::Dead {
                if let JobKind::Summarize(task) = &mut job.kind {
                    task.overrides.clone_from(&self.update.policy);
                }
                writes.extend(retried(&mut job, self.now, "an update"));
            }
        }
        Ok(writes)
    }

    /// Whether a fallback wrote the node, and the configured summarizer is another one.
    fn is_to_be_upgraded(&self, node: &Node) -> bool {
        self.upgrades
            && node.provenance.fallback_name().is_some_and(|fallback| fallback != self.summarizer)
    }

    /// Sets the overrides on the jobs that wait already, because what follows from them belongs
    /// to this update too.
    fn override_queue(&self, reader: &dyn Reader) -> StoreResult<Vec<Write>> {
        let mut writes = Vec::new();
        if self.update.policy.is_empty() {
            return Ok(writes);
        }
        for mut job in reader.jobs(&JobFilter::of(self.key.id))? {
            if let JobKind::Summarize(task) = &mut job.kind {
                task.overrides.clone_from(&self.update.policy);
                writes.push(Write::PutJob(job));
            }
        }
        Ok(writes)
    }

    /// Drops the tree from a level upwards, and plans it again from the level below. Returns the
    /// number of nodes dropped, and of those among them that a caller wrote.
    fn rebuild(
        &self,
        planner: &TreePlanner<'_>,
        conversation: &mut Conversation,
    ) -> StoreResult<(Vec<Write>, [u32; 2])> {
        let level = self.update.level.unwrap_or(Level::FIRST);
        if !planner.window_policy().enabled {
            let why = "its tree is turned off; set enabled=true with `treering policy` or in tree.parameters first";
            return Err(Invalid::new(format!("rebuild of {}", conversation.slug), why).into());
        }
        let nodes = planner.reader.nodes(self.key.id, &NodeFilter::default())?;
        let dropped: Vec<&Node> = nodes.iter().filter(|node| node.level() >= level).collect();
        let by_callers = dropped.iter().filter(|node| node.provenance.is_by_caller()).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let dropped = [number(dropped.len()), number(by_callers)];
        let mut writes = vec![Write::DropTree(self.key.id, level)];
        conversation.tree_state.drop_levels(level);
        match level.below() {
            None => {
                let mut tasks = planner.catch_up(conversation, conversation.totals.messages)?;
                // If messages were forgotten, the end may no longer fill a window.
                if conversation.state != ConversationState::Open {
                    tasks.extend(planner.close(conversation));
                }
                writes.extend(planner.jobs(tasks));
            }
            Some(below) => {
                let mut growth: TreeState = conversation.tree_state.clone();
                writes.extend(planner.regroup(&mut growth, below)?);
                conversation.tree_state = growth;
            }
        }
        Ok((writes, dropped))
    }

    /// The jobs in the queue after these writes.
    fn queue(&self, reader: &dyn Reader, writes: &[Write]) -> StoreResult<Vec<Job>> {
        let mut jobs = match self.update.strategy {
            UpdateStrategy::Incremental => reader.jobs(&JobFilter::of(self.key.id))?,
            UpdateStrategy::Full => Vec::new(),
        };
        for write in writes {
            if let Write::AddJob(job) = write
                && !jobs.iter().any(|other| other.id == job.id)
            {
                jobs.push(job.clone());
            }
        }
        if let Some(level) =
            self.update.level.filter(|_| self.update.strategy == UpdateStrategy::Incremental)
        {
            jobs.retain(|job| job.kind.height() == level.number());
        }
        Ok(jobs)
    }

    /// The work of the queued jobs, without those that will follow.
    fn queued_work(&self, overlay: &Overlay<'_>, jobs: &[Job]) -> StoreResult<Estimate> {
        let mut estimate = Estimate::default();
        let long = LongMessageCache::default();
        for job in jobs {
            let JobKind::Summarize(task) = &job.kind else { continue };
            let Some(input) = SummaryInput::read(overlay, &self.key, task, &long)? else {
                continue;
            };
            let kept = kept_chars(&input.request);
            estimate.count(task.level, input.tokens(), kept as u64 / 4);
        }
        Ok(estimate)
    }

    /// Adds the cost of the calls.
    fn priced(&self, estimate: Estimate) -> Estimate {
        let Estimate { calls, tokens_in, tokens_out, .. } = estimate;
        let cost = self.price.map(|price| price.of(Usage { calls, tokens_in, tokens_out }));
        Estimate { cost, ..estimate }
    }
}

/// Retries a job, and records who asked for it.
pub(crate) fn retried(job: &mut Job, now: Timestamp, by: &str) -> [Write; 2] {
    job.retry(now);
    let line = JobEvent {
        at: now,
        conversation: Some(job.conversation),
        job: job.id,
        kind: JobEventKind::Retry,
        text: format!("{} is retried by {by}", job.kind),
        took_ms: None,
    };
    [Write::PutJob(job.clone()), Write::AddJobEvent(line)]
}

impl Estimate {
    pub(crate) fn count(&mut self, level: Level, tokens_in: u64, tokens_out: u64) {
        let index = usize::from(level.number() - 1).min(self.jobs.len() - 1);
        self.jobs[index] += 1;
        self.calls += 1;
        self.tokens_in += tokens_in;
        self.tokens_out += tokens_out;
    }
}
