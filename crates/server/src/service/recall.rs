//! Recall: the context of a project that a hook injects, within a budget.

use std::time::Duration;

use treering_core::fusion::WEAK_BELOW;
use treering_core::packing::SectionSource;
use treering_core::ports::ConversationFilter;
use treering_core::{ConversationId, ConversationState, fence};
use treering_engine::{Context, ContextRequest, ContextScope, ScopeContextRequest, normalize_cwd};

use super::{Service, ServiceError};
use crate::agents::{RecallRequest, RecallTrigger};

/// The last line of every recalled context.
const MORE: &str = "From Treering, your long-term memory. Call `search` or `expand` for more; `NAME#N` is message N of a conversation.\n";

impl Service {
    /// The text that an agent gets; `None` if recall is off or the memory has nothing. It does not
    /// wait for unfinished summaries.
    pub fn recall(&self, request: &RecallRequest) -> Result<Option<String>, ServiceError> {
        let settings = &self.settings().recall;
        let folder = normalize_cwd(&request.folder);
        let is_on = settings.is_on(matches!(request.trigger, RecallTrigger::Prompt(_)));
        if !is_on || settings.is_off_in(&folder) {
            return Ok(None);
        }
        let session = match &request.key {
            // A session that starts is not stored yet.
            Some(key) => self.engine().find(key).ok().map(|found| found.id),
            None => None,
        };
        let budget = settings.budget.saturating_sub(self.engine().count_tokens(MORE));
        let context = match (&request.trigger, session) {
            (RecallTrigger::Compaction, Some(session)) => self.own_context(session, budget)?,
            (RecallTrigger::Prompt(prompt), _) => {
                self.project_context(&folder, session, budget, Some(prompt))?
            }
            _ => self.project_context(&folder, session, budget, None)?,
        };
        let is_empty = context.sections.iter().all(|section| section.items.is_empty());
        Ok((!is_empty).then(|| format!("{}{MORE}", context.markdown())))
    }

    /// The conversation that the agent has just lost from its context.
    fn own_context(&self, id: ConversationId, budget: u32) -> Result<Context, ServiceError> {
        let profile = self.settings().profile("cut")?;
        let request = ContextRequest {
            budget,
            profile,
            gate_timeout: Some(Duration::ZERO),
            ..ContextRequest::new(id)
        };
        Ok(self.engine().context(&request)?)
    }

    /// The other conversations of the project; with a prompt, only what answers it.
    fn project_context(
        &self,
        folder: &str,
        session: Option<ConversationId>,
        budget: u32,
        prompt: Option<&String>,
    ) -> Result<Context, ServiceError> {
        let mut profile = self.settings().profile("cut")?;
        if prompt.is_some() {
            profile.sections.retain(|section| section.take == SectionSource::Recall);
        }
        let filter = ConversationFilter {
            project: Some(folder.to_owned()),
            states: vec![ConversationState::Open, ConversationState::Closed],
            ..ConversationFilter::all(usize::MAX)
        };
        let name = format!("the project {}", fence::value(folder));
        let exclude = session.into_iter().collect();
        let scope = ContextScope { conversations: Vec::new(), filter, exclude, name };
        let query = prompt.cloned();
        let request =
            ScopeContextRequest { scope, query, min_score: Some(WEAK_BELOW), budget, profile };
        Ok(self.engine().scope_context(&request)?)
    }
}
