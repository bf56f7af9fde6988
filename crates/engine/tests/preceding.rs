//! The text before a window, which tells a summarizer what is new in it.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use crate::common::{open, run_due_jobs, start};
use treering_core::{
    Assignment, Entry, EntryKind, ForkPoint, MessageIdx, NewMessage, NodeContent, Passage, Policy,
    ProviderError, Role, Summarizer, SummaryRequest, ThreadName,
};
use treering_engine::{AppendTarget, EntryBatch, NewConversation, ReplayDetection};
use treering_testkit::FakeClock;

/// Records the first message of each window with the text before it.
#[derive(Default)]
struct Recorder(Mutex<Vec<(String, String)>>);

impl Summarizer for Recorder {
    fn name(&self) -> &str {
        "recorder"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        if let Some(Passage::Message(first)) = request.passages.first() {
            self.0.lock().unwrap().push((first.text.clone(), request.preceding.clone()));
        }
        Ok(NodeContent { overview: "The quay is closed.".into(), ..NodeContent::default() })
    }
}

fn turn(thread: &ThreadName, number: i64, text: &str) -> [Entry; 3] {
    let at = start().plus_micros(60_000_000 * number);
    let message =
        |role, text: String| Entry::message(thread.clone(), NewMessage::new(role, text, at));
    [
        message(Role::User, format!("{text} {number}: {}", "the sill is high. ".repeat(20))),
        message(Role::Assistant, format!("Noted {text} {number}.")),
        Entry::turn_end(thread.clone()),
    ]
}

#[test]
fn a_window_knows_the_text_before_it_in_its_thread() {
    let folder = tempfile::tempdir().unwrap();
    let assignments = ["window_chars=300", "min_flush_chars=0"];
    let assignments: Vec<Assignment> = assignments.map(|text| text.parse().unwrap()).into();
    let policy = Policy::default().with(&assignments).unwrap();
    let recorder = Arc::new(Recorder::default());
    let clock = Arc::new(FakeClock::at(start()));
    let engine = open(folder.path(), policy, recorder.clone(), clock);
    let (main, idea) = (ThreadName::main(), ThreadName::new("idea").unwrap());
    let mut entries: Vec<Entry> = turn(&main, 0, "main").into();
    let kind = EntryKind::Fork { parent: main.clone(), after: ForkPoint::Position(MessageIdx(1)) };
    entries.push(Entry { thread: idea.clone(), kind });
    for number in 1..40 {
        entries.extend(turn(&main, number, "main"));
        entries.extend(turn(&idea, number, "idea"));
    }
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    let batch = EntryBatch { target, entries, replay_detection: ReplayDetection::None };
    let id = engine.append(batch).unwrap().conversation.id;
    run_due_jobs(&engine, id);
    let seen = recorder.0.lock().unwrap();
    let before = |opening: &str| {
        let of_window = |(first, _): &&(String, String)| first.starts_with(opening);
        seen.iter().find(of_window).map(|(_, preceding)| preceding.as_str()).unwrap()
    };
    assert_eq!(before("main 0:"), "");
    let late = before("main 30:");
    assert!(late.contains("main 29:") && late.contains("Noted main 29."), "{late}");
    assert!(!late.contains("idea"), "another thread is not before it: {late}");
    assert!(!late.contains("main 30"), "a window does not precede itself: {late}");
    assert!(!late.contains("main 3:") && late.chars().count() < 8000, "only the latest text");
}
