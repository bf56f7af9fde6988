//! Plans the top of a conversation, the node over all of it. There is one while the conversation
//! is closed; it is planned once every other node is written.

use treering_core::ports::{JobFilter, NodeFilter, StoreResult};
use treering_core::{
    Assignment, Conversation, ConversationId, ConversationKey, ConversationState, Coverage, Job,
    JobId, JobKind, Level, MessageIdx, Node, NodeSpec, Reader, Write, plan_top, sort_roots,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::tree_planner::TreePlanner;

/// The roots of a tree in time order: the nodes without a group, except the top.
pub(crate) fn roots(reader: &dyn Reader, key: &ConversationKey) -> StoreResult<Vec<Node>> {
    let mut roots = ungrouped(reader, key.id)?;
    roots.retain(|node| !node.spec.is_top());
    Ok(roots)
}

/// The summary of a whole conversation: its top or, if that is missing or out of date, the roots.
pub(crate) fn summary(reader: &dyn Reader, id: ConversationId) -> StoreResult<Vec<Node>> {
    let (tops, roots): (Vec<Node>, Vec<Node>) =
        ungrouped(reader, id)?.into_iter().partition(|node| node.spec.is_top());
    let current = tops.into_iter().find(|top| !top.dirty);
    Ok(current.map_or(roots, |top| vec![top]))
}

/// The nodes without a group in time order, with the top.
fn ungrouped(reader: &dyn Reader, id: ConversationId) -> StoreResult<Vec<Node>> {
    let filter = NodeFilter { parent: Some(None), ..NodeFilter::default() };
    let mut nodes = reader.nodes(id, &filter)?;
    sort_roots(&mut nodes);
    Ok(nodes)
}

impl TreePlanner<'_> {
    /// Adds the consequences of a commit for the top. An open conversation has none. While nodes
    /// of a closed one are being written, its top is dirty; after the last one it is planned
    /// again. `finished` is the job that the commit completes, with its node.
    pub(crate) fn plan_top(
        &self,
        conversation: &mut Conversation,
        finished: Option<(&Job, Option<&Node>)>,
        overrides: &[Assignment],
        writes: &mut Vec<Write>,
    ) -> StoreResult<()> {
        let (top, id) = (conversation.tree_state.top, conversation.id);
        if conversation.state == ConversationState::Open {
            if let Some(level) = top {
                self.drop_top(conversation, level, writes);
            }
            return Ok(());
        }
        let done = finished.map(|(job, _)| job);
        if let Some(highest) = self.highest_unfinished(id, done, writes)? {
            match top {
                // A group takes its level.
                Some(level) if level <= highest => self.drop_top(conversation, level, writes),
                Some(level) => {
                    self.outdate_top(id, level, &Coverage::Whole(Vec::new()), writes)?;
                }
                None => {}
            }
            return Ok(());
        }
        self.plan_quiet_top(conversation, finished.and_then(|(_, node)| node), overrides, writes)
    }

    /// Adds the consequences of a finished job for the top, unless the job wrote the top.
    pub(crate) fn plan_top_after(
        &self,
        conversation: &mut Conversation,
        job: &Job,
        node: Option<&Node>,
        writes: &mut Vec<Write>,
    ) -> StoreResult<()> {
        if node.is_some_and(|node| node.spec.is_top()) {
            return Ok(());
        }
        let overrides = match &job.kind {
            JobKind::Summarize(task) => task.overrides.as_slice(),
            JobKind::EmbedTurn(_) | JobKind::EmbedNode(..) | JobKind::PlanProject => &[],
        };
        self.plan_top(conversation, Some((job, node)), overrides, writes)
    }

    /// Plans the top of a closed conversation whose other nodes are all written.
    fn plan_quiet_top(
        &self,
        conversation: &mut Conversation,
        finished: Option<&Node>,
        overrides: &[Assignment],
        writes: &mut Vec<Write>,
    ) -> StoreResult<()> {
        let mut nodes = ungrouped(self.reader, conversation.id)?;
        if let Some(finished) = finished.filter(|node| node.parent.is_none()) {
            let position = |node: &Node| (node.level(), node.ordinal());
            nodes.retain(|node| position(node) != position(finished));
            nodes.push(finished.clone());
            sort_roots(&mut nodes);
        }
        let (tops, roots): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.spec.is_top());
        let policy = self.policy.overridden(overrides);
        let last = conversation.totals.messages.checked_sub(1).map(MessageIdx);
        let Some(task) = plan_top(&roots, last, &policy) else {
            if let Some(level) = conversation.tree_state.top {
                self.drop_top(conversation, level, writes);
            }
            return Ok(());
        };
        let is_current =
            |top: &Node| !top.dirty && top.level() == task.level && top.spec.covers == task.covers;
        if tops.iter().any(is_current) {
            return Ok(());
        }
        match conversation.tree_state.top {
            // While the tree is turned off, an existing top is regenerated, but none is added.
            None if !policy.enabled => return Ok(()),
            None => {}
            Some(level) if level != task.level => self.drop_top(conversation, level, writes),
            Some(level) => self.outdate_top(conversation.id, level, &task.covers, writes)?,
        }
        conversation.tree_state.top = Some(task.level);
        writes.extend(self.jobs(vec![NodeSpec { overrides: overrides.to_vec(), ..task }]));
        Ok(())
    }

    /// Marks the top as dirty, and removes its job unless that covers these nodes.
    fn outdate_top(
        &self,
        id: ConversationId,
        level: Level,
        covers: &Coverage,
        writes: &mut Vec<Write>,
    ) -> StoreResult<()> {
        writes.push(Write::MarkDirty(id, level, vec![NodeSpec::TOP_ORDINAL]));
        let is_outdated = |job: &Job| match &job.kind {
            JobKind::Summarize(task) => task.is_top() && task.covers != *covers,
            JobKind::EmbedTurn(_) | JobKind::EmbedNode(..) | JobKind::PlanProject => false,
        };
        let jobs = self.summary_jobs(id, Some(level), 1)?;
        writes.extend(jobs.into_iter().filter(is_outdated).map(Write::RemoveJob));
        Ok(())
    }

    /// Drops the top and its job, before anything else of the commit takes its level.
    pub(crate) fn drop_top(
        &self,
        conversation: &mut Conversation,
        level: Level,
        writes: &mut Vec<Write>,
    ) {
        conversation.tree_state.top = None;
        writes.insert(0, Write::DropTree(conversation.id, level));
    }

    /// The highest level at which a node other than the top has yet to be written after these
    /// writes.
    fn highest_unfinished(
        &self,
        id: ConversationId,
        done: Option<&Job>,
        writes: &[Write],
    ) -> StoreResult<Option<Level>> {
        let mut finished: Vec<JobId> = done.map(|job| job.id).into_iter().collect();
        finished.extend(writes.iter().filter_map(|write| match write {
            Write::RemoveJob(job) => Some(job.id),
            _ => None,
        }));
        let is_unfinished = |job: &Job| !finished.contains(&job.id);
        let planned = writes.iter().filter_map(|write| match write {
            Write::AddJob(job) if is_unfinished(job) => match &job.kind {
                JobKind::Summarize(task) => Some(task.level),
                JobKind::EmbedTurn(_) | JobKind::EmbedNode(..) | JobKind::PlanProject => None,
            },
            _ => None,
        });
        if let Some(planned) = planned.max() {
            return Ok(Some(planned));
        }
        // One more than the finished jobs and that of the top.
        let jobs = self.summary_jobs(id, None, finished.len() + 2)?;
        let others = jobs.iter().filter(|job| !is_of_top(job) && is_unfinished(job));
        Ok(others.filter_map(|job| Level::new(job.kind.height())).max())
    }

    /// The first unfinished jobs that write nodes, those of one level or the lowest.
    fn summary_jobs(
        &self,
        id: ConversationId,
        level: Option<Level>,
        limit: usize,
    ) -> StoreResult<Vec<Job>> {
        let heights = level.map(|level| (level.number(), level.number()));
        self.reader.jobs(&JobFilter { heights, summaries: true, limit, ..JobFilter::of(id) })
    }
}

fn is_of_top(job: &Job) -> bool {
    matches!(&job.kind, JobKind::Summarize(task) if task.is_top())
}

impl Engine {
    /// The summary of a whole closed conversation: its top, or the only root if that serves as
    /// one. `None` while the conversation is open or the node has yet to be written.
    pub fn top(&self, conversation: &Conversation) -> Result<Option<Node>> {
        let (reader, id) = (self.reader()?, conversation.id);
        if let Some(level) = conversation.tree_state.top {
            return Ok(reader.nodes(id, &NodeFilter::at(level))?.pop());
        }
        let unfinished = JobFilter { summaries: true, limit: 1, ..JobFilter::of(id) };
        if conversation.state == ConversationState::Open || !reader.jobs(&unfinished)?.is_empty() {
            return Ok(None);
        }
        let mut roots = ungrouped(&*reader, id)?;
        // While the tree is turned off, a root may be the only one without covering everything.
        let covers_all = |root: &Node| root.source.until >= conversation.totals.messages;
        Ok(if roots.len() == 1 { roots.pop().filter(covers_all) } else { None })
    }
}
