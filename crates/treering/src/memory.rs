//! The entry point for programs: opens a folder, finds conversations by key, and searches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use treering_core::ports::{ConversationFilter, ScrubReport};
use treering_core::{
    AuditRecord, Conversation, Embedder, Entry, ExternalId, ForgetTarget, Label, NewConversation,
    NewMessage, Policy, Role, Summarizer, TenantId, ThreadName,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, ListedConversation, ReplayDetection, Stats, TurnSummary,
    Verification, WorkerHandle,
};

use crate::conversation::ConversationHandle;
use crate::forget::ForgetBuilder;
use crate::import::{ImportOptions, ImportReport, Importer};
use crate::scope_context::ScopeContextBuilder;
use crate::search::SearchBuilder;
use crate::{Models, Options, Result, engine_parts};

/// A memory in one folder. Cheap to clone; the clones share everything.
///
/// ```
/// # let home = tempfile::tempdir()?;
/// let memory = treering::Memory::open(home.path())?;
/// let chat = memory.conversation("support:42")?;
/// chat.turn("Which port does staging use?", "7410, since March.")?;
///
/// let hits = memory.search("staging port").limit(5).run()?;
/// assert_eq!(hits.len(), 1, "a turn is one hit");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Memory {
    engine: Engine,
    /// Writes summaries in the background until the last clone is dropped.
    _worker: Option<Arc<WorkerHandle>>,
}

impl Memory {
    /// Opens the memory in a folder with default options, and creates it if it does not exist.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// let memory = treering::Memory::open(home.path())?;
    /// assert_eq!(memory.stats()?.conversations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(home: impl AsRef<Path>) -> Result<Self> {
        Self::builder(home).open()
    }

    /// Opens the memory in a folder with your own options.
    pub fn builder(home: impl AsRef<Path>) -> MemoryBuilder {
        MemoryBuilder {
            home: home.as_ref().to_path_buf(),
            options: Options::default(),
            summarizer: None,
            embedder: None,
            background: true,
        }
    }

    /// Returns the conversation with this key, and creates it if it does not exist. The key is
    /// any text that identifies the conversation in your program.
    pub fn conversation(&self, key: &str) -> Result<ConversationHandle> {
        let external_id = Some(ExternalId::new(key)?);
        self.create(NewConversation { external_id, ..NewConversation::default() })
    }

    /// Creates a conversation without turns, with its title, working directory and project path.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// let chat = memory.create(treering::NewConversation {
    ///     cwd: Some("/srv/app".into()),
    ///     project_path: Some("/srv".into()),
    ///     ..Default::default()
    /// })?;
    /// assert_eq!(chat.turns()?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create(&self, conversation: NewConversation) -> Result<ConversationHandle> {
        let target = AppendTarget::FindOrCreate(conversation);
        let batch =
            EntryBatch { target, entries: Vec::new(), replay_detection: ReplayDetection::None };
        let appended = self.engine.append(batch)?;
        Ok(ConversationHandle::new(self.clone(), appended.conversation.id))
    }

    /// Finds a conversation by slug, key, id, or the first digits of an id.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert_eq!(memory.find("support:42")?.id(), chat.id());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self, reference: &str) -> Result<ConversationHandle> {
        Ok(ConversationHandle::new(self.clone(), self.engine.find(reference)?.id))
    }

    /// Lists at most `limit` conversations, latest activity first.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert_eq!(memory.conversations(10)?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conversations(&self, limit: usize) -> Result<Vec<Conversation>> {
        let listed = self.engine.listed_conversations(&ConversationFilter::all(limit))?;
        Ok(listed.into_iter().map(|listed| listed.conversation).collect())
    }

    /// Lists at most `limit` conversations whose working directory is this folder or lies below it,
    /// latest activity first.
    pub fn conversations_in(&self, folder: &str, limit: usize) -> Result<Vec<Conversation>> {
        let listed = self.sessions_in(folder, limit)?;
        Ok(listed.into_iter().map(|listed| listed.conversation).collect())
    }

    /// Lists at most `limit` conversations with a label, latest activity first.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// memory.conversation("support:42")?.set_label("user=42".parse()?)?;
    /// assert_eq!(memory.conversations_with(&"user=42".parse()?, 10)?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn conversations_with(&self, label: &Label, limit: usize) -> Result<Vec<Conversation>> {
        let labels = vec![label.clone()];
        let filter = ConversationFilter { labels, ..ConversationFilter::all(limit) };
        let listed = self.engine.listed_conversations(&filter)?;
        Ok(listed.into_iter().map(|listed| listed.conversation).collect())
    }

    /// Like [`conversations_in`](Self::conversations_in), each with its last message.
    pub fn sessions_in(&self, folder: &str, limit: usize) -> Result<Vec<ListedConversation>> {
        let cwd = Some(treering_engine::normalize_cwd(folder));
        let filter = ConversationFilter { cwd, ..ConversationFilter::all(limit) };
        self.engine.listed_conversations(&filter)
    }

    /// Searches all messages and their summaries.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// for hit in memory.search("staging port").within(&chat).limit(5).run()? {
    ///     println!("{:.2} {}", hit.score, hit.snippet);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search(&self, text: &str) -> SearchBuilder<'_> {
        SearchBuilder::new(&self.engine, text)
    }

    /// Builds a context over several conversations: those of a project, with a label, or all.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let context = memory.context().query("staging port").budget(1_500).build()?;
    /// assert!(context.markdown().contains("7410"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> ScopeContextBuilder<'_> {
        ScopeContextBuilder::new(&self.engine)
    }

    /// Forgets a conversation, an author, a project, a label or everything, with all that was derived from
    /// it. A later import does not bring it back.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let forget = memory.forget(treering::ForgetTarget::Conversation(chat.id()));
    /// assert_eq!(forget.preview()?.record.erased().messages, 2);
    /// forget.run()?;
    /// assert_eq!(memory.stats()?.conversations, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn forget(&self, target: ForgetTarget) -> ForgetBuilder<'_> {
        ForgetBuilder::new(&self.engine, target)
    }

    /// Erases the bytes that earlier forgets left in the files of the store.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// memory.forget(treering::ForgetTarget::Conversation(chat.id())).fast().run()?;
    /// assert_eq!(memory.scrub()?.pending, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scrub(&self) -> Result<ScrubReport> {
        crate::forget::scrub(&self.engine)
    }

    /// The latest records of what was forgotten, oldest first. They have no content.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// memory.forget(treering::ForgetTarget::Conversation(chat.id())).run()?;
    /// assert_eq!(memory.audit(10)?[0].erased().messages, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn audit(&self, limit: usize) -> Result<Vec<AuditRecord>> {
        self.engine.audit("", limit)
    }

    /// Lets an import bring back what a record of the audit lists, by its id. Nothing is restored.
    pub fn allow_return(&self, record: &str) -> Result<AuditRecord> {
        self.engine.allow_return(record)
    }

    /// Summarizes a turn that is not stored: a question and its answer. Stores nothing.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let summary = memory.summarize_turn("Which port does staging use?", "7410, since March.")?;
    /// assert!(summary.content.overview.contains("7410"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn summarize_turn(&self, user: &str, assistant: &str) -> Result<TurnSummary> {
        let at = self.engine.clock().now();
        let message =
            |role, text: &str| Entry::message(ThreadName::main(), NewMessage::new(role, text, at));
        let turn = [message(Role::User, user), message(Role::Assistant, assistant)];
        self.engine.summarize_entries(&turn)
    }

    /// Imports transcripts of other programs from files, or from folders that are searched for
    /// them. Importing a file twice changes nothing.
    pub fn import(&self, paths: &[PathBuf]) -> Result<ImportReport> {
        let runner = Importer { engine: &self.engine, options: ImportOptions::default() };
        let files = Importer::files(paths);
        runner.run(&files, |_| ())
    }

    /// Warnings about data that may be missing after damage, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.engine.warnings()
    }

    /// Statistics about the store.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert_eq!(memory.stats()?.totals.turns, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        self.engine.stats()
    }

    /// Checks every message, node and reference.
    pub fn verify(&self) -> Result<Verification> {
        self.engine.verify(|_| ())
    }

    /// Copies a consistent snapshot of the store to a file, while other processes may write.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.engine.backup(to.as_ref())
    }

    /// The memory of another tenant in the same store. Tenants are isolated from each other.
    #[must_use]
    pub fn for_tenant(&self, tenant: TenantId) -> Self {
        Self { engine: self.engine.for_tenant(tenant), _worker: self._worker.clone() }
    }

    /// The engine, which addresses everything by id.
    #[must_use]
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// Opens a memory with your own options.
///
/// ```
/// # let home = tempfile::tempdir()?;
/// let memory = treering::Memory::builder(home.path())
///     .tenant("acme".parse()?)
///     .policy(treering::Preset::Turns.into())
///     .open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct MemoryBuilder {
    home: PathBuf,
    options: Options,
    summarizer: Option<Arc<dyn Summarizer>>,
    embedder: Option<Arc<dyn Embedder>>,
    background: bool,
}

impl MemoryBuilder {
    /// Replaces all options. Call it first.
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// The tenant whose memory is opened.
    pub fn tenant(mut self, tenant: TenantId) -> Self {
        self.options.tenant = tenant;
        self
    }

    /// The policy that decides when windows and groups seal.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Your own summarizer.
    pub fn summarizer(mut self, summarizer: impl Summarizer + 'static) -> Self {
        self.summarizer = Some(Arc::new(summarizer));
        self
    }

    /// Your own embedder.
    pub fn embedder(mut self, embedder: impl Embedder + 'static) -> Self {
        self.embedder = Some(Arc::new(embedder));
        self
    }

    /// Starts no background thread. Summaries are written when a worker runs, in this process
    /// or another.
    pub fn without_background_work(mut self) -> Self {
        self.background = false;
        self
    }

    /// Opens the memory.
    pub fn open(self) -> Result<Memory> {
        let Self { home, options, summarizer, embedder, background } = self;
        let tenant = options.tenant.clone();
        let models = Models::new(options.providers.clone());
        let mut parts = engine_parts(&home, options, &models)?;
        if let Some(summarizer) = summarizer {
            parts.summarizer = summarizer;
        }
        if let Some(embedder) = embedder {
            parts.other_embedders.push(std::mem::replace(&mut parts.embedder, embedder));
        }
        let engine = Engine::new(parts, tenant);
        let worker = if background { Some(Arc::new(engine.spawn_worker()?)) } else { None };
        Ok(Memory { engine, _worker: worker })
    }
}
