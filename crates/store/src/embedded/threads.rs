//! How the threads of a conversation are written in its row: a JSON array, one entry a thread,
//! `[name, parent, fork_after, last_turn]`, where the last turn is an array of numbers.

use rusqlite::Row;
use serde_json::{Value, json};
use treering_core::conversation::{Fork, Thread};
use treering_core::{Invalid, MessageIdx, ThreadName, Timestamp, Turn, TurnNo};

use super::read::unreadable;

pub(super) fn write(threads: &[Thread]) -> String {
    let turn = |turn: &Turn| {
        json!([
            turn.no.0,
            turn.from.0,
            turn.until.0,
            turn.messages,
            turn.tool_calls,
            u8::from(turn.answered),
            turn.started_at.as_micros(),
            turn.ended_at.as_micros()
        ])
    };
    let thread = |thread: &Thread| {
        let fork = thread.fork.as_ref();
        json!([
            thread.name.as_str(),
            fork.map(|fork| fork.parent.as_str()),
            fork.and_then(|fork| fork.after).map(|idx| idx.0),
            thread.last_turn.as_ref().map(turn)
        ])
    };
    Value::Array(threads.iter().map(thread).collect()).to_string()
}

pub(super) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<Thread>> {
    type Entry = (String, Option<String>, Option<u32>, Option<(u32, u32, u32, u32, u32, u8, i64, i64)>);
    let text = row.get_ref(at)?.as_str()?;
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|why| unreadable(at, why))?;
    let thread = |(name, parent, after, turn): Entry| -> Result<Thread, Invalid> {
        let name = ThreadName::new(name)?;
        let parent = parent.map(ThreadName::new).transpose()?;
        let fork = parent.map(|parent| Fork { parent, after: after.map(MessageIdx) });
        let last_turn = turn.map(|(no, from, until, messages, tool_calls, answered, start, end)| Turn {
            no: TurnNo(no),
            thread: name.clone(),
            from: MessageIdx(from),
            until: MessageIdx(until),
            messages,
            tool_calls,
            answered: answered != 0,
            started_at: Timestamp::from_micros(start),
            ended_at: Timestamp::from_micros(end),
        });
        Ok(Thread { name, fork, last_turn })
    };
    entries.into_iter().map(thread).collect::<Result<_, _>>().map_err(|why| unreadable(at, why))
}
