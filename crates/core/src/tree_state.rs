//! The state of a conversation's tree, and the nodes to write next. Takes values and returns
//! plans with their reasons; it never stores or runs them.

use serde::{Deserialize, Serialize, Serializer};

use crate::capture::TurnEnd;
use crate::grouping::{self, GroupReason};
use crate::ids::{MessageIdx, ThreadName};
use crate::node::{Coverage, Level, Node, NodeSpec, SealCause, TextPosition, Window};
use crate::policy::Policy;
use crate::windowing::{OpenWindow, SealReason, SealedWindow, WindowMessage};

/// The state of a conversation's tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Stored")]
pub struct TreeState {
    /// The number of messages processed.
    pub through: u32,
    /// The open window of each thread, in thread order.
    pub windows: Vec<OpenWindow>,
    /// The number of sealed nodes at each level.
    pub sealed: Vec<u32>,
    /// The number of finished nodes of each level that were offered to the level above. Nodes
    /// are offered in the order of their ordinals.
    pub offered: Vec<u32>,
    /// The number of messages processed at each closing of the conversation.
    pub closings: Vec<u32>,
    /// The marked ends of turns that sealed a window before a message of another thread. A
    /// rebuild repeats them, so that the windows of all threads seal in the same order again.
    pub turn_ends: Vec<TurnEnd>,
    /// The level of the top, written or planned. Conversations closed before tops existed have
    /// none until their next change or update.
    pub top: Option<Level>,
}

/// The serialized form. A compact array, because it is written with every message.
#[derive(Deserialize)]
#[serde(untagged)]
enum Stored {
    Current(u32, Vec<OpenWindow>, Vec<u32>, Vec<u32>, Vec<u32>, Vec<(u32, usize)>, Level),
    /// Without a top.
    WithoutTop(u32, Vec<OpenWindow>, Vec<u32>, Vec<u32>, Vec<u32>, Vec<(u32, usize)>),
    /// Written before turns had marked ends.
    WithoutTurnEnds(u32, Vec<OpenWindow>, Vec<u32>, Vec<u32>, Vec<u32>),
}

impl From<Stored> for TreeState {
    fn from(stored: Stored) -> Self {
        let (through, windows, sealed, offered, closings, turn_ends, top) = match stored {
            Stored::Current(through, windows, sealed, offered, closings, turn_ends, top) => {
                (through, windows, sealed, offered, closings, turn_ends, Some(top))
            }
            Stored::WithoutTop(through, windows, sealed, offered, closings, turn_ends) => {
                (through, windows, sealed, offered, closings, turn_ends, None)
            }
            Stored::WithoutTurnEnds(through, windows, sealed, offered, closings) => {
                (through, windows, sealed, offered, closings, Vec::new(), None)
            }
        };
        let turn_ends = turn_ends.into_iter().map(|(after, thread)| TurnEnd { after, thread });
        let turn_ends = turn_ends.collect();
        Self { through, windows, sealed, offered, closings, turn_ends, top }
    }
}

impl Serialize for TreeState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let turn_ends: Vec<_> = self.turn_ends.iter().map(|end| (end.after, end.thread)).collect();
        let Self { through, windows, sealed, offered, closings, top, .. } = self;
        match top {
            None => (through, windows, sealed, offered, closings, turn_ends).serialize(serializer),
            top => {
                (through, windows, sealed, offered, closings, turn_ends, top).serialize(serializer)
            }
        }
    }
}

impl TreeState {
    /// Adds the next message, which belongs to the thread at this index, and plans the windows
    /// it seals.
    pub fn push(
        &mut self,
        index: usize,
        thread: &ThreadName,
        piece: &WindowMessage<'_>,
        policy: &Policy,
    ) -> Vec<NodeSpec> {
        if self.windows.len() <= index {
            self.windows.resize_with(index + 1, OpenWindow::default);
        }
        // The next message of the same thread shows the end of the turn without a mark, unless the
        // mark says which of several threads ended first.
        let unmarked_end = TurnEnd { after: piece.idx.0, thread: index };
        let is_of_other =
            |end: &TurnEnd| end.after == unmarked_end.after && end.thread != unmarked_end.thread;
        if !self.turn_ends.iter().any(is_of_other) {
            self.turn_ends.retain(|end| *end != unmarked_end);
        }
        self.through = piece.idx.0 + 1;
        let seals = self.windows[index].push(piece, policy.window_rule());
        if !policy.enabled {
            self.windows[index].mark_outdated();
        }
        seals.into_iter().map(|seal| self.window(thread, &seal, policy)).collect()
    }

    /// Ends the latest turn of the thread at this index, and plans the window that this seals.
    pub fn end_turn(
        &mut self,
        index: usize,
        thread: &ThreadName,
        policy: &Policy,
    ) -> Option<NodeSpec> {
        let seal = self.windows.get_mut(index)?.end_turn(policy.window_rule())?;
        self.turn_ends.push(TurnEnd { after: self.through, thread: index });
        Some(self.window(thread, &seal, policy))
    }

    /// Plans a window for the open rest of each thread when the conversation closes.
    pub fn close<'a>(
        &mut self,
        threads: impl Iterator<Item = &'a ThreadName>,
        policy: &Policy,
    ) -> Vec<NodeSpec> {
        let by = MessageIdx(self.through.saturating_sub(1));
        let mut tasks = Vec::new();
        if !policy.enabled {
            return tasks;
        }
        for (index, thread) in threads.enumerate() {
            let Some(window) = self.windows.get_mut(index) else { continue };
            let seals = window.close(by, &policy.window);
            tasks.extend(seals.iter().map(|seal| self.window(thread, seal, policy)));
        }
        if !tasks.is_empty() {
            self.closings.push(self.through);
        }
        tasks
    }

    /// Seals the open window of the thread at this index up to a position, because a caller asked
    /// for it. The window is empty afterwards: the messages after the position have to be pushed
    /// again.
    pub fn seal_requested(
        &mut self,
        index: usize,
        thread: &ThreadName,
        until: TextPosition,
        policy: &Policy,
    ) -> Option<NodeSpec> {
        let open = std::mem::take(self.windows.get_mut(index)?);
        let window = Window { thread: thread.clone(), from: open.from()?, until };
        let sealed_by = Some(MessageIdx(self.through.saturating_sub(1)));
        let cause = SealCause::Window(SealReason::Requested);
        Some(self.task(Level::FIRST, Coverage::Messages(window), cause, sealed_by, policy))
    }

    /// Seals a group of these nodes, given in time order, because a caller asked for it.
    pub fn group_requested(&mut self, children: &[Node], policy: &Policy) -> Option<NodeSpec> {
        let level = children.first()?.level().above();
        let covers = Coverage::Nodes(children.iter().map(|child| child.id.clone()).collect());
        let sealed_by = children.iter().filter_map(|child| child.spec.sealed_by).max();
        let cause = SealCause::Group(GroupReason::Requested);
        Some(self.task(level, covers, cause, sealed_by, policy))
    }

    fn window(&mut self, thread: &ThreadName, seal: &SealedWindow, policy: &Policy) -> NodeSpec {
        let window = Window { thread: thread.clone(), from: seal.from, until: seal.until };
        let (covers, cause) = (Coverage::Messages(window), SealCause::Window(seal.reason));
        let task = self.task(Level::FIRST, covers, cause, Some(seal.by), policy);
        NodeSpec { turns: Some(seal.message_run.turns), ..task }
    }

    fn task(
        &mut self,
        level: Level,
        covers: Coverage,
        cause: SealCause,
        sealed_by: Option<MessageIdx>,
        policy: &Policy,
    ) -> NodeSpec {
        let index = usize::from(level.number()) - 1;
        if self.sealed.len() <= index {
            self.sealed.resize(index + 1, 0);
        }
        let ordinal = self.sealed[index];
        self.sealed[index] += 1;
        let (style, overrides) = (policy.style(level), Vec::new());
        let (turns, replaces) = (None, None);
        NodeSpec { level, ordinal, covers, style, cause, sealed_by, turns, overrides, replaces }
    }

    /// Plans the groups that finished nodes of `level` form. `nodes` are all ungrouped nodes of
    /// the level. They are offered in sealing order, not in the order of completion, so that
    /// the result is deterministic. Each plan comes with the ordinals of its children. The
    /// overrides of the node that completes a group hold for the group.
    pub fn group(
        &mut self,
        level: Level,
        nodes: Vec<Node>,
        policy: &Policy,
    ) -> Vec<(NodeSpec, Vec<u32>)> {
        let index = usize::from(level.number()) - 1;
        if self.offered.len() <= index {
            self.offered.resize(index + 1, 0);
        }
        let parent_level = level.above();
        let offered = self.offered[index];
        let (mut ungrouped, mut next): (Vec<Node>, Vec<Node>) =
            nodes.into_iter().partition(|node| node.ordinal() < offered);
        next.sort_by_key(Node::ordinal);
        let mut planned = Vec::new();
        for node in next {
            if node.ordinal() != self.offered[index] {
                break;
            }
            self.offered[index] += 1;
            let NodeSpec { sealed_by, overrides, .. } = node.spec.clone();
            ungrouped.push(node);
            let policy = policy.overridden(&overrides);
            let due = self.due_groups(parent_level, &mut ungrouped, sealed_by, &policy);
            let with =
                |(spec, children)| (NodeSpec { overrides: overrides.clone(), ..spec }, children);
            planned.extend(due.into_iter().map(with));
        }
        planned
    }

    /// Plans the groups that nodes of `level` form under another policy, although they were
    /// offered before and stayed ungrouped.
    pub fn regroup(
        &mut self,
        level: Level,
        mut ungrouped: Vec<Node>,
        policy: &Policy,
    ) -> Vec<(NodeSpec, Vec<u32>)> {
        let offered = self.offered.get(usize::from(level.number()) - 1).copied().unwrap_or(0);
        ungrouped.retain(|node| node.ordinal() < offered);
        let sealed_by = ungrouped.iter().filter_map(|node| node.spec.sealed_by).max();
        self.due_groups(level.above(), &mut ungrouped, sealed_by, policy)
    }

    /// Plans the groups that are due among ungrouped nodes, and removes their children.
    fn due_groups(
        &mut self,
        parent_level: Level,
        ungrouped: &mut Vec<Node>,
        sealed_by: Option<MessageIdx>,
        policy: &Policy,
    ) -> Vec<(NodeSpec, Vec<u32>)> {
        let mut planned = Vec::new();
        let rule = policy.group(parent_level).filter(|_| policy.enabled);
        let Some(rule) = rule else { return planned };
        // Merge threads in time order.
        ungrouped.sort_by_key(|node| (node.range_end, node.ordinal()));
        while let Some((children, reason)) = first_due(ungrouped, rule) {
            let group: Vec<Node> = ungrouped.drain(..children).collect();
            let covers = Coverage::Nodes(group.iter().map(|child| child.id.clone()).collect());
            let task = self.task(parent_level, covers, SealCause::Group(reason), sealed_by, policy);
            planned.push((task, group.iter().map(Node::ordinal).collect()));
        }
        planned
    }

    /// Splits a group whose children, given in time order, have outgrown it. The first part
    /// keeps its ordinal; the others get new ones. `None` if the group is not too large.
    pub fn repack(
        &mut self,
        group: &NodeSpec,
        children: &[Node],
        policy: &Policy,
    ) -> Option<Vec<(NodeSpec, Vec<u32>)>> {
        let members: Vec<_> = children.iter().map(Node::member).collect();
        let policy = policy.overridden(&group.overrides);
        let parts = grouping::repacked(&members, policy.group(group.level)?)?;
        let mut rest = children;
        let mut planned = Vec::new();
        for (index, take) in parts.into_iter().enumerate() {
            let (part, more) = rest.split_at(take);
            rest = more;
            let covers = Coverage::Nodes(part.iter().map(|child| child.id.clone()).collect());
            let task = match index {
                0 => NodeSpec { covers, ..group.clone() },
                _ => {
                    let cause = SealCause::Group(GroupReason::NextDoesNotFit);
                    let task = self.task(group.level, covers, cause, group.sealed_by, &policy);
                    NodeSpec { overrides: group.overrides.clone(), ..task }
                }
            };
            planned.push((task, part.iter().map(Node::ordinal).collect()));
        }
        Some(planned)
    }

    /// Resets everything from a level upwards, so that it can be rebuilt.
    pub fn drop_levels(&mut self, level: Level) {
        let below = usize::from(level.number()) - 1;
        self.sealed.truncate(below);
        self.offered.truncate(below.saturating_sub(1));
        self.top = self.top.filter(|top| *top < level);
        if level == Level::FIRST {
            (self.through, self.windows) = (0, Vec::new());
        }
    }

    /// Marks that the messages of the open windows must be folded again, because some of them
    /// changed.
    pub fn outdate_windows(&mut self) {
        self.windows.iter_mut().for_each(OpenWindow::mark_outdated);
    }

    /// Whether the node was offered to the level above.
    #[must_use]
    pub fn is_offered(&self, level: Level, ordinal: u32) -> bool {
        let offered = self.offered.get(usize::from(level.number()) - 1);
        offered.is_some_and(|offered| ordinal < *offered)
    }

    /// The first message that no sealed window covers, over all threads.
    #[must_use]
    pub fn first_open(&self) -> Option<MessageIdx> {
        self.windows.iter().filter_map(|window| window.from()).map(|position| position.idx).min()
    }
}

fn first_due(
    ungrouped: &[Node],
    rule: &crate::policy::GroupPolicy,
) -> Option<(usize, GroupReason)> {
    let members: Vec<_> = ungrouped.iter().map(Node::member).collect();
    grouping::due(&members, rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_every_version_are_read() {
        let ends = vec![TurnEnd { after: 4, thread: 1 }];
        let top = Some(Level::FIRST.above());
        let (sealed, offered) = (vec![2], vec![1]);
        let state = TreeState {
            through: 6,
            sealed,
            offered,
            closings: vec![6],
            turn_ends: ends,
            top,
            ..TreeState::default()
        };
        let without_top = TreeState { top: None, ..state.clone() };
        let without_ends = TreeState { turn_ends: Vec::new(), ..without_top.clone() };
        for (text, expected) in [
            ("[6,[],[2],[1],[6],[[4,1]],2]", state),
            ("[6,[],[2],[1],[6],[[4,1]]]", without_top),
            ("[6,[],[2],[1],[6]]", without_ends),
        ] {
            let read: TreeState = serde_json::from_str(text).unwrap();
            assert_eq!(read, expected, "{text}");
            let again = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<TreeState>(&again).unwrap(), expected, "{again}");
        }
    }
}
