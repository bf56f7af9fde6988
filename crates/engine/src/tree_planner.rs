//! Plans the growth of the tree: the jobs that a commit of messages or nodes must contain. The
//! code runs inside the plan of a commit and only decides what to write.

use std::borrow::Cow;

use treering_core::capture::TurnEnd;
use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::windowing::WindowMessage;
use treering_core::{
    Assignment, Conversation, ConversationId, ConversationKey, ConversationState, Coverage, Job,
    JobEvent, JobEventKind, JobKind, Level, Message, MessageIdx, Node, NodeSpec, Policy, Reader,
    Thread, Timestamp, TreeState, TurnNo, Write,
};

/// Messages per page.
const PAGE: usize = 1000;

/// Plans the tree of one conversation.
pub(crate) struct TreePlanner<'a> {
    pub(crate) reader: &'a dyn Reader,
    pub(crate) key: &'a ConversationKey,
    /// The policy of the conversation, without the overrides of an update.
    pub(crate) policy: &'a Policy,
    /// The overrides of the update that this plan belongs to.
    pub(crate) overrides: &'a [Assignment],
    pub(crate) now: Timestamp,
}

/// The policy of a conversation: the general one with the conversation's overrides.
pub(crate) fn policy_of<'a>(
    general: &'a Policy,
    conversation: &Conversation,
) -> StoreResult<Cow<'a, Policy>> {
    match conversation.policy.as_slice() {
        [] => Ok(Cow::Borrowed(general)),
        custom => Ok(Cow::Owned(general.with(custom)?)),
    }
}

impl TreePlanner<'_> {
    /// Plans the windows sealed by messages and ends of turns of the same commit, and by earlier
    /// messages that have not been processed yet.
    pub(crate) fn plan_messages<'m>(
        &self,
        conversation: &mut Conversation,
        messages: impl Iterator<Item = &'m Message>,
        turn_ends: &[TurnEnd],
    ) -> StoreResult<Vec<Write>> {
        let mut messages = messages.peekable();
        let mut tasks = Vec::new();
        tasks.extend(self.refold_outdated(conversation)?);
        let stored = messages.peek().map_or(conversation.totals.messages, |message| message.idx.0);
        if conversation.tree_state.through < stored {
            tasks.extend(self.catch_up(conversation, stored)?);
        }
        let mut turn_ends = turn_ends.iter().peekable();
        for message in messages {
            while let Some(end) = turn_ends.next_if(|end| end.after <= message.idx.0) {
                tasks.extend(self.end_turn(conversation, end.thread));
            }
            tasks.extend(self.push(conversation, message));
        }
        tasks.extend(turn_ends.filter_map(|end| self.end_turn(conversation, end.thread)));
        tasks.extend(self.end_turns(conversation));
        if conversation.state != ConversationState::Open {
            tasks.extend(self.close(conversation));
        }
        Ok(self.jobs(tasks))
    }

    /// Plans the regeneration of the nodes that were written before this tool call had a result.
    pub(crate) fn plan_late_result(&self, turn: TurnNo, order: u32) -> StoreResult<Vec<Write>> {
        let calls = self.reader.tool_calls(self.key.id, Span::between(turn, TurnNo(turn.0 + 1)))?;
        let Some(call) = calls.into_iter().find(|call| call.order == order) else {
            return Ok(Vec::new());
        };
        let filter = NodeFilter { around: Some(call.before), ..NodeFilter::at(Level::FIRST) };
        let mut writes = Vec::new();
        for node in self.reader.nodes(self.key.id, &filter)? {
            if matches!(&node.spec.covers, Coverage::Messages(window) if window.has_call(&call)) {
                writes.push(Write::MarkDirty(self.key.id, Level::FIRST, vec![node.ordinal()]));
                writes.extend(self.jobs(vec![node.spec]));
            }
        }
        Ok(writes)
    }

    /// Plans windows for everything that is still open.
    pub(crate) fn close(&self, conversation: &mut Conversation) -> Vec<NodeSpec> {
        let Conversation { threads, tree_state, .. } = conversation;
        let names = threads.iter().map(|thread| &thread.name);
        self.with_overrides(tree_state.close(names, &self.window_policy()))
    }

    fn end_turn(&self, conversation: &mut Conversation, index: usize) -> Option<NodeSpec> {
        let Conversation { threads, tree_state, .. } = conversation;
        let name = &threads.get(index)?.name;
        self.with_overrides(tree_state.end_turn(index, name, &self.window_policy())).pop()
    }

    /// Ends the latest turn of every thread where it has a mark. Call it once all messages are
    /// processed.
    pub(crate) fn end_turns(&self, conversation: &mut Conversation) -> Vec<NodeSpec> {
        let ended = |(index, thread): (usize, &Thread)| thread.turn_ended.then_some(index);
        let ended: Vec<usize> = conversation.threads.iter().enumerate().filter_map(ended).collect();
        ended.into_iter().filter_map(|index| self.end_turn(conversation, index)).collect()
    }

    /// Processes stored messages up to `until`, and repeats the ends of turns and the closings
    /// recorded between them.
    pub(crate) fn catch_up(
        &self,
        conversation: &mut Conversation,
        until: u32,
    ) -> StoreResult<Vec<NodeSpec>> {
        let closings = std::mem::take(&mut conversation.tree_state.closings);
        let turn_ends = std::mem::take(&mut conversation.tree_state.turn_ends);
        let mut tasks = self.refold_outdated(conversation)?;
        while conversation.tree_state.through < until {
            let from = MessageIdx(conversation.tree_state.through);
            let mut span = Span::between(from, MessageIdx(until));
            span.limit = PAGE;
            let page = self.reader.messages(self.key.id, span)?;
            if page.is_empty() {
                break;
            }
            for message in &page {
                tasks.extend(self.push(conversation, message));
                let through = conversation.tree_state.through;
                for end in turn_ends.iter().filter(|end| end.after == through) {
                    tasks.extend(self.end_turn(conversation, end.thread));
                }
                if closings.contains(&conversation.tree_state.through) {
                    tasks.extend(self.close(conversation));
                }
            }
        }
        if until == conversation.totals.messages {
            tasks.extend(self.end_turns(conversation));
        }
        let state = &mut conversation.tree_state;
        state.closings.extend(closings);
        state.closings.sort_unstable();
        state.closings.dedup();
        for end in turn_ends {
            if !state.turn_ends.contains(&end) {
                state.turn_ends.push(end);
            }
        }
        // Ends at one position stay in the order in which they came.
        state.turn_ends.sort_by_key(|end| end.after);
        Ok(tasks)
    }

    /// Reprocesses the open windows if an older version wrote one of them, or the tree was turned
    /// off and is on again.
    fn refold_outdated(&self, conversation: &mut Conversation) -> StoreResult<Vec<NodeSpec>> {
        let is_on = self.window_policy().enabled;
        match is_on && conversation.tree_state.windows.iter().any(|window| window.is_outdated()) {
            true => self.reopen(conversation),
            false => Ok(Vec::new()),
        }
    }

    /// Reprocesses the open windows under another policy.
    pub(crate) fn reopen(&self, conversation: &mut Conversation) -> StoreResult<Vec<NodeSpec>> {
        let Some(first) = conversation.tree_state.first_open() else { return Ok(Vec::new()) };
        let starts: Vec<_> =
            conversation.tree_state.windows.iter().map(|window| window.from()).collect();
        let until = conversation.tree_state.through;
        conversation.tree_state.windows.clear();
        let mut tasks = Vec::new();
        for message in self.reader.messages(self.key.id, Span::between(first, MessageIdx(until)))? {
            let Some(index) = thread_index_of(conversation, &message) else { continue };
            let Some(start) = starts.get(index).copied().flatten() else { continue };
            if message.idx < start.idx {
                continue;
            }
            let skip = if message.idx == start.idx { start.offset } else { 0 };
            let piece = WindowMessage { skip, ..WindowMessage::from(&message) };
            let policy = self.window_policy();
            let sealed = conversation.tree_state.push(index, &message.thread, &piece, &policy);
            tasks.extend(self.with_overrides(sealed));
        }
        conversation.tree_state.through = until;
        if until == conversation.totals.messages {
            tasks.extend(self.end_turns(conversation));
        }
        Ok(tasks)
    }

    fn push(&self, conversation: &mut Conversation, message: &Message) -> Vec<NodeSpec> {
        let Some(index) = thread_index_of(conversation, message) else { return Vec::new() };
        let piece = WindowMessage::from(message);
        let policy = self.window_policy();
        self.with_overrides(conversation.tree_state.push(index, &message.thread, &piece, &policy))
    }

    /// The policy of new windows.
    pub(crate) fn window_policy(&self) -> Cow<'_, Policy> {
        self.policy.overridden(self.overrides)
    }

    fn with_overrides(&self, specs: impl IntoIterator<Item = NodeSpec>) -> Vec<NodeSpec> {
        let with = |spec| NodeSpec { overrides: self.overrides.to_vec(), ..spec };
        specs.into_iter().map(with).collect()
    }

    /// Plans the consequences of a finished node: the groups that it completes or, if it was
    /// regenerated, its ancestors.
    pub(crate) fn plan_parent(
        &self,
        conversation: &mut Conversation,
        node: &mut Node,
    ) -> StoreResult<Vec<Write>> {
        let id = conversation.id;
        let (level, ordinal) = (node.level(), node.ordinal());
        // Only the job carries it; the node is back in its place now.
        let replaced = node.spec.replaces.take();
        // Nothing follows from the top.
        if node.spec.is_top() {
            return Ok(Vec::new());
        }
        if let Some(before) = self.node(level, ordinal)? {
            node.parent = before.parent;
            let changed = before.content != node.content || before.id != node.id;
            return if changed {
                self.plan_regeneration(conversation, node)
            } else {
                Ok(Vec::new())
            };
        }
        // A node that was removed to be regenerated returns to its group, which has a job too.
        let group = replaced.and_then(|removed| removed.parent);
        if group.is_some() && conversation.tree_state.is_offered(level, ordinal) {
            node.parent = group;
            return Ok(Vec::new());
        }
        // While another removed node is missing, a group would skip it. The last one to return
        // groups them all.
        if self.lacks_ungrouped(level, ordinal)? {
            return Ok(Vec::new());
        }
        let mut nodes = self.reader.nodes(self.key.id, &NodeFilter::ungrouped(level))?;
        nodes.push(node.clone());
        let groups = conversation.tree_state.group(level, nodes, self.policy);
        let mut writes = Vec::new();
        for (task, children) in groups {
            if children.contains(&ordinal) {
                node.parent = Some(task.ordinal);
            }
            let others = children.into_iter().filter(|child| *child != ordinal).collect();
            writes.push(Write::SetParent(id, level, others, Some(task.ordinal)));
            writes.extend(self.jobs(vec![task]));
        }
        Ok(writes)
    }

    /// Whether another ungrouped node of the level was removed and is not regenerated yet.
    fn lacks_ungrouped(&self, level: Level, ordinal: u32) -> StoreResult<bool> {
        let heights = Some((level.number(), level.number()));
        let filter = JobFilter { heights, summaries: true, ..JobFilter::of(self.key.id) };
        let is_awaited = |job: &Job| match &job.kind {
            JobKind::Summarize(task) => {
                task.ordinal != ordinal && task.replaces.is_some_and(|it| it.parent.is_none())
            }
            JobKind::EmbedTurn(_) | JobKind::EmbedNode(..) | JobKind::PlanProject => false,
        };
        Ok(self.reader.jobs(&filter)?.iter().any(is_awaited))
    }

    /// Plans the consequences of changed content: the group is repacked if it has become too
    /// large, and the ancestors are regenerated.
    fn plan_regeneration(
        &self,
        conversation: &mut Conversation,
        node: &Node,
    ) -> StoreResult<Vec<Write>> {
        let mut writes = Vec::new();
        let parent_level = node.level().above();
        if let Some(parent) = node.parent
            && let Some(group) = self.node(parent_level, parent)?
        {
            let filter = NodeFilter { parent: Some(Some(parent)), ..NodeFilter::at(node.level()) };
            let mut children = self.reader.nodes(self.key.id, &filter)?;
            children.retain(|child| child.ordinal() != node.ordinal());
            children.push(node.clone());
            children.sort_by_key(|child| (child.range_end, child.ordinal()));
            if let Some(parts) = conversation.tree_state.repack(&group.spec, &children, self.policy)
            {
                writes.push(Write::MarkDirty(conversation.id, parent_level, vec![parent]));
                for (task, ordinals) in parts {
                    writes.push(Write::SetParent(
                        conversation.id,
                        node.level(),
                        ordinals,
                        Some(task.ordinal),
                    ));
                    writes.extend(self.jobs(vec![task]));
                }
                writes.extend(self.ancestors(conversation.id, &group)?);
                return Ok(writes);
            }
        }
        writes.extend(self.ancestors(conversation.id, node)?);
        Ok(writes)
    }

    /// Marks the ancestors of a changed node dirty, and plans their regeneration from the bottom up.
    fn ancestors(&self, id: ConversationId, node: &Node) -> StoreResult<Vec<Write>> {
        let (mut writes, mut tasks) = (Vec::new(), Vec::new());
        let mut child = node.clone();
        while let Some(parent) = child.parent {
            let level = child.level().above();
            let Some(ancestor) = self.node(level, parent)? else { break };
            writes.push(Write::MarkDirty(id, level, vec![parent]));
            tasks.push(ancestor.spec.clone());
            child = ancestor;
        }
        writes.extend(self.jobs(tasks));
        Ok(writes)
    }

    pub(crate) fn node(&self, level: Level, ordinal: u32) -> StoreResult<Option<Node>> {
        let ordinals = Some(Span::between(ordinal, ordinal + 1));
        Ok(self.reader.nodes(self.key.id, &NodeFilter { ordinals, ..NodeFilter::at(level) })?.pop())
    }

    /// The jobs for tasks, each with its event.
    pub(crate) fn jobs(&self, tasks: Vec<NodeSpec>) -> Vec<Write> {
        let mut writes = Vec::with_capacity(2 * tasks.len());
        for task in tasks {
            let because = task.cause.as_str();
            let job = Job::plan(self.key.id, JobKind::Summarize(task), self.now);
            let line = JobEvent {
                at: self.now,
                conversation: Some(self.key.id),
                job: job.id,
                kind: JobEventKind::Acquire,
                text: format!("{} planned: {because}", job.kind),
                took_ms: None,
            };
            writes.extend([Write::AddJob(job), Write::AddJobEvent(line)]);
        }
        writes
    }

    /// Groups the ungrouped nodes of every level again, if an update overrides the policy.
    pub(crate) fn regroup_ungrouped(
        &self,
        conversation: &mut Conversation,
    ) -> StoreResult<Vec<Write>> {
        let mut writes = Vec::new();
        if self.overrides.is_empty() {
            return Ok(writes);
        }
        let mut level = Level::FIRST;
        while usize::from(level.number()) <= conversation.tree_state.offered.len() {
            let ungrouped = self.reader.nodes(self.key.id, &NodeFilter::ungrouped(level))?;
            let policy = self.policy.overridden(self.overrides);
            for (spec, children) in conversation.tree_state.regroup(level, ungrouped, &policy) {
                writes.push(Write::SetParent(self.key.id, level, children, Some(spec.ordinal)));
                writes.extend(self.jobs(self.with_overrides([spec])));
            }
            level = level.above();
        }
        Ok(writes)
    }

    /// Groups the finished nodes of a level again.
    pub(crate) fn regroup(&self, growth: &mut TreeState, level: Level) -> StoreResult<Vec<Write>> {
        let nodes = self.reader.nodes(self.key.id, &NodeFilter::at(level))?;
        let ungrouped = nodes.into_iter().map(|mut node| {
            node.spec.overrides = self.overrides.to_vec();
            Node { parent: None, ..node }
        });
        let ungrouped = ungrouped.collect();
        let mut writes = Vec::new();
        for (task, children) in growth.group(level, ungrouped, self.policy) {
            writes.push(Write::SetParent(self.key.id, level, children, Some(task.ordinal)));
            writes.extend(self.jobs(vec![task]));
        }
        Ok(writes)
    }
}

/// The index of a message's thread in its conversation.
fn thread_index_of(conversation: &Conversation, message: &Message) -> Option<usize> {
    conversation.threads.iter().position(|thread| thread.name == message.thread)
}
