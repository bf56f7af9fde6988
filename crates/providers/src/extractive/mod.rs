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

    fn summarize(&self, brief: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        let source = brief.facts();
        let mut material = SourceDocument::of(brief);
        if material.units.is_empty() {
            material = SourceDocument::of_raw(brief);
        }
        let rendered = rendering::render_units(&material);
        let is_grounded = |text: &str| source.partition_known(&Facts::of(text)).1.is_empty();
        let target = target(brief);
        let budget =
            target.map_or_else(|| sentences(brief), |target| Budget::Chars(target - target / 32));
        let picks = choose(&material, &rendered, budget, brief.deduplicate, is_grounded);
        let mut content = NodeContent::default();
        lists::facts(brief, source, &mut content);
        let before = brief.passages.iter().flat_map(|passage| match passage {
            Passage::Node(child) => child.content.topics.as_slice(),
            Passage::Message(_) | Passage::Tool(_) => &[],
        });
        content.topics = topics::topics(&material, before.map(String::as_str));
        let parts = Composer {
            brief,
            material: &material,
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
        lists::points(brief, &material, &rendered, &picks, &mut content);
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

/// Target length in characters; `None` if the length is given in sentences.
fn target(brief: &SummaryRequest) -> Option<usize> {
    match brief.length {
        SummaryLength::Keep(share) => {
            Some((brief.chars() as f64 * f64::from(share.clamp(0.0, 1.0))) as usize)
        }
        SummaryLength::Sentences(..) => None,
    }
}

fn sentences(brief: &SummaryRequest) -> Budget {
    match brief.length {
        SummaryLength::Sentences(_, most) => Budget::Sentences(usize::from(most.max(1))),
        SummaryLength::Keep(_) => Budget::Sentences(1),
    }
}

/// Selects units in which every fact is grounded. If the selection is empty, falls back to the
/// first grounded unit.
fn choose(
    material: &SourceDocument,
    rendered: &[RenderedUnit],
    budget: Budget,
    distinct: bool,
    is_grounded: impl Fn(&str) -> bool,
) -> Vec<Pick> {
    let cost = |unit: usize| rendered[unit].chars() + 1;
    let mut picks = select::select(material, budget, distinct, cost);
    picks.retain(|pick| is_grounded(&rendered[pick.unit].line()));
    if picks.is_empty()
        && let Some(unit) =
            (0..material.units.len()).find(|unit| is_grounded(&rendered[*unit].line()))
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
