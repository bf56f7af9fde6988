//! Settings of search.

use confique::Config;

use super::is_positive;

/// Search.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct SearchSettings {
    /// Maximum memory for the search indexes of all tenants together, in MiB. Beyond it, the
    /// least recently used index is evicted, and rebuilt when its tenant searches again.
    #[config(env = "TREERING_SEARCH_MEMORY", default = 512, validate = is_positive)]
    pub memory: u32,

    /// Embed summaries, so that search finds them by meaning too. With `false`, it finds them by
    /// their words alone. After turning it on again, run `treering reindex`.
    #[config(env = "TREERING_SEARCH_EMBED_SUMMARIES", default = true)]
    pub embed_summaries: bool,
}

impl From<&SearchSettings> for treering_engine::SearchOptions {
    fn from(settings: &SearchSettings) -> Self {
        let memory_bytes = (settings.memory as usize) << 20;
        Self { memory_bytes, embed_nodes: settings.embed_summaries }
    }
}
