//! Guarantees of the extractive summarizer, on examples and on arbitrary text.

use proptest::prelude::*;
use treering_core::acceptance::{accept, fidelity};
use treering_core::{
    Level, MessagePassage, NodePassage, Role, SessionInfo, Strategy, Timestamp, ToolPassage,
};

use super::*;

fn passage(role: Role, author: Option<&str>, text: &str) -> Passage {
    let at = Timestamp::from_micros(1_772_441_000_000_000);
    Passage::Message(MessagePassage {
        role,
        author: author.map(str::to_owned),
        at,
        text: text.to_owned(),
    })
}

/// A request from lines such as `Ana: Hello.` or `user: Hello.`
pub(super) fn brief(strategy: Strategy, length: SummaryLength, lines: &[&str]) -> SummaryRequest {
    let passage = |line: &&str| {
        let (who, what) = line.split_once(": ").unwrap();
        match who.parse::<Role>() {
            Ok(role) => passage(role, None, what),
            Err(_) => passage(Role::User, Some(who), what),
        }
    };
    let passages = lines.iter().map(passage).collect();
    SummaryRequest::new(Level::FIRST, strategy, length, true, passages, SessionInfo::default())
}

pub(super) fn summarize(brief: &SummaryRequest) -> NodeContent {
    let content = Extractive.summarize(brief).unwrap();
    assert_eq!(content, Extractive.summarize(brief).unwrap(), "the summarizer is deterministic");
    content
}

const TIDES: [&str; 8] = [
    "Ana: Morning! The harbour of Kerzavel still runs on a paper ledger.",
    "Juno: Good morning! What should the ledger become?",
    "Ana: I want to predict the tide in src/tide.rs and reserve berths by SMS.",
    "Juno: Let's go with SQLite for the berths, it fits in 20 MB.",
    "Ana: Agreed. I'll ask Yann for the tide gauge readings of 9 December 2025.",
    "Juno: Turns out predict_height() drifts by 4 cm because the sill moved.",
    "Ana: How many berths dry out at low water?",
    "Juno: Twelve.",
];

#[test]
fn a_summary_says_what_is_new() {
    let lines = [
        "Ana: My granite quay at Kerzavel needs a mooring ring.",
        "Ana: My wooden skiff at Roscoff needs a copper rudder.",
    ];
    let first = |preceding: &str| {
        let mut request = brief(Strategy::Concise, SummaryLength::Sentences(1, 1), &lines);
        request.preceding = preceding.to_owned();
        summarize(&request).overview
    };
    assert!(first("The granite quay at Kerzavel has a mooring ring.").contains("skiff"));
    assert!(first("The wooden skiff at Roscoff has a copper rudder.").contains("quay"));
}

#[test]
fn the_lists_are_found_in_the_text() {
    let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.6), &TIDES));
    assert_eq!(content.files_mentioned, ["src/tide.rs"]);
    assert_eq!(content.identifiers, ["predict_height"]);
    assert_eq!(content.decisions, ["Juno: Let's go with SQLite for the berths, it fits in 20 MB."]);
    assert_eq!(
        content.action_items,
        ["Ana: I'll ask Yann for the tide gauge readings of 9 December 2025."]
    );
    assert_eq!(content.dates, ["9 December 2025"]);
    assert_eq!(content.numbers, ["20 MB", "4 cm"]);
    assert!(content.entities.contains(&"Kerzavel".to_owned()), "{:?}", content.entities);
    assert!(content.topics.iter().any(|topic| topic.contains("tide")), "{:?}", content.topics);
    assert!(!content.overview.contains("Good morning"), "{}", content.overview);
    assert_eq!(content.tags, ["code", "decision", "todo"]);
}

#[test]
fn a_short_answer_comes_with_its_question() {
    let lines = [
        "Ana: How many berths dry out at low water?",
        "Juno: Twelve berths.",
        "Ana: Good, good, good, good, good.",
    ];
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Keep(0.9), &lines));
    assert_eq!(
        content.overview,
        "- Ana: How many berths dry out at low water? Juno: Twelve berths."
    );
    assert!(content.unresolved.is_empty());
}

#[test]
fn questions_without_an_answer_are_unresolved() {
    let lines = ["Ana: The gauge is new.", "Juno: Which port does the harbour gauge listen on?"];
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Keep(1.0), &lines));
    assert_eq!(content.unresolved, ["Juno: Which port does the harbour gauge listen on?"]);
}

#[test]
fn french_is_read_too() {
    let lines = [
        "Ana: Bonjour ! Le port de Kerzavel tient encore un registre en papier.",
        "Juno: On part sur SQLite pour les réservations du port.",
        "Ana: Il faut prévenir Yann Le Goff avant le 3 mars.",
    ];
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Keep(0.9), &lines));
    assert_eq!(content.decisions, ["Juno: On part sur SQLite pour les réservations du port."]);
    assert_eq!(content.action_items, ["Ana: Il faut prévenir Yann Le Goff avant le 3 mars."]);
    assert_eq!(content.dates, ["3 mars"]);
    assert!(content.entities.contains(&"Yann Le Goff".to_owned()), "{:?}", content.entities);
}

#[test]
fn all_files_are_listed_at_every_level() {
    let files: Vec<String> = (0..60).map(|number| format!("src/part{number}/tide.rs")).collect();
    let lines: Vec<String> =
        files.chunks(4).map(|some| format!("Ana: See {}.", some.join(" and "))).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.3), &lines));
    assert_eq!(content.files_mentioned, files);
    let at = Timestamp::from_micros(0);
    let child = NodePassage { range_start: at, range_end: at, content };
    let above = of_passages(Level::FIRST.above(), vec![Passage::Node(child)]);
    assert_eq!(summarize(&above).files_mentioned, files);
}

#[test]
fn a_short_text_still_has_its_findings_and_topics() {
    let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.1), &TIDES));
    assert_eq!(content.overview.lines().count(), 1, "{}", content.overview);
    assert!((3..=5).contains(&content.key_findings.len()), "{:?}", content.key_findings);
    assert!((2..=4).contains(&content.topics.len()), "{:?}", content.topics);
}

#[test]
fn tools_are_counted() {
    let tool = |success| {
        let (args, result) = ("{\"path\":\"src/main.rs\"}".into(), String::new());
        Passage::Tool(ToolPassage { name: "edit".into(), success, args, result })
    };
    let mut brief =
        brief(Strategy::Concise, SummaryLength::Keep(0.5), &["user: Fix the build, please."]);
    brief.passages.extend([tool(Some(true)), tool(Some(false)), tool(None), tool(Some(true))]);
    let content = summarize(&brief);
    let used = &content.tools_used[0];
    assert_eq!((used.name.as_str(), used.succeeded, used.failed, used.unknown), ("edit", 2, 1, 1));
    assert_eq!(content.files_mentioned, ["src/main.rs"]);
}

fn parent(strategy: Strategy, length: SummaryLength) -> SummaryRequest {
    let child = |lines: &[&str]| {
        let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.8), lines));
        let moment = Timestamp::from_micros(1_772_441_000_000_000);
        Passage::Node(NodePassage { range_start: moment, range_end: moment, content })
    };
    let passages =
        vec![child(&TIDES), child(&TIDES), child(&["Ana: The harbour office bought a new radio."])];
    SummaryRequest::new(
        Level::FIRST.above(),
        strategy,
        length,
        true,
        passages,
        SessionInfo::default(),
    )
}

#[test]
fn levels_above_merge_what_the_children_say() {
    for strategy in
        [Strategy::Thematic, Strategy::Chronological, Strategy::Executive, Strategy::Technical]
    {
        let brief = parent(strategy, SummaryLength::Keep(1.0));
        let content = summarize(&brief);
        assert_eq!(content.decisions.len(), 1, "{strategy}");
        assert_eq!(content.files_mentioned, ["src/tide.rs"], "{strategy}");
        assert_eq!(
            content.overview.matches("SQLite").count(),
            1,
            "{strategy}: {}",
            content.overview
        );
        assert!(content.overview.contains("radio"), "{strategy}: {}", content.overview);
        assert!(accept(&content, brief.facts(), brief.chars()).is_ok(), "{strategy}");
    }
}

/// A request with every kind of point, long enough for headings.
fn long(strategy: Strategy) -> SummaryRequest {
    let lines: Vec<String> = (0..6)
        .flat_map(|day| TIDES.map(|line| line.replace("Kerzavel", &format!("Kerzavel {day}"))))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut brief = brief(strategy, SummaryLength::Keep(0.6), &lines);
    brief.deduplicate = false;
    brief
}

#[test]
fn every_strategy_writes_its_own_sections() {
    for strategy in Strategy::ALL {
        let overview = summarize(&long(strategy)).overview;
        let written: Vec<&str> =
            overview.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let mut own = prompt::sections(strategy).iter().map(|section| section.heading);
        assert!(written.len() >= 3, "{strategy}: {overview}");
        assert!(written.iter().all(|heading| own.any(|own| own == *heading)), "{overview}");
        assert!(!overview.contains("##\n\n##"), "a section is empty: {overview}");
        check(&long(strategy));
        let short = summarize(&brief(strategy, SummaryLength::Keep(0.5), &TIDES)).overview;
        assert!(!short.contains("## "), "{strategy}: {short}");
    }
}

#[test]
fn files_and_functions_are_listed_once() {
    let detailed = summarize(&long(Strategy::Detailed));
    assert!(
        detailed.overview.contains("## Technical Details\n- Files: src/tide.rs\n- Functions: "),
        "{}",
        detailed.overview
    );
    let moment = Timestamp::from_micros(1_772_441_000_000_000);
    let child = NodePassage { range_start: moment, range_end: moment, content: detailed };
    let above = SummaryRequest::new(
        Level::FIRST.above(),
        Strategy::Thematic,
        SummaryLength::Keep(1.0),
        true,
        vec![Passage::Node(child)],
        SessionInfo::default(),
    );
    let overview = summarize(&above).overview;
    assert_eq!(overview.matches("Files: ").count(), 1, "{overview}");
}

#[test]
fn a_new_title_changes_nothing() {
    for strategy in Strategy::ALL {
        let mut renamed = long(strategy);
        renamed.session = SessionInfo {
            title: Some("Berths and tides of Kerzavel".into()),
            participants: vec!["Yann".into()],
            ..SessionInfo::default()
        };
        assert_eq!(summarize(&renamed), summarize(&long(strategy)), "{strategy}");
    }
}

#[test]
fn sentences_can_be_counted() {
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Sentences(3, 4), &TIDES));
    let found = treering_core::sentence::split(&content.overview).len();
    assert!((3..=4).contains(&found), "{}", content.overview);
}

#[test]
fn a_line_of_fragments_is_one_unit() {
    for strategy in Strategy::ALL {
        check(&brief(strategy, SummaryLength::Keep(0.05), &["Juno: I! I? I? I! I "]));
        check(&brief(strategy, SummaryLength::Keep(0.05), &["user: I! I? I? I! I "]));
    }
}

fn check(brief: &SummaryRequest) {
    let content = summarize(brief);
    let source = brief.facts();
    let fidelity = fidelity(&content, source);
    assert_eq!(fidelity.invented, Vec::<String>::new(), "{}", content.overview);
    if let Some(target) = brief.target_chars().map(|chars| chars as usize) {
        let most = target + target / 10;
        let is_short = content.overview.chars().count() <= most;
        assert!(is_short || content.ranking.len() <= 1, "more than {most}: {}", content.overview);
    }
    if brief.passages.iter().any(
        |passage| matches!(passage, Passage::Message(message) if !message.text.trim().is_empty()),
    ) {
        assert!(!content.overview.is_empty());
    }
}

fn strategies() -> impl proptest::strategy::Strategy<Value = Strategy> {
    prop::sample::select(Strategy::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_text_is_summarized_faithfully(
        texts in prop::collection::vec("[\\PC\n]{0,160}", 0..6),
        strategy in strategies(),
        share in 0.05_f32..1.0,
    ) {
        let passages = texts.iter().enumerate().map(|(place, text)| {
            passage(if place % 2 == 0 { Role::User } else { Role::Assistant }, None, text)
        });
        let passages: Vec<Passage> = passages.filter(|passage| {
            matches!(passage, Passage::Message(message) if message.text.chars().any(char::is_alphanumeric))
        }).collect();
        check(&SummaryRequest::new(Level::FIRST, strategy, SummaryLength::Keep(share), true, passages, SessionInfo::default()));
    }

    #[test]
    fn likely_text_is_summarized_faithfully(
        texts in prop::collection::vec(
            "((I|You|My|Ana|the|Berth|tide_gauge|src/a\\.rs|is|will|want|[0-9]{1,4}|GB|May|at|pm|3\\.5|decided|because)[ ]?[,.?!:]? ){1,40}",
            1..12,
        ),
        strategy in strategies(),
        share in 0.05_f32..1.0,
    ) {
        let speakers = ["Ana", "Juno Silva"];
        let passages =
            texts.iter().enumerate().map(|(place, text)| passage(Role::User, Some(speakers[place % 2]), text));
        let passages = passages.collect();
        check(&SummaryRequest::new(Level::FIRST, strategy, SummaryLength::Keep(share), true, passages, SessionInfo::default()));
    }
}

fn on(day: &str, author: &str, text: &str) -> Passage {
    let at: Timestamp = format!("2023-05-{day}T13:56:00Z").parse().unwrap();
    let author = Some(author.to_owned());
    Passage::Message(MessagePassage { role: Role::User, author, at, text: text.to_owned() })
}

fn of_passages(level: Level, passages: Vec<Passage>) -> SummaryRequest {
    let (strategy, length) = (Strategy::Detailed, SummaryLength::Sentences(1, 9));
    SummaryRequest::new(level, strategy, length, true, passages, SessionInfo::default())
}

#[test]
fn a_question_keeps_its_answer() {
    let lines = ["user: Which port does staging use?", "assistant: 7410, since March."];
    let content = summarize(&brief(Strategy::Detailed, SummaryLength::Keep(0.5), &lines));
    assert_eq!(
        content.overview,
        "- User: Which port does staging use? Assistant: 7410, since March."
    );
}

#[test]
fn quotations_are_not_rewritten() {
    let lines = [
        "Ana: The sticker on his van says I brake for whales.",
        "Juno: I sold my boat to the harbour office.",
    ];
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Sentences(1, 4), &lines));
    for line in lines {
        assert!(content.overview.contains(line), "{}", content.overview);
    }
}

#[test]
fn points_carry_their_day_if_the_source_has_several() {
    let content = summarize(&of_passages(
        Level::FIRST,
        vec![
            on("08", "Ana", "I visited the harbour of Kerzavel yesterday."),
            on("08", "Ana", "My cousin Yann repaired the old tide gauge."),
            on("21", "Ana", "I bought a radio for the pilot boat."),
        ],
    ));
    assert_eq!(
        content.overview,
        "- Ana: I visited the harbour of Kerzavel yesterday (7 May 2023).\n\
         - 8 May 2023, Ana: My cousin Yann repaired the old tide gauge.\n\
         - 21 May 2023, Ana: I bought a radio for the pilot boat."
    );
    let days: Vec<Option<&str>> =
        content.ranking.iter().map(|ranked| ranked.day.as_deref()).collect();
    assert!(days.iter().all(Option::is_some), "{days:?}");
}

#[test]
fn levels_above_take_over_the_points_of_the_children() {
    let child = |day: &str, text: &str| {
        let content = summarize(&of_passages(Level::FIRST, vec![on(day, "Ana", text)]));
        let moment: Timestamp = format!("2023-05-{day}T13:56:00Z").parse().unwrap();
        Passage::Node(NodePassage { range_start: moment, range_end: moment, content })
    };
    let children = vec![
        child("08", "I visited the harbour of Kerzavel yesterday."),
        child("21", "I bought a radio for the pilot boat."),
    ];
    let content = summarize(&of_passages(Level::FIRST.above(), children));
    assert_eq!(
        content.overview,
        "- Ana: I visited the harbour of Kerzavel yesterday (7 May 2023).\n\
         - 21 May 2023, Ana: I bought a radio for the pilot boat."
    );
}

/// A child with these points, the best first.
fn child(points: &[&str]) -> Passage {
    let at = Timestamp::from_micros(0);
    let overview = points.iter().map(|point| format!("- {point}\n")).collect();
    let ranking = (0..).take(points.len());
    let ranking = ranking.map(|line| treering_core::RankedLine { line, worth: 100, day: None });
    let content = NodeContent { overview, ranking: ranking.collect(), ..NodeContent::default() };
    Passage::Node(NodePassage { range_start: at, range_end: at, content })
}

#[test]
fn levels_above_open_with_what_was_wanted() {
    let children = vec![
        child(&["Juno: The gauge at Kerzavel reads 4,120 mm at 10:30 and 3,980 mm at 10:40."]),
        child(&[
            "Juno: The pump of the Roscoff slipway draws 12 A at 230 V since Tuesday.",
            "Ana: I want to warn skippers by SMS before the basin dries out.",
        ]),
    ];
    for strategy in [Strategy::Thematic, Strategy::Executive, Strategy::Technical] {
        let mut request = of_passages(Level::FIRST.above(), children.clone());
        request.strategy = strategy;
        let overview = summarize(&request).overview;
        let first = overview.lines().find(|line| line.starts_with("- ")).unwrap();
        assert!(first.contains("I want to warn skippers"), "{strategy}: {overview}");
    }
}

#[test]
fn levels_above_take_single_sentences_of_a_line() {
    let long = "Ana: The weather was fine. I sold the wooden dinghy to Yann Le Goff for 900 euros in Roscoff. \
                It was a nice day. We had coffee.";
    let dialogue = "Ana: Which berth dries out at low water? Juno: The fuel berth.";
    let mut request = of_passages(Level::FIRST.above(), vec![child(&[long, dialogue])]);
    request.length = SummaryLength::Keep(0.8);
    let overview = summarize(&request).overview;
    assert!(overview.contains(dialogue), "an answer stays with its question: {overview}");
    request.length = SummaryLength::Keep(0.35);
    let overview = summarize(&request).overview;
    assert_eq!(
        overview,
        "- Ana: I sold the wooden dinghy to Yann Le Goff for 900 euros in Roscoff."
    );
}

#[test]
fn a_short_decision_is_kept() {
    let lines = [
        "Ana: The small wooden hull was painted with black tar and linseed oil.",
        "Ana: The copper nails along the keel came from a cousin in Roscoff.",
        "Juno: We decided to cache the tide table.",
    ];
    let content = summarize(&brief(Strategy::Concise, SummaryLength::Sentences(2, 2), &lines));
    assert!(content.overview.contains("We decided to cache"), "{}", content.overview);
}

#[test]
fn a_statement_with_a_date_ranks_higher() {
    let lines = [
        "Ana: I painted the small wooden hull with tar and linseed oil.",
        "Ana: I painted the large copper mast with zinc and boiled resin yesterday.",
    ];
    for lines in [lines, [lines[1], lines[0]]] {
        let content = summarize(&brief(Strategy::Concise, SummaryLength::Sentences(1, 1), &lines));
        assert!(content.overview.contains("yesterday"), "{}", content.overview);
    }
}

#[test]
fn the_ranking_is_a_ranking_of_the_points() {
    for strategy in Strategy::ALL {
        let content = summarize(&long(strategy));
        let points = content.points();
        assert_eq!(points.len(), content.ranking.len(), "{strategy}");
        let mut positions: Vec<usize> = points.iter().map(|point| point.position).collect();
        positions.sort_unstable();
        assert_eq!(positions, (0..points.len()).collect::<Vec<_>>(), "{strategy}");
        assert!(points.iter().all(|point| !prompt::is_heading(point.text)), "{strategy}");
    }
}

#[test]
fn a_failed_tool_call_is_reported() {
    let length = SummaryLength::Sentences(1, 4);
    let mut request = brief(Strategy::Concise, length, &["user: Fix the build of the gauge."]);
    let tool = ToolPassage {
        name: "cargo".into(),
        success: Some(false),
        args: "{}".into(),
        result: "\"error: cannot find type Tide\"".into(),
    };
    request.passages.push(Passage::Tool(tool));
    let content = summarize(&request);
    assert!(
        content.overview.contains("cargo failed: error: cannot find type Tide"),
        "{}",
        content.overview
    );
}
