//! `treering doctor`: checks settings, store, index, models and the agents' hooks. It
//! repairs nothing.

use std::path::Path;

use serde::Serialize;
use treering_core::chat::{ChatMessage, ChatRequest};
use treering_core::ports::JobFilter;
use treering_core::spend::{Metered, Unmetered};
use treering_core::{ChatModel, Embedder, JobState, Meter, ProviderError, RetryAdvice, Role};
use treering_engine::{Engine, Query};

use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint, print_text, size};
use super::{CliError, Global, agents};
use treering::capture::CheckpointFolder;
use treering::config::{FILE, Origin, Settings};
use treering::models::{EXTRACTIVE, own_prompts};
use treering::{EmbeddedStore, Models, ProviderOptions};
use treering_server::agents::{AgentHealth, CodingAgent, Deletion};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering doctor
  treering doctor --offline

Doctor sends each configured model one tiny request, and its cost counts toward your spending.
It sends nothing else over the network, and it repairs nothing.

It also compares the transcripts of connected agents with the store, and says when Claude Code
deletes those that are not stored.")]
pub(super) struct Args {
    /// Skip the checks that call a model
    #[arg(long)]
    offline: bool,
}

#[derive(Serialize)]
struct View {
    healthy: bool,
    checks: Vec<Check>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum CheckState {
    Fine,
    /// It works, but something is left to do.
    Waits,
    Broken,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    state: CheckState,
    found: String,
    /// Advice for the user.
    fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: CheckState::Fine, found: found.into(), fix: None }
    }

    fn waits(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: CheckState::Waits, found: found.into(), fix: Some(fix.into()) }
    }

    fn broken(name: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, state: CheckState::Broken, found: found.into(), fix: Some(fix.into()) }
    }
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let checks = examine(args, global)?;
    let healthy = checks.iter().all(|check| check.state != CheckState::Broken);
    let view = View { healthy, checks };
    output.show(&view, |out| {
        for check in &view.checks {
            let sign = match check.state {
                CheckState::Fine => paint(GOOD, "✓"),
                CheckState::Waits => paint(DIM, "…"),
                CheckState::Broken => paint(BAD, "✗"),
            };
            writeln!(out, "{sign} {}", paint(BOLD, check.name))?;
            print_text(out, "  ", &check.found)?;
            if let Some(fix) = &check.fix {
                print_text(out, "  ", &format!("→ {fix}"))?;
            }
        }
        Ok(())
    })?;
    if healthy { Ok(()) } else { Err(CliError::Reported) }
}

fn examine(args: &Args, global: &Global) -> Result<Vec<Check>, CliError> {
    let home = global.home()?;
    let loaded = match global.load() {
        Ok(loaded) => loaded,
        Err(failure) => {
            let fix = format!(
                "fix {}, the environment variable or the flag; the other checks were skipped",
                home.join(FILE).display()
            );
            return Ok(vec![Check::broken("settings", failure.to_string(), fix)]);
        }
    };
    let set = loaded.effective.iter().filter(|setting| setting.origin != Origin::Default).count();
    let mut checks = vec![Check::ok(
        "settings",
        format!("{} set, all others at their defaults", count(set as u64, "value")),
    )];
    let settings = loaded.settings;
    checks.extend(capture(&home));
    checks.extend(prompts(&home, &settings));
    let configured = ConfiguredModels::of(&settings);
    let engine = store(&home, global, settings, &mut checks)?;
    if !args.offline {
        let meter = engine.as_ref().map(|engine| engine.spend_meter(None));
        checks.extend(
            configured.checks(meter.as_ref().map_or(&Unmetered, |meter| meter as &dyn Meter)),
        );
    }
    if let Some(engine) = &engine {
        checks.push(index(engine, args)?);
        checks.extend(work(engine)?);
        checks.extend(agents::health(global, engine)?.iter().map(agent));
        checks.extend(deletion(&home, engine));
        // Checked last, because metered model calls and the replay of the spool write to the
        // store.
        checks.extend(engine.failure().map(|failure| {
            let fix = failure.hint().unwrap_or_else(|| "check the disk".into());
            Check::broken("writes", failure.to_string(), fix)
        }));
    }
    Ok(checks)
}

/// Whether the hooks of an agent are there and have captured everything.
fn agent(health: &AgentHealth) -> Check {
    let name = "capture";
    let found = format!("{}: {}", health.agent, agents::captured(health));
    if let Some(problem) = health.problems.first() {
        let others = health.problems.iter().skip(1);
        let also = others.map(|other| format!("; {}", other.found)).collect::<String>();
        return Check::broken(name, format!("{found}; {}{also}", problem.found), &problem.fix);
    }
    match health.behind.is_empty() {
        true => Check::ok(name, found),
        false => Check::broken(name, found, agents::catch_up_advice(health)),
    }
}

/// The transcripts that Claude Code will delete although they are not stored.
fn deletion(home: &Path, engine: &Engine) -> Option<Check> {
    let paths = agents::agent_paths().ok()?;
    let checkpoints = CheckpointFolder::new(home, engine.tenant());
    let all = treering_server::agents::transcripts(CodingAgent::ClaudeCode, &paths).len();
    if all == 0 {
        return None;
    }
    let Deletion { days, transcripts, first } =
        treering_server::agents::deletion(&paths, &checkpoints);
    let rule =
        format!("Claude Code deletes transcripts {} after their last change", count(days, "day"));
    Some(match first {
        None => Check::ok("history", format!("{rule}; all {all} are in the memory")),
        Some(first) => {
            let found = format!(
                "{rule}: {transcripts} of {all} are not in the memory, or not completely; the first is deleted on {}",
                first.to_minute()
            );
            let (_, folder) =
                treering_server::agents::transcript_folder(CodingAgent::ClaudeCode, &paths)?;
            let fix = format!(
                "run `treering import {}`, or raise cleanupPeriodDays in {}",
                folder.display(),
                paths.claude().join("settings.json").display()
            );
            Check::waits("history", found, fix)
        }
    })
}

/// Checks whether capture is paused.
fn capture(home: &Path) -> Option<Check> {
    match super::pause::running(home) {
        Ok(None) => None,
        Ok(Some(found)) => {
            let fix = "run `treering resume` to capture again";
            Some(Check::waits("capture", found, fix))
        }
        Err(error) => Some(Check::broken("capture", error.to_string(), "nothing is captured")),
    }
}

/// Checks the user's own prompts, which only a model uses.
fn prompts(home: &Path, settings: &Settings) -> Option<Check> {
    if settings.summarize.provider == EXTRACTIVE {
        return None;
    }
    let folder = home.join(&settings.summarize.prompts);
    match own_prompts(&folder) {
        Ok(prompts) if prompts.is_empty() => None,
        Ok(prompts) => {
            let names: Vec<String> = prompts.keys().map(ToString::to_string).collect();
            Some(Check::ok("prompts", format!("{} in {}", names.join(", "), folder.display())))
        }
        Err(error) => {
            let fix = "fix or delete the file; until then, summaries use the extractive fallback";
            Some(Check::broken("prompts", error.reason, fix.to_owned()))
        }
    }
}

/// Opens and checks the store, unless there is none yet.
fn store(
    home: &Path,
    global: &Global,
    settings: Settings,
    checks: &mut Vec<Check>,
) -> Result<Option<Engine>, CliError> {
    let log = format!("{}-wal", EmbeddedStore::FILE);
    // A WAL without its database is a damaged store, not a new one.
    let is_in_home = !settings.store.options()?.url.is_server();
    if is_in_home && !home.join(EmbeddedStore::FILE).exists() && !home.join(log).exists() {
        let found = format!("none yet in {}; the first turn creates it", home.display());
        checks.push(Check::ok("store", found));
        return Ok(None);
    }
    let engine = match global.open_with(settings) {
        Ok(service) => service.engine().clone(),
        Err(failure) => {
            let fix = failure
                .hint()
                .unwrap_or_else(|| "fix this problem first; the other checks were skipped".into());
            checks.push(Check::broken("store", failure.to_string(), fix));
            return Ok(None);
        }
    };
    let described = engine.stats()?.store;
    let problems = engine.check_store()?;
    checks.push(match problems.first() {
        None => {
            let (version, bytes) = (described.schema_version, size(described.bytes));
            Check::ok(
                "store",
                format!("healthy, schema {version}, {bytes}, {}", described.location),
            )
        }
        Some(first) => {
            let found = format!("{}: {first}", count(problems.len() as u64, "problem"));
            let fix =
                "run `treering verify` for details, or `treering restore` to restore a backup";
            Check::broken("store", found, fix)
        }
    });
    let warnings = engine.warnings().into_iter().filter(|warning| !problems.contains(warning));
    checks.extend(
        warnings.map(|warning| {
            Check::waits("log", warning, "run `treering verify` to check the store")
        }),
    );
    Ok(Some(engine))
}

/// The models that the settings name.
struct ConfiguredModels {
    summarize: Option<(String, String)>,
    /// Set only if chat has a model of its own.
    chat: Option<(String, String)>,
    embed: Option<(String, String)>,
    dimensions: Option<usize>,
    models: Models,
}

impl ConfiguredModels {
    fn of(settings: &Settings) -> Self {
        let summarize = &settings.summarize;
        let embed = treering::EmbedOptions::from(&settings.embed);
        let chat = Some(settings.chat.model.as_str()).filter(|model| !model.is_empty());
        Self {
            chat: chat
                .and_then(|_| settings.chat.model(summarize))
                .map(|(provider, model)| (provider.to_owned(), model.to_owned())),
            summarize: (summarize.provider != EXTRACTIVE)
                .then(|| (summarize.provider.clone(), summarize.model.clone())),
            embed: embed
                .model
                .split_once('/')
                .map(|(provider, model)| (provider.to_owned(), model.to_owned())),
            dimensions: embed.dimensions,
            models: Models::new(ProviderOptions::from(&settings.providers)),
        }
    }

    fn checks(&self, meter: &dyn Meter) -> Vec<Check> {
        let summaries = match &self.summarize {
            None => {
                Check::ok("summaries", "built-in extractive summarizer; no model is configured")
            }
            Some((provider, model)) => {
                let result = self.models.chat(provider, model).and_then(|chat| ask(&*chat, meter));
                verdict("summaries", provider, model, result)
            }
        };
        let embed = match &self.embed {
            None => Check::ok("vectors", "built-in embedder; no model is configured"),
            Some((provider, model)) => {
                let embedder = self.models.embedder(provider, model, self.dimensions);
                verdict(
                    "vectors",
                    provider,
                    model,
                    embedder.and_then(|embedder| embed(&*embedder, meter)),
                )
            }
        };
        let chat = self.chat.as_ref().map(|(provider, model)| {
            let result = self.models.chat(provider, model).and_then(|chat| ask(&*chat, meter));
            verdict("chat", provider, model, result)
        });
        [summaries, embed].into_iter().chain(chat).collect()
    }
}

/// Sends a chat model a one-word question.
fn ask(chat: &dyn ChatModel, meter: &dyn Meter) -> Result<String, ProviderError> {
    let question = ChatMessage::new(Role::User, "Answer with the one word: ready");
    // Reasoning models need room to think before they answer.
    let request = ChatRequest { max_tokens: Some(256), ..ChatRequest::new(vec![question]) };
    let reply = Metered { chat, meter }.complete(&request)?;
    Ok(format!("answers ({} tokens in, {} out)", reply.usage.tokens_in, reply.usage.tokens_out))
}

fn embed(embedder: &dyn Embedder, meter: &dyn Meter) -> Result<String, ProviderError> {
    let vectors = embedder.embed_metered(&["ready"], meter)?;
    Ok(format!("returns vectors with {} dimensions", vectors.first().map_or(0, Vec::len)))
}

fn verdict(
    name: &'static str,
    provider: &str,
    model: &str,
    result: Result<String, ProviderError>,
) -> Check {
    match result {
        Ok(found) => Check::ok(name, format!("{provider}/{model} {found}")),
        Err(error) if error.advice == RetryAdvice::UseFallback => {
            Check::waits(name, error.reason, "raise the cap under `spend`, or wait until tomorrow")
        }
        Err(error) if matches!(error.advice, RetryAdvice::Throttled(_)) => {
            let fix =
                format!("raise the quota under `providers.{provider}`, or try again in a minute");
            Check::waits(name, error.reason, fix)
        }
        Err(error) => {
            let fix = match error.advice {
                RetryAdvice::GiveUp => format!(
                    "check the API key, the model name and providers.{provider}.base_url; until \
                     then, summaries use the extractive fallback and search matches words only"
                ),
                _ => format!(
                    "try again later; if it still fails, check that {provider} is up and that \
                     providers.{provider}.base_url is correct"
                ),
            };
            Check::broken(name, error.reason, fix)
        }
    }
}

/// Checks whether search uses the vectors of the configured embedder.
fn index(engine: &Engine, args: &Args) -> Result<Check, CliError> {
    let model = engine.vector_index()?.model;
    if engine.needs_reindex()? {
        let found = format!("search uses {model}, but {} is configured", engine.embedder_name());
        return Ok(Check::waits(
            "index",
            found,
            "run `treering reindex` to switch; search keeps working meanwhile",
        ));
    }
    if args.offline && !engine.is_local() {
        return Ok(Check::ok("index", format!("search uses {model} (not called)")));
    }
    let query = Query { text: "ready".into(), limit: 1, ..Query::default() };
    Ok(match engine.search(&query)?.lexical_only_reason {
        None => Check::ok("index", format!("search uses words and {model}")),
        Some(reason) => {
            let fix = "until this is fixed, search matches words only; then run `treering work` to \
                       compute the missing vectors";
            Check::waits("index", reason, fix)
        }
    })
}

/// Checks for work that needs the user's attention.
fn work(engine: &Engine) -> Result<Vec<Check>, CliError> {
    let mut checks = Vec::new();
    let jobs = engine.jobs(&JobFilter::all(usize::MAX))?;
    let dead = jobs.iter().filter(|job| job.state == JobState::Dead).count();
    if dead > 0 {
        let found = format!("{} failed permanently", count(dead as u64, "job"));
        checks.push(Check::waits(
            "jobs",
            found,
            "run `treering jobs` to see why, and `treering jobs retry` to retry",
        ));
    }
    let fallback_nodes = engine.fallback_node_count(None)?;
    if fallback_nodes > 0 {
        let found = format!("{} written by the fallback", count(fallback_nodes.into(), "node"));
        let summarizer = engine.summarizer_name();
        let fix = format!("run `treering update` to regenerate them with {summarizer}");
        checks.push(Check::waits("stand-ins", found, fix));
    }
    if let Some(reached_cap) = engine.spend(None)?.cap_reached {
        let fix = "raise the cap under `spend`, or wait; until then, no model is called";
        checks.push(Check::waits("spend", reached_cap.to_string(), fix));
    }
    Ok(checks)
}
