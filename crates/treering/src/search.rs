//! A builder for searches.

use treering_core::{ConversationState, Label, Role, ThreadName, Timestamp};
use treering_engine::{Engine, Exclusion, Query, SearchOutcome};

use crate::Result;
use crate::conversation::ConversationHandle;

/// Maximum number of hits unless the caller sets another.
const DEFAULT_LIMIT: usize = 10;

/// Builds a search.
#[must_use]
pub struct SearchBuilder<'a> {
    engine: &'a Engine,
    query: Query,
}

impl<'a> SearchBuilder<'a> {
    pub(crate) fn new(engine: &'a Engine, text: &str) -> Self {
        Self {
            engine,
            query: Query {
                text: text.to_owned(),
                limit: DEFAULT_LIMIT,
                by_turn: true,
                ..Query::default()
            },
        }
    }

    /// Only this conversation. Call it again to add another.
    pub fn within(mut self, conversation: &ConversationHandle) -> Self {
        self.query.conversations.push(conversation.id());
        self
    }

    /// Maximum number of hits.
    pub const fn limit(mut self, hits: usize) -> Self {
        self.query.limit = hits;
        self
    }

    /// Only conversations whose working directory is this folder or lies below it.
    pub fn cwd(mut self, folder: &str) -> Self {
        self.query.cwd = Some(treering_engine::normalize_cwd(folder));
        self
    }

    /// Only conversations of this project: their working directory or their project path is this
    /// folder or lies below it.
    pub fn project(mut self, folder: &str) -> Self {
        self.query.project = Some(treering_engine::normalize_cwd(folder));
        self
    }

    /// Only conversations with this label. Call it again to ask for another as well.
    pub fn label(mut self, label: Label) -> Self {
        self.query.labels.push(label);
        self
    }

    /// Only conversations in this state. Call it again to add another.
    pub fn state(mut self, state: ConversationState) -> Self {
        self.query.states.push(state);
        self
    }

    /// Search archived conversations too. One that [`within`](Self::within) names is always
    /// searched.
    pub const fn archived(mut self) -> Self {
        self.query.archived = true;
        self
    }

    /// Leaves out a conversation, such as the calling session, some of its messages, or a role. Call
    /// it again to leave out more.
    ///
    /// ```
    /// # let home = tempfile::tempdir()?;
    /// # let memory = treering::Memory::open(home.path())?;
    /// # let chat = memory.conversation("support:42")?;
    /// # chat.turn("Which port does staging use?", "7410, since March.")?;
    /// use treering::Exclusion;
    /// let others = memory.search("staging port").exclude(Exclusion::Conversation(chat.id()));
    /// assert!(others.run()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exclude(mut self, exclusion: Exclusion) -> Self {
        self.query.exclude.push(exclusion);
        self
    }

    /// Each message and tool call is a separate hit. By default a turn is one hit, with the other
    /// items that match in [`Hit::same_turn`](crate::Hit::same_turn).
    pub const fn each_item(mut self) -> Self {
        self.query.by_turn = false;
        self
    }

    /// Only messages of this role.
    pub const fn role(mut self, role: Role) -> Self {
        self.query.role = Some(role);
        self
    }

    /// Only messages of this author.
    pub fn author(mut self, author: impl Into<String>) -> Self {
        self.query.author = Some(author.into());
        self
    }

    /// Only this thread.
    pub fn thread(mut self, thread: ThreadName) -> Self {
        self.query.thread = Some(thread);
        self
    }

    /// Only these levels: 0 for messages, 1 and up for summaries.
    pub fn levels(mut self, levels: &[u8]) -> Self {
        self.query.levels = levels.to_vec();
        self
    }

    /// Only summaries, and no messages or tool calls.
    pub fn summaries_only(mut self) -> Self {
        self.query.levels = (1..=u8::MAX).collect();
        self
    }

    /// Only nodes that list this topic, entity, identifier or tag, and the messages under such a
    /// node. Call it again to add another.
    pub fn topic(mut self, name: impl Into<String>) -> Self {
        self.query.topics.push(name.into());
        self
    }

    /// Ranks by the similarity of embeddings alone, and not by words.
    pub const fn semantic(mut self) -> Self {
        self.query.semantic = true;
        self
    }

    /// Only from this time on.
    pub const fn since(mut self, time: Timestamp) -> Self {
        self.query.since = Some(time);
        self
    }

    /// Only before this time.
    pub const fn until(mut self, time: Timestamp) -> Self {
        self.query.until = Some(time);
        self
    }

    /// Only hits with at least this score.
    pub const fn min_score(mut self, score: f32) -> Self {
        self.query.min_score = Some(score);
        self
    }

    /// Runs the search.
    pub fn run(self) -> Result<SearchOutcome> {
        self.engine.search(&self.query)
    }
}
