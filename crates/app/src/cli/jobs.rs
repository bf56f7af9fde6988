//! `treering jobs`

use serde::Serialize;
use treering_core::ports::JobFilter;
use treering_core::{ConversationId, Job, JobState};
use treering_engine::Memory;

use super::Failure;
use super::output::{BAD, BOLD, DIM, Output, count, fit, pad, paint, width};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only those of this conversation
    #[arg(long, value_name = "CONVERSATION")]
    of: Option<String>,
    /// At most so many
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 50)]
    limit: usize,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Gives failed jobs another try at once
    Retry {
        /// The first digits of a job's id [default: every failed job]
        id: Option<String>,
    },
}

#[derive(Serialize)]
struct View {
    id: String,
    conversation: String,
    slug: String,
    kind: &'static str,
    level: u8,
    description: String,
    critical: bool,
    state: &'static str,
    failures: u32,
    planned_at: String,
    not_before: Option<String>,
    worker: Option<String>,
    error: Option<String>,
}

pub(super) fn run(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    match &args.action {
        Some(Action::Retry { id }) => retry(id.clone(), memory, output),
        None => list(args, memory, output),
    }
}

fn list(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    let conversation = args.of.as_deref().map(|it| memory.find(it)).transpose()?;
    let filter = JobFilter { conversation: conversation.map(|it| it.id), ..JobFilter::all(args.limit) };
    let jobs = memory.jobs(&filter)?;
    let views: Vec<View> = jobs.iter().map(|job| view(job, memory)).collect();
    output.show(&views, |out| {
        if views.is_empty() {
            return writeln!(out, "no job is waiting");
        }
        for job in &views {
            let style = if job.state == "failed" { BAD } else { BOLD };
            let (id, state) = (&job.id[..12], paint(style, pad(job.state, 10)));
            writeln!(out, "{} {state} {} {}", paint(DIM, id), job.description, paint(DIM, &job.slug))?;
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

fn retry(id: Option<String>, memory: &Memory, output: &Output) -> Result<(), Failure> {
    let retried = memory.retry_jobs(id)?;
    let views: Vec<View> = retried.iter().map(|job| view(job, memory)).collect();
    output.show(&views, |out| match views.len() {
        0 => writeln!(out, "no job has failed"),
        many => writeln!(out, "{} tried again; `treering work` runs them", count(many as u64, "job")),
    })?;
    Ok(())
}

fn view(job: &Job, memory: &Memory) -> View {
    let (not_before, worker) = match &job.state {
        JobState::Waiting { not_before } => (Some(not_before.to_string()), None),
        JobState::Leased { worker, .. } => (None, Some(worker.clone())),
        JobState::Dead => (None, None),
    };
    View {
        id: job.id.to_string(),
        conversation: job.conversation.to_string(),
        slug: slug(memory, job.conversation),
        kind: job.kind.as_str(),
        level: job.kind.height(),
        description: job.kind.to_string(),
        critical: job.kind.is_critical(),
        state: job.state.as_str(),
        failures: job.failures,
        planned_at: job.planned_at.to_string(),
        not_before,
        worker,
        error: job.error.clone(),
    }
}

/// What a conversation is called, for people.
pub(super) fn slug(memory: &Memory, id: ConversationId) -> String {
    memory.find(&id.to_string()).map_or_else(|_| id.short(), |conversation| conversation.slug)
}
