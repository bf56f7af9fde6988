//! The store contract for lists of conversations.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{ConversationFilter, ConversationQuery};
use treering_core::{
    Conversation, ConversationId, ConversationKind, ConversationState, ExternalId, Labels, Reader,
    Store, Timestamp, Write,
};

use super::{at, commit, commit_for, conversation, key, put, reader, tenant};
use crate::generate::random_below;

pub fn listing_is_newest_first_and_pages(store: &dyn Store) {
    for number in [3, 1, 5, 2, 4] {
        put(store, number);
    }
    // Same activity time, but archived and in another folder.
    let mut twin = conversation(6);
    twin.last_activity = at(5);
    twin.state = ConversationState::Archived;
    twin.cwd = Some("/elsewhere".into());
    commit(store, vec![Write::PutConversation(twin)]).unwrap();
    let reader = reader(store);
    let list = |filter: &ConversationFilter| -> Vec<u8> {
        let page = reader.conversations(&ConversationQuery::List(filter)).unwrap();
        page.iter().map(|conversation| conversation.id.as_bytes()[0]).collect()
    };
    assert_eq!(list(&ConversationFilter::all(10)), [5, 6, 4, 3, 2, 1]);
    let mut filter = ConversationFilter::all(2);
    let mut seen = Vec::new();
    loop {
        let page = reader.conversations(&ConversationQuery::List(&filter)).unwrap();
        seen.extend(page.iter().map(|conversation| conversation.id.as_bytes()[0]));
        let Some(last) = page.last() else { break };
        filter.after = Some((last.last_activity, last.id));
    }
    assert_eq!(seen, [5, 6, 4, 3, 2, 1]);
    let open =
        ConversationFilter { states: vec![ConversationState::Open], ..ConversationFilter::all(10) };
    assert_eq!(list(&open), [5, 4, 3, 2, 1]);
    let in_project =
        ConversationFilter { cwd: Some("/elsewhere".into()), ..ConversationFilter::all(10) };
    assert_eq!(list(&in_project), [6]);
}

/// A folder finds what lies below it, and not its siblings. A project is found by the working
/// directory and by the project path.
pub fn listing_finds_what_lies_below_a_folder(store: &dyn Store) {
    let folders = [
        (Some("/a/b"), None),
        (Some("/a/b/c"), None),
        (Some("/a/bc"), None),
        (Some("/a"), Some("/p_%")),
        (None, Some("/p_%/x")),
        (None, Some("/pqr/x")),
        (None, None),
    ];
    for (index, (cwd, project)) in folders.into_iter().enumerate() {
        let mut it = conversation(index as u8 + 1);
        it.cwd = cwd.map(str::to_owned);
        it.project_path = project.map(str::to_owned);
        it.last_activity = Timestamp::from_micros(100 - index as i64);
        commit(store, vec![Write::PutConversation(it)]).unwrap();
    }
    let reader = reader(store);
    let list = |filter: &ConversationFilter| -> Vec<u8> {
        let found = reader.conversations(&ConversationQuery::List(filter)).unwrap();
        assert_same_ids(&*reader, filter, &found);
        found.iter().map(|conversation| conversation.id.as_bytes()[0]).collect()
    };
    let of_cwd = |folder: &str| {
        list(&ConversationFilter { cwd: Some(folder.into()), ..ConversationFilter::all(10) })
    };
    let of_project = |folder: &str| {
        list(&ConversationFilter { project: Some(folder.into()), ..ConversationFilter::all(10) })
    };
    assert_eq!(of_cwd("/a/b"), [1, 2]);
    assert_eq!(of_cwd("/a"), [1, 2, 3, 4]);
    assert_eq!(of_cwd("/"), [1, 2, 3, 4]);
    assert_eq!(of_cwd("/p_%"), [0; 0]);
    assert_eq!(of_project("/p_%"), [4, 5]);
    assert_eq!(of_project("/a/b"), [1, 2]);
    assert_eq!(of_project("/"), [1, 2, 3, 4, 5, 6]);
}

/// Labels are replaced with the conversation's row, and a filter with several labels asks for all
/// of them.
pub fn conversations_are_found_by_their_labels(store: &dyn Store) {
    let labeled = |number: u8, labels: &[&str]| Conversation {
        labels: Labels::parse(labels.iter().copied()).unwrap(),
        ..conversation(number)
    };
    let put = |it: Conversation| commit(store, vec![Write::PutConversation(it)]).unwrap();
    put(labeled(1, &["user=42", "source=codex"]));
    put(labeled(2, &["user=43", "source=codex", "it's=\"quoted\" 潮"]));
    put(labeled(3, &[]));
    commit_for(store, tenant("other"), vec![Write::PutConversation(labeled(4, &["user=42"]))])
        .unwrap();
    let list = |labels: &[&str]| -> Vec<u8> {
        let labels = labels.iter().map(|label| label.parse().unwrap()).collect();
        let filter = ConversationFilter { labels, ..ConversationFilter::all(9) };
        let reader = reader(store);
        let listed = reader.conversations(&ConversationQuery::List(&filter)).unwrap();
        assert_same_ids(&*reader, &filter, &listed);
        listed.iter().map(|it| it.id.as_bytes()[0]).collect()
    };
    assert_eq!(list(&["source=codex"]), [2, 1]);
    assert_eq!(list(&["source=codex", "user=42"]), [1]);
    assert_eq!(list(&["it's=\"quoted\" 潮"]), [2]);
    assert_eq!(list(&["user=42", "user=43"]), [0; 0]);
    put(labeled(1, &["user=44"]));
    assert_eq!(reader(store).conversation(key(1).id).unwrap(), Some(labeled(1, &["user=44"])));
    assert_eq!((list(&["source=codex"]), list(&["user=44"])), (vec![2], vec![1]));
    commit(store, vec![Write::RemoveConversation(key(2).id)]).unwrap();
    assert_eq!(list(&["source=codex"]), [0; 0]);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

/// Conversations whose last activity moves back and forth, by microseconds and by years, even to
/// before 1970.
pub fn listing_follows_activity(store: &dyn Store) {
    const HOUR: i64 = 3_600_000_000;
    let mut state = 7_u64;
    let mut draw = |end| i64::from(random_below(&mut state, end));
    let mut all: Vec<Conversation> = (0..40).map(conversation).collect();
    for round in 0..300 {
        let it = &mut all[draw(40) as usize];
        // Near the start of an hour, so that conversations share hours.
        let micros = (draw(9) - 4) * HOUR + draw(5) - 2;
        it.last_activity =
            Timestamp::from_micros(if draw(9) == 0 { micros * 40_000 } else { micros });
        it.state = if draw(4) == 0 { ConversationState::Archived } else { ConversationState::Open };
        commit(store, vec![Write::PutConversation(it.clone())]).unwrap();
        if round % 20 != 19 {
            continue;
        }
        let reader = reader(store);
        let listed = reader
            .conversations(&ConversationQuery::List(&ConversationFilter::all(usize::MAX)))
            .unwrap();
        let mut expected: Vec<&Conversation> = listed.iter().collect();
        expected.sort_by_key(|it| (std::cmp::Reverse(it.last_activity), it.id));
        assert!(listed.iter().eq(expected), "after {round} rounds");
        assert!(listed.iter().all(|it| all.contains(it)), "after {round} rounds");
        let mut filter = ConversationFilter {
            states: vec![ConversationState::Open],
            ..ConversationFilter::all(3)
        };
        let mut paged = Vec::new();
        loop {
            let page = reader.conversations(&ConversationQuery::List(&filter)).unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some((last.last_activity, last.id));
            paged.extend(page);
        }
        let open = listed.iter().filter(|it| it.state == ConversationState::Open);
        assert!(paged.iter().eq(open), "after {round} rounds");
        let states = vec![ConversationState::Archived];
        let archived = ConversationFilter { states, ..ConversationFilter::all(0) };
        let expected = listed.iter().filter(|it| it.state == ConversationState::Archived);
        assert_same_ids(&*reader, &archived, &expected.cloned().collect::<Vec<_>>());
    }
}

/// The kind of a conversation is part of its key. Only sessions are counted.
pub fn conversations_are_found_by_their_kind(store: &dyn Store) {
    let keyed = |number: u8, key: &ExternalId| Conversation {
        external_id: Some(key.clone()),
        ..conversation(number)
    };
    let key = |kind: ConversationKind, folder| kind.key(folder).unwrap();
    for it in [
        conversation(1),
        keyed(2, &ExternalId::new("treerings").unwrap()),
        // The key of an import of lines that have none.
        keyed(6, &ExternalId::new("treering:0f3a").unwrap()),
        keyed(3, &key(ConversationKind::Notes, None)),
        keyed(4, &key(ConversationKind::Notes, Some("/a"))),
        keyed(5, &key(ConversationKind::Project, Some("/a"))),
    ] {
        commit(store, vec![Write::PutConversation(it)]).unwrap();
    }
    let list = |kind| -> Vec<u8> {
        let filter = ConversationFilter { kind, ..ConversationFilter::all(9) };
        let reader = reader(store);
        let listed = reader.conversations(&ConversationQuery::List(&filter)).unwrap();
        assert_same_ids(&*reader, &filter, &listed);
        assert!(listed.iter().all(|it| kind.is_none_or(|kind| it.kind() == kind)));
        let mut numbers: Vec<u8> = listed.iter().map(|it| it.id.as_bytes()[0]).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(list(Some(ConversationKind::Session)), [1, 2, 6]);
    assert_eq!(list(Some(ConversationKind::Notes)), [3, 4]);
    assert_eq!(list(Some(ConversationKind::Project)), [5]);
    assert_eq!(list(None), [1, 2, 3, 4, 5, 6]);
    assert_eq!(reader(store).totals().unwrap().0, 3);
}

/// The ids of a filter are those of the conversations that it lists.
pub(super) fn assert_same_ids(
    reader: &dyn Reader,
    filter: &ConversationFilter,
    listed: &[Conversation],
) {
    let mut ids = reader.conversation_ids(filter).unwrap();
    let mut expected: Vec<ConversationId> = listed.iter().map(|it| it.id).collect();
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected, "{filter:?}");
}
