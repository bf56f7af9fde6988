//! Labels of conversations: set when a conversation is created, changed later, and used as a
//! filter.

#![allow(clippy::unwrap_used)]

use crate::common::{engine_with_defaults, start};
use treering_core::{Entry, Labels, NewMessage, Role, ThreadName};
use treering_engine::{AppendTarget, Engine, EntryBatch, NewConversation, Query, ReplayDetection};
use treering_testkit::generate::external_id;

fn append(engine: &Engine, key: &str, labels: &[&str], text: &str) -> treering_core::Conversation {
    let new = NewConversation {
        external_id: Some(external_id(key)),
        labels: Labels::parse(labels.iter().copied()).unwrap(),
        ..NewConversation::default()
    };
    let message = NewMessage::new(Role::User, text, start());
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new),
        entries: vec![Entry::message(ThreadName::main(), message)],
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().conversation
}

/// Importers name the source each time. A value that someone set since then stays.
#[test]
fn an_append_adds_labels_and_replaces_none() {
    let (engine, _folder) = engine_with_defaults();
    let id = append(&engine, "a", &["source=codex"], "one").id;
    let labels = Labels::parse(["source=mine", "user=42"]).unwrap();
    let changed = engine.set_labels(id, &labels, &[]).unwrap();
    assert_eq!(changed.labels.to_string(), "source=mine, user=42");
    let appended = append(&engine, "a", &["source=codex", "team=quay"], "two");
    assert_eq!(appended.labels.to_string(), "source=mine, team=quay, user=42");
    let removed = engine.set_labels(id, &Labels::new(), &["user".into(), "team".into()]).unwrap();
    assert_eq!(removed.labels.to_string(), "source=mine");
    assert_eq!(engine.find("a").unwrap(), removed);
}

#[test]
fn a_search_is_limited_to_a_label() {
    let (engine, _folder) = engine_with_defaults();
    append(&engine, "a", &["user=42"], "The sill lies at 2.35 metres.");
    let other = append(&engine, "b", &["user=43", "source=codex"], "The sill lies at 2.40 metres.");
    let search = |labels: &[&str]| {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        let query = Query { text: "sill".into(), labels, limit: 10, ..Query::default() };
        let hits = engine.search(&query).unwrap().hits;
        hits.iter().map(|hit| hit.conversation).collect::<Vec<_>>()
    };
    assert_eq!(search(&[]).len(), 2);
    assert_eq!(search(&["user=43"]), [other.id]);
    assert_eq!(search(&["user=43", "source=codex"]), [other.id]);
    assert_eq!(search(&["user=42", "source=codex"]), []);
}
