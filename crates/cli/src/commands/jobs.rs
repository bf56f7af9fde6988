//! `treering jobs`: lists and retries background jobs.

use treering_core::ports::JobFilter;
use treering_engine::Engine;

use super::CliError;
use super::output::{BAD, BOLD, DIM, Output, count, fit, pad, paint, width};
use treering_server::views::JobView;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<JobAction>,
    /// Show only the jobs of this conversation
    #[arg(long, value_name = "CONVERSATION")]
    of: Option<String>,
    /// Maximum number of jobs
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

#[derive(clap::Subcommand)]
enum JobAction {
    /// Retry failed jobs immediately
    Retry {
        /// The first digits of a job's id [default: every failed job]
        id: Option<String>,
    },
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    match &args.action {
        Some(JobAction::Retry { id }) => retry(id.clone(), memory, output),
        None => list(args, memory, output),
    }
}

fn list(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let conversation = args.of.as_deref().map(|it| memory.find(it)).transpose()?;
    let filter =
        JobFilter { conversation: conversation.map(|it| it.id), ..JobFilter::all(args.limit) };
    let jobs = memory.jobs(&filter)?;
    let views = JobView::all(&jobs, memory);
    output.show(&views, |out| {
        if views.is_empty() {
            return writeln!(out, "no unfinished jobs");
        }
        for job in &views {
            let style = if job.state == "failed" { BAD } else { BOLD };
            let (id, state) = (&job.id[..12], paint(style, pad(job.state, 10)));
            writeln!(
                out,
                "{} {state} {} {}",
                paint(DIM, id),
                job.description,
                paint(DIM, &job.slug)
            )?;
            if let Some(error) = &job.error {
                let tries = count(job.failures.into(), "failure");
                writeln!(
                    out,
                    "             {}",
                    paint(DIM, fit(&format!("{tries}: {error}"), width() - 14))
                )?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn retry(id: Option<String>, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let retried = memory.retry_jobs(id)?;
    let views = JobView::all(&retried, memory);
    output.show(&views, |out| match views.len() {
        0 => writeln!(out, "no failed jobs"),
        many => {
            writeln!(out, "{} queued; run them with `treering work`", count(many as u64, "job"))
        }
    })?;
    Ok(())
}
