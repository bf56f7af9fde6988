//! What was spent, as `status` and `stats` show it.

use std::io::{self, Write};

use serde::Serialize;
use treering_core::ConversationId;
use treering_core::ports::SpendFilter;
use treering_core::spend::Spent;
use treering_engine::{Memory, SpendStatus};

use super::Failure;
use super::output::{BAD, DIM, pad, paint};

#[derive(Serialize)]
pub(super) struct SpentView {
    calls: i64,
    tokens_in: i64,
    tokens_out: i64,
    /// As far as prices are known.
    dollars: f64,
    calls_of_unknown_price: i64,
    #[serde(skip)]
    words: String,
}

impl From<Spent> for SpentView {
    fn from(spent: Spent) -> Self {
        Self {
            calls: spent.calls,
            tokens_in: spent.tokens_in,
            tokens_out: spent.tokens_out,
            dollars: spent.money.dollars(),
            calls_of_unknown_price: spent.unpriced,
            words: spent.to_string(),
        }
    }
}

/// What `status` says.
#[derive(Serialize)]
pub(super) struct SpendView {
    conversation: SpentView,
    today: SpentView,
    tenant: SpentView,
    cap_reached: Option<String>,
}

impl From<SpendStatus> for SpendView {
    fn from(status: SpendStatus) -> Self {
        Self {
            conversation: status.account.conversation.into(),
            today: status.account.day.into(),
            tenant: status.account.tenant.into(),
            cap_reached: status.reached.map(|reached| reached.to_string()),
        }
    }
}

impl SpendView {
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.tenant.calls > 0 {
            writeln!(out, "spent on this conversation: {}", self.conversation.words)?;
            writeln!(out, "spent today: {}; in all: {}", self.today.words, self.tenant.words)?;
        }
        match &self.cap_reached {
            None => Ok(()),
            Some(reached) => {
                let then = "summaries are quoted, not written, and nothing is embedded; after that, \
                            `treering update` makes up for it";
                writeln!(out, "{} {reached}: {then}", paint(BAD, "✗"))
            }
        }
    }
}

/// What one model has cost.
#[derive(Serialize)]
pub(super) struct ModelView {
    model: String,
    #[serde(flatten)]
    spent: SpentView,
}

/// What each model has cost, for a conversation or in all.
pub(super) fn by_model(
    memory: &Memory,
    conversation: Option<ConversationId>,
) -> Result<Vec<ModelView>, Failure> {
    let spent = memory.spend_by_model(&SpendFilter { conversation, day: None })?;
    Ok(spent.into_iter().map(|(model, spent)| ModelView { model, spent: spent.into() }).collect())
}

pub(super) fn print_models(out: &mut dyn Write, models: &[ModelView], memory: &Memory) -> io::Result<()> {
    if models.is_empty() {
        return Ok(());
    }
    let date = &memory.spending().prices.date;
    writeln!(out, "\n{}", paint(DIM, format!("spent on models, at prices of {date}")))?;
    let width = models.iter().map(|view| view.model.chars().count()).max().unwrap_or(0);
    models.iter().try_for_each(|view| writeln!(out, "{}  {}", pad(&view.model, width), view.spent.words))
}
