//! Settings of the models beyond this program.

use std::path::PathBuf;
use std::time::Duration;

use confique::Config;

use crate::models::{EXTRACTIVE, EndpointOptions, PROVIDERS, ProviderOptions, SummarizeOptions};

/// Who writes the summaries.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct SummarizeSettings {
    /// Who writes the summaries: `extractive` (in the program, needs no model), or a provider: `openai`,
    /// `compatible` (llama.cpp, vLLM, LM Studio and others that speak like OpenAI), `anthropic`, `gemini` or
    /// `ollama`. Where a model writes nothing that can be used, `extractive` stands in, and `treering update`
    /// asks the model again.
    #[config(env = "TREERING_SUMMARIZE_PROVIDER", default = "extractive", validate = is_summarizer)]
    pub provider: String,

    /// The provider's model, such as `gpt-6-luna`.
    #[config(env = "TREERING_SUMMARIZE_MODEL", default = "")]
    pub model: String,

    /// How freely the model chooses its words, from 0 to 2.
    #[config(env = "TREERING_SUMMARIZE_TEMPERATURE", default = 0.3, validate = is_temperature)]
    pub temperature: f64,

    /// The folder of prompts that take the place of the built-in ones, seen from the home folder:
    /// `detailed.md`, `concise.md`, `thematic.md`, `chronological.md`, `executive.md`,
    /// `technical.md`, as many as one likes.
    #[config(env = "TREERING_SUMMARIZE_PROMPTS", default = "prompts")]
    pub prompts: PathBuf,
}

impl SummarizeSettings {
    /// Refuses a provider without a model.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.provider != EXTRACTIVE && self.model.trim().is_empty() {
            false => Ok(()),
            true => Err(format!(
                "summarize.provider is {:?}, so summarize.model has to name one of its models",
                self.provider
            )),
        }
    }
}

impl From<SummarizeSettings> for SummarizeOptions {
    fn from(settings: SummarizeSettings) -> Self {
        let SummarizeSettings { provider, model, temperature, prompts } = settings;
        Self { provider, model, temperature: temperature as f32, prompts }
    }
}

/// Who talks in `treering chat`.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ChatSettings {
    /// The model that `treering chat` talks with: a provider and its model, such as `ollama/llama3.2`,
    /// `openai/gpt-6-luna`, `anthropic/claude-haiku-5-5`, `gemini/gemini-3.5-flash-lite` or `compatible/MODEL`.
    /// Where it is empty, the model that writes the summaries.
    #[config(env = "TREERING_CHAT_MODEL", default = "", validate = is_chat_model)]
    pub model: String,

    /// What the model is told before everything else.
    #[config(env = "TREERING_CHAT_INSTRUCTIONS", default = "")]
    pub instructions: String,

    /// How freely the model chooses its words, from 0 to 2.
    #[config(env = "TREERING_CHAT_TEMPERATURE", default = 0.7, validate = is_temperature)]
    pub temperature: f64,

    /// The most tokens of an answer; 0 for as many as the provider allows.
    #[config(env = "TREERING_CHAT_MAX_TOKENS", default = 0)]
    pub max_tokens: u32,
}

impl ChatSettings {
    /// The provider and the model to talk with; none where none is set.
    pub fn model<'a>(&'a self, summarize: &'a SummarizeSettings) -> Option<(&'a str, &'a str)> {
        match self.model.split_once('/') {
            Some(named) => Some(named),
            None if summarize.provider != EXTRACTIVE => {
                Some((&summarize.provider, &summarize.model))
            }
            None => None,
        }
    }
}

/// Models beyond this program.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ProvidersSettings {
    /// Whether secrets (keys, tokens, private keys, passwords) are taken out of everything that is sent to a
    /// provider.
    #[config(env = "TREERING_PROVIDERS_REDACT", default = true)]
    pub redact: bool,

    /// How long a connection to a provider may take, in milliseconds.
    #[config(env = "TREERING_PROVIDERS_CONNECT_TIMEOUT_MS", default = 10000)]
    pub connect_timeout_ms: u64,

    /// OpenAI.
    #[config(nested)]
    pub openai: OpenAiSettings,

    /// Servers that speak like OpenAI.
    #[config(nested)]
    pub compatible: CompatibleSettings,

    /// Anthropic.
    #[config(nested)]
    pub anthropic: AnthropicSettings,

    /// Google's Gemini.
    #[config(nested)]
    pub gemini: GeminiSettings,

    /// Ollama.
    #[config(nested)]
    pub ollama: OllamaSettings,
}

/// The settings that every provider has, each under its own names.
macro_rules! provider {
    ($name:ident, $title:literal,
     base_url $url:literal, $url_env:literal;
     api_key_env $key:literal, $key_env:literal;
     timeout_ms $timeout_env:literal;
     requests_per_minute $requests_env:literal;
     tokens_per_minute $tokens_env:literal;) => {
        #[doc = concat!("How ", $title, " is reached.")]
        #[derive(Debug, Config)]
        #[config(layer_attr(serde(deny_unknown_fields)))]
        pub struct $name {
            /// The address that paths are added to.
            #[config(env = $url_env, default = $url, validate = is_address)]
            pub base_url: String,

            /// The environment variable that has the key; none where it is empty. Keys are never in a file.
            #[config(env = $key_env, default = $key)]
            pub api_key_env: String,

            /// How long a call may take, in milliseconds.
            #[config(env = $timeout_env, default = 120000)]
            pub timeout_ms: u64,

            /// How many requests are made in a minute at the most, by all processes on the store together; 0 for as many as
            /// there are.
            #[config(env = $requests_env, default = 0)]
            pub requests_per_minute: u32,

            /// How many tokens are sent and received in a minute at the most, by all processes on the store together; 0 for
            /// as many as there are.
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
    CompatibleSettings, "a server that speaks like OpenAI",
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
        false => Err(format!("{name:?} is none of {EXTRACTIVE}, {}", names())),
    }
}

/// Whether it names an embedder: one in the program, or a provider and its model.
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
            "{name:?} is neither bundled nor encoder nor PROVIDER/MODEL with a provider out of openai, \
             compatible, gemini, ollama"
        )),
    }
}

/// Whether it names a provider and its model, or nothing.
fn is_chat_model(name: &impl AsRef<str>) -> Result<(), String> {
    let name = name.as_ref();
    let is_model = |(provider, model): (&str, &str)| {
        !model.is_empty() && PROVIDERS.iter().any(|(other, ..)| *other == provider)
    };
    match name.is_empty() || name.split_once('/').is_some_and(is_model) {
        true => Ok(()),
        false => Err(format!("{name:?} is not PROVIDER/MODEL with a provider out of {}", names())),
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
            "{url:?} is no address that begins with http:// or https:// and has no key in it"
        )),
    }
}

impl ProvidersSettings {
    /// Refuses keys where the names of their variables should be. This is not left to the reading of the file,
    /// whose errors repeat what they refuse.
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
