//! The grove: the pieces of one conversation as packing asks for them, read from the store as far
//! as they are asked for, as they were known at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use treering_core::error::StoreError;
use treering_core::node::{Place, Slice, Window};
use treering_core::packing::{Candidate, Forest, Grain, Key, Lead, LeftOut, Piece, SkipReason};
use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationKey, Covers, Job, JobKind, Level, Message, MessageIdx, Node, Reader,
    ThreadName, ToolCall, TurnNo,
};

use super::blocks::{self, NODE_GRAINS, Said};
use super::hits::Asked;
use super::lineage::Lineage;
use super::tally::Tally;

/// The pieces of a conversation.
pub(super) struct Grove<'a> {
    pub(super) reader: &'a dyn Reader,
    pub(super) key: &'a ConversationKey,
    pub(super) conversation: &'a Conversation,
    pub(super) tally: &'a Tally,
    pub(super) lineage: Lineage,
    /// One past the last message that is known.
    pub(super) end: u32,
    /// One past the last message that is settled.
    pub(super) settled: u32,
    pub(super) asked: Option<Asked>,
    /// How much there is for hits, about.
    pub(super) room: u32,
    pub(super) nodes: HashMap<(Level, u32), Arc<Node>>,
    pub(super) messages: BTreeMap<u32, Message>,
    pub(super) calls: HashMap<u32, Vec<ToolCall>>,
    /// The parts of long messages that fit the question.
    pub(super) parts: HashMap<u32, String>,
    roots: Option<(u32, Vec<Piece>)>,
    jobs: Option<Vec<Job>>,
}

impl<'a> Grove<'a> {
    pub(super) fn new(
        reader: &'a dyn Reader,
        key: &'a ConversationKey,
        conversation: &'a Conversation,
        tally: &'a Tally,
        thread: &ThreadName,
        end: u32,
    ) -> Self {
        Self {
            reader,
            key,
            conversation,
            tally,
            lineage: Lineage::of(conversation, thread),
            end,
            settled: end,
            asked: None,
            room: 0,
            nodes: HashMap::new(),
            messages: BTreeMap::new(),
            calls: HashMap::new(),
            parts: HashMap::new(),
            roots: None,
            jobs: None,
        }
    }

    fn is_one_thread(&self) -> bool {
        self.conversation.threads.len() <= 1
    }

    /// Whether a node counts at the settled place: it was sealed by then, and tells of nothing
    /// that lies outside the thread.
    pub(super) fn counts(&mut self, node: &Node) -> StoreResult<bool> {
        if !node.task.is_sealed_at(MessageIdx(self.settled), node.source.until) {
            return Ok(false);
        }
        match &node.task.covers {
            _ if self.is_one_thread() => Ok(true),
            Covers::Messages(window) => Ok(self.lineage.holds_window(window)),
            Covers::Nodes(_) => {
                for child in self.children(node)? {
                    if !self.counts(&child)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn read_nodes(&mut self, filter: &NodeFilter) -> StoreResult<Vec<Arc<Node>>> {
        let nodes: Vec<_> = self.reader.nodes(self.key, filter)?.into_iter().map(Arc::new).collect();
        self.keep(&nodes);
        Ok(nodes)
    }

    pub(super) fn keep(&mut self, nodes: &[Arc<Node>]) {
        let placed = nodes.iter().map(|node| ((node.level(), node.ordinal()), Arc::clone(node)));
        self.nodes.extend(placed);
    }

    fn children(&mut self, node: &Node) -> StoreResult<Vec<Arc<Node>>> {
        let Some(below) = node.level().below() else { return Ok(Vec::new()) };
        if let Some(children) = self.tally.below(self.key.id, node) {
            self.keep(&children);
            return Ok(children);
        }
        let filter = NodeFilter { parent: Some(Some(node.ordinal())), ..NodeFilter::at(below) };
        let mut children = self.read_nodes(&filter)?;
        children.sort_by_key(|child| (child.range_end, child.ordinal()));
        self.tally.put_below(self.key.id, node, children.clone());
        Ok(children)
    }

    fn jobs(&mut self) -> StoreResult<&[Job]> {
        if self.jobs.is_none() {
            self.jobs = Some(self.reader.jobs(&self.key.tenant, &JobFilter::of(self.key.id))?);
        }
        Ok(self.jobs.as_deref().unwrap_or_default())
    }

    /// The highest nodes that count.
    fn highest(&mut self) -> StoreResult<Vec<Arc<Node>>> {
        let height = self.conversation.growth.sealed.len();
        let mut tops = Vec::new();
        for number in 1..=height {
            let Some(level) = u8::try_from(number).ok().and_then(Level::new) else { break };
            tops.extend(self.read_nodes(&NodeFilter::ungrouped(level))?);
        }
        // What is under a group that has no node yet stands for itself.
        let waiting: Vec<(Level, u32)> = self.jobs()?.iter().filter_map(waiting_group).collect();
        for (below, ordinal) in waiting {
            let written = below.above();
            let there = Some(Span::between(ordinal, ordinal + 1));
            if self.read_nodes(&NodeFilter { ordinals: there, ..NodeFilter::at(written) })?.is_empty() {
                let filter = NodeFilter { parent: Some(Some(ordinal)), ..NodeFilter::at(below) };
                tops.extend(self.read_nodes(&filter)?);
            }
        }
        let mut counting = Vec::new();
        while let Some(node) = tops.pop() {
            if self.counts(&node)? {
                counting.push(node);
            } else {
                tops.extend(self.children(&node)?);
            }
        }
        counting.sort_by_key(|node| (node.source.from, node.source.until, node.ordinal()));
        counting.dedup_by(|one, other| one.id == other.id);
        Ok(counting)
    }

    /// What no node covers of each thread up to the settled place, in windows.
    fn uncovered(&mut self, highest: &[Arc<Node>]) -> StoreResult<Vec<Window>> {
        let waiting = self.waiting_windows()?;
        let mut open = Vec::new();
        let settled = self.settled;
        let line = self.lineage.0.iter().map(|(thread, until)| (thread.clone(), settled.min(*until)));
        for (thread, until) in line.collect::<Vec<_>>() {
            let mut covered: Vec<Window> = waiting.iter().filter(|it| it.thread == thread).cloned().collect();
            open.extend(covered.iter().cloned());
            for node in highest {
                self.windows_of(node, &thread, &mut covered)?;
            }
            covered.sort_by_key(|window| (window.from, window.until));
            let until = Place { idx: MessageIdx(until), offset: 0 };
            let mut at = Place { idx: MessageIdx(0), offset: 0 };
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

    /// Windows that are sealed and have no node yet: what was said stands in.
    fn waiting_windows(&mut self) -> StoreResult<Vec<Window>> {
        let settled = MessageIdx(self.settled);
        let waits = |job: &Job| match &job.kind {
            JobKind::Summarise(task) => match &task.covers {
                Covers::Messages(window) if task.is_sealed_at(settled, window.end().0) => {
                    Some((task.ordinal, window.clone()))
                }
                _ => None,
            },
            _ => None,
        };
        let waiting: Vec<(u32, Window)> = self.jobs()?.iter().filter_map(waits).collect();
        let mut windows = Vec::new();
        for (ordinal, window) in waiting {
            let there = Some(Span::between(ordinal, ordinal + 1));
            let written = self.read_nodes(&NodeFilter { ordinals: there, ..NodeFilter::at(Level::FIRST) })?;
            if written.is_empty() && self.lineage.holds_window(&window) {
                windows.push(window);
            }
        }
        Ok(windows)
    }

    /// The windows of a thread that a node covers: exactly where it can be told apart, one for
    /// all of it where there is only one thread.
    fn windows_of(&mut self, node: &Node, thread: &ThreadName, covered: &mut Vec<Window>) -> StoreResult<()> {
        match &node.task.covers {
            Covers::Messages(window) if window.thread == *thread => covered.push(window.clone()),
            Covers::Messages(_) => {}
            Covers::Nodes(_) if self.is_one_thread() => {
                let place = |idx: u32| Place { idx: MessageIdx(idx), offset: 0 };
                let (from, until) = (place(node.source.from), place(node.source.until));
                covered.push(Window { thread: thread.clone(), from, until });
            }
            Covers::Nodes(_) => {
                for child in self.children(node)? {
                    self.windows_of(&child, thread, covered)?;
                }
            }
        }
        Ok(())
    }

    /// Reads messages, with the one before them and with their tool calls.
    fn read_messages(&mut self, from: u32, until: u32) -> StoreResult<()> {
        let until = until.min(self.end);
        let from = from.saturating_sub(1);
        if from >= until || (from..until).all(|idx| self.messages.contains_key(&idx)) {
            return Ok(());
        }
        let read = self.reader.messages(self.key, Span::between(MessageIdx(from), MessageIdx(until)))?;
        if self.conversation.totals.tool_calls > 0
            && let (Some(first), Some(last)) =
                (read.iter().map(|it| it.turn).min(), read.iter().map(|it| it.turn).max())
        {
            for call in self.reader.tool_calls(self.key, Span::between(first, TurnNo(last.0 + 1)))? {
                let before = self.calls.entry(call.before.0).or_default();
                let known = before.iter().any(|it| (it.turn, it.order) == (call.turn, call.order));
                if !known {
                    before.push(call);
                }
            }
        }
        self.messages.extend(read.into_iter().map(|message| (message.idx.0, message)));
        Ok(())
    }

    /// A message as it is told, in its place.
    pub(super) fn said(&self, slice: Slice, lead: Lead) -> Option<Said<'_>> {
        let message = self.messages.get(&slice.idx.0)?;
        let calls = self.calls.get(&slice.idx.0).filter(|_| slice.from == 0);
        let calls = calls.map_or(&[][..], Vec::as_slice);
        Some(Said { message, slice, calls, lead, part: None })
    }

    /// A message as it is recalled.
    pub(super) fn recalled(&self, slice: Slice, lead: Lead) -> Option<Said<'_>> {
        let message = self.messages.get(&slice.idx.0)?;
        let part = self.parts.get(&slice.idx.0).map(String::as_str);
        Some(Said { message, slice, calls: &[], lead, part })
    }

    /// What a message says about its place: the first of a day says when it was said.
    pub(super) fn lead(&self, slice: Slice) -> Lead {
        let day = |idx: u32| self.messages.get(&idx).map(day_of);
        let idx = slice.idx.0;
        let opens_a_day = idx.checked_sub(1).is_none_or(|before| day(before) != day(idx));
        if slice.from == 0 && opens_a_day { Lead::Minute } else { Lead::None }
    }

    fn raw(&mut self, window: &Window) -> StoreResult<Vec<Piece>> {
        self.read_messages(window.from.idx.0, window.end().0)?;
        let span = window.from.idx.0..window.end().0.min(self.end);
        let own = self.messages.range(span).filter(|(_, message)| message.thread == window.thread);
        let slices = own.filter_map(|(_, message)| window.slice(message.idx, message.chars));
        let slices: Vec<Slice> = slices.collect();
        Ok(slices.into_iter().filter_map(|slice| self.said_piece(slice)).collect())
    }

    fn said_piece(&self, slice: Slice) -> Option<Piece> {
        let said = self.said(slice, self.lead(slice))?;
        let message = said.message;
        let share = match message.chars {
            0 => message.tokens,
            chars => {
                (u64::from(message.tokens) * u64::from(slice.until - slice.from) / u64::from(chars)) as u32
            }
        };
        let cost = |grain: &Grain| (*grain, said.cost(self.tally, *grain));
        let until = match slice.until >= message.chars {
            true => Place::after(slice.idx),
            false => Place { idx: slice.idx, offset: slice.until },
        };
        Some(Piece {
            key: Key::Said(slice),
            from: Place { idx: slice.idx, offset: slice.from },
            until,
            weight: share,
            costs: rising(said.grains().iter().map(cost)),
            unfolded_least: None,
        })
    }

    pub(super) fn node_piece(&self, node: &Node) -> Piece {
        self.tally.piece(self.key.id, node, || self.new_piece(node))
    }

    fn new_piece(&self, node: &Node) -> Piece {
        let cost = |grain: Grain| (grain, self.tally.count(&blocks::node(node, grain)));
        let (from, until, least) = match &node.task.covers {
            Covers::Messages(window) => {
                (window.from, window.until, u32::try_from(node.source.raw_tokens).unwrap_or(u32::MAX))
            }
            Covers::Nodes(children) => {
                let place = |idx: u32| Place { idx: MessageIdx(idx), offset: 0 };
                (place(node.source.from), place(node.source.until), LEAST_GIST * children.len() as u32)
            }
        };
        Piece {
            key: Key::Node(node.level(), node.ordinal()),
            from,
            until,
            weight: u32::try_from(node.source.raw_tokens).unwrap_or(u32::MAX),
            costs: rising(NODE_GRAINS.into_iter().map(cost)),
            unfolded_least: Some(least),
        }
    }

    fn node_pieces(&self, nodes: &[Arc<Node>]) -> Vec<Piece> {
        nodes.iter().map(|node| self.node_piece(node)).collect()
    }
}

/// The gist of a node is hardly shorter.
const LEAST_GIST: u32 = 24;

/// Costs that rise with the grain: what is not dearer than something finer is not worth telling.
fn rising(costs: impl Iterator<Item = (Grain, u32)>) -> Vec<(Grain, u32)> {
    let mut rising: Vec<(Grain, u32)> = Vec::new();
    for (grain, cost) in costs {
        // Lists that are empty add nothing.
        if grain == Grain::Details && rising.last().is_some_and(|(_, text)| *text == cost) {
            continue;
        }
        while rising.last().is_some_and(|(_, coarser)| *coarser >= cost) {
            rising.pop();
        }
        rising.push((grain, cost));
    }
    rising
}

pub(super) fn day_of(message: &Message) -> i64 {
    message.said.at.as_micros().div_euclid(86_400_000_000)
}

fn waiting_group(job: &Job) -> Option<(Level, u32)> {
    match &job.kind {
        JobKind::Summarise(task) => task.level.below().map(|below| (below, task.ordinal)),
        _ => None,
    }
}

impl Forest for Grove<'_> {
    type Error = StoreError;

    fn roots(&mut self) -> StoreResult<Vec<Piece>> {
        if let Some((settled, roots)) = &self.roots
            && *settled == self.settled
        {
            return Ok(roots.clone());
        }
        let highest = self.highest()?;
        let mut roots = self.node_pieces(&highest);
        for window in self.uncovered(&highest)? {
            roots.extend(self.raw(&window)?);
        }
        roots.sort_by_key(|piece| (piece.from, piece.until));
        self.roots = Some((self.settled, roots.clone()));
        Ok(roots)
    }

    fn fresh(&mut self) -> StoreResult<Vec<Piece>> {
        self.read_messages(self.settled, self.end)?;
        let own = self.messages.range(self.settled..self.end).filter(|(_, it)| self.lineage.holds(it));
        let slices = own.map(|(_, it)| Slice { idx: it.idx, from: 0, until: it.chars });
        Ok(slices.filter_map(|slice| self.said_piece(slice)).collect())
    }

    fn settle(&mut self) {
        self.settled = self.end;
    }

    fn below(&mut self, key: Key) -> StoreResult<Vec<Piece>> {
        let Key::Node(level, ordinal) = key else { return Ok(Vec::new()) };
        let Some(node) = self.nodes.get(&(level, ordinal)).cloned() else { return Ok(Vec::new()) };
        match &node.task.covers {
            Covers::Messages(window) => self.raw(window),
            Covers::Nodes(_) => {
                let children = self.children(&node)?;
                Ok(self.node_pieces(&children))
            }
        }
    }

    fn latest(&mut self, messages: usize) -> StoreResult<Vec<Piece>> {
        let (mut from, mut found) = (self.end, 0);
        while from > 0 && found < messages {
            let page = u32::try_from(messages.clamp(16, 512)).unwrap_or(512);
            let until = from;
            from = from.saturating_sub(page);
            self.read_messages(from, until)?;
            found += self.messages.range(from..until).filter(|(_, it)| self.lineage.holds(it)).count();
        }
        let own = self.messages.range(from..self.end).filter(|(_, it)| self.lineage.holds(it));
        let slices = own.map(|(_, it)| Slice { idx: it.idx, from: 0, until: it.chars });
        let slices: Vec<Slice> = slices.collect();
        let late = slices.len().saturating_sub(messages);
        Ok(slices[late..].iter().filter_map(|slice| self.said_piece(*slice)).collect())
    }

    fn turn(&self, idx: MessageIdx) -> Option<u32> {
        self.messages.get(&idx.0).map(|message| message.turn.0)
    }

    fn level(&mut self, level: Level, nodes: usize) -> StoreResult<Vec<Piece>> {
        let sealed =
            self.conversation.growth.sealed.get(usize::from(level.number()) - 1).copied().unwrap_or(0);
        let (mut from, mut counting) = (sealed, Vec::new());
        while from > 0 && counting.len() < nodes {
            let until = from;
            from = from.saturating_sub(u32::try_from(nodes.clamp(8, 256)).unwrap_or(256));
            let ordinals = Some(Span::between(from, until));
            for node in self.read_nodes(&NodeFilter { ordinals, ..NodeFilter::at(level) })? {
                if self.counts(&node)? {
                    counting.push(node);
                }
            }
        }
        counting.sort_by_key(|node| (node.source.from, node.source.until, node.ordinal()));
        Ok(self.node_pieces(&counting))
    }

    fn hits(&mut self) -> StoreResult<Vec<Candidate>> {
        self.candidates()
    }

    fn cost_of_hit(&mut self, hit: &Candidate, grain: Grain, lead: Lead) -> u32 {
        match hit.piece.key {
            Key::Said(slice) => {
                let said = self.recalled(slice, lead);
                said.map_or(0, |said| said.cost(self.tally, grain))
            }
            Key::Node(level, ordinal) => {
                let node = self.nodes.get(&(level, ordinal));
                node.map_or(0, |node| self.tally.count(&blocks::node(node, grain)))
            }
        }
    }

    fn cost_of_run(&self) -> u32 {
        let last = self.messages.last_key_value().map(|(_, message)| message.said.at);
        let at = last.unwrap_or(self.conversation.last_activity);
        // The largest number that is told has the most digits; a name may join what is before it.
        self.tally.count(&blocks::run_head(self.end.max(1000), at)) + 1
    }

    fn cost_of_note(&self) -> u32 {
        let widest =
            LeftOut { from: self.end.max(1000), until: self.end.max(1000) + 2, why: SkipReason::NoRoom };
        self.tally.count(&blocks::note(&[widest, widest]).unwrap_or_default())
    }
}
