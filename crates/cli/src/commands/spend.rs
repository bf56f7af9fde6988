//! Prints model spending for `status` and `stats`.

use std::io::{self, Write};

use treering_engine::Engine;

use super::output::{BAD, DIM, pad, paint, print_text};
use treering_server::views::{ModelView, SpendView};

pub(super) fn print(out: &mut dyn Write, spend: &SpendView) -> io::Result<()> {
    if spend.tenant.calls > 0 {
        writeln!(out, "spent on this conversation: {}", spend.conversation.words)?;
        writeln!(out, "spent today: {}", spend.today.words)?;
        writeln!(out, "spent in total: {}", spend.tenant.words)?;
    }
    match &spend.cap_reached {
        None => Ok(()),
        Some(reached_cap) => {
            let then = "summaries use the extractive fallback and nothing is embedded; raise the \
                        cap or wait, then run `treering update` to catch up";
            print_text(out, "", &format!("{} {reached_cap}: {then}", paint(BAD, "✗")))
        }
    }
}

pub(super) fn print_models(
    out: &mut dyn Write,
    models: &[ModelView],
    engine: &Engine,
) -> io::Result<()> {
    if models.is_empty() {
        return Ok(());
    }
    let date = &engine.spending().prices.date;
    writeln!(out, "\n{}", paint(DIM, format!("spent by model, at prices as of {date}")))?;
    let width = models.iter().map(|view| view.model.chars().count()).max().unwrap_or(0);
    models
        .iter()
        .try_for_each(|view| writeln!(out, "{}  {}", pad(&view.model, width), view.spent.words))
}
