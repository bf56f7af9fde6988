//! What was spent on models.

use serde::Serialize;
use treering_core::ConversationId;
use treering_core::ports::SpendFilter;
use treering_core::spend::SpendAmount;
use treering_engine::{Engine, Result, SpendStatus};

/// What calls came to.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SpentView {
    /// Calls.
    pub calls: i64,
    /// Tokens that models read.
    pub tokens_in: i64,
    /// Tokens that models wrote.
    pub tokens_out: i64,
    /// What it cost in US dollars, as far as prices are known.
    pub dollars: f64,
    /// Calls to models whose price is not known.
    pub calls_of_unknown_price: i64,
    /// All of it in words.
    #[serde(skip)]
    pub words: String,
}

impl From<SpendAmount> for SpentView {
    fn from(spent: SpendAmount) -> Self {
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

/// What was spent for a conversation, today and in all.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SpendView {
    /// For the conversation.
    pub conversation: SpentView,
    /// Today, for every conversation.
    pub today: SpentView,
    /// Ever, for every conversation.
    pub tenant: SpentView,
    /// The cap that is reached.
    pub cap_reached: Option<String>,
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

/// What one model has cost.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ModelView {
    /// Its provider and name.
    pub model: String,
    /// What calls to it came to.
    #[serde(flatten)]
    pub spent: SpentView,
}

impl ModelView {
    /// What each model has cost, for a conversation or in all.
    pub fn all(memory: &Engine, conversation: Option<ConversationId>) -> Result<Vec<Self>> {
        let spent = memory.spend_by_model(&SpendFilter { conversation, day: None })?;
        Ok(spent.into_iter().map(|(model, spent)| Self { model, spent: spent.into() }).collect())
    }
}
