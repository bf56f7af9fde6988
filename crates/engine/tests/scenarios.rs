//! Scenarios: turns in, tree out. Each file in `scenarios` names a rule of the specification,
//! sets a policy and plays a conversation; the resulting tree is a snapshot beside it.
//!
//! A line is one event:
//! - `policy NAME=VALUE …` sets the policy of the engine (first line);
//! - `user 120`, `assistant 80 thread=idea` append a message of that many characters;
//!   `user "text"` appends a text;
//! - an assistant's message ends the turn, unless another one, a tool call, a message of the
//!   system or `wait-within-turn` follows;
//! - `wait 30 min` advances the clock; otherwise messages are a minute apart;
//! - `fork idea after 3` opens a thread; `close` closes the conversation;
//! - `tool NAME ok {"arg":1}` calls a tool; the comment `# extractive` selects the real summarizer;
//! - `work` runs the due jobs; all remaining jobs run at the end;
//! - `update …` plans an update; `show` draws the tree in between;
//! - the comment `# in full` adds ids, times and texts.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::sync::Arc;

use crate::common::{assert_sound, open, run_due_jobs, start};
use treering_core::{
    Assignment, ConversationState, Entry, EntryKind, ForkPoint, Json, Level, MessageIdx,
    NewMessage, NewToolCall, Policy, Role, Summarizer, ThreadName, Timestamp, ToolResult,
};
use treering_engine::{
    AppendTarget, Engine, EntryBatch, NewConversation, ReplayDetection, Update, UpdateStrategy,
};
use treering_providers::Extractive;
use treering_testkit::generate::external_id;
use treering_testkit::{FakeClock, PrefixSummarizer};

struct Play {
    engine: Engine,
    clock: Arc<FakeClock>,
    now: Timestamp,
    messages: u32,
    seen: String,
    /// Whether ids, times and texts are shown as well.
    in_full: bool,
    /// Whether the full contents of nodes are shown.
    contents: bool,
}

impl Play {
    fn conversation(&self) -> AppendTarget {
        AppendTarget::FindOrCreate(NewConversation {
            external_id: Some(external_id("scenario")),
            ..Default::default()
        })
    }

    fn id(&self) -> treering_core::ConversationId {
        self.append(Vec::new())
    }

    fn append(&self, entries: Vec<Entry>) -> treering_core::ConversationId {
        let incoming = EntryBatch {
            target: self.conversation(),
            entries,
            replay_detection: ReplayDetection::None,
        };
        self.engine.append(incoming).unwrap().conversation.id
    }

    fn pass(&mut self, micros: i64) {
        self.now = self.now.plus_micros(micros);
        self.clock.set(self.now);
    }

    fn append_message(&mut self, role: Role, rest: &str) {
        let (content, thread) = match rest.split_once(" thread=") {
            Some((content, thread)) => (content, ThreadName::new(thread).unwrap()),
            None => (rest, ThreadName::main()),
        };
        let text = match content.trim().strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').to_owned(),
            None => filler(self.messages, content.trim().parse().unwrap()),
        };
        self.messages += 1;
        let message = NewMessage::new(role, text, self.now);
        self.append(vec![Entry::message(thread, message)]);
        self.pass(60_000_000);
    }

    fn end_turn(&self, line: &str) {
        let thread = line.split_once(" thread=").map(|(_, name)| ThreadName::new(name).unwrap());
        self.append(vec![Entry::turn_end(thread.unwrap_or_default())]);
    }

    /// A tool call: its name, its success and its arguments.
    fn call(&mut self, rest: &str) {
        let mut words = rest.splitn(3, ' ');
        let (name, outcome, args) =
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
        let outcome = ToolResult {
            result: Json::string(outcome),
            success: Some(outcome == "ok"),
            duration_ms: Some(1),
        };
        let call = NewToolCall {
            name: name.to_owned(),
            args: Json::new(args).unwrap(),
            outcome: Some(outcome),
            at: self.now,
            external_id: None,
        };
        self.append(vec![EntryKind::ToolCall(call).into()]);
    }

    fn update(&mut self, rest: &str) {
        let mut update = Update::default();
        for word in rest.split_whitespace() {
            match word {
                "full" => update.strategy = UpdateStrategy::Full,
                "incremental" => update.strategy = UpdateStrategy::Incremental,
                word if word.starts_with("level=") => {
                    update.level = word["level=".len()..].parse().ok().and_then(Level::new);
                }
                word => update.policy.push(word.parse().unwrap()),
            }
        }
        let estimate = self.engine.estimate(self.id(), &update).unwrap();
        let updated = self.engine.update(self.id(), &update).unwrap();
        assert_eq!(estimate.jobs[0], updated.estimate.jobs[0], "level 1 is queued at once");
        writeln!(
            self.seen,
            "update {rest}: {} jobs queued, {} deleted",
            updated.queued, estimate.dropped_nodes
        )
        .unwrap();
    }

    fn play(&mut self, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "user" => self.append_message(Role::User, rest),
            "assistant" => self.append_message(Role::Assistant, rest),
            "system" => self.append_message(Role::System, rest),
            "wait" | "wait-within-turn" => {
                let minutes: i64 = rest.trim_end_matches(" min").parse().unwrap();
                self.pass(minutes * 60_000_000);
            }
            "fork" => {
                let (name, after) = rest.split_once(" after ").unwrap();
                let after = ForkPoint::Position(MessageIdx(after.parse().unwrap()));
                let kind = EntryKind::Fork { parent: ThreadName::main(), after };
                self.append(vec![Entry { thread: ThreadName::new(name).unwrap(), kind }]);
            }
            "tool" => self.call(rest),
            "close" => drop(self.engine.set_state(self.id(), ConversationState::Closed).unwrap()),
            "reopen" => drop(self.engine.set_state(self.id(), ConversationState::Open).unwrap()),
            "work" => run_due_jobs(&self.engine, self.id()),
            "update" => self.update(rest),
            "show" => self.show(),
            other => panic!("no such event: {other}"),
        }
    }

    fn show(&mut self) {
        let tree = self.engine.tree(self.id()).unwrap();
        for branch in tree.outline() {
            writeln!(self.seen, "{branch}").unwrap();
            let node = tree.nodes.iter().find(|node| node.id.as_str() == branch.id);
            if let Some(node) = node.filter(|_| self.in_full) {
                let minute = |at: Timestamp| (at.as_micros() - start().as_micros()) / 60_000_000;
                let (from, until, created) = (node.range_start, node.range_end, node.created_at());
                let (from, until, created) = (minute(from), minute(until), minute(created));
                let head: String = node.content.overview.chars().take(60).collect();
                writeln!(
                    self.seen,
                    "    {} minutes {from} to {until}, created {created}: {head}",
                    node.id
                )
                .unwrap();
            }
            if let Some(node) = node.filter(|_| self.contents) {
                let grounded = node.grounded * 100.0;
                writeln!(self.seen, "{:#?}\ngrounded {grounded:.0} %", node.content).unwrap();
            }
        }
        self.seen.push('\n');
    }
}

/// Events before which a turn does not end.
const CONTINUES_TURN: [&str; 4] = ["assistant", "tool", "system", "wait-within-turn"];

/// Text of the given length that identifies its message.
fn filler(number: u32, chars: usize) -> String {
    let word = format!("word{number} ");
    word.chars().cycle().take(chars).collect()
}

fn run(script: &str) -> String {
    let mut lines =
        script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines.next().unwrap();
    let assignments: Vec<Assignment> = first
        .strip_prefix("policy")
        .unwrap()
        .split_whitespace()
        .map(|word| word.replace('~', " ").parse().unwrap())
        .collect();
    let policy = Policy::default().with(&assignments).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let summarizer: Arc<dyn Summarizer> = match script.contains("# extractive") {
        true => Arc::new(Extractive),
        false => Arc::new(PrefixSummarizer::default()),
    };
    let engine = open(folder.path(), policy, summarizer, clock.clone());
    let mut play = Play {
        engine,
        clock,
        now: start(),
        messages: 0,
        seen: String::new(),
        in_full: script.contains("# in full"),
        contents: script.contains("# extractive"),
    };
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        play.play(line);
        let goes_on = |next: &&str| CONTINUES_TURN.iter().any(|word| next.starts_with(word));
        if line.starts_with("assistant") && !lines.peek().is_some_and(goes_on) {
            play.end_turn(line);
        }
    }
    run_due_jobs(&play.engine, play.id());
    assert_sound(&play.engine);
    play.show();
    play.seen
}

#[test]
fn every_scenario_matches_its_snapshot() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scenarios");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "scenario"))
        .collect();
    files.sort();
    assert!(files.len() >= 16, "a scenario for every rule");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder);
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| {
        for file in files {
            let script = std::fs::read_to_string(&file).unwrap();
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            let tree = run(&script);
            assert_eq!(tree, run(&script), "{name}: the same again");
            insta::with_settings!({ description => script.clone(), omit_expression => true }, {
                insta::assert_snapshot!(name, tree);
            });
        }
    });
}
