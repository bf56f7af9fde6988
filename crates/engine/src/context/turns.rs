//! Turns and labeled blocks of a conversation, as pieces.

use std::sync::Arc;

use treering_core::packing::{BlockStyle, Information, Piece, PieceKey};
use treering_core::ports::{Span, StoreResult};
use treering_core::{MessageIdx, Slice, TextPosition, TurnNo, fence};

use super::labeled::{self, TURN_GRAINS, TurnBlock};
use super::piece_source::{ConversationPieces, increasing_costs};
use super::render;

/// A turn as far as it is visible.
#[derive(Clone)]
pub(super) struct VisibleTurn {
    /// The positions of its messages.
    pub(super) messages: Vec<u32>,
    /// The tools that it called, each once.
    tools: Vec<String>,
}

impl ConversationPieces<'_> {
    /// Reads a turn. Returns whether any message of it is visible.
    pub(super) fn read_turn(&mut self, no: u32) -> StoreResult<bool> {
        if self.turns.contains_key(&no) {
            return Ok(true);
        }
        let found = self.reader.turns(self.key.id, Span::starting(TurnNo(no), 1))?;
        let Some(turn) = found.into_iter().find(|turn| turn.no.0 == no) else { return Ok(false) };
        let (from, until) = (turn.from.0, turn.until.0.min(self.end));
        self.read_messages(from, until)?;
        let own = self.messages.range(from..until.max(from));
        let own = own.filter(|(_, it)| it.turn.0 == no && self.lineage.holds(it));
        let messages: Vec<u32> = own.map(|(idx, _)| *idx).collect();
        if messages.is_empty() {
            return Ok(false);
        }
        let mut tools: Vec<String> = Vec::new();
        if turn.tool_calls > 0 {
            let span = Span::between(TurnNo(no), TurnNo(no + 1));
            for call in self.reader.tool_calls(self.key.id, span)? {
                let name = fence::name(&call.call.name);
                if !name.is_empty() && !tools.contains(&name) {
                    tools.push(name);
                }
            }
        }
        self.turns.insert(no, VisibleTurn { messages, tools });
        Ok(true)
    }

    /// The latest visible turns in time order, at least this many if they exist.
    pub(super) fn read_latest_turns(&mut self, wanted: usize) -> StoreResult<Vec<u32>> {
        const PAGE: u32 = 32;
        let (mut from, mut turns) = (self.end, Vec::new());
        while from > 0 && turns.len() < wanted {
            let until = from;
            from = from.saturating_sub(PAGE);
            self.read_messages(from, until)?;
            let page = self.messages.range(from..until).rev();
            for (_, message) in page.filter(|(_, it)| self.lineage.holds(it)) {
                if !turns.contains(&message.turn.0) {
                    turns.push(message.turn.0);
                }
            }
        }
        turns.truncate(wanted);
        turns.reverse();
        for turn in &turns {
            self.read_turn(*turn)?;
        }
        Ok(turns)
    }

    /// A turn that was read, as a block.
    pub(super) fn turn_block(&self, no: TurnNo, score: Option<f32>) -> Option<TurnBlock<'_>> {
        let turn = self.turns.get(&no.0)?;
        let messages = turn.messages.iter().filter_map(|idx| self.messages.get(idx));
        let focus = self.focus.get(&no.0).copied().filter(|_| score.is_some());
        Some(TurnBlock {
            turn: no.0,
            messages: messages.map(|it| (&**it, it.body.text.as_str())).collect(),
            tools: turn.tools.iter().map(String::as_str).collect(),
            relevance: score.map(treering_core::fusion::percent),
            focus,
            part: focus.and_then(|idx| self.parts.get(&idx)).map(String::as_str),
        })
    }

    /// A single message, as the block of a turn.
    pub(super) fn message_as_turn(&self, slice: Slice) -> Option<TurnBlock<'_>> {
        let (message, text) = self.slice_text(slice)?;
        Some(TurnBlock {
            turn: message.turn.0,
            messages: vec![(message, text)],
            tools: Vec::new(),
            relevance: None,
            focus: None,
            part: None,
        })
    }

    /// The piece of a turn that was read.
    pub(super) fn turn_piece(&self, no: TurnNo, score: Option<f32>) -> Option<Piece> {
        let block = self.turn_block(no, score)?;
        let (first, last) = (block.messages.first()?.0, block.messages.last()?.0);
        let all = || block.messages.iter().map(|(message, _)| message);
        let costs = TURN_GRAINS.map(|detail| (detail, self.cache.count(&block.block(detail))));
        Some(Piece {
            key: PieceKey::Turn(no),
            from: TextPosition { idx: first.idx, offset: 0 },
            until: TextPosition::after(last.idx),
            weight: all().map(|message| message.tokens).sum(),
            chars: all().map(|message| message.chars).sum(),
            costs: increasing_costs(costs.into_iter()),
            information: Information::default(),
            min_expanded_cost: None,
            is_required: false,
        })
    }

    /// A piece with the costs that it has in a style.
    pub(super) fn in_style(&mut self, piece: Piece, style: BlockStyle) -> Piece {
        if style == BlockStyle::Plain {
            return piece;
        }
        let costs = match piece.key {
            PieceKey::Heading | PieceKey::Turn(_) => return piece,
            PieceKey::Node(level, ordinal) => self.nodes.get(&(level, ordinal)).map(|node| {
                let write = |detail| labeled::node(node, detail, style, None);
                let cost = |detail| (detail, self.cache.count(&write(detail)));
                increasing_costs(render::node_details(node.content.points().len()).map(cost))
            }),
            PieceKey::Message(slice) => {
                self.load_from_cache(slice.idx.0);
                self.message_as_turn(slice).map(|block| {
                    let cost = |detail| (detail, self.cache.count(&block.block(detail)));
                    increasing_costs(TURN_GRAINS.into_iter().map(cost))
                })
            }
        };
        Piece { costs: costs.unwrap_or(piece.costs), ..piece }
    }

    /// The number of a message's thread.
    pub(super) fn thread_number(&self, idx: MessageIdx) -> u16 {
        let cached = || {
            let (window, at) = self.window_of(idx.0)?;
            window.messages.get(at).map(Arc::clone)
        };
        let message = self.messages.get(&idx.0).map(Arc::clone).or_else(cached);
        message.map_or(0, |message| self.number_of_thread(&message.thread))
    }
}
