//! Read access to trees: a conversation's nodes, the jobs that will add to them, and statistics.

use treering_core::ports::{JobEventFilter, JobFilter, LevelTotals, NodeFilter, Span};
use treering_core::{
    Conversation, ConversationId, Coverage, Invalid, Job, JobEvent, JobEventKind, JobState,
    Message, MessageIdx, Node, TreeState, events_of_update,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::gate_log;
use crate::measures::Durations;
use crate::top;
use crate::update::retried;

/// A snapshot of a conversation's tree.
#[derive(Debug, Clone)]
pub struct TreeView {
    /// The conversation.
    pub conversation: Conversation,
    /// Its nodes, in order of level and number.
    pub nodes: Vec<Node>,
    /// Its unfinished jobs, in the order in which they should run.
    pub jobs: Vec<Job>,
}

impl TreeView {
    /// The state of the tree.
    #[must_use]
    pub const fn growth(&self) -> &TreeState {
        &self.conversation.tree_state
    }

    /// The highest level that has a node.
    #[must_use]
    pub fn height(&self) -> u8 {
        self.nodes.iter().map(|node| node.level().number()).max().unwrap_or(0)
    }
}

/// Statistics of trees.
#[derive(Debug, Clone)]
pub struct TreeStats {
    /// Totals for each level that has nodes.
    pub levels: Vec<LevelTotals>,
    /// Number of waiting or running jobs.
    pub queued: u32,
    /// Number of jobs that were given up.
    pub dead: u32,
}

impl TreeStats {
    /// Share of the nodes that must be regenerated.
    #[must_use]
    pub fn dirty_ratio(&self) -> f64 {
        let nodes: u32 = self.levels.iter().map(|level| level.nodes).sum();
        let dirty: u32 = self.levels.iter().map(|level| level.dirty).sum();
        if nodes == 0 { 0.0 } else { f64::from(dirty) / f64::from(nodes) }
    }

    /// Tokens of the covered messages, and of the topmost nodes that cover them: the cost of a context
    /// without the tree and with it.
    #[must_use]
    pub fn tokens(&self) -> (u64, u64) {
        let raw = self.levels.iter().map(|level| level.uncovered_raw_tokens).sum();
        let kept = self.levels.iter().map(|level| level.uncovered_tokens).sum();
        (raw, kept)
    }

    /// How much smaller the topmost nodes are than the messages that they cover, from 0 to 1.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let (raw, kept) = self.tokens();
        if raw == 0 { 0.0 } else { 1.0 - kept as f64 / raw as f64 }
    }
}

impl Engine {
    /// The whole tree of a conversation.
    pub fn tree(&self, id: ConversationId) -> Result<TreeView> {
        let reader = self.reader()?;
        let conversation = reader.conversation(id)?.ok_or_else(|| Error::no_conversation(id))?;
        let nodes = reader.nodes(id, &NodeFilter::default())?;
        let jobs = reader.jobs(&JobFilter::of(id))?;
        Ok(TreeView { conversation, nodes, jobs })
    }

    /// Statistics of the tenant's trees, or of one conversation's tree.
    pub fn tree_stats(&self, id: Option<ConversationId>) -> Result<TreeStats> {
        let reader = self.reader()?;
        let jobs = reader.jobs(&JobFilter { conversation: id, ..JobFilter::all(usize::MAX) })?;
        let dead = jobs.iter().filter(|job| job.state == JobState::Dead).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok(TreeStats {
            levels: reader.level_totals(id)?,
            queued: number(jobs.len() - dead),
            dead: number(dead),
        })
    }

    /// The write-to-recall lag of the latest turns of the tenant or a conversation, from the log.
    pub fn recall_lag(&self, conversation: Option<ConversationId>) -> Result<Durations> {
        const LINES: usize = 1000;
        let filter = JobEventFilter { conversation, job_prefix: None, limit: LINES };
        let lines = self.reader()?.job_events(&filter)?;
        let mut lag = Durations::default();
        gate_log::recall_lags(&lines).into_iter().for_each(|elapsed| lag.add(elapsed));
        Ok(lag)
    }

    /// Number of nodes of the tenant or a conversation that a fallback wrote and the summarizer
    /// should regenerate.
    pub fn fallback_node_count(&self, id: Option<ConversationId>) -> Result<u32> {
        if self.fallback().is_some_and(|fallback| fallback.name() == self.summarizer_name()) {
            return Ok(0);
        }
        let levels = self.reader()?.level_totals(id)?;
        Ok(levels.iter().map(|level| level.fallbacks).sum())
    }

    /// The node whose id has this prefix, with its conversation.
    pub fn find_node(&self, prefix: &str) -> Result<(Conversation, Node)> {
        let reader = self.reader()?;
        let found = reader.nodes_by_id_prefix(prefix, 6)?;
        let (conversation, id) = match found.as_slice() {
            [] => return Err(Error::NodeNotFound(prefix.to_owned())),
            [(conversation, id)] => (*conversation, id.clone()),
            several => {
                let exact = several.iter().find(|(_, id)| id.as_str() == prefix);
                let Some((conversation, id)) = exact else {
                    let candidates = several.iter().map(|(_, id)| id.to_string()).collect();
                    return Err(Error::Ambiguous { reference: prefix.to_owned(), candidates });
                };
                (*conversation, id.clone())
            }
        };
        let node = reader
            .nodes(conversation, &NodeFilter { id: Some(id), ..NodeFilter::default() })?
            .pop();
        let conversation = reader.conversation(conversation)?;
        conversation.zip(node).ok_or_else(|| Error::NodeNotFound(prefix.to_owned()))
    }

    /// The children of a node in chronological order; none if it covers messages.
    pub fn children(&self, id: ConversationId, node: &Node) -> Result<Vec<Node>> {
        if node.spec.is_top() {
            return Ok(top::roots(&*self.reader()?, &self.key(id))?);
        }
        let Some(child_level) = node.level().below() else { return Ok(Vec::new()) };
        let filter =
            NodeFilter { parent: Some(Some(node.ordinal())), ..NodeFilter::at(child_level) };
        let mut children = self.reader()?.nodes(id, &filter)?;
        children.sort_by_key(|child| (child.range_end, child.ordinal()));
        Ok(children)
    }

    /// The messages that a level-1 node covers.
    pub fn messages_of(&self, id: ConversationId, node: &Node) -> Result<Vec<Message>> {
        let Coverage::Messages(window) = &node.spec.covers else { return Ok(Vec::new()) };
        let mut messages = self.messages(id, Span::between(window.from.idx, window.end()))?;
        messages.retain(|message| message.thread == window.thread);
        Ok(messages)
    }

    /// The nodes that cover a message, lowest first. A sliced message has several per level.
    pub fn ancestors_of(&self, id: ConversationId, idx: MessageIdx) -> Result<Vec<Node>> {
        let message = self.messages(id, Span::starting(idx, 1))?.pop();
        let Some(message) = message.filter(|message| message.idx == idx) else {
            return Ok(Vec::new());
        };
        let around = NodeFilter { around: Some(idx), ..NodeFilter::default() };
        let nodes = self.reader()?.nodes(id, &around)?;
        let mut over: Vec<Node> = Vec::new();
        for node in nodes {
            let covers = match &node.spec.covers {
                Coverage::Messages(window) => {
                    window.thread == message.thread && window.slice(idx, message.chars).is_some()
                }
                Coverage::Nodes(_) => over.iter().any(|child| {
                    child.level().above() == node.level() && child.parent == Some(node.ordinal())
                }),
                Coverage::Whole(_) | Coverage::Sessions(_) => true,
            };
            if covers {
                over.push(node);
            }
        }
        Ok(over)
    }

    /// Unfinished jobs, in the order in which they should run.
    pub fn jobs(&self, filter: &JobFilter) -> Result<Vec<Job>> {
        Ok(self.reader()?.jobs(filter)?)
    }

    /// The latest job events, oldest first. The id of an update selects its own event and those
    /// of all jobs that it led to.
    pub fn job_events(&self, filter: &JobEventFilter) -> Result<Vec<JobEvent>> {
        let reader = self.reader()?;
        let lines = reader.job_events(filter)?;
        let update = lines.iter().rfind(|line| line.kind == JobEventKind::Update);
        let Some(update) = update.filter(|_| filter.job_prefix.is_some()) else { return Ok(lines) };
        let mut of_conversation = JobEventFilter {
            conversation: update.conversation,
            job_prefix: None,
            ..filter.clone()
        };
        let since = loop {
            let lines = reader.job_events(&of_conversation)?;
            let start = lines.iter().position(|line| line.job == update.job);
            match start {
                None if lines.len() == of_conversation.limit => {
                    of_conversation.limit = of_conversation.limit.saturating_mul(4);
                }
                start => break lines[start.unwrap_or(0)..].to_vec(),
            }
        };
        let mut events = events_of_update(update.job, &since);
        events.drain(..events.len().saturating_sub(filter.limit));
        Ok(events)
    }

    /// Retries jobs that were given up or wait after a failure, without further delay: those whose
    /// id has this prefix, or all of them.
    pub fn retry_jobs(&self, id_prefix: Option<String>) -> Result<Vec<Job>> {
        let now = self.clock().now();
        let filter = JobFilter { id_prefix: id_prefix.clone(), ..JobFilter::all(usize::MAX) };
        let retried = self.commit_with(self.tenant_scope(), move |reader| {
            let mut jobs = reader.jobs(&filter)?;
            jobs.retain(|job| job.failures > 0 && !matches!(job.state, JobState::Leased { .. }));
            let mut writes = Vec::new();
            for job in &mut jobs {
                writes.extend(retried(job, now, "hand"));
            }
            Ok((writes, jobs))
        })?;
        if let (Some(prefix), true) = (id_prefix, retried.is_empty()) {
            let reason = "no job with this id has failed; `treering jobs` lists them";
            return Err(Invalid::new(format!("job {prefix:?}"), reason).into());
        }
        Ok(retried)
    }

    /// Whether a reference may be the prefix of a node id.
    #[must_use]
    pub fn is_node_reference(reference: &str) -> bool {
        let Some(rest) = reference.strip_prefix('l') else { return false };
        let Some((level, rest)) = rest.split_once('-') else { return false };
        level.parse::<u8>().is_ok() && rest.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
    }
}
