//! The command line. One file per command; each prepares what it shows as a value first, so that
//! people and `--json` see the same.

mod append;
mod backup;
mod chat;
mod completions;
mod config;
mod context;
mod demo;
mod doctor;
mod eval;
mod expand;
mod export;
mod hook;
mod import;
mod install;
mod jobs;
mod lifecycle;
mod logs;
mod mcp;
mod output;
mod policy;
mod reindex;
mod restore;
mod search;
mod serve;
mod sessions;
mod show;
mod show_tree;
mod spend;
mod stats;
mod status;
mod tail;
mod token;
mod update;
mod verify;
mod work;

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use etcetera::AppStrategy as _;
use treering_core::TenantId;
use treering_engine::Engine;

use output::Output;
use treering::config::{LoadedSettings, Settings, SettingsError};
use treering::importers::ImportError;
use treering_server::agents::Spool;

/// A memory for conversations with language models: keeps every turn, finds it again.
#[derive(Parser)]
#[command(name = "treering", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Start with `treering demo`, or `treering import ~/.claude/projects`.")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// The folder that holds everything [default: the platform's data folder]
    #[arg(
        long,
        global = true,
        env = "TREERING_HOME",
        value_name = "FOLDER",
        help_heading = "Global options"
    )]
    home: Option<PathBuf>,
    /// The tenant whose conversations are meant
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    tenant: Option<String>,
    /// Sets any setting for this command; `treering config` lists them
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = pair,
          help_heading = "Global options")]
    settings: Vec<(String, String)>,
    /// Prints JSON, for programs
    #[arg(long, global = true, help_heading = "Global options")]
    json: bool,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, like store.sync=normal")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

#[derive(Subcommand)]
enum Command {
    /// Shows what Treering does, on a sample conversation; leaves nothing behind
    Demo(demo::Args),
    /// Takes in transcripts: files, or folders that are searched
    Import(import::Args),
    /// Stores a turn or a message, from flags or as JSON lines on standard input
    Append(Box<append::Args>),
    /// Lists conversations, the latest first
    Sessions(sessions::Args),
    /// Finds what was said, by words and by meaning, at every level
    Search(Box<search::Args>),
    /// Puts together what is handed to a model: the best context that fits a budget
    Context(Box<context::Args>),
    /// Talks with a model that remembers
    Chat(Box<chat::Args>),
    /// Goes from a node to what it was written from, or from a message to the nodes over it
    Expand(expand::Args),
    /// Shows the turns of a conversation, its tree, or a node of it
    Show(show::Args),
    /// Brings the tree of a conversation up to date, or grows it anew
    Update(update::Args),
    /// Runs the background jobs that are due
    Work(work::Args),
    /// Goes over to the vectors of the configured embedder; search works all the while
    Reindex(reindex::Args),
    /// Lists the background jobs that are not done, or tries failed ones again
    Jobs(jobs::Args),
    /// Makes Treering known to an agent: its MCP server, and hooks that capture what is said
    Install(install::Args),
    /// Takes out what `install` put in
    Uninstall(install::Args),
    /// Captures what an agent's hook hands over
    Hook(hook::Args),
    /// Serves HTTP with JSON, events, metrics and MCP
    Serve(serve::Args),
    /// Makes, lists and revokes the tokens that other machines need
    Token(token::Args),
    /// Serves agents over the Model Context Protocol, on standard input and output
    Mcp(mcp::Args),
    /// Shows what background work was planned, done or failed
    Logs(logs::Args),
    /// Follows what comes in, as it comes: turns, nodes, and what they change in the context
    Tail(tail::Args),
    /// Shows what the next context of a conversation would wait for
    Status(status::Args),
    /// Shows or sets when the windows and groups of a conversation seal
    Policy(policy::Args),
    /// Gives a conversation another title and slug
    Rename(lifecycle::Rename),
    /// Marks a conversation as ended; a new message opens it again
    Close(lifecycle::ConversationArg),
    /// Ends a conversation and leaves it out of listings
    Archive(lifecycle::ConversationArg),
    /// Opens a conversation that was closed or archived
    Reopen(lifecycle::ConversationArg),
    /// Writes conversations as JSON lines that `import` reads back without loss
    Export(export::Args),
    /// Copies the store to a file while others go on using it
    Backup(backup::Args),
    /// Puts a backup in the place of the store, which is kept beside it
    Restore(restore::Args),
    /// Counts what is stored, and what the trees come to
    Stats(stats::Args),
    /// Adds everything up and lists what does not; ends with 1 if anything does not
    Verify(verify::Args),
    /// Checks settings, store, index and every model in use, and says what to fix; ends with 1 if anything is broken
    Doctor(doctor::Args),
    /// Measures how well the evidence for questions is found, on data sets
    Eval(eval::Args),
    /// Prints the settings in force and where each came from
    Config(config::Args),
    /// Prints a completion script for a shell
    Completions(completions::Args),
}

/// Why a command ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Engine(#[from] treering_engine::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}")]
    Unreadable(#[from] ImportError),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Backup(treering_engine::Error),
    #[error("no model is configured to talk with")]
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
    /// The command said itself what is wrong.
    #[error("")]
    Reported,
}

impl From<treering_core::Invalid> for CliError {
    fn from(invalid: treering_core::Invalid) -> Self {
        Self::Engine(invalid.into())
    }
}

/// Runs the program.
#[must_use]
pub(crate) fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.global.json);
    match run(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(CliError::Reported) => ExitCode::FAILURE,
        Err(failure) => {
            let hint = match &failure {
                CliError::Engine(error) => error.hint(),
                CliError::Backup(error) => Some(restore::restore_hint(error)),
                CliError::NoModel => Some(chat::NO_MODEL_HINT.into()),
                _ => None,
            };
            output.error(&failure.to_string(), hint.as_deref());
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli, output: &Output) -> Result<(), CliError> {
    let global = &cli.global;
    match cli.command {
        Command::Demo(args) => demo::run(&args, output),
        Command::Completions(args) => completions::run(&args),
        Command::Doctor(args) => doctor::run(&args, global, output),
        Command::Eval(args) => eval::run(&args, &global.eval()?, output),
        Command::Config(args) => config::run(&args, global, output),
        Command::Import(args) => import::run(&args, &global.open()?, output),
        Command::Append(args) => append::run(&args, &global.open()?, output),
        Command::Sessions(args) => sessions::run(&args, &global.open()?, output),
        Command::Tail(args) => tail::run(&args, global, output),
        Command::Show(args) => show::run(&args, &global.open()?, output),
        Command::Rename(args) => lifecycle::rename(&args, &global.open()?, output),
        Command::Close(args) => {
            lifecycle::set(&args, treering_core::ConversationState::Closed, &global.open()?, output)
        }
        Command::Archive(args) => lifecycle::set(
            &args,
            treering_core::ConversationState::Archived,
            &global.open()?,
            output,
        ),
        Command::Reopen(args) => {
            lifecycle::set(&args, treering_core::ConversationState::Open, &global.open()?, output)
        }
        Command::Export(args) => export::run(&args, &global.open()?),
        Command::Backup(args) => backup::run(&args, &global.open()?, output),
        Command::Restore(args) => restore::run(&args, &global.home()?, output),
        Command::Stats(args) => stats::run(&args, &global.open()?, output),
        Command::Verify(args) => verify::run(&args, &global.open()?, output),
        Command::Search(args) => search::run(&args, &global.open()?, output),
        Command::Context(args) => context::run(&args, global, output),
        Command::Chat(args) => chat::run(&args, global, output),
        Command::Expand(args) => expand::run(&args, &global.open()?, output),
        Command::Update(args) => update::run(&args, &global.open()?, output),
        Command::Reindex(args) => reindex::run(&args, &global.open()?, output),
        Command::Work(args) => work::run(&args, &global.open()?, output),
        Command::Jobs(args) => jobs::run(&args, &global.open()?, output),
        Command::Install(args) => install::run(&args, install::InstallAction::In, global, output),
        Command::Uninstall(args) => {
            install::run(&args, install::InstallAction::Out, global, output)
        }
        Command::Hook(args) => hook::run(&args, global, output),
        Command::Serve(args) => serve::run(&args, global, output),
        Command::Token(args) => token::run(args, global, output),
        Command::Mcp(args) => mcp::run(&args, global),
        Command::Logs(args) => logs::run(&args, &global.open()?, output),
        Command::Status(args) => status::run(&args, &global.open()?, output),
        Command::Policy(args) => policy::run(&args, &global.open()?, output),
    }
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
            CliError::Usage("this user has no home folder; name one with --home".into())
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

    /// Models as they are set, for a memory anywhere else.
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
            summarize: settings.summarize.into(),
            providers: (&settings.providers).into(),
            spend: settings.spend.into(),
            ..treering::Options::default()
        };
        options.embed.encoder_path = seen_from_home(&options.embed.encoder_path);
        options.summarize.prompts = seen_from_home(&options.summarize.prompts);
        Ok(options)
    }

    fn open(&self) -> Result<Engine, CliError> {
        self.open_with(self.load()?.settings)
    }

    fn open_with(&self, settings: Settings) -> Result<Engine, CliError> {
        let models = treering::Models::new((&settings.providers).into());
        self.open_on(settings, &models)
    }

    /// Opens the memory with models that others ask as well.
    fn open_on(&self, settings: Settings, models: &treering::Models) -> Result<Engine, CliError> {
        let options = treering::Options {
            tenant: TenantId::new(settings.tenant.clone())?,
            sync: settings.store.sync.into(),
            tokenizer: settings.tokens.tokenizer.parse().map_err(CliError::Usage)?,
            embed: (&settings.embed).into(),
            summarize: settings.summarize.into(),
            providers: (&settings.providers).into(),
            policy: settings.tree.policy()?,
            work: (&settings.work).into(),
            spend: settings.spend.into(),
            search: (&settings.search).into(),
        };
        let memory = treering::open_engine_with_models(&self.home()?, options, models)?;
        memory.open_warnings().iter().for_each(|warning| Output::new(self.json).warn(warning));
        self.replay(&memory)?;
        Ok(memory)
    }

    /// Where hooks leave what cannot be stored now.
    fn spool(&self) -> Result<Spool, CliError> {
        let home = self.home()?;
        let named = match (self.load(), &self.tenant) {
            (Ok(loaded), _) => loaded.settings.tenant,
            (Err(_), Some(tenant)) => tenant.clone(),
            (Err(_), None) => return Ok(Spool::for_unknown_tenant(&home)),
        };
        Ok(Spool::for_tenant(&home, &TenantId::new(named)?))
    }

    /// Stores what hooks captured for this tenant while the store could not be reached. A store that cannot be
    /// written keeps nobody from reading.
    fn replay(&self, memory: &Engine) -> Result<(), CliError> {
        let home = self.home()?;
        // A tenant that is named here may be another than the settings name.
        let unsettled = self.tenant.is_none().then(|| Spool::for_unknown_tenant(&home));
        for spool in [Spool::for_tenant(&home, memory.tenant())].into_iter().chain(unsettled) {
            if let Err(error) = spool.replay(memory) {
                Output::new(self.json)
                    .note(&format!("what is in the spool cannot be stored yet: {error}"));
            }
        }
        Ok(())
    }

    /// The options that lead another process to the same memory.
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
