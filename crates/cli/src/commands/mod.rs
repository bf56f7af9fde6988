//! The command line, one file per command. Each command builds its result as a value before it
//! prints anything, so that people and `--json` see the same data.

mod agents;
mod amend;
mod append;
mod backup;
mod chat;
mod completions;
mod config;
mod context;
mod copy;
mod create;
mod demo;
mod doctor;
mod eval;
mod expand;
mod export;
mod forget;
mod help;
mod hook;
mod import;
mod install;
mod jobs;
mod label;
mod lifecycle;
mod local_time;
mod logs;
mod mcp;
mod notes;
mod output;
mod pause;
mod plugin;
mod policy;
mod reindex;
mod restore;
mod retain;
mod search;
mod serve;
mod sessions;
mod show;
mod spend;
mod stats;
mod status;
mod summarize;
mod tail;
mod tenant;
mod threads;
mod token;
mod update;
mod verify;
mod work;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{FromArgMatches as _, Parser, Subcommand};
use etcetera::AppStrategy as _;
use treering_core::{ConversationState, TenantId};
use treering_engine::Engine;

use install::InstallAction;
use output::Output;
use treering::config::{LoadedSettings, Settings, SettingsError};
use treering::importers::ImportError;
use treering_server::agents::Spool;
use treering_server::service::{Service, ServiceError};

/// A memory for language models: stores every turn of your conversations and builds the best
/// context from them
#[derive(Parser)]
#[command(name = "treering", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options that every command accepts.
#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// The folder that holds the store and the settings [default: the platform's data folder]
    #[arg(
        long,
        global = true,
        env = "TREERING_HOME",
        value_name = "FOLDER",
        help_heading = "Global options"
    )]
    home: Option<PathBuf>,
    /// The tenant to work in
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    tenant: Option<String>,
    /// Override a setting for this command; `treering config` lists them
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = pair,
          help_heading = "Global options")]
    settings: Vec<(String, String)>,
    /// Print JSON instead of text
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, like store.sync=normal")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[derive(Subcommand)]
enum Command {
    /// Try Treering on a sample conversation in a temporary folder
    Demo(demo::Args),
    /// Import transcripts from files or folders
    Import(import::Args),
    /// Store a turn or a message, from flags or as JSON lines on standard input
    Append(Box<append::Args>),
    /// Create a conversation without turns
    Create(create::Args),
    /// Store a note about a project, outside any conversation
    Remember(notes::RememberArgs),
    /// List notes; pin, correct or withdraw one
    Notes(notes::Args),
    /// List conversations, most recent first
    Sessions(sessions::Args),
    /// Search every conversation by words and by meaning
    Search(Box<search::Args>),
    /// Build the best context for a model that fits a token budget
    Context(Box<context::Args>),
    /// Chat with a model that remembers
    Chat(Box<chat::Args>),
    /// Show the sources of a node, or the nodes that cover a message
    Expand(expand::Args),
    /// Show the turns of a conversation, its tree, or one of its nodes
    Show(show::Args),
    /// Bring the tree of a conversation up to date, or rebuild it
    Update(update::Args),
    /// Summarize a turn or a level now, or store a summary of your own
    Summarize(Box<summarize::Args>),
    /// List the threads of a conversation, or create one
    Threads(threads::Args),
    /// Run the background jobs that are due
    Work(work::Args),
    /// Re-embed everything with the configured embedder; search keeps working meanwhile
    Reindex(reindex::Args),
    /// List unfinished background jobs, or retry failed ones
    Jobs(jobs::Args),
    /// Connect an agent: register the MCP server and the hooks that capture conversations
    Install(install::Args),
    /// Remove everything that `install` added
    Uninstall(install::Args),
    /// Write a plugin for Claude Code, Codex and Cursor to a folder
    Plugin(plugin::Args),
    /// Capture a conversation from an agent's hook
    Hook(hook::Args),
    /// Pause the capture of conversations, for a time or until `resume`
    Pause(pause::Args),
    /// Resume capture after `pause`
    Resume(pause::ResumeArgs),
    /// Start the HTTP server: JSON API, events, metrics and MCP
    Serve(serve::Args),
    /// Create, list and revoke access tokens for other machines
    Token(token::Args),
    /// Start an MCP server on standard input and output
    Mcp(mcp::Args),
    /// Show which background jobs were planned, finished or failed
    Logs(logs::Args),
    /// Follow new turns and nodes live, with the changes they make to the context
    Tail(tail::Args),
    /// Show pending work, and whether the agents' conversations are captured
    Status(status::Args),
    /// Show or set the summarization policy of a conversation
    Policy(policy::Args),
    /// Give a conversation a new title and slug
    Rename(lifecycle::Rename),
    /// Mark a conversation as closed; a new message reopens it
    Close(lifecycle::ConversationArg),
    /// Close a conversation and hide it from listings
    Archive(lifecycle::ConversationArg),
    /// Reopen a closed or archived conversation
    Reopen(lifecycle::ConversationArg),
    /// Set, remove or list the labels of a conversation
    Label(label::Args),
    /// Replace the text of a message; the earlier text stays in its history
    Edit(amend::EditArgs),
    /// Mark a message as wrong, so that search and contexts stop using it
    Correct(amend::CorrectArgs),
    /// Erase content for good: a message, a turn, a conversation, an author, a project, a label
    Forget(Box<forget::Args>),
    /// Forget conversations that are older than the retention rules allow
    Retain(retain::Args),
    /// List what was forgotten, without its content
    Audit(forget::AuditArgs),
    /// Export conversations as JSON lines that `import` reads back without loss
    Export(export::Args),
    /// Copy one store to another: a folder or a server
    Copy(copy::Args),
    /// List, create, delete and move tenants
    Tenant(tenant::Args),
    /// Copy the store to a file; other processes can keep using it
    Backup(backup::Args),
    /// Replace the store with a backup; the replaced store is kept beside it
    Restore(restore::Args),
    /// Show statistics about the store and its trees
    Stats(stats::Args),
    /// Check the integrity of everything stored; exit with 1 if there are problems
    Verify(verify::Args),
    /// Check settings, store, index, models and agents, and suggest fixes; exit with 1 if anything
    /// is broken
    Doctor(doctor::Args),
    /// Measure retrieval quality on data sets
    Eval(eval::Args),
    /// Print the settings in force and the origin of each
    Config(config::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
}

/// An error that ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Service(#[from] ServiceError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}")]
    Unreadable(#[from] ImportError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Backup(treering_engine::Error),
    #[error("no model is configured for chat")]
    NoModel,
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
    #[error("cannot write {0}: {1}")]
    File(PathBuf, io::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Serve(#[from] treering_server::http::ServeError),
    #[error(transparent)]
    Tokens(#[from] treering_server::access_tokens::TokenError),
    /// The command has already printed its problem.
    #[error("")]
    Reported,
}

impl From<treering_engine::Error> for CliError {
    fn from(error: treering_engine::Error) -> Self {
        Self::Service(error.into())
    }
}

impl From<treering_core::Invalid> for CliError {
    fn from(invalid: treering_core::Invalid) -> Self {
        Self::Service(invalid.into())
    }
}

impl CliError {
    /// Advice for the user.
    fn hint(&self) -> Option<String> {
        match self {
            Self::Service(ServiceError::Engine(error)) => error.hint(),
            Self::Service(ServiceError::NoConversations) => {
                Some("import transcripts with `treering import`".into())
            }
            Self::Backup(error) => Some(restore::restore_hint(error)),
            Self::NoModel => Some(chat::NO_MODEL_HINT.into()),
            _ => None,
        }
    }
}

/// Parses the arguments, runs the command and prints any error.
#[must_use]
pub(crate) fn main() -> ExitCode {
    let matches = help::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let output = Output::new(cli.global.json);
    match run(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe, which is no error (`treering show | head`).
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(CliError::Reported) => ExitCode::FAILURE,
        Err(failure) => {
            output.error(&failure.to_string(), failure.hint().as_deref());
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<(), CliError> {
    let global = &cli.global;
    let set_state = |args: &_, state| lifecycle::set(args, state, &global.open()?, output);
    match cli.command {
        Command::Demo(args) => demo::run(&args, output),
        Command::Completions(args) => completions::run(&args),
        Command::Doctor(args) => doctor::run(&args, global, output),
        Command::Eval(args) => eval::run(&args, &global.eval()?, output),
        Command::Config(args) => config::run(&args, global, output),
        Command::Import(args) => import::run(&args, &global.home()?, &global.open()?, output),
        Command::Pause(args) => pause::run(&args, global, output),
        Command::Resume(args) => pause::resume(&args, global, output),
        Command::Append(args) => append::run(&args, &global.open()?, output),
        Command::Create(args) => create::run(&args, &global.open()?, output),
        Command::Remember(args) => notes::remember(&args, &global.open()?, output),
        Command::Notes(args) => notes::run(&args, &global.open()?, output),
        Command::Sessions(args) => sessions::run(&args, &global.open()?, output),
        Command::Tail(args) => tail::run(&args, &global.open()?, output),
        Command::Show(args) => show::run(&args, &global.open()?, output),
        Command::Rename(args) => lifecycle::rename(&args, &global.open()?, output),
        Command::Close(args) => set_state(&args, ConversationState::Closed),
        Command::Archive(args) => set_state(&args, ConversationState::Archived),
        Command::Reopen(args) => set_state(&args, ConversationState::Open),
        Command::Label(args) => label::run(&args, &global.open()?, output),
        Command::Edit(args) => amend::edit(&args, &global.open()?, output),
        Command::Correct(args) => amend::correct(&args, &global.open()?, output),
        Command::Forget(args) => forget::run(&args, &global.open()?, output),
        Command::Retain(args) => retain::run(&args, &global.open()?, output),
        Command::Audit(args) => forget::audit(&args, &global.open()?, output),
        Command::Export(args) => export::run(&args, &global.open()?),
        Command::Backup(args) => backup::run(&args, &global.open()?, output),
        Command::Copy(args) => copy::run(&args, global, output),
        Command::Tenant(args) => tenant::run(&args, global, output),
        Command::Restore(args) => restore::run(&args, global, output),
        Command::Stats(args) => stats::run(&args, &global.open()?, output),
        Command::Verify(args) => verify::run(&args, &global.open()?, output),
        Command::Search(args) => {
            let service = global.open()?;
            search::run(&args, &service, output)?;
            seal_index(service.engine());
            Ok(())
        }
        Command::Context(args) => {
            let service = global.open()?;
            context::run(&args, &service, output)?;
            seal_index(service.engine());
            Ok(())
        }
        Command::Chat(args) => chat::run(&args, global, output),
        Command::Expand(args) => expand::run(&args, &global.open()?, output),
        Command::Update(args) => update::run(&args, &global.open()?, output),
        Command::Summarize(args) => summarize::run(&args, &global.open()?, output),
        Command::Threads(args) => threads::run(&args, &global.open()?, output),
        Command::Reindex(args) => reindex::run(&args, &global.open()?, output),
        Command::Work(args) => work::run(&args, &global.open()?, output),
        Command::Jobs(args) => jobs::run(&args, &global.open()?, output),
        Command::Install(args) => install::run(&args, InstallAction::Install, global, output),
        Command::Uninstall(args) => install::run(&args, InstallAction::Uninstall, global, output),
        Command::Plugin(args) => plugin::run(&args, output),
        Command::Hook(args) => hook::run(&args, global, output),
        Command::Serve(args) => serve::run(&args, global, output),
        Command::Token(args) => token::run(args, global, output),
        Command::Mcp(args) => mcp::run(&args, global),
        Command::Logs(args) => logs::run(&args, &global.open()?, output),
        Command::Status(args) => status::run(&args, global, &global.open()?, output),
        Command::Policy(args) => policy::run(&args, &global.open()?, output),
    }
}

/// Stores the search index for the next command, if this one had to build much of it. Without room
/// or permission to write, the next command builds it again.
fn seal_index(engine: &Engine) {
    drop(engine.seal_index(Engine::SEAL_ITEMS));
}

impl Global {
    fn home(&self) -> Result<PathBuf, CliError> {
        if let Some(home) = &self.home {
            return Ok(home.clone());
        }
        let strategy = etcetera::choose_app_strategy(etcetera::AppStrategyArgs {
            top_level_domain: "dev".into(),
            author: "treering".into(),
            app_name: "treering".into(),
        });
        let strategy = strategy.map_err(|_| {
            CliError::Usage("cannot find your data folder; choose one with --home".into())
        })?;
        Ok(strategy.data_dir())
    }

    fn load(&self) -> Result<LoadedSettings, CliError> {
        let mut flags = self.settings.clone();
        if let Some(tenant) = &self.tenant {
            flags.push(("tenant".into(), format!("{tenant:?}")));
        }
        Ok(Settings::load(&self.home()?, &flags)?)
    }

    /// The configured models for an evaluation in a scratch home. Relative paths still resolve
    /// against the configured home.
    fn eval(&self) -> Result<treering::Options, CliError> {
        let settings = self.load()?.settings;
        let home = self.home()?;
        let seen_from_home = |path: &PathBuf| {
            let path = home.join(path);
            std::path::absolute(&path).unwrap_or(path)
        };
        let mut options = treering::Options {
            sync: treering::Sync::Normal,
            embed: (&settings.embed).into(),
            summarize: (&settings.summarize).into(),
            providers: (&settings.providers).into(),
            spend: (&settings.spend).into(),
            ..treering::Options::default()
        };
        options.embed.encoder_path = seen_from_home(&options.embed.encoder_path);
        options.summarize.prompts = seen_from_home(&options.summarize.prompts);
        Ok(options)
    }

    fn open(&self) -> Result<Service, CliError> {
        let LoadedSettings { settings, effective } = self.load()?;
        Ok(self.open_with(settings)?.with_origins(effective))
    }

    fn open_with(&self, settings: Settings) -> Result<Service, CliError> {
        let models = treering::Models::new((&settings.providers).into());
        self.open_on(settings, &models)
    }

    /// Opens the store with models that other callers share.
    fn open_on(&self, settings: Settings, models: &treering::Models) -> Result<Service, CliError> {
        let options = treering::Options {
            tenant: TenantId::new(settings.tenant.clone())?,
            sync: settings.store.sync.into(),
            store: settings.store.options()?,
            tokenizer: settings.tokens.tokenizer.parse().map_err(CliError::Usage)?,
            embed: (&settings.embed).into(),
            summarize: (&settings.summarize).into(),
            providers: (&settings.providers).into(),
            policy: settings.tree.policy()?,
            work: (&settings.work).into(),
            spend: (&settings.spend).into(),
            search: (&settings.search).into(),
            exclusions: (&settings.capture).into(),
            recall: (&settings.recall).into(),
        };
        let engine = treering::open_engine_with_models(&self.home()?, options, models)?;
        engine.open_warnings().iter().for_each(|warning| Output::new(self.json).warn(warning));
        self.replay(&engine)?;
        Ok(Service::new(engine, Arc::new(settings)))
    }

    /// The spool for a hook's capture. Unreadable settings leave the tenant unknown, unless a
    /// flag names it.
    fn spool(&self, settings: Option<&Settings>) -> Result<Spool, CliError> {
        let home = self.home()?;
        let tenant = settings.map(|settings| &settings.tenant).or(self.tenant.as_ref());
        Ok(match tenant {
            Some(tenant) => Spool::for_tenant(&home, &TenantId::new(tenant.clone())?),
            None => Spool::for_unknown_tenant(&home),
        })
    }

    /// Stores the captures that hooks spooled for this tenant while the store was unavailable. A
    /// failed replay is only a note: a store that cannot be written must stay readable.
    fn replay(&self, engine: &Engine) -> Result<(), CliError> {
        let home = self.home()?;
        // The unknown tenant is the one in the settings, which `--tenant` may override.
        let unknown = self.tenant.is_none().then(|| Spool::for_unknown_tenant(&home));
        for spool in [Spool::for_tenant(&home, engine.tenant())].into_iter().chain(unknown) {
            let output = Output::new(self.json);
            match spool.replay(engine) {
                Ok(report) => {
                    for reason in report.refused {
                        output.remark(&format!("a capture cannot be stored: {reason}"));
                    }
                }
                Err(error) => {
                    output.remark(&format!("cannot store the spooled captures yet: {error}"));
                }
            }
        }
        Ok(())
    }

    /// The options that point another process at the same store and tenant.
    fn repeated(&self) -> Vec<String> {
        let mut options = Vec::new();
        if let Some(home) = &self.home {
            let home = std::path::absolute(home).unwrap_or_else(|_| home.clone());
            options.extend(["--home".to_owned(), home.display().to_string()]);
        }
        if let Some(tenant) = &self.tenant {
            options.extend(["--tenant".to_owned(), tenant.clone()]);
        }
        options
    }
}
