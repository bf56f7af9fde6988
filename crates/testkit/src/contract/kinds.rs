//! The store contract for the kinds of conversations.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{ConversationFilter, ConversationQuery};
use treering_core::{
    Conversation, ConversationId, ConversationKind, ExternalId, Reader, Store, Write,
};

use super::{commit, conversation, reader};

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
    assert_eq!(list(Some(ConversationKind::Session)), [1, 2]);
    assert_eq!(list(Some(ConversationKind::Notes)), [3, 4]);
    assert_eq!(list(Some(ConversationKind::Project)), [5]);
    assert_eq!(list(None), [1, 2, 3, 4, 5]);
    assert_eq!(reader(store).totals().unwrap().0, 2);
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
