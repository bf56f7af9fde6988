//! Notes: stored outside any session, first in the contexts of their scope while they are pinned.

use treering_core::ports::ConversationFilter;
use treering_engine::{Engine, NewNote, Note, NoteChange};

use super::{engine, request, session, turns};
use crate::common::assert_sound;

fn note(engine: &Engine, text: &str, project: Option<&str>, pinned: bool) -> Note {
    let note = NewNote {
        text: text.to_owned(),
        project: project.map(str::to_owned),
        pinned,
        ..NewNote::default()
    };
    engine.add_note(note).unwrap()
}

#[test]
fn pinned_notes_come_first_in_the_contexts_of_their_scope() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    session(&engine, 0, "/srv/shop", &turns(0, 3));
    let friday = note(&engine, "Never deploy on Fridays.", Some("/srv/shop"), true);
    note(&engine, "The lift is out of order.", Some("/srv/shop"), false);
    note(&engine, "Write British English.", None, true);
    note(&engine, "Use four spaces.", Some("/srv/other"), true);
    assert_eq!(friday.reference(), "notes-shop#0");

    let context = engine.scope_context(&request(Some("/srv/shop"), 1500, None)).unwrap();
    let markdown = context.markdown();
    let position = |text: &str| markdown.find(text);
    assert!(position("Fridays") < position("Service 0-0"), "{markdown}");
    assert!(position("British").is_some(), "holds for every project: {markdown}");
    assert!(position("lift").is_none() && position("four spaces").is_none(), "{markdown}");
    let receipt = context.receipt();
    assert_eq!(receipt.items[0].section, "Pinned notes");
    assert_eq!(receipt.items[0].reason.as_str(), "pinned");
    assert!(receipt.tokens <= 1500);
    let everything = engine.scope_context(&request(None, 1500, None)).unwrap().markdown();
    assert!(everything.contains("four spaces") && everything.contains("Fridays"), "{everything}");
    let asked = request(Some("/srv/shop"), 1500, Some("is the lift out of order"));
    assert!(engine.scope_context(&asked).unwrap().markdown().contains("lift is out"));

    let all = ConversationFilter::all(10);
    let listed = engine.listed_conversations(&all).unwrap();
    assert_eq!(listed.len(), 1, "notes are no session");
    let stats = engine.stats().unwrap();
    assert_eq!((stats.conversations, stats.totals.turns), (1, 3), "notes are no turns");
    assert_sound(&engine);
}

#[test]
fn a_note_that_does_not_exist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    session(&engine, 0, "/srv/shop", &turns(0, 1));
    note(&engine, "Never deploy on Fridays.", Some("/srv/shop"), false);
    let session = engine.listed_conversations(&ConversationFilter::all(1)).unwrap();
    let slug = session[0].conversation.slug.clone();
    for (reference, reason) in [
        ("notes-shop", "expected NOTES#NUMBER".to_owned()),
        ("notes-shop#1", "notes-shop has 1 note, counted from 0".to_owned()),
        (&format!("{slug}#0"), format!("{slug} is a conversation")),
    ] {
        let error = engine.change_note(reference, NoteChange::Pin).unwrap_err().to_string();
        assert!(error.contains(&reason), "{error}");
    }
}

#[test]
fn a_note_is_corrected_unpinned_and_withdrawn() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let port = note(&engine, "The staging port is 7410.", Some("/srv/shop"), true);
    let markdown = |engine: &Engine| {
        engine.scope_context(&request(Some("/srv/shop"), 600, None)).unwrap().markdown()
    };
    let correction = NoteChange::Correct("The staging port is 7411.".into());
    let corrected = engine.change_note(&port.reference(), correction).unwrap();
    assert_eq!((corrected.text.as_str(), corrected.pinned), ("The staging port is 7411.", true));
    assert!(markdown(&engine).contains("7411") && !markdown(&engine).contains("7410"));
    engine.change_note(&port.reference(), NoteChange::Unpin).unwrap();
    assert!(!markdown(&engine).contains("7411"));
    engine.change_note(&port.reference(), NoteChange::Pin).unwrap();
    let withdrawn = engine.change_note(&port.reference(), NoteChange::Withdraw).unwrap();
    assert!(withdrawn.withdrawn && !withdrawn.pinned && withdrawn.text.is_empty());
    assert!(!markdown(&engine).contains("7411"));
    let again = engine.change_note(&port.reference(), NoteChange::Pin).unwrap_err();
    assert!(again.to_string().contains("withdrawn"), "{again}");
    let hits = engine.search(&treering_engine::Query {
        text: "staging port".into(),
        ..treering_engine::Query::default()
    });
    assert!(hits.unwrap().hits.is_empty());
    let pinned = note(&engine, "Deploy on Mondays.", Some("/srv/shop"), true);
    let selection = treering_core::ItemSelection::Message(pinned.idx);
    let target = treering_core::ForgetTarget::Items(pinned.conversation, selection);
    engine.forget(&treering_engine::Forget::new(target)).unwrap();
    for change in [NoteChange::Pin, NoteChange::Withdraw, NoteChange::Correct("x".into())] {
        let forgotten = engine.change_note(&pinned.reference(), change).unwrap_err();
        assert!(forgotten.to_string().contains("forgotten"), "{forgotten}");
    }
    let notes = engine.find(&pinned.conversation.to_string()).unwrap();
    assert!(!notes.is_pinned(pinned.idx), "a forgotten note takes no place among the pinned ones");
    let unknown = engine.change_note("session-0#1", NoteChange::Pin).unwrap_err();
    assert!(unknown.to_string().contains("session-0"), "{unknown}");
    assert_sound(&engine);
}

#[test]
fn a_note_with_an_id_is_stored_once_and_reserved_keys_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    let external_id = Some(treering_core::ExternalId::new("decision-1").unwrap());
    let text = "Use Postgres.".to_owned();
    let new = NewNote { text, external_id, pinned: true, ..NewNote::default() };
    let first = engine.add_note(new.clone()).unwrap();
    assert_eq!(engine.add_note(new).unwrap(), first);
    assert_eq!(engine.notes(None).unwrap().len(), 1);
    let empty = engine.add_note(NewNote { text: " ".into(), ..NewNote::default() });
    assert!(empty.unwrap_err().to_string().contains("empty"));
    let refused = engine.append(treering_engine::EntryBatch {
        target: treering_engine::AppendTarget::FindOrCreate(treering_engine::NewConversation {
            external_id: Some(treering_core::ExternalId::new("treering:notes").unwrap()),
            ..Default::default()
        }),
        entries: Vec::new(),
        replay_detection: treering_engine::ReplayDetection::None,
    });
    assert!(refused.unwrap_err().to_string().contains("reserved"));
}

#[test]
fn notes_without_room_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine(folder.path());
    for number in 0..12 {
        let text = format!("Rule {number}: {}", "always ask before you delete a file ".repeat(3));
        note(&engine, &text, Some("/srv/shop"), true);
    }
    let context = engine.scope_context(&request(Some("/srv/shop"), 300, None)).unwrap();
    let markdown = context.markdown();
    assert!(markdown.contains("Pinned notes without room here: "), "{markdown}");
    assert!(markdown.contains("Rule 11:"), "the latest stay: {markdown}");
    assert!(context.receipt().tokens <= 300);
}
