//! Settings. Each is declared exactly once: its key, environment variable, default, validation
//! and documentation all come from that declaration.

pub mod capture;
pub mod context;
mod docs;
pub mod providers;
pub mod recall;
pub mod retention;
mod search;
pub mod serve;
pub mod spend;
pub mod store;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use confique::{Config, Layer};
use treering_core::embedding_text::MIN_CHARS;
use treering_core::packing::Profile;
use treering_core::text::did_you_mean;
use treering_core::{Assignment, Invalid, Policy, Preset, RetryPolicy, TenantId, redact};
use treering_providers::{ENCODER_NAME, StaticEmbedder};

use crate::tokenizers::TokenizerOption;
use docs::visit_settings;

pub use capture::CaptureSettings;
pub use context::{ContextSettings, ProfileSettings};
pub use providers::{ChatSettings, ProvidersSettings, SummarizeSettings};
pub use recall::RecallSettings;
pub use retention::RetentionSettings;
pub use search::SearchSettings;
pub use serve::ServeSettings;
pub use spend::SpendSettings;
pub use store::{StoreSettings, SyncSetting};

/// The name of the settings file in the home folder.
pub const FILE: &str = "treering.toml";

/// All settings of Treering.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct Settings {
    /// The tenant whose conversations are read and written. Tenants are isolated from each
    /// other.
    #[config(env = "TREERING_TENANT", default = "default", validate = is_tenant)]
    pub tenant: String,

    /// Storage.
    #[config(nested)]
    pub store: StoreSettings,

    /// Token counting.
    #[config(nested)]
    pub tokens: TokenSettings,

    /// Embeddings for search.
    #[config(nested)]
    pub embed: EmbedSettings,

    /// Summaries.
    #[config(nested)]
    pub summarize: SummarizeSettings,

    /// The model for `treering chat`.
    #[config(nested)]
    pub chat: ChatSettings,

    /// Providers of remote models.
    #[config(nested)]
    pub providers: ProvidersSettings,

    /// Spending caps for remote models.
    #[config(nested)]
    pub spend: SpendSettings,

    /// The tree of summaries.
    #[config(nested)]
    pub tree: TreeSettings,

    /// Background jobs.
    #[config(nested)]
    pub work: WorkSettings,

    /// Capture of conversations.
    #[config(nested)]
    pub capture: CaptureSettings,

    /// Search.
    #[config(nested)]
    pub search: SearchSettings,

    /// Contexts for a model.
    #[config(nested)]
    pub context: ContextSettings,

    /// Masking, and the contexts that agents get without asking.
    #[config(nested)]
    pub recall: RecallSettings,
    /// Forgetting by age.
    #[config(nested)]
    pub retention: RetentionSettings,

    /// The server, for `treering serve`.
    #[config(nested)]
    pub serve: ServeSettings,

    /// Your own profiles. Each lists the sections of a context as `[[profiles.mine.sections]]`
    /// with `take = "recent"`, `"level"`, `"frontier"`, `"cut"`, `"recall"`, `"nodes"`, `"search"`
    /// or `"unsummarized"`. The guide to contexts explains the other keys of a section.
    #[config(default = {})]
    pub profiles: BTreeMap<String, ProfileSettings>,
}

/// Token counting.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct TokenSettings {
    /// The tokenizer that counts the tokens of new messages and contexts: `o200k` (GPT-4o and
    /// later), `cl100k` (GPT-4), or, for any other model, the path of its `tokenizer.json`,
    /// relative to the home folder (requires a build with `--features tokenizers`).
    #[config(env = "TREERING_TOKENS_TOKENIZER", default = "o200k", validate = is_tokenizer)]
    pub tokenizer: String,
}

/// Embeddings for search.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct EmbedSettings {
    /// The embedder: `bundled` (static vectors in the program, microseconds per turn),
    /// `encoder` (all-MiniLM-L6-v2 on this machine, tens of milliseconds per turn; requires a
    /// build with `--features encoder`), or a provider and its model, such as
    /// `openai/text-embedding-3-small`, `gemini/gemini-embedding-2`, `ollama/nomic-embed-text`
    /// or `compatible/MODEL`.
    #[config(env = "TREERING_EMBED_MODEL", default = "bundled", validate = providers::is_embedder)]
    pub model: String,

    /// Number of dimensions to request from a provider's model; 0 for its default. A different
    /// number counts as a different model.
    #[config(env = "TREERING_EMBED_DIMENSIONS", default = 0)]
    pub dimensions: u32,

    /// The folder of the encoder, which `tools/encoder/make` creates; relative to the home
    /// folder.
    #[config(env = "TREERING_EMBED_ENCODER_PATH", default = "models/all-MiniLM-L6-v2")]
    pub encoder_path: PathBuf,

    /// Maximum length of a text to embed, in characters, at least 10. A longer text is cut there
    /// and ends with `...`. After a change, `treering verify --repair` embeds the texts again
    /// that are cut elsewhere now.
    #[config(env = "TREERING_EMBED_MAX_CHARS", default = 4000, validate = is_embeddable_length)]
    pub max_chars: u32,

    /// Whether a model other than `bundled` also embeds every turn as one text. Search does not
    /// use these vectors; `treering show --embeddings` and other programs do. They about double
    /// the tokens to embed. Without it, a turn is embedded when its vector is requested.
    #[config(env = "TREERING_EMBED_TURNS", default = false)]
    pub turns: bool,
}

impl From<&EmbedSettings> for crate::EmbedOptions {
    fn from(settings: &EmbedSettings) -> Self {
        let model = match settings.model.as_str() {
            "bundled" => StaticEmbedder::NAME.to_owned(),
            "encoder" => ENCODER_NAME.to_owned(),
            other => other.to_owned(),
        };
        let dimensions =
            usize::try_from(settings.dimensions).ok().filter(|dimensions| *dimensions > 0);
        let texts = treering_engine::EmbedTextOptions {
            max_chars: usize::try_from(settings.max_chars).unwrap_or(usize::MAX),
            turns: settings.turns,
        };
        Self { model, dimensions, encoder_path: settings.encoder_path.clone(), texts }
    }
}

/// The tree of summaries.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct TreeSettings {
    /// The policy that decides when windows and groups seal: `window`, `triggers`, `turns`,
    /// `chars` or `per-turn`.
    #[config(env = "TREERING_TREE_PRESET", default = "window", validate = is_preset)]
    pub preset: String,

    /// Policy parameters that differ from the preset, such as
    /// `["window_chars=4000", "length@2=0.2"]`; separated by commas in the environment. All
    /// parameters are listed below. `treering policy` sets them for one conversation.
    #[config(env = "TREERING_TREE_PARAMETERS", default = [], parse_env = confique::env::parse::list_by_comma,
        validate = are_parameters)]
    pub parameters: Vec<String>,
}

impl TreeSettings {
    /// The policy that results from the preset and the parameters.
    pub fn policy(&self) -> Result<Policy, Invalid> {
        let preset: Preset = self.preset.parse()?;
        let assignments =
            self.parameters.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        Policy::from(preset).with(&assignments)
    }
}

/// Background jobs.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct WorkSettings {
    /// Maximum number of jobs that run at the same time.
    #[config(env = "TREERING_WORK_CONCURRENCY", default = 3, validate = is_positive)]
    pub concurrency: u16,

    /// Pause after each job of a remote provider, in milliseconds.
    #[config(env = "TREERING_WORK_BATCH_DELAY_MS", default = 1500)]
    pub batch_delay_ms: u64,

    /// Maximum number of retries after an error that a retry may fix.
    #[config(env = "TREERING_WORK_RETRIES", default = 3)]
    pub retries: u32,

    /// Delay before the first retry of a failed job, in milliseconds. It doubles with each
    /// further failure.
    #[config(env = "TREERING_WORK_RETRY_DELAY_MS", default = 30000)]
    pub retry_delay_ms: u64,

    /// Maximum time that the next context waits for the critical jobs of its conversation, in
    /// milliseconds.
    #[config(env = "TREERING_WORK_GATE_TIMEOUT_MS", default = 120000)]
    pub gate_timeout_ms: u64,

    /// Maximum time that a search waits for a remote model to embed the query, in milliseconds.
    /// After a timeout, the search uses the words of the query alone, and a circuit breaker
    /// skips the model for 15 seconds, then 30, up to 5 minutes.
    #[config(env = "TREERING_WORK_QUERY_TIMEOUT_MS", default = 2000)]
    pub query_timeout_ms: u64,
}

impl From<&WorkSettings> for treering_engine::WorkOptions {
    fn from(settings: &WorkSettings) -> Self {
        Self {
            concurrency: usize::from(settings.concurrency),
            batch_delay_ms: settings.batch_delay_ms,
            retry: RetryPolicy {
                retries: settings.retries,
                base_delay_ms: settings.retry_delay_ms,
                ..RetryPolicy::default()
            },
            gate_timeout_ms: settings.gate_timeout_ms,
            query_timeout_ms: settings.query_timeout_ms,
        }
    }
}

/// Refuses 0 where it would switch off what the setting only limits.
fn is_positive<Number: Default + PartialOrd>(number: &Number) -> Result<(), String> {
    match *number > Number::default() {
        true => Ok(()),
        false => Err("must be at least 1".into()),
    }
}

fn is_tokenizer(name: &impl AsRef<str>) -> Result<(), String> {
    name.as_ref().parse::<TokenizerOption>().map(drop)
}

fn is_tenant(name: &impl AsRef<str>) -> Result<(), String> {
    TenantId::new(name.as_ref()).map(drop).map_err(|error| error.to_string())
}

fn is_embeddable_length(chars: &u32) -> Result<(), String> {
    match usize::try_from(*chars) {
        Ok(chars) if chars < MIN_CHARS => Err(format!("must be at least {MIN_CHARS}")),
        _ => Ok(()),
    }
}

fn is_preset(name: &impl AsRef<str>) -> Result<(), String> {
    name.as_ref().parse::<Preset>().map(drop).map_err(|error| error.to_string())
}

fn are_parameters(parameters: &impl AsRef<[String]>) -> Result<(), String> {
    let checked =
        parameters.as_ref().iter().try_for_each(|text| text.parse::<Assignment>().map(drop));
    checked.map_err(|error| error.to_string())
}

/// The source of an effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// The settings file.
    File(PathBuf),
    /// An environment variable.
    Environment(&'static str),
    /// A command-line flag.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) => write!(f, "{name}"),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A setting and its effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    /// The key, e.g. `store.sync`.
    pub key: String,
    /// The value, as it would be written in the file.
    pub value: String,
    /// The source of the value.
    pub origin: Origin,
}

/// Settings merged from all sources, with the source of each value.
#[derive(Debug)]
pub struct LoadedSettings {
    /// The settings.
    pub settings: Settings,
    /// The effective value and source of each setting.
    pub effective: Vec<EffectiveSetting>,
}

/// The reason why settings could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingsError(String);

type SettingsLayer = <Settings as Config>::Layer;

impl Settings {
    /// The profile with this name, user-defined or built in.
    pub fn profile(&self, name: &str) -> Result<Profile, Invalid> {
        if let Some(custom) = self.profiles.get(name) {
            let profile = Profile { name: name.to_owned(), sections: custom.sections.clone() };
            return profile.check().map(|()| profile);
        }
        Profile::named(name, self.context.recent).ok_or_else(|| {
            let custom = self.profiles.keys().map(String::as_str);
            let known: Vec<&str> = Profile::NAMES.into_iter().chain(custom).collect();
            Invalid::new(
                format!("profile {name:?}"),
                format!("a profile is one of {}", known.join(", ")),
            )
        })
    }

    /// Loads the settings. Flags (`key=value`) override the environment, which overrides the
    /// file in `home`, which overrides the defaults.
    pub fn load(home: &Path, flags: &[(String, String)]) -> Result<LoadedSettings, SettingsError> {
        let path = home.join(FILE);
        let file_text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(SettingsError(format!("cannot read {}: {error}", path.display())));
            }
        };
        let file_error = |location: &str| {
            let location = location.to_owned();
            move |error: &dyn std::fmt::Display| {
                let error = error.to_string();
                // The error may quote a line of the file that contains a key.
                SettingsError(format!("{location}: {}", redact(error.trim_end()).0))
            }
        };
        let location = path.display().to_string();
        let file_values: toml::Table =
            file_text.parse().map_err(|error| file_error(&location)(&error))?;
        let file: SettingsLayer =
            toml::from_str(&file_text).map_err(|error| file_error(&location)(&error))?;
        let flag_values = values_of(flags)?;
        // Parse flags as TOML text, like the file: another deserializer would be compiled for
        // every setting.
        let mut flagged = SettingsLayer::empty();
        for (key, _) in flags {
            let value = flag_values.get(key).map(ToString::to_string).unwrap_or_default();
            let layer: SettingsLayer = toml::from_str(&format!("{key} = {value}"))
                .map_err(|error| file_error(&format!("--set {key}"))(&error.message()))?;
            flagged = layer.with_fallback(flagged);
        }
        let environment =
            SettingsLayer::from_env().map_err(|error| file_error("environment")(&error))?;
        let layers = flagged.with_fallback(environment).with_fallback(file);
        let settings = Self::from_layer(layers.with_fallback(SettingsLayer::default_values()))
            .map_err(|error| file_error("settings")(&error))?;
        let names = settings.profiles.keys().chain([&settings.context.profile]);
        for name in names {
            settings.profile(name).map_err(|error| file_error("settings")(&error))?;
        }
        settings
            .providers
            .check()
            .and_then(|()| settings.summarize.check())
            .map_err(SettingsError)?;

        let mut in_force = Vec::new();
        visit_settings(&Self::META, "", &mut |key, _, env, default| {
            let variable = env.and_then(|name| std::env::var(name).ok().map(|value| (name, value)));
            let (value, origin) = if let Some(value) = flag_values.get(key) {
                (display_value(value), Origin::Flag)
            } else if let Some((name, value)) = variable {
                (value, Origin::Environment(name))
            } else if let Some(value) = lookup(&file_values, key) {
                (value, Origin::File(path.clone()))
            } else {
                (default.unwrap_or_default(), Origin::Default)
            };
            in_force.push(EffectiveSetting { key: key.to_owned(), value, origin });
        });
        Ok(LoadedSettings { settings, effective: in_force })
    }
}

/// Parses the value of each flag as TOML, or takes it as plain text if it is not TOML.
fn values_of(flags: &[(String, String)]) -> Result<BTreeMap<String, toml::Value>, SettingsError> {
    let mut known = Vec::new();
    visit_settings(&Settings::META, "", &mut |key, _, _, _| known.push(key.to_owned()));
    let mut values = BTreeMap::new();
    for (key, value) in flags {
        if !known.contains(key) {
            let suggestion = did_you_mean(&nearest(key, &known));
            return Err(SettingsError(format!(
                "there is no setting {key:?}{suggestion} (`treering config` lists them all)"
            )));
        }
        let parsed = format!("v = {value}").parse::<toml::Table>().ok();
        let parsed = parsed.and_then(|mut table| table.remove("v"));
        values.insert(key.clone(), parsed.unwrap_or_else(|| toml::Value::String(value.clone())));
    }
    Ok(values)
}

/// Up to three settings with the most similar names. The word may omit leading sections of the
/// key.
fn nearest<'a>(word: &str, known: &'a [String]) -> Vec<&'a str> {
    const ALIKE: f64 = 0.7;
    let suffixes = |key: &'a str| {
        std::iter::successors(Some(key), |end| end.split_once('.').map(|(_, rest)| rest))
    };
    let likeness = |key: &'a String| {
        suffixes(key)
            .map(|end| strsim::normalized_damerau_levenshtein(word, end))
            .fold(0.0, f64::max)
    };
    let best = known.iter().map(likeness).fold(ALIKE, f64::max);
    known.iter().filter(|key| likeness(key) >= best).map(String::as_str).take(3).collect()
}

fn lookup(table: &toml::Table, key: &str) -> Option<String> {
    let mut parts = key.split('.');
    let mut value = table.get(parts.next()?)?;
    for part in parts {
        value = value.get(part)?;
    }
    Some(display_value(value))
}

fn display_value(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, flags: &[(&str, &str)]) -> Result<LoadedSettings, SettingsError> {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(FILE), file).unwrap();
        let flags: Vec<_> = flags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Settings::load(home.path(), &flags)
    }

    #[test]
    fn limits_of_zero_are_refused() {
        for key in [
            "work.concurrency",
            "search.memory",
            "context.budget",
            "serve.body_bytes",
            "serve.timeout_ms",
            "serve.header_timeout_ms",
            "serve.write_timeout_ms",
            "serve.connections",
            "serve.connections_per_address",
            "serve.concurrent_requests",
            "providers.connect_timeout_ms",
            "providers.openai.timeout_ms",
        ] {
            let error = load("", &[(key, "0")]).unwrap_err().to_string();
            assert!(error.contains(key.rsplit('.').next().unwrap()), "{key}: {error}");
        }
    }

    #[test]
    fn flags_override_the_file_and_are_the_origin() {
        let loaded =
            load("tenant = \"a\"\n[store]\nsync = \"normal\"", &[("tenant", "b")]).unwrap();
        assert_eq!(loaded.settings.tenant, "b");
        assert_eq!(loaded.settings.store.sync, SyncSetting::Normal);
        let origins: Vec<_> =
            loaded.effective.iter().map(|s| (s.key.as_str(), s.value.as_str())).collect();
        assert_eq!(origins[..3], [("tenant", "b"), ("store.sync", "normal"), ("store.url", "")]);
        assert_eq!(loaded.effective[0].origin, Origin::Flag);
        assert!(matches!(loaded.effective[1].origin, Origin::File(_)));
        assert_eq!(loaded.effective[2].origin, Origin::Default);
    }

    #[test]
    fn errors_name_the_setting_and_its_source() {
        let check = |file: &str, flags: &[(&str, &str)], words: &[&str]| {
            let error = load(file, flags).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{error}");
            }
        };
        check("[store]\nsync = \"often\"", &[], &["treering.toml", "often", "full"]);
        check("colour = 1", &[], &["treering.toml", "colour"]);
        check("tenant = \"A B\"", &[], &["tenant", "a-z"]);
        check(
            "",
            &[("context.buget", "9")],
            &["\"context.buget\"; did you mean context.budget?", "treering config"],
        );
        check(
            "",
            &[("model", "x")],
            &["did you mean embed.model or summarize.model or chat.model?"],
        );
        check("", &[("openai.base_url", "x")], &["did you mean providers.openai.base_url?"]);
        check("", &[("x", "9")], &["there is no setting \"x\" (`treering config` lists"]);
        check("tenant = ", &[], &["treering.toml"]);
        check("[tree]\npreset = \"best\"", &[], &["best", "per-turn"]);
        check("[tree]\nparameters = [\"windowchars=1\"]", &[], &["windowchars", "window_chars"]);
        check("[embed]\nmodel = \"best\"", &[], &["best", "bundled", "encoder"]);
        check("[context]\nprofile = \"best\"", &[], &["best", "code-review"]);
        check("[profiles.mine]\nsections = []", &[], &["mine", "no sections", "recent"]);
        check("[[profiles.mine.sections]]\ntake = \"all\"", &[], &["all", "frontier"]);
        check("[[profiles.mine.sections]]\ntake = \"cut\"\nlevels = 1", &[], &["levels", "level"]);
        check("[[profiles.mine.sections]]\ntake = \"level\"", &[], &["mine", "which"]);
        check("[embed]\nmax_chars = 9", &[], &["max_chars", "at least 10"]);
        check("[embed]\nmodel = \"openai/\"", &[], &["openai/", "PROVIDER/MODEL"]);
        check("[embed]\nmodel = \"anthropic/claude\"", &[], &["anthropic/claude", "gemini"]);
        check("[summarize]\nprovider = \"opeanai\"", &[], &["opeanai", "extractive", "openai"]);
        check("[summarize]\nprovider = \"ollama\"", &[], &["ollama", "summarize.model"]);
        check("[summarize]\ntemperature = 3", &[], &["temperature"]);
        check("[providers.openai]\nbase_url = \"api.openai.com\"", &[], &["base_url", "https://"]);
        check("[providers.openai]\napi_key = \"x\"", &[], &["api_key"]);
        check("[spend]\nday_dollars = -1.0", &[], &["-1", "dollars"]);
        check("[spend.prices]\n\"gpt-6\" = { input = 1 }", &[], &["gpt-6", "PROVIDER/MODEL"]);
        check("[spend.prices]\n\"a/b\" = { input = -1 }", &[], &["a/b", "0 or more"]);
        check("[serve]\naddress = \"localhost\"", &[], &["address", "127.0.0.1:7411"]);
        check("[serve]\norigins = [\"app.example.org\"]", &[], &["app.example.org", "https://"]);
        check("", &[("store.synk", "x")], &["store.synk", "store.sync"]);
        check("", &[("store.sync", "x")], &["--set", "full"]);
        check("[store]\nurl = \"mysql://host\"", &[], &["mysql", "neo4j"]);
        check("[store]\nurl = \"host:7687\"", &[], &["neo4j://127.0.0.1:7687"]);
    }

    #[test]
    fn custom_profiles_are_found_by_name() {
        let file = "[context]\nprofile = \"mine\"\n[[profiles.mine.sections]]\ntake = \"recent\"\nmessages = 4";
        let loaded = load(file, &[]).unwrap();
        assert_eq!(loaded.settings.profile("mine").unwrap().sections[0].messages, Some(4));
        let error = loaded.settings.profile("yours").unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains("cut"), "{error}");
    }

    #[test]
    fn an_api_key_in_a_setting_is_refused_and_not_printed() {
        let error = load("[providers.gemini]\napi_key_env = \"AIza-private\"", &[])
            .unwrap_err()
            .to_string();
        assert!(error.contains("environment variable") && !error.contains("AIza"), "{error}");
        let key = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x";
        let error =
            load(&format!("[providers.openai]\napi_key = {key:?}"), &[]).unwrap_err().to_string();
        assert!(error.contains("api_key") && !error.contains(key), "{error}");
    }

    #[test]
    fn a_password_in_the_address_of_the_store_is_refused_and_not_printed() {
        let url = "neo4j://neo4j:hunter2hunter2@db.example.org";
        for error in [
            load(&format!("[store]\nurl = {url:?}"), &[]).unwrap_err(),
            load("", &[("store.url", url)]).unwrap_err(),
        ] {
            let error = error.to_string();
            assert!(error.contains("TREERING_STORE_PASSWORD"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn provider_settings_match_the_library_defaults() {
        let settings = load("", &[]).unwrap().settings;
        assert_eq!(
            crate::ProviderOptions::from(&settings.providers),
            crate::ProviderOptions::default()
        );
        assert_eq!(
            crate::SummarizeOptions::from(&settings.summarize),
            crate::SummarizeOptions::default()
        );
        assert_eq!(crate::EmbedOptions::from(&settings.embed), crate::EmbedOptions::default());
        assert_eq!(crate::SpendOptions::from(&settings.spend), crate::SpendOptions::default());
    }

    #[test]
    fn caps_and_prices_are_read() {
        let file = "[spend]\nday_dollars = 0.5\nconversation_tokens = 9\n[spend.prices]\n\"a/b\" = { input = 2 }";
        let spend = crate::SpendOptions::from(&load(file, &[]).unwrap().settings.spend);
        assert_eq!(spend.caps.day.money.unwrap().dollars(), 0.5);
        assert_eq!((spend.caps.conversation.tokens, spend.caps.tenant.tokens), (Some(9), None));
        assert_eq!((spend.prices["a/b"].input, spend.prices["a/b"].output), (2.0, 0.0));
    }

    #[test]
    fn the_template_is_valid_and_changes_nothing() {
        let template = Settings::template();
        let loaded = load(&template, &[]).unwrap();
        assert!(loaded.effective.iter().all(|setting| setting.origin == Origin::Default));

        // Every default in the template can be uncommented.
        let shown =
            |line: &str| line.starts_with('#') && !line.starts_with("# ") && line.contains(" = ");
        let uncommented: Vec<&str> =
            template.lines().map(|line| if shown(line) { &line[1..] } else { line }).collect();
        let set = load(&uncommented.join("\n"), &[]).unwrap();
        for (default, set) in loaded.effective.iter().zip(&set.effective) {
            assert_eq!((&default.key, &default.value), (&set.key, &set.value));
        }
        assert!(
            set.effective.iter().filter(|setting| setting.origin != Origin::Default).count() > 40
        );
    }
}
