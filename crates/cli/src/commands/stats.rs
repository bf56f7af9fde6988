//! `treering stats`: counts messages, tokens, nodes and spending.

use std::io::{self, Write};

use treering_engine::Engine;

use super::CliError;
use super::output::{BOLD, DIM, Output, count, grouped, pad, paint, size};
use super::spend;
use treering_server::views::{
    ConversationStatsView, DOLLARS_PER_MILLION_TOKENS, StatsView, TreeStatsView,
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Show only this conversation
    conversation: Option<String>,
}

fn print_tree(out: &mut dyn Write, tree: &TreeStatsView) -> io::Result<()> {
    if tree.levels.is_empty() {
        let hint = "no summaries yet; if jobs are queued, run `treering work`";
        return writeln!(out, "\n{}", paint(DIM, hint));
    }
    let head =
        ["level", "nodes", "chars", "from", "removed", "grounded", "retained", "ms each", "dirty"];
    writeln!(out)?;
    let row = |cells: [String; 9]| {
        let padded = cells.iter().map(|cell| format!("{cell:>11}"));
        padded.collect::<String>()
    };
    writeln!(out, "{}", paint(DIM, row(head.map(str::to_owned))))?;
    for level in &tree.levels {
        let cells = [
            level.level.to_string(),
            grouped(level.nodes.into()),
            grouped(level.chars),
            grouped(level.source_chars),
            format!("{:.0} %", level.ratio * 100.0),
            format!("{:.0} %", level.grounded_mean * 100.0),
            format!("{:.0} %", level.retained_mean * 100.0),
            format!("{:.1}", level.generation_ms_mean),
            level.dirty.to_string(),
        ];
        writeln!(out, "{}", row(cells))?;
    }
    writeln!(
        out,
        "\nThe top-level nodes cover in {} tokens what took {}: {} saved ({:.1} %), or ${:.2} for \
         each context that would include everything, at \
         ${DOLLARS_PER_MILLION_TOKENS} per million.",
        paint(BOLD, grouped(tree.tokens_kept)),
        grouped(tree.tokens_covered),
        grouped(tree.tokens_saved),
        tree.ratio * 100.0,
        tree.dollars_saved_per_context
    )?;
    let failed = match tree.jobs_failed {
        0 => String::new(),
        failed => format!(", {failed} failed (`treering jobs`)"),
    };
    writeln!(out, "{} queued{failed}", count(tree.jobs_queued.into(), "job"))
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    if let Some(reference) = &args.conversation {
        let conversation = memory.find(reference)?;
        let view = ConversationStatsView::of(memory, conversation.id)?;
        output.show(&view, |out| {
            super::show::head(out, &conversation, &conversation.threads)?;
            print_tree(out, &view.tree)?;
            spend::print_models(out, &view.spend, memory)
        })?;
        return Ok(());
    }
    let view = StatsView::of(memory)?;
    output.show(&view, |out| {
        let rows = [
            ("conversations", grouped(view.conversations.into()), String::new()),
            ("turns", grouped(view.turns.into()), String::new()),
            ("messages", grouped(view.messages.into()), String::new()),
            ("tool calls", grouped(view.tool_calls.into()), String::new()),
            ("characters", grouped(view.chars), String::new()),
            ("tokens", grouped(view.tokens), format!("by {}", view.tokenizer)),
            ("on disk", size(view.store.bytes), view.store.location.clone()),
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
        spend::print_models(out, &view.spend, memory)
    })?;
    Ok(())
}
