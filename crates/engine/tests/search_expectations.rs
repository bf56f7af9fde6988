//! Rankings that a person expects, on small conversations with the bundled embedder.

#![allow(clippy::unwrap_used)]

use crate::common::{engine_with_defaults, start};
use treering_core::{
    ConversationId, Entry, EntryKind, Json, NewMessage, NewToolCall, Role, ThreadName, Timestamp,
    ToolResult,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, Exclusion, Hit, HitItem, NewConversation, Query,
    ReplayDetection,
};
use treering_testkit::generate::external_id;

const DAY_MICROS: i64 = 86_400_000_000;

/// Everyday messages that answer none of the questions.
const SMALL_TALK: [&str; 12] = [
    "Good morning! Did you sleep well?",
    "The weather was lovely at the harbor, so we walked for two hours.",
    "My sister called about the holidays; she wants to come in August.",
    "I spent the evening repotting tomatoes and listening to the radio.",
    "Could you help me word an email to the landlord about the heating?",
    "Sure. Start with the date of the first complaint and stay polite.",
    "We watched a documentary about glaciers, and it was rather sad.",
    "The bakery on the corner finally has rye bread again.",
    "I am tired today, the neighbors had a party until three.",
    "Remember to bring an umbrella, they say it will rain on Friday.",
    "My back hurts from carrying boxes up the stairs.",
    "The train was late, but I finished my novel on the platform.",
];

/// A message: the day, the role and the text.
type Said<'a> = (i64, Role, &'a str);

fn on_day(day: i64) -> Timestamp {
    start().plus_micros(day * DAY_MICROS)
}

fn append(engine: &Engine, key: &str, entries: Vec<Entry>) -> ConversationId {
    let new_conversation =
        NewConversation { external_id: Some(external_id(key)), ..NewConversation::default() };
    let batch = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(batch).unwrap().conversation.id
}

fn entry((day, role, text): Said<'_>) -> Entry {
    Entry::message(ThreadName::main(), NewMessage::new(role, text, on_day(day)))
}

/// An engine with a conversation of small talk on day 0, followed by the given messages.
fn engine_with(said: &[Said<'_>]) -> (Engine, tempfile::TempDir) {
    let (engine, folder) = engine_with_defaults();
    let small_talk = SMALL_TALK.iter().map(|text| (0, Role::User, *text));
    append(&engine, "chat", small_talk.chain(said.iter().copied()).map(entry).collect());
    (engine, folder)
}

fn find(engine: &Engine, text: &str) -> Vec<Hit> {
    let query = Query { text: text.to_owned(), limit: 10, ..Query::default() };
    engine.search(&query).unwrap().hits
}

fn text(hit: &Hit) -> &str {
    match &hit.item {
        HitItem::Message(message) => &message.body.text,
        HitItem::ToolCall(call) => &call.call.name,
        HitItem::Node(_) => "",
    }
}

#[test]
fn nonsense_finds_nothing() {
    let (engine, _folder) = engine_with(&[]);
    for nonsense in ["zxqv blorf", "florbish wanduplet", "qwrtp"] {
        assert!(find(&engine, nonsense).is_empty(), "{nonsense}");
    }
    let everything =
        Query { text: "zxqv blorf".into(), limit: 10, min_score: Some(0.0), ..Query::default() };
    assert!(!engine.search(&everything).unwrap().hits.is_empty(), "on request");
}

#[test]
fn a_topic_that_was_never_discussed_finds_weak_hits_at_most() {
    let (engine, _folder) = engine_with(&[]);
    for unanswerable in [
        "kubernetes ingress certificate rotation",
        "What did the dentist say about the implant?",
        "Which university did Priya graduate from?",
    ] {
        let hits = find(&engine, unanswerable);
        assert!(hits.iter().all(Hit::is_weak), "{unanswerable}: {:?}", hits.first().map(text));
    }
    let hits = find(&engine, "What bread does the bakery have?");
    assert!(!hits[0].is_weak() && text(&hits[0]).contains("rye bread"));
}

#[test]
fn a_code_name_as_typed_comes_first() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "Books.plist is in the bundle."),
        (1, Role::Assistant, "Then read Books.plist once at startup."),
        (1, Role::User, "books and plist files, both are loaded lazily"),
        (
            1,
            Role::User,
            "It takes a while until the loader reads the constant BOOKS_PLIST, which \
                         names the file that lists all the titles on the shelf of the reader.",
        ),
        (1, Role::User, "The plist of books is old."),
    ]);
    for question in ["BOOKS_PLIST", "Where is BOOKS_PLIST read?"] {
        let hits = find(&engine, question);
        assert!(text(&hits[0]).contains("BOOKS_PLIST"), "{question}: {}", text(&hits[0]));
    }
}

#[test]
fn an_error_message_as_typed_comes_first() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "No file in that directory matches, and such a directory is of no use."),
        (
            1,
            Role::User,
            "The build said: sh: 1: tidy: No such file or directory (os error 2), and \
                         after that it went on for a long time with other steps that all worked.",
        ),
    ]);
    for question in ["No such file or directory", "\"no such file or directory\"", "os error 2"] {
        let hits = find(&engine, question);
        assert!(text(&hits[0]).contains("os error 2"), "{question}: {}", text(&hits[0]));
    }
}

#[test]
fn a_path_or_number_as_typed_comes_first_among_tool_calls() {
    let (engine, _folder) = engine_with(&[]);
    let call = |name: &str, args: &str, result: &str| {
        let outcome =
            ToolResult { result: Json::string(result), success: Some(true), duration_ms: None };
        let args = Json::new(args).unwrap();
        let (at, external_id) = (on_day(1), Some(external_id(name)));
        let call = NewToolCall { name: name.into(), args, outcome: Some(outcome), at, external_id };
        Entry::from(EntryKind::ToolCall(call))
    };
    append(
        &engine,
        "chat",
        vec![
            call("read", r#"{"path": "src/model/tide.rs"}"#, "model of the tide in src"),
            call("edit", r#"{"path": "src/tide_model.rs"}"#, "line 7410 changed"),
            call("list", r#"{"path": "src"}"#, "rs files: model, tide; 17410 lines"),
        ],
    );
    for question in ["src/tide_model.rs", "7410"] {
        assert_eq!(text(&find(&engine, question)[0]), "edit", "{question}");
    }
}

#[test]
fn no_word_of_a_search_is_dropped() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "I went shopping for shoes."),
        (2, Role::User, "Please put eggs on the shopping list, we have none left."),
        (3, Role::User, "Shopping again tomorrow."),
    ]);
    assert!(text(&find(&engine, "shopping list")[0]).contains("eggs"));
    assert!(text(&find(&engine, "What is on my shopping list?")[0]).contains("eggs"));
}

#[test]
fn the_latest_statement_answers_a_question_about_now() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "I live in Paris, close to the canal."),
        (150, Role::User, "We moved to Lyon last week. The flat is bright."),
        (151, Role::User, "The boxes are unpacked."),
    ]);
    for question in ["Where do I live now?", "Where do I live?"] {
        let hits = find(&engine, question);
        assert!(text(&hits[0]).contains("Lyon"), "{question}: {}", text(&hits[0]));
        let paris = hits.iter().find(|hit| text(hit).contains("Paris")).unwrap();
        let HitItem::Message(lyon) = &hits[0].item else { panic!("a message") };
        assert_eq!(paris.superseded_by, Some((hits[0].conversation, lyon.idx)));
        assert_eq!(hits[0].superseded_by, None);
        let only = Query { text: question.into(), limit: 1, ..Query::default() };
        assert!(text(&engine.search(&only).unwrap().hits[0]).contains("Lyon"), "{question}");
    }
    let hits = find(&engine, "Where did I live in January?");
    assert!(text(&hits[0]).contains("Paris") && hits[0].superseded_by.is_none());
}

#[test]
fn a_question_finds_its_answer_outside_the_session_that_asks() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "The staging server listens on 7410 now."),
        (1, Role::Assistant, "Noted."),
    ]);
    let question = "Which port does the staging server use?";
    let asking = append(&engine, "asking", vec![entry((2, Role::User, question))]);
    let exclude = vec![Exclusion::Conversation(asking)];
    let query = Query { text: question.into(), limit: 10, exclude, ..Query::default() };
    let hits = engine.search(&query).unwrap().hits;
    assert!(text(&hits[0]).contains("7410"));
    assert!(hits.iter().all(|hit| hit.conversation != asking));
    assert_eq!(text(&find(&engine, question)[0]), question, "unless the session is searched too");
}

#[test]
fn a_question_for_a_reason_finds_it() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "I lost my job at the bank, so I want to turn my hobby into a business."),
        (2, Role::User, "I am starting a dance studio because dancing is what I love."),
        (9, Role::User, "The studio needs a new floor, and the mirrors arrive on Monday."),
        (12, Role::User, "We opened a second room for the yoga class."),
    ]);
    let hits = find(&engine, "Why did I open a dance studio?");
    assert!(hits.iter().take(3).any(|hit| text(hit).contains("because")));
}

#[test]
fn what_somebody_does_for_a_living_is_no_room() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "My new living room has two windows, and the couch is green."),
        (2, Role::User, "My job as a game tester pays the rent."),
        (3, Role::User, "We live near the harbor, in a room with a view."),
    ]);
    let hits = find(&engine, "What do I do for a living?");
    assert!(text(&hits[0]).contains("game tester"), "{}", text(&hits[0]));
}

#[test]
fn what_happened_is_found_beside_the_words_of_the_question() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "My neighbor has a dog that barks at the postman."),
        (2, Role::User, "What happened at the office yesterday?"),
        (3, Role::User, "It was a hard week: we had to say goodbye to Max after ten years."),
        (3, Role::Assistant, "I am so sorry about your dog."),
        (9, Role::User, "The dog park has a new fence."),
    ]);
    let hits = find(&engine, "What happened to my dog?");
    assert!(hits.iter().take(3).any(|hit| text(hit).contains("goodbye to Max")));
}

#[test]
fn a_kind_of_thing_finds_an_instance_of_it() {
    let (engine, _folder) = engine_with(&[
        (1, Role::User, "I signed up for taekwondo at the gym."),
        (2, Role::User, "The art museum opens late on Thursdays."),
    ]);
    let hits = find(&engine, "Which martial arts have I tried?");
    assert!(hits.iter().take(3).any(|hit| text(hit).contains("taekwondo")));
}

/// About this many bytes of text without the words of the questions below.
fn prose(bytes: usize) -> String {
    let mut state = 7;
    let sentence = |_| treering_testkit::generate::sentence(&mut state, 12);
    (0..bytes / 60).map(sentence).collect::<Vec<_>>().join(". ")
}

#[test]
fn the_end_of_a_long_text_is_found() {
    for bytes in [8_000, 64_000, 300_000] {
        let long = format!("{}. The gate key hangs in the zirkelhut.", prose(bytes));
        let (engine, _folder) = engine_with(&[(1, Role::Assistant, &long)]);
        let noise = (0..200).map(|number| {
            let text = format!("{}, and where is item {number}?", SMALL_TALK[number % 12]);
            Entry::message(ThreadName::main(), NewMessage::new(Role::User, text, on_day(2)))
        });
        append(&engine, "chat", noise.collect());
        for question in ["zirkelhut", "Where is the zirkelhut?", "What hangs in the zirkelhut?"] {
            let hits = find(&engine, question);
            assert_eq!(text(&hits[0]), long, "{bytes} bytes: {question}: {:?}", hits[0].snippet);
            assert!(!hits[0].is_weak(), "{bytes} bytes: {question}: {}", hits[0].score);
            assert!(hits[0].snippet.text.contains("zirkelhut"), "{}", hits[0].snippet);
        }
    }
}

#[test]
fn the_end_of_a_long_tool_result_is_found() {
    let (engine, _folder) = engine_with(&[]);
    let result = format!("{}. The gate key hangs in the zirkelhut.", prose(200_000));
    let outcome =
        ToolResult { result: Json::string(&result), success: Some(true), duration_ms: None };
    let call = NewToolCall {
        name: "read".into(),
        args: Json::empty_object(),
        outcome: Some(outcome),
        at: on_day(1),
        external_id: None,
    };
    let entry = Entry { thread: ThreadName::main(), kind: EntryKind::ToolCall(call) };
    append(&engine, "chat", vec![entry]);
    let hits = find(&engine, "zirkelhut");
    assert_eq!(hits.first().map(text), Some("read"));
    assert!(hits[0].snippet.text.contains("zirkelhut"), "{}", hits[0].snippet);
}

/// Messages of a memory, and questions with a part of the message that answers each.
type Memory<'a> = (Vec<Said<'a>>, Vec<(&'a str, &'a str)>);

/// The memories of a file: `# ` begins one, `? QUESTION | PART` is a question, and any other line
/// is a message of a day of its own.
fn memories(file: &str) -> Vec<Memory<'_>> {
    let mut memories: Vec<Memory<'_>> = Vec::new();
    for line in file.lines() {
        if line.starts_with("# ") {
            memories.push((Vec::new(), Vec::new()));
            continue;
        }
        let (messages, questions) = memories.last_mut().unwrap();
        match line.strip_prefix("? ").and_then(|it| it.split_once(" | ")) {
            Some(question) => questions.push(question),
            None => messages.push((messages.len() as i64 + 1, Role::User, line)),
        }
    }
    memories
}

#[test]
fn french_questions_find_answers_by_meaning_in_both_languages() {
    for ((messages, questions), (ranked, returned)) in
        memories(include_str!("expectations/french.txt")).iter().zip([(22, 8), (15, 8)])
    {
        let (engine, _folder) = engine_with(messages);
        let found = |min_score: Option<f32>| {
            let is_found = |(question, part): &&(&str, &str)| {
                let query =
                    Query { text: (*question).into(), limit: 5, min_score, ..Query::default() };
                engine.search(&query).unwrap().into_iter().any(|hit| text(&hit).contains(part))
            };
            questions.iter().filter(is_found).count()
        };
        let (all, default) = (found(Some(0.0)), found(None));
        println!(
            "of {} answers, {all} are among the first five, and {default} above the minimum score",
            questions.len()
        );
        assert!(all >= ranked && default >= returned, "{all}, {default}");
    }
}
