//! `treering update`: plans missing summaries, or rebuilds the tree, and runs the jobs.

use treering_core::ports::ConversationFilter;
use treering_core::{Assignment, Level};
use treering_engine::JobScope;

use super::CliError;
use super::output::{BOLD, DIM, Output, count, grouped, paint, print_text};
use super::work::run_all;
use treering_server::service::Service;
use treering_server::service::requests::UpdateRequest;
use treering_server::views::UpdateView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering update my-chat                    write missing summaries
  treering update my-chat --full --dry-run   estimate the cost of a rebuild
  treering update my-chat --full --window-chars 4000 --with length@2=0.2

Jobs are kept in the store. If you interrupt the command, run `treering update` or `treering work`
to resume.")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id [default: every conversation]
    conversation: Option<String>,
    /// Write only missing, outdated and failed nodes (`incremental`), or all nodes (`full`)
    #[arg(long, value_name = "STRATEGY", value_parser = ["incremental", "full"])]
    strategy: Option<String>,
    /// Rebuild the tree from the messages; the same as `--strategy full`
    #[arg(long, conflicts_with = "strategy")]
    full: bool,
    /// Update only this level; with --full, this level and those above it
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<Level>,
    #[command(flatten)]
    overrides: Overrides,
    /// Override any policy parameter for this update only
    #[arg(long = "with", value_name = "NAME=VALUE", value_parser = |text: &str| text.parse::<Assignment>())]
    with: Vec<Assignment>,
    /// Maximum number of jobs that run at once [default: the setting work.concurrency]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: Option<u16>,
    /// The pause after each job, in milliseconds [default: the setting work.batch_delay_ms, for
    /// remote models]
    #[arg(long, aliases = ["batchDelayMs", "batch_delay_ms"], value_name = "MS")]
    batch_delay_ms: Option<u64>,
    /// Show what would be done without writing anything
    #[arg(long, aliases = ["dryRun", "dry_run"])]
    dry_run: bool,
    /// Leave the levels above the first to a worker
    #[arg(long)]
    background: bool,
}

/// The policy parameters that have an option of their own.
#[derive(clap::Args)]
struct Overrides {
    /// Override the size of a window, in characters
    #[arg(long, aliases = ["windowChars", "window_chars"], value_name = "CHARS")]
    window_chars: Option<String>,
    /// Override the least size of a window that a silence seals
    #[arg(long, aliases = ["minFlushChars", "min_flush_chars"], value_name = "CHARS")]
    min_flush_chars: Option<String>,
    /// Override the overlap of windows
    #[arg(long, aliases = ["overlapChars", "overlap_chars"], value_name = "CHARS")]
    overlap_chars: Option<String>,
    /// Override the size of a group, in characters
    #[arg(long, aliases = ["groupChars", "group_chars"], value_name = "CHARS")]
    group_chars: Option<String>,
    /// Override the tolerance of sizes, from 0 to 0.5
    #[arg(long, value_name = "SHARE")]
    wiggle: Option<String>,
    /// Override whether lengths are shares of the source, and not numbers of sentences
    #[arg(long, aliases = ["ratioOnly", "ratio_only"], value_name = "true|false")]
    ratio_only: Option<String>,
    /// Override what seals a window: `chars`, `time` or `hybrid`
    #[arg(long, aliases = ["sealPolicy", "seal_policy"], value_name = "POLICY")]
    seal_policy: Option<String>,
    /// Override the silence that seals a window, in milliseconds
    #[arg(long, aliases = ["flushAfterMs", "flush_after_ms"], value_name = "MS")]
    flush_after_ms: Option<String>,
}

impl Overrides {
    fn assignments(&self) -> Result<Vec<Assignment>, CliError> {
        let overrides = [
            ("window_chars", &self.window_chars),
            ("min_flush_chars", &self.min_flush_chars),
            ("overlap_chars", &self.overlap_chars),
            ("group_chars", &self.group_chars),
            ("wiggle", &self.wiggle),
            ("ratio_only", &self.ratio_only),
            ("seal_policy", &self.seal_policy),
            ("flush_after_ms", &self.flush_after_ms),
        ];
        let overrides =
            overrides.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        overrides
            .map(|(name, value)| Ok(format!("{name}={value}").parse::<Assignment>()?))
            .collect()
    }
}

fn level(text: &str) -> Result<Level, String> {
    let number = text.parse().ok().and_then(Level::new);
    number.ok_or_else(|| "expected a number of 1 or more".to_owned())
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let full = args.full || args.strategy.as_deref() == Some("full");
    let mut with = args.overrides.assignments()?;
    with.extend(args.with.iter().cloned());
    let request = UpdateRequest {
        full,
        level: args.level.map(Level::number),
        concurrency: args.concurrency,
        batch_delay_ms: args.batch_delay_ms,
        with,
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
                only: args.level.filter(|_| !full).map(Level::number),
            };
            let report = run_all(engine, &scope, output)?;
            (view.done, view.failed) = (report.done, report.failed);
            (view.left, _) = service.job_counts(&conversation, None)?;
        }
        views.push(view);
    }
    let all = |out: &mut dyn std::io::Write| views.iter().try_for_each(|view| print(out, view));
    match views.as_slice() {
        [view] if args.conversation.is_some() => output.show(view, all)?,
        views => output.show(&views, all)?,
    }
    Ok(())
}

/// The estimated cost of an update.
fn cost_of(view: &UpdateView) -> String {
    let cost = match view.dollars {
        Some(dollars) if dollars > 0.0 => format!("${dollars:.4}"),
        Some(_) => "at no cost".to_owned(),
        None => "price unknown".to_owned(),
    };
    format!(
        "{}: {} in, about {} out, {cost}.",
        count(view.calls.into(), "summary"),
        count(view.tokens_in, "token"),
        count(view.tokens_out, "token")
    )
}

fn print(out: &mut dyn std::io::Write, view: &UpdateView) -> std::io::Result<()> {
    let levels: Vec<String> = view
        .jobs_by_level
        .iter()
        .enumerate()
        .map(|(index, jobs)| format!("{} at level {}", grouped((*jobs).into()), index + 1))
        .collect();
    let stored = match view.dropped_caller_nodes {
        0 => String::new(),
        stored => format!(", {stored} of them stored with `treering summarize`"),
    };
    if view.dry_run {
        let planned =
            if levels.is_empty() { "nothing to do".to_owned() } else { levels.join(", ") };
        writeln!(out, "{}: {planned}", paint(BOLD, &view.slug))?;
        if view.dropped_nodes > 0 {
            writeln!(
                out,
                "  {} would be deleted first{stored}",
                count(view.dropped_nodes.into(), "node")
            )?;
        }
        return print_text(out, "  ", &format!("{} Nothing was written.", cost_of(view)));
    }
    let failed = if view.failed > 0 {
        format!(", {} failed (`treering jobs`)", view.failed)
    } else {
        String::new()
    };
    if view.dropped_caller_nodes > 0 {
        writeln!(out, "  {} deleted{stored}", count(view.dropped_nodes.into(), "node"))?;
    }
    let job = view.job.as_deref().map_or("", |job| &job[..12]);
    writeln!(
        out,
        "{}: {} written{failed} {}",
        paint(BOLD, &view.slug),
        count(view.done.into(), "node"),
        paint(DIM, format!("(details: `treering logs {job}`)"))
    )
}
