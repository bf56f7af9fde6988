//! Settings of contexts.

use confique::Config;
use serde::Deserialize;
use treering_core::packing::Section;

/// What is handed to a model.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ContextSettings {
    /// The most tokens that a context may have.
    #[config(env = "TREERING_CONTEXT_BUDGET", default = 8000)]
    pub budget: u32,

    /// How many of them are kept for the latest messages, as they were said; half of the
    /// context at the most.
    #[config(env = "TREERING_CONTEXT_RECENT", default = 2000)]
    pub recent: u32,

    /// What goes into a context: `cut`, `enriched`, `tiered`, `frontier`, `code-review`,
    /// `documentation`, or a profile of your own.
    #[config(env = "TREERING_CONTEXT_PROFILE", default = "cut")]
    pub profile: String,
}

/// A profile of one's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSettings {
    /// What it takes, in the order it is told.
    pub sections: Vec<Section>,
}
