//! `treering logs`: lists the recorded events of background jobs.

use treering_core::ports::JobEventFilter;
use treering_engine::Engine;

use super::CliError;
use super::output::{BAD, DIM, GOOD, Output, pad, paint};
use treering_server::views::LogView;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The first digits of a job's id, or of an update's id to include every job that followed
    /// from it [default: everything]
    job: Option<String>,
    /// Show only events of this conversation
    #[arg(long, value_name = "CONVERSATION")]
    of: Option<String>,
    /// Maximum number of events; the newest are shown
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let conversation = args.of.as_deref().map(|it| memory.find(it)).transpose()?;
    let filter = JobEventFilter {
        conversation: conversation.map(|it| it.id),
        job_prefix: args.job.clone(),
        limit: args.limit,
    };
    let lines = memory.job_events(&filter)?;
    let views: Vec<LogView> = lines.iter().map(LogView::of).collect();
    output.show(&views, |out| {
        if views.is_empty() {
            return writeln!(out, "no events");
        }
        for view in &views {
            let style = match view.event {
                "release" => GOOD,
                "fail" | "dead" => BAD,
                _ => DIM,
            };
            let took = view.took_ms.map_or(String::new(), |ms| format!(" ({ms} ms)"));
            let event = paint(style, pad(view.event, 8));
            writeln!(
                out,
                "{} {} {event} {}{took}",
                paint(DIM, &view.at),
                paint(DIM, &view.job[..12]),
                view.text
            )?;
        }
        Ok(())
    })?;
    Ok(())
}
