//! The operations on single summaries, threads and policies: one function each, which HTTP, MCP and
//! the command line call.

use treering::config::EffectiveSetting;
use treering_core::{
    Assignment, Conversation, Entry, EntryKind, ForkPoint, Labels, MessageIdx, Preset, TurnNo,
    parameters_in_force,
};
use treering_engine::AppendTarget;

use super::requests::{
    ForkRequest, PolicyRequest, StoreSummaryRequest, TurnRequest, level_of_number,
};
use super::{Service, ServiceError};
use crate::views::{NodeView, ParameterView, PolicyView, ThreadList, ThreadView, TurnSummaryView};

impl Service {
    /// Stores a summary that the caller wrote.
    pub fn store_summary(
        &self,
        reference: &str,
        request: &StoreSummaryRequest,
    ) -> Result<NodeView, ServiceError> {
        let it = self.engine().find(reference)?;
        let node = self.engine().store_summary(it.id, request.summary(self.engine())?)?;
        Ok(NodeView::of(&it, &node))
    }

    /// Summarizes a stored turn, and stores nothing.
    pub fn summarize_turn(
        &self,
        reference: &str,
        turn: u32,
    ) -> Result<TurnSummaryView, ServiceError> {
        let it = self.engine().find(reference)?;
        Ok(TurnSummaryView::of(self.engine().summarize_turn(it.id, TurnNo(turn))?))
    }

    /// Summarizes the turn of a request, and stores nothing.
    pub fn summarize_given(&self, request: TurnRequest) -> Result<TurnSummaryView, ServiceError> {
        let entries = request.entries(self.engine().clock().now())?;
        Ok(TurnSummaryView::of(self.engine().summarize_entries(&entries)?))
    }

    /// Summarizes the ungrouped nodes of a level now.
    pub fn summarize_level(&self, reference: &str, level: u8) -> Result<NodeView, ServiceError> {
        let it = self.engine().find(reference)?;
        let node = self.engine().summarize_level(it.id, level_of_number(level)?)?;
        Ok(NodeView::of(&it, &node))
    }

    /// Lists the threads of a conversation.
    pub fn threads(&self, reference: &str) -> Result<ThreadList, ServiceError> {
        Ok(ThreadList::of(&self.engine().find(reference)?))
    }

    /// Creates a thread that branches off another.
    pub fn fork(&self, reference: &str, request: &ForkRequest) -> Result<ThreadList, ServiceError> {
        let it = self.engine().find(reference)?;
        let (thread, parent) = request.names()?;
        if it.threads.iter().any(|other| other.name == thread) {
            return Err(ServiceError::InvalidRequest(format!(
                "{} has a thread {:?} already; choose another name",
                it.slug,
                thread.as_str()
            )));
        }
        let Some(base) = it.threads.iter().find(|other| other.name == parent) else {
            let names: Vec<&str> = it.threads.iter().map(|thread| thread.name.as_str()).collect();
            return Err(ServiceError::NotFound(format!(
                "{} has no thread {:?}; its threads are {}",
                it.slug,
                parent.as_str(),
                names.join(", ")
            )));
        };
        let latest = base.last_turn.as_ref().and_then(|turn| turn.until.0.checked_sub(1));
        let inherited = base.fork.as_ref().and_then(|fork| fork.after).map(|idx| idx.0);
        let after = match request.fork_at.or(latest).or(inherited) {
            Some(idx) => ForkPoint::Position(MessageIdx(idx)),
            None => ForkPoint::Start,
        };
        let entry = Entry { thread, kind: EntryKind::Fork { parent, after } };
        let stored = self.store(AppendTarget::Existing(it.id), vec![entry], &Labels::new())?;
        Ok(ThreadList::of(&stored.conversation))
    }

    /// The policy of a conversation: every parameter in force, and its origin.
    pub fn policy(&self, reference: &str) -> Result<PolicyView, ServiceError> {
        self.policy_of(&self.engine().find(reference)?)
    }

    /// Sets the policy parameters of a conversation.
    pub fn set_policy(
        &self,
        reference: &str,
        request: &PolicyRequest,
    ) -> Result<PolicyView, ServiceError> {
        let it = self.engine().find(reference)?;
        self.policy_of(&self.engine().set_policy(it.id, request.assignments()?)?)
    }

    /// Every parameter in force for a conversation, and its origin.
    pub fn policy_of(&self, it: &Conversation) -> Result<PolicyView, ServiceError> {
        let tree = &self.settings().tree;
        let preset: Preset = tree.preset.parse()?;
        let general: Vec<Assignment> =
            tree.parameters.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
        let layers = [
            (self.origin("tree.parameters"), general.as_slice()),
            ("conversation".to_owned(), it.policy.as_slice()),
        ];
        let in_force = parameters_in_force((preset, self.origin("tree.preset")), &layers)?;
        Ok(PolicyView {
            conversation: it.id.to_string(),
            slug: it.slug.clone(),
            parameters: it.policy.iter().map(ToString::to_string).collect(),
            in_force: in_force.iter().map(ParameterView::of).collect(),
        })
    }

    /// The origin of a setting. A program that builds its settings in code has none.
    fn origin(&self, key: &str) -> String {
        let is_it = |setting: &&EffectiveSetting| setting.key == key;
        let found = self.effective.iter().find(is_it);
        found.map_or_else(|| "settings".to_owned(), |setting| setting.origin.to_string())
    }
}

impl ThreadList {
    fn of(it: &Conversation) -> Self {
        Self { threads: it.threads.iter().map(ThreadView::of).collect() }
    }
}
