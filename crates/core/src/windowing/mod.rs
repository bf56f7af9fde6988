//! Windowing: which messages of a thread become one level-1 node, and why the window seals
//! there.
//!
//! A fold over the messages of one thread in arrival order. The state is small and does not
//! depend on how the messages were batched, so that an append costs the same at any length and
//! a replay yields the same windows. It never reads a clock: a silence is the time between two
//! messages.

mod run;

use serde::{Deserialize, Serialize};
use unicode_segmentation::GraphemeCursor;

use crate::ids::{MessageIdx, TurnNo};
use crate::message::{Message, Role};
use crate::node::TextPosition;
use crate::policy::{SealPolicy, WindowPolicy};
use crate::time::Timestamp;

pub use run::MessageRun;
use run::joined;

/// A message as windowing sees it.
#[derive(Debug, Clone, Copy)]
pub struct WindowMessage<'a> {
    /// The position in the conversation.
    pub idx: MessageIdx,
    /// The turn that the message belongs to.
    pub turn: TurnNo,
    /// The speaker's role.
    pub role: Role,
    /// The time of the message.
    pub at: Timestamp,
    /// Characters of the text.
    pub chars: u32,
    /// Tokens of the text.
    pub tokens: u32,
    /// The text; read only if it must be sliced.
    pub text: &'a str,
    /// The number of leading characters that sealed windows already cover.
    pub skip: u32,
}

impl<'a> From<&'a Message> for WindowMessage<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            idx: message.idx,
            turn: message.turn,
            role: message.body.role,
            at: message.body.at,
            chars: message.chars,
            tokens: message.tokens,
            text: &message.body.text,
            skip: 0,
        }
    }
}

/// Why a window sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SealReason {
    /// It reached the target size.
    Full,
    /// The next whole turn would not have fitted.
    NextDoesNotFit,
    /// A long silence followed.
    Silence,
    /// It reached the limit of messages.
    Messages,
    /// It reached the limit of tokens.
    Tokens,
    /// It reached the limit of age.
    Age,
    /// It reached the limit of turns.
    Turns,
    /// It reached the limit of characters.
    Chars,
    /// A message larger than a window was sliced.
    Oversized,
    /// It reached twice a limit without an answer.
    Unanswered,
    /// The conversation was closed.
    Closed,
}

impl SealReason {
    /// The reason as text.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::NextDoesNotFit => "the next turn does not fit",
            Self::Silence => "silence",
            Self::Messages => "number of messages",
            Self::Tokens => "number of tokens",
            Self::Age => "age",
            Self::Turns => "number of turns",
            Self::Chars => "number of characters",
            Self::Oversized => "oversized message",
            Self::Unanswered => "twice its target size without an answer",
            Self::Closed => "conversation closed",
        }
    }
}

/// The open window of a thread.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredWindow", into = "StoredWindow")]
pub struct OpenWindow {
    /// The start; `None` while the window is empty.
    from: Option<TextPosition>,
    /// Answered messages. The latest turns are separate runs if `keep_recent_turns` is set.
    answered: Vec<MessageRun>,
    /// Messages that wait for an answer.
    waiting: Option<MessageRun>,
    /// Whether a long silence occurred while messages waited for an answer.
    silent: bool,
}

/// The serialized form. A compact array, because it is written with every message.
type StoredWindow = (Option<(u32, u32)>, Vec<MessageRun>, Option<MessageRun>, u8);

impl From<StoredWindow> for OpenWindow {
    fn from((from, answered, waiting, silent): StoredWindow) -> Self {
        let from = from.map(|(idx, offset)| TextPosition { idx: MessageIdx(idx), offset });
        Self { from, answered, waiting, silent: silent != 0 }
    }
}

impl From<OpenWindow> for StoredWindow {
    fn from(it: OpenWindow) -> Self {
        (
            it.from.map(|from| (from.idx.0, from.offset)),
            it.answered,
            it.waiting,
            u8::from(it.silent),
        )
    }
}

/// A window to be sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealedWindow {
    /// The start, inclusive.
    pub from: TextPosition,
    /// The end, exclusive; the next window starts here.
    pub until: TextPosition,
    /// The totals of the window.
    pub message_run: MessageRun,
    /// The reason for sealing.
    pub reason: SealReason,
}

impl OpenWindow {
    /// The start; `None` while the window is empty.
    #[must_use]
    pub const fn from(&self) -> Option<TextPosition> {
        self.from
    }

    /// The totals of the window; `None` while it is empty.
    #[must_use]
    pub fn holds(&self) -> Option<MessageRun> {
        let answered = joined(&self.answered);
        match (answered, &self.waiting) {
            (Some(mut all), Some(waiting)) => {
                all.join(waiting);
                Some(all)
            }
            (answered, waiting) => answered.or(*waiting),
        }
    }

    /// Adds the next message of the thread and returns the windows that it seals.
    pub fn push(&mut self, piece: &WindowMessage<'_>, policy: &WindowPolicy) -> Vec<SealedWindow> {
        let mut seals = Vec::new();
        self.notice_silence(piece, policy, &mut seals);
        match policy.window_chars {
            Some(size) if piece.chars.saturating_sub(piece.skip) > policy.most(size) => {
                self.slice(piece, size, policy, &mut seals);
            }
            _ => self.add(piece, piece.skip, piece.chars),
        }
        let answers = piece.role == Role::Assistant && piece.chars > 0;
        if answers || !policy.ensure_assistant {
            self.settle(piece.at, policy, &mut seals);
        } else if self.is_left_unanswered(policy) {
            // Seal the answered part separately, so that the waiting part can still get its
            // answer.
            seals.extend(self.seal_answered(self.answered.len(), SealReason::NextDoesNotFit));
            if self.is_left_unanswered(policy) {
                seals.extend(self.seal_all(SealReason::Unanswered));
            }
        }
        seals
    }

    /// Seals the rest when the conversation closes.
    pub(crate) fn close(&mut self) -> Option<SealedWindow> {
        self.seal_all(SealReason::Closed)
    }

    fn chars(&self) -> u32 {
        self.holds().map_or(0, |all| all.chars)
    }

    fn add(&mut self, piece: &WindowMessage<'_>, from: u32, until: u32) {
        let stretch = MessageRun::of(piece, from, until);
        self.from.get_or_insert(TextPosition { idx: piece.idx, offset: from });
        match &mut self.waiting {
            Some(waiting) => waiting.join(&stretch),
            None => self.waiting = Some(stretch),
        }
    }

    /// Seals the answered part after a long silence. A waiting part seals with its answer.
    fn notice_silence(
        &mut self,
        piece: &WindowMessage<'_>,
        policy: &WindowPolicy,
        seals: &mut Vec<SealedWindow>,
    ) {
        let Some(flush_after) = policy.flush_after_ms.filter(|_| policy.by_time()) else { return };
        let Some(all) = self.holds() else { return };
        let silence = piece.at.as_micros().saturating_sub(all.last_at.as_micros());
        let long =
            u64::try_from(silence).is_ok_and(|silence| silence > flush_after.saturating_mul(1000));
        if !long || all.chars < policy.min_flush_chars.max(1) {
            return;
        }
        if self.waiting.is_some() && policy.ensure_assistant {
            self.silent = true;
        } else {
            seals.extend(self.seal_due(SealReason::Silence, policy));
        }
    }

    /// Slices a message larger than a window over as many windows as necessary.
    fn slice(
        &mut self,
        piece: &WindowMessage<'_>,
        size: u32,
        policy: &WindowPolicy,
        seals: &mut Vec<SealedWindow>,
    ) {
        let worth_sealing = |part: &MessageRun| part.chars >= policy.min_flush_chars.max(1);
        if joined(&self.answered).as_ref().is_some_and(worth_sealing) {
            seals.extend(self.seal_answered(self.answered.len(), SealReason::NextDoesNotFit));
        }
        if self.chars() > size - size / 4 {
            seals.extend(self.seal_all(SealReason::Oversized));
        }
        let mut text = Slicer::new(piece.text);
        let mut from = piece.skip;
        while (piece.chars - from).saturating_add(self.chars()) > policy.most(size) {
            let room = size.saturating_sub(self.chars()).max(1);
            let until = text.cut(from, room).min(piece.chars);
            self.add(piece, from, until);
            seals.extend(self.seal_all(SealReason::Oversized));
            from = until;
        }
        if from < piece.chars {
            self.add(piece, from, piece.chars);
        }
    }

    /// Handles an answer: seals the windows that are due at this point.
    fn settle(&mut self, now: Timestamp, policy: &WindowPolicy, seals: &mut Vec<SealedWindow>) {
        let before = joined(&self.answered);
        if let (Some(size), Some(before)) =
            (policy.window_chars.filter(|_| policy.by_size()), before)
        {
            let fits = self.chars() <= policy.most(size);
            let worth =
                before.chars >= policy.min_flush_chars.max(1) && before.turns >= policy.min_turns;
            if !fits && worth && self.waiting.is_some() && policy.keep_recent_turns == 0 {
                seals.extend(self.seal_answered(self.answered.len(), SealReason::NextDoesNotFit));
            }
        }
        self.answer(policy.keep_recent_turns);
        if let Some(reason) = self.due(now, policy) {
            seals.extend(self.seal_due(reason, policy));
        }
    }

    /// Moves the waiting part to the answered part. Keeps only as many separate runs as `keep`
    /// requires.
    fn answer(&mut self, keep: u32) {
        let Some(answered) = self.waiting.take() else { return };
        match self.answered.last_mut() {
            Some(last) if last.last_turn == answered.first_turn => last.join(&answered),
            _ => self.answered.push(answered),
        }
        while self.answered.len() > keep as usize + 1 {
            let second = self.answered.remove(1);
            self.answered[0].join(&second);
        }
    }

    fn due(&self, now: Timestamp, policy: &WindowPolicy) -> Option<SealReason> {
        let all = self.holds()?;
        let reached = |limit: Option<u32>, is: u32| limit.is_some_and(|limit| is >= limit);
        let open_for = now.as_micros().saturating_sub(all.first_at.as_micros());
        let old = |age: u64| {
            u64::try_from(open_for).is_ok_and(|open_for| open_for >= age.saturating_mul(1000))
        };
        Some(match () {
            () if policy.by_size() && reached(policy.window_chars, all.chars) => SealReason::Full,
            () if self.silent => SealReason::Silence,
            () if reached(policy.messages, all.messages) => SealReason::Messages,
            () if reached(policy.tokens, all.tokens) => SealReason::Tokens,
            () if reached(policy.turns, all.turns) => SealReason::Turns,
            () if reached(policy.chars, all.chars) => SealReason::Chars,
            () if policy.age_ms.is_some_and(old) => SealReason::Age,
            () => return None,
        })
    }

    /// Whether the window has reached twice a limit without an answer, because only people talk
    /// or the assistant never replied.
    fn is_left_unanswered(&self, policy: &WindowPolicy) -> bool {
        let Some(all) = self.holds() else { return false };
        let twice =
            |limit: Option<u32>, is: u32| limit.is_some_and(|limit| is >= limit.saturating_mul(2));
        twice(policy.window_chars.filter(|_| policy.by_size()), all.chars)
            || twice(policy.messages, all.messages)
            || twice(policy.tokens, all.tokens)
            || twice(policy.chars, all.chars)
    }

    /// Seals the window, except for the recent turns that stay out.
    fn seal_due(&mut self, reason: SealReason, policy: &WindowPolicy) -> Option<SealedWindow> {
        if self.holds().is_none_or(|all| all.turns < policy.min_turns) {
            return None;
        }
        match policy.keep_recent_turns as usize {
            0 => self.seal_all(reason),
            keep => self.seal_answered(self.answered.len().saturating_sub(keep), reason),
        }
    }

    fn seal_all(&mut self, reason: SealReason) -> Option<SealedWindow> {
        let holds = self.holds()?;
        let seal =
            SealedWindow { from: self.from?, until: holds.until, message_run: holds, reason };
        *self = Self::default();
        Some(seal)
    }

    /// Seals the first answered runs; the rest stays open.
    fn seal_answered(&mut self, stretches: usize, reason: SealReason) -> Option<SealedWindow> {
        let rest = self.answered.split_off(stretches);
        let sealed = std::mem::replace(&mut self.answered, rest);
        let holds = joined(&sealed)?;
        let seal =
            SealedWindow { from: self.from?, until: holds.until, message_run: holds, reason };
        self.from = (!self.answered.is_empty() || self.waiting.is_some()).then_some(holds.until);
        self.silent = false;
        Some(seal)
    }
}

impl WindowPolicy {
    /// The maximum size of a window with this target size.
    #[must_use]
    pub fn most(&self, size: u32) -> u32 {
        (f64::from(size) * f64::from(1.0 + self.wiggle)) as u32
    }

    const fn by_time(&self) -> bool {
        matches!(self.seal_policy, SealPolicy::Time | SealPolicy::Hybrid)
    }

    const fn by_size(&self) -> bool {
        matches!(self.seal_policy, SealPolicy::Chars | SealPolicy::Hybrid)
    }
}

/// Cuts a text into slices from start to end.
struct Slicer<'a> {
    text: &'a str,
    /// The current position, in characters and in bytes.
    chars: u32,
    bytes: usize,
}

impl<'a> Slicer<'a> {
    const fn new(text: &'a str) -> Self {
        Self { text, chars: 0, bytes: 0 }
    }

    /// The end of a slice that starts at character `from` and has at most `room` characters.
    /// Prefers the end of a line or a word near the limit, and never splits a grapheme cluster
    /// unless the cluster alone exceeds the limit.
    fn cut(&mut self, from: u32, room: u32) -> u32 {
        self.advance_to(from);
        let rest = &self.text[self.bytes..];
        let end = rest.char_indices().nth(room as usize).map_or(rest.len(), |(at, _)| at);
        if end == rest.len() {
            return from.saturating_add(crate::text::chars(rest));
        }
        // Search only the last tenth of the slice for a line or word end.
        let search = rest.char_indices().nth((room - room / 10) as usize).map_or(0, |(at, _)| at);
        let slice = rest.get(search..end).unwrap_or_default();
        let after = |found: Option<usize>| found.map(|at| search + at + 1);
        let good = after(slice.rfind('\n')).or_else(|| after(slice.rfind(' '))).unwrap_or(end);
        let whole = self.whole_character(self.bytes + good);
        let end = if whole > self.bytes { whole } else { self.bytes + end };
        from.saturating_add(crate::text::chars(&self.text[self.bytes..end])).max(from + 1)
    }

    fn advance_to(&mut self, chars: u32) {
        let rest = &self.text[self.bytes..];
        let step = chars.saturating_sub(self.chars) as usize;
        self.bytes += rest.char_indices().nth(step).map_or(rest.len(), |(at, _)| at);
        self.chars = chars;
    }

    /// The last grapheme cluster boundary at or before `at`.
    fn whole_character(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        match cursor.is_boundary(self.text, 0) {
            Ok(true) => at,
            _ => cursor.prev_boundary(self.text, 0).ok().flatten().unwrap_or(at),
        }
    }
}
