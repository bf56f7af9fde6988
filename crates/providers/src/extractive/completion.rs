//! Completion: a summary by a model that names too few findings or topics gets more of them.

use treering_core::{NodeContent, SummaryRequest};

use super::lists::FINDINGS;
use super::topics::{TOPICS, topics};
use super::unit::SourceDocument;

/// Adds the first points of the text that no list has to the key findings, and topics of the source.
pub(crate) fn complete(
    request: &SummaryRequest,
    content: &mut NodeContent,
    is_grounded: impl Fn(&str) -> bool,
) {
    let lists =
        [&content.key_findings, &content.decisions, &content.action_items, &content.unresolved];
    let is_new = |text: &str| !lists.into_iter().flatten().any(|item| item == text);
    let points = content.points().into_iter().map(|point| point.text);
    let missing = FINDINGS.start().saturating_sub(content.key_findings.len());
    let points = points.filter(|text| is_new(text) && is_grounded(text)).take(missing);
    let points: Vec<String> = points.map(str::to_owned).collect();
    content.key_findings.extend(points);
    if content.topics.len() < *TOPICS.start() {
        let known = content.topics.iter().map(String::as_str);
        content.topics = topics(&SourceDocument::of(request), known, is_grounded);
    }
}
