//! Batch sizes and replays do not change what is stored of a conversation.

#![allow(clippy::unwrap_used)]

use crate::common::engine_with_defaults;
use proptest::prelude::*;
use treering_core::ports::ConversationFilter;
use treering_core::{
    Conversation, Entry, EntryKind, EntryOutcome, NewMessage, Role, ThreadName, Timestamp,
};
use treering_engine::{AppendTarget, Engine, EntryBatch, NewConversation, ReplayDetection};
use treering_testkit::generate::{conversation, external_id};

fn append(engine: &Engine, events: &[Entry]) -> Vec<EntryOutcome> {
    let new_conversation =
        NewConversation { external_id: Some(external_id("source")), ..NewConversation::default() };
    let entries = events.to_vec();
    let incoming = EntryBatch {
        target: AppendTarget::FindOrCreate(new_conversation),
        entries,
        replay_detection: ReplayDetection::None,
    };
    engine.append(incoming).unwrap().outcomes
}

/// Everything that can be read from a memory.
fn contents(engine: &Engine) -> Vec<(Conversation, Vec<String>)> {
    let sessions = engine.listed_conversations(&ConversationFilter::all(100)).unwrap();
    let export = |conversation: Conversation| {
        let mut record = Vec::new();
        let result = engine.export(&[conversation.id], |item| {
            record.push(format!("{item:?}"));
            Ok::<_, treering_engine::Error>(())
        });
        result.unwrap();
        (conversation, record)
    };
    sessions.into_iter().map(|session| export(session.conversation)).collect()
}

fn assert_sound(engine: &Engine) {
    let report = engine.verify(|_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
}

/// Splits entries at the given positions.
fn split_at<'a>(events: &'a [Entry], cuts: &[prop::sample::Index]) -> Vec<&'a [Entry]> {
    let mut cut_points: Vec<usize> = cuts.iter().map(|cut| cut.index(events.len() + 1)).collect();
    cut_points.extend([0, events.len()]);
    cut_points.sort_unstable();
    cut_points.windows(2).map(|pair| &events[pair[0]..pair[1]]).collect()
}

/// The entries without the ends of turns whose contents are not among them: these would end the
/// latest turn.
fn with_its_turns(entries: &[Entry]) -> Vec<Entry> {
    let mut started_threads = Vec::new();
    let mut kept = Vec::new();
    for entry in entries {
        match entry.kind {
            EntryKind::TurnEnd if !started_threads.contains(&&entry.thread) => continue,
            EntryKind::Message(_) | EntryKind::ToolCall(_) => started_threads.push(&entry.thread),
            _ => {}
        }
        kept.push(entry.clone());
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn batch_sizes_do_not_matter(
        events in conversation(40),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let ((complete, _w), (parts, _p)) = (engine_with_defaults(), engine_with_defaults());
        append(&complete, &events);
        for part in split_at(&events, &cuts) {
            append(&parts, part);
        }
        prop_assert_eq!(contents(&complete), contents(&parts));
        assert_sound(&complete);
        assert_sound(&parts);
    }

    #[test]
    fn replays_change_nothing(
        events in conversation(40),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        again in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
    ) {
        let ((complete, _w), (replayed, _r)) = (engine_with_defaults(), engine_with_defaults());
        append(&complete, &events);
        let mut seen = 0;
        let mut again = again.iter();
        for part in split_at(&events, &cuts) {
            append(&replayed, part);
            seen += part.len();
            if let Some((from, until)) = again.next() {
                let (from, until) = (from.index(seen + 1), until.index(seen + 1));
                let again = with_its_turns(&events[from.min(until)..from.max(until)]);
                let outcomes = append(&replayed, &again);
                let known = [EntryOutcome::AlreadyStored, EntryOutcome::TurnEnded];
                prop_assert!(outcomes.iter().all(|outcome| known.contains(outcome)), "{:?}", outcomes);
            }
        }
        prop_assert_eq!(contents(&complete), contents(&replayed));
    }

    #[test]
    fn in_any_order_nothing_is_lost_or_duplicated(
        events in conversation(30),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (engine, _folder) = engine_with_defaults();
        let parts = split_at(&events, &cuts);
        for index in &order {
            append(&engine, parts[index.index(parts.len())]);
        }
        parts.iter().for_each(|part| drop(append(&engine, part)));
        assert_sound(&engine);
        let is_message = |entry: &&Entry| matches!(entry.kind, EntryKind::Message(_));
        let called = |entry: &&Entry| matches!(entry.kind, EntryKind::ToolCall(_));
        let totals = engine.stats().unwrap().totals;
        // A result without its call is stored as a tool message.
        let orphans = totals.messages as usize - events.iter().filter(is_message).count();
        let calls = events.iter().filter(called).count();
        prop_assert_eq!(totals.tool_calls as usize + orphans, calls);
    }

    #[test]
    fn turns_and_messages_capture_the_same(turns in proptest::collection::vec((".{0,40}", ".{1,40}"), 1..12)) {
        let ((by_turn, _t), (by_message, _m)) = (engine_with_defaults(), engine_with_defaults());
        let at = Timestamp::from_micros(1_772_440_860_000_000);
        let message = |role, text: &str, id: String| {
            let mut message = NewMessage::new(role, text, at);
            message.external_id = Some(external_id(&id));
            Entry::message(ThreadName::main(), message)
        };
        for (number, (user, assistant)) in turns.iter().enumerate() {
            let turn = [
                message(Role::User, user, format!("{number}u")),
                message(Role::Assistant, assistant, format!("{number}a")),
            ];
            append(&by_turn, &turn);
            turn.iter().for_each(|event| drop(append(&by_message, std::slice::from_ref(event))));
        }
        prop_assert_eq!(contents(&by_turn), contents(&by_message));
        prop_assert_eq!(by_turn.stats().unwrap().totals.turns as usize, turns.len());
    }
}

#[test]
fn a_message_changed_at_its_source_is_reported_and_not_updated() {
    let (engine, _folder) = engine_with_defaults();
    let message = |text: &str| {
        let mut message = NewMessage::new(Role::User, text, Timestamp::from_micros(0));
        message.external_id = Some(external_id("m1"));
        [Entry::message(ThreadName::main(), message)]
    };
    append(&engine, &message("first"));
    assert_eq!(append(&engine, &message("second")), [EntryOutcome::ContentDiffers]);
    assert!(contents(&engine)[0].1[1].contains("first"));
}

#[test]
fn a_conversation_is_found_by_slug_id_and_id_prefix() {
    let (engine, _folder) = engine_with_defaults();
    append(
        &engine,
        &[Entry::message(
            ThreadName::main(),
            NewMessage::new(Role::User, "Which port?", Timestamp::from_micros(0)),
        )],
    );
    let found = engine.find("which-port").unwrap();
    let id = found.id.to_string();
    for reference in [id.as_str(), &id[..4], &id[..9].to_uppercase()] {
        assert_eq!(engine.find(reference).unwrap(), found);
    }
    for reference in ["which", "", "zzzz", &id[..3]] {
        assert!(engine.find(reference).is_err(), "{reference}");
    }
}

#[test]
fn slugs_do_not_collide_and_follow_a_rename() {
    let (engine, _folder) = engine_with_defaults();
    let new = |title: &str| {
        let new_conversation = NewConversation {
            title: Some(title.into()),
            title_source: treering_core::TitleSource::Source,
            ..NewConversation::default()
        };
        let entries = vec![Entry::message(
            ThreadName::main(),
            NewMessage::new(Role::User, "x", Timestamp::from_micros(0)),
        )];
        engine
            .append(EntryBatch {
                target: AppendTarget::FindOrCreate(new_conversation),
                entries,
                replay_detection: ReplayDetection::None,
            })
            .unwrap()
            .conversation
    };
    let slugs: Vec<String> = (0..12).map(|_| new("Same name").slug).collect();
    assert_eq!(slugs[..2], ["same-name", "same-name-2"]);
    let mut unique = slugs.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), slugs.len());
    let renamed = engine.rename(engine.find("same-name").unwrap().id, "Été à Brest").unwrap();
    assert_eq!(
        (renamed.slug.as_str(), renamed.title.as_deref()),
        ("ete-a-brest", Some("Été à Brest"))
    );
    assert!(engine.rename(renamed.id, "same name 2").is_err());
    assert!(engine.rename(renamed.id, "?!").is_err());
}
