//! The result of an amendment, and the history of a message.

use serde::Serialize;
use treering_core::MessageVersion;
use treering_engine::AmendReport;
use utoipa::ToSchema;

use super::RewrittenNodeView;

/// The result of an amendment.
#[derive(Debug, Serialize, ToSchema)]
pub struct AmendView {
    /// The conversation's slug.
    pub slug: String,
    /// The position of the message.
    pub idx: u32,
    /// The time of the last edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited_at: Option<String>,
    /// Whether the message is marked as wrong.
    pub wrong: bool,
    /// The text that is returned instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
    /// Whether the nodes that cover the message are regenerated. Otherwise they are stale until an
    /// update.
    pub rewrites: bool,
    /// The nodes that cover the message, from the bottom up.
    pub nodes: Vec<RewrittenNodeView>,
}

impl AmendView {
    /// Builds the view of a report.
    #[must_use]
    pub fn of(slug: &str, report: &AmendReport) -> Self {
        let body = &report.message.body;
        let ids = report.new_ids.iter().map(|id| id.as_ref().map(ToString::to_string));
        let node = |(node, new_id): (&treering_core::NodePlace, Option<String>)| {
            RewrittenNodeView { level: node.level.number(), old_id: node.id.to_string(), new_id }
        };
        Self {
            slug: slug.to_owned(),
            idx: report.message.idx.0,
            edited_at: body.edited_at.map(|at| at.to_string()),
            wrong: body.correction.is_some(),
            correction: body.correction.as_ref().and_then(|it| it.text.clone()),
            rewrites: report.rewrites,
            nodes: report.nodes.iter().zip(ids).map(node).collect(),
        }
    }
}

/// The history of a message.
#[derive(Debug, Serialize, ToSchema)]
pub struct HistoryView {
    /// The conversation's slug.
    pub slug: String,
    /// The position of the message.
    pub idx: u32,
    /// The earlier versions, oldest first.
    pub versions: Vec<VersionView>,
}

/// An earlier version of a message.
#[derive(Debug, Serialize, ToSchema)]
pub struct VersionView {
    /// When it was replaced.
    pub replaced_at: String,
    /// The text.
    pub text: String,
    /// Whether it was marked as wrong.
    pub wrong: bool,
    /// The text that was returned instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correction: Option<String>,
}

impl HistoryView {
    /// Builds the view of versions.
    #[must_use]
    pub fn of(slug: &str, idx: u32, versions: &[MessageVersion]) -> Self {
        let version = |it: &MessageVersion| VersionView {
            replaced_at: it.replaced_at.to_string(),
            text: it.text.clone(),
            wrong: it.correction.is_some(),
            correction: it.correction.as_ref().and_then(|it| it.text.clone()),
        };
        Self { slug: slug.to_owned(), idx, versions: versions.iter().map(version).collect() }
    }
}
