//! An export round-trips: importing it gives the same conversations, whatever the target store
//! holds.

#![allow(clippy::unwrap_used)]

use std::fs;

use crate::home::Home;
use proptest::prelude::*;
use serde_json::{Value, json};
use treering::{
    AppendTarget, Engine, Entry, EntryBatch, EntryKind, ForkPoint, NewConversation, NewMessage,
    NewToolCall, ReplayDetection, Role, ThreadName, Timestamp, ToolResult,
};
use treering_core::ports::{ConversationFilter, Span};
use treering_core::{ConversationState, ExternalId, Json, Labels, MessageIdx, TitleSource, TurnNo};
use treering_testkit::generate::conversation;

/// Titles whose slugs collide, or look like the numbered slug of another.
const TITLES: [&str; 6] =
    ["x", "x 2", "x 10", "X!", "one two three four five six seven eight nine ten", "?!"];

/// A generated conversation.
#[derive(Debug, Clone)]
struct SampleConversation {
    title: Option<&'static str>,
    renamed: bool,
    state: ConversationState,
    policy: Vec<&'static str>,
    key: bool,
    entries: Vec<Entry>,
}

fn sample() -> impl Strategy<Value = SampleConversation> {
    let state = prop::sample::select(ConversationState::ALL.to_vec());
    let policies =
        vec![vec![], vec!["preset=turns", "window_chars=5000"], vec!["length@2=3-4 sentences"]];
    let title = prop::option::weighted(0.8, prop::sample::select(TITLES.to_vec()));
    let policy = prop::sample::select(policies);
    (title, any::<bool>(), state, policy, any::<bool>(), conversation(14)).prop_map(
        |(title, renamed, state, policy, key, entries)| SampleConversation {
            title,
            renamed,
            state,
            policy,
            key,
            entries,
        },
    )
}

fn null() -> Json {
    Json::new("null").unwrap()
}

/// Entries that the generator does not produce: nulls, parts, chosen fork points, no external
/// ids.
fn odd_entries(at: Timestamp) -> Vec<Entry> {
    let thread = |name: &str| ThreadName::new(name).unwrap();
    let fork = |name: &str, parent: ThreadName, after| Entry {
        thread: thread(name),
        kind: EntryKind::Fork { parent, after },
    };
    let result = |result, success| Some(ToolResult { result, success, duration_ms: None });
    let call = |args, outcome| {
        EntryKind::ToolCall(NewToolCall {
            name: "tool".into(),
            args,
            outcome,
            at,
            external_id: None,
        })
    };
    let mut unusual = NewMessage::new(Role::Assistant, "odd \u{0}", at);
    unusual.author = Some(String::new());
    unusual.parts = Some(null());
    let mut kept = NewMessage::new(Role::Tool, "\u{fffd}", at.plus_micros(1));
    kept.parts = Some(Json::new("{\"b\": 1.0,\n \"a\": \"\\ud83d\"}").unwrap());
    vec![
        call(null(), result(null(), None)).into(),
        Entry::message(ThreadName::main(), unusual),
        call(Json::new("[1, 2]").unwrap(), result(null(), Some(false))).into(),
        call(Json::string("x"), result(Json::string("y"), None)).into(),
        call(Json::string("open"), None).into(),
        fork("from-start", ThreadName::main(), ForkPoint::Start),
        fork("from-first", thread("from-start"), ForkPoint::Position(MessageIdx(0))),
        Entry::message(thread("from-first"), kept),
        fork("unused", ThreadName::main(), ForkPoint::Position(MessageIdx(1))),
    ]
}

fn append(
    engine: &Engine,
    new_conversation: NewConversation,
    entries: Vec<Entry>,
) -> treering_core::Conversation {
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation
}

/// Creates conversations in a home; the last is empty and the one before it holds `odd_entries`.
fn fill(home: &Home, conversations: &[SampleConversation]) {
    let engine = treering::open_engine(home.path()).unwrap();
    for (number, sample) in conversations.iter().enumerate() {
        let new_conversation = NewConversation {
            external_id: sample.key.then(|| ExternalId::new(format!("key-{number}")).unwrap()),
            title: sample.title.map(str::to_owned),
            title_source: TitleSource::Source,
            participants: vec!["Zoé".into()],
            cwd: Some("/srv/../srv/tides".into()),
            project_path: Some("/srv".into()),
            labels: Labels::parse(["source=codex", "user=Zoé 42"]).unwrap(),
            ..NewConversation::default()
        };
        let id = append(&engine, new_conversation, sample.entries.clone()).id;
        if sample.renamed {
            engine.rename(id, &format!("Renamed {number}")).unwrap();
        }
        let policy = sample.policy.iter().map(|it| it.parse().unwrap()).collect();
        engine.set_policy(id, policy).unwrap();
        engine.set_state(id, sample.state).unwrap();
    }
    let at = "2026-03-02T08:41:00.000007Z".parse().unwrap();
    append(&engine, NewConversation::default(), odd_entries(at));
    append(
        &engine,
        NewConversation { slug: Some("x".into()), ..NewConversation::default() },
        Vec::new(),
    );
}

/// Imports an export and returns the report.
fn import(home: &Home, export: &str) -> Value {
    fs::write(home.path().join("all.jsonl"), export).unwrap();
    home.json(&["import", "--no-tree", "all.jsonl"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn an_imported_export_is_the_same(conversations in prop::collection::vec(sample(), 1..7)) {
        let (home, copy) = (Home::new(), Home::new());
        fill(&home, &conversations);
        let export = home.ok(&["export"]);
        let first = import(&copy, &export);
        prop_assert_eq!(&first["total"]["slugs_changed"], &json!([]));
        prop_assert_eq!(first["total"]["conversations_new"].as_u64(), Some(conversations.len() as u64 + 2));
        prop_assert_eq!(&copy.ok(&["export"]), &export);
        prop_assert_eq!(facts(&copy), facts(&home));

        let again = import(&copy, &export);
        for new in ["conversations_new", "messages_new", "tool_calls_new", "results_new", "threads_new"] {
            prop_assert_eq!(again["total"][new].as_u64(), Some(0), "{}", new);
        }
        prop_assert_eq!(&copy.ok(&["export"]), &export);
        prop_assert!(copy.ok(&["verify"]).contains("no problems found"));
    }

    #[test]
    fn the_order_of_conversations_does_not_matter(conversations in prop::collection::vec(sample(), 2..6)) {
        let (home, copy) = (Home::new(), Home::new());
        fill(&home, &conversations);
        let export = home.ok(&["export"]);
        let mut parts: Vec<String> = Vec::new();
        for line in export.lines() {
            if line.starts_with("{\"type\":\"conversation\"") || parts.is_empty() {
                parts.push(String::new());
            }
            parts.last_mut().unwrap().push_str(&format!("{line}\n"));
        }
        parts[1..].reverse();
        import(&copy, &parts.concat());
        prop_assert_eq!(&copy.ok(&["export"]), &export);
    }
}

#[test]
fn edits_corrections_and_placeholders_round_trip() {
    let (home, copy) = (Home::new(), Home::new());
    for (number, text) in
        ["The port is 7410.", "The berth is 4.", "My card is 4111."].iter().enumerate()
    {
        let (id, call) = (format!("m{number}"), format!("c{number}"));
        let tool = json!({ "name": "gauge", "args": { "berth": 4 }, "result": "5.4 m", "external_id": call });
        let tool = tool.to_string();
        let ids = ["append", "--key", "k", "--external-id", &id, "--tool", &tool];
        home.json(&[&ids[..], &["--user", text, "--assistant", "Noted."]].concat());
    }
    home.json(&["edit", "k#0", "--text", "The port is 7411."]);
    home.json(&["correct", "k#0", "--with", "It is 7412."]);
    home.json(&["correct", "k#0", "--with", "It is 7413."]);
    home.json(&["correct", "k#2"]);
    home.json(&["edit", "k#2", "--text", "The berth is 5."]);
    home.json(&["forget", "k", "--turn", "2", "--yes"]);
    let export = home.ok(&["export"]);
    for text in ["7410", "7411", "7412", "7413", "berth is 4", "berth is 5", "wrong_at"] {
        assert!(export.contains(text), "{text}: {export}");
    }
    let report = import(&copy, &export);
    assert_eq!(report["files"][0]["error"], Value::Null, "{report}");
    // The first line has the salts of both stores.
    let content = |export: &str| export.split_once('\n').unwrap().1.to_owned();
    assert_eq!(content(&copy.ok(&["export"])), content(&export));
    let history = |home: &Home| home.json(&["show", "k#0", "--history"])["versions"].clone();
    assert_eq!(history(&copy), history(&home));
    assert_eq!(history(&copy)[2]["correction"], "It is 7412.");
    // A forget in the copy reaches the history that came with the export.
    copy.json(&["forget", "k", "--message", "0", "--yes"]);
    std::fs::remove_file(copy.path().join("all.jsonl")).unwrap();
    let store = std::fs::read(copy.path().join("treering.db")).unwrap();
    let has = |text: &str| store.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(has("berth is 5") && !has("7410") && !has("7412"));
}

/// Turns, order and counts, which an export does not state.
fn facts(home: &Home) -> Vec<String> {
    let engine = treering::open_engine(home.path()).unwrap();
    let fact = |session: treering_engine::ListedConversation| {
        let (it, turns) = (&session.conversation, Span::starting(TurnNo(0), 1000));
        let turns = engine.turns(it.id, turns).unwrap();
        format!("{:?} {:?} {:?} {:?} {turns:?}", it.totals, it.last_activity, it.threads, it.policy)
    };
    engine
        .listed_conversations(&ConversationFilter::all(100))
        .unwrap()
        .into_iter()
        .map(fact)
        .collect()
}

/// A home with one conversation whose slug is `x`, and its export.
fn with_x(text: &str) -> (Home, String) {
    let home = Home::new();
    home.ok(&["append", "--title", "x", "--user", text, "--assistant", "Yes."]);
    let export = home.ok(&["export"]);
    (home, export)
}

#[test]
fn a_slug_that_is_taken_gets_the_next_number_and_is_reported() {
    let (home, export) = with_x("One?");
    let (other, _) = with_x("Two?");
    let report = import(&other, &export);
    assert_eq!(report["total"]["slugs_changed"], json!([{ "requested": "x", "assigned": "x-2" }]));
    // A numbered slug continues with the next number.
    home.ok(&["append", "--title", "x", "--user", "Three?"]);
    let report = import(&other, &home.ok(&["export"]));
    assert_eq!(
        report["total"]["slugs_changed"],
        json!([{ "requested": "x-2", "assigned": "x-3" }])
    );
    fs::write(home.path().join("other.jsonl"), other.ok(&["export"])).unwrap();
    let output = home.ok(&["import", "--no-tree", "other.jsonl"]);
    assert!(output.contains("slug x is taken; the new conversation is x-3"), "{output}");
}

#[test]
fn local_changes_survive_an_import() {
    let (home, export) = with_x("One?");
    home.ok(&["rename", "x", "Mine"]);
    let renamed = home.ok(&["export"]);
    let copy = Home::new();
    import(&copy, &renamed);
    copy.ok(&["rename", "mine", "Ours"]);
    copy.ok(&["archive", "ours"]);
    copy.ok(&["policy", "ours", "window_chars=5000"]);
    let changed = copy.ok(&["export"]);
    for older in [&export, &renamed] {
        import(&copy, older);
        assert_eq!(copy.ok(&["export"]), changed);
    }
    // New messages reopen the conversation, as always. An open conversation is not closed by an
    // import.
    home.ok(&["append", "mine", "--user", "Two?", "--assistant", "No."]);
    let report = import(&copy, &home.ok(&["export"]));
    assert_eq!(report["total"]["messages_new"], 2);
    home.ok(&["append", "mine", "--user", "Three?", "--assistant", "No."]);
    home.ok(&["close", "mine"]);
    assert_eq!(import(&copy, &home.ok(&["export"]))["total"]["messages_new"], 2);
    let exported = copy.ok(&["export"]);
    assert!(
        exported.contains(r#""slug":"ours","title":"Ours","title_source":"person""#),
        "{exported}"
    );
    assert!(
        exported.contains(r#""state":"open""#) && exported.contains("window_chars=5000"),
        "{exported}"
    );
}

#[test]
fn exports_of_the_first_version_are_read() {
    let home = Home::new();
    let export = r#"{"type":"treering","version":1}
{"type":"conversation","id":"0123456789abcdef0123456789abcdef","slug":"tides-2","title":"Tides","naming":"person","participants":[],"started_at":"2026-03-02T08:41:00Z","state":"archived"}
{"type":"message","idx":0,"role":"user","text":"When?","at":"2026-03-02T08:41:00Z"}
"#;
    import(&home, export);
    let expected =
        export.replace("\"version\":1", "\"version\":5").replace("\"naming\"", "\"title_source\"");
    assert_eq!(home.ok(&["export"]), expected);
}

#[test]
fn unknown_fields_are_refused_by_name() {
    let home = Home::new();
    for line in [
        r#"{"type":"conversation","slug":"x","label":{}}"#,
        r#"{"type":"thread","name":"idea","parent":"main","label":1}"#,
        r#"{"type":"message","role":"user","text":"x","label":1}"#,
        r#"{"role":"user","text":"x","label":1}"#,
        r#"{"role":"user","content":"x","label":1}"#,
        r#"{"type":"tool_call","name":"x","label":1}"#,
        r#"{"type":"tool_result","call":"x","result":1,"label":1}"#,
        r#"{"type":"turn","user":"x","label":1}"#,
        r#"{"type":"turn","user":"x","tool_calls":[{"name":"x","label":1}]}"#,
    ] {
        let output = home.feed(&["append"], line);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains("`label"), "{line}: {stderr}");
    }
    assert_eq!(home.ok(&["export"]).lines().count(), 1);
    let line =
        r#"{"role":"user","content":"x","thread":"idea","at":"2026-03-02T08:41:00Z","audio":null}"#;
    assert!(home.feed(&["append"], line).status.success());
    let export = home.ok(&["export"]);
    assert!(
        export.contains(r#""thread":"idea","role":"user","text":"x","at":"2026-03-02T08:41:00Z""#),
        "{export}"
    );
}

#[cfg(unix)]
#[test]
fn an_export_is_readable_by_its_owner_only() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let (home, export) = with_x("One?");
    let file = home.path().join("all.jsonl");
    let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
    home.ok(&["export", "-o", "all.jsonl"]);
    assert_eq!(mode(), 0o600);
    // An existing file is replaced, including its wider permissions.
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    symlink("all.jsonl", home.path().join("link")).unwrap();
    home.ok(&["export", "-o", "link"]);
    assert_eq!((mode(), fs::read_to_string(&file).unwrap()), (0o600, export));
    assert!(fs::symlink_metadata(home.path().join("link")).unwrap().is_symlink());
    // No temporary file is left behind, even after a failure.
    home.refuses(&["export", "no-such-conversation", "-o", "other.jsonl"], &[]);
    home.refuses(&["export", "-o", "/dev/null"], &["not a regular file"]);
    let names =
        fs::read_dir(home.path()).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
    let files: Vec<String> = names.filter(|name| name.contains("jsonl")).collect();
    assert_eq!(files, ["all.jsonl"]);
}

/// A file that somebody wrote needs neither a key nor ids.
#[test]
fn lines_without_a_key_are_imported_once() {
    let home = Home::new();
    let message = json!({ "type": "message", "role": "user", "text": "Is the gauge up?" });
    let titled = json!({ "type": "conversation", "title": "Gauges" });
    let other = json!({ "type": "message", "role": "user", "text": "And the buoy?" });
    fs::write(home.path().join("bare.jsonl"), format!("{message}\n")).unwrap();
    fs::write(home.path().join("titled.jsonl"), format!("{titled}\n{other}\n")).unwrap();
    for _ in 0..2 {
        home.ok(&["import", "bare.jsonl", "titled.jsonl"]);
        assert_eq!(home.items(&["sessions"]).as_array().unwrap().len(), 2);
    }
    home.refuses(&["append", "--key", "treering:notes:x", "--user", "x"], &["reserved"]);
}
