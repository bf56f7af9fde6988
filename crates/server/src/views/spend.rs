//! Views of model usage and cost.

use serde::Serialize;
use treering_core::ConversationId;
use treering_core::ports::SpendFilter;
use treering_core::spend::SpendAmount;
use treering_engine::{Engine, Result, SpendStatus};

/// Usage and cost of model calls.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SpentView {
    /// Number of calls.
    pub calls: i64,
    /// Input tokens.
    pub tokens_in: i64,
    /// Output tokens.
    pub tokens_out: i64,
    /// Cost in US dollars of the calls with a known price.
    pub dollars: f64,
    /// Number of calls without a known price.
    pub calls_of_unknown_price: i64,
    /// A summary in words.
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

/// Usage and cost of a conversation, of today and in total.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct SpendView {
    /// The conversation.
    pub conversation: SpentView,
    /// Today, all conversations.
    pub today: SpentView,
    /// All time, all conversations.
    pub tenant: SpentView,
    /// The spending cap that is reached.
    pub cap_reached: Option<String>,
}

impl From<SpendStatus> for SpendView {
    fn from(status: SpendStatus) -> Self {
        Self {
            conversation: status.account.conversation.into(),
            today: status.account.day.into(),
            tenant: status.account.tenant.into(),
            cap_reached: status.cap_reached.map(|cap| cap.to_string()),
        }
    }
}

/// Usage and cost of one model.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ModelView {
    /// Provider and model name.
    pub model: String,
    /// Usage and cost of its calls.
    #[serde(flatten)]
    pub spent: SpentView,
}

impl ModelView {
    /// Usage and cost per model, for one conversation or all.
    pub fn all(engine: &Engine, conversation: Option<ConversationId>) -> Result<Vec<Self>> {
        let spent = engine.spend_by_model(&SpendFilter { conversation, day: None })?;
        Ok(spent.into_iter().map(|(model, spent)| Self { model, spent: spent.into() }).collect())
    }
}
