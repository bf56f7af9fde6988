//! Requests that read: search, contexts, listings, pages and single items.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use treering_core::{ConversationId, Labels, MessageIdx};
use treering_engine::{Engine, Exclusion, Query, normalize_cwd};
use utoipa::{IntoParams, ToSchema};

use super::{
    MAX_BUDGET_TOKENS, MAX_CONTEXT_QUERY_CHARS, MAX_GATE_TIMEOUT_MS, MAX_HITS, MAX_ITEM_CHARS,
    MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_PATH_CHARS, MAX_QUERY_CHARS, MAX_ROWS, RequestLimits,
    RoleName, StateName, check_length, check_lengths, check_limit, check_range, level_of_number,
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
    /// Only conversations with these labels, such as `{"user": "42", "source": "codex"}`.
    #[serde(default, alias = "label", deserialize_with = "label_filter")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// Only this thread.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: Option<String>,
    /// Only messages by this author.
    #[schema(max_length = 200)]
    pub author: Option<String>,
    /// Only messages in this role.
    pub role: Option<RoleName>,
    /// Only conversations in these states; default: open and closed ones.
    #[serde(default)]
    #[schema(max_items = 3)]
    pub states: Vec<StateName>,
    /// Search archived conversations too. Conversations that you name are always searched.
    #[serde(default)]
    pub archived: bool,
    /// Leave out these conversations, such as `my-chat`, or messages, such as `my-chat#40..55`,
    /// `my-chat#40..` or `my-chat#40`.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub exclude: Vec<String>,
    /// Leave out messages with these roles; `tool` includes tool calls.
    #[serde(default)]
    #[schema(max_items = 4)]
    pub exclude_roles: Vec<RoleName>,
    /// The calling session: slug, key, id, or the first digits of an id. It is left out unless
    /// `conversations` names it. It need not exist.
    #[schema(max_length = 200)]
    pub asked_by: Option<String>,
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
    /// Return each message and tool call as a separate hit. By default a turn is one hit.
    #[serde(default)]
    pub each_item: bool,
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
        let conversations: Vec<ConversationId> = conversations.collect::<Result<_, _>>()?;
        let exclude = self.exclusions(engine, &conversations)?;
        Ok(Query {
            text: self.query.clone(),
            conversations,
            archived: self.archived,
            exclude,
            by_turn: !self.each_item,
            cwd: self.cwd.as_deref().map(normalize_cwd),
            project: self.project_path.as_deref().map(normalize_cwd),
            labels: self.labels.to_vec(),
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

    fn exclusions(
        &self,
        engine: &Engine,
        named: &[ConversationId],
    ) -> Result<Vec<Exclusion>, ServiceError> {
        let exclude = self.exclude.iter().map(|text| exclusion(engine, text));
        let mut exclude = exclude.collect::<Result<Vec<_>, _>>()?;
        exclude.extend(self.exclude_roles.iter().map(|role| Exclusion::Role((*role).into())));
        let calling_session = calling_session(engine, self.asked_by.as_deref(), named);
        exclude.extend(calling_session.map(Exclusion::Conversation));
        Ok(exclude)
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
                        "levels is [0], which means turns only, but include_turns is false; change one of \
                         them".into(),
                    ));
                }
            }
        }
        Ok(levels)
    }
}

/// The calling session, if it exists and is not named. It may not be captured yet.
pub(in crate::service) fn calling_session(
    engine: &Engine,
    asked_by: Option<&str>,
    named: &[ConversationId],
) -> Option<ConversationId> {
    let found = engine.find(asked_by?).ok()?.id;
    (!named.contains(&found)).then_some(found)
}

/// Parses a conversation, or messages of one: `my-chat#4..9`, both included, `my-chat#4..` or
/// `my-chat#4`.
fn exclusion(engine: &Engine, text: &str) -> Result<Exclusion, ServiceError> {
    let number = |text: &str| text.trim().parse().ok().map(MessageIdx);
    let range = |range: &str| match range.split_once("..") {
        None => number(range).map(|one| (one, one)),
        Some((first, "")) => Some((number(first)?, MessageIdx(u32::MAX))),
        Some((first, last)) => Some((number(first)?, number(last)?)),
    };
    let Some((conversation, range_text)) = text.rsplit_once('#') else {
        return Ok(Exclusion::Conversation(engine.find(text)?.id));
    };
    match range(range_text).filter(|(first, last)| first <= last) {
        Some((first, last)) => Ok(Exclusion::Messages(engine.find(conversation)?.id, first, last)),
        None => Err(ServiceError::InvalidRequest(format!(
            "exclude {text:?}; expected a conversation, or messages such as my-chat#4..9"
        ))),
    }
}

impl RequestLimits for SearchRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("query", Some(&self.query), MAX_QUERY_CHARS),
            ("cwd", self.cwd.as_ref(), MAX_PATH_CHARS),
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
            ("author", self.author.as_ref(), MAX_NAME_CHARS),
            ("asked_by", self.asked_by.as_ref(), MAX_NAME_CHARS),
        ])?;
        check_range("the number of exclusions", self.exclude.len(), 0, 50)?;
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

/// Maximum number of conversations that a scope names or leaves out.
const MAX_SCOPE_NAMES: usize = 50;

/// Parameters of a context.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ContextParams {
    /// Slug, key, id, or the first digits of an id. Without it, name a scope: `conversations`, `project_path`,
    /// `labels` or `everything`.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
    /// A context over these conversations.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub conversations: Vec<String>,
    /// A context over this project: the conversations in this folder or below it.
    #[serde(alias = "projectPath", alias = "project")]
    #[schema(max_length = 4096)]
    pub project_path: Option<String>,
    /// A context over the conversations with these labels.
    #[serde(default, alias = "label", deserialize_with = "label_filter")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub labels: Labels,
    /// A context over all conversations.
    #[serde(default)]
    pub everything: bool,
    /// Conversations to leave out of a scope.
    #[serde(default)]
    #[schema(max_items = 50)]
    pub exclude: Vec<String>,
    /// The calling session: slug, key, id, or the first digits of an id. It is left out of a scope unless
    /// `conversations` names it. It need not exist.
    #[schema(max_length = 200)]
    pub asked_by: Option<String>,
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

impl ContextParams {
    /// Whether the request names a scope.
    #[must_use]
    pub fn has_scope(&self) -> bool {
        !self.conversations.is_empty()
            || self.project_path.is_some()
            || !self.labels.is_empty()
            || self.everything
    }
}

impl RequestLimits for ContextParams {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
            ("query", self.query.as_ref(), MAX_CONTEXT_QUERY_CHARS),
            ("profile", self.profile.as_ref(), MAX_KEY_CHARS),
            ("asked_by", self.asked_by.as_ref(), MAX_NAME_CHARS),
            ("project_path", self.project_path.as_ref(), MAX_PATH_CHARS),
        ])?;
        for (field, names) in [("conversations", &self.conversations), ("exclude", &self.exclude)] {
            check_range(field, names.len(), 0, MAX_SCOPE_NAMES)?;
            names.iter().try_for_each(|name| check_length(field, name, MAX_NAME_CHARS))?;
        }
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
    /// Only conversations with these labels, such as `user=42,source=codex`.
    #[serde(alias = "label", deserialize_with = "label_filter")]
    #[schema(value_type = BTreeMap<String, String>)]
    #[param(value_type = String)]
    pub labels: Labels,
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
        self.level.map(level_of_number).transpose()?;
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

/// Reads labels from an object, or from a text such as `user=42,source=codex`.
fn label_filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum LabelFilter {
        Object(BTreeMap<String, String>),
        Text(String),
    }
    let labels = match LabelFilter::deserialize(deserializer)? {
        LabelFilter::Object(pairs) => Labels::try_from(pairs),
        LabelFilter::Text(text) => Labels::parse(text.split(',')),
    };
    labels.map_err(serde::de::Error::custom)
}
