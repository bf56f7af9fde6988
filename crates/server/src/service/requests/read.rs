//! Requests that read: search, contexts, listings, pages and single items.

use serde::Deserialize;
use treering_engine::{Engine, Query, normalize_cwd};
use utoipa::{IntoParams, ToSchema};

use super::{
    MAX_BUDGET_TOKENS, MAX_CONTEXT_QUERY_CHARS, MAX_GATE_TIMEOUT_MS, MAX_HITS, MAX_ITEM_CHARS,
    MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_QUERY_CHARS, MAX_ROWS, RequestLimits,
    RoleName, StateName, check_length, check_lengths, check_limit, check_range,
};
use crate::service::ServiceError;

/// A search query and its filters.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRequest {
    /// A question or keywords.
    #[schema(min_length = 1, max_length = 4000)]
    pub query: String,
    /// Only these conversations: slugs, ids or id prefixes.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub conversations: Vec<String>,
    /// Only conversations in this folder or below it.
    #[schema(max_length = 4096)]
    pub cwd: Option<String>,
    /// Only conversations of this project: in this folder or below it, or with such a project path.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// Only this thread.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Only messages by this author.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Only messages in this role.
    pub role: Option<RoleName>,
    /// Only conversations in these states.
    #[serde(default)]
    #[schema(max_items = 3)]
    pub states: Vec<StateName>,
    /// Only these levels: 0 for messages and tool calls, 1 and above for nodes.
    #[serde(default)]
    #[schema(max_items = 10)]
    pub levels: Vec<u8>,
    /// Only from this date on, such as 2026-03-02 or 2026-03-02T08:41:00Z.
    #[schema(max_length = 40)]
    pub since: Option<String>,
    /// Only before this date.
    #[schema(max_length = 40)]
    pub until: Option<String>,
    /// `false`: summaries only; `true`: also messages and tool calls, whatever `levels` says.
    #[serde(alias = "includeTurns")]
    pub include_turns: Option<bool>,
    /// Only summaries with one of these topics, entities or tags, and their messages.
    #[serde(default)]
    #[schema(max_items = 20)]
    pub topics: Vec<String>,
    /// Rank by meaning alone, not by words.
    #[serde(default)]
    pub semantic: bool,
    /// Maximum number of hits.
    #[serde(alias = "maxResults")]
    #[schema(minimum = 1, maximum = 100, default = 10)]
    pub limit: Option<usize>,
    /// Minimum score, from 0 to 1. Default: 0.02, or 0 for a semantic search.
    #[schema(minimum = 0, maximum = 1)]
    pub min_score: Option<f32>,
}

impl SearchRequest {
    /// Validates the request and builds the engine's query.
    pub fn query(&self, engine: &Engine) -> Result<Query, ServiceError> {
        if self.query.trim().is_empty() {
            return Err(ServiceError::InvalidRequest(
                "the query is empty; enter a question or keywords".into(),
            ));
        }
        if self.min_score.is_some_and(|score| !(0.0..=1.0).contains(&score)) {
            return Err(ServiceError::InvalidRequest("min_score must be from 0 to 1".into()));
        }
        let conversations =
            self.conversations.iter().map(|it| engine.find(it).map(|found| found.id));
        Ok(Query {
            text: self.query.clone(),
            conversations: conversations.collect::<Result<_, _>>()?,
            cwd: self.cwd.as_deref().map(normalize_cwd),
            project: self.project_path.as_deref().map(normalize_cwd),
            states: self.states.iter().copied().map(Into::into).collect(),
            thread: self.thread.as_deref().map(str::parse).transpose()?,
            author: self.author.clone(),
            role: self.role.map(Into::into),
            levels: self.wanted_levels()?,
            since: self.since.as_deref().map(str::parse).transpose()?,
            until: self.until.as_deref().map(str::parse).transpose()?,
            topics: self.topics.clone(),
            semantic: self.semantic,
            limit: self.limit.unwrap_or(10),
            min_score: self.min_score,
        })
    }

    /// The levels to search; all if empty.
    fn wanted_levels(&self) -> Result<Vec<u8>, ServiceError> {
        let mut levels = self.levels.clone();
        match self.include_turns {
            None => {}
            Some(true) if levels.is_empty() || levels.contains(&0) => {}
            Some(true) => levels.push(0),
            Some(false) if levels.is_empty() => levels.extend(1..=u8::MAX),
            Some(false) => {
                levels.retain(|level| *level > 0);
                if levels.is_empty() {
                    return Err(ServiceError::InvalidRequest(
                        "levels names turns only, and include_turns leaves them out".into(),
                    ));
                }
            }
        }
        Ok(levels)
    }
}

impl RequestLimits for SearchRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("query", Some(&self.query), MAX_QUERY_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
        ])?;
        check_range("the number of conversations", self.conversations.len(), 0, 50)?;
        check_range("the number of levels", self.levels.len(), 0, 10)?;
        check_range("the number of states", self.states.len(), 0, 3)?;
        check_range("the number of topics", self.topics.len(), 0, 20)?;
        for topic in &self.topics {
            check_length("a topic", topic, MAX_NAME_CHARS)?;
        }
        check_limit(self.limit, MAX_HITS)
    }
}

/// Parameters of a context.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextParams {
    /// Slug, id or id prefix; default: the latest conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// The current question; without it, a general context.
    #[schema(max_length = 16000)]
    pub query: Option<String>,
    /// Maximum number of tokens; default: the setting `context.budget`.
    #[schema(minimum = 128, maximum = 2000000)]
    pub budget: Option<u32>,
    /// Profile: `cut`, `enriched`, `tiered`, `frontier`, `semantic`, `code-review`,
    /// `documentation`, or a custom one.
    #[schema(max_length = 100)]
    pub profile: Option<String>,
    /// Build the context as of this turn, counted from 0.
    pub as_of: Option<u32>,
    /// The thread; default: the whole conversation.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Maximum wait for unfinished summaries, in milliseconds. Raw messages replace those still
    /// unfinished.
    #[schema(maximum = 600000)]
    pub gate_timeout_ms: Option<u64>,
    /// The format of the response.
    #[serde(default)]
    pub format: ContextFormat,
}

impl RequestLimits for ContextParams {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("query", self.query.as_ref(), MAX_CONTEXT_QUERY_CHARS),
            ("profile", self.profile.as_ref(), MAX_KEY_CHARS),
        ])?;
        check_range(
            "gate_timeout_ms",
            self.gate_timeout_ms.unwrap_or(0) as usize,
            0,
            MAX_GATE_TIMEOUT_MS,
        )?;
        check_range("budget", self.budget.unwrap_or(128) as usize, 128, MAX_BUDGET_TOKENS)
    }
}

/// The format of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContextFormat {
    /// Markdown, in `text`.
    #[default]
    Markdown,
    /// Chat API messages, in `messages`.
    Messages,
    /// Structured items, in `preamble` and `sections`.
    Json,
}

/// Filters for a listing of conversations.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct SessionsRequest {
    /// Only conversations in this folder or below it.
    #[schema(max_length = 4096)]
    #[param(max_length = 4096)]
    pub cwd: Option<String>,
    /// Only conversations of this project: in this folder or below it, or with such a project path.
    #[serde(alias = "projectPath")]
    #[schema(max_length = 4096)]
    #[param(max_length = 4096)]
    pub project_path: Option<String>,
    /// Include archived conversations.
    pub all: bool,
    /// Maximum number of results.
    #[schema(minimum = 1, maximum = 500, default = 20)]
    #[param(minimum = 1, maximum = 500, default = 20)]
    pub limit: Option<usize>,
}

impl RequestLimits for SessionsRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)?;
        check_lengths([
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
        ])
    }
}

/// A range of turns.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct PageRequest {
    /// The first turn, counted from 0.
    pub from: u32,
    /// Maximum number of turns.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
    /// Read this many of the last turns instead.
    #[param(minimum = 1, maximum = 500)]
    pub last: Option<usize>,
    /// Maximum characters of the last turns; the latest turn is always read.
    #[serde(alias = "maxChars")]
    pub max_chars: Option<usize>,
    /// Only this thread.
    #[param(max_length = 100)]
    pub thread: Option<String>,
}

impl RequestLimits for PageRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        if self.last.is_some() && self.from > 0 {
            return Err(ServiceError::InvalidRequest("set either from or last, not both".into()));
        }
        if self.max_chars.is_some() && self.last.is_none() {
            return Err(ServiceError::InvalidRequest("max_chars needs last".into()));
        }
        check_limit(self.last, MAX_ROWS)?;
        check_limit(self.limit, MAX_ROWS)
    }
}

/// Selects the nodes of a conversation.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct NodesRequest {
    /// Only this level.
    #[param(minimum = 1, maximum = 8)]
    pub level: Option<u8>,
    /// Only nodes that no higher node covers.
    pub uncovered: bool,
    /// The latest node first.
    #[serde(alias = "latestFirst")]
    pub latest_first: bool,
    /// Maximum number of nodes; the latest are returned.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

impl RequestLimits for NodesRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)
    }
}

/// An item of a tree to expand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpandRequest {
    /// A node such as `l1-3f9a…`, a message such as `my-chat#42`, or a conversation, whose topmost
    /// nodes are read.
    #[schema(min_length = 1, max_length = 300)]
    pub id: String,
}

impl RequestLimits for ExpandRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("id", Some(&self.id), MAX_ITEM_CHARS)])
    }
}
