//! The encoding of a conversation's threads in its row: a JSON array with one entry per thread,
//! `[name, parent, fork_after, last_turn]`, where the last turn is an array of numbers.

use rusqlite::Row;
use treering_core::{Fork, Invalid, MessageIdx, Thread, ThreadName, Timestamp, Turn, TurnNo};

use super::unreadable;
use crate::embedded::write::json_text;

/// The entry of a thread, with borrowed or owned names.
type ThreadRow<S> = (S, Option<S>, Option<u32>, Option<(u32, u32, u32, u32, u32, u8, i64, i64)>);

pub(in crate::embedded) fn write(threads: &[Thread]) -> rusqlite::Result<String> {
    fn entry(thread: &Thread) -> ThreadRow<&str> {
        let fork = thread.fork.as_ref();
        let after = fork.and_then(|fork| fork.after).map(|idx| idx.0);
        let turn = thread.last_turn.as_ref().map(|turn| {
            let (started, ended) = (turn.started_at.as_micros(), turn.ended_at.as_micros());
            let (messages, calls, answered) =
                (turn.messages, turn.tool_calls, u8::from(turn.answered));
            (turn.no.0, turn.from.0, turn.until.0, messages, calls, answered, started, ended)
        });
        (thread.name.as_str(), fork.map(|fork| fork.parent.as_str()), after, turn)
    }
    json_text(&threads.iter().map(entry).collect::<Vec<_>>())
}

pub(in crate::embedded) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Vec<Thread>> {
    let text = row.get_ref(at)?.as_str()?;
    let entries: Vec<ThreadRow<String>> =
        serde_json::from_str(text).map_err(|why| unreadable(at, why))?;
    let thread = |(name, parent, after, turn): ThreadRow<String>| -> Result<Thread, Invalid> {
        let name = ThreadName::new(name)?;
        let parent = parent.map(ThreadName::new).transpose()?;
        let fork = parent.map(|parent| Fork { parent, after: after.map(MessageIdx) });
        let last_turn =
            turn.map(|(no, from, until, messages, tool_calls, answered, start, end)| Turn {
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
