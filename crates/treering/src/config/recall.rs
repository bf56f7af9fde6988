//! Settings of recall.

use confique::Config;
use treering_engine::{RecallOptions, normalize_cwd};

/// Masking, and the contexts that agents get without asking.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct RecallSettings {
    /// Give an agent a context of its project when a session starts or resumes, and of the session
    /// itself after its context was compacted.
    #[config(env = "TREERING_RECALL_AT_START", default = true)]
    pub at_start: bool,

    /// Give an agent the messages that answer each prompt, if there are any. It costs tokens for
    /// every prompt.
    #[config(env = "TREERING_RECALL_ON_PROMPT", default = false)]
    pub on_prompt: bool,

    /// Maximum number of tokens in a context that recall gives an agent.
    #[config(env = "TREERING_RECALL_BUDGET", default = 1500)]
    pub budget: u32,

    /// Maximum time that an agent waits for a context from recall, in milliseconds. After that it
    /// gets none.
    #[config(env = "TREERING_RECALL_TIMEOUT_MS", default = 1000)]
    pub timeout_ms: u64,

    /// Folders in which recall gives agents no context, with everything below them; separated by
    /// commas in the environment.
    #[config(env = "TREERING_RECALL_OFF_IN", default = [],
        parse_env = confique::env::parse::list_by_comma)]
    pub off_in: Vec<String>,

    /// Mask secrets such as API keys, tokens and passwords in search results and contexts, by the
    /// same rules as for models. The stored messages keep them; `treering forget --secrets` erases
    /// them.
    #[config(env = "TREERING_RECALL_MASK_SECRETS", default = true)]
    pub mask_secrets: bool,
}

impl From<&RecallSettings> for RecallOptions {
    fn from(settings: &RecallSettings) -> Self {
        Self { mask_secrets: settings.mask_secrets }
    }
}

impl RecallSettings {
    /// Whether recall is on, for prompts or for the starts of sessions.
    #[must_use]
    pub const fn is_on(&self, for_prompts: bool) -> bool {
        if for_prompts { self.on_prompt } else { self.at_start }
    }

    /// Whether recall is off in a normalized folder.
    #[must_use]
    pub fn is_off_in(&self, folder: &str) -> bool {
        let is_below = |off: &String| {
            let off = normalize_cwd(off);
            std::path::Path::new(folder).starts_with(&off)
        };
        self.off_in.iter().any(is_below)
    }
}
