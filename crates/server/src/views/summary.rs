//! Views of summaries on demand, threads and policies.

use serde::Serialize;
use treering_core::{NodeContent, ParameterInForce};
use treering_engine::TurnSummary;

use super::ThreadView;

/// The summary of a turn. It is not stored.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct TurnSummaryView {
    /// The summary.
    #[schema(value_type = Object)]
    pub content: NodeContent,
    /// The model or fallback that wrote it.
    pub generated_by: String,
    /// Characters of the turn's messages.
    pub source_chars: u64,
    /// Characters in the overview.
    pub chars: u32,
    /// Tokens in the overview.
    pub tokens: u32,
    /// Share of the summary's facts found in the turn.
    pub grounded: f32,
    /// Share of the turn's facts kept in the summary.
    pub retained: f32,
}

impl TurnSummaryView {
    /// Builds the view of a summary.
    #[must_use]
    pub fn of(summary: TurnSummary) -> Self {
        Self {
            content: summary.content,
            generated_by: summary.by,
            source_chars: summary.source_chars,
            chars: summary.chars,
            tokens: summary.tokens,
            grounded: summary.fidelity.grounded,
            retained: summary.fidelity.retained,
        }
    }
}

/// The threads of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ThreadList {
    /// The threads, in order of creation.
    pub threads: Vec<ThreadView>,
}

/// The policy of a conversation.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct PolicyView {
    /// The conversation's id.
    pub conversation: String,
    /// The conversation's slug.
    pub slug: String,
    /// The parameters that the conversation sets itself.
    pub parameters: Vec<String>,
    /// Every parameter in force.
    pub in_force: Vec<ParameterView>,
}

/// A policy parameter in force.
#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct ParameterView {
    /// The name, with a level where the levels differ.
    pub name: String,
    /// The value.
    pub value: String,
    /// `conversation`, the settings file, an environment variable, `flag`, or a preset and where it
    /// was chosen.
    pub origin: String,
}

impl ParameterView {
    /// Builds the view of a parameter.
    #[must_use]
    pub fn of(parameter: &ParameterInForce<String>) -> Self {
        Self {
            name: parameter.name.clone(),
            value: parameter.value.clone(),
            origin: parameter.origin.to_string(),
        }
    }
}
