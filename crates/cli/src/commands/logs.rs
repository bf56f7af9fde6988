//! `treering logs`: lists the recorded events of background jobs.

use super::CliError;
use super::local_time::local_of;
use super::output::{BAD, DIM, GOOD, Output, paint, print_text};
use treering_server::service::Service;
use treering_server::service::requests::WorkRequest;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering logs --of tidewatch --limit 10
  treering logs 3f9a21c0                   a job, or every job of an update")]
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

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let request = WorkRequest {
        job: args.job.clone(),
        conversation: args.of.clone(),
        limit: Some(args.limit),
    };
    let list = service.logs(&request)?;
    output.show(&list, |out| {
        if list.lines.is_empty() {
            return writeln!(out, "no events");
        }
        for line in &list.lines {
            let style = match line.event {
                "release" | "clear" => GOOD,
                "fail" | "dead" => BAD,
                _ => DIM,
            };
            let head = format!("{} {}", local_of(&line.at), &line.job[..12]);
            writeln!(out, "{} {}", paint(DIM, head), paint(style, line.event))?;
            let duration = match (line.event, line.took_ms) {
                (_, None) => String::new(),
                ("release", Some(ms)) => format!(", generated in {ms} ms"),
                (_, Some(ms)) => format!(" ({ms} ms)"),
            };
            print_text(out, "  ", &format!("{}{duration}", line.text))?;
        }
        Ok(())
    })?;
    Ok(())
}
