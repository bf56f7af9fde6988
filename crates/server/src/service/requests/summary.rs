//! Requests about summaries on demand, threads and policies.

use serde::Deserialize;
use treering_core::{Assignment, Level, NodeContent, NodeId, ThreadName, ToolUse, TurnNo};
use treering_engine::{Engine, NewSummary, SummaryParents};
use utoipa::ToSchema;

use super::{
    MAX_ITEM_CHARS, MAX_KEY_CHARS, MAX_NAME_CHARS, MAX_TEXT_CHARS, RequestLimits, check_length,
    check_lengths, check_range,
};
use crate::service::ServiceError;

/// Maximum number of turns or nodes that a stored summary covers.
const MAX_PARENTS: usize = 1000;
/// Maximum number of entries of a list in a stored summary.
const MAX_LIST: usize = 200;

/// A summary that you wrote yourself.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StoreSummaryRequest {
    /// 1 for a summary of turns, 2 and above for a summary of nodes of the level below.
    #[schema(minimum = 1, maximum = 8)]
    pub level: u8,
    /// The numbers of the turns, or the ids of the nodes. A summary covers a sealed window or group
    /// exactly, or the first of the turns or nodes that nothing covers yet.
    #[serde(alias = "parentIds", alias = "parent_ids")]
    pub parents: Vec<ParentRef>,
    /// The text.
    #[schema(min_length = 1, max_length = 4000000)]
    pub summary: String,
    /// Files mentioned.
    #[serde(default, alias = "filesMentioned")]
    pub files_mentioned: Vec<String>,
    /// Findings.
    #[serde(default, alias = "keyFindings")]
    pub key_findings: Vec<String>,
    /// Decisions.
    #[serde(default)]
    pub decisions: Vec<String>,
    /// Open tasks.
    #[serde(default, alias = "actionItems")]
    pub action_items: Vec<String>,
    /// Unanswered questions.
    #[serde(default)]
    pub unresolved: Vec<String>,
    /// Names of the tools used.
    #[serde(default, alias = "toolsUsed")]
    pub tools_used: Vec<String>,
    /// Topics.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Named entities.
    #[serde(default)]
    pub entities: Vec<String>,
    /// Free labels.
    #[serde(default)]
    pub tags: Vec<String>,
    /// The number of turns covered; refused if it is wrong.
    #[serde(alias = "turnCount")]
    pub turn_count: Option<u32>,
}

/// The number of a turn, or the id of a node.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ParentRef {
    /// The number of a turn, counted from 0.
    Turn(u32),
    /// The id of a node or its first digits, or the number of a turn as text.
    Id(String),
}

impl StoreSummaryRequest {
    /// Validates the request and builds the engine's summary.
    pub fn summary(&self, engine: &Engine) -> Result<NewSummary, ServiceError> {
        let parents = match level(self.level)? {
            Level::FIRST => {
                let turns = self.parents.iter().map(ParentRef::turn);
                SummaryParents::Turns(turns.collect::<Result<_, _>>()?)
            }
            level => {
                let nodes = self.parents.iter().map(|parent| parent.node(engine, level));
                SummaryParents::Nodes(nodes.collect::<Result<_, _>>()?)
            }
        };
        let tool =
            |name: &String| ToolUse { name: name.clone(), succeeded: 0, failed: 0, unknown: 0 };
        let content = NodeContent {
            overview: self.summary.trim().to_owned(),
            files_mentioned: self.files_mentioned.clone(),
            key_findings: self.key_findings.clone(),
            decisions: self.decisions.clone(),
            action_items: self.action_items.clone(),
            unresolved: self.unresolved.clone(),
            tools_used: self.tools_used.iter().map(tool).collect(),
            topics: self.topics.clone(),
            entities: self.entities.clone(),
            tags: self.tags.clone(),
            ..NodeContent::default()
        };
        Ok(NewSummary { parents, content, turns: self.turn_count })
    }

    fn lists(&self) -> [(&'static str, &[String]); 9] {
        [
            ("files_mentioned", &self.files_mentioned),
            ("key_findings", &self.key_findings),
            ("decisions", &self.decisions),
            ("action_items", &self.action_items),
            ("unresolved", &self.unresolved),
            ("tools_used", &self.tools_used),
            ("topics", &self.topics),
            ("entities", &self.entities),
            ("tags", &self.tags),
        ]
    }
}

impl RequestLimits for StoreSummaryRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("summary", Some(&self.summary), MAX_TEXT_CHARS)])?;
        check_range("the number of parents", self.parents.len(), 1, MAX_PARENTS)?;
        for (name, list) in self.lists() {
            check_range(&format!("the number of {name}"), list.len(), 0, MAX_LIST)?;
        }
        Ok(())
    }
}

impl ParentRef {
    fn turn(&self) -> Result<TurnNo, ServiceError> {
        match self {
            Self::Turn(number) => Ok(TurnNo(*number)),
            Self::Id(text) => text.trim().parse().map(TurnNo).map_err(|_| {
                ServiceError::InvalidRequest(format!(
                    "parent {text:?}: at level 1, parents are turn numbers, counted from 0"
                ))
            }),
        }
    }

    fn node(&self, engine: &Engine, level: Level) -> Result<NodeId, ServiceError> {
        match self {
            Self::Id(id) => Ok(engine.find_node(id)?.1.id),
            Self::Turn(number) => Err(ServiceError::InvalidRequest(format!(
                "parent {number}: at level {level}, parents are node ids such as l1-3f9a"
            ))),
        }
    }
}

/// Reads the number of a level.
pub(crate) fn level(number: u8) -> Result<Level, ServiceError> {
    Level::new(number).filter(|_| number <= 8).ok_or_else(|| {
        ServiceError::InvalidRequest(format!("level is {number}; it must be between 1 and 8"))
    })
}

/// A thread to create.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkRequest {
    /// The name of the new thread.
    #[schema(min_length = 1, max_length = 100)]
    pub thread: String,
    /// The thread that it branches off; default: main.
    #[schema(min_length = 1, max_length = 100)]
    pub parent: Option<String>,
    /// The position of the last message that both share; default: the last message of the parent.
    #[serde(alias = "forkAt")]
    pub fork_at: Option<u32>,
}

impl ForkRequest {
    /// The names of the new thread and of its parent.
    pub(crate) fn names(&self) -> Result<(ThreadName, ThreadName), ServiceError> {
        let parent = self.parent.as_deref().map(str::parse).transpose()?;
        Ok((self.thread.parse()?, parent.unwrap_or_default()))
    }
}

impl RequestLimits for ForkRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_length("thread", &self.thread, MAX_KEY_CHARS)?;
        check_lengths([("parent", self.parent.as_ref(), MAX_KEY_CHARS)])
    }
}

/// The threads of a conversation to list, or one to fork.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadsRequest {
    /// Slug, key, id, or the first digits of an id.
    #[schema(min_length = 1, max_length = 200)]
    pub conversation: String,
    /// Name of a thread to fork.
    #[schema(max_length = 100)]
    pub thread: Option<String>,
    /// Thread to fork from; default: main.
    #[schema(max_length = 100)]
    pub parent: Option<String>,
    /// Last shared message; default: the latest.
    #[serde(alias = "forkAt")]
    pub fork_at: Option<u32>,
}

impl ThreadsRequest {
    /// The thread to create, if it names one.
    pub(crate) fn fork(&self) -> Option<ForkRequest> {
        let thread = self.thread.clone()?;
        Some(ForkRequest { thread, parent: self.parent.clone(), fork_at: self.fork_at })
    }
}

impl RequestLimits for ThreadsRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_length("conversation", &self.conversation, MAX_NAME_CHARS)?;
        if self.thread.is_none() && (self.parent.is_some() || self.fork_at.is_some()) {
            let why = "parent and fork_at need the name of the new thread in thread";
            return Err(ServiceError::InvalidRequest(why.into()));
        }
        self.fork().map_or(Ok(()), |fork| fork.check_limits())
    }
}

/// The policy parameters of a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyRequest {
    /// Parameters such as `window_chars=4000`. They replace all earlier ones of the conversation;
    /// an empty list removes them.
    #[schema(max_items = 50)]
    pub parameters: Vec<String>,
}

impl PolicyRequest {
    /// Reads the parameters.
    pub(crate) fn assignments(&self) -> Result<Vec<Assignment>, ServiceError> {
        Ok(self.parameters.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
    }
}

impl RequestLimits for PolicyRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_range("the number of parameters", self.parameters.len(), 0, 50)?;
        self.parameters
            .iter()
            .try_for_each(|text| check_length("a parameter", text, MAX_ITEM_CHARS))
    }
}
