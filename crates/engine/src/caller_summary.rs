//! Summaries that a caller writes. They enter the tree through the same commit as those of a
//! worker: the caller's text becomes the node that covers exactly the given turns or nodes.

use treering_core::acceptance;
use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::windowing::WindowMessage;
use treering_core::{
    Conversation, ConversationId, ConversationState, Coverage, Invalid, Job, JobKind, Level,
    MessageIdx, Node, NodeContent, NodeId, NodeSpec, Passage, Provenance, StoreError, TextPosition,
    ThreadName, ToolUse, Turn, TurnNo, Window, Write, hash_of_caller_node, without_private,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::overlay::Overlay;
use crate::summary_input::SummaryInput;
use crate::tree_planner::{TreePlanner, policy_of};
use crate::worker::store_node;

/// A summary that a caller wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSummary {
    /// The content that it covers.
    pub parents: SummaryParents,
    /// The summary. The calls of the tools that it lists are counted.
    pub content: NodeContent,
    /// The number of turns covered, if the caller knows it; another number is refused.
    pub turns: Option<u32>,
}

/// The content that a caller's summary covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SummaryParents {
    /// Turns, for a node of level 1.
    Turns(Vec<TurnNo>),
    /// Nodes of one level, for a node of the level above.
    Nodes(Vec<NodeId>),
}

/// A node to write, and the writes that plan it.
struct PlannedNode {
    spec: NodeSpec,
    writes: Vec<Write>,
}

impl Engine {
    /// Stores a summary that the caller wrote, as the node that covers the given turns or nodes. They must
    /// be a sealed window or group, or the beginning of what is unsealed or ungrouped, which then
    /// seals. An older node of the same coverage is replaced, a pending job for it is removed, and
    /// the nodes above are regenerated. The text is not refused for its fidelity, which is recorded.
    pub fn store_summary(&self, id: ConversationId, mut summary: NewSummary) -> Result<Node> {
        summary.content.replace_texts(|text| {
            let (kept, passages) = without_private(text);
            let mut kept = kept.into_owned();
            let excluded = self.exclusions().clean(&mut kept);
            (passages + excluded > 0).then_some(kept)
        });
        if !summary.content.overview.chars().any(char::is_alphanumeric) {
            return Err(Invalid::new("summary", "it has no text").into());
        }
        let (engine, key, now) = (self.clone(), self.key(id), self.clock().now());
        self.commit_with(self.scope_of(id), move |reader| {
            let Some(mut conversation) = reader.conversation(id)? else {
                return Err(refused(format!("conversation {id}"), "it does not exist"));
            };
            let before = conversation.clone();
            let policy = policy_of(engine.policy(), &conversation)?;
            let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
            let PlannedNode { spec, writes } = match &summary.parents {
                SummaryParents::Turns(turns) => planner.window_of(&mut conversation, turns)?,
                SummaryParents::Nodes(nodes) => planner.group_of(&mut conversation, nodes)?,
            };
            let mut overlay = Overlay::new(reader, conversation.clone())?;
            overlay.apply(writes.clone());
            let node = engine.caller_node(&overlay, &conversation, &spec, &summary)?;
            let (mut jobs, mut writes) = (overlay_jobs(&overlay, &spec), writes);
            if jobs.is_empty() {
                writes.extend(planner.jobs(vec![spec.clone()]));
                jobs.push(Job::plan(id, JobKind::Summarize(spec), now));
            }
            let planner = TreePlanner { reader: &overlay, ..planner };
            let job = jobs.remove(0);
            writes.extend(jobs.into_iter().map(Write::RemoveJob));
            let written = (node.clone(), &job);
            store_node(&engine, &planner, &mut conversation, written, "", &mut writes)?;
            if conversation != before {
                writes.insert(0, Write::PutConversation(conversation));
            }
            Ok((writes, node))
        })
    }

    /// The node with the caller's content.
    fn caller_node(
        &self,
        overlay: &Overlay<'_>,
        conversation: &Conversation,
        spec: &NodeSpec,
        summary: &NewSummary,
    ) -> StoreResult<Node> {
        let key = self.key(conversation.id);
        let input = SummaryInput::read(overlay, &key, spec, self.long_message_cache())?;
        let Some(mut input) = input else {
            return Err(refused("summary".to_owned(), "what it covers no longer exists"));
        };
        if let Some(turns) = summary.turns.filter(|turns| *turns != input.source.turns) {
            let reason = format!("it covers {}", input.source.turns);
            return Err(refused(format!("summary of {turns} turns"), reason));
        }
        let mut content = summary.content.clone();
        count_tools(&mut content.tools_used, &input.request.passages);
        let fidelity = acceptance::fidelity(&content, input.request.facts());
        let hash = hash_of_caller_node(&input.id, &content);
        input.id = NodeId::new(spec.level, hash, input.range_end);
        let by = Provenance::CALLER.to_owned();
        let provenance = Provenance { by, at: self.clock().now(), took_ms: 0 };
        let tokens = self.tokenizer().count(&content.overview);
        Ok(input.into_node(spec, content, tokens, fidelity, provenance))
    }
}

/// Counts the covered calls of each tool.
fn count_tools(tools: &mut [ToolUse], passages: &[Passage]) {
    for tool in tools {
        let mut add = |name: &str, succeeded: u32, failed: u32, unknown: u32| {
            if name == tool.name {
                tool.succeeded += succeeded;
                tool.failed += failed;
                tool.unknown += unknown;
            }
        };
        for passage in passages {
            match passage {
                Passage::Message(_) => {}
                Passage::Tool(call) => match call.success {
                    Some(true) => add(&call.name, 1, 0, 0),
                    Some(false) => add(&call.name, 0, 1, 0),
                    None => add(&call.name, 0, 0, 1),
                },
                Passage::Node(child) => {
                    for used in &child.content.tools_used {
                        add(&used.name, used.succeeded, used.failed, used.unknown);
                    }
                }
            }
        }
    }
}

/// The jobs that would write the node of a plan.
fn overlay_jobs(overlay: &Overlay<'_>, spec: &NodeSpec) -> Vec<Job> {
    let is_same = |job: &&Job| matches!(&job.kind, JobKind::Summarize(task) if is_at(task, spec));
    overlay.queue().filter(is_same).cloned().collect()
}

fn is_at(task: &NodeSpec, spec: &NodeSpec) -> bool {
    (task.level, task.ordinal) == (spec.level, spec.ordinal)
}

fn refused(subject: String, reason: impl Into<String>) -> StoreError {
    StoreError::Refused(Invalid::new(subject, reason))
}

impl TreePlanner<'_> {
    /// The window that covers exactly these turns: a sealed one, or the first turns of the open
    /// one, which seals after them.
    fn window_of(
        &self,
        conversation: &mut Conversation,
        turns: &[TurnNo],
    ) -> StoreResult<PlannedNode> {
        let turns = self.consecutive_turns(turns)?;
        let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
            return Err(refused("summary".to_owned(), "name the turns that it covers"));
        };
        let tasks = self.catch_up(conversation, conversation.totals.messages)?;
        let specs = self.sealed_windows(first, &tasks)?;
        let mut writes = self.jobs(tasks);
        let wanted: Vec<TurnNo> = turns.iter().map(|turn| turn.no).collect();
        for (spec, window) in &specs {
            let is_whole = window.from.offset == 0 && window.until.offset == 0;
            if self.turns_of(window)? == wanted && is_whole {
                return Ok(PlannedNode { spec: spec.clone(), writes });
            }
        }
        if let Some((_, window)) = specs.first() {
            let covered = numbers(&self.turns_of(window)?);
            let part = if specs.len() > 1 { ", which is divided over several windows" } else { "" };
            return Err(refused(
                format!("summary of {}", numbers(&wanted)),
                format!(
                    "turn {} is in the sealed window of {covered}{part}; a summary covers a sealed \
                     window exactly",
                    first.no
                ),
            ));
        }
        let spec = self.seal_open_window(conversation, first, last, &mut writes)?;
        let turns = u32::try_from(wanted.len()).ok();
        Ok(PlannedNode { spec: NodeSpec { turns, ..spec }, writes })
    }

    /// Seals the open window of a thread after a turn, and folds the messages after it again.
    fn seal_open_window(
        &self,
        conversation: &mut Conversation,
        first: &Turn,
        last: &Turn,
        writes: &mut Vec<Write>,
    ) -> StoreResult<NodeSpec> {
        let refuse =
            |reason: String| refused(format!("summary of turns {}–{}", first.no, last.no), reason);
        let index = conversation.threads.iter().position(|thread| thread.name == first.thread);
        let Some(index) = index else { return Err(refuse("their thread does not exist".into())) };
        let open = conversation.tree_state.windows.get(index).and_then(|window| window.from());
        let Some(open) = open else { return Err(refuse("they have no messages".into())) };
        let through = conversation.tree_state.through;
        let window = Window {
            thread: first.thread.clone(),
            from: open,
            until: TextPosition { idx: MessageIdx(through), offset: 0 },
        };
        let unsealed = self.turns_of(&window)?;
        if unsealed.first() != Some(&first.no) || open.offset > 0 {
            let open = numbers(&unsealed);
            return Err(refuse(format!(
                "the open window has {open}; a summary of unsealed turns begins with the first of \
                 them, as a whole"
            )));
        }
        let thread = &conversation.threads[index];
        let is_latest = thread.last_turn.as_ref().is_some_and(|latest| latest.no == last.no);
        if is_latest && !thread.turn_ended && conversation.state == ConversationState::Open {
            return Err(refuse(format!(
                "turn {} is not complete; mark its end, or store the next turn first",
                last.no
            )));
        }
        let policy = self.window_policy();
        let until = TextPosition { idx: last.until, offset: 0 };
        let state = &mut conversation.tree_state;
        let Some(spec) = state.seal_requested(index, &first.thread, until, &policy) else {
            return Err(refuse("they have no messages".into()));
        };
        let mut tasks = Vec::new();
        let rest = Span::between(last.until, MessageIdx(through));
        for message in self.reader.messages(self.key.id, rest)? {
            if message.thread == first.thread {
                let piece = WindowMessage::from(&message);
                tasks.extend(state.push(index, &first.thread, &piece, &policy));
            }
        }
        state.through = through;
        tasks.extend(self.end_turns(conversation));
        writes.extend(self.jobs(tasks));
        Ok(spec)
    }

    /// The turns with these numbers, which must follow each other in one thread.
    fn consecutive_turns(&self, requested: &[TurnNo]) -> StoreResult<Vec<Turn>> {
        let mut wanted = requested.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else {
            return Ok(Vec::new());
        };
        let span = Span::between(*first, TurnNo(last.0.saturating_add(1)));
        let mut turns = self.reader.turns(self.key.id, span)?;
        let refuse = |reason: String| refused(format!("summary of {}", numbers(&wanted)), reason);
        let missing = wanted.iter().find(|no| !turns.iter().any(|turn| turn.no == **no));
        if let Some(missing) = missing {
            return Err(refuse(format!("turn {missing} does not exist")));
        }
        let thread: Option<ThreadName> = turns.first().map(|turn| turn.thread.clone());
        turns.retain(|turn| Some(&turn.thread) == thread.as_ref());
        let found: Vec<TurnNo> = turns.iter().map(|turn| turn.no).collect();
        if found != wanted {
            let found = numbers(&found);
            return Err(refuse(format!(
                "the turns of a summary follow each other in one thread: {found}"
            )));
        }
        Ok(turns)
    }

    /// The sealed windows of a turn's thread that cover its first message, written or planned.
    fn sealed_windows(
        &self,
        turn: &Turn,
        planned: &[NodeSpec],
    ) -> StoreResult<Vec<(NodeSpec, Window)>> {
        let around = NodeFilter { around: Some(turn.from), ..NodeFilter::at(Level::FIRST) };
        let nodes = self.reader.nodes(self.key.id, &around)?.into_iter().map(|node| node.spec);
        let heights = Some((Level::FIRST.number(), Level::FIRST.number()));
        let jobs = self.reader.jobs(&JobFilter { heights, ..JobFilter::of(self.key.id) })?;
        let jobs = jobs.into_iter().filter_map(|job| match job.kind {
            JobKind::Summarize(spec) => Some(spec),
            _ => None,
        });
        let mut found: Vec<(NodeSpec, Window)> = Vec::new();
        for spec in nodes.chain(jobs).chain(planned.iter().cloned()) {
            let Coverage::Messages(window) = spec.covers.clone() else { continue };
            let covers = window.thread == turn.thread
                && window.from.idx <= turn.from
                && turn.from < window.end();
            if covers && !found.iter().any(|(other, _)| is_at(other, &spec)) {
                found.push((spec, window));
            }
        }
        Ok(found)
    }

    /// The turns whose messages a window covers, in order.
    fn turns_of(&self, window: &Window) -> StoreResult<Vec<TurnNo>> {
        let messages =
            self.reader.messages(self.key.id, Span::between(window.from.idx, window.end()))?;
        let own = messages.iter().filter(|message| message.thread == window.thread);
        let mut turns: Vec<TurnNo> = own.map(|message| message.turn).collect();
        turns.sort_unstable();
        turns.dedup();
        Ok(turns)
    }

    /// The group of exactly these nodes: a sealed one, or the first ungrouped nodes of their level,
    /// which become one.
    fn group_of(
        &self,
        conversation: &mut Conversation,
        ids: &[NodeId],
    ) -> StoreResult<PlannedNode> {
        let refuse = |reason: String| refused("summary of nodes".to_owned(), reason);
        let mut nodes = Vec::new();
        for id in ids {
            let filter = NodeFilter { id: Some(id.clone()), ..NodeFilter::default() };
            let Some(node) = self.reader.nodes(self.key.id, &filter)?.pop() else {
                return Err(refuse(format!("{} has no node {id}", conversation.slug)));
            };
            nodes.push(node);
        }
        let Some(first) = nodes.first() else {
            return Err(refuse("name the nodes that it covers".into()));
        };
        let (level, parent) = (first.level(), first.parent);
        if nodes.iter().any(|node| node.level() != level) {
            return Err(refuse("they are of different levels".into()));
        }
        match parent {
            Some(parent) => self.sealed_group(level, parent, &nodes),
            None => self.new_group(conversation, level, &nodes),
        }
    }

    /// The sealed group that has exactly these children.
    fn sealed_group(&self, level: Level, parent: u32, nodes: &[Node]) -> StoreResult<PlannedNode> {
        let filter = NodeFilter { parent: Some(Some(parent)), ..NodeFilter::at(level) };
        let children = self.reader.nodes(self.key.id, &filter)?;
        let is_given = |child: &Node| nodes.iter().any(|node| node.id == child.id);
        if children.len() != nodes.len() || !children.iter().all(is_given) {
            return Err(refused(
                "summary of nodes".to_owned(),
                format!(
                    "{} is in a sealed group; a summary covers the group exactly: {}",
                    nodes[0].id,
                    ids_of(&children)
                ),
            ));
        }
        let parent_level = level.above();
        let written = self.node(parent_level, parent)?.map(|node| node.spec);
        let jobs = self.reader.jobs(&JobFilter::of(self.key.id))?;
        let planned = jobs.into_iter().find_map(|job| match job.kind {
            JobKind::Summarize(task) if (task.level, task.ordinal) == (parent_level, parent) => {
                Some(task)
            }
            _ => None,
        });
        let Some(spec) = written.or(planned) else {
            return Err(refused("summary of nodes".to_owned(), "their group does not exist"));
        };
        Ok(PlannedNode { spec, writes: Vec::new() })
    }

    /// A new group of these nodes. They must be the first ungrouped ones of their level; the last
    /// one stays ungrouped, for context.
    fn new_group(
        &self,
        conversation: &mut Conversation,
        level: Level,
        nodes: &[Node],
    ) -> StoreResult<PlannedNode> {
        let ungrouped = self.offered_ungrouped(conversation, level)?;
        let is_given = |child: &Node| nodes.iter().any(|node| node.id == child.id);
        let leading = ungrouped.iter().take_while(|child| is_given(child)).count();
        if leading != nodes.len() || leading < 2 || leading >= ungrouped.len() {
            return Err(refused(
                format!("summary of {} nodes", nodes.len()),
                format!(
                    "it covers at least two nodes, begins with the first ungrouped one of level \
                     {level} and leaves the last one; ungrouped are {}",
                    ids_of(&ungrouped)
                ),
            ));
        }
        self.plan_group(conversation, &ungrouped[..leading])
    }

    /// Plans a group of all ungrouped nodes of a level but the last.
    pub(crate) fn group_ungrouped(
        &self,
        conversation: &mut Conversation,
        level: Level,
    ) -> StoreResult<(NodeSpec, Vec<Write>)> {
        let ungrouped = self.offered_ungrouped(conversation, level)?;
        let Some((_, children)) = ungrouped.split_last().filter(|(_, children)| children.len() > 1)
        else {
            let heights = Some((level.number(), level.number()));
            let jobs = self.reader.jobs(&JobFilter { heights, ..JobFilter::of(self.key.id) })?;
            return Err(refused(
                format!("summary of level {level}"),
                format!(
                    "it needs three nodes that no higher node covers, because the last one stays \
                     ungrouped; there are {} and {} jobs of this level are pending",
                    ungrouped.len(),
                    jobs.len()
                ),
            ));
        };
        let PlannedNode { spec, mut writes } = self.plan_group(conversation, children)?;
        writes.extend(self.jobs(vec![spec.clone()]));
        Ok((spec, writes))
    }

    fn plan_group(
        &self,
        conversation: &mut Conversation,
        children: &[Node],
    ) -> StoreResult<PlannedNode> {
        let policy = self.window_policy();
        let (Some(spec), Some(first)) =
            (conversation.tree_state.group_requested(children, &policy), children.first())
        else {
            return Err(refused("summary of nodes".to_owned(), "there are none"));
        };
        let ordinals = children.iter().map(Node::ordinal).collect();
        let parent = Some(spec.ordinal);
        let writes = vec![Write::SetParent(self.key.id, first.level(), ordinals, parent)];
        Ok(PlannedNode { spec, writes })
    }

    /// The ungrouped nodes of a level that may be grouped, in time order. Nodes that were written
    /// before an earlier one are not among them.
    fn offered_ungrouped(
        &self,
        conversation: &Conversation,
        level: Level,
    ) -> StoreResult<Vec<Node>> {
        let index = usize::from(level.number()) - 1;
        let offered = conversation.tree_state.offered.get(index).copied().unwrap_or(0);
        let mut nodes = self.reader.nodes(self.key.id, &NodeFilter::ungrouped(level))?;
        nodes.retain(|node| node.ordinal() < offered);
        nodes.sort_by_key(|node| (node.range_end, node.ordinal()));
        Ok(nodes)
    }
}

/// The numbers of turns, as text.
fn numbers(turns: &[TurnNo]) -> String {
    match turns {
        [] => "no turns".to_owned(),
        [only] => format!("turn {only}"),
        [first, .., last] if (last.0 - first.0) as usize + 1 == turns.len() => {
            format!("turns {first}–{last}")
        }
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("turns {}", several.join(", "))
        }
    }
}

fn ids_of(nodes: &[Node]) -> String {
    let ids: Vec<&str> = nodes.iter().map(|node| node.id.as_str()).collect();
    if ids.is_empty() { "none".to_owned() } else { ids.join(", ") }
}
