//! Windowing: decides which messages of a thread form one level-1 node, and why each window
//! seals.
//!
//! A fold over the messages of one thread in arrival order. The state is small and does not
//! depend on how the messages were batched, so that an append costs the same at any length and
//! a replay yields the same windows. It never reads a clock: a silence is the time between two
//! messages.

mod run;
mod slicer;
mod stored;

use serde::{Deserialize, Serialize};

use crate::ids::{MessageIdx, TurnNo};
use crate::message::{Message, Role};
use crate::node::TextPosition;
use crate::policy::{SealPolicy, WindowPolicy};
use crate::time::Timestamp;

pub use run::MessageRun;
use run::joined;
use slicer::Slicer;
use stored::StoredWindow;

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

impl WindowMessage<'_> {
    /// The characters that no sealed window covers.
    const fn open_chars(&self) -> u32 {
        self.chars.saturating_sub(self.skip)
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
    /// A turn larger than a window was divided between two messages.
    Divided,
    /// It reached twice a limit without an answer.
    Unanswered,
    /// The conversation was closed.
    Closed,
    /// A caller stored a summary of it.
    Requested,
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
            Self::Divided => "a turn larger than a window",
            Self::Unanswered => "twice its target size without an answer",
            Self::Closed => "conversation closed",
            Self::Requested => "on request",
        }
    }
}

/// The open window of a thread.
///
/// An *exchange* is a complete turn with the unanswered turns before it. Only the end of an
/// exchange seals a window, unless the exchange is larger than a window by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "StoredWindow", into = "StoredWindow")]
pub struct OpenWindow {
    /// The start; `None` while the window is empty.
    from: Option<TextPosition>,
    /// Finished exchanges. The latest are separate runs if `keep_recent_turns` is set.
    finished: Vec<MessageRun>,
    /// The exchange in progress.
    current: Option<MessageRun>,
    /// The turn in progress; `None` between turns.
    turn: Option<TurnNo>,
    /// Whether an assistant answered in the exchange in progress.
    answered: bool,
    /// Whether a long silence occurred, which seals the window with the end of the exchange.
    silent: bool,
    /// Whether its messages must be folded again: an older version wrote the window, or the tree
    /// was turned off.
    outdated: bool,
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
    /// The message that decided it: the last one of the exchange that ends the window, or the
    /// one that no longer fits. The next message or an end mark may reveal the end of a turn;
    /// both lead to the same value.
    pub by: MessageIdx,
}

impl OpenWindow {
    /// The start; `None` while the window is empty.
    #[must_use]
    pub const fn from(&self) -> Option<TextPosition> {
        self.from
    }

    /// Whether its messages must be folded again, because an older version wrote the window or
    /// the tree was turned off.
    #[must_use]
    pub const fn is_outdated(&self) -> bool {
        self.outdated
    }

    /// Marks that its messages must be folded again.
    pub(crate) const fn mark_outdated(&mut self) {
        self.outdated = true;
    }

    /// The totals of the window; `None` while it is empty.
    #[must_use]
    pub fn holds(&self) -> Option<MessageRun> {
        let finished = joined(&self.finished);
        match (finished, &self.current) {
            (Some(mut all), Some(current)) => {
                all.join(current);
                Some(all)
            }
            (finished, current) => finished.or(*current),
        }
    }

    /// Adds the next message of the thread and returns the windows that it seals.
    pub fn push(&mut self, piece: &WindowMessage<'_>, policy: &WindowPolicy) -> Vec<SealedWindow> {
        let mut seals = Vec::new();
        if self.turn.is_some_and(|turn| turn != piece.turn) {
            seals.extend(self.end_turn(policy));
        }
        self.notice_silence(piece, policy, &mut seals);
        self.turn = Some(piece.turn);
        match policy.window_chars {
            Some(size) if policy.bounds_windows() => {
                self.add_bounded(piece, size, policy, &mut seals);
            }
            Some(size) if piece.open_chars() > policy.upper_bound(size) => {
                self.seal_whole_above(policy.lower_bound(size), piece, &mut seals);
                self.slice(piece, size, policy, &mut seals);
            }
            _ => {
                if policy.divides_turns() && self.current_is_over_a_limit(policy) {
                    seals.extend(self.seal_whole(SealReason::NextDoesNotFit, piece.idx));
                    seals.extend(self.seal_all(SealReason::Divided, piece.idx));
                }
                self.add(piece, piece.skip, piece.chars);
            }
        }
        self.answered |= piece.role == Role::Assistant && piece.chars > 0;
        let bounded = policy.window_chars.is_some() && policy.bounds_windows();
        if !bounded && !self.answered && self.is_twice_a_limit(policy) {
            // Seal the finished exchanges separately, so that the unanswered part can still get
            // its answer.
            seals.extend(self.seal_whole(SealReason::NextDoesNotFit, piece.idx));
            if self.is_twice_a_limit(policy) {
                seals.extend(self.seal_all(SealReason::Unanswered, piece.idx));
            }
        }
        seals
    }

    /// Ends the turn in progress and returns the window that this seals. A repeated call has no
    /// effect, and the next turn has the same effect.
    pub fn end_turn(&mut self, policy: &WindowPolicy) -> Option<SealedWindow> {
        self.turn.take()?;
        if policy.ensure_assistant && !self.answered {
            return None;
        }
        self.answered = false;
        self.finished.extend(self.current.take());
        let keep = policy.keep_recent_turns as usize;
        while self.finished.len() > keep + 1 {
            let second = self.finished.remove(1);
            self.finished[0].join(&second);
        }
        let reason = self.due(policy)?;
        let by = MessageIdx(joined(&self.finished)?.until.idx.0.saturating_sub(1));
        self.seal_due(reason, by, policy)
    }

    /// Seals the rest when the conversation closes with message `by`.
    pub(crate) fn close(&mut self, by: MessageIdx, policy: &WindowPolicy) -> Vec<SealedWindow> {
        let mut seals: Vec<_> = self.end_turn(policy).into_iter().collect();
        seals.extend(self.seal_all(SealReason::Closed, by));
        seals
    }

    fn chars(&self) -> u32 {
        self.holds().map_or(0, |all| all.chars)
    }

    fn add(&mut self, piece: &WindowMessage<'_>, from: u32, until: u32) {
        let stretch = MessageRun::of(piece, from, until);
        self.from.get_or_insert(TextPosition { idx: piece.idx, offset: from });
        match &mut self.current {
            Some(current) => current.join(&stretch),
            None => self.current = Some(stretch),
        }
    }

    /// Seals the window after a long silence, or with the end of the exchange in progress.
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
        if self.current.is_none() && self.turn.is_none() {
            seals.extend(self.seal_due(SealReason::Silence, piece.idx, policy));
        } else {
            self.silent = true;
        }
    }

    /// Adds a message to a window with a target size. The exchange in progress starts a new
    /// window if it does not fit, and is divided if it is larger than a window by itself.
    fn add_bounded(
        &mut self,
        piece: &WindowMessage<'_>,
        size: u32,
        policy: &WindowPolicy,
        seals: &mut Vec<SealedWindow>,
    ) {
        let (lower_bound, upper_bound) = (policy.lower_bound(size), policy.upper_bound(size));
        let chars = piece.open_chars();
        let finished = joined(&self.finished).map_or(0, |finished| finished.chars);
        let current = self.current.map_or(0, |current| current.chars);
        let exchange = current.saturating_add(chars);
        if finished.saturating_add(exchange.min(upper_bound)) > upper_bound {
            self.seal_whole_above(lower_bound, piece, seals);
        }
        if exchange <= upper_bound {
            self.add(piece, piece.skip, piece.chars);
        } else if chars <= upper_bound {
            let chars_held = self.chars();
            if chars_held.saturating_add(chars) > upper_bound && chars_held >= lower_bound {
                seals.extend(self.seal_all(SealReason::Divided, piece.idx));
            }
            self.add(piece, piece.skip, piece.chars);
        } else {
            self.slice(piece, size, policy, seals);
        }
    }

    /// Slices a message larger than a window over as many windows as necessary. The last slice
    /// stays open.
    fn slice(
        &mut self,
        piece: &WindowMessage<'_>,
        size: u32,
        policy: &WindowPolicy,
        seals: &mut Vec<SealedWindow>,
    ) {
        if self.chars() >= policy.lower_bound(size) {
            seals.extend(self.seal_all(SealReason::Divided, piece.idx));
        }
        let mut text = Slicer::new(piece.text);
        let mut from = piece.skip;
        while (piece.chars - from).saturating_add(self.chars()) > policy.upper_bound(size) {
            let remaining = size.saturating_sub(self.chars()).max(1);
            let until = text.cut(from, remaining).min(piece.chars);
            self.add(piece, from, until);
            seals.extend(self.seal_all(SealReason::Oversized, piece.idx));
            from = until;
        }
        if from < piece.chars {
            self.add(piece, from, piece.chars);
        }
    }

    /// Seals the finished exchanges before a message that does not fit, if they have the minimum
    /// size of a window.
    fn seal_whole_above(
        &mut self,
        lower_bound: u32,
        piece: &WindowMessage<'_>,
        seals: &mut Vec<SealedWindow>,
    ) {
        if joined(&self.finished).is_some_and(|finished| finished.chars >= lower_bound) {
            seals.extend(self.seal_whole(SealReason::NextDoesNotFit, piece.idx));
        }
    }

    /// Why the window seals at the end of an exchange, if it does.
    fn due(&self, policy: &WindowPolicy) -> Option<SealReason> {
        let all = self.holds()?;
        let sealable = self.finished.len().saturating_sub(policy.keep_recent_turns as usize);
        let sealable = joined(&self.finished[..sealable]).map_or(0, |sealable| sealable.chars);
        let is_reached = |limit: Option<u32>, is: u32| limit.is_some_and(|limit| is >= limit);
        let open_for = all.last_at.as_micros().saturating_sub(all.first_at.as_micros());
        let old = |age: u64| {
            u64::try_from(open_for).is_ok_and(|open_for| open_for >= age.saturating_mul(1000))
        };
        Some(match () {
            () if policy.by_size() && is_reached(policy.window_chars, sealable) => SealReason::Full,
            () if self.silent => SealReason::Silence,
            () if is_reached(policy.messages, all.messages) => SealReason::Messages,
            () if is_reached(policy.tokens, all.tokens) => SealReason::Tokens,
            () if is_reached(policy.turns, all.turns) => SealReason::Turns,
            () if is_reached(policy.chars, all.chars) => SealReason::Chars,
            () if policy.age_ms.is_some_and(old) => SealReason::Age,
            () => return None,
        })
    }

    /// Whether the exchange in progress exceeds a limit by more than the wiggle.
    fn current_is_over_a_limit(&self, policy: &WindowPolicy) -> bool {
        self.current.is_some_and(|current| {
            let exceeds =
                |limit: Option<u32>, is: u32| limit.is_some_and(|it| is > policy.upper_bound(it));
            exceeds(policy.messages, current.messages)
                || exceeds(policy.tokens, current.tokens)
                || exceeds(policy.chars, current.chars)
        })
    }

    /// Whether the window has reached twice a limit, because only people talk or the assistant
    /// never replied.
    fn is_twice_a_limit(&self, policy: &WindowPolicy) -> bool {
        let Some(all) = self.holds() else { return false };
        let twice =
            |limit: Option<u32>, is: u32| limit.is_some_and(|limit| is >= limit.saturating_mul(2));
        twice(policy.window_chars.filter(|_| policy.by_size()), all.chars)
            || twice(policy.messages, all.messages)
            || twice(policy.tokens, all.tokens)
            || twice(policy.chars, all.chars)
    }

    /// Seals the window, except for the recent turns that stay out.
    fn seal_due(
        &mut self,
        reason: SealReason,
        by: MessageIdx,
        policy: &WindowPolicy,
    ) -> Option<SealedWindow> {
        if self.holds().is_none_or(|all| all.turns < policy.min_turns) {
            return None;
        }
        let keep = policy.keep_recent_turns as usize;
        self.seal_first(self.finished.len().saturating_sub(keep), reason, by)
    }

    fn seal_all(&mut self, reason: SealReason, by: MessageIdx) -> Option<SealedWindow> {
        self.finished.extend(self.current.take());
        self.seal_whole(reason, by)
    }

    fn seal_whole(&mut self, reason: SealReason, by: MessageIdx) -> Option<SealedWindow> {
        self.seal_first(self.finished.len(), reason, by)
    }

    /// Seals the first of the finished exchanges; the rest stays open.
    fn seal_first(
        &mut self,
        exchanges: usize,
        reason: SealReason,
        by: MessageIdx,
    ) -> Option<SealedWindow> {
        let rest = self.finished.split_off(exchanges);
        let sealed = std::mem::replace(&mut self.finished, rest);
        let message_run = joined(&sealed)?;
        let (from, until) = (self.from?, message_run.until);
        self.from = (!self.finished.is_empty() || self.current.is_some()).then_some(until);
        self.silent = false;
        Some(SealedWindow { from, until, message_run, reason, by })
    }
}

impl WindowPolicy {
    /// The maximum size of a window with this target size.
    #[must_use]
    pub fn upper_bound(&self, size: u32) -> u32 {
        (f64::from(size) * f64::from(1.0 + self.wiggle)) as u32
    }

    /// The minimum size of a window with this target size, unless something other than size
    /// seals it.
    #[must_use]
    pub fn lower_bound(&self, size: u32) -> u32 {
        size - (f64::from(size) * f64::from(self.wiggle)) as u32
    }

    /// Whether windows have a lower and an upper bound.
    const fn bounds_windows(&self) -> bool {
        self.by_size() && self.keep_recent_turns == 0 && self.min_turns <= 1
    }

    /// Whether a turn that is larger than a window is divided. Limits in turns never divide one.
    const fn divides_turns(&self) -> bool {
        self.turns.is_none() && self.keep_recent_turns == 0 && self.min_turns <= 1
    }

    const fn by_time(&self) -> bool {
        matches!(self.seal_policy, SealPolicy::Time | SealPolicy::Hybrid)
    }

    const fn by_size(&self) -> bool {
        matches!(self.seal_policy, SealPolicy::Chars | SealPolicy::Hybrid)
    }
}
