//! Tool results that arrive after or during the summarization of their window.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{assert_sound, open, run_due_jobs, start};
use treering_core::{
    ConversationId, Entry, EntryKind, Json, NewMessage, NewToolCall, Node, NodeContent, Passage,
    Policy, ProviderError, Role, Summarizer, SummaryRequest, ThreadName, ToolResult,
};
use treering_engine::{AppendTarget, Engine, EntryBatch, NewConversation, ReplayDetection};
use treering_testkit::generate::external_id;
use treering_testkit::{FakeClock, PrefixSummarizer};

const RESULT: &str = "the gauge at berth 4711 reads 3.25";

fn small() -> Policy {
    let assignments =
        ["window_chars=200", "min_flush_chars=0", "group_children=2", "group_chars=off"];
    Policy::default().with(&assignments.map(|text| text.parse().unwrap())).unwrap()
}

fn append(engine: &Engine, entries: Vec<Entry>) -> ConversationId {
    let new_conversation =
        NewConversation { external_id: Some(external_id("late")), ..NewConversation::default() };
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation.id
}

/// Appends a call without a result, and then turns that fill one window each.
fn call_and_talk(engine: &Engine, turns: i64) -> ConversationId {
    let call = NewToolCall {
        name: "gauge".into(),
        args: Json::string("berth"),
        outcome: None,
        at: start(),
        external_id: Some(external_id("call")),
    };
    let mut entries = vec![EntryKind::ToolCall(call).into()];
    for turn in 0..turns {
        for role in [Role::User, Role::Assistant] {
            let text: String =
                format!("{role} {turn} says a word. ").chars().cycle().take(110).collect();
            let message = NewMessage::new(role, text, start().plus_micros(turn * 60_000_000));
            entries.push(Entry::message(ThreadName::main(), message));
        }
        entries.push(Entry::turn_end(ThreadName::main()));
    }
    append(engine, entries)
}

fn answer(engine: &Engine) {
    let outcome =
        ToolResult { result: Json::string(RESULT), success: Some(true), duration_ms: Some(7) };
    append(
        engine,
        vec![EntryKind::ToolResult { call: external_id("call"), outcome, at: start() }.into()],
    );
}

fn nodes(engine: &Engine, id: ConversationId) -> Vec<Node> {
    engine.tree(id).unwrap().nodes
}

fn tells(node: &Node) -> bool {
    node.content.overview.contains("4711")
}

/// Reports tool results. If it has a folder, it appends the result there during its first run.
#[derive(Default)]
struct ReportingSummarizer {
    folder: Option<PathBuf>,
    answered: AtomicBool,
}

impl Summarizer for ReportingSummarizer {
    fn name(&self) -> &str {
        "telling"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        if let Some(folder) = &self.folder
            && !self.answered.swap(true, Ordering::SeqCst)
        {
            let clock = Arc::new(FakeClock::at(start()));
            answer(&open(folder, small(), Arc::new(ReportingSummarizer::default()), clock));
        }
        let mut content = PrefixSummarizer::default().summarize(request)?;
        for passage in &request.passages {
            if let Passage::Tool(tool) = passage {
                content.overview = format!("{} {}", tool.result, content.overview);
            }
        }
        Ok(content)
    }
}

#[test]
fn a_late_result_rewrites_its_window_and_the_nodes_above() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), small(), Arc::new(ReportingSummarizer::default()), clock);
    let id = call_and_talk(&engine, 6);
    run_due_jobs(&engine, id);
    let before = nodes(&engine, id);
    assert!(!before.iter().any(|node| tells(node) || node.dirty));

    answer(&engine);
    assert_sound(&engine);
    let dirty: Vec<u32> =
        nodes(&engine, id).iter().filter(|node| node.dirty).map(Node::ordinal).collect();
    assert_eq!(dirty, [0], "the window that the call belongs to, and no other");
    run_due_jobs(&engine, id);
    assert_sound(&engine);

    let after = nodes(&engine, id);
    assert!(tells(&after[0]), "{}", after[0].content.overview);
    assert!(after.iter().all(|node| !node.dirty));
    let changed: Vec<(u8, u32)> = before
        .iter()
        .zip(&after)
        .filter(|(before, after)| before.id != after.id)
        .map(|(_, after)| (after.level().number(), after.ordinal()))
        .collect();
    assert_eq!(changed, [(1, 0), (2, 0)], "the window and the nodes above it");
}

#[test]
fn a_result_that_arrives_while_its_window_is_written_is_included() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(FakeClock::at(start()));
    let summarizer = ReportingSummarizer {
        folder: Some(folder.path().to_path_buf()),
        ..ReportingSummarizer::default()
    };
    let engine = open(folder.path(), small(), Arc::new(summarizer), clock);
    let id = call_and_talk(&engine, 1);
    run_due_jobs(&engine, id);
    assert_sound(&engine);
    assert!(tells(&nodes(&engine, id)[0]), "{:?}", nodes(&engine, id));
}
