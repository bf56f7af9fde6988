//! The raw history of a conversation: its turns, and the part that no summary covers yet.

use treering_core::ports::{Span, StoreResult};
use treering_core::{
    ConversationId, Level, Message, MessageIdx, Reader, ThreadName, ToolCall, Turn, TurnNo,
};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Turns that are read at once while looking for the last ones.
const PAGE: u32 = 50;

/// A turn with its messages and tool calls.
#[derive(Debug, Clone)]
pub struct WholeTurn {
    /// The turn.
    pub turn: Turn,
    /// Its messages, in order.
    pub messages: Vec<Message>,
    /// Its tool calls, in order.
    pub tool_calls: Vec<ToolCall>,
}

/// A message or a tool call of a turn.
#[derive(Debug, Clone, Copy)]
pub enum TurnItem<'a> {
    /// A message.
    Message(&'a Message),
    /// A tool call.
    ToolCall(&'a ToolCall),
}

impl WholeTurn {
    /// Messages and tool calls in the order in which they happened.
    #[must_use]
    pub fn items(&self) -> Vec<TurnItem<'_>> {
        let mut calls = self.tool_calls.iter().peekable();
        let mut steps = Vec::with_capacity(self.messages.len() + self.tool_calls.len());
        for message in &self.messages {
            while let Some(call) = calls.next_if(|call| call.before <= message.idx) {
                steps.push(TurnItem::ToolCall(call));
            }
            steps.push(TurnItem::Message(message));
        }
        steps.extend(calls.map(TurnItem::ToolCall));
        steps
    }
}

impl Engine {
    /// Turns of a conversation, each with its messages and tool calls.
    pub fn turns(&self, id: ConversationId, span: Span<TurnNo>) -> Result<Vec<WholeTurn>> {
        Ok(whole_turns(&*self.reader()?, id, span)?)
    }

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

/// Turns of a conversation, each with its messages and tool calls.
pub(crate) fn whole_turns(
    reader: &dyn Reader,
    id: ConversationId,
    span: Span<TurnNo>,
) -> StoreResult<Vec<WholeTurn>> {
    let turns = reader.turns(id, span)?;
    let (Some(first), Some(last)) = (turns.first(), turns.last()) else {
        return Ok(Vec::new());
    };
    let calls =
        reader.tool_calls(id, Span::between(first.no, TurnNo(last.no.0.saturating_add(1))))?;
    let from = turns.iter().map(|turn| turn.from).min().unwrap_or(MessageIdx(0));
    let until = turns.iter().map(|turn| turn.until).max().unwrap_or(from);
    let messages = reader.messages(id, Span::between(from, until))?;
    let mut complete: Vec<WholeTurn> = turns
        .into_iter()
        .map(|turn| WholeTurn { turn, messages: Vec::new(), tool_calls: Vec::new() })
        .collect();
    // Turn numbers have no gaps, so a turn's index follows from its number.
    let start = complete.first().map_or(0, |first| first.turn.no.0);
    let index_of = |no: TurnNo| no.0.checked_sub(start).map(|index| index as usize);
    for message in messages {
        if let Some(turn) = index_of(message.turn).and_then(|at| complete.get_mut(at)) {
            turn.messages.push(message);
        }
    }
    for call in calls {
        if let Some(turn) = index_of(call.turn).and_then(|at| complete.get_mut(at)) {
            turn.tool_calls.push(call);
        }
    }
    Ok(complete)
}
