//! Runs of messages and their totals, from which a window is built.

use serde::{Deserialize, Serialize};

use super::WindowMessage;
use crate::ids::{MessageIdx, TurnNo};
use crate::node::TextPosition;
use crate::time::Timestamp;

/// A run of messages and its totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredRun", into = "StoredRun")]
pub struct MessageRun {
    /// Messages; a slice counts as one.
    pub messages: u32,
    /// Turns that the run touches.
    pub turns: u32,
    /// Characters.
    pub chars: u32,
    /// Tokens.
    pub tokens: u32,
    pub(super) first_turn: TurnNo,
    pub(super) last_turn: TurnNo,
    pub(super) first_at: Timestamp,
    pub(super) last_at: Timestamp,
    pub(super) until: TextPosition,
}

/// The serialized form. A compact array, because it is written with every message.
type StoredRun = ([u32; 8], [i64; 2]);

impl From<StoredRun> for MessageRun {
    fn from((numbers, [first_at, last_at]): StoredRun) -> Self {
        let [messages, turns, chars, tokens, first_turn, last_turn, idx, offset] = numbers;
        Self {
            messages,
            turns,
            chars,
            tokens,
            first_turn: TurnNo(first_turn),
            last_turn: TurnNo(last_turn),
            first_at: Timestamp::from_micros(first_at),
            last_at: Timestamp::from_micros(last_at),
            until: TextPosition { idx: MessageIdx(idx), offset },
        }
    }
}

impl From<MessageRun> for StoredRun {
    fn from(it: MessageRun) -> Self {
        let (first_turn, last_turn, until) = (it.first_turn.0, it.last_turn.0, it.until);
        let numbers = [
            it.messages,
            it.turns,
            it.chars,
            it.tokens,
            first_turn,
            last_turn,
            until.idx.0,
            until.offset,
        ];
        (numbers, [it.first_at.as_micros(), it.last_at.as_micros()])
    }
}

impl MessageRun {
    /// The run that consists of one slice of a message.
    pub(super) fn of(piece: &WindowMessage<'_>, from: u32, until: u32) -> Self {
        let chars = until - from;
        let share = |tokens: u32| match piece.chars {
            0 => tokens,
            all => (u64::from(tokens) * u64::from(chars) / u64::from(all)) as u32,
        };
        Self {
            messages: 1,
            turns: 1,
            chars,
            tokens: share(piece.tokens),
            first_turn: piece.turn,
            last_turn: piece.turn,
            first_at: piece.at,
            last_at: piece.at,
            until: if until >= piece.chars {
                TextPosition::after(piece.idx)
            } else {
                TextPosition { idx: piece.idx, offset: until }
            },
        }
    }

    pub(super) fn join(&mut self, next: &Self) {
        let shared = u32::from(self.last_turn == next.first_turn);
        self.messages += next.messages;
        self.turns += next.turns - shared;
        self.chars = self.chars.saturating_add(next.chars);
        self.tokens = self.tokens.saturating_add(next.tokens);
        self.last_turn = next.last_turn;
        self.last_at = next.last_at;
        self.until = next.until;
    }
}

/// Joins consecutive runs into one.
pub(super) fn joined(stretches: &[MessageRun]) -> Option<MessageRun> {
    let (first, rest) = stretches.split_first()?;
    let mut all = *first;
    rest.iter().for_each(|next| all.join(next));
    Some(all)
}
