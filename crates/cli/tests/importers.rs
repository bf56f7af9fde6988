//! Imports every transcript fixture and compares what a user would read. Replays, truncated
//! files, exports and damaged neighbors must not change the result. Never looks inside an
//! importer.

#![allow(clippy::unwrap_used, reason = "a fixture that cannot be read is a failed test")]

use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;
use treering::import::{FileReport, ImportOptions, ImportReport, Importer};
use treering::importers::{Format, SourceFile, detect};
use treering::{Engine, Sync, Timestamp, jsonl};
use treering_core::ports::{ConversationFilter, Span};
use treering_core::text::preview;
use treering_core::{Conversation, Message, ToolCall, TurnNo};
use treering_engine::{TurnItem, WholeTurn};

/// The modification time of every file: 2026-04-01 12:00 UTC.
const MODIFIED: Duration = Duration::from_secs(1_775_044_800);

/// A transcript fixture; its folder names its format.
struct Fixture {
    format: Format,
    path: PathBuf,
    name: String,
    text: String,
}

impl Fixture {
    fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
        let mut files = Importer::files(&[root]);
        files.sort();
        files.into_iter().map(Self::at).collect()
    }

    fn at(path: PathBuf) -> Self {
        let folder = path.parent().and_then(Path::file_name).unwrap().to_str().unwrap();
        let format = Format::ALL.into_iter().find(|format| format.as_str() == folder).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Self { format, name, text: fs::read_to_string(&path).unwrap(), path }
    }

    fn of(format: Format, name: &str) -> Self {
        Self::all().into_iter().find(|it| it.format == format && it.name.starts_with(name)).unwrap()
    }

    fn ending(&self) -> &str {
        self.path.extension().unwrap().to_str().unwrap()
    }
}

/// A temporary store, and a folder for the files to import.
struct ImportHome {
    engine: Engine,
    folder: TempDir,
}

impl ImportHome {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        let engine = treering::open_engine_with(
            &home,
            treering::Options { sync: Sync::Normal, ..Default::default() },
        )
        .unwrap();
        Self { engine, folder }
    }

    /// A home with every fixture imported.
    fn full() -> Self {
        let home = Self::new();
        let report = home.import_all(ImportOptions::default());
        assert_eq!(errors(&report), [""; 0]);
        home
    }

    /// Writes a file with the modification time [`MODIFIED`].
    fn write_source(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join("files").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(UNIX_EPOCH + MODIFIED)
            .unwrap();
        path
    }

    fn run(&self, files: &[PathBuf], options: ImportOptions) -> ImportReport {
        Importer { engine: &self.engine, options }.run(files, |_| ()).unwrap()
    }

    fn import(&self, name: &str, content: &[u8], format: Option<Format>) -> FileReport {
        let file = self.write_source(name, content);
        let options = ImportOptions { format, ..ImportOptions::default() };
        self.run(&[file], options).files.remove(0)
    }

    fn import_all(&self, options: ImportOptions) -> ImportReport {
        let write_fixture = |it: Fixture| {
            self.write_source(&format!("{}/{}", it.format.as_str(), it.name), it.text.as_bytes())
        };
        let files: Vec<PathBuf> = Fixture::all().into_iter().map(write_fixture).collect();
        self.run(&files, options)
    }

    fn conversations(&self) -> Vec<Conversation> {
        let sessions =
            self.engine.listed_conversations(&ConversationFilter::all(usize::MAX >> 1)).unwrap();
        sessions.into_iter().map(|session| session.conversation).collect()
    }

    /// The output of `treering export`.
    fn export(&self) -> String {
        let mut lines = vec![jsonl::header(&treering_core::TombstoneSet::default()).unwrap()];
        let take = |item: treering_core::ExportItem<'_>| {
            lines.push(jsonl::line(item).unwrap());
            Ok::<(), treering::Error>(())
        };
        self.engine.export(&[], take).unwrap();
        lines.join("\n") + "\n"
    }

    fn turns(&self, conversation: &Conversation) -> Vec<WholeTurn> {
        self.engine.turns(conversation.id, Span::starting(TurnNo(0), 1000)).unwrap()
    }

    fn is_sound(&self) -> bool {
        self.engine.verify(|_| ()).unwrap().is_clean()
    }
}

fn errors(report: &ImportReport) -> Vec<&str> {
    report.files.iter().filter_map(|file| file.error.as_deref()).collect()
}

/// The counts of a report, without file paths.
fn counts(report: &ImportReport) -> String {
    format!("{:#?}", report.total())
}

/// The content of a home as a user reads it, and what the import skipped.
fn readable(home: &ImportHome, report: &FileReport) -> String {
    let mut out = String::new();
    for conversation in home.conversations() {
        let Conversation { slug, title, title_source, participants, cwd, .. } = &conversation;
        writeln!(out, "conversation {slug}").unwrap();
        writeln!(out, "  title: {} ({})", title.as_deref().unwrap_or("–"), title_source.as_str())
            .unwrap();
        let identity = conversation.external_id.as_ref().unwrap().to_string();
        writeln!(out, "  identity: {}", preview(&identity, 40)).unwrap();
        cwd.iter().for_each(|cwd| writeln!(out, "  cwd: {cwd}").unwrap());
        if !participants.is_empty() {
            writeln!(out, "  participants: {}", participants.join(", ")).unwrap();
        }
        for thread in &conversation.threads {
            let Some(fork) = &thread.fork else { continue };
            let after = fork.after.map_or("its start".into(), |idx| format!("#{}", idx.0));
            writeln!(out, "  thread {} leaves {} after {after}", thread.name, fork.parent).unwrap();
        }
        for turn in home.turns(&conversation) {
            let open = if turn.turn.answered { "" } else { ", unanswered" };
            writeln!(out, "  turn {} in {}{open}", turn.turn.no.0, turn.turn.thread).unwrap();
            for step in turn.items() {
                match step {
                    TurnItem::Message(message) => {
                        writeln!(out, "    {}", describe_message(message)).unwrap();
                    }
                    TurnItem::ToolCall(call) => writeln!(out, "    {}", called(call)).unwrap(),
                }
            }
        }
    }
    for (reason, count) in &report.skipped {
        writeln!(out, "passed over: {count} {reason}").unwrap();
    }
    out
}

fn describe_message(message: &Message) -> String {
    let body = &message.body;
    let author = body.author.as_ref().map(|author| format!(" ({author})")).unwrap_or_default();
    let parts = body.parts.as_ref().map(|parts| format!(" + {}", preview(parts.as_str(), 60)));
    let text = preview(&body.text, 100);
    let head =
        format!("#{} {}{author}, {}: {text}", message.idx.0, body.role, format_time(body.at));
    head + &parts.unwrap_or_default()
}

fn called(it: &ToolCall) -> String {
    let call = &it.call;
    let outcome = call.outcome.as_ref().map_or("waiting".into(), |outcome| {
        let success =
            outcome.success.map_or("unknown", |success| if success { "ok" } else { "failed" });
        let duration = outcome.duration_ms.map(|ms| format!(" in {ms} ms")).unwrap_or_default();
        format!("{success}{duration}: {}", preview(&outcome.result.to_text(), 80))
    });
    format!(
        "→ {}, {}: {} → {outcome}",
        call.name,
        format_time(call.at),
        preview(call.args.as_str(), 80)
    )
}

fn format_time(at: Timestamp) -> String {
    if u128::try_from(at.as_micros()).unwrap() == MODIFIED.as_micros() {
        "undated".into()
    } else {
        at.to_string()
    }
}

/// The earlier, partial states of a growing source, and its final state.
struct PartialSources {
    parts: Vec<String>,
    complete: String,
}

impl PartialSources {
    fn of(fixture: &Fixture) -> Self {
        match (fixture.format, fixture.ending()) {
            (Format::Markdown, _) => Self::by_speaker(&fixture.text),
            (_, "jsonl") => Self::by_line(&fixture.text),
            (Format::SweAgent, _) => Self::by_step(&fixture.text),
            (Format::GeminiCli | Format::OpenCode, _) => Self::by_key(&fixture.text, "messages"),
            (Format::Copilot, _) => Self::by_key(&fixture.text, "requests"),
            _ => Self::by_item(&fixture.text),
        }
    }

    /// Cut after every line and within every line, as a program that is still writing leaves it.
    fn by_line(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut end = 0;
        for line in text.split_inclusive('\n') {
            parts.push(text[..end + line.floor_char_boundary(line.len() / 2)].to_owned());
            end += line.len();
            parts.push(text[..end].to_owned());
        }
        parts.pop();
        Self { parts, complete: text.to_owned() }
    }

    /// Cut at every change of speaker.
    fn by_speaker(text: &str) -> Self {
        let openings = ["_**", "**", "## ", "> ", "⏺ "];
        let style =
            |line: &str| openings.iter().find(|opening| line.starts_with(**opening)).copied();
        let mut parts = Vec::new();
        let (mut fenced, mut end) = (false, 0);
        let quotes = !text.contains('⏺');
        for line in text.split_inclusive('\n') {
            fenced ^= line.starts_with("```");
            if !fenced && style(line).is_some_and(|style| !(quotes && style == "> ")) {
                parts.push(text[..end].to_owned());
            }
            end += line.len();
        }
        Self { parts, complete: text.to_owned() }
    }

    /// An array, cut after every item.
    fn by_item(text: &str) -> Self {
        let items: Vec<Value> = serde_json::from_str(text).unwrap();
        let write = |items: &[Value]| serde_json::to_string(items).unwrap();
        Self {
            parts: (0..items.len()).map(|count| write(&items[..count])).collect(),
            complete: write(&items),
        }
    }

    /// An object, cut after every item of one of its lists.
    fn by_key(text: &str, key: &str) -> Self {
        let complete: Value = serde_json::from_str(text).unwrap();
        let cut = |count: usize| {
            let mut part = complete.clone();
            part[key].as_array_mut().unwrap().truncate(count);
            part.to_string()
        };
        let items = complete[key].as_array().unwrap().len();
        Self { parts: (0..items).map(cut).collect(), complete: complete.to_string() }
    }

    /// A trajectory, cut after every step: an action and its result.
    fn by_step(text: &str) -> Self {
        let complete: Value = serde_json::from_str(text).unwrap();
        let history = complete["history"].as_array().unwrap();
        let is_tool = |entry: &Value| entry["role"] == "tool";
        let mut parts = Vec::new();
        for count in (0..history.len()).filter(|count| history[..*count].last().is_none_or(is_tool))
        {
            let steps = history[..count].iter().filter(|entry| is_tool(entry)).count();
            let mut part = complete.clone();
            part["history"].as_array_mut().unwrap().truncate(count);
            part["trajectory"].as_array_mut().unwrap().truncate(steps);
            parts.push(part.to_string());
        }
        Self { parts, complete: complete.to_string() }
    }
}

#[test]
fn every_fixture_is_recognized() {
    for fixture in Fixture::all() {
        let modified = Timestamp::from_micros(0);
        let source = SourceFile { path: "unnamed".into(), text: fixture.text, modified };
        assert_eq!(detect(&source), Some(fixture.format), "{}", fixture.path.display());
    }
}

#[test]
fn every_fixture_can_be_read() {
    for fixture in Fixture::all() {
        let home = ImportHome::new();
        let report = home.import(&fixture.name, fixture.text.as_bytes(), None);
        assert_eq!(report.error, None, "{}", fixture.path.display());
        let name = format!("{}_{}", fixture.format.as_str(), fixture.name);
        insta::assert_snapshot!(name, readable(&home, &report));
    }
}

#[test]
fn importing_twice_changes_nothing() {
    let home = ImportHome::full();
    let once = home.export();
    let again = home.import_all(ImportOptions::default());
    assert_eq!(errors(&again), [""; 0]);
    for file in &again.files {
        assert!(!file.is_new() && file.conversations_new == 0, "{file:#?}");
        assert!(file.known > 0, "{file:#?}");
    }
    assert_eq!(home.export(), once);
}

#[test]
fn importing_a_part_and_then_the_whole_gives_the_whole() {
    for fixture in Fixture::all() {
        let PartialSources { parts, complete } = PartialSources::of(&fixture);
        assert!(!parts.is_empty(), "{}", fixture.path.display());
        let at_once = ImportHome::new();
        assert_eq!(at_once.import(&fixture.name, complete.as_bytes(), None).error, None);
        let expected = at_once.export();
        let all = at_once.import(&fixture.name, complete.as_bytes(), None).known;
        for part in parts {
            let home = ImportHome::new();
            home.import(&fixture.name, part.as_bytes(), None);
            let report = home.import(&fixture.name, complete.as_bytes(), None);
            assert_eq!(report.error, None);
            check(&fixture, &part, &home.export(), &expected);
            // Import the part again, like an old copy: nothing is new, and a title older than the
            // last message does not return.
            let old = home.import(&fixture.name, part.as_bytes(), None);
            assert!(!old.is_new(), "{old:#?}");
            if old.known < all {
                check(&fixture, &part, &home.export(), &expected);
            }
        }
    }
}

fn check(fixture: &Fixture, part: &str, found: &str, expected: &str) {
    assert!(
        found == expected,
        "{} cut at {}: {}",
        fixture.name,
        part.len(),
        difference(found, expected)
    );
}

fn difference(found: &str, expected: &str) -> String {
    let pairs = found.lines().zip(expected.lines());
    let first = pairs.into_iter().find(|(found, expected)| found != expected);
    let (found, expected) = first.unwrap_or(("fewer or more lines", ""));
    format!("\n  found    {found}\n  expected {expected}")
}

/// The content of a home, regardless of its position in a conversation.
fn inventory(home: &ImportHome) -> Vec<String> {
    let mut lines = Vec::new();
    for conversation in home.conversations() {
        for turn in home.turns(&conversation) {
            for step in turn.items() {
                lines.push(match step {
                    TurnItem::Message(it) => format!("{:?} {}", it.body, conversation.id),
                    TurnItem::ToolCall(it) => format!("{:?} {}", it.call, conversation.id),
                });
            }
        }
    }
    lines.sort();
    lines
}

/// The export of a message tree as it was after each of its messages, oldest first. The main path
/// of an earlier state may be a branch now, so only texts are compared, not positions.
fn younger_trees(fixture: &Fixture) -> Vec<String> {
    let complete: Vec<Value> = serde_json::from_str(&fixture.text).unwrap();
    let mut parts = Vec::new();
    for (index, conversation) in complete.iter().enumerate() {
        let mut younger = |part: Value| {
            let mut part = vec![part];
            part.splice(0..0, complete[..index].iter().cloned());
            parts.push(serde_json::to_string(&part).unwrap());
        };
        if let Some(nodes) = conversation["mapping"].as_object() {
            let ids: Vec<&String> = nodes.keys().collect();
            for (count, last) in ids.iter().enumerate().skip(1) {
                let mut part = conversation.clone();
                part["mapping"]
                    .as_object_mut()
                    .unwrap()
                    .retain(|id, _| ids[..=count].contains(&id));
                part["current_node"] = Value::from(last.as_str());
                younger(part);
            }
        } else {
            for count in 1..conversation["chat_messages"].as_array().unwrap().len() {
                let mut part = conversation.clone();
                part["chat_messages"].as_array_mut().unwrap().truncate(count);
                younger(part);
            }
        }
    }
    parts
}

#[test]
fn a_grown_message_tree_loses_and_duplicates_nothing() {
    for fixture in [Fixture::of(Format::ChatGpt, ""), Fixture::of(Format::ClaudeAi, "")] {
        let complete = PartialSources::by_item(&fixture.text).complete;
        let at_once = ImportHome::new();
        at_once.import(&fixture.name, complete.as_bytes(), None);
        for part in younger_trees(&fixture) {
            let home = ImportHome::new();
            assert_eq!(home.import(&fixture.name, part.as_bytes(), None).error, None);
            assert_eq!(home.import(&fixture.name, complete.as_bytes(), None).error, None);
            assert_eq!(
                inventory(&home),
                inventory(&at_once),
                "{} cut at {}",
                fixture.name,
                part.len()
            );
            let extended = home.export();
            home.import(&fixture.name, part.as_bytes(), None);
            check(&fixture, &part, &home.export(), &extended);
            assert!(home.is_sound());
        }
    }
}

#[test]
fn a_lone_surrogate_is_readable_and_kept() {
    let fixture = Fixture::of(Format::ClaudeCode, "");
    let home = ImportHome::new();
    home.import(&fixture.name, fixture.text.as_bytes(), None);
    let turns = home.turns(&home.conversations()[0]);
    let call =
        turns.iter().flat_map(|turn| &turn.tool_calls).find(|it| it.call.name == "Grep").unwrap();
    let result = &call.call.outcome.as_ref().unwrap().result;
    assert!(result.to_text().contains("frost \u{fffd}\nsrc/probe.rs:48"), "{}", result.to_text());
    assert!(result.as_str().contains(r"frost \ud83d\nsrc/probe.rs:48"), "{result}");
}

#[test]
fn an_export_round_trips() {
    let export = ImportHome::full().export();
    let other_home = ImportHome::new();
    let report = other_home.import("export.jsonl", export.as_bytes(), None);
    assert_eq!((report.error, report.format), (None, Some(Format::Treering)));
    assert!(other_home.export() == export, "{}", difference(&other_home.export(), &export));
    assert!(other_home.is_sound());
}

#[test]
fn a_dry_run_counts_and_writes_nothing() {
    let home = ImportHome::new();
    let empty = home.export();
    let dry = home.import_all(ImportOptions { dry_run: true, ..ImportOptions::default() });
    assert_eq!(home.export(), empty);
    let real = home.import_all(ImportOptions::default());
    assert!(real.total().messages_new > 0);
    assert_eq!(counts(&dry), counts(&real));
    let full = home.export();
    let replay = home.import_all(ImportOptions { dry_run: true, ..ImportOptions::default() });
    assert_eq!(counts(&replay), counts(&home.import_all(ImportOptions::default())));
    assert_eq!(home.export(), full);
}

#[test]
fn older_conversations_are_skipped() {
    let since: Timestamp = "2026-03-03T12:00:00Z".parse().unwrap();
    let full = ImportHome::full();
    let (old, young): (Vec<_>, Vec<_>) =
        full.conversations().into_iter().partition(|it| it.last_activity < since);
    assert!(!old.is_empty() && !young.is_empty());
    let home = ImportHome::new();
    let report =
        home.import_all(ImportOptions { since: Some(since), ..ImportOptions::default() }).total();
    let ids =
        |conversations: &[Conversation]| conversations.iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(&home.conversations()), ids(&young));
    let reason = format!("conversations that ended before {since}");
    assert_eq!(report.skipped.get(&reason).copied(), u64::try_from(old.len()).ok());
}

#[test]
fn unreadable_sources_are_explained_and_change_nothing() {
    let check = |name: &str, content: &[u8], format: Option<Format>, words: &[&str]| {
        let home = ImportHome::new();
        let valid = Fixture::of(Format::OpenAi, "messages.json");
        home.import(&valid.name, valid.text.as_bytes(), None);
        let before = home.export();
        let report = home.import(name, content, format);
        let error = report.error.clone().unwrap_or_else(|| format!("no error: {report:#?}"));
        for word in words {
            assert!(error.contains(word), "{name}: {error:?} lacks {word:?}");
        }
        assert_eq!(home.export(), before, "{name}");
        assert!(home.is_sound());
        assert!(!home.import(&valid.name, valid.text.as_bytes(), None).is_new());
    };
    let text = |format: Format, name: &str| Fixture::of(format, name).text;
    let chatgpt = text(Format::ChatGpt, "");
    let sessions = text(Format::ClaudeCode, "");
    let half = &chatgpt.as_bytes()[..chatgpt.len() / 2];
    check("empty.json", b"", None, &["it is empty"]);
    check("blank.md", b" \r\n\t\n", None, &["it is empty"]);
    check("half.json", half, None, &["not valid JSON", "EOF", "column"]);
    check(
        "half.json",
        half,
        Some(Format::ChatGpt),
        &["JSON does not match the format", "EOF", "column"],
    );
    check("picture.json", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", None, &["not UTF-8", "byte 0"]);
    check("unknown.json", br#"{"stars": [1, 2, 3]}"#, None, &["not recognized", "--format"]);
    check("prose.md", b"# Notes\n\nNobody speaks here.\n", None, &["not recognized", "--format"]);
    check("prose.md", b"# Notes\n", Some(Format::Markdown), &["no speakers", "`## User`"]);
    check("chatgpt.json", chatgpt.as_bytes(), Some(Format::ClaudeAi), &["missing field `uuid`"]);
    check("chatgpt.json", chatgpt.as_bytes(), Some(Format::Codex), &["line 1"]);
    check(
        "sessions.jsonl",
        sessions.as_bytes(),
        Some(Format::ChatGpt),
        &["JSON does not match the format"],
    );
    check(
        "sessions.jsonl",
        sessions.as_bytes(),
        Some(Format::Codex),
        &["codex", "looks like claude-code"],
    );
    check("sessions.jsonl", sessions.as_bytes(), Some(Format::Treering), &["line 1", "summary"]);
    let damaged = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.insert(lines.len() / 2, r#"{"type": "user", "mess"#);
        (lines.join("\n"), format!("line {}:", lines.len().div_ceil(2)))
    };
    for text in
        [sessions, text(Format::Codex, "rollout-2026"), text(Format::OpenAi, "messages.jsonl")]
    {
        let (text, line) = damaged(&text);
        check("damaged.jsonl", text.as_bytes(), None, &[&line, "column"]);
    }
}

#[test]
fn a_damaged_file_does_not_stop_the_import_of_its_folder() {
    let home = ImportHome::new();
    let valid = Fixture::of(Format::Markdown, "bold");
    let files = [
        home.write_source("a.json", b"{"),
        home.write_source("b.md", valid.text.as_bytes()),
        home.write_source("c.md", b"\xff"),
    ];
    let report = home.run(&files, ImportOptions::default());
    assert_eq!(errors(&report).len(), 2);
    assert_eq!(home.conversations().len(), 1);
}

/// Small sources, and lines of their readable form.
#[test]
fn special_cases_of_each_format_are_parsed() {
    let check = |name: &str, lines: &[&str], expected: &[&str]| {
        let home = ImportHome::new();
        let report = home.import(name, lines.join("\n").as_bytes(), None);
        assert_eq!(report.error, None, "{name}");
        let read = readable(&home, &report);
        for line in expected {
            assert!(
                read.lines().any(|it| it.trim_start().starts_with(line)),
                "{name}: {line:?} is not in\n{read}"
            );
        }
    };
    let output = r#"{"timestamp":"2026-01-01T00:00:01Z","type":"response_item","payload":{"type":"function_call_output","call_id":"a","output":"Exit code: 3 is what the manual says"}}"#;
    let call = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"function_call","name":"ask","arguments":"{}","call_id":"a"}}"#;
    check(
        "no-header.jsonl",
        &[call, output],
        &["→ ask, 2026-01-01T00:00:00Z: {} → unknown: Exit code: 3"],
    );

    let record = |uuid: &str, parent: &str, side: bool, kind: &str, text: &str| {
        format!(
            r#"{{"uuid":"{uuid}","parentUuid":{parent},"isSidechain":{side},"sessionId":"s","type":"{kind}","message":{{"content":"{text}"}},"timestamp":"2026-01-01T00:00:00Z"}}"#
        )
    };
    let session = [
        r#"{"type":"summary","summary":"Two helpers","leafUuid":"x"}"#.to_owned(),
        record("u1", "null", false, "user", "Ask twice."),
        record("a1", "\"u1\"", false, "assistant", "First I ask."),
        record("u2", "\"a1\"", false, "user", "Left alone."),
        record("u3", "\"a1\"", false, "user", "Followed."),
        record("s1", "null", true, "user", "One?"),
        record("t1", "null", true, "user", "Two?"),
        record("s2", "\"s1\"", true, "assistant", "One."),
        record("t2", "\"t1\"", true, "assistant", "Two."),
    ];
    check(
        "renamed.jsonl",
        &session.each_ref().map(String::as_str),
        &[
            "title: Two helpers (source)",
            "thread branch-u3 leaves main after #1",
            "thread agent-1 leaves branch-u3 after #3",
            "thread agent-2 leaves branch-u3 after #3",
            "#6 assistant, 2026-01-01T00:00:00Z: One.",
        ],
    );

    let api = [
        r#"{"type":"message","role":"user","content":"How deep?"}"#,
        r#"{"type":"message","role":"assistant","content":"Nine metres."}"#,
    ];
    check(
        "api.jsonl",
        &api,
        &["#0 user, undated: How deep?", "#1 assistant, undated: Nine metres."],
    );

    let pending = r#"{"history": [{"role": "user", "content": "Go."},
        {"role": "assistant", "content": "a", "thought": "a", "action": "ls"}, {"role": "user", "content": "one file"},
        {"role": "assistant", "content": "b", "thought": "b", "action": "rm"}],
        "trajectory": [{"action": "ls", "observation": "one file", "execution_time": 1.0}]}"#;
    check(
        "ahead.traj",
        &[pending],
        &[
            r#"→ ls, undated: {"action":"ls"} → unknown: one file"#,
            r#"→ rm, undated: {"action":"rm"} → waiting"#,
        ],
    );
}

#[test]
fn zip_exports_are_read_as_they_are() {
    let home = ImportHome::new();
    let (chatgpt, claude) = (Fixture::of(Format::ChatGpt, ""), Fixture::of(Format::ClaudeAi, ""));
    let archive = |files: &[(&str, &str)]| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (name, text) in files {
            let options = zip::write::SimpleFileOptions::default()
                .compression_method(zip::CompressionMethod::Deflated);
            archive.start_file(*name, options).unwrap();
            std::io::Write::write_all(&mut archive, text.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    };
    let one = archive(&[
        ("user.json", r#"{"id": "user-1", "email": "ana@example.org"}"#),
        ("chat.html", "<html></html>"),
        ("conversations.json", &chatgpt.text),
    ]);
    let two = archive(&[("users.json", "[]"), ("export/conversations.json", &claude.text)]);
    let files = [
        home.write_source("chatgpt.zip", &one),
        home.write_source("claude.zip", &two),
        home.write_source("broken.zip", b"PK, but no archive"),
    ];
    let report = home.run(&files, ImportOptions::default());
    let read: Vec<(String, bool)> = report
        .files
        .iter()
        .map(|file| (file.path.file_name().unwrap().to_str().unwrap().into(), file.error.is_some()))
        .collect();
    let conversations = |error| ("conversations.json".to_owned(), error);
    assert_eq!(read, [conversations(false), conversations(false), ("broken.zip".to_owned(), true)]);
    let plain = ImportHome::new();
    plain.import("c.json", chatgpt.text.as_bytes(), None);
    plain.import("d.json", claude.text.as_bytes(), None);
    assert_eq!(home.export(), plain.export());
    let folder = files[0].parent().unwrap().to_path_buf();
    assert_eq!(Importer::files(&[folder]).len(), 3, "folders are searched for archives, too");
}

#[test]
fn entries_without_a_time_take_the_date_of_their_file() {
    let text = b"## User\n\nWhich port does it use?\n\n## Assistant\n\n7410.\n";
    let started = |name: &str, date: Option<&str>| {
        let home = ImportHome::new();
        let file = home.write_source(name, text);
        let date = date.map(|date| date.parse().unwrap());
        home.run(&[file], ImportOptions { date, ..ImportOptions::default() });
        home.conversations()[0].started_at.to_minute()
    };
    assert_eq!(started("chat.md", None), "2026-04-01 12:00", "the last change");
    assert_eq!(started("2025-11-03 chat.md", None), "2025-11-03 00:00");
    assert_eq!(started("2025-11-03 chat.md", Some("2024-05-06")), "2024-05-06 00:00");
}

#[cfg(unix)]
#[test]
fn a_pipe_without_a_writer_does_not_block() {
    let home = ImportHome::new();
    let valid = home.write_source("a.md", Fixture::of(Format::Markdown, "bold").text.as_bytes());
    let pipes = ["pipe", "pipe.zip"].map(|name| home.folder.path().join(name));
    assert!(std::process::Command::new("mkfifo").args(&pipes).status().unwrap().success());
    let [pipe, archive] = pipes;
    let report = home.run(&[pipe, archive, valid], ImportOptions::default());
    for file in &report.files[..2] {
        assert!(file.error.as_ref().unwrap().contains("not a regular file"), "{file:?}");
    }
    assert_eq!((report.files[2].error.clone(), home.conversations().len()), (None, 1));
}

#[test]
fn fields_of_api_messages_are_not_dropped() {
    let home = ImportHome::new();
    let lines = [
        r#"{"role":"user","content":"How deep is it here?","author":"Ana"}"#,
        r#"{"role":"assistant","content":"Nine metres.","mood":"calm"}"#,
        r#"{"role":"user","content":"And there?","thread":"side"}"#,
    ];
    home.import("api.jsonl", lines.join("\n").as_bytes(), None);
    let export = home.export();
    let line = |text: &str| -> Value {
        let lines = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.into_iter().find(|line| line["text"] == text).unwrap()
    };
    assert_eq!(line("How deep is it here?")["author"], "Ana");
    assert_eq!(line("Nine metres.")["parts"]["mood"], "calm");
    assert_eq!(line("And there?")["thread"], "side");
    let refused = jsonl::parse_line(lines[1], Timestamp::from_micros(0)).unwrap_err();
    assert!(refused.to_string().contains("`mood`"), "{refused}");
    assert!(jsonl::parse_line(lines[0], Timestamp::from_micros(0)).is_ok());
}

#[test]
fn titles_tell_conversations_apart() {
    let home = ImportHome::new();
    let chat = |first: &str, second: &str| {
        format!(
            "**User:** {first}\n\n**Assistant:** Hello.\n\n**User:** {second}\n\n**Assistant:** Yes.\n"
        )
    };
    home.import("one.md", chat("hi", "Calibrate gauge four").as_bytes(), None);
    home.import("pump-plan.md", chat("hello", "ok").as_bytes(), None);
    let mut titles: Vec<String> =
        home.conversations().into_iter().filter_map(|it| it.title).collect();
    titles.sort();
    assert_eq!(titles, ["Calibrate gauge four", "pump-plan"]);
}
