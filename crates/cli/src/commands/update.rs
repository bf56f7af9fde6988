//! `treering update`: plans missing summaries, or rebuilds the tree, and runs the jobs.

use treering_core::ports::ConversationFilter;
use treering_core::{Assignment, Level};
use treering_engine::JobScope;

use super::CliError;
use super::output::{BOLD, DIM, Output, count, grouped, paint};
use super::work::run_all;
use treering_server::service::Service;
use treering_server::service::requests::UpdateRequest;
use treering_server::views::UpdateView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering update my-chat                     write missing, outdated and failed summaries
  treering update my-chat --full --dry-run    estimate the cost of rebuilding the tree
  treering update my-chat --full --with window_chars=4000 --with length@2=0.2

Jobs are kept in the store. If you interrupt the command, run `treering update` or `treering work`
to resume.")]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: every conversation]
    conversation: Option<String>,
    /// Rebuild the tree from the messages
    #[arg(long)]
    full: bool,
    /// Update only this level; with --full, this level and those above it
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<Level>,
    /// Override a policy parameter for this update only
    #[arg(long = "with", value_name = "NAME=VALUE", value_parser = |text: &str| text.parse::<Assignment>())]
    with: Vec<Assignment>,
    /// Show what would be done without writing anything
    #[arg(long)]
    dry_run: bool,
    /// Leave the levels above the first to a worker
    #[arg(long)]
    background: bool,
}

fn level(text: &str) -> Result<Level, String> {
    let number = text.parse().ok().and_then(Level::new);
    number.ok_or_else(|| "expected a number of 1 or more".to_owned())
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let request = UpdateRequest {
        full: args.full,
        level: args.level.map(Level::number),
        with: args.with.iter().map(ToString::to_string).collect(),
        dry_run: args.dry_run,
        ..UpdateRequest::default()
    };
    let conversations = match &args.conversation {
        Some(reference) => vec![engine.find(reference)?],
        None => {
            let all = engine.listed_conversations(&ConversationFilter::all(usize::MAX))?;
            all.into_iter().map(|session| session.conversation).collect()
        }
    };
    let mut views = Vec::new();
    for conversation in conversations {
        let mut view = service.update(&conversation, &request)?;
        if !args.dry_run {
            // With `--background`, only level 1 is written in the foreground.
            let scope = JobScope {
                conversation: Some(conversation.id),
                max_height: args.background.then_some(1),
                only: args.level.filter(|_| !args.full).map(Level::number),
            };
            let worked = run_all(engine, &scope, output)?;
            (view.done, view.failed) = (worked.done, worked.failed);
            (view.left, _) = service.job_counts(&conversation)?;
        }
        views.push(view);
    }
    output.show(&views, |out| views.iter().try_for_each(|view| print(out, view)))?;
    Ok(())
}

fn print(out: &mut dyn std::io::Write, view: &UpdateView) -> std::io::Result<()> {
    let levels: Vec<String> = view
        .jobs_by_level
        .iter()
        .enumerate()
        .map(|(place, jobs)| format!("{} at level {}", grouped((*jobs).into()), place + 1))
        .collect();
    if view.dry_run {
        let planned =
            if levels.is_empty() { "nothing to do".to_owned() } else { levels.join(", ") };
        writeln!(out, "{}: {planned}", paint(BOLD, &view.slug))?;
        if view.felled > 0 {
            writeln!(out, "  {} would be deleted first", count(view.felled.into(), "node"))?;
        }
        return writeln!(
            out,
            "  {}, {} in, about {} out, {}; nothing was written",
            count(view.calls.into(), "call"),
            count(view.tokens_in, "token"),
            count(view.tokens_out, "token"),
            view.dollars
                .map_or_else(|| "price unknown".to_owned(), |dollars| format!("${dollars:.4}"))
        );
    }
    let failed = if view.failed > 0 {
        format!(", {} failed (`treering jobs`)", view.failed)
    } else {
        String::new()
    };
    let job = view.job.as_deref().map_or("", |job| &job[..12]);
    writeln!(
        out,
        "{}: {} written{failed} {}",
        paint(BOLD, &view.slug),
        count(view.done.into(), "node"),
        paint(DIM, format!("`treering logs {job}`"))
    )
}
