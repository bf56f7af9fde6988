//! A handle to one conversation, with builders for its contexts and agents. All state is in the
//! store.

use std::sync::Arc;
use std::time::Duration;

use treering_core::packing::Profile;
use treering_core::ports::Span;
use treering_core::{
    ChatModel, Conversation, ConversationId, ConversationState, Entry, EntryKind, ForkPoint, Label,
    Labels, Level, MessageIdx, NewMessage, Node, Role, Thread, ThreadName, TurnNo,
};
use treering_engine::{
    Agent, AgentOptions, AppendReport, AppendTarget, Context, ContextRequest, EntryBatch, Error,
    GateWait, NewSummary, ReplayDetection, Reply, TurnEmbedding, TurnSummary, WholeTurn,
};

use crate::memory::Memory;
use crate::search::SearchBuilder;
use crate::{Invalid, Result};

/// Tokens that a profile reserves for recent messages.
const RECENT_TOKENS: u32 = 2_000;

/// A handle to a conversation of a [`Memory`]. Cheap to clone.
///
/// ```
/// # let home = tempfile::tempdir()?;
/// # let memory = treering::Memory::open(home.path())?;
/// let chat = memory.conversation("support:42")?;
/// chat.turn("Which port does staging use?", "7410, since March.")?;
/// assert_eq!(chat.turns()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ConversationHandle {
    memory: Memory,
    id: ConversationId,
}

impl ConversationHandle {
    pub(crate) const fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) const fn new(memory: Memory, id: ConversationId) -> Self {
        Self { memory, id }
    }

    /// The conversation's id.
    #[must_use]
    pub const fn id(&self) -> ConversationId {
        self.id
    }

    /// The conversation's record: slug, title, totals, state.
    pub fn info(&self) -> Result<Conversation> {
        self.memory.engine().find(&self.id.to_string())
    }

    /// Stores a turn: the user's question and the assistant's answer. The turn is durable when
    /// this returns.
    pub fn turn(&self, user: &str, assistant: &str) -> Result<AppendReport> {
        let (user, assistant) =
            (self.entry(Role::User, user), self.entry(Role::Assistant, assistant));
        self.append(vec![user, assistant, Entry::turn_end(ThreadName::main())])
    }

    /// Stores one message. It is durable when this returns.
    pub fn message(&self, role: Role, text: &str) -> Result<AppendReport> {
        self.append(vec![self.entry(role, text)])
    }

    /// Stores entries: messages with their own authors, times and ids, tool calls, and forks.
    /// They are durable when this returns.
    pub fn append(&self, entries: Vec<Entry>) -> Result<AppendReport> {
        let target = AppendTarget::Existing(self.id);
        self.memory.engine().append(EntryBatch {
            target,
            entries,
            replay_detection: ReplayDetection::None,
        })
    }

    fn entry(&self, role: Role, text: &str) -> Entry {
        let now = self.memory.engine().clock().now();
        Entry::message(ThreadName::main(), NewMessage::new(role, text, now))
    }

    /// Every turn, in order.
    pub fn turns(&self) -> Result<Vec<WholeTurn>> {
        self.memory.engine().turns(self.id, Span::starting(TurnNo(0), usize::MAX))
    }

    /// The embeddings of all turns, one vector for each. Vectors that are missing are computed.
    pub fn turn_embeddings(&self) -> Result<Vec<TurnEmbedding>> {
        self.memory.engine().turn_embeddings(self.id, &self.turns()?)
    }

    /// The last turns, oldest first: at most `limit`, with at most `max_chars` characters of
    /// messages. The latest turn is always included.
    pub fn recent_turns(&self, max_chars: usize, limit: usize) -> Result<Vec<WholeTurn>> {
        self.memory.engine().recent_turns(self.id, None, max_chars, limit)
    }

    /// Characters of the messages that no summary covers yet.
    pub fn raw_history_chars(&self) -> Result<u64> {
        self.memory.engine().raw_history_chars(self.id)
    }

    /// The nodes of a level, in order. With `uncovered`, only those that no higher node covers.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert!(chat.nodes(1, false)?.is_empty(), "the window is still open");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn nodes(&self, level: u8, uncovered: bool) -> Result<Vec<Node>> {
        let mut nodes = self.memory.engine().tree(self.id)?.nodes;
        nodes.retain(|node| node.level().number() == level);
        nodes.retain(|node| !(uncovered && node.superseded));
        Ok(nodes)
    }

    /// The summary of the whole conversation while it is closed. `None` while it is open or the
    /// summary has yet to be written.
    pub fn top(&self) -> Result<Option<Node>> {
        self.memory.engine().top(&self.info()?)
    }

    /// The nodes of a level that no higher node covers, latest first, at most `limit`.
    pub fn uncovered_nodes(&self, level: u8, limit: usize) -> Result<Vec<Node>> {
        let mut nodes = self.nodes(level, true)?;
        nodes.sort_by_key(|node| std::cmp::Reverse((node.range_end, node.ordinal())));
        nodes.truncate(limit);
        Ok(nodes)
    }

    /// Stores a summary that you wrote, as the node over these turns or nodes. They must be a
    /// sealed window or group, or the first of those that nothing covers yet.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// use treering::{NewSummary, NodeContent, SummaryParents};
    ///
    /// let stored = chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let node = chat.store_summary(NewSummary {
    ///     parents: SummaryParents::Turns(vec![treering::TurnNo(0)]),
    ///     content: NodeContent { overview: "Staging uses port 7410.".into(), ..Default::default() },
    ///     turns: None,
    /// })?;
    /// assert_eq!(node.provenance.by, "caller");
    /// assert_eq!(chat.raw_history_chars()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn store_summary(&self, summary: NewSummary) -> Result<Node> {
        self.memory.engine().store_summary(self.id, summary)
    }

    /// Summarizes a turn. Stores nothing.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let summary = chat.summarize_turn(treering::TurnNo(0))?;
    /// assert!(summary.content.overview.contains("7410"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn summarize_turn(&self, turn: TurnNo) -> Result<TurnSummary> {
        self.memory.engine().summarize_turn(self.id, turn)
    }

    /// Summarizes the nodes of a level that no higher node covers, all but the last, and returns
    /// the node of the level above.
    pub fn summarize_level(&self, level: Level) -> Result<Node> {
        self.memory.engine().summarize_level(self.id, level)
    }

    /// The threads, in order of creation.
    pub fn threads(&self) -> Result<Vec<Thread>> {
        Ok(self.info()?.threads)
    }

    /// Waits until the next context has everything that critical jobs write, at most for
    /// `timeout`.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let wait = chat.wait(std::time::Duration::from_secs(10))?;
    /// assert!(wait.status.is_clear());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait(&self, timeout: Duration) -> Result<GateWait> {
        self.memory.engine().wait(self.id, timeout)
    }

    /// Creates a thread that branches off another after a message.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let (idea, main) = (treering::ThreadName::new("idea")?, treering::ThreadName::main());
    /// chat.fork(idea, main, treering::MessageIdx(1))?;
    /// assert_eq!(chat.threads()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fork(&self, thread: ThreadName, parent: ThreadName, after: MessageIdx) -> Result<()> {
        let after = ForkPoint::Position(after);
        self.append(vec![Entry { thread, kind: EntryKind::Fork { parent, after } }]).map(drop)
    }

    /// Every message, in order.
    pub fn messages(&self) -> Result<Vec<treering_core::Message>> {
        self.memory.engine().messages(self.id, Span::starting(MessageIdx(0), usize::MAX))
    }

    /// Builds a context for this conversation.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// let context = chat.context().query("why did it move?").budget(4_000).build()?;
    /// assert!(context.markdown().contains("7410"));
    /// assert!(context.receipt().tokens <= 4_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn context(&self) -> ContextBuilder<'_> {
        ContextBuilder {
            memory: &self.memory,
            request: ContextRequest::new(self.id),
            profile: None,
        }
    }

    /// Searches this conversation.
    pub fn search(&self, text: &str) -> SearchBuilder<'_> {
        self.memory.search(text).within(self)
    }

    /// Creates an agent that answers in this conversation with a model.
    ///
    /// ```no_run
    /// # let memory = treering::Memory::open("/var/lib/my-agent")?;
    /// let chat = memory.conversation("support:42")?;
    /// let agent = chat.agent(treering::models::ollama("llama3.2")?)?;
    /// println!("{}", agent.ask("Which port was it again?")?.text);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn agent(&self, model: Arc<dyn ChatModel>) -> Result<ConversationAgent> {
        self.agent_with(model, AgentOptions::default())
    }

    /// Creates an agent with its own instructions, budget or profile.
    pub fn agent_with(
        &self,
        model: Arc<dyn ChatModel>,
        options: AgentOptions,
    ) -> Result<ConversationAgent> {
        let agent = Agent::new(self.memory.engine().clone(), model, options)?;
        Ok(ConversationAgent { agent, id: self.id })
    }

    /// Changes the title, and the slug derived from it.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert_eq!(chat.rename("Staging ports")?.slug, "staging-ports");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rename(&self, title: &str) -> Result<Conversation> {
        self.memory.engine().rename(self.id, title)
    }

    /// Sets a label, and replaces the value that its name had.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// chat.set_label("user=42".parse()?)?;
    /// assert_eq!(chat.info()?.labels.get("user"), Some("42"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_label(&self, label: Label) -> Result<Conversation> {
        let mut labels = Labels::new();
        labels.set(label)?;
        self.memory.engine().set_labels(self.id, &labels, &[])
    }

    /// Removes a label by its name.
    pub fn remove_label(&self, name: &str) -> Result<Conversation> {
        self.memory.engine().set_labels(self.id, &Labels::new(), &[name.to_owned()])
    }

    /// Closes the conversation. A new message reopens it.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// assert_eq!(chat.close()?.state, treering::ConversationState::Closed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) -> Result<Conversation> {
        self.memory.engine().set_state(self.id, ConversationState::Closed)
    }
}

/// Builds a context.
#[must_use]
pub struct ContextBuilder<'a> {
    memory: &'a Memory,
    request: ContextRequest,
    profile: Option<String>,
}

impl ContextBuilder<'_> {
    /// The question that the context should help to answer.
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.request.query = Some(text.into());
        self
    }

    /// Maximum number of tokens.
    pub const fn budget(mut self, tokens: u32) -> Self {
        self.request.budget = tokens;
        self
    }

    /// The name of a profile: `cut`, `enriched`, `tiered`, `frontier`, `semantic`, `code-review` or
    /// `documentation`.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// The thread; by default the whole conversation.
    pub fn thread(mut self, thread: ThreadName) -> Self {
        self.request.thread = Some(thread);
        self
    }

    /// Builds the context as of this turn.
    pub const fn as_of(mut self, turn: TurnNo) -> Self {
        self.request.as_of = Some(turn);
        self
    }

    /// Maximum time to wait for the critical jobs of the conversation.
    pub const fn gate_timeout(mut self, timeout: Duration) -> Self {
        self.request.gate_timeout = Some(timeout);
        self
    }

    /// Builds the context.
    pub fn build(mut self) -> Result<Context> {
        if let Some(name) = self.profile {
            self.request.profile = named_profile(&name)?;
        }
        self.memory.engine().context(&self.request)
    }
}

/// A built-in profile.
pub(crate) fn named_profile(name: &str) -> Result<Profile> {
    Profile::named(name, RECENT_TOKENS).ok_or_else(|| {
        let names = Profile::NAMES.join(", ");
        let reason = format!("expected one of {names}");
        Error::Invalid(Invalid::new(format!("profile {name:?}"), reason))
    })
}

/// An agent that answers in one conversation: it waits for the gate, builds the context, calls
/// the model and stores the turn.
pub struct ConversationAgent {
    agent: Agent,
    id: ConversationId,
}

impl ConversationAgent {
    /// Asks the model, and stores the question and the answer.
    pub fn ask(&self, text: &str) -> Result<Reply> {
        self.agent.ask(self.id, text)
    }

    /// Like [`ask`](Self::ask), but passes the answer to `on_text` as it is generated.
    pub fn ask_streaming(&self, text: &str, on_text: &mut dyn FnMut(&str)) -> Result<Reply> {
        self.agent.ask_streaming(self.id, text, on_text)
    }
}
