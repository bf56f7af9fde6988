//! Turns, which follow from what is in them: messages and tool calls.

use std::collections::BTreeMap;

use rusqlite::{Row, params};
use treering_core::ports::{Span, StoreResult};
use treering_core::{ConversationKey, MessageIdx, Role, ThreadName, Turn, TurnNo};

use super::codes;
use super::read::{Access, Found, View, moment, thread};

impl<C: Access> View<'_, C> {
    pub(super) fn read_turns(&self, key: &ConversationKey, span: Span<TurnNo>) -> StoreResult<Vec<Turn>> {
        let Some(found) = self.row(key)? else { return Ok(Vec::new()) };
        let (pk, names) = (found.pk, &found.names);
        let from = span.from.0;
        let limit = from.saturating_add(u32::try_from(span.limit).unwrap_or(u32::MAX));
        let until = span.until.map_or(limit, |until| until.0.min(limit));
        let first = self.first_message(&found, span.from)?;
        // In one thread, a turn ends where the next one begins; in several, it may go on anywhere.
        let last = match names.len() {
            0 | 1 => self.first_message(&found, TurnNo(until))?,
            _ => u32::MAX,
        };
        let sql = "SELECT turn, thread, min(idx), max(idx) + 1, count(*), 0, max(role = ?5 AND chars > 0),
                min(at), max(at)
            FROM messages WHERE seq >= ?1 AND seq < ?2 AND turn >= ?3 AND turn < ?4
            GROUP BY turn";
        let assistant = codes::role_code(Role::Assistant);
        let mut turns: BTreeMap<u32, Turn> = BTreeMap::new();
        self.each_run(pk, &found.latest, (first, last), |run| {
            let (seq, end) = run.seqs();
            for part in self.many(sql, params![seq, end, from, until, assistant], |row| turn(row, names))? {
                let merge = |turn: &mut Turn| {
                    turn.from = turn.from.min(part.from);
                    turn.until = turn.until.max(part.until);
                    turn.messages += part.messages;
                    turn.answered |= part.answered;
                    turn.started_at = turn.started_at.min(part.started_at);
                    turn.ended_at = turn.ended_at.max(part.ended_at);
                };
                turns.entry(part.no.0).and_modify(merge).or_insert_with(|| part.clone());
            }
            Ok(false)
        })?;
        let sql = "SELECT turn, thread, min(before_idx), min(before_idx), 0, count(*), 0, min(at), max(at)
            FROM tool_calls WHERE conversation = ?1 AND turn >= ?2 AND turn < ?3 GROUP BY turn";
        for calls in self.many(sql, params![pk, from, until], |row| turn(row, names))? {
            let merge = |turn: &mut Turn| {
                turn.tool_calls = calls.tool_calls;
                turn.started_at = turn.started_at.min(calls.started_at);
                turn.ended_at = turn.ended_at.max(calls.ended_at);
            };
            turns.entry(calls.no.0).and_modify(merge).or_insert_with(|| calls.clone());
        }
        Ok(turns.into_values().collect())
    }

    /// The first message at or after which a turn can have messages: the number of turns never
    /// falls from one message to the next. Found by steps back from the end, each twice as long as
    /// the one before, since mostly late turns are asked for, and then by halving.
    fn first_message(&self, found: &Found, turn: TurnNo) -> StoreResult<u32> {
        let is_later = |idx: u32| -> StoreResult<bool> {
            let Some(seq) = self.seq(found.pk, &found.latest, idx)? else { return Ok(false) };
            let turns = self.one("SELECT turns FROM messages WHERE seq = ?1", [seq], |row| row.get(0))?;
            Ok(turns.unwrap_or(0_u32) > turn.0)
        };
        let mut high = self.messages_end(found.pk, &found.latest)?;
        let (mut low, mut step) = (0, 2);
        while let Some(back) = high.checked_sub(step) {
            if !is_later(back)? {
                low = back + 1;
                break;
            }
            (high, step) = (back, step * 2);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if is_later(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(low)
    }
}

fn turn(row: &Row<'_>, names: &[ThreadName]) -> rusqlite::Result<Turn> {
    Ok(Turn {
        no: TurnNo(row.get(0)?),
        thread: thread(row, 1, names)?,
        from: MessageIdx(row.get(2)?),
        until: MessageIdx(row.get(3)?),
        messages: row.get(4)?,
        tool_calls: row.get(5)?,
        answered: row.get(6)?,
        started_at: moment(row, 7)?,
        ended_at: moment(row, 8)?,
    })
}
