//! The pieces of one conversation as packing requests them, as of one position. They are read
//! from the store on demand and never written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

use treering_core::fusion::percent;
use treering_core::packing::{
    BlockStyle, Costs, DetailLevel, HeaderStyle, Omission, Piece, PieceKey, PieceSource,
    RecallCandidate, SkipReason, ThreadSpan,
};
use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationKey, Coverage, Job, Level, Message, MessageIdx, Node, NodeContent,
    Reader, Slice, StoreError, TextPosition, ThreadName, Timestamp, ToolCall, TurnNo, Window,
};

use crate::recall::PastVersions;

use super::context_cache::{CachedWindow, ContextCache, RenderedBlock};
use super::hits::QuestionHits;
use super::information;
use super::labeled;
use super::lineage::Lineage;
use super::render::{self, MessageBlock};
use super::turns::VisibleTurn;

/// The pieces of a conversation.
pub(super) struct ConversationPieces<'a> {
    pub(super) reader: &'a dyn Reader,
    /// The unfinished jobs of the conversation.
    pub(super) jobs: &'a [Job],
    pub(super) key: &'a ConversationKey,
    pub(super) conversation: &'a Conversation,
    pub(super) cache: &'a ContextCache,
    pub(super) lineage: Lineage,
    /// One past the last visible message.
    pub(super) end: u32,
    /// The time of the last visible message.
    at: Timestamp,
    /// One past the last message of the stable prefix.
    pub(super) settled: u32,
    /// The messages that were amended after the moment of a context of the past.
    pub(super) past: PastVersions,
    pub(super) question_hits: Option<QuestionHits>,
    /// The slug of the conversation, if hits of several conversations stand side by side.
    pub(super) slug: Option<&'a str>,
    /// Approximate token budget for hits.
    pub(super) room: u32,
    pub(super) nodes: HashMap<(Level, u32), Arc<Node>>,
    pub(super) messages: BTreeMap<u32, Arc<Message>>,
    /// The messages that were read together with the tool calls before them.
    pub(super) read: BTreeSet<u32>,
    pub(super) calls: HashMap<u32, Vec<ToolCall>>,
    /// Sealed windows from the cache, by their first message.
    pub(super) remembered: BTreeMap<u32, Arc<CachedWindow>>,
    /// Excerpts of long messages that match the question.
    pub(super) parts: HashMap<u32, String>,
    /// The turns that were read.
    pub(super) turns: HashMap<u32, VisibleTurn>,
    /// The message of each found turn that fits the question best.
    pub(super) focus: HashMap<u32, u32>,
    roots: Option<(u32, Vec<Piece>)>,
    pub(super) root_nodes: Option<Vec<Arc<Node>>>,
}

impl<'a> ConversationPieces<'a> {
    pub(super) fn new(
        (reader, jobs): (&'a dyn Reader, &'a [Job]),
        key: &'a ConversationKey,
        conversation: &'a Conversation,
        cache: &'a ContextCache,
        lineage: Lineage,
        end: u32,
        at: Timestamp,
    ) -> Self {
        Self {
            reader,
            jobs,
            key,
            conversation,
            cache,
            lineage,
            end,
            at,
            settled: end,
            past: PastVersions::default(),
            question_hits: None,
            slug: None,
            room: 0,
            nodes: HashMap::new(),
            messages: BTreeMap::new(),
            read: BTreeSet::new(),
            calls: HashMap::new(),
            remembered: BTreeMap::new(),
            parts: HashMap::new(),
            turns: HashMap::new(),
            focus: HashMap::new(),
            roots: None,
            root_nodes: None,
        }
    }

    /// The same source as of an earlier position, without a question, sharing everything read so
    /// far.
    pub(super) fn earlier(&self, end: u32) -> Self {
        Self {
            lineage: self.lineage.clone(),
            end,
            settled: end,
            past: self.past.clone(),
            question_hits: None,
            nodes: self.nodes.clone(),
            messages: self.messages.clone(),
            read: self.read.clone(),
            calls: self.calls.clone(),
            remembered: self.remembered.clone(),
            parts: HashMap::new(),
            turns: HashMap::new(),
            focus: HashMap::new(),
            roots: None,
            root_nodes: self.root_nodes.clone(),
            ..*self
        }
    }

    /// Renders a message, from the cache if its window is cached.
    pub(super) fn rendered(
        &self,
        block: &MessageBlock<'_>,
        detail: DetailLevel,
        recalled: bool,
    ) -> RenderedBlock {
        let write = || {
            let (block, tokens) = block.block(self.cache, detail);
            RenderedBlock::new(block, tokens)
        };
        // Recalled messages omit tool calls and depend on the question, so they are not cached.
        match self.window_of(block.slice.idx.0).filter(|_| !recalled) {
            Some((window, _)) => window.rendered(block, detail, write),
            None => write(),
        }
    }

    /// A message block in its place in the history.
    pub(super) fn message_block(
        &self,
        slice: Slice,
        lead: HeaderStyle,
    ) -> Option<MessageBlock<'_>> {
        let message = self.messages.get(&slice.idx.0)?;
        let calls = self.calls.get(&slice.idx.0).filter(|_| slice.from == 0);
        let calls = calls.map_or(&[][..], Vec::as_slice);
        Some(MessageBlock { message, slice, calls, lead, slug: None, part: None })
    }

    /// A message and the text of a slice of it.
    pub(super) fn slice_text(&self, slice: Slice) -> Option<(&Message, &str)> {
        let message = self.messages.get(&slice.idx.0)?;
        Some((message, render::slice_text(message, slice)))
    }

    /// A node as a block; matches show their relevance in a labeled style.
    pub(super) fn node_block(
        &self,
        node: &Node,
        detail: DetailLevel,
        style: BlockStyle,
        score: Option<f32>,
    ) -> String {
        match style {
            BlockStyle::Plain => render::node(node, detail),
            BlockStyle::Labeled | BlockStyle::Previous => {
                let relevance = score.map(percent);
                labeled::node(node, detail, style, relevance)
            }
        }
    }

    /// The number of a thread.
    pub(super) fn number_of_thread(&self, thread: &ThreadName) -> u16 {
        let place = self.conversation.threads.iter().position(|it| it.name == *thread);
        place.and_then(|place| u16::try_from(place).ok()).unwrap_or(u16::MAX)
    }

    /// A message block as a recalled hit.
    pub(super) fn recalled(&self, slice: Slice, lead: HeaderStyle) -> Option<MessageBlock<'_>> {
        let message = self.messages.get(&slice.idx.0)?;
        let part = self.parts.get(&slice.idx.0).map(String::as_str);
        Some(MessageBlock { message, slice, calls: &[], lead, slug: self.slug, part })
    }

    /// The header of a message: the first message of a day states its time.
    pub(super) fn lead(&self, slice: Slice) -> HeaderStyle {
        let day = |idx: u32| self.messages.get(&idx).map(|message| day_of(message));
        let idx = slice.idx.0;
        let opens_a_day = idx.checked_sub(1).is_none_or(|before| day(before) != day(idx));
        if slice.from == 0 && opens_a_day { HeaderStyle::Minute } else { HeaderStyle::None }
    }

    pub(super) fn message_piece(&self, slice: Slice) -> Option<Piece> {
        let block = self.message_block(slice, self.lead(slice))?;
        let message = block.message;
        let share = match message.chars {
            0 => message.tokens,
            chars => {
                (u64::from(message.tokens) * u64::from(slice.until - slice.from) / u64::from(chars))
                    as u32
            }
        };
        let cost = |detail: &DetailLevel| (*detail, block.cost(self.cache, *detail));
        let until = match slice.until >= message.chars {
            true => TextPosition::after(slice.idx),
            false => TextPosition { idx: slice.idx, offset: slice.until },
        };
        Some(Piece {
            key: PieceKey::Message(slice),
            from: TextPosition { idx: slice.idx, offset: slice.from },
            until,
            weight: share,
            chars: slice.until - slice.from,
            costs: increasing_costs(block.detail_levels().iter().map(cost)),
            information: information::of_message(&block),
            min_expanded_cost: None,
            is_required: false,
        })
    }

    pub(super) fn node_piece(&self, node: &Node) -> Piece {
        self.cache.piece(self.key, node, || self.new_piece(node))
    }

    fn new_piece(&self, node: &Node) -> Piece {
        let cost = |detail: DetailLevel| (detail, self.cache.count(&render::node(node, detail)));
        let points = node.content.points();
        let costs = increasing_costs(render::node_details(points.len()).map(cost));
        let (from, until, least) = match &node.spec.covers {
            Coverage::Messages(window) => (
                window.from,
                window.until,
                Some(u32::try_from(node.source.raw_tokens).unwrap_or(u32::MAX)),
            ),
            Coverage::Sessions(_) => {
                let start = TextPosition { idx: MessageIdx(0), offset: 0 };
                (start, start, None)
            }
            Coverage::Nodes(children) | Coverage::Whole(children) => {
                let place = |idx: u32| TextPosition { idx: MessageIdx(idx), offset: 0 };
                (
                    place(node.source.from),
                    place(node.source.until),
                    Some(MIN_GIST_TOKENS * children.len() as u32),
                )
            }
        };
        Piece {
            key: PieceKey::Node(node.level(), node.ordinal()),
            from,
            until,
            weight: u32::try_from(node.source.raw_tokens).unwrap_or(u32::MAX),
            chars: u32::try_from(node.source.raw_chars).unwrap_or(u32::MAX),
            information: information::of_node(&points, &costs),
            costs,
            min_expanded_cost: least,
            is_required: false,
        }
    }

    pub(super) fn node_pieces(&self, nodes: &[Arc<Node>]) -> Vec<Piece> {
        // A node over forgotten messages only has no text.
        let written = nodes.iter().filter(|node| node.content != NodeContent::default());
        written.map(|node| self.node_piece(node)).collect()
    }
}

/// Maximum distance of two messages in one range read: reading a few unneeded messages is faster
/// than a second read.
pub(super) const CLOSE: u32 = 6;

/// Groups positions into as few ranges as possible, merging those at most `close` apart.
pub(super) fn runs(places: impl Iterator<Item = u32>, close: u32) -> Vec<Range<u32>> {
    let mut places: Vec<u32> = places.collect();
    places.sort_unstable();
    let run = |run: &[u32]| Some(*run.first()?..run.last()? + 1);
    places.chunk_by(|one, next| next - one <= close).filter_map(run).collect()
}

/// Lower bound for the cost of a node's gist, in tokens.
const MIN_GIST_TOKENS: u32 = 24;

/// Keeps only costs that rise with the level of detail: a coarser level that is not cheaper than
/// a finer one is useless.
pub(super) fn increasing_costs(costs: impl Iterator<Item = (DetailLevel, u32)>) -> Costs {
    let mut rising: Vec<(DetailLevel, u32)> = Vec::new();
    for (detail, cost) in costs {
        // Empty lists add nothing.
        if detail == DetailLevel::Details && rising.last().is_some_and(|(_, text)| *text == cost) {
            continue;
        }
        while rising.last().is_some_and(|(_, coarser)| *coarser >= cost) {
            rising.pop();
        }
        rising.push((detail, cost));
    }
    rising.into_iter().collect()
}

pub(super) fn day_of(message: &Message) -> i64 {
    message.body.at.as_micros().div_euclid(86_400_000_000)
}

impl PieceSource for ConversationPieces<'_> {
    type Error = StoreError;

    fn roots(&mut self) -> StoreResult<Vec<Piece>> {
        if let Some((settled, roots)) = &self.roots
            && *settled == self.settled
        {
            return Ok(roots.clone());
        }
        let highest = self.highest()?;
        let mut roots = self.node_pieces(&highest);
        let waiting = self.waiting_windows()?;
        for window in &waiting {
            roots.extend_from_slice(&self.sealed(window)?.pieces);
        }
        for window in self.uncovered(&highest, &waiting)? {
            roots.extend(self.raw(&window)?);
        }
        roots.sort_by_key(|piece| (piece.from, piece.until));
        self.roots = Some((self.settled, roots.clone()));
        Ok(roots)
    }

    fn recent_tail(&mut self) -> StoreResult<Vec<Piece>> {
        // The last message is always needed, since it determines the current turn.
        self.read_messages(self.settled.min(self.end.saturating_sub(1)), self.end)?;
        let own = self
            .messages
            .range(self.settled..self.end)
            .filter(|(_, it)| self.lineage.holds(it) && self.says_something(it));
        let slices = own.map(|(_, it)| Slice { idx: it.idx, from: 0, until: it.chars });
        Ok(slices.filter_map(|slice| self.message_piece(slice)).collect())
    }

    fn merge_tail(&mut self) {
        self.settled = self.end;
    }

    fn below(&mut self, node: &Piece) -> StoreResult<Vec<Piece>> {
        let PieceKey::Node(level, ordinal) = node.key else { return Ok(Vec::new()) };
        let Some(node) = self.nodes.get(&(level, ordinal)).cloned() else { return Ok(Vec::new()) };
        match &node.spec.covers {
            // As of an earlier position, a window may end after it; the node then stays whole.
            Coverage::Messages(window) if window.end().0 > self.end => Ok(Vec::new()),
            Coverage::Messages(window) => Ok(self.sealed(window)?.pieces.clone()),
            Coverage::Sessions(_) => Ok(Vec::new()),
            Coverage::Nodes(_) | Coverage::Whole(_) => {
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
            found +=
                self.messages.range(from..until).filter(|(_, it)| self.lineage.holds(it)).count();
        }
        let own = self.messages.range(from..self.end).filter(|(_, it)| self.lineage.holds(it));
        let slices = own.map(|(_, it)| Slice { idx: it.idx, from: 0, until: it.chars });
        let slices: Vec<Slice> = slices.collect();
        let late = slices.len().saturating_sub(messages);
        Ok(slices[late..].iter().filter_map(|slice| self.message_piece(*slice)).collect())
    }

    fn latest_turns(&mut self, turns: usize) -> StoreResult<Vec<Piece>> {
        let turns = self.read_latest_turns(turns)?;
        Ok(turns.into_iter().filter_map(|turn| self.turn_piece(TurnNo(turn), None)).collect())
    }

    fn thread_spans(
        &mut self,
        key: PieceKey,
        (from, until): (TextPosition, TextPosition),
    ) -> StoreResult<Vec<ThreadSpan>> {
        let thread = match key {
            _ if self.is_one_thread() => 0,
            PieceKey::Heading => return Ok(Vec::new()),
            PieceKey::Turn(_) | PieceKey::Message(_) => self.thread_number(from.idx),
            PieceKey::Node(level, ordinal) => {
                let Some(node) = self.nodes.get(&(level, ordinal)).cloned() else {
                    return Ok(Vec::new());
                };
                let mut windows = Vec::new();
                self.windows_of(&node, &mut windows)?;
                let span = |window: Window| {
                    let thread = self.number_of_thread(&window.thread);
                    ThreadSpan { thread, from: window.from, until: window.until }
                };
                return Ok(windows.into_iter().map(span).collect());
            }
        };
        Ok(vec![ThreadSpan { thread, from, until }])
    }

    fn styled(&mut self, piece: Piece, style: BlockStyle) -> Piece {
        self.in_style(piece, style)
    }

    fn turn(&self, idx: MessageIdx) -> Option<u32> {
        self.messages.get(&idx.0).map(|message| message.turn.0)
    }

    fn level(&mut self, level: Level, nodes: usize) -> StoreResult<Vec<Piece>> {
        let sealed = self
            .conversation
            .tree_state
            .sealed
            .get(usize::from(level.number()) - 1)
            .copied()
            .unwrap_or(0);
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

    fn hits(&mut self, style: BlockStyle) -> StoreResult<Vec<RecallCandidate>> {
        self.candidates(style)
    }

    fn cost_of_hit(
        &mut self,
        hit: &RecallCandidate,
        detail: DetailLevel,
        lead: HeaderStyle,
    ) -> u32 {
        match hit.piece.key {
            PieceKey::Heading => 0,
            PieceKey::Message(slice) => {
                let block = self.recalled(slice, lead);
                block.map_or(0, |block| block.cost(self.cache, detail))
            }
            PieceKey::Turn(turn) => {
                let block = self.turn_block(turn, Some(hit.score));
                block.map_or(0, |block| self.cache.count(&block.block(detail)))
            }
            PieceKey::Node(level, ordinal) => {
                let Some(node) = self.nodes.get(&(level, ordinal)) else { return 0 };
                self.cache.count(&self.node_block(node, detail, hit.style, Some(hit.score)))
            }
        }
    }

    fn cost_of_run(&self) -> u32 {
        // Assume a message number of full width, and one extra token because a name may merge
        // with the text before it.
        self.cache.count(&render::run_head(self.end.max(1000), self.at)) + 1
    }

    fn cost_of_note(&self) -> u32 {
        let omission = |number: u32| {
            let from = self.end.max(1000) + 4 * number;
            Omission { from, until: from + 2, why: SkipReason::NoRoom }
        };
        let widest: Vec<Omission> = (0..=render::NAMED_OMISSIONS as u32).map(omission).collect();
        // The count of the remaining messages may have as many digits as a number of a message.
        self.cache.count(&render::note(&widest).unwrap_or_default()) + 2
    }
}
