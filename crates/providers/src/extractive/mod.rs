//! The built-in extractive summarizer: it selects sentences that together cover the source,
//! attributes them to their speakers, and lists the facts found in the text. It needs no key
//! and no network, is deterministic, and never states anything that does not occur in the
//! source.

mod compose;
mod cues;
pub(crate) mod lists;
mod rendering;
mod reported;
mod select;
mod topics;
mod unit;

use treering_core::facts::Facts;
use treering_core::{
    NodeContent, Passage, ProviderError, Summarizer, SummaryLength, SummaryRequest, prompt,
};

use compose::Composer;
use rendering::RenderedUnit;
use select::{Budget, Pick};
use unit::SourceDocument;

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
        let rendered = rendering::render_units(&document);
        let is_grounded = |text: &str| source.partition_known(&Facts::of(text)).1.is_empty();
        let target = request.target_chars().map(|chars| chars as usize);
        let budget =
            target.map_or_else(|| sentences(request), |target| Budget::Chars(target - target / 32));
        let picks = choose(&document, &rendered, budget, request.deduplicate, is_grounded);
        let mut content = NodeContent::default();
        lists::facts(request, source, &mut content);
        let before = request.passages.iter().flat_map(|passage| match passage {
            Passage::Node(child) => child.content.topics.as_slice(),
            Passage::Message(_) | Passage::Tool(_) => &[],
        });
        content.topics = topics::topics(&document, before.map(String::as_str));
        let parts = Composer {
            request,
            document: &document,
            rendered: &rendered,
            topics: &content.topics,
            files: &content.files_mentioned,
            identifiers: &content.identifiers,
            target,
        };
        let (mut overview, mut picks) = parts.compose(picks);
        // Two sentences that are faithful on their own may still join into a false date or
        // name.
        while picks.len() > 1 && !is_grounded(&prompt::without_headings(&overview)) {
            picks.pop();
            (overview, picks) = parts.compose(picks);
        }
        content.overview = overview;
        lists::points(request, &document, &rendered, &picks, &mut content);
        for list in [
            &mut content.topics,
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

/// Selects units in which every fact is grounded. If the selection is empty, falls back to the
/// first grounded unit.
fn choose(
    document: &SourceDocument,
    rendered: &[RenderedUnit],
    budget: Budget,
    distinct: bool,
    is_grounded: impl Fn(&str) -> bool,
) -> Vec<Pick> {
    let cost = |unit: usize| rendered[unit].chars() + 1;
    let mut picks = select::select(document, budget, distinct, cost);
    picks.retain(|pick| is_grounded(&rendered[pick.unit].line()));
    if picks.is_empty()
        && let Some(unit) =
            (0..document.units.len()).find(|unit| is_grounded(&rendered[*unit].line()))
    {
        picks.push(Pick { unit, gain: 0.0, limit: None });
    }
    picks
}

/// The overview of a window that has only tool calls.
fn tools_only(content: &NodeContent) -> String {
    let names: Vec<&str> = content.tools_used.iter().map(|tool| tool.name.as_str()).collect();
    if names.is_empty() { String::new() } else { format!("Tools used: {}.", names.join(", ")) }
}

#[cfg(test)]
mod tests;
