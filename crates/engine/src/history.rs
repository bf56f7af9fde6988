//! The raw history of a conversation: its last turns, and the part that no summary covers yet.

use treering_core::ports::Span;
use treering_core::{ConversationId, Level, ThreadName, TurnNo};

use crate::engine::{Engine, WholeTurn};
use crate::error::{Error, Result};

/// Turns that are read at once while looking for the last ones.
const PAGE: u32 = 50;

impl Engine {
    /// The last turns of a conversation, or of one of its threads, oldest first: at most `limit`,
    /// with at most `max_chars` characters of messages. The latest turn is always included.
    pub fn recent_turns(
        &self,
        id: ConversationId,
        thread: Option<&ThreadName>,
        max_chars: usize,
        limit: usize,
    ) -> Result<Vec<WholeTurn>> {
        let conversation =
            self.reader()?.conversation(id)?.ok_or_else(|| Error::no_conversation(id))?;
        let mut recent: Vec<WholeTurn> = Vec::new();
        let mut chars = 0;
        let mut end = conversation.totals.turns;
        while end > 0 && recent.len() < limit {
            let from = end.saturating_sub(PAGE);
            for turn in self.turns(id, Span::between(TurnNo(from), TurnNo(end)))?.into_iter().rev()
            {
                if thread.is_some_and(|thread| turn.turn.thread != *thread) {
                    continue;
                }
                chars += turn.messages.iter().map(|message| message.chars as usize).sum::<usize>();
                if recent.len() == limit || (chars > max_chars && !recent.is_empty()) {
                    recent.reverse();
                    return Ok(recent);
                }
                recent.push(turn);
            }
            end = from;
        }
        recent.reverse();
        Ok(recent)
    }

    /// Characters of the messages that no summary covers yet.
    pub fn raw_history_chars(&self, id: ConversationId) -> Result<u64> {
        let reader = self.reader()?;
        let conversation = reader.conversation(id)?.ok_or_else(|| Error::no_conversation(id))?;
        let levels = reader.level_totals(Some(id))?;
        let covered = levels.iter().find(|level| level.level == Level::FIRST.number());
        let covered = covered.map_or(0, |level| level.source_chars);
        Ok(conversation.totals.chars.saturating_sub(covered))
    }
}
