//! `treering jobs`: lists and retries background jobs.

use super::CliError;
use super::output::{BAD, BOLD, DIM, Output, count, pad, paint, print_dim, print_text};
use treering_server::service::Service;
use treering_server::service::requests::WorkRequest;

/// The indent of the lines below a job's id.
const INDENT: &str = "             ";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering jobs --of tidewatch
  treering jobs retry             every failed job
  treering jobs retry 3f9a21c0")]
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

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    match &args.action {
        Some(JobAction::Retry { id }) => retry(id.clone(), service, output),
        None => list(args, service, output),
    }
}

fn list(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = WorkRequest { conversation: args.of.clone(), limit: Some(args.limit), job: None };
    let list = service.jobs(&request)?;
    output.show(&list, |out| {
        if list.jobs.is_empty() {
            return writeln!(out, "no unfinished jobs");
        }
        for job in &list.jobs {
            let style = if job.state == "failed" { BAD } else { BOLD };
            let state = paint(style, pad(job.state, 10));
            writeln!(out, "{} {state} {}", paint(DIM, &job.id[..12]), paint(DIM, &job.slug))?;
            print_text(out, INDENT, &job.description)?;
            if let Some(error) = &job.error {
                let failures = count(job.failures.into(), "failure");
                print_dim(out, INDENT, &format!("{failures}: {error}"))?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

fn retry(id: Option<String>, service: &Service, output: &Output) -> Result<(), CliError> {
    let list = service.retry(id)?;
    output.show(&list, |out| match list.jobs.len() {
        0 => writeln!(out, "no failed jobs"),
        jobs => {
            writeln!(out, "{} queued; run them with `treering work`", count(jobs as u64, "job"))
        }
    })?;
    Ok(())
}
