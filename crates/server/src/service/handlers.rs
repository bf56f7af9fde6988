//! The operations of the service, and their result types: one function per operation, which HTTP,
//! MCP and the command line call. Blocking; [`Service::run`] calls them from async code.

use serde::Serialize;
use std::collections::BTreeMap;
use treering_core::ports::{ConversationFilter, JobEventFilter, JobFilter, Span};
use treering_core::{
    Conversation, ConversationState, Entry, GateStatus, JobState, Labels, Message, MessageIdx,
    Node, ThreadName, TurnNo, redact,
};
use treering_engine::{
    AppendReport, AppendTarget, Engine, EntryBatch, Error, ReplayDetection, WholeTurn,
};
use utoipa::ToSchema;

use super::requests::{
    AppendRequest, ChangeRequest, CreateRequest, ExpandRequest, NodesRequest, PageRequest,
    SearchRequest, SessionsRequest, StatsRequest, StatusRequest, TurnRequest, UpdateRequest,
    WorkRequest, check_entry, message_reference,
};
use super::{Service, ServiceError};
use crate::agents::read_pauses;
use crate::views::{
    ConversationPage, ConversationView, ExpandView, HitView, JobView, LineView, LogView, NodeView,
    StatsView, StatusView, TreePage, UpdateView,
};
use treering::jsonl::{self, JsonLine};

/// Search results.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchAnswer {
    /// The hits, best first.
    pub hits: Vec<HitView>,
    /// The reason the search used words only and no embeddings.
    pub words_only: Option<String>,
}

/// A page of conversations.
#[derive(Debug, Serialize, ToSchema)]
pub struct ConversationList {
    /// The conversations, latest activity first.
    pub conversations: Vec<ConversationView>,
    /// Whether there are more.
    pub more: bool,
}

/// Unfinished jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobList {
    /// The jobs, in order of execution.
    pub jobs: Vec<JobView>,
}

/// Nodes of a conversation.
#[derive(Debug, Serialize, ToSchema)]
pub struct NodeList {
    /// The nodes, in order of level and time.
    pub nodes: Vec<NodeView>,
}

/// Job log lines.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogList {
    /// The lines, oldest first.
    pub lines: Vec<LogView>,
}

/// An item of a tree, with the nodes above it and its sources.
#[derive(Debug)]
pub struct Expansion {
    /// The conversation.
    pub conversation: Conversation,
    /// The item.
    pub item: ExpandedItem,
    /// The nodes above, and the sources of a node.
    pub around: ExpandView,
}

/// The item that was expanded.
#[derive(Debug)]
pub enum ExpandedItem {
    /// A node.
    Node(Box<Node>),
    /// A message, and its turn.
    Message(Box<Message>, Vec<WholeTurn>),
    /// A conversation.
    Conversation,
}

impl Service {
    /// Finds the named conversation, or the latest one.
    pub fn named_or_latest(&self, reference: Option<&str>) -> Result<Conversation, ServiceError> {
        if let Some(reference) = reference {
            return Ok(self.engine().find(reference)?);
        }
        let latest = self.engine().listed_conversations(&ConversationFilter::all(1))?.pop();
        latest.map(|session| session.conversation).ok_or(ServiceError::NoConversations)
    }

    /// Stores entries of a remote caller atomically. Durable on return.
    pub fn append(&self, request: &AppendRequest) -> Result<AppendReport, ServiceError> {
        let target = request.target(self.engine())?;
        let now = self.engine().clock().now();
        let mut entries = Vec::with_capacity(request.entries.len());
        for (index, raw) in request.entries.iter().enumerate() {
            let unclear =
                |reason: String| ServiceError::InvalidRequest(format!("entry {index}: {reason}"));
            match jsonl::parse_line(raw.get(), now).map_err(|error| unclear(error.to_string()))? {
                JsonLine::Entries(line) => {
                    check_entry(raw, &line).map_err(|refusal| unclear(refusal.to_string()))?;
                    entries.extend(line);
                }
                JsonLine::Header | JsonLine::Conversation(_) => {
                    return Err(unclear(
                        "set conversation or key in the request, not in an entry".into(),
                    ));
                }
            }
        }
        self.store(target, entries, &request.labels)
    }

    /// Stores a turn atomically. Durable on return.
    pub fn append_turn(&self, request: TurnRequest) -> Result<AppendReport, ServiceError> {
        let (target, labels) = (request.target(self.engine())?, request.labels.clone());
        self.store(target, request.entries(self.engine().clock().now())?, &labels)
    }

    /// Stores entries atomically, and then the labels that the conversation does not have yet.
    /// Durable on return.
    pub fn store(
        &self,
        target: AppendTarget,
        entries: Vec<Entry>,
        labels: &Labels,
    ) -> Result<AppendReport, ServiceError> {
        let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
        let stored = self.engine().append(batch)?;
        let current = &stored.conversation.labels;
        if labels.iter().all(|(name, value)| current.get(name) == Some(value)) {
            return Ok(stored);
        }
        let conversation = self.engine().set_labels(stored.conversation.id, labels, &[])?;
        Ok(AppendReport { conversation, ..stored })
    }

    /// Searches messages, tool calls and nodes.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, ServiceError> {
        let answer = self.engine().search(&request.query(self.engine())?)?;
        Ok(SearchAnswer {
            hits: HitView::all(&answer.hits, self.engine())?,
            words_only: answer.lexical_only_reason,
        })
    }

    /// Reads a node or a message, and the tree around it.
    pub fn expand(&self, request: &ExpandRequest) -> Result<Expansion, ServiceError> {
        let id = request.id.as_str();
        if Engine::is_node_reference(id) {
            let (conversation, node, around) = self.expand_node(id)?;
            return Ok(Expansion { conversation, item: ExpandedItem::Node(node.into()), around });
        }
        match message_reference(id) {
            Some((slug, idx)) => self.expand_message(slug, MessageIdx(idx)),
            None => self.expand_conversation(id),
        }
    }

    /// Reads the topmost nodes of a conversation.
    fn expand_conversation(&self, reference: &str) -> Result<Expansion, ServiceError> {
        let conversation = self.engine().find(reference)?;
        let mut nodes = self.engine().tree(conversation.id)?.nodes;
        nodes.retain(|node| !node.superseded);
        nodes.sort_by_key(|node| (node.range_end, node.ordinal()));
        let down = nodes.iter().map(LineView::of).collect();
        let around = self.masked(ExpandView { up: Vec::new(), down });
        Ok(Expansion { conversation, item: ExpandedItem::Conversation, around })
    }

    /// Reads a node, the nodes above it and its sources.
    pub fn expand_node(
        &self,
        reference: &str,
    ) -> Result<(Conversation, Node, ExpandView), ServiceError> {
        let (conversation, node) = self.engine().find_node(reference)?;
        let around = ExpandView::of_node(&conversation, &node, self.engine())?;
        Ok((conversation, self.engine().recall_options().node(node), self.masked(around)))
    }

    /// Masks the secrets of the texts, if the settings say so.
    fn masked(&self, mut around: ExpandView) -> ExpandView {
        if self.engine().recall_options().mask_secrets {
            for line in around.up.iter_mut().chain(&mut around.down) {
                line.text = redact(&line.text).0.into_owned();
            }
        }
        around
    }

    fn expand_message(&self, reference: &str, idx: MessageIdx) -> Result<Expansion, ServiceError> {
        let engine = self.engine();
        let conversation = engine.find(reference)?;
        let message = self.message(&conversation, idx)?;
        let turn = Span::between(message.turn, TurnNo(message.turn.0.saturating_add(1)));
        let recall = engine.recall_options();
        let turns = engine.turns(conversation.id, turn)?;
        let turns = turns.into_iter().map(|turn| recall.turn(turn)).collect();
        let around = self.masked(ExpandView::of_message(&conversation, idx, engine)?);
        let item = ExpandedItem::Message(recall.message(message).into(), turns);
        Ok(Expansion { conversation, item, around })
    }

    /// Reads a message, as it was stored.
    pub fn message(&self, it: &Conversation, idx: MessageIdx) -> Result<Message, ServiceError> {
        let found = self.engine().messages(it.id, Span::starting(idx, 1))?.pop();
        found.filter(|found| found.idx == idx).ok_or_else(|| {
            ServiceError::NotFound(format!(
                "{} has {} messages, counted from 0; message {} does not exist",
                it.slug, it.totals.messages, idx.0
            ))
        })
    }

    /// Lists conversations, latest activity first.
    pub fn sessions(&self, request: &SessionsRequest) -> Result<ConversationList, ServiceError> {
        let limit = request.limit.unwrap_or(20);
        let states = match request.all {
            true => Vec::new(),
            false => vec![ConversationState::Open, ConversationState::Closed],
        };
        let cwd = request.cwd.as_deref().map(treering_engine::normalize_cwd);
        // Read one row more than requested to see whether there are more.
        let project = request.project_path.as_deref().map(treering_engine::normalize_cwd);
        let filter = ConversationFilter {
            cwd,
            project,
            labels: request.labels.to_vec(),
            states,
            ..ConversationFilter::sessions(limit.saturating_add(1))
        };
        let mut sessions = self.engine().listed_conversations(&filter)?;
        let more = sessions.len() > limit;
        sessions.truncate(limit);
        let recall = self.engine().recall_options();
        let view = |mut session: treering_engine::ListedConversation| {
            if let Some(title) = session.conversation.title.as_mut().filter(|_| recall.mask_secrets)
            {
                *title = redact(title).0.into_owned();
            }
            let last = session.last_message.map(|message| recall.message(message));
            ConversationView::of(&session.conversation, last.as_ref())
        };
        Ok(ConversationList { conversations: sessions.into_iter().map(view).collect(), more })
    }

    /// Creates a conversation without turns, or finds the one with the key.
    pub fn create(&self, request: &CreateRequest) -> Result<ConversationView, ServiceError> {
        let target = request.target(self.engine())?;
        let stored = self.store(target, Vec::new(), &request.labels)?;
        Ok(ConversationView::of(&stored.conversation, None))
    }

    /// Reads turns of a conversation as they are handed to a model.
    pub fn recalled_page(
        &self,
        reference: &str,
        request: &PageRequest,
    ) -> Result<ConversationPage, ServiceError> {
        let (it, recall) = (self.engine().find(reference)?, self.engine().recall_options());
        let (turns, next) = self.turns(&it, request)?;
        let turns: Vec<_> = turns.into_iter().map(|turn| recall.turn(turn)).collect();
        Ok(ConversationPage::of(&it, &turns, next))
    }

    /// Reads turns of a conversation, as they were stored.
    pub fn page(
        &self,
        reference: &str,
        request: &PageRequest,
    ) -> Result<ConversationPage, ServiceError> {
        let it = self.engine().find(reference)?;
        let (turns, next) = self.turns(&it, request)?;
        Ok(ConversationPage::of(&it, &turns, next))
    }

    /// Reads turns of a conversation, and the number of the turn that follows them.
    pub fn turns(
        &self,
        it: &Conversation,
        request: &PageRequest,
    ) -> Result<(Vec<WholeTurn>, Option<u32>), ServiceError> {
        let thread = self.thread(it, request.thread.as_deref())?;
        if let Some(last) = request.last {
            let chars = request.max_chars.unwrap_or(usize::MAX);
            return Ok((self.engine().recent_turns(it.id, thread.as_ref(), chars, last)?, None));
        }
        let span = Span::starting(TurnNo(request.from), request.limit.unwrap_or(50));
        let mut turns = self.engine().turns(it.id, span)?;
        let next = turns.last().map(|last| last.turn.no.0 + 1);
        turns.retain(|turn| thread.as_ref().is_none_or(|name| turn.turn.thread == *name));
        Ok((turns, next.filter(|next| *next < it.totals.turns)))
    }

    /// Finds a thread of a conversation by name.
    fn thread(
        &self,
        it: &Conversation,
        name: Option<&str>,
    ) -> Result<Option<ThreadName>, ServiceError> {
        let Some(name) = name else { return Ok(None) };
        let name: ThreadName = name.parse()?;
        if it.threads.iter().any(|thread| thread.name == name) {
            return Ok(Some(name));
        }
        let names: Vec<&str> = it.threads.iter().map(|thread| thread.name.as_str()).collect();
        Err(ServiceError::NotFound(format!(
            "{} has no thread {name:?}; its threads are {}",
            it.slug,
            names.join(", ")
        )))
    }

    /// Draws the tree of a conversation as an outline.
    pub fn tree(&self, reference: &str) -> Result<TreePage, ServiceError> {
        let it = self.engine().find(reference)?;
        let outline = self.engine().tree(it.id)?.outline();
        Ok(TreePage::of(&it, &outline))
    }

    /// Lists nodes of a conversation: the latest, in order or latest first.
    pub fn nodes(&self, reference: &str, request: &NodesRequest) -> Result<NodeList, ServiceError> {
        let it = self.engine().find(reference)?;
        let mut nodes = self.engine().tree(it.id)?.nodes;
        nodes.retain(|node| {
            request.level.is_none_or(|level| node.level().number() == level)
                && !(request.uncovered && node.superseded)
        });
        if request.latest_first {
            nodes.sort_by_key(|node| (node.range_end, node.level(), node.ordinal()));
        }
        nodes.drain(..nodes.len().saturating_sub(request.limit.unwrap_or(50)));
        if request.latest_first {
            nodes.reverse();
        }
        let recall = self.engine().recall_options();
        let view = |node| NodeView::of(&it, &recall.node(node));
        Ok(NodeList { nodes: nodes.into_iter().map(view).collect() })
    }

    /// Changes the title, the state or labels of a conversation.
    pub fn change(
        &self,
        reference: &str,
        request: &ChangeRequest,
    ) -> Result<ConversationView, ServiceError> {
        let mut it = self.engine().find(reference)?;
        if let Some(title) = &request.title {
            it = self.engine().rename(it.id, title)?;
        }
        if let Some(state) = request.state {
            it = self.engine().set_state(it.id, state.into())?;
        }
        if !request.labels.is_empty() {
            let (set, removed): (Vec<_>, Vec<_>) =
                request.labels.iter().partition(|(_, value)| value.is_some());
            let set =
                set.into_iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
            let set = Labels::try_from(set.collect::<BTreeMap<_, _>>())?;
            let removed: Vec<String> = removed.into_iter().map(|(name, _)| name.clone()).collect();
            it = self.engine().set_labels(it.id, &set, &removed)?;
        }
        Ok(ConversationView::of(&it, None))
    }

    /// Plans a tree update, or estimates it. Workers run the jobs.
    pub fn update(
        &self,
        conversation: &Conversation,
        request: &UpdateRequest,
    ) -> Result<UpdateView, ServiceError> {
        let update = request.update()?;
        if request.dry_run {
            let estimate = self.engine().estimate(conversation.id, &update)?;
            return Ok(UpdateView { dry_run: true, ..UpdateView::of(conversation, &estimate) });
        }
        let updated = self.engine().update(conversation.id, &update)?;
        Ok(UpdateView {
            job: Some(updated.id.to_string()),
            ..UpdateView::of(conversation, &updated.estimate)
        })
    }

    /// Counts the unfinished and the failed jobs of a conversation, up to a level. Fails while the
    /// store refuses writes, because the jobs cannot finish then.
    pub fn job_counts(
        &self,
        conversation: &Conversation,
        max_level: Option<u8>,
    ) -> Result<(u32, u32), ServiceError> {
        if let Some(failure) = self.engine().failure() {
            return Err(failure.into());
        }
        let heights = max_level.map(|level| (0, level));
        let filter = JobFilter { heights, ..JobFilter::of(conversation.id) };
        let jobs = self.engine().jobs(&filter)?;
        let failed = jobs.iter().filter(|job| job.state == JobState::Dead).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok((number(jobs.len() - failed), number(failed)))
    }

    /// Reads the status of a conversation.
    pub fn status(&self, request: &StatusRequest) -> Result<StatusView, ServiceError> {
        let it = self.named_or_latest(request.conversation.as_deref())?;
        self.status_of(&it, &self.engine().gate(it.id)?)
    }

    /// Reads the status of a conversation whose gate was read before.
    pub fn status_of(
        &self,
        it: &Conversation,
        gate: &GateStatus,
    ) -> Result<StatusView, ServiceError> {
        let mut view = StatusView::of(it, gate, self.engine())?;
        let now = self.engine().clock().now();
        let pauses = read_pauses(&treering::home_of(self.engine())?)
            .map_err(ServiceError::InvalidRequest)?;
        if let Some(pause) = pauses.iter().find(|pause| pause.contains(now)) {
            view.capture_paused = true;
            view.capture_paused_until = pause.until.map(|until| until.to_string());
        }
        Ok(view)
    }

    /// Reads the statistics of the tenant or of a conversation. Only the operator sees the size of
    /// the store, which grows with what other tenants store.
    pub fn stats(&self, request: &StatsRequest) -> Result<StatsView, ServiceError> {
        let mut view = match &request.conversation {
            None => StatsView::of(self.engine())?,
            Some(name) => StatsView::of_conversation(self.engine(), &self.engine().find(name)?)?,
        };
        view.store.bytes = view.store.bytes.filter(|_| self.is_operator());
        Ok(view)
    }

    /// Lists unfinished jobs.
    pub fn jobs(&self, request: &WorkRequest) -> Result<JobList, ServiceError> {
        let limit = request.limit.unwrap_or(50);
        let conversation =
            request.conversation.as_deref().map(|it| self.engine().find(it)).transpose()?;
        let filter = JobFilter {
            conversation: conversation.map(|it| it.id),
            id_prefix: request.job.clone(),
            ..JobFilter::all(limit)
        };
        let jobs = self.engine().jobs(&filter)?;
        Ok(JobList { jobs: JobView::all(&jobs, self.engine()) })
    }

    /// Retries failed jobs immediately: one, or all if `job` is `None`.
    pub fn retry(&self, job: Option<String>) -> Result<JobList, ServiceError> {
        let retried = self.engine().retry_jobs(job).map_err(|error| match error {
            Error::Invalid(invalid) => ServiceError::NotFound(invalid.to_string()),
            other => other.into(),
        })?;
        Ok(JobList { jobs: JobView::all(&retried, self.engine()) })
    }

    /// Reads the newest log lines.
    pub fn logs(&self, request: &WorkRequest) -> Result<LogList, ServiceError> {
        let limit = request.limit.unwrap_or(50);
        let conversation =
            request.conversation.as_deref().map(|it| self.engine().find(it)).transpose()?;
        let filter = JobEventFilter {
            conversation: conversation.map(|it| it.id),
            job_prefix: request.job.clone(),
            limit,
        };
        Ok(LogList { lines: self.engine().job_events(&filter)?.iter().map(LogView::of).collect() })
    }
}
