//! `treering stats`: counts messages, tokens, nodes and spending.

use std::io::{self, Write};

use anstyle::Style;

use super::output::{
    BOLD, Column, DIM, Output, TextTable, count, grouped, pad, paint, print_dim, print_text, size,
};
use super::{CliError, spend};
use treering_server::service::Service;
use treering_server::views::{DOLLARS_PER_MILLION_TOKENS, StatsView, TreeStatsView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering stats
  treering stats tidewatch --json")]
pub(super) struct Args {
    /// Show only this conversation
    conversation: Option<String>,
}

fn print_tree(out: &mut dyn Write, tree: &TreeStatsView) -> io::Result<()> {
    writeln!(out)?;
    if tree.levels.is_empty() {
        return print_dim(out, "", "no summaries yet; if jobs are queued, run `treering work`");
    }
    let mut table = TextTable::new(&[
        Column::Right("level"),
        Column::Right("nodes"),
        Column::Right("tokens"),
        Column::Right("source"),
        Column::Right("removed"),
        Column::Right("grounded"),
        Column::Right("retained"),
        Column::Right("ms/node"),
        Column::Right("dirty"),
    ]);
    for level in &tree.levels {
        let cells = [
            level.level.to_string(),
            grouped(level.nodes.into()),
            grouped(level.tokens),
            grouped(level.source_tokens),
            format!("{:.0}%", level.ratio * 100.0),
            format!("{:.0}%", level.grounded_mean * 100.0),
            format!("{:.0}%", level.retained_mean * 100.0),
            format!("{:.1}", level.generation_ms_mean),
            level.dirty.to_string(),
        ];
        table.row(cells.map(|text| (Style::new(), text)));
    }
    table.print(out)?;
    let saved = format!(
        "The tree represents {} tokens of messages in {} ({:.0}% less). A context with all messages \
         would cost ${:.2} more, at ${DOLLARS_PER_MILLION_TOKENS} per million tokens.",
        grouped(tree.tokens_covered),
        grouped(tree.tokens_kept),
        tree.ratio * 100.0,
        tree.dollars_saved_per_context
    );
    writeln!(out)?;
    print_text(out, "", &saved)?;
    let failed = match tree.jobs_failed {
        0 => String::new(),
        failed => format!(", {failed} failed (`treering jobs`)"),
    };
    writeln!(out, "{} queued{failed}", count(tree.jobs_queued.into(), "job"))
}

/// The time until stored turns could be recalled, if the log has any.
fn print_recall_lag(out: &mut dyn Write, view: &StatsView) -> io::Result<()> {
    let lag = &view.times.recall_lag;
    if lag.count == 0 {
        return Ok(());
    }
    let turns = count(lag.count, "turn");
    let (mean, max) = (lag.mean_ms, lag.max_ms);
    writeln!(out, "from storing to recall: {mean:.0} ms on average, at most {max:.0} ms ({turns})")
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    if let Some(reference) = &args.conversation {
        let conversation = engine.find(reference)?;
        let view = StatsView::of_conversation(engine, &conversation)?;
        output.show(&view, |out| {
            super::show::head(out, &conversation, &conversation.threads)?;
            print_tree(out, &view.tree)?;
            print_recall_lag(out, &view)?;
            spend::print_models(out, &view.spend, engine)
        })?;
        return Ok(());
    }
    let view = StatsView::of(engine)?;
    output.show(&view, |out| {
        let rows = [
            ("conversations", grouped(view.conversations.into()), String::new()),
            ("turns", grouped(view.turns.into()), String::new()),
            ("messages", grouped(view.messages.into()), String::new()),
            ("tool calls", grouped(view.tool_calls.into()), String::new()),
            ("characters", grouped(view.chars), String::new()),
            ("tokens", grouped(view.tokens), format!("by {}", view.tokenizer)),
            (
                "on disk",
                view.store.bytes.map_or_else(String::new, size),
                view.store.location.clone(),
            ),
        ];
        for (name, value, note) in rows {
            writeln!(
                out,
                "{} {} {}",
                pad(name, 14),
                paint(BOLD, format!("{value:>12}")),
                paint(DIM, note)
            )?;
        }
        print_tree(out, &view.tree)?;
        print_recall_lag(out, &view)?;
        spend::print_models(out, &view.spend, engine)
    })?;
    Ok(())
}
