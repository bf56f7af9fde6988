//! `treering stats`

use std::io::{self, Write};

use serde::Serialize;
use treering_core::ports::LevelTotals;
use treering_engine::{Memory, TreeStats};

use super::Failure;
use super::output::{BOLD, DIM, Output, count, grouped, pad, paint, size};
use super::spend::{self, ModelView};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Only the tree of this conversation
    conversation: Option<String>,
}

#[derive(Serialize)]
struct View {
    tenant: String,
    conversations: u32,
    turns: u32,
    messages: u32,
    tool_calls: u32,
    chars: u64,
    tokens: u64,
    tokenizer: &'static str,
    store: StoreView,
    tree: TreeView,
    spend: Vec<ModelView>,
}

#[derive(Serialize)]
struct ConversationView {
    #[serde(flatten)]
    tree: TreeView,
    spend: Vec<ModelView>,
}

#[derive(Serialize)]
struct TreeView {
    levels: Vec<LevelView>,
    /// 1 − highest nodes / messages they cover, in tokens.
    ratio: f64,
    tokens_covered: u64,
    tokens_kept: u64,
    tokens_saved: u64,
    dollars_saved_per_context: f64,
    jobs_queued: u32,
    jobs_failed: u32,
    dirty_ratio: f64,
}

#[derive(Serialize)]
struct LevelView {
    level: u8,
    nodes: u32,
    dirty: u32,
    stand_ins: u32,
    uncovered: u32,
    chars: u64,
    tokens: u64,
    source_chars: u64,
    /// 1 − summary / what it was written from, in characters.
    ratio: f64,
    generation_ms_mean: f64,
    generation_ms_max: u64,
    grounded_mean: f64,
    retained_mean: f64,
}

/// What a million tokens of input cost, for what the tree saves: a price many models have.
const DOLLARS_PER_MILLION_TOKENS: f64 = 3.0;

fn level_view(level: &LevelTotals) -> LevelView {
    let nodes = f64::from(level.nodes.max(1));
    LevelView {
        level: level.level,
        nodes: level.nodes,
        dirty: level.dirty,
        stand_ins: level.stand_ins,
        uncovered: level.uncovered,
        chars: level.chars,
        tokens: level.tokens,
        source_chars: level.source_chars,
        ratio: 1.0 - level.chars as f64 / level.source_chars.max(1) as f64,
        generation_ms_mean: level.took_ms as f64 / nodes,
        generation_ms_max: level.slowest_ms,
        grounded_mean: level.grounded / nodes,
        retained_mean: level.retained / nodes,
    }
}

fn tree_view(stats: &TreeStats) -> TreeView {
    let (covered, kept) = stats.tokens();
    let saved = covered.saturating_sub(kept);
    TreeView {
        levels: stats.levels.iter().map(level_view).collect(),
        ratio: stats.ratio(),
        tokens_covered: covered,
        tokens_kept: kept,
        tokens_saved: saved,
        dollars_saved_per_context: saved as f64 * DOLLARS_PER_MILLION_TOKENS / 1e6,
        jobs_queued: stats.queued,
        jobs_failed: stats.dead,
        dirty_ratio: stats.dirty_ratio(),
    }
}

fn print_tree(out: &mut dyn Write, tree: &TreeView) -> io::Result<()> {
    if tree.levels.is_empty() {
        let hint = "no summaries yet: conversations are short, or `treering work` has jobs to run";
        return writeln!(out, "\n{}", paint(DIM, hint));
    }
    let head = ["level", "nodes", "chars", "from", "smaller by", "grounded", "retained", "ms each", "dirty"];
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
        "\nThe highest nodes say in {} tokens what took {}: {} saved ({:.1} %), ${:.2} in each context that would \
         hold it all at ${DOLLARS_PER_MILLION_TOKENS} a million.",
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
    writeln!(out, "{} waiting{failed}", count(tree.jobs_queued.into(), "job"))
}

#[derive(Serialize)]
struct StoreView {
    kind: &'static str,
    location: String,
    schema_version: u32,
    bytes: u64,
}

pub(super) fn run(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    if let Some(reference) = &args.conversation {
        let conversation = memory.find(reference)?;
        let view = ConversationView {
            tree: tree_view(&memory.tree_stats(Some(conversation.id))?),
            spend: spend::by_model(memory, Some(conversation.id))?,
        };
        output.show(&view, |out| {
            super::show::head(out, &conversation, &conversation.threads)?;
            print_tree(out, &view.tree)?;
            spend::print_models(out, &view.spend, memory)
        })?;
        return Ok(());
    }
    let stats = memory.stats()?;
    let view = View {
        tenant: memory.tenant().to_string(),
        conversations: stats.conversations,
        turns: stats.totals.turns,
        messages: stats.totals.messages,
        tool_calls: stats.totals.tool_calls,
        chars: stats.totals.chars,
        tokens: stats.totals.tokens,
        tokenizer: stats.tokenizer,
        store: StoreView {
            kind: stats.store.kind,
            location: stats.store.location,
            schema_version: stats.store.schema_version,
            bytes: stats.store.bytes,
        },
        tree: tree_view(&memory.tree_stats(None)?),
        spend: spend::by_model(memory, None)?,
    };
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
            writeln!(out, "{} {} {}", pad(name, 14), paint(BOLD, format!("{value:>12}")), paint(DIM, note))?;
        }
        print_tree(out, &view.tree)?;
        spend::print_models(out, &view.spend, memory)
    })?;
    Ok(())
}
