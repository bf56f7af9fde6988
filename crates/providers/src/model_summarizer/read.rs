//! Parses a model's answer: JSON, JSON wrapped in Markdown or prose, or text under headings.

use serde_json::Value;
use treering_core::NodeContent;
use treering_core::prompt::{self, SummaryPart, SummarySection};

/// Maximum number of items in a list.
const MAX_LIST_ITEMS: usize = 40;

/// Maximum number of key findings of a node.
const MAX_FINDINGS: usize = 5;
/// Maximum number of topics of a node.
const MAX_TOPICS: usize = 4;

/// The content of an answer, if it has an overview.
pub(super) fn content(answer: &str) -> Option<NodeContent> {
    let answer = without_thoughts(answer).trim();
    let mut content =
        objects(answer).find_map(|object| from_json(&object)).or_else(|| from_headings(answer))?;
    content.key_findings.truncate(MAX_FINDINGS);
    content.topics.truncate(MAX_TOPICS);
    (!content.overview.is_empty()).then_some(content)
}

/// The content of a truncated answer: everything before the value in which it was cut off.
pub(super) fn content_of_cut(answer: &str) -> Option<NodeContent> {
    let answer = without_thoughts(answer);
    content(&closed(&answer[answer.find('{')?..])?)
}

/// Closes truncated JSON after its last complete value.
fn closed(text: &str) -> Option<String> {
    let (mut open, mut last_complete) = (Vec::new(), None);
    let (mut is_string, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            _ if is_string => {}
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' => drop(open.pop()),
            b',' => last_complete = Some((at, open.clone())),
            _ => {}
        }
    }
    let (until, open) = last_complete?;
    Some(text[..until].chars().chain(open.into_iter().rev()).collect())
}

/// Drops a model's reasoning block.
fn without_thoughts(answer: &str) -> &str {
    answer.rsplit_once("</think>").map_or(answer, |(_, rest)| rest)
}

/// The JSON objects in a text, wherever they begin.
fn objects(text: &str) -> impl Iterator<Item = Value> + '_ {
    let starts = text.match_indices('{').map(|(at, _)| at).take(8);
    starts.filter_map(|at| serde_json::Deserializer::from_str(&text[at..]).into_iter().next()?.ok())
}

fn from_json(object: &Value) -> Option<NodeContent> {
    // Some models wrap the answer in another object.
    let inner = || object.as_object()?.values().find(|value| value.get("overview").is_some());
    let object = if object.get("overview").is_some() { object } else { inner().unwrap_or(object) };
    let overview = object.get("overview").or_else(|| object.get("summary"))?.as_str()?.trim();
    let list = |name: &str| {
        let items =
            object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        distinct(items.iter().filter_map(Value::as_str))
    };
    let mut content = NodeContent {
        overview: overview.to_owned(),
        key_findings: list("key_findings"),
        decisions: list("decisions"),
        action_items: list("action_items"),
        unresolved: list("unresolved"),
        topics: list("topics"),
        ..NodeContent::default()
    };
    read_sections(&mut content);
    Some(content)
}

/// Trimmed items without blanks and duplicates.
fn distinct<'a>(items: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut list: Vec<String> = Vec::new();
    for item in items.map(str::trim).filter(|item| !item.is_empty()).take(MAX_LIST_ITEMS) {
        if !list.iter().any(|other| other == item) {
            list.push(item.to_owned());
        }
    }
    list
}

/// The meaning of a heading in an answer.
#[derive(Clone, Copy, PartialEq)]
enum Heading {
    /// A section of the summary.
    Section(SummaryPart),
    /// A list of topics beside the summary.
    Topics,
}

/// Headings that models write beside those of [`prompt::sections`].
const OTHER_HEADINGS: [(&str, Heading); 9] = [
    ("summary", Heading::Section(SummaryPart::Overview)),
    ("key findings", Heading::Section(SummaryPart::Findings)),
    ("decisions", Heading::Section(SummaryPart::Decisions)),
    ("to do", Heading::Section(SummaryPart::Actions)),
    ("tasks", Heading::Section(SummaryPart::Actions)),
    ("unresolved questions", Heading::Section(SummaryPart::Unresolved)),
    ("open questions", Heading::Section(SummaryPart::Unresolved)),
    ("topics", Heading::Topics),
    ("tags", Heading::Topics),
];

/// Parses text under headings. The text is the overview, and its sections fill the lists.
/// Without headings, all of it is the overview.
fn from_headings(answer: &str) -> Option<NodeContent> {
    // A truncated JSON object is not prose.
    if answer.starts_with(['{', '[']) || answer.starts_with("```") {
        return None;
    }
    let mut content = NodeContent { overview: answer.to_owned(), ..NodeContent::default() };
    read_sections(&mut content);
    Some(content)
}

/// Writes the headings of an overview in one way, and fills the lists that are empty from its
/// sections.
fn read_sections(content: &mut NodeContent) {
    let mut overview: Vec<String> = Vec::new();
    let mut found = NodeContent::default();
    let (mut part, mut sections) = (Heading::Section(SummaryPart::Overview), 0);
    for line in content.overview.lines() {
        let mut rest = line.trim();
        if let Some((title, heading, after)) = heading(rest) {
            if heading != Heading::Topics {
                let gap = if overview.is_empty() { "" } else { "\n" };
                overview.push(format!("{gap}{}{title}", SummarySection::MARK));
                sections += 1;
            }
            (part, rest) = (heading, after);
        }
        if rest.is_empty() || is_preamble(rest) {
            continue;
        }
        let point = without_marker(rest);
        let Heading::Section(kind) = part else {
            found.topics.extend(point.split(", ").map(str::to_owned));
            continue;
        };
        overview.push(rest.to_owned());
        match kind {
            SummaryPart::Overview => {}
            SummaryPart::Findings | SummaryPart::Technical => {
                found.key_findings.push(point.to_owned());
            }
            SummaryPart::Decisions => found.decisions.push(point.to_owned()),
            SummaryPart::Actions => found.action_items.push(point.to_owned()),
            SummaryPart::Unresolved => found.unresolved.push(point.to_owned()),
        }
    }
    // One section needs no heading.
    if sections == 1 && overview.first().is_some_and(|line| line.starts_with(SummarySection::MARK))
    {
        overview.remove(0);
    }
    content.overview = overview.join("\n");
    for (list, found) in [
        (&mut content.key_findings, found.key_findings),
        (&mut content.decisions, found.decisions),
        (&mut content.action_items, found.action_items),
        (&mut content.unresolved, found.unresolved),
        (&mut content.topics, found.topics),
    ] {
        if list.is_empty() {
            *list = distinct(found.iter().map(String::as_str));
        }
    }
}

/// A line without the marker of a list item.
fn without_marker(line: &str) -> &str {
    let item = line.trim_start_matches(['-', '*', '•', ' ']);
    let rest = item.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") "));
    numbered.filter(|_| rest.len() < item.len()).unwrap_or(item)
}

/// The heading in a line: its title, its meaning, and the rest of the line.
fn heading(line: &str) -> Option<(&str, Heading, &str)> {
    let is_mark = |c: char| "#*-_ ".contains(c);
    let unmarked = line.trim_start_matches(is_mark);
    let is_marked = line.starts_with(['#', '*', '-']);
    let (title, rest) = match unmarked.split_once(':') {
        Some((title, rest)) => (title, rest),
        None if is_marked => (unmarked, ""),
        None => return None,
    };
    let title = title.trim_matches(|c| is_mark(c) || c == ':');
    let known_section = prompt::section(title)
        .and_then(|section| Some((section.heading, Heading::Section(*section.parts.first()?))));
    let other = || {
        let is = |(word, _): &&(&str, Heading)| word.eq_ignore_ascii_case(title);
        OTHER_HEADINGS.iter().find(is).map(|(_, heading)| (title, *heading))
    };
    let (title, meaning) = known_section.or_else(other)?;
    Some((title, meaning, rest.trim_start_matches(['*', '_']).trim()))
}

/// Whether a line only announces the text that follows.
fn is_preamble(line: &str) -> bool {
    let lower = line.to_lowercase();
    let announces = ["here is", "here's", "sure,", "sure!", "below is", "voici"];
    line.ends_with(':') && announces.iter().any(|words| lower.starts_with(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(answer: &str, overview: &str) -> NodeContent {
        let content = content(answer).unwrap_or_else(|| panic!("{answer}"));
        assert_eq!(content.overview, overview, "{answer}");
        content
    }

    #[test]
    fn json_is_found_wherever_it_is() {
        let object = r#"{"overview": " Ana moved the gauge. ", "decisions": ["Port 7410.", "Port 7410.", ""], "topics": [1]}"#;
        for answer in [
            object.to_owned(),
            format!("```json\n{object}\n```"),
            format!("Sure! Here is {{the}} summary:\n\n{object}\n\nAnything else?"),
            format!("<think>{{\"overview\": \"no\"}}</think>{object}"),
            format!("{{\"result\": {object}}}"),
        ] {
            let content = check(&answer, "Ana moved the gauge.");
            assert_eq!(content.decisions, ["Port 7410."]);
            assert!(content.topics.is_empty());
        }
        check(r#"{"summary": "Short."}"#, "Short.");
    }

    #[test]
    fn complete_fields_of_a_truncated_answer_are_read() {
        let answer = r#"Sure: {"overview": "Ana moved the \"gauge\", {it} works.", "decisions": ["Port 7410.", "Port, 74"#;
        let content = content_of_cut(answer).unwrap();
        assert_eq!(content.overview, r#"Ana moved the "gauge", {it} works."#);
        assert_eq!(content.decisions, ["Port 7410."]);
        let looped = r#"{"overview": "Ana moved it.", "topics": ["a", "a", "a", "a", "#;
        assert_eq!(content_of_cut(looped).unwrap().topics, ["a"]);
        for nothing in [
            "",
            "Ana moved",
            r#"{"overview": "Ana, who mov"#,
            r#"{"topics": ["a", "b"#,
            "{,",
            "}],,",
        ] {
            assert_eq!(content_of_cut(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn sections_stay_in_the_overview_and_fill_the_lists() {
        let content = check(
            "Here is the summary:\n\n## Overview\nAna moved the gauge.\nIt works.\n\n\
             **Decisions:**\n- Port 7410.\n- Action items: tell Bob\n### Open questions\n\
             * Who pays?\nTopics: harbour, gauges",
            "## Overview\nAna moved the gauge.\nIt works.\n\n## Decisions\n- Port 7410.\n\n\
             ## Action Items\ntell Bob\n\n## Open questions\n* Who pays?",
        );
        assert_eq!(content.decisions, ["Port 7410."]);
        assert_eq!(content.action_items, ["tell Bob"]);
        assert_eq!(content.unresolved, ["Who pays?"]);
        assert_eq!(content.topics, ["harbour", "gauges"]);
        check("## Overview\nAna moved it.", "Ana moved it.");
    }

    #[test]
    fn every_section_of_every_strategy_is_read() {
        for strategy in treering_core::Strategy::ALL {
            for section in prompt::sections(strategy) {
                let answer = format!(
                    r###"{{"overview": "Ana moved it.\n## {}\n1. The gauge", "topics": []}}"###,
                    section.heading
                );
                let content = content(&answer).unwrap();
                let list = match section.parts[0] {
                    SummaryPart::Overview => continue,
                    SummaryPart::Findings | SummaryPart::Technical => content.key_findings,
                    SummaryPart::Decisions => content.decisions,
                    SummaryPart::Actions => content.action_items,
                    SummaryPart::Unresolved => content.unresolved,
                };
                assert_eq!(list, ["The gauge"], "{strategy}: {}", section.heading);
            }
        }
    }

    #[test]
    fn plain_text_is_an_overview_and_half_an_object_is_nothing() {
        check(
            "Ana moved the gauge: it is at port 7410 now.",
            "Ana moved the gauge: it is at port 7410 now.",
        );
        for answer in [
            "",
            "  ",
            "{\"overview\": \"Ana mov",
            "```json\n{\"overview\": \"A",
            "{\"overview\": \"\"}",
            "[1, 2]",
        ] {
            assert_eq!(content(answer), None, "{answer}");
        }
    }
}
