//! The cover: the nodes that represent the whole history, and the messages that no node covers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::{Coverage, Job, JobKind, Level, MessageIdx, Node, TextPosition, Window};

use super::lineage::Ancestry;
use super::piece_source::{ConversationPieces, runs};

impl ConversationPieces<'_> {
    pub(super) fn is_one_thread(&self) -> bool {
        self.conversation.threads.len() <= 1
    }

    /// Whether a node is usable at the settled position: it was sealed by then, no message under
    /// it was amended later and, in a context for one thread, it covers nothing outside it.
    pub(super) fn counts(&mut self, node: &Node) -> StoreResult<bool> {
        if !node.spec.is_sealed_at(MessageIdx(self.settled), node.source.until)
            || self.past.is_in(node.source.from..node.source.until)
        {
            return Ok(false);
        }
        match &node.spec.covers {
            _ if self.is_one_thread() || self.lineage.is_whole() => Ok(true),
            Coverage::Messages(window) => Ok(self.lineage.holds_window(window)),
            Coverage::Sessions(_) => Ok(true),
            Coverage::Nodes(_) | Coverage::Whole(_) => {
                for child in self.children(node)? {
                    if !self.counts(&child)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// The nodes that match a filter. Cached nodes are not read again.
    pub(super) fn read_nodes(&mut self, filter: &NodeFilter) -> StoreResult<Vec<Arc<Node>>> {
        let versions = self.reader.node_versions(self.key.id, filter)?;
        let mut nodes: Vec<Option<Arc<Node>>> =
            versions.iter().map(|version| self.cache.node(&self.key.tenant, version)).collect();
        let unread = versions.iter().zip(&nodes).filter(|(_, node)| node.is_none());
        let unread: Vec<(Level, u32)> =
            unread.map(|(version, _)| (version.level, version.ordinal)).collect();
        for of_level in unread.chunk_by(|one, next| one.0 == next.0) {
            for run in runs(of_level.iter().map(|(_, ordinal)| *ordinal), 1) {
                let ordinals = Some(Span::between(run.start, run.end));
                let filter = NodeFilter { ordinals, ..NodeFilter::at(of_level[0].0) };
                for node in self.reader.nodes(self.key.id, &filter)? {
                    let place = (node.level(), node.ordinal());
                    let at = versions
                        .binary_search_by_key(&place, |version| (version.level, version.ordinal));
                    if let Ok(at) = at {
                        let node = self.cache.recall.node(node);
                        nodes[at] =
                            Some(self.cache.put_node(&self.key.tenant, &versions[at], node));
                    }
                }
            }
        }
        let nodes: Vec<Arc<Node>> = nodes.into_iter().flatten().collect();
        self.keep(&nodes);
        Ok(nodes)
    }

    pub(super) fn keep(&mut self, nodes: &[Arc<Node>]) {
        let placed = nodes.iter().map(|node| ((node.level(), node.ordinal()), Arc::clone(node)));
        self.nodes.extend(placed);
    }

    pub(super) fn children(&mut self, node: &Node) -> StoreResult<Vec<Arc<Node>>> {
        if node.spec.is_top() {
            return self.tops();
        }
        let Some(below) = node.level().below() else { return Ok(Vec::new()) };
        if let Some(children) = self.cache.below(self.key, node) {
            self.keep(&children);
            return Ok(children);
        }
        let filter = NodeFilter { parent: Some(Some(node.ordinal())), ..NodeFilter::at(below) };
        let mut children = self.read_nodes(&filter)?;
        children.sort_by_key(|child| (child.range_end, child.ordinal()));
        self.cache.put_children(self.key, node, children.clone());
        Ok(children)
    }

    /// The roots of the tree: its topmost nodes, without the one over all of them.
    fn tops(&mut self) -> StoreResult<Vec<Arc<Node>>> {
        if let Some(tops) = &self.root_nodes {
            return Ok(tops.clone());
        }
        let height = self.conversation.tree_state.sealed.len();
        let mut tops = Vec::new();
        for number in 1..=height {
            let Some(level) = u8::try_from(number).ok().and_then(Level::new) else { break };
            tops.extend(self.read_nodes(&NodeFilter::ungrouped(level))?);
        }
        // The children of a group represent it until its node is written.
        let waiting: Vec<(Level, u32)> = self.jobs.iter().filter_map(waiting_group).collect();
        for below in waiting.iter().map(|(below, _)| *below).collect::<BTreeSet<_>>() {
            let groups =
                waiting.iter().filter(|(level, _)| *level == below).map(|(_, ordinal)| *ordinal);
            for ordinal in self.unwritten(below.above(), groups.collect())? {
                let filter = NodeFilter { parent: Some(Some(ordinal)), ..NodeFilter::at(below) };
                tops.extend(self.read_nodes(&filter)?);
            }
        }
        self.root_nodes = Some(tops.clone());
        Ok(tops)
    }

    /// The topmost usable nodes.
    pub(super) fn highest(&mut self) -> StoreResult<Vec<Arc<Node>>> {
        let (mut tops, mut counting) = (self.tops()?, Vec::new());
        while let Some(node) = tops.pop() {
            if self.counts(&node)? {
                counting.push(node);
            } else if node.source.from < self.settled {
                tops.extend(self.children(&node)?);
            }
        }
        counting.sort_by_key(|node| (node.source.from, node.source.until, node.ordinal()));
        counting.dedup_by(|one, other| one.id == other.id);
        Ok(counting)
    }

    /// The parts of the stable prefix, in each thread, that neither a node nor a sealed window
    /// covers.
    pub(super) fn uncovered(
        &mut self,
        highest: &[Arc<Node>],
        waiting: &[Window],
    ) -> StoreResult<Vec<Window>> {
        let mut open = Vec::new();
        let settled = self.settled;
        let mut all: Vec<Window> = waiting.to_vec();
        for node in highest {
            self.windows_of(node, &mut all)?;
        }
        for Ancestry { thread, from, until } in self.lineage.threads().to_vec() {
            let mut covered: Vec<Window> =
                all.iter().filter(|it| it.thread == thread).cloned().collect();
            covered.sort_by_key(|window| (window.from, window.until));
            let until = TextPosition { idx: MessageIdx(settled.min(until)), offset: 0 };
            let mut at = TextPosition { idx: MessageIdx(from), offset: 0 };
            for window in covered {
                if window.from > at {
                    open.push(Window { thread: thread.clone(), from: at, until: window.from });
                }
                at = at.max(window.until);
            }
            if at < until {
                open.push(Window { thread, from: at, until });
            }
        }
        Ok(open)
    }

    /// Sealed windows without a node. Their messages are used verbatim.
    pub(super) fn waiting_windows(&mut self) -> StoreResult<Vec<Window>> {
        let settled = MessageIdx(self.settled);
        let waits = |job: &Job| match &job.kind {
            JobKind::Summarize(task) => match &task.covers {
                Coverage::Messages(window) if task.is_sealed_at(settled, window.end().0) => {
                    Some((task.ordinal, window.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        let mut waiting: BTreeMap<u32, Window> = self.jobs.iter().filter_map(waits).collect();
        let unwritten = self.unwritten(Level::FIRST, waiting.keys().copied().collect())?;
        let windows = unwritten.iter().filter_map(|ordinal| waiting.remove(ordinal));
        Ok(windows.filter(|window| self.lineage.holds_window(window)).collect())
    }

    /// The given ordinals of a level that have no node yet.
    fn unwritten(&mut self, level: Level, mut ordinals: Vec<u32>) -> StoreResult<Vec<u32>> {
        ordinals.retain(|ordinal| !self.nodes.contains_key(&(level, *ordinal)));
        for run in runs(ordinals.iter().copied(), 1) {
            let ordinals = Some(Span::between(run.start, run.end));
            self.read_nodes(&NodeFilter { ordinals, ..NodeFilter::at(level) })?;
        }
        ordinals.retain(|ordinal| !self.nodes.contains_key(&(level, *ordinal)));
        Ok(ordinals)
    }

    /// The windows that a node covers. With a single thread one window spans them all.
    pub(super) fn windows_of(&mut self, node: &Node, covered: &mut Vec<Window>) -> StoreResult<()> {
        match (&node.spec.covers, self.conversation.threads.as_slice()) {
            (Coverage::Messages(window), _) => covered.push(window.clone()),
            (Coverage::Sessions(_), _) => {}
            (Coverage::Nodes(_) | Coverage::Whole(_), [only]) => {
                let place = |idx: u32| TextPosition { idx: MessageIdx(idx), offset: 0 };
                let (from, until) = (place(node.source.from), place(node.source.until));
                covered.push(Window { thread: only.name.clone(), from, until });
            }
            (Coverage::Nodes(_) | Coverage::Whole(_), _) => {
                for child in self.children(node)? {
                    self.windows_of(&child, covered)?;
                }
            }
        }
        Ok(())
    }
}

fn waiting_group(job: &Job) -> Option<(Level, u32)> {
    match &job.kind {
        JobKind::Summarize(task) => task.level.below().map(|below| (below, task.ordinal)),
        _ => None,
    }
}
