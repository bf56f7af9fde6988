//! `treering stats`

use serde::Serialize;
use treering_engine::Memory;

use super::Failure;
use super::output::{BOLD, DIM, Output, grouped, pad, paint, size};

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
}

#[derive(Serialize)]
struct StoreView {
    kind: &'static str,
    location: String,
    schema_version: u32,
    bytes: u64,
}

pub(super) fn run(memory: &Memory, output: &Output) -> Result<(), Failure> {
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
        Ok(())
    })?;
    Ok(())
}
