//! `treering verify`

use serde::Serialize;
use treering_engine::Memory;

use super::Failure;
use super::output::{BAD, GOOD, Output, count, paint};

#[derive(Serialize)]
struct View {
    clean: bool,
    conversations: u32,
    messages: u64,
    tool_calls: u64,
    problems: Vec<Problem>,
}

#[derive(Serialize)]
struct Problem {
    conversation: Option<String>,
    what: String,
}

pub(super) fn run(memory: &Memory, output: &Output) -> Result<(), Failure> {
    let total = memory.stats().map_or(0, |stats| u64::from(stats.totals.messages));
    let bar = output.progress(total, "verifying");
    let report = memory.verify(|messages| bar.set_position(messages))?;
    bar.finish_and_clear();
    let clean = report.is_clean();
    let view = View {
        clean,
        conversations: report.conversations,
        messages: report.messages,
        tool_calls: report.tool_calls,
        problems: report
            .problems
            .into_iter()
            .map(|problem| Problem { conversation: problem.conversation, what: problem.what })
            .collect(),
    };
    output.show(&view, |out| {
        let read = format!(
            "{}, {}, {}",
            count(view.conversations.into(), "conversation"),
            count(view.messages, "message"),
            count(view.tool_calls, "tool call")
        );
        if clean {
            return writeln!(out, "{} {read}: everything adds up", paint(GOOD, "✓"));
        }
        for problem in &view.problems {
            let place = problem.conversation.as_deref().unwrap_or("store");
            writeln!(out, "{} {place}: {}", paint(BAD, "✗"), problem.what)?;
        }
        writeln!(out, "{}: {}", read, count(view.problems.len() as u64, "problem"))
    })?;
    if clean { Ok(()) } else { Err(Failure::Said) }
}
