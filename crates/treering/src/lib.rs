//! Treering stores every turn of a conversation with a language model and, for each new
//! question, builds the best context that fits a token budget.
//!
//! ```
//! # let home = tempfile::tempdir()?;
//! # let home = home.path();
//! let memory = treering::Memory::open(home)?;
//! let chat = memory.conversation("support:42")?;
//! chat.turn("Which port does staging use?", "7410, since March.")?;
//!
//! for hit in memory.search("staging port").within(&chat).limit(5).run()? {
//!     println!("{:.2} {}", hit.score, hit.snippet);
//! }
//! let context = chat.context().query("why did it move?").budget(4_000).build()?;
//! println!("{}", context.markdown());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Memory`] opens a folder. [`Memory::builder`] takes options, your own summarizer or your own
//!   embedder.
//! - [`ConversationHandle`] stores turns, builds contexts, and creates agents.
//! - [`SearchBuilder`] and [`ContextBuilder`] take filters and budgets. A [`Context`] has a
//!   receipt.
//! - [`Engine`] is the lower layer, which addresses everything by id.
//!
//! A turn is durable when the call that stores it returns. Summaries are written in the
//! background.

mod amend;
pub mod capture;
#[cfg(feature = "config")]
pub mod config;
mod conversation;
mod embedders;
mod forget;
pub mod import;
mod memory;
pub mod models;
mod notes;
mod prices;
pub mod private_file;
mod scope_context;
mod search;
mod store_url;
mod tenants;
mod tokenizers;

/// Importers for the transcripts of other programs.
pub use treering_importers as importers;
pub use treering_importers::jsonl;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use conversation::{ContextBuilder, ConversationAgent, ConversationHandle};
use embedders::EMBEDDERS;
pub use embedders::{EmbedOptions, embedder_named};
pub use forget::{ForgetBuilder, forget, home_of, scrub};
pub use memory::{Memory, MemoryBuilder};
pub use models::{Models, ProviderOptions, SummarizeOptions};
pub use prices::SpendOptions;
pub use scope_context::ScopeContextBuilder;
pub use search::SearchBuilder;
pub use store_url::{StoreOptions, StoreUrl, open_store};
pub use tenants::{TenantSummary, add_tenant, list_tenants, move_tenant, remove_tenant};
pub use tokenizers::TokenizerOption;
pub use treering_core::ports::ScrubReport;
pub use treering_core::{
    AuditRecord, CaptureExclusions, ChatModel, Conversation, ConversationId, ConversationState,
    Embedder, Entry, EntryKind, ErasedCounts, ForgetTarget, ForkPoint, GateOperation, GateStatus,
    Invalid, ItemSelection, Label, Labels, Level, Message, MessageIdx, NewMessage, NewToolCall,
    Node, NodeContent, Passage, Policy, Preset, ProviderError, Receipt, RetentionRule,
    RetentionScope, Role, Summarizer, SummaryRequest, TenantId, Thread, ThreadName, Timestamp,
    ToolCall, ToolResult, TurnNo,
};
pub use treering_engine::{
    Agent, AgentOptions, AmendReport, Amendment, AppendReport, AppendTarget, Context,
    ContextRequest, EmbedTextOptions, Engine, EngineParts, EntryBatch, Error, Exclusion, Forget,
    ForgetPreview, ForgetReport, ForgetSample, GateWait, Hit, HitItem, JobScope,
    ListedConversation, NewConversation, NewNote, NewSummary, Note, NoteChange, Query,
    RecallOptions, ReplayDetection, Reply, Result, SearchOptions, SearchOutcome, Snippet, Stats,
    SummaryParents, TurnEmbedding, TurnSummary, Update, Verification, WholeTurn, WorkOptions,
    Worker, WorkerHandle,
};
pub use treering_providers::{Bpe, ENCODER_NAME, Extractive, StaticEmbedder};
use treering_stores::IndexFolder;
pub use treering_stores::{BackupContents, CopyReport, EmbeddedStore, Sync};

/// Options for opening a memory.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The durability of an acknowledged turn.
    pub sync: Sync,
    /// The place of the store.
    pub store: StoreOptions,
    /// The tokenizer that counts tokens.
    pub tokenizer: TokenizerOption,
    /// The embedder.
    pub embed: EmbedOptions,
    /// The summarizer.
    pub summarize: SummarizeOptions,
    /// The providers of remote models.
    pub providers: ProviderOptions,
    /// The tenant whose memory is opened.
    pub tenant: TenantId,
    /// The policy that decides when windows and groups seal.
    pub policy: Policy,
    /// Options for background jobs.
    pub work: WorkOptions,
    /// Spending caps and prices.
    pub spend: SpendOptions,
    /// Options for search.
    pub search: SearchOptions,
    /// Folders and patterns that are excluded from capture.
    pub exclusions: CaptureExclusions,
    /// Options for what search and contexts return.
    pub recall: RecallOptions,
}

/// Replaces the store in a folder with a backup made by [`Memory::backup`], and creates the
/// folder if it does not exist. No process may have the store open. Keeps the previous store
/// beside the new one and returns its path.
pub fn restore(home: &Path, backup: &Path) -> Result<Option<PathBuf>> {
    Ok(EmbeddedStore::restore(home, backup)?)
}

/// Reads a whole backup and returns its contents. Refuses a file that is damaged, not a store,
/// or of a newer version.
pub fn inspect_backup(backup: &Path) -> Result<BackupContents> {
    Ok(EmbeddedStore::inspect_backup(backup)?)
}

/// Copies everything from one store to another, and compares the two. A copy that was interrupted
/// continues. `progress` gets the report so far.
pub fn copy_store(
    from: &dyn treering_core::Store,
    to: &dyn treering_core::Store,
    progress: &mut dyn FnMut(&CopyReport),
) -> Result<CopyReport> {
    Ok(treering_stores::copy(from, to, progress)?)
}

/// Opens the engine in a folder with default options, and creates the folder if it does not
/// exist.
pub fn open_engine(home: &Path) -> Result<Engine> {
    open_engine_with(home, Options::default())
}

/// Opens the engine in a folder with its own connections to providers.
pub fn open_engine_with(home: &Path, options: Options) -> Result<Engine> {
    let models = Models::new(options.providers.clone());
    open_engine_with_models(home, options, &models)
}

/// Opens the engine in a folder with models that are shared with other callers.
pub fn open_engine_with_models(home: &Path, options: Options, models: &Models) -> Result<Engine> {
    let tenant = options.tenant.clone();
    Ok(Engine::new(engine_parts(home, options, models)?, tenant))
}

/// The composition root: the only place that knows all adapters and connects them.
fn engine_parts(home: &Path, options: Options, models: &Models) -> Result<EngineParts> {
    let Options {
        sync,
        store,
        tokenizer,
        mut embed,
        summarize,
        providers,
        mut policy,
        work,
        spend,
        search,
        mut exclusions,
        recall,
        ..
    } = options;
    for folder in &mut exclusions.folders {
        *folder = treering_engine::normalize_cwd(folder);
    }
    embed.encoder_path = home.join(embed.encoder_path);
    let embedder = embedders::embedder(&embed, models)?;
    let summarizer = models::summarizer(home, &summarize, models, &mut policy)?;
    // Search may still use vectors of another embedder, so every available one is passed along.
    let others = EMBEDDERS.into_iter().filter(|name| *name != embed.model);
    let other_embedders = others.filter_map(|name| embedder_named(name, &embed).ok()).collect();
    let tokenizer = tokenizers::tokenizer(home, &tokenizer)?;
    let store = open_store(home, sync, &store)?;
    Ok(EngineParts {
        store,
        tokenizer,
        clock: Arc::new(treering_engine::SystemClock),
        summarizer,
        fallback: Some(Arc::new(Extractive)),
        embedder,
        other_embedders,
        policy,
        work,
        spend: prices::spend_limits(spend, providers.quotas())?,
        search,
        embed_texts: embed.texts,
        exclusions,
        recall,
        index_files: Some(Arc::new(IndexFolder::new(home))),
    })
}
