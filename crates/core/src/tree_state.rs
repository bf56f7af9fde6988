//! Growth: how far the tree of a conversation has grown, and what it wants next. Values in, plan
//! and reasons out; who stores and runs the plan is another matter.

use serde::{Deserialize, Serialize, Serializer};

use crate::grouping::{self, GroupReason};
use crate::ids::{MessageIdx, ThreadName};
use crate::node::{Cause, Coverage, Level, Node, NodeSpec, Window};
use crate::policy::Policy;
use crate::windowing::{OpenWindow, SealedWindow, WindowMessage};

/// How far the tree of a conversation has grown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Stored")]
pub struct TreeState {
    /// So many messages have been looked at.
    pub through: u32,
    /// The open window of each thread, in the order of threads.
    pub windows: Vec<OpenWindow>,
    /// How many windows, groups, groups of groups … have been sealed.
    pub sealed: Vec<u32>,
    /// How many of the finished nodes of each level have been offered to the level above: all
    /// those with a lower number.
    pub offered: Vec<u32>,
    /// Where the conversation was closed: so many messages had been looked at.
    pub closings: Vec<u32>,
}

/// The same as a list: it is written with every message.
type Stored = (u32, Vec<OpenWindow>, Vec<u32>, Vec<u32>, Vec<u32>);

impl From<Stored> for TreeState {
    fn from((through, windows, sealed, offered, closings): Stored) -> Self {
        Self { through, windows, sealed, offered, closings }
    }
}

impl Serialize for TreeState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.through, &self.windows, &self.sealed, &self.offered, &self.closings)
            .serialize(serializer)
    }
}

impl TreeState {
    /// Takes the next message, of the thread at this place, and plans the windows it seals.
    pub fn push(
        &mut self,
        place: usize,
        thread: &ThreadName,
        piece: &WindowMessage<'_>,
        policy: &Policy,
    ) -> Vec<NodeSpec> {
        if self.windows.len() <= place {
            self.windows.resize_with(place + 1, OpenWindow::default);
        }
        self.through = piece.idx.0 + 1;
        let seals = self.windows[place].push(piece, &policy.window);
        seals.into_iter().map(|seal| self.window(thread, &seal, policy)).collect()
    }

    /// Plans a window for whatever is left open in each thread: the conversation is closed.
    pub fn close<'a>(
        &mut self,
        threads: impl Iterator<Item = &'a ThreadName>,
        policy: &Policy,
    ) -> Vec<NodeSpec> {
        let mut tasks = Vec::new();
        for (place, thread) in threads.enumerate() {
            let seal = self.windows.get_mut(place).and_then(OpenWindow::close);
            tasks.extend(seal.map(|seal| self.window(thread, &seal, policy)));
        }
        if !tasks.is_empty() {
            self.closings.push(self.through);
        }
        tasks
    }

    fn window(&mut self, thread: &ThreadName, seal: &SealedWindow, policy: &Policy) -> NodeSpec {
        let window = Window { thread: thread.clone(), from: seal.from, until: seal.until };
        let sealed_by = self.through.checked_sub(1).map(MessageIdx);
        self.task(
            Level::FIRST,
            Coverage::Messages(window),
            Cause::Window(seal.reason),
            sealed_by,
            policy,
        )
    }

    fn task(
        &mut self,
        level: Level,
        covers: Coverage,
        cause: Cause,
        sealed_by: Option<MessageIdx>,
        policy: &Policy,
    ) -> NodeSpec {
        let place = usize::from(level.number()) - 1;
        if self.sealed.len() <= place {
            self.sealed.resize(place + 1, 0);
        }
        let ordinal = self.sealed[place];
        self.sealed[place] += 1;
        NodeSpec { level, ordinal, covers, manner: policy.style(level), cause, sealed_by }
    }

    /// Plans the groups that finished nodes of `level` make, given all of them that are in none.
    /// Nodes are offered one after the other in the order they were sealed, whatever order they
    /// were finished in, so that the same groups come out. Each plan names the numbers of its
    /// children.
    pub fn group(
        &mut self,
        level: Level,
        nodes: Vec<Node>,
        policy: &Policy,
    ) -> Vec<(NodeSpec, Vec<u32>)> {
        let place = usize::from(level.number()) - 1;
        if self.offered.len() <= place {
            self.offered.resize(place + 1, 0);
        }
        let above = level.above();
        let Some(rule) = policy.group(above) else { return Vec::new() };
        let offered = self.offered[place];
        let (mut ungrouped, mut next): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.ordinal() < offered);
        next.sort_by_key(Node::ordinal);
        let mut planned = Vec::new();
        for node in next {
            if node.ordinal() != self.offered[place] {
                break;
            }
            self.offered[place] += 1;
            let sealed_by = node.spec.sealed_by;
            ungrouped.push(node);
            // Threads are merged in the order of time.
            ungrouped.sort_by_key(|node| (node.range_end, node.ordinal()));
            while let Some((children, reason)) = first_due(&ungrouped, rule) {
                let rest = ungrouped.split_off(children);
                let group = std::mem::replace(&mut ungrouped, rest);
                let ids = group.iter().map(|child| child.id.clone()).collect();
                let task =
                    self.task(above, Coverage::Nodes(ids), Cause::Group(reason), sealed_by, policy);
                planned.push((task, group.iter().map(Node::ordinal).collect()));
            }
        }
        planned
    }

    /// Plans a group anew whose children, given in the order of time, have outgrown it. The
    /// first part keeps its number, the others are new. Nothing where it holds.
    pub fn repack(
        &mut self,
        group: &NodeSpec,
        children: &[Node],
        policy: &Policy,
    ) -> Option<Vec<(NodeSpec, Vec<u32>)>> {
        let members: Vec<_> = children.iter().map(Node::member).collect();
        let parts = grouping::repacked(&members, policy.group(group.level)?)?;
        let mut rest = children;
        let mut planned = Vec::new();
        for (place, take) in parts.into_iter().enumerate() {
            let (part, more) = rest.split_at(take);
            rest = more;
            let covers = Coverage::Nodes(part.iter().map(|child| child.id.clone()).collect());
            let task = match place {
                0 => NodeSpec { covers, ..group.clone() },
                _ => {
                    let cause = Cause::Group(GroupReason::NextDoesNotFit);
                    self.task(group.level, covers, cause, group.sealed_by, policy)
                }
            };
            planned.push((task, part.iter().map(Node::ordinal).collect()));
        }
        Some(planned)
    }

    /// Forgets everything from a level upwards, so that it can grow again.
    pub fn drop_levels(&mut self, level: Level) {
        let below = usize::from(level.number()) - 1;
        self.sealed.truncate(below);
        self.offered.truncate(below.saturating_sub(1));
        if level == Level::FIRST {
            (self.through, self.windows) = (0, Vec::new());
        }
    }

    /// The first message that is in no sealed window of its thread, over all threads.
    #[must_use]
    pub fn first_open(&self) -> Option<MessageIdx> {
        self.windows.iter().filter_map(|window| window.from()).map(|place| place.idx).min()
    }
}

fn first_due(
    ungrouped: &[Node],
    rule: &crate::policy::GroupPolicy,
) -> Option<(usize, GroupReason)> {
    let members: Vec<_> = ungrouped.iter().map(Node::member).collect();
    grouping::due(&members, rule)
}
