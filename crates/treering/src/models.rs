//! Creates remote models by the name of their provider. API keys come from the environment,
//! never from a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use treering_core::quota::Quota;
use treering_core::{
    ChatModel, Embedder, NodeContent, Policy, ProviderError, Strategy, Summarizer, SummaryRequest,
    prompt,
};
use treering_providers::Extractive;

use crate::{Error, Result};

/// The name of the built-in summarizer.
pub const EXTRACTIVE: &str = "extractive";

/// Options for the summarizer.
#[derive(Debug, Clone, PartialEq)]
pub struct SummarizeOptions {
    /// `extractive`, or the name of a provider.
    pub provider: String,
    /// The provider's model.
    pub model: String,
    /// The sampling temperature.
    pub temperature: f32,
    /// The folder of prompts that replace the built-in ones, relative to the memory's folder.
    pub prompts: PathBuf,
}

impl Default for SummarizeOptions {
    fn default() -> Self {
        Self {
            provider: EXTRACTIVE.into(),
            model: String::new(),
            temperature: 0.3,
            prompts: "prompts".into(),
        }
    }
}

/// Options for remote providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderOptions {
    /// Whether secrets are removed from requests.
    pub redact: bool,
    /// Maximum time to connect.
    pub connect_timeout: Duration,
    /// The endpoint of each provider, by name.
    pub providers: BTreeMap<&'static str, EndpointOptions>,
}

/// Options for the endpoint of one provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointOptions {
    /// The base URL of the API.
    pub base_url: String,
    /// The environment variable that holds the API key; empty for none.
    pub api_key_env: String,
    /// Maximum duration of a call.
    pub timeout: Duration,
    /// Maximum number of requests per minute; 0 for no limit.
    pub requests_per_minute: u32,
    /// Maximum number of tokens per minute; 0 for no limit.
    pub tokens_per_minute: u32,
}

/// A model of OpenAI with default options and the key in `OPENAI_API_KEY`.
pub fn openai(model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
    Models::new(ProviderOptions::default()).chat("openai", model)
}

/// A model of Anthropic with default options and the key in `ANTHROPIC_API_KEY`.
pub fn anthropic(model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
    Models::new(ProviderOptions::default()).chat("anthropic", model)
}

/// A model of Gemini with default options and the key in `GEMINI_API_KEY`.
pub fn gemini(model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
    Models::new(ProviderOptions::default()).chat("gemini", model)
}

/// A model of an Ollama server on this machine with default options.
pub fn ollama(model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
    Models::new(ProviderOptions::default()).chat("ollama", model)
}

/// A model of an OpenAI-compatible server on this machine with default options.
pub fn compatible(model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
    Models::new(ProviderOptions::default()).chat("compatible", model)
}

/// Every provider: its name, its base URL, and the environment variable with its key.
pub const PROVIDERS: [(&str, &str, &str); 5] = [
    ("openai", "https://api.openai.com/v1", "OPENAI_API_KEY"),
    ("compatible", "http://127.0.0.1:8080/v1", ""),
    ("anthropic", "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
    ("gemini", "https://generativelanguage.googleapis.com/v1beta", "GEMINI_API_KEY"),
    ("ollama", "http://127.0.0.1:11434", ""),
];

impl Default for ProviderOptions {
    fn default() -> Self {
        let provider = |(name, base_url, key): (&'static str, &str, &str)| {
            let option = EndpointOptions {
                base_url: base_url.into(),
                api_key_env: key.into(),
                timeout: Duration::from_secs(120),
                requests_per_minute: 0,
                tokens_per_minute: 0,
            };
            (name, option)
        };
        let providers = PROVIDERS.into_iter().map(provider).collect();
        Self { redact: true, connect_timeout: Duration::from_secs(10), providers }
    }
}

impl ProviderOptions {
    /// The quotas of the providers that have one.
    pub(crate) fn quotas(&self) -> BTreeMap<String, Quota> {
        let limit = |per_minute: u32| Some(per_minute).filter(|per_minute| *per_minute > 0);
        let quotas = self.providers.iter().map(|(name, option)| {
            let quota = Quota {
                requests_per_minute: limit(option.requests_per_minute),
                tokens_per_minute: limit(option.tokens_per_minute),
            };
            ((*name).to_owned(), quota)
        });
        quotas.filter(|(_, quota)| *quota != Quota::default()).collect()
    }
}

/// Creates the configured summarizer. Sets the versions of custom prompts in the policy.
pub(crate) fn summarizer(
    home: &Path,
    options: &SummarizeOptions,
    models: &Models,
    policy: &mut Policy,
) -> Result<Arc<dyn Summarizer>> {
    if options.provider == EXTRACTIVE {
        return Ok(Arc::new(Extractive));
    }
    let chat = models.chat(&options.provider, &options.model).map_err(Error::Provider)?;
    let prompts = match own_prompts(&home.join(&options.prompts)) {
        Ok(prompts) => prompts,
        // A broken prompt must not prevent storing: the fallback summarizes and reports the
        // error.
        Err(error) => {
            return Ok(Arc::new(UnavailableSummarizer { name: chat.name().to_owned(), error }));
        }
    };
    policy.prompts =
        prompts.iter().map(|(strategy, text)| (*strategy, prompt::version_of(text))).collect();
    model_summarizer(chat, options.temperature, prompts).map_err(Error::Provider)
}

/// A summarizer that fails every request, because its prompts cannot be read.
struct UnavailableSummarizer {
    name: String,
    error: ProviderError,
}

impl Summarizer for UnavailableSummarizer {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn summarize(&self, _: &SummaryRequest) -> ProviderResult<NodeContent> {
        Err(self.error.clone())
    }
}

/// Reads the custom prompts in a folder, which are files named after strategies.
pub fn own_prompts(folder: &Path) -> ProviderResult<BTreeMap<Strategy, String>> {
    let mut prompts = BTreeMap::new();
    for strategy in Strategy::ALL {
        let path = folder.join(format!("{strategy}.md"));
        match std::fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => drop(prompts.insert(strategy, text)),
            Ok(_) => {
                return Err(ProviderError::permanent(format!(
                    "the prompt {} is empty",
                    path.display()
                )));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(ProviderError::permanent(format!(
                    "cannot read {}: {error}",
                    path.display()
                )));
            }
        }
    }
    Ok(prompts)
}

/// The result of creating or calling a model.
pub type ProviderResult<T> = std::result::Result<T, ProviderError>;

/// Refuses an unknown provider.
fn check_provider(name: &str) -> ProviderResult<()> {
    match PROVIDERS.iter().any(|(other, ..)| *other == name) {
        true => Ok(()),
        false => {
            let names = PROVIDERS.map(|(name, ..)| name).join(", ");
            Err(ProviderError::permanent(format!(
                "there is no provider {name:?}; choose one of {names}"
            )))
        }
    }
}

#[cfg(feature = "remote")]
pub use remote::Models;
#[cfg(feature = "remote")]
use remote::model_summarizer;

#[cfg(feature = "remote")]
mod remote {
    //! Models for builds with the feature `remote`.

    use std::sync::{Mutex, PoisonError};

    use treering_providers::ModelSummarizer;
    use treering_providers::http::{Client, Credential, Endpoint};
    use treering_providers::remote::{self, ApiProtocol};

    use super::*;

    /// Creates models. All models of one provider share its connections.
    pub struct Models {
        options: ProviderOptions,
        clients: Mutex<BTreeMap<String, Client>>,
    }

    impl Models {
        /// Models of these providers.
        #[must_use]
        pub const fn new(options: ProviderOptions) -> Self {
            Self { options, clients: Mutex::new(BTreeMap::new()) }
        }

        /// Creates a chat model.
        pub fn chat(&self, provider: &str, model: &str) -> ProviderResult<Arc<dyn ChatModel>> {
            let client = self.client(provider, model)?;
            Ok(remote::chat(wire(provider), client, model))
        }

        /// Creates an embedding model, with `dims` dimensions if given.
        pub fn embedder(
            &self,
            provider: &str,
            model: &str,
            dims: Option<usize>,
        ) -> ProviderResult<Arc<dyn Embedder>> {
            let client = self.client(provider, model)?;
            remote::embedder(wire(provider), client, model, dims)
        }

        fn client(&self, provider: &str, model: &str) -> ProviderResult<Client> {
            check_provider(provider)?;
            if model.is_empty() {
                return Err(ProviderError::permanent(format!("no model is set for {provider}")));
            }
            let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(client) = clients.get(provider) {
                return Ok(client.clone());
            }
            let client = Client::new(self.endpoint(provider)?);
            clients.insert(provider.to_owned(), client.clone());
            Ok(client)
        }

        fn endpoint(&self, provider: &str) -> ProviderResult<Endpoint> {
            let option = self.options.providers.get(provider);
            let option = option
                .ok_or_else(|| ProviderError::permanent(format!("{provider} is not configured")))?;
            let variable = Some(option.api_key_env.clone()).filter(|variable| !variable.is_empty());
            let key = variable
                .as_ref()
                .and_then(|name| std::env::var(name).ok())
                .filter(|key| !key.is_empty());
            Ok(Endpoint {
                missing_key_variable: variable.filter(|_| key.is_none()),
                key: key.map(Credential::new),
                connect_timeout: self.options.connect_timeout,
                timeout: option.timeout,
                redact: self.options.redact,
                ..Endpoint::new(provider, &option.base_url)
            })
        }
    }

    fn wire(provider: &str) -> ApiProtocol {
        match provider {
            "openai" => ApiProtocol::OpenAi,
            "anthropic" => ApiProtocol::Anthropic,
            "gemini" => ApiProtocol::Gemini,
            "ollama" => ApiProtocol::Ollama,
            _ => ApiProtocol::Compatible,
        }
    }

    pub(super) fn model_summarizer(
        chat: Arc<dyn ChatModel>,
        temperature: f32,
        prompts: BTreeMap<Strategy, String>,
    ) -> ProviderResult<Arc<dyn Summarizer>> {
        Ok(Arc::new(ModelSummarizer::new(chat, temperature, prompts)))
    }
}

#[cfg(not(feature = "remote"))]
pub use local::Models;
#[cfg(not(feature = "remote"))]
use local::model_summarizer;

#[cfg(not(feature = "remote"))]
mod local {
    //! Models for builds without the feature `remote`: every request for one fails.

    use super::*;

    /// Creates no models.
    pub struct Models;

    impl Models {
        /// Ignores the options.
        #[must_use]
        pub fn new(_: ProviderOptions) -> Self {
            Self
        }

        /// Always fails.
        pub fn chat(&self, provider: &str, _: &str) -> ProviderResult<Arc<dyn ChatModel>> {
            check_provider(provider).and_then(|()| Err(remote_disabled()))
        }

        /// Always fails.
        pub fn embedder(
            &self,
            provider: &str,
            _: &str,
            _: Option<usize>,
        ) -> ProviderResult<Arc<dyn Embedder>> {
            check_provider(provider).and_then(|()| Err(remote_disabled()))
        }
    }

    pub(super) fn model_summarizer(
        _: Arc<dyn ChatModel>,
        _: f32,
        _: BTreeMap<Strategy, String>,
    ) -> ProviderResult<Arc<dyn Summarizer>> {
        Err(remote_disabled())
    }

    fn remote_disabled() -> ProviderError {
        ProviderError::permanent(
            "this program was built without remote models; install it with \
             `cargo install --path crates/cli`",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_provider_error_lists_the_known_ones() {
        let models = Models::new(ProviderOptions::default());
        let error = models.chat("opeanai", "m").err().unwrap().to_string();
        for word in ["opeanai", "openai", "compatible", "anthropic", "gemini", "ollama"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn custom_prompts_set_the_prompt_version() {
        let home = tempfile::tempdir().unwrap();
        let options = SummarizeOptions {
            provider: "compatible".into(),
            model: "m".into(),
            ..SummarizeOptions::default()
        };
        let models = Models::new(ProviderOptions::default());
        let summarizer =
            |policy: &mut Policy| super::summarizer(home.path(), &options, &models, policy);
        if cfg!(not(feature = "remote")) {
            assert!(
                summarizer(&mut Policy::default())
                    .err()
                    .unwrap()
                    .to_string()
                    .contains("built without")
            );
            return;
        }
        let mut policy = Policy::default();
        assert_eq!(summarizer(&mut policy).unwrap().name(), "compatible/m");
        assert_eq!(policy, Policy::default());
        std::fs::create_dir(home.path().join("prompts")).unwrap();
        std::fs::write(home.path().join("prompts/detailed.md"), "Tell it in verse.").unwrap();
        summarizer(&mut policy).unwrap();
        let first = treering_core::Level::FIRST;
        assert_eq!(policy.style(first).prompt, prompt::version_of("Tell it in verse."));
        assert_eq!(policy.style(first.above()).prompt, prompt::version(Strategy::Thematic));
        std::fs::write(home.path().join("prompts/concise.md"), " \n").unwrap();
        let refused = super::own_prompts(&home.path().join("prompts")).unwrap_err().to_string();
        assert!(refused.contains("concise.md is empty"), "{refused}");
        assert_eq!(
            summarizer(&mut policy).unwrap().name(),
            "compatible/m",
            "a broken prompt does not prevent storing"
        );
    }
}
