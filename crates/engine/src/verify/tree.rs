//! Verification of the tree: every message of a thread is in exactly one window, sealed or open,
//! every group has its children, and everything missing has a job.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationKey, ConversationKind, ConversationState, Coverage, Job, JobKind,
    Level, MessageIdx, Node, NodeId, NodeSpec, Reader, TextPosition, ThreadName, TreeState, Window,
};

use crate::project;

/// The result of checking a tree.
pub(crate) struct TreeFindings {
    /// The number of nodes.
    pub(crate) nodes: u64,
    /// Descriptions of the problems of the tree and its jobs.
    pub(crate) problems: Vec<String>,
    /// Descriptions of the nodes that an edit made stale.
    pub(crate) stale: Vec<String>,
}

/// Checks a tree and its jobs.
pub(crate) fn check(
    reader: &dyn Reader,
    key: &ConversationKey,
    conversation: &Conversation,
) -> StoreResult<TreeFindings> {
    let (nodes, jobs) =
        (reader.nodes(key.id, &NodeFilter::default())?, reader.jobs(&JobFilter::of(key.id))?);
    let (valid_jobs, misplaced) = split_jobs(conversation, &nodes, jobs);
    let mut problems: Vec<String> =
        misplaced.into_iter().map(|(_, description)| description).collect();
    let (of_tree, stale) = tree_problems(reader, key, conversation, &nodes, &valid_jobs)?;
    problems.extend(of_tree);
    Ok(TreeFindings { nodes: nodes.len() as u64, problems, stale })
}

/// The jobs to remove because they have no input or duplicate another, and whether the tree must
/// be rebuilt without them.
pub(crate) fn needed_repairs(
    reader: &dyn Reader,
    key: &ConversationKey,
    conversation: &Conversation,
) -> StoreResult<(Vec<Job>, bool)> {
    let (nodes, jobs) =
        (reader.nodes(key.id, &NodeFilter::default())?, reader.jobs(&JobFilter::of(key.id))?);
    let (valid_jobs, misplaced) = split_jobs(conversation, &nodes, jobs);
    let is_broken = !tree_problems(reader, key, conversation, &nodes, &valid_jobs)?.0.is_empty();
    Ok((misplaced.into_iter().map(|(job, _)| job).collect(), is_broken))
}

/// Separates sound jobs from those without input and duplicates, each with its problem.
fn split_jobs(
    conversation: &Conversation,
    nodes: &[Node],
    jobs: Vec<Job>,
) -> (Vec<Job>, Vec<(Job, String)>) {
    let sealed = |level: Level| {
        let position = usize::from(level.number()) - 1;
        conversation.tree_state.sealed.get(position).copied().unwrap_or(0)
    };
    let written: BTreeSet<_> = nodes.iter().map(|node| (node.level(), node.ordinal())).collect();
    let has_work = |kind: &JobKind| match kind {
        JobKind::EmbedTurn(turn) => turn.0 < conversation.totals.turns,
        // A regenerated node may get another id; its old job then does nothing.
        JobKind::EmbedNode(level, ordinal, _) => written.contains(&(*level, *ordinal)),
        JobKind::PlanProject => true,
        JobKind::Summarize(_) if conversation.kind() == ConversationKind::Project => true,
        JobKind::Summarize(task) => {
            let is_complete = match &task.covers {
                Coverage::Messages(window) => window.end().0 <= conversation.totals.messages,
                Coverage::Nodes(_) | Coverage::Sessions(_) => true,
                Coverage::Whole(_) => return conversation.tree_state.top == Some(task.level),
            };
            is_complete && task.ordinal < sealed(task.level)
        }
    };
    let (mut valid_jobs, mut misplaced): (Vec<Job>, Vec<(Job, String)>) = Default::default();
    let mut seen: BTreeMap<(u8, u32), Vec<usize>> = BTreeMap::new();
    for job in jobs {
        let same = seen.entry((job.kind.height(), job.kind.position())).or_default();
        if !has_work(&job.kind) {
            let description =
                format!("job {} has nothing to work on: {}", job.id.short(), job.kind);
            misplaced.push((job, description));
        } else if let Some(other) =
            same.iter().map(|position| &valid_jobs[*position]).find(|other| other.kind == job.kind)
        {
            let description = format!(
                "job {} does the same as job {}: {}",
                job.id.short(),
                other.id.short(),
                job.kind
            );
            misplaced.push((job, description));
        } else {
            same.push(valid_jobs.len());
            valid_jobs.push(job);
        }
    }
    (valid_jobs, misplaced)
}

/// Descriptions of the problems of a tree, and of its stale nodes.
fn tree_problems(
    reader: &dyn Reader,
    key: &ConversationKey,
    conversation: &Conversation,
    nodes: &[Node],
    jobs: &[Job],
) -> StoreResult<(Vec<String>, Vec<String>)> {
    let planned = jobs.iter().filter_map(|job| match &job.kind {
        JobKind::Summarize(task) => Some(task),
        _ => None,
    });
    let mut tree = TreeCheck {
        conversation,
        problems: Vec::new(),
        stale: BTreeMap::new(),
        nodes: BTreeMap::new(),
        planned: BTreeMap::new(),
        uncovered: Vec::new(),
    };
    for node in nodes {
        tree.nodes.insert((node.level(), node.ordinal()), node);
    }
    for task in planned {
        tree.planned.insert((task.level, task.ordinal), task);
    }
    // A conversation from before trees existed has none until its next message or update.
    if conversation.tree_state == TreeState::default() && tree.nodes.is_empty() {
        return Ok((tree.problems, Vec::new()));
    }
    if conversation.kind() == ConversationKind::Project {
        tree.check_groups();
        tree.problems.extend(project::problems(reader, nodes)?);
        return Ok((tree.problems, Vec::new()));
    }
    tree.find_stale(reader, key)?;
    if conversation.tree_state.through != conversation.totals.messages {
        let (through, messages) = (conversation.tree_state.through, conversation.totals.messages);
        tree.report_problem(format!("the tree covers {through} of {messages} messages"));
    }
    tree.check_numbers();
    tree.check_groups();
    tree.check_top();
    tree.check_windows(reader, key)?;
    Ok((tree.problems, tree.stale.into_values().collect()))
}

struct TreeCheck<'a> {
    conversation: &'a Conversation,
    nodes: BTreeMap<(Level, u32), &'a Node>,
    planned: BTreeMap<(Level, u32), &'a NodeSpec>,
    problems: Vec<String>,
    /// Dirty nodes without a job, because a message was amended after they were written.
    stale: BTreeMap<(Level, u32), String>,
    /// Runs of messages in no window: the thread, the start, the last message, and the thread's
    /// position after it.
    uncovered: Vec<(ThreadName, TextPosition, MessageIdx, Option<TextPosition>)>,
}

impl TreeCheck<'_> {
    fn report_problem(&mut self, description: String) {
        self.problems.push(description);
    }

    /// Finds the nodes that an amendment made stale.
    fn find_stale(&mut self, reader: &dyn Reader, key: &ConversationKey) -> StoreResult<()> {
        let waiting = self
            .nodes
            .iter()
            .filter(|(position, node)| node.dirty && !self.planned.contains_key(position));
        for (position, node) in waiting {
            let span = Span::between(MessageIdx(node.source.from), MessageIdx(node.source.until));
            let messages = reader.messages(key.id, span)?;
            let amended = messages
                .iter()
                .find(|it| it.amended_at().is_some_and(|at| at >= node.provenance.at));
            if let Some(message) = amended {
                let description =
                    format!("{} is stale: message {} was edited", node.id, message.idx);
                self.stale.insert(*position, description);
            }
        }
        Ok(())
    }

    /// Checks that every sealed ordinal has a node or a job, and no other ordinal does.
    fn check_numbers(&mut self) {
        let sealed = self.conversation.tree_state.sealed.clone();
        for (position, count) in sealed.iter().enumerate() {
            let Some(level) = u8::try_from(position + 1).ok().and_then(Level::new) else {
                continue;
            };
            let is_known = |tree: &Self, ordinal| {
                tree.nodes.contains_key(&(level, ordinal))
                    || tree.planned.contains_key(&(level, ordinal))
            };
            let missing: Vec<u32> =
                (0..*count).filter(|ordinal| !is_known(self, *ordinal)).collect();
            if let Some(first) = missing.first() {
                let description = match missing.len() {
                    1 => format!("level {level}: node {first} has neither content nor a job"),
                    n => format!(
                        "level {level}: {n} nodes have neither content nor a job, the first is {first}"
                    ),
                };
                self.report_problem(description);
            }
        }
        let keys: BTreeSet<_> = self.nodes.keys().chain(self.planned.keys()).copied().collect();
        for (level, ordinal) in keys {
            let count = sealed.get(usize::from(level.number()) - 1).copied().unwrap_or(0);
            if ordinal >= count && ordinal != NodeSpec::TOP_ORDINAL {
                self.report_problem(format!("level {level}: number {ordinal} was never sealed"));
            }
        }
        let undone: Vec<_> = self
            .nodes
            .values()
            .filter(|node| node.dirty && !node.spec.is_top())
            .map(|node| (node.level(), node.ordinal()))
            .collect();
        for position in undone {
            if !self.planned.contains_key(&position) && !self.stale.contains_key(&position) {
                self.report_problem(format!(
                    "level {}: number {} is dirty and has no job",
                    position.0, position.1
                ));
            }
        }
    }

    /// Checks that every group has exactly its children, and every child's group exists.
    fn check_groups(&mut self) {
        let mut children: BTreeMap<(Level, u32), BTreeSet<NodeId>> = BTreeMap::new();
        for node in self.nodes.values() {
            if let Some(parent) = node.parent {
                children.entry((node.level().above(), parent)).or_default().insert(node.id.clone());
            }
        }
        let mut notes = Vec::new();
        for position in children.keys() {
            if !self.nodes.contains_key(position) && !self.planned.contains_key(position) {
                notes.push(format!(
                    "level {}: group {} has children but was never planned",
                    position.0, position.1
                ));
            }
        }
        let done = self.nodes.iter().map(|(position, node)| (position, &node.spec));
        let planned = self.planned.iter().map(|(position, task)| (position, *task));
        for (position, task) in done.chain(planned) {
            let Coverage::Nodes(ids) = &task.covers else { continue };
            let (level, ordinal) = position;
            let listed: BTreeSet<NodeId> = ids.iter().cloned().collect();
            let has = children.get(position).cloned().unwrap_or_default();
            let dirty = self.nodes.get(position).is_some_and(|node| node.dirty);
            if listed != has && !dirty && task.replaces.is_none() {
                notes.push(format!(
                    "level {level}: group {ordinal} covers {} nodes and has {}",
                    listed.len(),
                    has.len()
                ));
            }
            if ids.len() < 2 {
                notes.push(format!("level {level}: group {ordinal} has fewer than two children"));
            }
        }
        self.problems.append(&mut notes);
    }

    /// Checks that the top covers exactly the roots, and is there only if it was planned. While
    /// other nodes are being written, it may be missing or dirty.
    fn check_top(&mut self) {
        let planned = self.conversation.tree_state.top;
        let at_end = |(_, ordinal): &&(Level, u32)| *ordinal == NodeSpec::TOP_ORDINAL;
        let positions = self.nodes.keys().chain(self.planned.keys()).filter(at_end);
        let levels: BTreeSet<Level> = positions.map(|(level, _)| *level).collect();
        let mut notes = Vec::new();
        for level in levels.iter().filter(|level| Some(**level) != planned) {
            notes.push(format!("level {level}: the node over all messages was never planned"));
        }
        if let Some(level) = planned {
            let position = (level, NodeSpec::TOP_ORDINAL);
            let others = self.planned.values().any(|task| !task.is_top());
            let (node, job) = (self.nodes.get(&position), self.planned.get(&position));
            let clean = node.filter(|node| !node.dirty).map(|node| &node.spec);
            let roots = self.nodes.values().filter(|node| node.parent.is_none());
            let roots: BTreeSet<&NodeId> =
                roots.filter(|node| !node.spec.is_top()).map(|node| &node.id).collect();
            let covers_roots = |spec: &NodeSpec| roots == spec.covers.nodes().iter().collect();
            if self.conversation.state == ConversationState::Open {
                notes
                    .push(format!("level {level}: an open conversation has a node over all of it"));
            } else if clean.is_none()
                && job.is_none()
                && !others
                && !self.stale.contains_key(&position)
            {
                notes.push(format!(
                    "level {level}: the node over all messages has neither content nor a job"
                ));
            } else if clean.into_iter().chain(job.copied()).any(|spec| !covers_roots(spec)) {
                notes.push(format!(
                    "level {level}: the node over all messages does not cover the {} topmost nodes",
                    roots.len()
                ));
            }
        }
        self.problems.append(&mut notes);
    }

    /// Checks that the windows of each thread, with the open one, are contiguous and do not
    /// overlap, from its first message to its last.
    fn check_windows(&mut self, reader: &dyn Reader, key: &ConversationKey) -> StoreResult<()> {
        let mut windows: BTreeMap<ThreadName, BTreeMap<TextPosition, (Window, u32)>> =
            BTreeMap::new();
        let done = self.nodes.values().map(|node| &node.spec);
        let planned = self.planned.values().copied();
        let mut overlaps = Vec::new();
        let mut seen = BTreeSet::new();
        for task in done.chain(planned) {
            let Coverage::Messages(window) = &task.covers else { continue };
            if !seen.insert((task.level, task.ordinal)) {
                continue;
            }
            let of_thread = windows.entry(window.thread.clone()).or_default();
            if of_thread.insert(window.from, (window.clone(), task.ordinal)).is_some() {
                overlaps.push(format!("two windows begin at {} of {}", window.from, window.thread));
            }
        }
        self.problems.append(&mut overlaps);
        let mut covered_until: BTreeMap<ThreadName, TextPosition> = BTreeMap::new();
        let mut next = 0;
        loop {
            let page = reader.messages(key.id, Span::starting(MessageIdx(next), 1000))?;
            let Some(last) = page.last() else { break };
            next = last.idx.0 + 1;
            for message in &page {
                let of_thread = windows.get(&message.thread);
                let end = covered_until.get(&message.thread).copied();
                let covered =
                    self.cover_message(of_thread, message.idx, message.chars, &message.thread, end);
                covered_until.insert(message.thread.clone(), covered);
            }
        }
        for (thread, from, last, _) in std::mem::take(&mut self.uncovered) {
            let run = if from.idx == last { from.to_string() } else { format!("{from}–{last}") };
            self.report_problem(format!("messages {run} of {thread} are in no window"));
        }
        Ok(())
    }

    /// Follows the windows through one message, and returns the thread's position after it.
    fn cover_message(
        &mut self,
        windows: Option<&BTreeMap<TextPosition, (Window, u32)>>,
        idx: MessageIdx,
        chars: u32,
        thread: &ThreadName,
        covered: Option<TextPosition>,
    ) -> TextPosition {
        let message_end = TextPosition::after(idx);
        // A window that began earlier covers this message or ends within it.
        let mut at = match covered {
            Some(covered) if covered >= message_end => return covered,
            Some(covered) if covered.idx == idx => covered,
            _ => TextPosition { idx, offset: 0 },
        };
        loop {
            let start = |window: &Window| window.from <= at && at < window.until;
            let next = windows
                .and_then(|all| all.range(..=at).next_back())
                .filter(|(_, (window, _))| start(window));
            let Some((_, (window, ordinal))) = next else { break };
            if window.from < at && window.from.idx == at.idx {
                self.report_problem(format!(
                    "window {ordinal} of {thread} overlaps the one before at {at}"
                ));
            }
            if window.until >= message_end {
                return window.until;
            }
            at = window.until;
        }
        let position = self.conversation.threads.iter().position(|other| other.name == *thread);
        let open = position
            .and_then(|position| self.conversation.tree_state.windows.get(position)?.from());
        if open.is_none_or(|open| open > at) && at.offset <= chars {
            match self.uncovered.last_mut() {
                // Messages of other threads may lie between them.
                Some((of, _, last, known)) if of == thread && *known == covered => {
                    (*last, *known) = (idx, Some(message_end));
                }
                _ => self.uncovered.push((thread.clone(), at, idx, Some(message_end))),
            }
        }
        message_end
    }
}
