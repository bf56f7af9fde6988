//! Parts of rows that are JSON in every store: the threads of a conversation and the work of a job.

use serde_json::json;
use treering_core::{
    Fork, Invalid, Job, JobKind, JobState, Level, MessageIdx, Thread, ThreadName, Timestamp, Turn,
    TurnNo,
};

/// The entry of a thread, with borrowed or owned names: `[name, parent, fork_after, last_turn]`, where
/// the last turn is an array of numbers. Its sixth number has a bit for an answered turn and one for
/// an ended turn.
type ThreadRow<S> = (S, Option<S>, Option<u32>, Option<(u32, u32, u32, u32, u32, u8, i64, i64)>);

const ANSWERED: u8 = 1;
const ENDED: u8 = 2;

/// Encodes the threads of a conversation.
pub(crate) fn encode_threads(threads: &[Thread]) -> serde_json::Result<String> {
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
    serde_json::to_string(&threads.iter().map(entry).collect::<Vec<_>>())
}

/// Decodes the threads of a conversation. The error is the reason why they are unreadable.
pub(crate) fn decode_threads(text: &str) -> Result<Vec<Thread>, String> {
    let entries: Vec<ThreadRow<String>> =
        serde_json::from_str(text).map_err(|error| error.to_string())?;
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
    let threads: Result<_, Invalid> = entries.into_iter().map(thread).collect();
    threads.map_err(|error| error.to_string())
}

/// Encodes the work of a job.
pub(crate) fn encode_work(kind: &JobKind) -> serde_json::Result<String> {
    Ok(match kind {
        JobKind::EmbedTurn(turn) => json!(turn.0).to_string(),
        JobKind::EmbedNode(.., node) => json!(node.as_str()).to_string(),
        JobKind::Summarize(task) => serde_json::to_string(task)?,
        JobKind::PlanProject => json!(null).to_string(),
    })
}

/// Decodes the work of a job from the code of its kind, its height and its position. The error is
/// the reason why it is unreadable.
pub(crate) fn decode_work(
    code: i64,
    (height, position): (u8, u32),
    work: &str,
) -> Result<JobKind, String> {
    fn parsed<T: serde::de::DeserializeOwned>(work: &str) -> Result<T, String> {
        serde_json::from_str(work).map_err(|error| error.to_string())
    }
    Ok(match code {
        0 => JobKind::EmbedTurn(TurnNo(parsed(work)?)),
        1 => JobKind::Summarize(parsed(work)?),
        2 => {
            let level = Level::new(height).ok_or("no such level")?;
            JobKind::EmbedNode(level, position, parsed(work)?)
        }
        3 => JobKind::PlanProject,
        _ => return Err("no such kind of job".into()),
    })
}

/// The earliest start of a waiting job or the end of its lease, and the worker that holds it.
pub(crate) fn lease_of(job: &Job) -> (i64, Option<&str>) {
    match &job.state {
        JobState::Waiting { not_before } => (not_before.as_micros(), None),
        JobState::Leased { worker, until } => (until.as_micros(), Some(worker)),
        JobState::Dead => (0, None),
    }
}

/// The state of a job from its code, the time that belongs to it, and its worker.
pub(crate) fn job_state(
    code: i64,
    at: Timestamp,
    worker: Option<String>,
) -> Result<JobState, &'static str> {
    Ok(match (code, worker) {
        (0, _) => JobState::Waiting { not_before: at },
        (1, Some(worker)) => JobState::Leased { worker, until: at },
        (2, _) => JobState::Dead,
        _ => return Err("no such state"),
    })
}

/// The start of a job's id in upper case, with anything but hexadecimal digits replaced by `-`, which
/// matches nothing. No wildcard reaches a LIKE pattern.
pub(crate) fn id_pattern(prefix: &str) -> String {
    let digit = |c: char| if c.is_ascii_hexdigit() { c.to_ascii_uppercase() } else { '-' };
    prefix.chars().map(digit).chain(['%']).collect()
}
