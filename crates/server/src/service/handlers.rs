//! The operations of the service, and their result types. Blocking; [`Service::run`] calls them
//! from async code.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use treering_core::ports::{ConversationFilter, JobEventFilter, JobFilter, Span};
use treering_core::{Conversation, ConversationState, Entry, TurnNo};
use treering_engine::{AppendReport, Context, ContextRequest, Engine, EntryBatch, ReplayDetection};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::requests::{
    AppendRequest, ChangeRequest, ContextFormat, ContextParams, MAX_ENTRIES, MAX_KEY_CHARS,
    MAX_NAME_CHARS, MAX_ROWS, MAX_TEXT_CHARS, MAX_TOOL_CALLS, PageRequest, SearchRequest,
    SessionsRequest, UpdateRequest, WorkRequest, check_entry, within,
};
use super::{Service, ServiceError};
use crate::context_view::{ChatView, ContextView, SectionView, chat_messages};
use crate::views::{
    ConversationPage, ConversationView, HitView, JobView, LogView, StatusView, ThreadView,
    TurnView, UpdateView,
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

/// Job log lines.
#[derive(Debug, Serialize, ToSchema)]
pub struct LogList {
    /// The lines, oldest first.
    pub lines: Vec<LogView>,
}

/// A context, in the requested format.
#[derive(Debug, Serialize, ToSchema)]
pub struct ContextAnswer {
    /// The context as Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The context as chat API messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<ChatView>>,
    /// The text above all sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preamble: Option<String>,
    /// The sections, in order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sections: Option<Vec<SectionView>>,
    /// The receipt: every item, the reason for it, and the omissions.
    #[schema(value_type = Object)]
    pub receipt: treering_core::Receipt,
}

impl ContextAnswer {
    fn of(context: Context, format: ContextFormat) -> Self {
        let mut answer = Self {
            text: None,
            messages: None,
            preamble: None,
            sections: None,
            receipt: Default::default(),
        };
        match format {
            ContextFormat::Markdown => answer.text = Some(context.markdown()),
            ContextFormat::Messages => answer.messages = Some(chat_messages(&context)),
            ContextFormat::Json => {
                let view = ContextView::of(&context);
                (answer.preamble, answer.sections) = (Some(view.preamble), Some(view.sections));
            }
        }
        answer.receipt = context.receipt;
        answer
    }
}

impl Service {
    /// Finds the named conversation, or the latest one.
    pub fn named_or_latest(&self, reference: Option<&str>) -> Result<Conversation, ServiceError> {
        if let Some(reference) = reference {
            return Ok(self.memory().find(reference)?);
        }
        let latest = self.memory().listed_conversations(&ConversationFilter::all(1))?.pop();
        latest
            .map(|session| session.conversation)
            .ok_or_else(|| ServiceError::NotFound("there are no conversations yet".into()))
    }

    /// Stores entries atomically. Durable on return.
    pub fn append(&self, request: &AppendRequest) -> Result<AppendReport, ServiceError> {
        within("the number of entries", request.entries.len(), 1, MAX_ENTRIES)?;
        append_checked(self.memory(), request, check_entry)
    }

    /// Searches messages, tool calls and nodes.
    pub fn search(&self, request: &SearchRequest) -> Result<SearchAnswer, ServiceError> {
        let answer = self.memory().search(&request.query(self.memory())?)?;
        Ok(SearchAnswer {
            hits: HitView::all(&answer.hits, self.memory())?,
            words_only: answer.lexical_only_reason,
        })
    }

    /// Builds a context without waiting; call [`Service::wait_for_gate`] first.
    pub fn context(
        &self,
        id: &Conversation,
        ask: &ContextParams,
    ) -> Result<ContextAnswer, ServiceError> {
        ask.check()?;
        let settings = &self.settings().context;
        let request = ContextRequest {
            conversation: id.id,
            thread: ask.thread.as_deref().map(str::parse).transpose()?,
            query: ask.query.clone(),
            budget: ask.budget.unwrap_or(settings.budget),
            profile: self
                .settings()
                .profile(ask.profile.as_deref().unwrap_or(&settings.profile))?,
            as_of: ask.as_of.map(TurnNo),
            gate_timeout: Some(Duration::ZERO),
        };
        Ok(ContextAnswer::of(self.memory().context(&request)?, ask.format))
    }

    /// How long a context waits for the gate.
    pub fn gate_timeout(&self, ask: &ContextParams) -> Duration {
        Duration::from_millis(ask.patience_ms.unwrap_or(self.memory().work().gate_timeout_ms))
    }

    /// Lists conversations, latest activity first.
    pub fn sessions(&self, request: &SessionsRequest) -> Result<ConversationList, ServiceError> {
        request.check()?;
        let limit = within("limit", request.limit.unwrap_or(20), 1, MAX_ROWS)?;
        let states = match request.all {
            true => Vec::new(),
            false => vec![ConversationState::Open, ConversationState::Closed],
        };
        let cwd = request.cwd.as_deref().map(treering_engine::normalize_cwd);
        // Read one row more than requested to see whether there are more.
        let filter = ConversationFilter { cwd, states, after: None, limit: limit + 1 };
        let mut sessions = self.memory().listed_conversations(&filter)?;
        let more = sessions.len() > limit;
        sessions.truncate(limit);
        let view = |session: &treering_engine::ListedConversation| {
            ConversationView::of(&session.conversation, session.last_message.as_ref())
        };
        Ok(ConversationList { conversations: sessions.iter().map(view).collect(), more })
    }

    /// Reads turns of a conversation.
    pub fn page(
        &self,
        reference: &str,
        request: &PageRequest,
    ) -> Result<ConversationPage, ServiceError> {
        let limit = within("limit", request.limit.unwrap_or(50), 1, MAX_ROWS)?;
        let it = self.memory().find(reference)?;
        let turns = self.memory().turns(it.id, Span::starting(TurnNo(request.from), limit))?;
        let next =
            turns.last().map(|last| last.turn.no.0 + 1).filter(|next| *next < it.totals.turns);
        Ok(ConversationPage {
            conversation: ConversationView::of(&it, None),
            threads: it.threads.iter().map(ThreadView::of).collect(),
            turns: turns.iter().map(TurnView::of).collect(),
            next,
        })
    }

    /// Changes the title or the state of a conversation.
    pub fn change(
        &self,
        reference: &str,
        request: &ChangeRequest,
    ) -> Result<ConversationView, ServiceError> {
        request.check()?;
        let mut it = self.memory().find(reference)?;
        if let Some(title) = &request.title {
            it = self.memory().rename(it.id, title)?;
        }
        if let Some(state) = request.state {
            it = self.memory().set_state(it.id, state.into())?;
        }
        Ok(ConversationView::of(&it, None))
    }

    /// Plans a tree update, or estimates it. Workers run the jobs.
    pub fn update(
        &self,
        reference: &str,
        request: &UpdateRequest,
    ) -> Result<UpdateView, ServiceError> {
        let it = self.memory().find(reference)?;
        let update = request.update()?;
        if request.dry_run {
            let estimate = self.memory().estimate(it.id, &update)?;
            return Ok(UpdateView { dry_run: true, ..UpdateView::of(&it, &estimate) });
        }
        let updated = self.memory().update(it.id, &update)?;
        Ok(UpdateView {
            job: Some(updated.id.to_string()),
            ..UpdateView::of(&it, &updated.estimate)
        })
    }

    /// Reads the status of a conversation.
    pub fn status(&self, reference: Option<&str>) -> Result<StatusView, ServiceError> {
        let it = self.named_or_latest(reference)?;
        Ok(StatusView::of(&it, &self.memory().gate(it.id)?, self.memory())?)
    }

    /// Lists unfinished jobs.
    pub fn jobs(&self, request: &WorkRequest) -> Result<JobList, ServiceError> {
        request.check()?;
        let limit = within("limit", request.limit.unwrap_or(50), 1, MAX_ROWS)?;
        let conversation =
            request.conversation.as_deref().map(|it| self.memory().find(it)).transpose()?;
        let filter = JobFilter {
            conversation: conversation.map(|it| it.id),
            id_prefix: request.job.clone(),
            ..JobFilter::all(limit)
        };
        let jobs = self.memory().jobs(&filter)?;
        Ok(JobList { jobs: JobView::all(&jobs, self.memory()) })
    }

    /// Retries failed jobs immediately: one, or all if `job` is `None`.
    pub fn retry(&self, job: Option<String>) -> Result<JobList, ServiceError> {
        if let Some(job) = &job {
            let filter = JobFilter { id_prefix: Some(job.clone()), ..JobFilter::all(1) };
            if self.memory().jobs(&filter)?.is_empty() {
                return Err(ServiceError::NotFound(format!("no unfinished job matches {job:?}")));
            }
        }
        let retried = self.memory().retry_jobs(job)?;
        Ok(JobList { jobs: JobView::all(&retried, self.memory()) })
    }

    /// Reads the newest log lines.
    pub fn logs(&self, request: &WorkRequest) -> Result<LogList, ServiceError> {
        request.check()?;
        let limit = within("limit", request.limit.unwrap_or(50), 1, MAX_ROWS)?;
        let conversation =
            request.conversation.as_deref().map(|it| self.memory().find(it)).transpose()?;
        let filter = JobEventFilter {
            conversation: conversation.map(|it| it.id),
            job_prefix: request.job.clone(),
            limit,
        };
        Ok(LogList { lines: self.memory().job_events(&filter)?.iter().map(LogView::of).collect() })
    }
}

/// Stores entries that this program built itself, without size limits. Atomic, and durable on
/// return.
pub fn append(memory: &Engine, request: &AppendRequest) -> Result<AppendReport, ServiceError> {
    append_checked(memory, request, |_, _| Ok(()))
}

fn append_checked(
    memory: &Engine,
    request: &AppendRequest,
    check: fn(&RawValue, &[Entry]) -> Result<(), ServiceError>,
) -> Result<AppendReport, ServiceError> {
    let target = request.target(memory)?;
    let now = memory.clock().now();
    let mut entries = Vec::with_capacity(request.entries.len());
    for (place, raw) in request.entries.iter().enumerate() {
        let unclear = |why: String| ServiceError::InvalidRequest(format!("entry {place}: {why}"));
        match jsonl::parse_line(raw.get(), now).map_err(|error| unclear(error.to_string()))? {
            JsonLine::Entries(line) => {
                check(raw, &line).map_err(|refusal| unclear(refusal.to_string()))?;
                entries.extend(line);
            }
            JsonLine::Header | JsonLine::Conversation(_) => {
                return Err(unclear(
                    "set conversation or key in the request, not in an entry".into(),
                ));
            }
        }
    }
    Ok(memory.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })?)
}

/// The schema of entries: the two most common forms that [`jsonl::parse_line`] reads.
pub(super) fn entries_schema() -> RefOr<Schema> {
    let text = |about: &str, longest: usize| serde_json::json!({ "type": "string", "maxLength": longest, "description": about });
    let external_id = serde_json::json!({ "type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS,
        "description": "Id at the source; an entry is stored only once." });
    let call = serde_json::json!({
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS,
                "description": "The tool's name." },
            "args": { "type": "object", "description": "The arguments." },
            "result": { "description": "The result, as any JSON." },
            "success": { "type": "boolean" },
            "external_id": external_id,
        },
    });
    let turn = serde_json::json!({
        "type": "object",
        "description": "A complete turn.",
        "required": ["type", "user"],
        "properties": {
            "type": { "type": "string", "enum": ["turn"] },
            "user": text("The user's message.", MAX_TEXT_CHARS),
            "assistant": text("The assistant's answer.", MAX_TEXT_CHARS),
            "tool_calls": { "type": "array", "maxItems": MAX_TOOL_CALLS, "items": call,
                "description": "Tool calls in between." },
            "external_id": external_id,
        },
    });
    let message = serde_json::json!({
        "type": "object",
        "description": "One message.",
        "required": ["type", "role", "text"],
        "properties": {
            "type": { "type": "string", "enum": ["message"] },
            "role": { "type": "string", "enum": ["user", "assistant", "system", "tool"] },
            "text": text("The message text.", MAX_TEXT_CHARS),
            "author": text("The author.", MAX_NAME_CHARS),
            "external_id": external_id,
        },
    });
    let schema = serde_json::json!({
        "type": "array",
        "minItems": 1,
        "maxItems": MAX_ENTRIES,
        "items": { "oneOf": [turn, message] },
        "description": "Turns, messages, tool calls and results, in the JSON form that \
            `treering append` reads. Each entry also accepts `at` (a date) and `thread`.",
    });
    serde_json::from_value(schema).map_or_else(|_| RefOr::T(Schema::default()), RefOr::T)
}
