//! `treering reindex`: moves search to the vectors of the configured embedder.

use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use treering_core::{ProviderError, RetryAdvice};
use treering_engine::{Engine, Error, ReindexReport};

use super::CliError;
use super::output::{DIM, GOOD, Output, count, grouped, paint};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Search uses the old vector index until the new one is complete. If you interrupt the command, run it
again to resume.

Examples:
  treering reindex --status
  treering reindex --set embed.model=encoder")]
pub(super) struct Args {
    /// Show which model's vectors search uses and which are being built, without reindexing
    #[arg(long)]
    status: bool,
}

#[derive(Serialize)]
struct View {
    model: String,
    configured: String,
    next: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedded: Option<u64>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let configured = engine.embedder_name().to_owned();
    if args.status || !engine.needs_reindex()? {
        let index = engine.vector_index()?;
        let next = index.next.map(|next| next.model);
        let view = View { model: index.model, configured, next, embedded: None };
        output.show(&view, |out| {
            writeln!(out, "{} search uses the vectors of {}", paint(GOOD, "✓"), view.model)?;
            match &view.next {
                Some(next) => {
                    writeln!(out, "{next} is incomplete; resume with `treering reindex`")
                }
                None if view.model != view.configured => {
                    let configured = &view.configured;
                    writeln!(
                        out,
                        "{configured} is configured; run `treering reindex` to switch to it"
                    )
                }
                None => writeln!(out, "{}", paint(DIM, "nothing to do")),
            }
        })?;
        return Ok(());
    }
    let bar = output.progress(item_count(engine)?, "embedding");
    let done = reindex(engine, &bar)?;
    bar.finish_and_clear();
    let view =
        View { model: done.to.clone(), configured, next: None, embedded: Some(done.embedded) };
    output.show(&view, |out| {
        let looked_at = count(done.done, "text");
        let embedded = grouped(done.embedded);
        writeln!(out, "{} search now uses the vectors of {}", paint(GOOD, "✓"), done.to)?;
        writeln!(
            out,
            "{}",
            paint(
                DIM,
                format!("previously {}; {looked_at} checked, {embedded} embedded", done.from)
            )
        )
    })?;
    Ok(())
}

/// Reindexes, and sleeps whenever the provider's quota is used up.
fn reindex(engine: &Engine, bar: &ProgressBar) -> Result<ReindexReport, Error> {
    let (mut done_before, mut embedded_before) = (0, 0);
    loop {
        let (mut done, mut embedded) = (0, 0);
        let reindexed = engine.reindex(&mut |state| {
            (done, embedded) = (state.done, state.embedded);
            bar.set_position(done_before + done);
        });
        let wait_ms = match reindexed {
            Ok(it) => {
                return Ok(ReindexReport {
                    done: done_before + it.done,
                    embedded: embedded_before + it.embedded,
                    ..it
                });
            }
            Err(Error::Provider(ProviderError {
                advice: RetryAdvice::Throttled(wait_ms), ..
            })) => wait_ms,
            Err(error) => return Err(error),
        };
        (done_before, embedded_before) = (done_before + done, embedded_before + embedded);
        std::thread::sleep(Duration::from_millis(wait_ms));
    }
}

/// The number of texts to embed.
fn item_count(engine: &Engine) -> Result<u64, CliError> {
    let stats = engine.stats()?;
    let nodes: u64 =
        engine.tree_stats(None)?.levels.iter().map(|level| u64::from(level.nodes)).sum();
    Ok(u64::from(stats.totals.messages) + u64::from(stats.totals.tool_calls) + nodes)
}
