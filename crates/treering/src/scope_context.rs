//! A builder for contexts over several conversations.

use treering_core::ports::ConversationFilter;
use treering_core::{ConversationState, Label, fence};
use treering_engine::{Context, ContextScope, Engine, ScopeContextRequest};

use crate::Result;
use crate::conversation::{ConversationHandle, named_profile};

/// The default budget, in tokens.
const BUDGET: u32 = 8000;

/// Builds a context over several conversations; all of them, unless a method restricts it.
#[must_use]
pub struct ScopeContextBuilder<'a> {
    engine: &'a Engine,
    scope: ContextScope,
    query: Option<String>,
    budget: u32,
}

impl<'a> ScopeContextBuilder<'a> {
    pub(crate) fn new(engine: &'a Engine) -> Self {
        let states = vec![ConversationState::Open, ConversationState::Closed];
        let filter = ConversationFilter { states, ..ConversationFilter::all(usize::MAX) };
        let scope = ContextScope {
            conversations: Vec::new(),
            filter,
            exclude: Vec::new(),
            name: "this memory".into(),
        };
        Self { engine, scope, query: None, budget: BUDGET }
    }

    /// Only the conversations of this folder and of those below it.
    pub fn project(mut self, folder: &str) -> Self {
        let folder = treering_engine::normalize_cwd(folder);
        self.scope.name = format!("the project {}", fence::value(&folder));
        self.scope.filter.project = Some(folder);
        self
    }

    /// Only conversations with this label. Call it again to ask for another as well.
    pub fn label(mut self, label: Label) -> Self {
        self.scope.name = format!("the conversations with {}", fence::value(&label.to_string()));
        self.scope.filter.labels.push(label);
        self
    }

    /// Only this conversation. Call it again to add another.
    pub fn within(mut self, conversation: &ConversationHandle) -> Self {
        self.scope.conversations.push(conversation.id());
        self.scope.name = "some conversations".into();
        self
    }

    /// Leaves out a conversation, such as the calling session.
    pub fn exclude(mut self, conversation: &ConversationHandle) -> Self {
        self.scope.exclude.push(conversation.id());
        self
    }

    /// The question that the context should help to answer.
    pub fn query(mut self, text: impl Into<String>) -> Self {
        self.query = Some(text.into());
        self
    }

    /// Maximum number of tokens.
    pub const fn budget(mut self, tokens: u32) -> Self {
        self.budget = tokens;
        self
    }

    /// Builds the context.
    pub fn build(self) -> Result<Context> {
        let profile = named_profile("cut")?;
        let Self { engine, scope, query, budget } = self;
        engine.scope_context(&ScopeContextRequest {
            scope,
            query,
            min_score: None,
            budget,
            profile,
        })
    }
}
