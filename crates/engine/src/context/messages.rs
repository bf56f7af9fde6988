//! Reads the messages of a conversation and their tool calls, from the cache if possible.

use std::sync::Arc;

use treering_core::packing::{ContextPlan, PackedItem, Piece, PieceKey, Profile};
use treering_core::ports::{Span, StoreResult};
use treering_core::{Message, MessageIdx, Slice, ToolCall, TurnNo, Window};

use super::context_cache::CachedWindow;
use super::piece_source::{CLOSE, ConversationPieces, runs};

impl ConversationPieces<'_> {
    /// Reads messages, with the one before them and with their tool calls.
    pub(super) fn read_messages(&mut self, from: u32, until: u32) -> StoreResult<()> {
        let wanted = from..until.min(self.end);
        if wanted.clone().all(|idx| self.read.contains(&idx)) {
            return Ok(());
        }
        let span = Span::between(MessageIdx(from.saturating_sub(1)), MessageIdx(wanted.end));
        let read = self.recalled_messages(span)?;
        let turns = (read.iter().map(|it| it.turn).min(), read.iter().map(|it| it.turn).max());
        self.messages.extend(read.into_iter().map(|message| (message.idx.0, Arc::new(message))));
        if self.conversation.totals.tool_calls > 0
            && let (Some(first), Some(last)) = turns
        {
            for call in
                self.reader.tool_calls(self.key.id, Span::between(first, TurnNo(last.0 + 1)))?
            {
                let idx = call.before.0;
                if wanted.contains(&idx) && !self.read.contains(&idx) && self.is_call_before(&call)
                {
                    self.calls.entry(idx).or_default().push(self.cache.recall.call(call));
                }
            }
        }
        self.read.extend(wanted);
        Ok(())
    }

    /// Messages as they are returned.
    pub(super) fn recalled_messages(&self, span: Span<MessageIdx>) -> StoreResult<Vec<Message>> {
        let read = self.reader.messages(self.key.id, span)?;
        let recall = self.cache.recall;
        let recalled = |message| recall.message(self.past.restore(message));
        Ok(read.into_iter().map(recalled).collect())
    }

    /// Whether a call falls between the turns of the two messages around its position.
    fn is_call_before(&self, call: &ToolCall) -> bool {
        let turn = |idx: Option<u32>| idx.and_then(|idx| self.messages.get(&idx)).map(|it| it.turn);
        let (before, after) = (turn(call.before.0.checked_sub(1)), turn(Some(call.before.0)));
        let since = before.min(after).or(after);
        since.is_some_and(|since| since <= call.turn)
            && after.max(before).is_some_and(|last| call.turn <= last)
    }

    /// Loads the planned messages of the sections that do not depend on the question, unless they
    /// were read before.
    pub(super) fn load_planned_messages(
        &mut self,
        profile: &Profile,
        plan: &ContextPlan,
    ) -> StoreResult<()> {
        let sections = profile.sections.iter().zip(&plan.sections);
        let steady = sections
            .filter(|(section, _)| !section.take.is_volatile())
            .flat_map(|(_, items)| items);
        let quoted = |item: &PackedItem| {
            // The messages of a turn were read with it.
            if let PieceKey::Message(slice) = item.key { Some(slice.idx.0) } else { None }
        };
        let quoted_idx: Vec<u32> = steady.filter_map(quoted).collect();
        let unknown: Vec<u32> =
            quoted_idx.into_iter().filter(|idx| !self.load_from_cache(*idx)).collect();
        runs(unknown.into_iter(), CLOSE)
            .into_iter()
            .try_for_each(|run| self.read_messages(run.start, run.end))
    }

    /// Loads a message from its cached window. Returns whether the message is loaded now.
    pub(super) fn load_from_cache(&mut self, idx: u32) -> bool {
        if self.read.contains(&idx) {
            return true;
        }
        let Some((window, at)) = self.window_of(idx) else { return false };
        let window = Arc::clone(window);
        let Some(message) = window.messages.get(at) else { return false };
        let before =
            at.checked_sub(1).map_or(window.before.as_ref(), |before| window.messages.get(before));
        for message in before.into_iter().chain([message]) {
            self.messages.insert(message.idx.0, Arc::clone(message));
        }
        if let Some(calls) = window.calls.get(&idx) {
            self.calls.insert(idx, calls.clone());
        }
        self.read.insert(idx);
        true
    }

    /// The cached window that contains a message, and the message's index in it.
    pub(super) fn window_of(&self, idx: u32) -> Option<(&Arc<CachedWindow>, usize)> {
        let (first, window) = self.remembered.range(..=idx).next_back()?;
        let at = (idx - first) as usize;
        (at < window.messages.len()).then_some((window, at))
    }

    /// The messages of a sealed window, from the cache if possible.
    pub(super) fn sealed(&mut self, window: &Window) -> StoreResult<Arc<CachedWindow>> {
        let revision = self.reader.audit().revision()?;
        // The cache has windows of the present.
        let cached = match self.past.is_empty() {
            true => self.cache.window_of(self.key, revision, window),
            false => None,
        };
        let sealed = match cached {
            Some(sealed) => sealed,
            None => {
                let pieces = self.raw(window)?;
                let (from, until) = (window.from.idx.0, window.end().0);
                let calls = self.calls.iter().filter(|(idx, _)| (from..until).contains(idx));
                let sealed = Arc::new(CachedWindow::new(
                    pieces,
                    from.checked_sub(1).and_then(|before| self.messages.get(&before)).cloned(),
                    self.messages.range(from..until).map(|(_, it)| Arc::clone(it)).collect(),
                    calls.map(|(idx, calls)| (*idx, calls.clone())).collect(),
                ));
                if self.past.is_empty() {
                    self.cache.put_window(self.key, revision, window, Arc::clone(&sealed));
                }
                sealed
            }
        };
        self.remembered.insert(window.from.idx.0, Arc::clone(&sealed));
        Ok(sealed)
    }

    /// Whether there is anything to show of a message: a text, or the tool calls before it.
    pub(super) fn says_something(&self, message: &Message) -> bool {
        let has_calls = || self.calls.get(&message.idx.0).is_some_and(|calls| !calls.is_empty());
        !message.body.forgotten && (!message.body.text.trim().is_empty() || has_calls())
    }

    pub(super) fn raw(&mut self, window: &Window) -> StoreResult<Vec<Piece>> {
        self.read_messages(window.from.idx.0, window.end().0)?;
        let span = window.from.idx.0..window.end().0.min(self.end);
        let own = self
            .messages
            .range(span)
            .filter(|(_, message)| message.thread == window.thread && self.says_something(message));
        let slices = own.filter_map(|(_, message)| window.slice(message.idx, message.chars));
        let slices: Vec<Slice> = slices.collect();
        Ok(slices.into_iter().filter_map(|slice| self.message_piece(slice)).collect())
    }
}
