//! The grove: the pieces of one conversation as packing asks for them, read from the store as far
//! as they are asked for, as they were known at one moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use treering_core::error::StoreError;
use treering_core::node::{Place, Slice, Window};
use treering_core::packing::{Candidate, Forest, Grain, Key, Lead, LeftOut, PackReason, Piece, SkipReason};
use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::question::Question;
use treering_core::{
    Conversation, ConversationKey, Covers, Job, JobKind, Level, Message, MessageIdx, Node, Reader,
    ThreadName, ToolCall, TurnNo,
};

use super::blocks::{self, NODE_GRAINS, Said};
use super::tally::Tally;
use crate::search::{Found, Hit};

/// How many of the best hits bring what stands next to them, where there is more than enough.
const WITH_NEIGHBOURS: usize = 8;
/// A hit costs hardly more before it is told whole.
const MOST_OF_HIT: u32 = 140;

/// A message of a thread and of those it forked from.
pub(super) struct Lineage(Vec<(ThreadName, u32)>);

impl Lineage {
    /// The thread and those it forked from, each up to where it was left.
    pub(super) fn of(conversation: &Conversation, thread: &ThreadName) -> Self {
        let mut line = vec![(thread.clone(), u32::MAX)];
        let mut at = thread.clone();
        // A thread forks from one that was opened before it.
        for _ in 0..conversation.threads.len() {
            let found = conversation.threads.iter().find(|it| it.name == at);
            let Some(fork) = found.and_then(|it| it.fork.as_ref()) else { break };
            line.push((fork.parent.clone(), fork.after.map_or(0, |after| after.0 + 1)));
            at = fork.parent.clone();
        }
        let mut least = u32::MAX;
        for (_, until) in &mut line {
            least = least.min(*until);
            *until = least;
        }
        Self(line)
    }

    fn holds(&self, message: &Message) -> bool {
        self.0.iter().any(|(thread, until)| *thread == message.thread && message.idx.0 < *until)
    }

    fn holds_window(&self, window: &Window) -> bool {
        self.0.iter().any(|(thread, until)| *thread == window.thread && window.end().0 <= *until)
    }
}

/// What was asked, and what was found.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) hits: Vec<Hit>,
    /// Why the meaning was not looked at, where it was not.
    pub(super) words_only: Option<String>,
}

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
            roots: None,
            jobs: None,
        }
    }

    fn is_one_thread(&self) -> bool {
        self.conversation.threads.len() <= 1
    }

    /// Whether a node counts at the settled place: it was sealed by then, and tells of nothing
    /// that lies outside the thread.
    fn counts(&mut self, node: &Node) -> StoreResult<bool> {
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

    fn keep(&mut self, nodes: &[Arc<Node>]) {
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
        Some(Said { message, slice, calls, lead })
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
        let cost = |grain: &Grain| (*grain, said.cost(self.tally, *grain, None));
        let until = match slice.until >= message.chars {
            true => Place::after(slice.idx),
            false => Place { idx: slice.idx, offset: slice.until },
        };
        Some(Piece {
            key: Key::Said(slice),
            from: Place { idx: slice.idx, offset: slice.from },
            until,
            weight: share,
            costs: rising(said.grains(false).iter().map(cost)),
            unfolded_least: None,
        })
    }

    fn node_piece(&self, node: &Node) -> Piece {
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

    /// Hits and what stands next to the best of them, as far as they are in the thread.
    fn candidates(&mut self) -> StoreResult<Vec<Candidate>> {
        let Some(asked) = &self.asked else { return Ok(Vec::new()) };
        let (mut found, mut nodes, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for hit in &asked.hits {
            match &hit.found {
                Found::Message(message) => found.push(((**message).clone(), hit.score)),
                Found::Node(node) => nodes.push((Arc::new((**node).clone()), hit.score)),
                Found::Call(call) => calls.push((call.before, call.turn, hit.score)),
            }
        }
        self.add_told(&mut found, &calls)?;
        found.retain(|(message, _)| message.idx.0 < self.end && self.lineage.holds(message));
        let mut candidates = Vec::new();
        for (rank, (message, score)) in found.iter().enumerate() {
            self.messages.entry(message.idx.0).or_insert_with(|| message.clone());
            candidates.push(self.candidate(message, *score, rank as u32, PackReason::Hit));
        }
        let said: u32 = found.iter().map(|(message, _)| (message.tokens + 10).min(MOST_OF_HIT)).sum();
        let with = if said < self.room { found.len() } else { WITH_NEIGHBOURS };
        let mut beside: BTreeMap<u32, (u32, f32)> = BTreeMap::new();
        for (rank, (message, score)) in found.iter().enumerate().take(with) {
            let idx = message.idx.0;
            for next in [idx.checked_sub(1), Some(idx + 1)].into_iter().flatten() {
                if next < self.end && !found.iter().any(|(message, _)| message.idx.0 == next) {
                    beside.entry(next).or_insert((rank as u32, *score));
                }
            }
        }
        self.read_all(beside.keys().copied())?;
        for (idx, (rank, score)) in beside {
            if let Some(message) = self.messages.get(&idx).filter(|it| self.lineage.holds(it)) {
                candidates.push(self.candidate(message, score, rank, PackReason::Neighbour));
            }
        }
        for (rank, (node, score)) in nodes.iter().enumerate() {
            if !self.counts(node)? {
                continue;
            }
            self.keep(std::slice::from_ref(node));
            let mut piece = self.node_piece(node);
            piece.costs.retain(|(grain, _)| *grain == Grain::Text);
            let (score, rank, reason) = (*score, rank as u32, PackReason::Hit);
            candidates.push(Candidate { piece, score, rank, reason, day: i64::MIN });
        }
        Ok(candidates)
    }

    /// Adds the messages that tell of tool calls: those that come after them in their turn.
    fn add_told(
        &mut self,
        found: &mut Vec<(Message, f32)>,
        calls: &[(MessageIdx, TurnNo, f32)],
    ) -> StoreResult<()> {
        let end = self.end;
        self.read_all(calls.iter().map(|(idx, ..)| idx.0).filter(|idx| *idx < end))?;
        for (idx, turn, score) in calls {
            let told = self.messages.get(&idx.0).filter(|message| message.turn == *turn);
            if let Some(message) = told.filter(|it| found.iter().all(|(other, _)| other.idx != it.idx)) {
                found.push((message.clone(), *score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(())
    }

    /// Reads single messages, those that lie close together at once.
    fn read_all(&mut self, wanted: impl Iterator<Item = u32>) -> StoreResult<()> {
        const CLOSE: u32 = 6;
        let mut missing: Vec<u32> = wanted.filter(|idx| !self.messages.contains_key(idx)).collect();
        missing.sort_unstable();
        missing.dedup();
        for run in missing.chunk_by(|one, next| next - one <= CLOSE) {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let span = Span::between(MessageIdx(*first), MessageIdx(last + 1));
            let read = self.reader.messages(self.key, span)?;
            self.messages.extend(read.into_iter().map(|message| (message.idx.0, message)));
        }
        Ok(())
    }

    fn candidate(&self, message: &Message, score: f32, rank: u32, reason: PackReason) -> Candidate {
        let slice = Slice { idx: message.idx, from: 0, until: message.chars };
        let said = Said { message, slice, calls: &[], lead: Lead::None };
        let guess = |grain: &Grain| match grain {
            Grain::Gist => (*grain, 0),
            _ => (*grain, message.tokens),
        };
        let piece = Piece {
            key: Key::Said(slice),
            from: Place { idx: message.idx, offset: 0 },
            until: Place::after(message.idx),
            weight: message.tokens,
            costs: said.grains(true).iter().map(guess).collect(),
            unfolded_least: None,
        };
        Candidate { piece, score, rank, reason, day: day_of(message) }
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
                let question = self.asked.as_ref().map(|asked| &asked.question);
                let said = self.said(slice, lead);
                said.map_or(0, |said| Said { calls: &[], ..said }.cost(self.tally, grain, question))
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
