//! Settings of summarizers, chat models and remote providers. API keys are never settings; a
//! setting names the environment variable that holds one.

use std::path::PathBuf;
use std::time::Duration;

use confique::Config;

use super::is_positive;
use crate::models::{EXTRACTIVE, EndpointOptions, PROVIDERS, ProviderOptions, SummarizeOptions};

/// Summaries.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct SummarizeSettings {
    /// The summarizer: `extractive` (built in, needs no model), or a provider: `openai`,
    /// `compatible` (llama.cpp, vLLM, LM Studio and other OpenAI-compatible servers),
    /// `anthropic`, `gemini` or `ollama`. If a model returns no usable summary, `extractive` is
    /// the fallback, and `treering update` asks the model again.
    #[config(env = "TREERING_SUMMARIZE_PROVIDER", default = "extractive", validate = is_summarizer)]
    pub provider: String,

    /// The provider's model, such as `gpt-6-luna`.
    #[config(env = "TREERING_SUMMARIZE_MODEL", default = "")]
    pub model: String,

    /// Sampling temperature of the model, from 0 to 2.
    #[config(env = "TREERING_SUMMARIZE_TEMPERATURE", default = 0.3, validate = is_temperature)]
    pub temperature: f64,

    /// The folder of your own prompts, relative to the home folder. Each file replaces the
    /// built-in prompt of the same name: `detailed.md`, `concise.md`, `thematic.md`,
    /// `chronological.md`, `executive.md` or `technical.md`.
    #[config(env = "TREERING_SUMMARIZE_PROMPTS", default = "prompts")]
    pub prompts: PathBuf,
}

impl SummarizeSettings {
    /// Refuses a provider without a model.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.provider != EXTRACTIVE && self.model.trim().is_empty() {
            false => Ok(()),
            true => Err(format!(
                "summarize.provider is {:?}, so summarize.model must name one of its models",
                self.provider
            )),
        }
    }
}

impl From<&SummarizeSettings> for SummarizeOptions {
    fn from(settings: &SummarizeSettings) -> Self {
        Self {
            provider: settings.provider.clone(),
            model: settings.model.clone(),
            temperature: settings.temperature as f32,
            prompts: settings.prompts.clone(),
        }
    }
}

/// The model for `treering chat`.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ChatSettings {
    /// The model for `treering chat`: a provider and its model, such as `ollama/llama3.2`,
    /// `openai/gpt-6-luna`, `anthropic/claude-haiku-5-5`, `gemini/gemini-3.5-flash-lite` or
    /// `compatible/MODEL`. If empty, the model that writes the summaries is used.
    #[config(env = "TREERING_CHAT_MODEL", default = "", validate = is_chat_model)]
    pub model: String,

    /// Instructions that the model receives before everything else.
    #[config(env = "TREERING_CHAT_INSTRUCTIONS", default = "")]
    pub instructions: String,

    /// Sampling temperature of the model, from 0 to 2.
    #[config(env = "TREERING_CHAT_TEMPERATURE", default = 0.7, validate = is_temperature)]
    pub temperature: f64,

    /// Maximum number of tokens in an answer; 0 for the provider's maximum.
    #[config(env = "TREERING_CHAT_MAX_TOKENS", default = 0)]
    pub max_tokens: u32,
}

impl ChatSettings {
    /// The provider and the model to chat with, if one is configured.
    pub fn model<'a>(&'a self, summarize: &'a SummarizeSettings) -> Option<(&'a str, &'a str)> {
        match self.model.split_once('/') {
            Some(model) => Some(model),
            None if summarize.provider != EXTRACTIVE => {
                Some((&summarize.provider, &summarize.model))
            }
            None => None,
        }
    }
}

/// Providers of remote models.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ProvidersSettings {
    /// Whether to remove secrets (keys, tokens, private keys, passwords) from everything that
    /// is sent to a provider.
    #[config(env = "TREERING_PROVIDERS_REDACT", default = true)]
    pub redact: bool,

    /// Maximum time to connect to a provider, in milliseconds.
    #[config(env = "TREERING_PROVIDERS_CONNECT_TIMEOUT_MS", default = 10000, validate = is_positive)]
    pub connect_timeout_ms: u64,

    /// OpenAI.
    #[config(nested)]
    pub openai: OpenAiSettings,

    /// OpenAI-compatible servers.
    #[config(nested)]
    pub compatible: CompatibleSettings,

    /// Anthropic.
    #[config(nested)]
    pub anthropic: AnthropicSettings,

    /// Google Gemini.
    #[config(nested)]
    pub gemini: GeminiSettings,

    /// Ollama.
    #[config(nested)]
    pub ollama: OllamaSettings,
}

/// Declares the settings of one provider. All providers have the same settings.
macro_rules! provider {
    ($name:ident, $title:literal,
     base_url $url:literal, $url_env:literal;
     api_key_env $key:literal, $key_env:literal;
     timeout_ms $timeout_env:literal;
     requests_per_minute $requests_env:literal;
     tokens_per_minute $tokens_env:literal;) => {
        #[doc = concat!("Connection settings for ", $title, ".")]
        #[derive(Debug, Config)]
        #[config(layer_attr(serde(deny_unknown_fields)))]
        pub struct $name {
            /// The base URL of the API.
            #[config(env = $url_env, default = $url, validate = is_address)]
            pub base_url: String,

            /// The environment variable that holds the API key; empty for none. Keys are never
            /// stored in a file.
            #[config(env = $key_env, default = $key)]
            pub api_key_env: String,

            /// Maximum duration of a call, in milliseconds.
            #[config(env = $timeout_env, default = 120000, validate = is_positive)]
            pub timeout_ms: u64,

            /// Maximum number of requests per minute by all processes that use the store
            /// together; 0 for no limit.
            #[config(env = $requests_env, default = 0)]
            pub requests_per_minute: u32,

            /// Maximum number of tokens sent and received per minute by all processes that use
            /// the store together; 0 for no limit.
            #[config(env = $tokens_env, default = 0)]
            pub tokens_per_minute: u32,
        }

        impl From<&$name> for EndpointOptions {
            fn from(settings: &$name) -> Self {
                Self {
                    base_url: settings.base_url.clone(),
                    api_key_env: settings.api_key_env.clone(),
                    timeout: Duration::from_millis(settings.timeout_ms.max(1)),
                    requests_per_minute: settings.requests_per_minute,
                    tokens_per_minute: settings.tokens_per_minute,
                }
            }
        }
    };
}

provider! {
    OpenAiSettings, "OpenAI",
    base_url "https://api.openai.com/v1", "TREERING_PROVIDERS_OPENAI_BASE_URL";
    api_key_env "OPENAI_API_KEY", "TREERING_PROVIDERS_OPENAI_API_KEY_ENV";
    timeout_ms "TREERING_PROVIDERS_OPENAI_TIMEOUT_MS";
    requests_per_minute "TREERING_PROVIDERS_OPENAI_REQUESTS_PER_MINUTE";
    tokens_per_minute "TREERING_PROVIDERS_OPENAI_TOKENS_PER_MINUTE";
}
provider! {
    CompatibleSettings, "a server with an OpenAI-compatible API",
    base_url "http://127.0.0.1:8080/v1", "TREERING_PROVIDERS_COMPATIBLE_BASE_URL";
    api_key_env "", "TREERING_PROVIDERS_COMPATIBLE_API_KEY_ENV";
    timeout_ms "TREERING_PROVIDERS_COMPATIBLE_TIMEOUT_MS";
    requests_per_minute "TREERING_PROVIDERS_COMPATIBLE_REQUESTS_PER_MINUTE";
    tokens_per_minute "TREERING_PROVIDERS_COMPATIBLE_TOKENS_PER_MINUTE";
}
provider! {
    AnthropicSettings, "Anthropic",
    base_url "https://api.anthropic.com", "TREERING_PROVIDERS_ANTHROPIC_BASE_URL";
    api_key_env "ANTHROPIC_API_KEY", "TREERING_PROVIDERS_ANTHROPIC_API_KEY_ENV";
    timeout_ms "TREERING_PROVIDERS_ANTHROPIC_TIMEOUT_MS";
    requests_per_minute "TREERING_PROVIDERS_ANTHROPIC_REQUESTS_PER_MINUTE";
    tokens_per_minute "TREERING_PROVIDERS_ANTHROPIC_TOKENS_PER_MINUTE";
}
provider! {
    GeminiSettings, "Gemini",
    base_url "https://generativelanguage.googleapis.com/v1beta", "TREERING_PROVIDERS_GEMINI_BASE_URL";
    api_key_env "GEMINI_API_KEY", "TREERING_PROVIDERS_GEMINI_API_KEY_ENV";
    timeout_ms "TREERING_PROVIDERS_GEMINI_TIMEOUT_MS";
    requests_per_minute "TREERING_PROVIDERS_GEMINI_REQUESTS_PER_MINUTE";
    tokens_per_minute "TREERING_PROVIDERS_GEMINI_TOKENS_PER_MINUTE";
}
provider! {
    OllamaSettings, "Ollama",
    base_url "http://127.0.0.1:11434", "TREERING_PROVIDERS_OLLAMA_BASE_URL";
    api_key_env "", "TREERING_PROVIDERS_OLLAMA_API_KEY_ENV";
    timeout_ms "TREERING_PROVIDERS_OLLAMA_TIMEOUT_MS";
    requests_per_minute "TREERING_PROVIDERS_OLLAMA_REQUESTS_PER_MINUTE";
    tokens_per_minute "TREERING_PROVIDERS_OLLAMA_TOKENS_PER_MINUTE";
}

impl From<&ProvidersSettings> for ProviderOptions {
    fn from(settings: &ProvidersSettings) -> Self {
        Self {
            redact: settings.redact,
            connect_timeout: Duration::from_millis(settings.connect_timeout_ms.max(1)),
            providers: [
                ("openai", (&settings.openai).into()),
                ("compatible", (&settings.compatible).into()),
                ("anthropic", (&settings.anthropic).into()),
                ("gemini", (&settings.gemini).into()),
                ("ollama", (&settings.ollama).into()),
            ]
            .into(),
        }
    }
}

fn names() -> String {
    PROVIDERS.map(|(name, ..)| name).join(", ")
}

fn is_summarizer(name: &impl AsRef<str>) -> Result<(), String> {
    let name = name.as_ref();
    match name == EXTRACTIVE || PROVIDERS.iter().any(|(other, ..)| *other == name) {
        true => Ok(()),
        false => Err(format!("{name:?} is not one of {EXTRACTIVE}, {}", names())),
    }
}

/// Accepts the name of a local embedder, or a provider and its model.
pub(super) fn is_embedder(name: &impl AsRef<str>) -> Result<(), String> {
    let name = name.as_ref();
    let is_remote = |(provider, model): (&str, &str)| {
        !model.is_empty()
            && provider != "anthropic"
            && PROVIDERS.iter().any(|(other, ..)| *other == provider)
    };
    match ["bundled", "encoder"].contains(&name) || name.split_once('/').is_some_and(is_remote) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is not bundled, encoder, or PROVIDER/MODEL with one of the providers openai, \
             compatible, gemini, ollama"
        )),
    }
}

/// Accepts a provider and its model, or an empty name.
fn is_chat_model(name: &impl AsRef<str>) -> Result<(), String> {
    let name = name.as_ref();
    let is_model = |(provider, model): (&str, &str)| {
        !model.is_empty() && PROVIDERS.iter().any(|(other, ..)| *other == provider)
    };
    match name.is_empty() || name.split_once('/').is_some_and(is_model) {
        true => Ok(()),
        false => {
            Err(format!("{name:?} is not PROVIDER/MODEL with one of the providers {}", names()))
        }
    }
}

fn is_temperature(temperature: &f64) -> Result<(), String> {
    match (0.0..=2.0).contains(temperature) {
        true => Ok(()),
        false => Err(format!("{temperature} is not between 0 and 2")),
    }
}

fn is_address(url: &impl AsRef<str>) -> Result<(), String> {
    let url = url.as_ref();
    let is_http = url.starts_with("http://") || url.starts_with("https://");
    match is_http && !url.contains(char::is_whitespace) && !url.contains('@') {
        true => Ok(()),
        false => Err(format!(
            "{url:?} is not a URL that begins with http:// or https:// and contains no key"
        )),
    }
}

impl ProvidersSettings {
    /// Refuses an API key in place of the name of its environment variable. A validator in the
    /// declaration would quote the key in its error.
    pub(super) fn check(&self) -> Result<(), String> {
        let variables = [
            ("openai", &self.openai.api_key_env),
            ("compatible", &self.compatible.api_key_env),
            ("anthropic", &self.anthropic.api_key_env),
            ("gemini", &self.gemini.api_key_env),
            ("ollama", &self.ollama.api_key_env),
        ];
        let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        match variables.iter().find(|(_, name)| !name.bytes().all(is_part)) {
            None => Ok(()),
            Some((provider, _)) => Err(format!(
                "providers.{provider}.api_key_env takes the name of an environment variable in capitals, not a key"
            )),
        }
    }
}
