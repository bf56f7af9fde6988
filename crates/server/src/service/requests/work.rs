//! Requests about trees, jobs and the state of conversations.

use std::collections::BTreeMap;

use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{
    MAX_ID_CHARS, MAX_NAME_CHARS, MAX_ROWS, MAX_TITLE_CHARS, RequestLimits, StateName,
    check_lengths, check_limit,
};
use crate::service::ServiceError;

/// Changes to a conversation.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// New title; also changes the slug.
    #[schema(min_length = 1, max_length = 500)]
    pub title: Option<String>,
    /// New state.
    pub state: Option<StateName>,
    /// Labels to set, such as `{"user": "42"}`. A null value removes the label.
    #[serde(default)]
    pub labels: BTreeMap<String, Option<String>>,
}

impl RequestLimits for ChangeRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("title", self.title.as_ref(), MAX_TITLE_CHARS)])
    }
}

/// Filters for jobs or log lines.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct WorkRequest {
    /// Job id prefix. In the log also an update id, for its jobs and their follow-ups.
    #[param(max_length = 64)]
    pub job: Option<String>,
    /// Only this conversation.
    #[param(max_length = 200)]
    pub conversation: Option<String>,
    /// Maximum number of results.
    #[param(minimum = 1, maximum = 500, default = 50)]
    pub limit: Option<usize>,
}

impl RequestLimits for WorkRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_limit(self.limit, MAX_ROWS)?;
        check_lengths([
            ("job", self.job.as_ref(), MAX_ID_CHARS),
            ("conversation", self.conversation.as_ref(), MAX_NAME_CHARS),
        ])
    }
}

/// The scope of statistics.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct StatsRequest {
    /// Only this conversation: slug, key, id, or the first digits of an id; default: the whole tenant.
    #[param(max_length = 200)]
    pub conversation: Option<String>,
}

impl RequestLimits for StatsRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])
    }
}

/// The conversation to report on.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StatusRequest {
    /// Slug, key, id, or the first digits of an id; default: the latest conversation.
    #[schema(max_length = 200)]
    pub conversation: Option<String>,
}

impl RequestLimits for StatusRequest {
    fn check_limits(&self) -> Result<(), ServiceError> {
        check_lengths([("conversation", self.conversation.as_ref(), MAX_NAME_CHARS)])
    }
}
