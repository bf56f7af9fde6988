//! Settings of contexts.

use confique::Config;
use serde::Deserialize;
use treering_core::packing::Section;

use super::is_positive;

/// Contexts for a model.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ContextSettings {
    /// Maximum number of tokens in a context.
    #[config(env = "TREERING_CONTEXT_BUDGET", default = 8000, validate = is_positive)]
    pub budget: u32,

    /// Tokens of the budget that are reserved for the latest messages, word for word; at most
    /// half of the context.
    #[config(env = "TREERING_CONTEXT_RECENT", default = 2000)]
    pub recent: u32,

    /// The profile that decides what goes into a context: `cut`, `enriched`, `tiered`,
    /// `frontier`, `semantic`, `code-review`, `documentation`, or one of your own.
    #[config(env = "TREERING_CONTEXT_PROFILE", default = "cut")]
    pub profile: String,
}

/// A user-defined profile.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSettings {
    /// The sections of a context, in order.
    pub sections: Vec<Section>,
}
