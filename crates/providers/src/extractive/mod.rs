//! The built-in extractive summarizer: it selects sentences that together cover the source,
//! attributes them to their speakers, and lists the facts found in the text. It needs no key
//! and no network, is deterministic, and never states anything that does not occur in the
//! source.

mod children;
mod clean;
#[cfg(feature = "remote")]
pub(crate) mod completion;
mod compose;
mod cues;
pub(crate) mod lists;
mod points;
mod rendering;
mod select;
mod topics;
mod unit;
mod worth;

use treering_core::facts::Facts;
use treering_core::{
    NodeContent, Passage, ProviderError, Summarizer, SummaryLength, SummaryRequest, prompt,
};

use compose::Composer;
use points::SummaryPoint;
use select::{Budget, SelectedUnit};
use unit::{SourceDocument, Unit};

/// Summarizes by selecting sentences.
#[derive(Debug, Clone, Copy, Default)]
pub struct Extractive;

impl Summarizer for Extractive {
    fn name(&self) -> &str {
        "extractive"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        let source = request.facts();
        let mut document = SourceDocument::of(request);
        if document.units.is_empty() {
            document = SourceDocument::of_raw(request);
        }
        let is_grounded = |text: &str| source.partition_known(&Facts::of(text)).1.is_empty();
        let budget = match request.target_chars() {
            Some(chars) => Budget::Chars((chars - chars / 32) as usize),
            None => sentences(request),
        };
        let mut points = choose(request, &document, budget, is_grounded);
        let mut content = NodeContent::default();
        lists::facts(request, source, &mut content);
        let before = request.passages.iter().flat_map(|passage| match passage {
            Passage::Node(child) => child.content.topics.as_slice(),
            Passage::Message(_) | Passage::Tool(_) => &[],
        });
        content.topics = topics::topics(&document, before.map(String::as_str), is_grounded);
        let composer = Composer {
            strategy: request.strategy,
            topics: &content.topics,
            files: &content.files_mentioned,
            identifiers: &content.identifiers,
            target: request.target_chars().map(|chars| chars as usize),
        };
        let mut composition = composer.compose(&mut points);
        // Two sentences that are faithful on their own may still join into a false date or
        // name.
        while points.len() > 1 && !is_grounded(&prompt::without_headings(&composition.overview)) {
            compose::drop_last(&mut points);
            composition = composer.compose(&mut points);
        }
        (content.overview, content.ranking) = (composition.overview, composition.ranking);
        // A short text has fewer points than the list of findings.
        if points.len() < *lists::FINDINGS.start() {
            let budget = Budget::Sentences(*lists::FINDINGS.end());
            points = choose(request, &document, budget, is_grounded);
        }
        lists::points(request, &document, &points, &mut content);
        for list in [
            &mut content.decisions,
            &mut content.action_items,
            &mut content.unresolved,
            &mut content.key_findings,
        ] {
            list.retain(|item| is_grounded(item));
        }
        if content.overview.is_empty() {
            content.overview = tools_only(&content);
        }
        content.tags = lists::tags(&content);
        Ok(content)
    }
}

fn sentences(request: &SummaryRequest) -> Budget {
    match request.length {
        SummaryLength::Sentences(_, most) => Budget::Sentences(usize::from(most.max(1))),
        SummaryLength::Keep(_) | SummaryLength::Tokens(..) => Budget::Sentences(1),
    }
}

/// Selects the points in which every fact is grounded. If there are none, falls back to the
/// first grounded unit.
fn choose(
    request: &SummaryRequest,
    document: &SourceDocument,
    budget: Budget,
    is_grounded: impl Fn(&str) -> bool,
) -> Vec<SummaryPoint> {
    // A line has a list marker and a line break beside its speaker.
    let length = |unit: &Unit| {
        let speaker = rendering::speaker(document, unit).chars().count() + 2;
        (rendering::text(unit, None).chars().count() + 1, speaker)
    };
    let lengths: Vec<(usize, usize)> = document.units.iter().map(length).collect();
    let cost = |unit: usize, continues: bool| {
        let (text, speaker) = lengths[unit];
        if continues { text } else { text + speaker }
    };
    let picks = select::select(document, budget, request.deduplicate, cost);
    let of = |picks: &[SelectedUnit]| points::points(document, picks, request.strategy);
    let mut points = of(&picks);
    points.retain(|point| is_grounded(&point.text));
    if points.is_empty() {
        let single = |unit| of(&[SelectedUnit { unit, limit: None }]);
        let all = (0..document.units.len()).map(single);
        points = all
            .into_iter()
            .find(|point| point.iter().all(|it| is_grounded(&it.text)))
            .unwrap_or_default();
    }
    points
}

/// The overview of a window that has only tool calls.
fn tools_only(content: &NodeContent) -> String {
    let names: Vec<&str> = content.tools_used.iter().map(|tool| tool.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!("Tools used: {}.", names.join(", ")) }
}

#[cfg(test)]
mod tests;
