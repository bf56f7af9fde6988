//! The encoding of a conversation's threads in its row: a JSON array with one entry per thread,
//! `[name, parent, fork_after, last_turn]`, where the last turn is an array of numbers.
//! Its sixth number has a bit for an answered turn and one for an ended turn.

use rusqlite::Row;
use treering_core::{Fork, Invalid, MessageIdx, Thread, ThreadName, Timestamp, Turn, TurnNo};

use super::unreadable;
use crate::embedded::write::json_text;

/// The entry of a thread, with borrowed or owned names.
type ThreadRow<S> = (S, Option<S>, Option<u32>, Option<(u32, u32, u32, u32, u32, u8, i64, i64)>);

const ANSWERED: u8 = 1;
const ENDED: u8 = 2;

pub(in crate::embedded) fn write(threads: &[Thread]) -> rusqlite::Result<String> {
    fn entry(thread: &Thread) -> ThreadRow<&str> {
        let fork = thread.fork.as_ref();
        let after = fork.and_then(|fork| fork.after).map(|idx| idx.0);
        let turn = thread.last_turn.as_ref().map(|turn| {
            let (started, ended) = (turn.started_at.as_micros(), turn.ended_at.as_micros());
            let answered = if turn.answered { ANSWERED } else { 0 };
            let flags = answered | if thread.turn_ended { ENDED } else { 0 };
            let (messages, calls) = (turn.messages, turn.tool_calls);
            (turn.no.0, turn.from.0, turn.until.0, messages, calls, flags, started, ended)
        });
        (thread.name.as_str(), fork.map(|fork| fork.parent.as_str()), after, turn)
    }
    json_text(&threads.iter().map(entry).collect::<Vec<_>>())
}

pub(in crate::embedded) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Thread>> {
    let text = row.get_ref(column)?.as_str()?;
    let entries: Vec<ThreadRow<String>> =
        serde_json::from_str(text).map_err(|error| unreadable(column, error))?;
    let thread = |(name, parent, after, turn): ThreadRow<String>| -> Result<Thread, Invalid> {
        let name = ThreadName::new(name)?;
        let parent = parent.map(ThreadName::new).transpose()?;
        let fork = parent.map(|parent| Fork { parent, after: after.map(MessageIdx) });
        let turn_ended = turn.is_some_and(|turn| turn.5 & ENDED != 0);
        let last_turn =
            turn.map(|(no, from, until, messages, tool_calls, flags, start, end)| Turn {
                no: TurnNo(no),
                thread: name.clone(),
                from: MessageIdx(from),
                until: MessageIdx(until),
                messages,
                tool_calls,
                answered: flags & ANSWERED != 0,
                started_at: Timestamp::from_micros(start),
                ended_at: Timestamp::from_micros(end),
            });
        Ok(Thread { name, fork, last_turn, turn_ended })
    };
    entries
        .into_iter()
        .map(thread)
        .collect::<Result<_, _>>()
        .map_err(|error| unreadable(column, error))
}
