//! Contexts of one conversation or over a scope. Blocking, like the other operations.

use std::time::Duration;

use treering_core::ports::ConversationFilter;
use treering_core::{Conversation, ConversationId, ConversationState, TurnNo, fence};
use treering_engine::{Context, ContextRequest, ContextScope, ScopeContextRequest, normalize_cwd};

use super::requests::{ContextParams, calling_session};
use super::{Service, ServiceError};

/// The subject of a context.
#[derive(Debug, Clone)]
pub enum ContextSubject {
    /// One conversation.
    Conversation(Box<Conversation>),
    /// Several.
    Scope(Box<ContextScope>),
}

impl ContextSubject {
    /// The conversation whose gate a context waits for.
    #[must_use]
    pub fn gated(&self) -> Option<ConversationId> {
        match self {
            Self::Conversation(conversation) => Some(conversation.id),
            Self::Scope(_) => None,
        }
    }

    /// The slug of the conversation, or the name of the scope.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Conversation(conversation) => &conversation.slug,
            Self::Scope(scope) => &scope.name,
        }
    }
}

impl Service {
    /// The engine's request for a context. It does not wait for the gate.
    pub fn context_request(
        &self,
        conversation: &Conversation,
        params: &ContextParams,
    ) -> Result<ContextRequest, ServiceError> {
        let settings = &self.settings().context;
        let profile = params.profile.as_deref().unwrap_or(&settings.profile);
        Ok(ContextRequest {
            conversation: conversation.id,
            thread: params.thread.as_deref().map(str::parse).transpose()?,
            query: params.query.clone(),
            budget: params.budget.unwrap_or(settings.budget),
            profile: self.settings().profile(profile)?,
            as_of: params.as_of.map(TurnNo),
            gate_timeout: Some(Duration::ZERO),
        })
    }

    /// The conversation or the scope that a context is about.
    pub fn context_subject(&self, params: &ContextParams) -> Result<ContextSubject, ServiceError> {
        match (&params.conversation, params.has_scope()) {
            (Some(reference), false) => {
                Ok(ContextSubject::Conversation(Box::new(self.engine().find(reference)?)))
            }
            (Some(_), true) => Err(ServiceError::InvalidRequest(
                "set `conversation`, or one of `conversations`, `project_path`, `labels` and \
                 `everything`, but not both"
                    .into(),
            )),
            (None, true) => Ok(ContextSubject::Scope(Box::new(self.context_scope(params)?))),
            (None, false) => Err(ServiceError::InvalidRequest(
                "name a conversation, or a scope: a project, labels, several conversations or \
                 everything"
                    .into(),
            )),
        }
    }

    fn context_scope(&self, params: &ContextParams) -> Result<ContextScope, ServiceError> {
        let find = |names: &[String]| -> Result<Vec<ConversationId>, ServiceError> {
            names.iter().map(|name| Ok(self.engine().find(name)?.id)).collect()
        };
        let project = params.project_path.as_deref().map(normalize_cwd);
        let labels = params.labels.to_vec();
        let mut names: Vec<String> = Vec::new();
        names.extend(project.as_ref().map(|it| format!("the project {}", fence::value(it))));
        names.extend((!labels.is_empty()).then(|| {
            let labels: Vec<String> =
                labels.iter().map(|label| fence::value(&label.to_string())).collect();
            format!("the conversations with {}", labels.join(", "))
        }));
        names.extend((!params.conversations.is_empty()).then(|| params.conversations.join(", ")));
        if names.is_empty() {
            names.push("this memory".into());
        }
        let conversations = find(&params.conversations)?;
        let mut exclude = find(&params.exclude)?;
        exclude.extend(calling_session(self.engine(), params.asked_by.as_deref(), &conversations));
        Ok(ContextScope {
            conversations,
            filter: ConversationFilter {
                project,
                labels,
                states: vec![ConversationState::Open, ConversationState::Closed],
                ..ConversationFilter::all(usize::MAX)
            },
            exclude,
            name: names.join(", "),
        })
    }

    /// Builds a context without waiting; call [`Service::wait_for_gate`] first.
    pub fn context(
        &self,
        subject: &ContextSubject,
        params: &ContextParams,
    ) -> Result<Context, ServiceError> {
        let scope = match subject {
            ContextSubject::Conversation(conversation) => {
                return Ok(self.engine().context(&self.context_request(conversation, params)?)?);
            }
            ContextSubject::Scope(scope) => (**scope).clone(),
        };
        if params.as_of.is_some() || params.thread.is_some() {
            return Err(ServiceError::InvalidRequest(
                "as_of and thread are for one conversation, not for a scope".into(),
            ));
        }
        let settings = &self.settings().context;
        let profile = params.profile.as_deref().unwrap_or(&settings.profile);
        Ok(self.engine().scope_context(&ScopeContextRequest {
            scope,
            query: params.query.clone(),
            min_score: None,
            budget: params.budget.unwrap_or(settings.budget),
            profile: self.settings().profile(profile)?,
        })?)
    }

    /// How long a context waits for the gate.
    pub fn gate_timeout(&self, params: &ContextParams) -> Duration {
        Duration::from_millis(
            params.gate_timeout_ms.unwrap_or(self.engine().work().gate_timeout_ms),
        )
    }
}
