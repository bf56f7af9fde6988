//! Verification of the tree: every message of a thread is in exactly one window or in the open
//! one, every group has its children, and what is missing has a job.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::node::{Place, Window};
use treering_core::ports::{ConversationFilter, JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationKey, Covers, JobKind, Level, MessageIdx, Node, NodeId, Reader, Task, ThreadName,
};

use crate::embed;
use crate::error::Result;
use crate::memory::Memory;
use crate::update::{Scale, Update};

/// How many nodes a tree has, and what of it does not add up, in words.
pub(crate) fn problems(
    reader: &dyn Reader,
    key: &ConversationKey,
    conversation: &Conversation,
) -> StoreResult<(u64, Vec<String>)> {
    let nodes = reader.nodes(key, &NodeFilter::default())?;
    let jobs = reader.jobs(&key.tenant, &JobFilter::of(key.id))?;
    let planned = jobs.iter().filter_map(|job| match &job.kind {
        JobKind::Summarise(task) => Some(task),
        _ => None,
    });
    let mut tree = Tree {
        conversation,
        problems: Vec::new(),
        nodes: BTreeMap::new(),
        planned: BTreeMap::new(),
        uncovered: Vec::new(),
    };
    for node in &nodes {
        tree.nodes.insert((node.level(), node.ordinal()), node);
    }
    for task in planned {
        tree.planned.insert((task.level, task.ordinal), task);
    }
    if conversation.growth.through != conversation.totals.messages {
        let (through, messages) = (conversation.growth.through, conversation.totals.messages);
        tree.note(format!("the tree has grown through {through} of {messages} messages"));
    }
    tree.check_numbers();
    tree.check_groups();
    tree.check_windows(reader, key)?;
    Ok((nodes.len() as u64, tree.problems))
}

struct Tree<'a> {
    conversation: &'a Conversation,
    nodes: BTreeMap<(Level, u32), &'a Node>,
    planned: BTreeMap<(Level, u32), &'a Task>,
    problems: Vec<String>,
    /// Runs of messages in no window: the thread, where it begins, its last message, and where
    /// the thread goes on.
    uncovered: Vec<(ThreadName, Place, MessageIdx, Option<Place>)>,
}

impl Tree<'_> {
    fn note(&mut self, what: String) {
        self.problems.push(what);
    }

    /// Everything that was sealed has its node or a job, and nothing else does.
    fn check_numbers(&mut self) {
        let sealed = self.conversation.growth.sealed.clone();
        for (place, count) in sealed.iter().enumerate() {
            let Some(level) = u8::try_from(place + 1).ok().and_then(Level::new) else { continue };
            let there = |tree: &Self, ordinal| {
                tree.nodes.contains_key(&(level, ordinal)) || tree.planned.contains_key(&(level, ordinal))
            };
            let missing: Vec<u32> = (0..*count).filter(|ordinal| !there(self, *ordinal)).collect();
            if let Some(first) = missing.first() {
                let what = match missing.len() {
                    1 => format!("level {level}: node {first} has neither content nor a job"),
                    many => format!(
                        "level {level}: {many} nodes have neither content nor a job, the first is {first}"
                    ),
                };
                self.note(what);
            }
        }
        let keys: BTreeSet<_> = self.nodes.keys().chain(self.planned.keys()).copied().collect();
        for (level, ordinal) in keys {
            let count = sealed.get(usize::from(level.number()) - 1).copied().unwrap_or(0);
            if ordinal >= count {
                self.note(format!("level {level}: number {ordinal} was never sealed"));
            }
        }
        let undone: Vec<_> = self
            .nodes
            .values()
            .filter(|node| node.dirty)
            .map(|node| (node.level(), node.ordinal()))
            .collect();
        for place in undone {
            if !self.planned.contains_key(&place) {
                self.note(format!("level {}: number {} is dirty and has no job", place.0, place.1));
            }
        }
    }

    /// Every group has the children it says it covers, and every child's group exists.
    fn check_groups(&mut self) {
        let mut children: BTreeMap<(Level, u32), BTreeSet<NodeId>> = BTreeMap::new();
        for node in self.nodes.values() {
            if let Some(parent) = node.parent {
                children.entry((node.level().above(), parent)).or_default().insert(node.id.clone());
            }
        }
        let mut notes = Vec::new();
        for place in children.keys() {
            if !self.nodes.contains_key(place) && !self.planned.contains_key(place) {
                notes
                    .push(format!("level {}: group {} has children but was never planned", place.0, place.1));
            }
        }
        let done = self.nodes.iter().map(|(place, node)| (place, &node.task));
        let wanted = self.planned.iter().map(|(place, task)| (place, *task));
        for (place, task) in done.chain(wanted) {
            let Covers::Nodes(ids) = &task.covers else { continue };
            let (level, ordinal) = place;
            let says: BTreeSet<NodeId> = ids.iter().cloned().collect();
            let has = children.get(place).cloned().unwrap_or_default();
            let dirty = self.nodes.get(place).is_some_and(|node| node.dirty);
            if says != has && !dirty {
                notes.push(format!(
                    "level {level}: group {ordinal} covers {} nodes and has {}",
                    says.len(),
                    has.len()
                ));
            }
            if ids.len() < 2 {
                notes.push(format!("level {level}: group {ordinal} has fewer than two children"));
            }
        }
        self.problems.append(&mut notes);
    }

    /// The windows of each thread and its open one follow each other without gap or overlap,
    /// from its first message to its last.
    fn check_windows(&mut self, reader: &dyn Reader, key: &ConversationKey) -> StoreResult<()> {
        let mut windows: BTreeMap<ThreadName, BTreeMap<Place, (Window, u32)>> = BTreeMap::new();
        let done = self.nodes.values().map(|node| &node.task);
        let wanted = self.planned.values().copied();
        let mut overlaps = Vec::new();
        let mut seen = BTreeSet::new();
        for task in done.chain(wanted) {
            let Covers::Messages(window) = &task.covers else { continue };
            if !seen.insert((task.level, task.ordinal)) {
                continue;
            }
            let of_thread = windows.entry(window.thread.clone()).or_default();
            if of_thread.insert(window.from, (window.clone(), task.ordinal)).is_some() {
                overlaps.push(format!("two windows begin at {} of {}", window.from, window.thread));
            }
        }
        self.problems.append(&mut overlaps);
        let mut ends: BTreeMap<ThreadName, Place> = BTreeMap::new();
        let mut next = 0;
        loop {
            let page = reader.messages(key, Span::starting(MessageIdx(next), 1000))?;
            let Some(last) = page.last() else { break };
            next = last.idx.0 + 1;
            for message in &page {
                let of_thread = windows.get(&message.thread);
                let end = ends.get(&message.thread).copied();
                let reached = self.follow(of_thread, message.idx, message.chars, &message.thread, end);
                ends.insert(message.thread.clone(), reached);
            }
        }
        for (thread, from, last, _) in std::mem::take(&mut self.uncovered) {
            let run = if from.idx == last { from.to_string() } else { format!("{from}–{last}") };
            self.note(format!("messages {run} of {thread} are in no window"));
        }
        Ok(())
    }

    /// Follows the windows through one message; where it ends up is where the thread goes on.
    fn follow(
        &mut self,
        windows: Option<&BTreeMap<Place, (Window, u32)>>,
        idx: MessageIdx,
        chars: u32,
        thread: &ThreadName,
        reached: Option<Place>,
    ) -> Place {
        let whole = Place::after(idx);
        // A window that began earlier reaches over this message, or ends within it.
        let mut at = match reached {
            Some(reached) if reached >= whole => return reached,
            Some(reached) if reached.idx == idx => reached,
            _ => Place { idx, offset: 0 },
        };
        loop {
            let start = |window: &Window| window.from <= at && at < window.until;
            let next =
                windows.and_then(|all| all.range(..=at).next_back()).filter(|(_, (window, _))| start(window));
            let Some((_, (window, ordinal))) = next else { break };
            if window.from < at && window.from.idx == at.idx {
                self.note(format!("window {ordinal} of {thread} overlaps the one before at {at}"));
            }
            if window.until >= whole {
                return window.until;
            }
            at = window.until;
        }
        let place = self.conversation.threads.iter().position(|other| other.name == *thread);
        let open = place.and_then(|place| self.conversation.growth.windows.get(place)?.from());
        if open.is_none_or(|open| open > at) && at.offset <= chars {
            match self.uncovered.last_mut() {
                // Messages of other threads may lie between.
                Some((of, _, last, known)) if of == thread && *known == reached => {
                    (*last, *known) = (idx, Some(whole));
                }
                _ => self.uncovered.push((thread.clone(), at, idx, Some(whole))),
            }
        }
        whole
    }
}

/// What was made anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repaired {
    /// What the store keeps beside conversations, as sentences.
    pub store: Vec<String>,
    /// The conversations, by slug, whose trees are to be grown anew.
    pub trees: Vec<String>,
    /// The conversations, by slug, that lacked vectors, which are to be made.
    pub vectors: Vec<String>,
}

impl Memory {
    /// Makes anew what does not add up, of every tenant: what the store derives from messages, then trees, from the
    /// messages and what still can be trusted, and missing vectors. Messages are never touched.
    pub fn repair(&self) -> Result<Repaired> {
        let mut repaired = Repaired { store: self.store().repair()?, ..Repaired::default() };
        let tenants = self.store().reader()?.tenants()?;
        for tenant in tenants {
            let memory = self.of_tenant(tenant);
            let mut filter = ConversationFilter::all(500);
            loop {
                let page = memory.store().reader()?.conversations(memory.tenant(), &filter)?;
                for conversation in &page {
                    let key = memory.key(conversation.id);
                    if !problems(&*memory.store().reader()?, &key, conversation)?.1.is_empty() {
                        memory
                            .update(conversation.id, &Update { scale: Scale::Full, ..Update::default() })?;
                        repaired.trees.push(conversation.slug.clone());
                    }
                    if embed::fill_gaps(&memory, conversation.id)? > 0 {
                        repaired.vectors.push(conversation.slug.clone());
                    }
                }
                match page.last() {
                    Some(last) if page.len() == filter.limit => {
                        filter.after = Some((last.last_activity, last.id));
                    }
                    _ => break,
                }
            }
        }
        Ok(repaired)
    }
}
