//! Live capture: hooks that read growing transcripts, on stores that are busy or were replaced.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::home::{FILE, Home, run_with_input};
use serde_json::{Value, json};
use treering_core::{Clock as _, Timestamp};
use treering_engine::SystemClock;

/// A session of Claude Code that grows.
struct Session {
    path: PathBuf,
    id: &'static str,
    latest: Option<String>,
    records: u32,
}

impl Session {
    fn new(path: PathBuf, id: &'static str) -> Self {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        Self { path, id, latest: None, records: 0 }
    }

    /// One record, as a line without its end.
    fn record(&mut self, kind: &str, content: &Value) -> String {
        self.records += 1;
        let uuid = format!("{}-{:04}", self.id, self.records);
        let line = json!({ "type": kind, "uuid": uuid, "parentUuid": self.latest, "sessionId": self.id,
            "cwd": "/w", "timestamp": format!("2026-03-01T10:{:02}:00Z", self.records % 60),
            "message": { "role": kind, "content": content,
                "stop_reason": if kind == "assistant" { json!("end_turn") } else { Value::Null } } });
        self.latest = Some(uuid);
        line.to_string()
    }

    fn turn(&mut self, prompt: &str, answer: &str) -> String {
        let prompt = self.record("user", &json!(prompt));
        let answer = self.record("assistant", &json!([{ "type": "text", "text": answer }]));
        format!("{prompt}\n{answer}\n")
    }

    fn append(&self, text: &str) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn input(&self) -> String {
        json!({ "session_id": self.id, "transcript_path": self.path, "cwd": "/w", "hook_event_name": "Stop" })
            .to_string()
    }
}

/// Runs a hook, which never fails, and returns its note.
fn hook(home: &Home, input: &str) -> String {
    let output = run_with_input(&mut home.command(&["hook", "claude-code"]), input);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b""[..]));
    String::from_utf8(output.stderr).unwrap()
}

/// The texts of a conversation, in order.
fn texts(home: &Home) -> Vec<String> {
    let lines = home.ok(&["export"]);
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["text"].as_str().map(str::to_owned)).collect()
}

fn spooled(home: &Home) -> usize {
    fs::read_dir(home.path().join("spool")).map_or(0, Iterator::count)
}

#[test]
fn a_hook_at_every_byte_stores_what_an_import_stores() {
    let (home, imported) = (Home::new(), Home::new());
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    let mut text = session.turn("Is the gauge up? é", "Yes.");
    text += &session.turn("Since when?", "Monday.");
    let cuts = [1, 60, text.find('é').unwrap() + 1, text.find('\n').unwrap(), text.len() / 2];
    let mut written = 0;
    for cut in cuts.into_iter().chain([text.len()]) {
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(&session.path).unwrap();
        file.write_all(&text.as_bytes()[written.min(cut)..cut]).unwrap();
        written = written.max(cut);
        assert_eq!(hook(&home, &session.input()), "");
    }
    // The last record has no line break yet.
    let last = session.record("user", &json!("And now?"));
    session.append(&last);
    hook(&home, &session.input());
    let turn = session.turn("Sure?", "Sure.");
    session.append(&format!("\n{turn}"));
    hook(&home, &session.input());
    imported.ok(&["import", session.path.to_str().unwrap()]);
    assert_eq!(home.ok(&["export"]), imported.ok(&["export"]));
    assert_eq!(texts(&home).len(), 7);
    assert_eq!((home.json(&["verify"])["clean"].clone(), spooled(&home)), (json!(true), 0));
}

#[test]
fn only_new_bytes_are_read() {
    let home = Home::new();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    for number in 0..100 {
        let turn = session.turn(&format!("Question {number}?"), &format!("Answer {number}."));
        session.append(&turn);
    }
    hook(&home, &session.input());
    assert_eq!(texts(&home).len(), 200);
    // These lines are gone for a reader that starts again.
    let mut bytes = fs::read(&session.path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 200].fill(b'\n');
    fs::write(&session.path, bytes).unwrap();
    let turn = session.turn("A new question?", "A new answer.");
    session.append(&turn);
    assert_eq!(hook(&home, &session.input()), "");
    let texts = texts(&home);
    assert_eq!((texts.len(), texts.last().unwrap().as_str()), (202, "A new answer."));
    assert!(home.ok(&["stats"]).contains("202"));
}

#[test]
fn a_replaced_transcript_or_store_is_read_from_its_start() {
    let home = Home::new();
    let path = home.path().join("files/s.jsonl");
    let mut first = Session::new(path.clone(), "s");
    let turn = first.turn("A long first question, so that the file shrinks?", "One.");
    first.append(&turn);
    hook(&home, &first.input());
    fs::remove_file(&path).unwrap();
    let mut second = Session::new(path, "t");
    let turn = second.turn("Two?", "Two.");
    second.append(&turn);
    hook(&home, &second.input());
    assert_eq!(texts(&home).len(), 4);

    // The store is replaced by an older one, here by none; the checkpoints stay.
    for file in fs::read_dir(home.path()).unwrap().flatten() {
        if file.file_name().to_string_lossy().starts_with(FILE) {
            fs::remove_file(file.path()).unwrap();
        }
    }
    let turn = second.turn("Three?", "Three.");
    second.append(&turn);
    hook(&home, &second.input());
    assert_eq!(texts(&home), ["Two?", "Two.", "Three?", "Three."]);

    // Without a checkpoint, the transcript is read again, and nothing is stored twice.
    fs::remove_dir_all(home.path().join("capture")).unwrap();
    let turn = second.turn("Four?", "Four.");
    second.append(&turn);
    hook(&home, &second.input());
    assert_eq!(texts(&home).len(), 6);
}

#[test]
fn hooks_at_the_same_time_store_everything_once() {
    let home = Home::new();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    let mut children: Vec<Child> = Vec::new();
    for number in 0..12 {
        let turn = session.turn(&format!("Question {number}?"), &format!("Answer {number}."));
        session.append(&turn);
        let mut command = home.command(&["hook", "claude-code"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(session.input().as_bytes()).unwrap();
        children.push(child);
    }
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    let imported = Home::new();
    imported.ok(&["import", session.path.to_str().unwrap()]);
    assert_eq!(home.ok(&["export"]), imported.ok(&["export"]));
    assert_eq!(spooled(&home), 0);
}

#[test]
fn sub_agents_are_captured_with_their_session() {
    let home = Home::new();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    let turn = session.turn("Ask a helper.", "It says nine.");
    session.append(&turn);
    let helper = json!({ "type": "assistant", "uuid": "h1", "parentUuid": null, "sessionId": "s", "agentId": "x1",
        "isSidechain": true, "timestamp": "2026-03-01T10:01:00Z", "message": { "content": "Nine metres." } });
    let folder = home.path().join("files/s/subagents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("agent-x1.jsonl"), format!("{helper}\n")).unwrap();
    hook(&home, &session.input());
    assert_eq!(texts(&home), ["Ask a helper.", "It says nine.", "Nine metres."]);
    assert_eq!(home.items(&["sessions"]).as_array().unwrap().len(), 1);
}

/// Runs a hook the way an agent does: ends it if it takes too long.
fn hook_with_timeout(command: &mut Command, input: &str) {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("the hook takes too long");
        }
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_hook_does_not_wait_for_the_write_lock() {
    let home = Home::demo();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    let turn = session.turn("What is the tide?", "High.");
    session.append(&turn);
    let lock = rusqlite::Connection::open(home.path().join(FILE)).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    hook_with_timeout(&mut home.command(&["hook", "claude-code"]), &session.input());
    let turn = session.turn("And the wind?", "West.");
    session.append(&turn);
    hook_with_timeout(&mut home.command(&["hook", "claude-code"]), &session.input());
    assert_eq!(spooled(&home), 1, "the second capture holds the first");
    let prompt = json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": "c", "generation_id": "g",
        "workspace_roots": ["/w"], "prompt": "Which port?" });
    hook_with_timeout(&mut home.command(&["hook", "cursor"]), &prompt.to_string());
    assert_eq!(spooled(&home), 2);
    let captured = SystemClock.now();
    thread::sleep(Duration::from_millis(1100));
    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);

    // The agent deletes the transcript before anything is stored.
    fs::remove_file(&session.path).unwrap();
    let stored = home.ok(&["export"]);
    assert_eq!(spooled(&home), 0);
    for text in ["What is the tide?", "High.", "And the wind?", "West.", "Which port?"] {
        assert!(stored.contains(text), "{text}");
    }
    let lines = stored.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let port = lines.into_iter().find(|line| line["text"] == "Which port?").unwrap();
    let at: Timestamp = port["at"].as_str().unwrap().parse().unwrap();
    assert!(at <= captured, "{at} is not the time of capture, but later than {captured}");
}

#[cfg(unix)]
#[test]
fn a_hook_does_not_wait_for_a_pipe() {
    let home = Home::demo();
    let session = Session::new(home.path().join("files/s.jsonl"), "s");
    assert!(Command::new("mkfifo").arg(&session.path).status().unwrap().success());
    hook_with_timeout(&mut home.command(&["hook", "claude-code"]), &session.input());
    assert!(status(&home).0.contains("tidewatch"), "and the store is readable");
}

#[test]
fn an_import_continues_where_the_hooks_stopped() {
    let home = Home::new();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    let turn = session.turn("One?", "One.");
    session.append(&turn);
    home.ok(&["import", "files"]);
    assert_eq!(checkpoints(home.path()), 1, "the next hook continues after the import");
    let turn = session.turn("Two?", "Two.");
    session.append(&turn);
    hook(&home, &session.input());
    assert_eq!((texts(&home).len(), checkpoints(home.path())), (4, 1));
    home.ok(&["import", "files", "--dry-run"]);
}

fn checkpoints(home: &Path) -> usize {
    let files = fs::read_dir(home.join("capture")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|it| it == "json")).count()
}

/// The note and the exit code of `status`.
fn status(home: &Home) -> (String, Option<i32>) {
    let output = home.run(&["status"]);
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn status_says_how_far_capture_is_behind() {
    let home = Home::new();
    home.ok(&["install", "claude-code", "--yes"]);
    let path = home.path().join(".claude/projects/w/s.jsonl");
    let mut session = Session::new(path, "s");
    let turn = session.turn("One?", "One.");
    session.append(&turn);
    hook(&home, &session.input());
    let (text, code) = status(&home);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("✓ claude-code: captured up to 2026-03-01 10:02, 1 transcript"),
        "{text}"
    );

    // A turn that is under way is not a fault.
    let prompt = session.record("user", &json!("Two?"));
    session.append(&format!("{prompt}\n"));
    assert_eq!(status(&home).1, Some(0));
    let answer = session.record("assistant", &json!([{ "type": "text", "text": "Two." }]));
    session.append(&format!("{answer}\n"));
    for _ in 0..2 {
        let turn = session.turn("More?", "More.");
        session.append(&turn);
    }
    let (text, code) = status(&home);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("captured up to 2026-03-01 10:02"), "{text}");
    assert!(text.contains("the agent's file is 3 turns ahead"), "{text}");
    let doctor = home.run(&["doctor", "--offline"]);
    assert_eq!(doctor.status.code(), Some(1));
    assert!(String::from_utf8(doctor.stdout).unwrap().contains("3 turns ahead"));
    home.ok(&["import", ".claude/projects"]);
    assert_eq!(status(&home).1, Some(0));

    // A session of which no hook ran at all.
    let mut other = Session::new(home.path().join(".claude/projects/w/t.jsonl"), "t");
    let turn = other.turn("Three?", "Three.");
    other.append(&turn);
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("nothing captured"), "{text}");
}

#[test]
fn a_pause_is_not_a_lag() {
    let home = Home::new();
    home.ok(&["install", "claude-code", "--yes"]);
    let mut session = Session::new(home.path().join(".claude/projects/w/s.jsonl"), "s");
    let turn = session.turn("One?", "One.");
    session.append(&turn);
    hook(&home, &session.input());
    assert_eq!(status(&home).1, Some(0), "the turn is stored");
    // The next turns have the times 10:03 to 10:06.
    let pauses = home.path().join("pauses.json");
    let pause =
        |until: Value| json!([{ "from": "2026-03-01T10:03:00Z", "until": until }]).to_string();
    for _ in 0..2 {
        let turn = session.turn("More?", "More.");
        session.append(&turn);
    }
    let mut other = Session::new(home.path().join(".claude/projects/w/t.jsonl"), "t");
    other.records = 2;
    let turn = other.turn("Three?", "Three.");
    other.append(&turn);
    assert_eq!(status(&home).1, Some(1), "without a pause, capture is behind");
    for until in [Value::Null, json!("2026-03-01T10:08:00Z")] {
        fs::write(&pauses, pause(until)).unwrap();
        let (text, code) = status(&home);
        assert_eq!(code, Some(0), "{text}");
        let doctor = home.run(&["doctor", "--offline"]);
        let found = String::from_utf8(doctor.stdout).unwrap();
        assert!(doctor.status.success() && !found.contains("ahead"), "{found}");
    }
    fs::write(&pauses, pause(json!("2026-03-01T10:05:00Z"))).unwrap();
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("1 turn ahead"), "what was said after it: {text}");
}

/// A title may come before the first entry. The checkpoint does not hold it, and it is not lost.
#[test]
fn a_checkpoint_has_no_text() {
    let home = Home::new();
    let mut session = Session::new(home.path().join("files/s.jsonl"), "s");
    session.append("{\"type\":\"summary\",\"summary\":\"zq1vk title\",\"leafUuid\":\"x\"}\n");
    hook(&home, &session.input());
    await_checkpoints(home.path(), 1);
    assert!(!is_in_files(&home.path().join("capture"), "zq1vk"));
    let turn = session.turn("zq2vk?", "zq3vk.");
    session.append(&turn);
    hook(&home, &session.input());
    assert_eq!(texts(&home), ["zq2vk?", "zq3vk."]);
    assert_eq!(home.items(&["sessions"])[0]["title"], "zq1vk title");
    // A title alone, after the last entry.
    session.append("{\"type\":\"summary\",\"summary\":\"zq4vk title\",\"leafUuid\":\"x\"}\n");
    hook(&home, &session.input());
    assert_eq!(texts(&home).len(), 2);
    assert_eq!(home.items(&["sessions"])[0]["title"], "zq4vk title");
    for word in ["zq1vk", "zq2vk", "zq3vk", "zq4vk"] {
        assert!(!is_in_files(&home.path().join("capture"), word), "{word}");
    }
    assert!(is_in_files(&home.path().join("capture"), "s-0001"), "there is a checkpoint");
}

/// Waits until a hook's process in the background has stored its capture.
fn await_checkpoints(home: &Path, count: usize) {
    while checkpoints(home) < count {
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_in_files(folder: &Path, text: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let bytes = fs::read(entry.unwrap().path()).unwrap_or_default();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    })
}

#[test]
fn status_reports_hooks_that_do_not_run() {
    let home = Home::demo();
    assert_eq!(status(&home).1, Some(0), "no agent is connected");
    home.ok(&["install", "codex", "--yes"]);
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("trust"), "{text}");
    let hooks = home.path().join(".codex/hooks.json");
    let mut config = fs::read_to_string(home.path().join(".codex/config.toml")).unwrap();
    for event in ["session_start", "user_prompt_submit", "stop", "pre_compact", "session_end"] {
        let key = format!("{}:{event}:0:0", hooks.display());
        config += &format!("\n[hooks.state.\"{key}\"]\ntrusted_hash = \"sha256:1\"\n");
    }
    fs::write(home.path().join(".codex/config.toml"), config).unwrap();
    assert_eq!(status(&home), (status(&home).0, Some(0)));

    let text = fs::read_to_string(&hooks).unwrap();
    fs::write(&hooks, text.replace("\"Stop\"", "\"Stopped\"")).unwrap();
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("missing for Stop"), "{text}");
    home.ok(&["uninstall", "codex", "--yes"]);

    home.ok(&["install", "claude-code", "--yes"]);
    run_with_input(&mut home.command(&["hook", "claude-code"]), "not json");
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("the latest hook failed"), "{text}");
    run_with_input(&mut home.command(&["hook", "claude-code"]), "{}");
    assert_eq!(status(&home).1, Some(0), "the next one worked");
}

/// An agent whose hooks were removed is not captured, and nobody else would say so.
#[test]
fn status_reports_hooks_that_are_gone() {
    let home = Home::new();
    home.ok(&["install", "codex", "--yes"]);
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("no conversations yet"), "{text}");
    assert!(text.contains("trust"), "also before anything is captured: {text}");
    home.ok(&["uninstall", "codex", "--yes"]);
    home.refuses(&["status"], &["no conversations yet"]);

    home.ok(&["install", "claude-code", "--yes"]);
    home.ok(&["append", "--user", "One?", "--assistant", "One."]);
    assert_eq!(status(&home).1, Some(0));
    fs::write(home.path().join(".claude/settings.json"), "{}").unwrap();
    let (text, code) = status(&home);
    assert!(code == Some(1) && text.contains("no hooks any more"), "{text}");
    assert!(text.contains("treering install claude-code"), "{text}");
    let doctor = home.run(&["doctor", "--offline"]);
    assert_eq!(doctor.status.code(), Some(1));
    // Hooks that capture into another home are no fault of this one.
    let other = home.path().join("other");
    home.ok(&["--home", other.to_str().unwrap(), "install", "claude-code", "--yes"]);
    assert_eq!(status(&home).1, Some(0));
    fs::write(home.path().join(".claude/settings.json"), "{}").unwrap();
    home.ok(&["uninstall", "claude-code", "--yes"]);
    assert_eq!(status(&home).1, Some(0));
}

#[test]
fn doctor_says_which_transcripts_will_be_deleted() {
    let home = Home::demo();
    let history = |home: &Home| {
        let found = home.json(&["doctor", "--offline"]);
        let checks = found["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["name"] == "history").unwrap_or_default()
    };
    assert_eq!(history(&home), Value::Null);
    let mut session = Session::new(home.path().join(".claude/projects/w/s.jsonl"), "s");
    let turn = session.turn("One?", "One.");
    session.append(&turn);
    let day = Duration::from_secs(24 * 60 * 60);
    let file = fs::OpenOptions::new().append(true).open(&session.path).unwrap();
    file.set_modified(std::time::UNIX_EPOCH + day * 20_000).unwrap();
    let found = history(&home)["found"].as_str().unwrap().to_owned();
    assert!(found.contains("30 days") && found.contains("1 of 1"), "{found}");
    assert!(found.contains("2024-11-03"), "day 20,030: {found}");
    fs::write(home.path().join(".claude/settings.json"), "{ \"cleanupPeriodDays\": 10 } // mine")
        .unwrap();
    let found = history(&home)["found"].as_str().unwrap().to_owned();
    assert!(found.contains("10 days") && found.contains("2024-10-14"), "{found}");

    let note = home.run(&["install", "claude-code", "--yes"]).stderr;
    let note = String::from_utf8(note).unwrap().replace('\n', " ");
    assert!(note.contains("1 transcript") && note.contains("treering import"), "{note}");
    home.ok(&["install", "claude-code", "--yes", "--import"]);
    assert_eq!(history(&home)["state"], "fine", "{}", history(&home));
}

/// Cursor's transcripts have no ids. A conversation that hooks captured from its middle on is
/// completed by an import: nothing is lost or stored twice.
#[test]
fn a_transcript_that_hooks_captured_in_part_is_completed() {
    let home = Home::new();
    let hook = |input: &Value| {
        let mut input = input.clone();
        input["conversation_id"] = json!("c1");
        input["workspace_roots"] = json!(["/w"]);
        let output = run_with_input(&mut home.command(&["hook", "cursor"]), &input.to_string());
        assert!(output.status.success());
    };
    let capture = |number: u32| {
        let of_turn = format!("g{number}");
        hook(&json!({ "hook_event_name": "beforeSubmitPrompt", "generation_id": of_turn,
            "prompt": format!("Question {number}?\n") }));
        hook(&json!({ "hook_event_name": "afterAgentResponse", "generation_id": of_turn,
            "text": format!("Answer {number}.") }));
        hook(&json!({ "hook_event_name": "stop", "generation_id": of_turn }));
    };
    let path = home.path().join("agent-transcripts/c1/c1.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let write = |turns: u32| {
        let turn = |number: u32| {
            let line = |role: &str, text: String| json!({ "role": role, "message": { "content": [{ "type": "text", "text": text }] } });
            let query = format!("<user_query>\nQuestion {number}?\n</user_query>");
            let (user, assistant) =
                (line("user", query), line("assistant", format!("Answer {number}.")));
            format!("{user}\n{assistant}\n")
        };
        fs::write(&path, (0..turns).map(turn).collect::<String>()).unwrap();
    };
    let texts = || {
        let lines = home.ok(&["export"]);
        let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let texts = lines.filter_map(|line| Some(line["text"].as_str()?.trim().to_owned()));
        texts.collect::<Vec<_>>()
    };
    // The hooks see the turns 1 and 2 of four.
    (1..3).for_each(capture);
    write(4);
    for _ in 0..2 {
        home.ok(&["import", "agent-transcripts"]);
        let mut stored = texts();
        assert_eq!(stored.len(), 8, "{stored:?}");
        stored.sort_unstable();
        stored.dedup();
        assert_eq!(stored.len(), 8, "none twice: {stored:?}");
        assert_eq!(home.items(&["sessions"]).as_array().unwrap().len(), 1);
    }
    // A forgotten prompt does not come back, although nothing names it.
    let at = texts().iter().position(|text| text == "Question 1?").unwrap().to_string();
    home.ok(&["forget", "cursor/c1", "--message", &at, "--yes"]);
    home.ok(&["import", "agent-transcripts"]);
    assert!(texts().iter().all(|text| text != "Question 1?") && texts().len() == 8);
}
