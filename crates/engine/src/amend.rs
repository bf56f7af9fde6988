//! Amends messages: an edit replaces the text and keeps the earlier one, and a correction marks a
//! message as wrong. Both reach every summary that covers the message.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationId, Correction, Invalid, Level, Message, MessageIdx, MessageVersion,
    Node, NodeId, NodePlace, Reader, Timestamp, TitleSource, Write, nodes_to_regenerate, title_of,
    without_private,
};

use crate::embed;
use crate::engine::Engine;
use crate::error::Result;
use crate::project::{self, RemovedNodes};
use crate::regenerate::regenerate_nodes;
use crate::tree_planner::{TreePlanner, policy_of};
use crate::worker::{JobScope, Worker};

/// A change to a stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amendment {
    /// Another text. The earlier one stays in the history until it is forgotten.
    Edit {
        /// The text.
        text: String,
        /// Whether the summaries that cover it are regenerated at once; the policy decides if `None`.
        regenerate: Option<bool>,
    },
    /// The message is wrong: it stays in the history and is never returned as true.
    Correct {
        /// The text that is returned instead; without it the message is left out.
        text: Option<String>,
    },
}

/// The result of an amendment.
#[derive(Debug, Clone)]
pub struct AmendReport {
    /// The message as it is stored now.
    pub message: Message,
    /// The nodes that cover it, from the bottom up, with their ids before.
    pub nodes: Vec<NodePlace>,
    /// Whether the nodes are regenerated; otherwise they are stale until an update.
    pub rewrites: bool,
    /// The current id of each node, in order; `None` until it is written.
    pub new_ids: Vec<Option<NodeId>>,
}

impl Engine {
    /// Amends a message. A local summarizer also regenerates the summaries, if that is asked for.
    pub fn amend(
        &self,
        id: ConversationId,
        idx: MessageIdx,
        mut amendment: Amendment,
    ) -> Result<AmendReport> {
        if let Amendment::Edit { text, .. } | Amendment::Correct { text: Some(text) } =
            &mut amendment
        {
            *text = without_private(text).0.into_owned();
            self.exclusions().clean(text);
        }
        let planner =
            AmendPlanner { engine: self.clone(), id, idx, amendment, now: self.clock().now() };
        // A correction reaches the tree of the project, too.
        let scope = self.tenant_scope();
        let mut report = self.commit_with(scope, move |reader| planner.plan(reader))?;
        self.long_message_cache().clear();
        if report.rewrites && self.is_local() {
            let scope = JobScope { conversation: Some(id), ..JobScope::default() };
            Worker::new(self.clone())?.run(&scope, &|_, _| {})?;
        }
        let reader = self.reader()?;
        for node in &report.nodes {
            let ordinals = Some(Span::between(node.ordinal, node.ordinal.saturating_add(1)));
            let filter = NodeFilter { ordinals, ..NodeFilter::at(node.level) };
            let current = reader.nodes(id, &filter)?.pop().filter(|node| !node.dirty);
            report.new_ids.push(current.map(|node| node.id));
        }
        drop(reader);
        Ok(report)
    }

    /// The earlier versions of a message, oldest first.
    pub fn message_history(
        &self,
        id: ConversationId,
        idx: MessageIdx,
    ) -> Result<Vec<MessageVersion>> {
        let span = Span::between(idx, MessageIdx(idx.0.saturating_add(1)));
        let versions = self.reader()?.versions(id, span)?;
        Ok(versions.into_iter().map(|(_, version)| version).collect())
    }
}

struct AmendPlanner {
    engine: Engine,
    id: ConversationId,
    idx: MessageIdx,
    amendment: Amendment,
    now: Timestamp,
}

impl AmendPlanner {
    fn plan(&self, reader: &dyn Reader) -> StoreResult<(Vec<Write>, AmendReport)> {
        let missing = || Invalid::new(format!("conversation {}", self.id), "it does not exist");
        let mut conversation = reader.conversation(self.id)?.ok_or_else(missing)?;
        let before = self.message(reader, &conversation)?;
        let after = self.amended(&before)?;
        let nodes = reader.nodes(self.id, &NodeFilter::default())?;
        let over = nodes_to_regenerate(&nodes, std::slice::from_ref(&before), &[]);
        let rewrites = self.rewrites(&conversation)?;
        update_conversation(&mut conversation, &before, &after);
        conversation.tree_state.outdate_windows();
        let mut tree_writes = Vec::new();
        match &self.amendment {
            Amendment::Edit { .. } => {
                tree_writes.extend(self.mark_stale(&over));
                if rewrites {
                    tree_writes.extend(self.jobs(reader, &conversation, &over)?);
                }
            }
            Amendment::Correct { .. } => {
                let target = (&mut conversation, self.now);
                regenerate_nodes(&self.engine, reader, target, &over, &mut tree_writes)?;
            }
        }
        let of_project = self.project_writes(reader, &conversation)?;
        let embeddings = embed::plan_turns(&self.engine, reader, self.id, [after.turn], self.now)?;
        let mut writes = vec![
            Write::PutConversation(conversation),
            Write::AmendMessage(self.id, Box::new(after.clone()), Some(self.now)),
        ];
        writes.extend(tree_writes);
        writes.extend(embeddings);
        writes.extend(of_project);
        let place = |node: &&Node| NodePlace {
            level: node.level(),
            ordinal: node.ordinal(),
            id: node.id.clone(),
        };
        let nodes = over.iter().map(place).collect();
        Ok((writes, AmendReport { message: after, nodes, rewrites, new_ids: Vec::new() }))
    }

    /// Updates the tree of the project. A correction removes the nodes that cover the session. An
    /// edit changes nothing until the summaries of the session are regenerated.
    fn project_writes(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
    ) -> StoreResult<Vec<Write>> {
        let mut writes: Vec<Write> =
            project::job_of(reader, conversation, self.now)?.into_iter().collect();
        if let (Amendment::Correct { .. }, Some(folder)) = (&self.amendment, conversation.folder())
        {
            let sessions = BTreeSet::from([self.id]);
            let over = RemovedNodes::over(&self.engine, reader, folder, &sessions, self.now)?;
            writes.extend(over.writes);
        }
        Ok(writes)
    }

    fn message(&self, reader: &dyn Reader, conversation: &Conversation) -> StoreResult<Message> {
        let subject = || format!("message {} of {}", self.idx, conversation.slug);
        let span = Span::between(self.idx, MessageIdx(self.idx.0.saturating_add(1)));
        let Some(message) = reader.messages(self.id, span)?.pop() else {
            let reason =
                format!("it has {} messages, counted from 0", conversation.totals.messages);
            return Err(Invalid::new(subject(), reason).into());
        };
        match message.body.forgotten {
            true => Err(Invalid::new(subject(), "it was forgotten").into()),
            false => Ok(message),
        }
    }

    /// The message after the amendment. Refuses an amendment that changes nothing.
    fn amended(&self, before: &Message) -> StoreResult<Message> {
        let refused =
            |reason: &str| Err(Invalid::new(format!("message {}", self.idx), reason).into());
        let mut after = before.clone();
        match &self.amendment {
            Amendment::Edit { text, .. } if text.trim().is_empty() => {
                refused("the new text is empty; forget the message instead")
            }
            Amendment::Edit { text, .. } => {
                if *text == before.body.text && before.body.correction.is_none() {
                    return refused("it already has this text");
                }
                after.set_content(text.clone(), None, Some(self.engine.count_tokens(text)));
                (after.body.edited_at, after.body.correction) = (Some(self.now), None);
                Ok(after)
            }
            Amendment::Correct { text: Some(text) } if text.trim().is_empty() => {
                refused("the correction is empty; leave it away to mark the message as wrong")
            }
            Amendment::Correct { text } => {
                if before.body.correction.as_ref().is_some_and(|it| it.text == *text) {
                    return refused("it is already marked as wrong");
                }
                after.body.correction = Some(Correction { at: self.now, text: text.clone() });
                Ok(after)
            }
        }
    }

    fn rewrites(&self, conversation: &Conversation) -> StoreResult<bool> {
        match &self.amendment {
            Amendment::Edit { regenerate: Some(regenerate), .. } => Ok(*regenerate),
            Amendment::Edit { regenerate: None, .. } => {
                Ok(policy_of(self.engine.policy(), conversation)?.regenerate_on_edit)
            }
            Amendment::Correct { .. } => Ok(true),
        }
    }

    fn mark_stale(&self, over: &[&Node]) -> Vec<Write> {
        let mut by_level: BTreeMap<Level, Vec<u32>> = BTreeMap::new();
        for node in over {
            by_level.entry(node.level()).or_default().push(node.ordinal());
        }
        let mark = |(level, ordinals)| Write::MarkDirty(self.id, level, ordinals);
        by_level.into_iter().map(mark).collect()
    }

    /// The jobs that regenerate stale nodes. The top follows once the others are written.
    fn jobs(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
        over: &[&Node],
    ) -> StoreResult<Vec<Write>> {
        let policy = policy_of(self.engine.policy(), conversation)?;
        let (key, now) = (self.engine.key(self.id), self.now);
        let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
        let others = over.iter().filter(|node| !node.spec.is_top());
        Ok(planner.jobs(others.map(|node| node.spec.clone()).collect()))
    }
}

/// Updates the size of the conversation, and a title that quotes the message.
fn update_conversation(conversation: &mut Conversation, before: &Message, after: &Message) {
    let totals = &mut conversation.totals;
    totals.chars = totals.chars + u64::from(after.chars) - u64::from(before.chars);
    totals.tokens = totals.tokens + u64::from(after.tokens) - u64::from(before.tokens);
    let is_quoted = conversation.title_source == TitleSource::FirstMessage
        && conversation.title == title_of(&before.body.text);
    if is_quoted {
        conversation.title = title_of(&after.body.text).or_else(|| conversation.title.take());
    }
}
