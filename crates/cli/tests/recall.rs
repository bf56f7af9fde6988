//! Recall without being asked: a simulated week of a project with five sessions of two agents and a
//! compaction, and the context that the sixth session gets. The hooks run as the agents run
//! them, on transcripts in the agents' own formats that grow turn by turn.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::home::{Home, run_with_input};
use serde::Deserialize;
use serde_json::{Value, json};

const WEEK: &str = include_str!("fixtures/week/week.json");
const FACTS: &str = include_str!("fixtures/week/facts.txt");
/// The share of the facts that the sixth session must get.
const MIN_SHARE: f64 = 0.8;

#[derive(Deserialize)]
struct StorySession {
    agent: String,
    session: String,
    day: String,
    /// The turn after which the agent compacts its context.
    compacted_after: Option<usize>,
    turns: Vec<StoryTurn>,
}

#[derive(Deserialize)]
struct StoryTurn {
    user: String,
    assistant: String,
    #[serde(default)]
    tools: Vec<StoryTool>,
}

#[derive(Deserialize)]
struct StoryTool {
    name: String,
    args: Value,
    result: String,
}

/// A transcript that an agent writes while it works.
struct Transcript<'a> {
    session: &'a StorySession,
    project: &'a str,
    path: PathBuf,
    records: u32,
    latest: Option<String>,
}

impl<'a> Transcript<'a> {
    fn new(session: &'a StorySession, project: &'a str, folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let path = match session.agent.as_str() {
            "codex" => {
                folder.join(format!("rollout-{}T10-00-00-{}.jsonl", session.day, session.session))
            }
            _ => folder.join(format!("{}.jsonl", session.session)),
        };
        let mut transcript = Self { session, project, path, records: 0, latest: None };
        if session.agent == "codex" {
            let meta = json!({ "id": session.session, "cwd": project, "originator": "codex_cli_rs",
                "cli_version": "0.160.0", "source": "cli" });
            transcript.write_codex("session_meta", &meta);
        }
        transcript
    }

    fn at(&mut self) -> String {
        self.records += 1;
        let (minute, second) = (self.records / 2, 30 * (self.records % 2));
        format!("{}T10:{minute:02}:{second:02}.000Z", self.session.day)
    }

    fn append(&self, record: &Value) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        writeln!(file, "{record}").unwrap();
    }

    fn write_codex(&mut self, kind: &str, payload: &Value) {
        let record = json!({ "timestamp": self.at(), "type": kind, "payload": payload });
        self.append(&record);
    }

    fn write_claude(&mut self, kind: &str, content: &Value) {
        let at = self.at();
        let uuid = format!("{}-{:04}", self.session.session, self.records);
        let record = json!({ "type": kind, "uuid": uuid, "parentUuid": self.latest,
            "isSidechain": false, "sessionId": self.session.session, "cwd": self.project,
            "version": "2.3.0", "timestamp": at,
            "message": { "role": kind, "content": content, "stop_reason": Value::Null } });
        self.latest = Some(uuid);
        self.append(&record);
    }

    fn say(&mut self, role: &str, text: &str) {
        if self.session.agent == "codex" {
            let kind = if role == "user" { "input_text" } else { "output_text" };
            let content = json!([{ "type": kind, "text": text }]);
            return self.write_codex(
                "response_item",
                &json!({ "type": "message", "role": role, "content": content }),
            );
        }
        let content = match role {
            "user" => json!(text),
            _ => json!([{ "type": "text", "text": text }]),
        };
        self.write_claude(role, &content);
    }

    fn call(&mut self, tool: &StoryTool) {
        let id = format!("call-{}-{}", self.session.session, self.records);
        if self.session.agent == "codex" {
            let call = json!({ "type": "function_call", "name": tool.name, "call_id": id,
                "arguments": tool.args.to_string() });
            self.write_codex("response_item", &call);
            let output =
                json!({ "type": "function_call_output", "call_id": id, "output": tool.result });
            return self.write_codex("response_item", &output);
        }
        let call = json!([{ "type": "tool_use", "id": id, "name": tool.name, "input": tool.args }]);
        self.write_claude("assistant", &call);
        let result = json!([{ "type": "tool_result", "tool_use_id": id, "content": tool.result }]);
        self.write_claude("user", &result);
    }
}

/// Runs a hook and returns the context that it adds, if any.
fn hook(home: &Home, agent: &str, input: &Value) -> Option<String> {
    let mut command = home.command(&["hook", agent]);
    // A busy machine must not decide what the test sees.
    command.env("TREERING_RECALL_TIMEOUT_MS", "60000");
    let output = run_with_input(&mut command, &input.to_string());
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let reply = String::from_utf8(output.stdout).unwrap();
    if reply.trim().is_empty() {
        return None;
    }
    let reply: Value = serde_json::from_str(&reply).unwrap();
    let added = match agent {
        "cursor" | "opencode" => &reply["additional_context"],
        _ => &reply["hookSpecificOutput"]["additionalContext"],
    };
    added.as_str().map(str::to_owned)
}

fn input(session: &str, path: &Path, project: &str, event: &str, source: &str) -> Value {
    json!({ "session_id": session, "transcript_path": path, "cwd": project,
        "hook_event_name": event, "source": source })
}

/// Runs a session with its hooks. Returns the context that it gets after its compaction.
fn run(home: &Home, session: &StorySession, project: &str) -> Option<String> {
    let mut transcript = Transcript::new(session, project, &home.path().join("transcripts"));
    let mut told = None;
    let call = |path: &Path, event: &str, source: &str| {
        hook(home, &session.agent, &input(&session.session, path, project, event, source))
    };
    call(&transcript.path, "SessionStart", "startup");
    for (number, turn) in session.turns.iter().enumerate() {
        transcript.say("user", &turn.user);
        assert_eq!(call(&transcript.path, "UserPromptSubmit", ""), None, "prompts get nothing");
        turn.tools.iter().for_each(|tool| transcript.call(tool));
        transcript.say("assistant", &turn.assistant);
        call(&transcript.path, "Stop", "");
        if session.compacted_after == Some(number) {
            call(&transcript.path, "PreCompact", "");
            told = call(&transcript.path, "SessionStart", "compact");
        }
    }
    call(&transcript.path, "SessionEnd", "");
    told
}

/// Waits until the background processes of the hooks have stored and summarized the session.
fn settle(home: &Home) {
    for _ in 0..600 {
        home.ok(&["work"]);
        let is_closed = home.items(&["sessions"])[0]["state"] == "closed";
        let is_idle = home.items(&["jobs"]).as_array().is_none_or(Vec::is_empty);
        if is_closed && is_idle {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the session was not stored within half a minute");
}

/// A home after the week, its project, and the context of the fifth session after its compaction.
fn week() -> (Home, String, String) {
    let home = Home::new();
    let project = home.path().join("work/ledgerd");
    fs::create_dir_all(&project).unwrap();
    let project = project.canonicalize().unwrap().to_str().unwrap().to_owned();
    let sessions: Vec<StorySession> = serde_json::from_str(WEEK).unwrap();
    let mut told = None;
    for session in &sessions {
        told = run(&home, session, &project).or(told);
        settle(&home);
    }
    (home, project, told.unwrap())
}

#[test]
fn the_sixth_session_gets_what_the_week_brought() {
    let (home, project, after_compaction) = week();
    for fact in ["X-Ledger-Signature", "Kafka"] {
        assert!(after_compaction.contains(fact), "{fact}: {after_compaction}");
    }
    assert!(!after_compaction.contains("MongoDB"), "the session itself: {after_compaction}");

    let start = input("new", &home.path().join("new.jsonl"), &project, "SessionStart", "startup");
    let told = hook(&home, "claude-code", &start).unwrap();
    let first = told.lines().next().unwrap();
    assert!(first.contains(&project) && first.contains("never instructions"), "{first}");
    assert!(told.trim_end().lines().last().unwrap().contains("`search`"), "{told}");
    let facts: Vec<&str> =
        FACTS.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    let lower = told.to_lowercase();
    let is_told = |fact: &&&str| fact.split(" + ").all(|part| lower.contains(&part.to_lowercase()));
    let missing: Vec<&&str> = facts.iter().filter(|fact| !is_told(fact)).collect();
    let share = 1.0 - missing.len() as f64 / facts.len() as f64;
    println!("{share:.2} of the facts; missing: {missing:?}");
    assert!(share >= MIN_SHARE, "{share:.2}: {missing:?} are not in:\n{told}");
    let count = home.json(&["context", "--project", &project, "--budget", "1500"]);
    assert!(count["receipt"]["tokens"].as_u64().unwrap() <= 1500);

    // The same in the forms of the other agents.
    let cursor = json!({ "hook_event_name": "sessionStart", "conversation_id": "c",
        "workspace_roots": [project] });
    assert!(hook(&home, "cursor", &cursor).unwrap().contains("ledgerd"));
    assert!(hook(&home, "codex", &start).unwrap().contains("ledgerd"));
    let opencode = json!({ "hook_event_name": "sessionStart", "session_id": "o", "cwd": project });
    assert!(hook(&home, "opencode", &opencode).unwrap().contains("ledgerd"));
}

#[test]
fn recall_is_silent_elsewhere_and_where_it_is_off() {
    let home = Home::new();
    let folder = |name: &str| {
        let folder = home.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        folder.canonicalize().unwrap().to_str().unwrap().to_owned()
    };
    let (one, other) = (folder("one"), folder("other"));
    home.ok(&[
        "append",
        "--cwd",
        &one,
        "--user",
        "Which pump did we choose for the lock?",
        "--assistant",
        "The Ronda pump, for the lock.",
    ]);
    let start = |folder: &str| {
        hook(
            &home,
            "claude-code",
            &input("s", Path::new("/none"), folder, "SessionStart", "startup"),
        )
    };
    assert!(start(&one).unwrap().contains("Ronda"));
    assert_eq!(start(&other), None);
    fs::write(home.path().join("treering.toml"), format!("[recall]\noff_in = [{one:?}]\n"))
        .unwrap();
    assert_eq!(start(&one), None);
    fs::write(home.path().join("treering.toml"), "[recall]\nat_start = false\n").unwrap();
    assert_eq!(start(&one), None);
    // For prompts only if it is switched on, and only what answers them.
    fs::write(home.path().join("treering.toml"), "[recall]\non_prompt = true\n").unwrap();
    let prompt = |text: &str| {
        let prompt = json!({ "session_id": "s", "cwd": one, "prompt": text,
            "hook_event_name": "UserPromptSubmit" });
        hook(&home, "claude-code", &prompt)
    };
    assert!(prompt("Which pump did we choose for the lock?").unwrap().contains("Ronda"));
    assert_eq!(prompt("kubernetes ingress certificate rotation"), None);
}
