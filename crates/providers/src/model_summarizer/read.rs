//! Parses a model's answer: JSON, JSON wrapped in Markdown or prose, or text under headings.

use serde_json::Value;
use treering_core::NodeContent;

/// Maximum number of items in a list.
const MAX_LIST_ITEMS: usize = 40;

/// The content of an answer, if it has an overview.
pub(super) fn content(answer: &str) -> Option<NodeContent> {
    let answer = without_thoughts(answer).trim();
    let content =
        objects(answer).find_map(|object| from_json(&object)).or_else(|| from_headings(answer))?;
    (!content.overview.is_empty()).then_some(content)
}

/// The content of a truncated answer: everything before the value in which it was cut off.
pub(super) fn content_of_cut(answer: &str) -> Option<NodeContent> {
    let answer = without_thoughts(answer);
    content(&closed(&answer[answer.find('{')?..])?)
}

/// Closes truncated JSON after its last complete value.
fn closed(text: &str) -> Option<String> {
    let (mut open, mut whole) = (Vec::new(), None);
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
            b',' => whole = Some((at, open.clone())),
            _ => {}
        }
    }
    let (until, open) = whole?;
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
    Some(NodeContent {
        overview: overview.to_owned(),
        key_findings: list("key_findings"),
        decisions: list("decisions"),
        action_items: list("action_items"),
        unresolved: list("unresolved"),
        topics: list("topics"),
        ..NodeContent::default()
    })
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

/// A section of a summary.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Overview,
    Findings,
    Decisions,
    Actions,
    Unresolved,
    Topics,
}

const HEADINGS: [(&str, Part); 15] = [
    ("overview", Part::Overview),
    ("summary", Part::Overview),
    ("key points", Part::Findings),
    ("key findings", Part::Findings),
    ("technical details", Part::Findings),
    ("decisions", Part::Decisions),
    ("decisions made", Part::Decisions),
    ("action items", Part::Actions),
    ("next steps", Part::Actions),
    ("to do", Part::Actions),
    ("unresolved", Part::Unresolved),
    ("unresolved questions", Part::Unresolved),
    ("open questions", Part::Unresolved),
    ("topics", Part::Topics),
    ("themes", Part::Topics),
];

/// Parses text under headings. Without headings, all of it is the overview.
fn from_headings(answer: &str) -> Option<NodeContent> {
    // A truncated JSON object is not prose.
    if answer.starts_with(['{', '[']) || answer.starts_with("```") {
        return None;
    }
    let mut content = NodeContent::default();
    let mut part = Part::Overview;
    for line in answer.lines() {
        let mut rest = line.trim();
        if let Some((found, after)) = heading(rest) {
            (part, rest) = (found, after);
        }
        if rest.is_empty() || is_preamble(rest) {
            continue;
        }
        let item = rest.trim_start_matches(['-', '*', '•', ' ']).to_owned();
        match part {
            Part::Overview => {
                let gap = if content.overview.is_empty() { "" } else { "\n" };
                content.overview.push_str(gap);
                content.overview.push_str(rest);
            }
            Part::Findings => content.key_findings.push(item),
            Part::Decisions => content.decisions.push(item),
            Part::Actions => content.action_items.push(item),
            Part::Unresolved => content.unresolved.push(item),
            Part::Topics => content.topics.extend(item.split(", ").map(str::to_owned)),
        }
    }
    Some(content)
}

/// The section that a line introduces, and the rest of the line.
fn heading(line: &str) -> Option<(Part, &str)> {
    let is_mark = |c: char| "#*-_ ".contains(c);
    let bare = line.trim_start_matches(is_mark);
    let is_marked = line.starts_with(['#', '*', '-']);
    let (title, rest) = match bare.split_once(':') {
        Some((title, rest)) => (title, rest),
        None if is_marked => (bare, ""),
        None => return None,
    };
    let title = title.trim_matches(|c| is_mark(c) || c == ':').to_lowercase();
    let (_, part) = HEADINGS.iter().find(|(word, _)| *word == title)?;
    Some((*part, rest.trim_start_matches(['*', '_']).trim()))
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
    fn headings_are_read() {
        let content = check(
            "Here is the summary:\n\n## Overview\nAna moved the gauge.\nIt works.\n\n**Decisions:**\n- Port 7410.\n\
             - Action items: tell Bob\n### Open questions\n* Who pays?\nTopics: harbour, gauges",
            "Ana moved the gauge.\nIt works.",
        );
        assert_eq!(content.decisions, ["Port 7410."]);
        assert_eq!(content.action_items, ["tell Bob"]);
        assert_eq!(content.unresolved, ["Who pays?"]);
        assert_eq!(content.topics, ["harbour", "gauges"]);
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
