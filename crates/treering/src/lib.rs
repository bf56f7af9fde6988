//! Treering keeps every turn of a conversation with a language model, for ever.
//!
//! [`open`] gives a [`Memory`]: append to it, find conversations in it, read them back.
//!
//! ```
//! use treering::{Entry, Incoming, Matching, NewConversation, NewMessage, Role, Target, ThreadName};
//!
//! let home = tempfile::tempdir()?;
//! let memory = treering::open(home.path())?;
//! let now = memory.clock().now();
//! let entries = vec![
//!     Entry::message(ThreadName::main(), NewMessage::new(Role::User, "Which port does staging use?", now)),
//!     Entry::message(ThreadName::main(), NewMessage::new(Role::Assistant, "7410, since March.", now)),
//! ];
//! let target = Target::Named(NewConversation::default());
//! let appended = memory.append(Incoming { target, entries, matching: Matching::None })?;
//!
//! assert_eq!(appended.conversation.slug, "which-port-does-staging-use");
//! assert_eq!(memory.find("which-port-does-staging-use")?.totals.turns, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(feature = "config")]
pub mod config;
mod embedders;
pub mod import;
pub mod models;
mod prices;
mod tokenizers;

/// Readers of the transcripts that other programs leave behind.
pub use treering_importers as importers;
pub use treering_importers::jsonl;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use embedders::EMBEDDERS;
pub use embedders::{EmbedOptions, embedder_named};
pub use models::{Models, ProviderOptions, SummarizeOptions};
pub use prices::SpendOptions;
pub use tokenizers::TokenizerOption;
pub use treering_core::{
    Entry, EntryKind, ForkPoint, NewMessage, NewToolCall, Policy, Role, TenantId, ThreadName, Timestamp,
    ToolResult,
};
pub use treering_engine::{
    Agent, AgentOptions, AppendReport, AppendTarget, Context, ContextRequest, Engine, EngineParts,
    EntryBatch, Error, JobScope, NewConversation, Query, ReplayDetection, Reply, Result, SearchOptions,
    Update, WorkOptions, Worker, WorkerHandle,
};
pub use treering_providers::{Bpe, ENCODER_NAME, Extractive, StaticEmbedder};
pub use treering_stores::{BackupContents, EmbeddedStore, Sync};

/// How a memory is opened, beside where.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What a turn has survived when it is acknowledged.
    pub sync: Sync,
    /// What counts tokens.
    pub tokenizer: TokenizerOption,
    /// How texts get their vectors.
    pub embed: EmbedOptions,
    /// Who writes the summaries.
    pub summarize: SummarizeOptions,
    /// How providers of models are reached.
    pub providers: ProviderOptions,
    /// Whose memory it is.
    pub tenant: TenantId,
    /// When windows and groups seal.
    pub policy: Policy,
    /// How background work is done.
    pub work: WorkOptions,
    /// What may be spent on models, and what they cost.
    pub spend: SpendOptions,
    /// How search is done.
    pub search: SearchOptions,
}

/// Replaces the store in a folder by a backup that [`Memory::backup`] made, and creates the folder where it is missing.
/// Nobody may have the store open. The store that was there is kept beside it; returns where.
pub fn restore(home: &Path, backup: &Path) -> Result<Option<PathBuf>> {
    Ok(EmbeddedStore::restore(home, backup)?)
}

/// Reads all of a backup, and says what it holds. One that is damaged, no store, or of a newer version is refused.
pub fn inspect_backup(backup: &Path) -> Result<BackupContents> {
    Ok(EmbeddedStore::inspect_backup(backup)?)
}

/// Opens the memory in a folder with everything at its default, making it where it is missing.
pub fn open(home: &Path) -> Result<Engine> {
    open_with(home, Options::default())
}

/// Opens the memory in a folder, with models of its own.
pub fn open_with(home: &Path, options: Options) -> Result<Engine> {
    let models = Models::new(options.providers.clone());
    open_with_models(home, options, &models)
}

/// Opens the memory in a folder, with models that others ask as well. The one place where adapters are chosen and
/// joined.
pub fn open_with_models(home: &Path, options: Options, models: &Models) -> Result<Engine> {
    let Options { sync, tokenizer, mut embed, summarize, providers, tenant, mut policy, work, spend, search } =
        options;
    embed.encoder_path = home.join(embed.encoder_path);
    let embedder = embedders::embedder(&embed, models)?;
    let summarizer = models::summarizer(home, &summarize, models, &mut policy)?;
    // Those that may have given the vectors that search still goes by, as far as they can be had.
    let others = EMBEDDERS.into_iter().filter(|name| *name != embed.model);
    let other_embedders = others.filter_map(|name| embedder_named(name, &embed).ok()).collect();
    let tokenizer = tokenizers::tokenizer(home, &tokenizer)?;
    let store = EmbeddedStore::open(home, sync)?;
    let parts = EngineParts {
        store: Arc::new(store),
        tokenizer,
        clock: Arc::new(treering_engine::SystemClock),
        summarizer,
        fallback: Some(Arc::new(Extractive)),
        embedder,
        other_embedders,
        policy,
        work,
        spend: prices::settings(spend, providers.quotas())?,
        search,
    };
    Ok(Engine::new(parts, tenant))
}
