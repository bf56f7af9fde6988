//! Summaries on demand: of one turn, which is not stored, and of a level, before its group is full.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use treering_core::acceptance::Fidelity;
use treering_core::ports::{JobFilter, NodeFilter, Span};
use treering_core::{
    Conversation, ConversationId, Entry, EntryKind, Invalid, JobKind, JobState, Level, Message,
    Node, NodeContent, NodeSpec, Passage, Policy, ProviderError, SessionInfo, StoreError,
    SummaryRequest, TurnNo, Write, text,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::history::TurnItem;
use crate::summarize::{WrittenSummary, summarize_now};
use crate::summary_input::{message_passage, tool_passage};
use crate::tree_planner::{TreePlanner, policy_of};
use crate::worker::{JobScope, Worker};

/// How often a wait for a node checks for it.
const NODE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The summary of one turn. It is not stored.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnSummary {
    /// The summary.
    pub content: NodeContent,
    /// How well its facts agree with those of the turn.
    pub fidelity: Fidelity,
    /// The summarizer that wrote it.
    pub by: String,
    /// Characters of the turn's messages.
    pub source_chars: u64,
    /// Characters of the overview.
    pub chars: u32,
    /// Tokens of the overview.
    pub tokens: u32,
}

impl Engine {
    /// Summarizes a stored turn, in the style of level 1. Stores nothing.
    pub fn summarize_turn(&self, id: ConversationId, turn: TurnNo) -> Result<TurnSummary> {
        let conversation =
            self.reader()?.conversation(id)?.ok_or_else(|| Error::no_conversation(id))?;
        let span = Span::between(turn, TurnNo(turn.0.saturating_add(1)));
        let Some(mut complete) = self.turns(id, span)?.pop() else {
            let turns = conversation.totals.turns;
            let reason = format!("{} has {turns} turns, counted from 0", conversation.slug);
            return Err(Invalid::new(format!("turn {turn}"), reason).into());
        };
        complete.messages = complete.messages.into_iter().map(Message::recalled).collect();
        complete.messages.retain(|message| !message.body.forgotten);
        let passage = |item: TurnItem<'_>| match item {
            TurnItem::Message(message) => {
                Passage::Message(message_passage(&message.body, &message.body.text))
            }
            TurnItem::ToolCall(call) => Passage::Tool(tool_passage(&call.call)),
        };
        let passages = complete.items().into_iter().map(passage).collect();
        let policy = policy_of(self.policy(), &conversation)?;
        self.summarize_passages(Some(&conversation), passages, &policy)
    }

    /// Summarizes a turn that is given, in the style of level 1. Stores nothing.
    pub fn summarize_entries(&self, entries: &[Entry]) -> Result<TurnSummary> {
        let passage = |entry: &Entry| match &entry.kind {
            EntryKind::Message(message) => {
                Some(Passage::Message(message_passage(message, &message.text)))
            }
            EntryKind::ToolCall(call) => Some(Passage::Tool(tool_passage(call))),
            EntryKind::ToolResult { .. } | EntryKind::Fork { .. } | EntryKind::TurnEnd => None,
        };
        self.summarize_passages(None, entries.iter().filter_map(passage).collect(), self.policy())
    }

    fn summarize_passages(
        &self,
        conversation: Option<&Conversation>,
        passages: Vec<Passage>,
        policy: &Policy,
    ) -> Result<TurnSummary> {
        let style = policy.style(Level::FIRST);
        let times: Vec<_> = passages
            .iter()
            .filter_map(|passage| match passage {
                Passage::Message(message) => Some(message.at),
                _ => None,
            })
            .collect();
        let tokens = passages.iter().map(|passage| match passage {
            Passage::Message(message) => u64::from(self.count_tokens(&message.text)),
            _ => 0,
        });
        let tokens = tokens.sum();
        let session = SessionInfo {
            title: conversation.and_then(|it| it.title.clone()),
            participants: conversation.map(|it| it.participants.clone()).unwrap_or_default(),
            range: times.iter().min().copied().zip(times.iter().max().copied()),
            messages: u32::try_from(times.len()).unwrap_or(u32::MAX),
            tokens,
        };
        let (strategy, length) = (style.strategy, style.length);
        let request = SummaryRequest::new(
            Level::FIRST,
            strategy,
            length,
            style.deduplicate,
            passages,
            session,
        );
        if request.chars() == 0 {
            return Err(Invalid::new("summary of a turn", "the turn has no text").into());
        }
        let of = conversation.map(|conversation| conversation.id);
        let WrittenSummary { content, fidelity, by, .. } =
            summarize_now(self, of, &request, &Mutex::new(()))?;
        Ok(TurnSummary {
            source_chars: request.chars(),
            chars: text::chars(&content.overview),
            tokens: self.count_tokens(&content.overview),
            content,
            fidelity,
            by,
        })
    }

    /// Summarizes the ungrouped nodes of a level now, all but the last, before their group is full.
    /// Returns the node of the level above. Waits at most as long as a context waits for the gate;
    /// the job stays queued after that.
    pub fn summarize_level(&self, id: ConversationId, level: Level) -> Result<Node> {
        let (engine, key, now) = (self.clone(), self.key(id), self.clock().now());
        let spec = self.commit_with(self.scope_of(id), move |reader| {
            let Some(mut conversation) = reader.conversation(id)? else {
                let subject = format!("conversation {id}");
                return Err(StoreError::Refused(Invalid::new(subject, "it does not exist")));
            };
            let policy = policy_of(engine.policy(), &conversation)?;
            let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
            let (spec, mut writes) = planner.group_ungrouped(&mut conversation, level)?;
            planner.plan_top(&mut conversation, None, &[], &mut writes)?;
            writes.insert(0, Write::PutConversation(conversation));
            Ok((writes, spec))
        })?;
        let scope = JobScope {
            conversation: Some(id),
            only: Some(spec.level.number()),
            ..JobScope::default()
        };
        Worker::new(self.clone())?.run(&scope, &|_, _| ())?;
        self.wait_for_node(id, &spec)
    }

    /// Waits for the node of a plan, which another worker may be writing.
    fn wait_for_node(&self, id: ConversationId, spec: &NodeSpec) -> Result<Node> {
        let deadline = Instant::now() + Duration::from_millis(self.work().gate_timeout_ms);
        let ordinals = Some(Span::between(spec.ordinal, spec.ordinal + 1));
        let filter = NodeFilter { ordinals, ..NodeFilter::at(spec.level) };
        loop {
            let revision = self.store().revision();
            if let Some(node) = self.reader()?.nodes(id, &filter)?.pop() {
                return Ok(node);
            }
            let jobs = self.jobs(&JobFilter::of(id))?;
            let job = jobs.into_iter().find(|job| match &job.kind {
                JobKind::Summarize(task) => {
                    (task.level, task.ordinal) == (spec.level, spec.ordinal)
                }
                _ => false,
            });
            let Some(job) = job else {
                return Err(Error::NodeNotFound(format!("level {}", spec.level)));
            };
            if job.state == JobState::Dead || Instant::now() >= deadline {
                let reason = job.error.unwrap_or_else(|| "it is still running".to_owned());
                let reason =
                    format!("job {} has not written the summary: {reason}", job.id.short());
                return Err(Error::Provider(ProviderError::transient(reason)));
            }
            self.store().wait(revision, NODE_POLL_INTERVAL);
        }
    }
}
