//! Prompts: one file per strategy, versioned by the hash of its text, and the sections that the
//! texts of a strategy have.

use std::borrow::Cow;

use crate::hash::ContentHash;
use crate::summary_request::Strategy;

/// The prompt of a strategy.
#[must_use]
pub const fn text(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Detailed => include_str!("../prompts/detailed.md"),
        Strategy::Concise => include_str!("../prompts/concise.md"),
        Strategy::Thematic => include_str!("../prompts/thematic.md"),
        Strategy::Chronological => include_str!("../prompts/chronological.md"),
        Strategy::Executive => include_str!("../prompts/executive.md"),
        Strategy::Technical => include_str!("../prompts/technical.md"),
    }
}

/// The version of a strategy's prompt.
#[must_use]
pub fn version(strategy: Strategy) -> ContentHash {
    version_of(text(strategy))
}

/// The version of a prompt text.
#[must_use]
pub fn version_of(text: &str) -> ContentHash {
    ContentHash::of_fields(&[text.as_bytes()])
}

/// The kind of a point in a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryPart {
    /// The running text.
    Overview,
    /// Facts and outcomes.
    Findings,
    /// Decisions, with their reasons.
    Decisions,
    /// Tasks that remain.
    Actions,
    /// Files, functions and other technical details.
    Technical,
    /// Questions without an answer.
    Unresolved,
}

/// A section of a summary.
#[derive(Debug, PartialEq, Eq)]
pub struct SummarySection {
    /// The heading, without its mark.
    pub heading: &'static str,
    /// The parts that the section holds. The first names the list that its points belong to.
    pub parts: &'static [SummaryPart],
}

impl SummarySection {
    /// The mark before a heading.
    pub const MARK: &str = "## ";

    const fn new(heading: &'static str, parts: &'static [SummaryPart]) -> Self {
        Self { heading, parts }
    }
}

const DETAILED: [SummarySection; 6] = [
    SummarySection::new("Overview", &[SummaryPart::Overview]),
    SummarySection::new("Key Points", &[SummaryPart::Findings]),
    SummarySection::new("Decisions Made", &[SummaryPart::Decisions]),
    SummarySection::new("Action Items", &[SummaryPart::Actions]),
    SummarySection::new("Technical Details", &[SummaryPart::Technical]),
    SummarySection::new("Unresolved", &[SummaryPart::Unresolved]),
];

const CONCISE: [SummarySection; 3] = [
    SummarySection::new(
        "Overview",
        &[
            SummaryPart::Overview,
            SummaryPart::Findings,
            SummaryPart::Technical,
            SummaryPart::Unresolved,
        ],
    ),
    SummarySection::new("Decisions Made", &[SummaryPart::Decisions]),
    SummarySection::new("Action Items", &[SummaryPart::Actions]),
];

const THEMATIC: [SummarySection; 5] = [
    SummarySection::new("Themes", &[SummaryPart::Overview]),
    SummarySection::new("Major Decisions", &[SummaryPart::Decisions]),
    SummarySection::new("Technical Artifacts", &[SummaryPart::Technical]),
    SummarySection::new("Progress & Outcomes", &[SummaryPart::Findings]),
    SummarySection::new("Open Items", &[SummaryPart::Unresolved, SummaryPart::Actions]),
];

const CHRONOLOGICAL: [SummarySection; 4] = [
    SummarySection::new("Timeline", &[SummaryPart::Overview, SummaryPart::Findings]),
    SummarySection::new("Major Decisions", &[SummaryPart::Decisions]),
    SummarySection::new("Technical Artifacts", &[SummaryPart::Technical]),
    SummarySection::new("Open Items", &[SummaryPart::Unresolved, SummaryPart::Actions]),
];

const EXECUTIVE: [SummarySection; 4] = [
    SummarySection::new("Session Overview", &[SummaryPart::Overview]),
    SummarySection::new("Key Outcomes", &[SummaryPart::Findings, SummaryPart::Decisions]),
    SummarySection::new("Technical Deliverables", &[SummaryPart::Technical]),
    SummarySection::new("Next Steps", &[SummaryPart::Actions, SummaryPart::Unresolved]),
];

const TECHNICAL: [SummarySection; 5] = [
    SummarySection::new("Session Overview", &[SummaryPart::Overview, SummaryPart::Findings]),
    SummarySection::new("Technical Deliverables", &[SummaryPart::Technical]),
    SummarySection::new("Decisions Made", &[SummaryPart::Decisions]),
    SummarySection::new("Known Problems", &[SummaryPart::Unresolved]),
    SummarySection::new("Next Steps", &[SummaryPart::Actions]),
];

/// The sections of a strategy, in order. Each part of a summary belongs to exactly one of them.
/// The prompts ask for these headings, summarizers write them, and answers are read by them.
#[must_use]
pub const fn sections(strategy: Strategy) -> &'static [SummarySection] {
    match strategy {
        Strategy::Detailed => &DETAILED,
        Strategy::Concise => &CONCISE,
        Strategy::Thematic => &THEMATIC,
        Strategy::Chronological => &CHRONOLOGICAL,
        Strategy::Executive => &EXECUTIVE,
        Strategy::Technical => &TECHNICAL,
    }
}

/// The section with this heading in any strategy, in any case.
#[must_use]
pub fn section(heading: &str) -> Option<&'static SummarySection> {
    let sections = Strategy::ALL.into_iter().flat_map(sections);
    sections.into_iter().find(|section| section.heading.eq_ignore_ascii_case(heading))
}

/// Whether a line of a summary is the heading of a section.
#[must_use]
pub fn is_heading(line: &str) -> bool {
    line.trim().strip_prefix(SummarySection::MARK).is_some_and(|heading| section(heading).is_some())
}

/// The text of a summary without the headings of its sections and the numbers of its list items,
/// which state nothing about the source.
#[must_use]
pub fn without_headings(text: &str) -> Cow<'_, str> {
    if !text.lines().any(is_heading) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').filter(|line| !is_heading(line));
    Cow::Owned(lines.map(without_number).collect())
}

/// A line without the number of a list item.
pub(crate) fn without_number(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix(". ").filter(|_| rest.len() < line.len()).unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_prompt_of_its_own() {
        let mut versions: Vec<ContentHash> = Strategy::ALL.map(version).to_vec();
        versions.sort();
        versions.dedup();
        assert_eq!(versions.len(), Strategy::ALL.len());
        for strategy in Strategy::ALL {
            assert!(text(strategy).contains("Use only information from the source"), "{strategy}");
        }
    }

    #[test]
    fn prompts_ask_for_the_sections_of_their_strategy() {
        for strategy in Strategy::ALL {
            let prompt_headings: Vec<&str> = text(strategy)
                .lines()
                .filter_map(|line| line.strip_prefix(SummarySection::MARK))
                .collect();
            let section_headings: Vec<&str> =
                sections(strategy).iter().map(|section| section.heading).collect();
            assert_eq!(prompt_headings, section_headings, "{strategy}");
        }
    }

    #[test]
    fn every_part_has_one_section_in_every_strategy() {
        use super::SummaryPart::{Actions, Decisions, Findings, Overview, Technical, Unresolved};
        for strategy in Strategy::ALL {
            for part in [Overview, Findings, Decisions, Actions, Technical, Unresolved] {
                let holds = |section: &&SummarySection| section.parts.contains(&part);
                assert_eq!(
                    sections(strategy).iter().filter(holds).count(),
                    1,
                    "{strategy} {part:?}"
                );
            }
        }
    }

    #[test]
    fn headings_are_known_by_their_mark() {
        assert!(is_heading("## Progress & Outcomes"));
        assert!(is_heading("## Open Items"));
        assert!(!is_heading("## Tide gauges"));
        assert!(!is_heading("Open Items"));
        let text = "## Key Outcomes\n1. The gauge reads 20 cm.\n\n## Next Steps\n- Ask Yann.";
        assert_eq!(without_headings(text), "The gauge reads 20 cm.\n\n- Ask Yann.");
        assert_eq!(without_headings("1. Plain text"), "1. Plain text");
    }
}
