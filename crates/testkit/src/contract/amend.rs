//! The store contract for amendments.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{Change, ChangeFilter, Cursor, ExistingItem, Span};
use treering_core::{
    ConversationId, Correction, Json, Message, MessageIdx, MessageVersion, Role, Store, TurnNo,
    Write,
};

use crate::contract::{
    at, commit, commit_for, conversation, everything, key, message, put, reader, tenant, tool_call,
};
use crate::generate::external_id;

/// Expands to one test per rule about amendments; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! amend_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            amend,
            an_amended_message_keeps_its_earlier_versions,
            an_amendment_without_a_time_leaves_no_version,
            an_amended_tool_call_is_replaced,
            versions_are_added_in_order_and_forgotten,
            versions_go_with_their_message_and_conversation,
        );
    };
}

fn versions(store: &dyn Store, id: ConversationId) -> Vec<(MessageIdx, MessageVersion)> {
    reader(store).versions(id, everything(MessageIdx(0))).unwrap()
}

fn version(second: i64, text: &str) -> MessageVersion {
    MessageVersion { replaced_at: at(second), text: text.into(), parts: None, correction: None }
}

/// The first message with another text.
fn amended(text: &str, correction: Option<Correction>) -> Message {
    let mut it = message(0, 0, Role::User, text);
    (it.body.parts, it.body.edited_at, it.body.correction) = (None, Some(at(5)), correction);
    it.hash = it.body.hash();
    it
}

pub fn an_amended_message_keeps_its_earlier_versions(store: &dyn Store) {
    put(store, 1);
    let id = key(1).id;
    let original = message(0, 0, Role::User, "hello");
    let correction = |text: Option<&str>| Correction { at: at(6), text: text.map(str::to_owned) };
    let first = amended("hi", Some(correction(Some("no"))));
    let second = amended("hey", Some(correction(None)));
    let before = reader(store).audit().revision().unwrap();
    let end = reader(store).changes(&Cursor::start(), &ChangeFilter::content(), 100).unwrap();
    commit(store, vec![Write::AmendMessage(id, Box::new(first.clone()), Some(at(7)))]).unwrap();
    commit(store, vec![Write::AmendMessage(id, Box::new(second.clone()), Some(at(8)))]).unwrap();
    assert_eq!(
        reader(store).messages(id, everything(MessageIdx(0))).unwrap(),
        std::slice::from_ref(&second)
    );
    let expected = [
        MessageVersion { parts: original.body.parts, ..version(7, "hello") },
        MessageVersion { correction: first.body.correction, ..version(8, "hi") },
    ];
    assert_eq!(versions(store, id), expected.map(|it| (MessageIdx(0), it)));
    assert!(reader(store).audit().revision().unwrap() >= before + 2);
    let feed = reader(store).changes(&end.cursor, &ChangeFilter::content(), 100).unwrap().items;
    assert_eq!(feed, [Change::Message(id, second.clone())], "the latest content, once");
    let known = reader(store).existing(id, &[&external_id("m0")]).unwrap();
    assert_eq!(known, [Some(ExistingItem::Message(MessageIdx(0), second.hash))]);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn an_amendment_without_a_time_leaves_no_version(store: &dyn Store) {
    put(store, 1);
    let write = Write::AmendMessage(key(1).id, Box::new(amended("hi", None)), None);
    commit(store, vec![write]).unwrap();
    assert_eq!(versions(store, key(1).id), []);
    let stored = reader(store).messages(key(1).id, everything(MessageIdx(0))).unwrap();
    assert_eq!(stored, [amended("hi", None)]);
}

pub fn an_amended_tool_call_is_replaced(store: &dyn Store) {
    put(store, 1);
    let id = key(1).id;
    let mut call = tool_call(0, 0, None);
    commit(store, vec![Write::AddToolCall(id, call.clone())]).unwrap();
    let before = reader(store).audit().revision().unwrap();
    call.call.args = Json::new(r#"{"cmd": "[redacted]"}"#).unwrap();
    commit(store, vec![Write::AmendToolCall(id, call.clone())]).unwrap();
    assert_eq!(reader(store).tool_calls(id, everything(TurnNo(0))).unwrap(), [call]);
    assert!(reader(store).audit().revision().unwrap() > before);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn versions_are_added_in_order_and_forgotten(store: &dyn Store) {
    let (id, parts) = (key(1).id, Some(Json::new(r#"[{"a":1.0}]"#).unwrap()));
    let writes = vec![
        Write::PutConversation(conversation(1)),
        Write::AddMessage(id, message(0, 0, Role::User, "hello")),
        Write::AddMessage(id, message(1, 0, Role::Assistant, "well")),
        Write::AddVersions(id, MessageIdx(1), vec![version(2, "a"), version(1, "b")]),
        Write::AddVersions(id, MessageIdx(0), vec![MessageVersion { parts, ..version(3, "c") }]),
    ];
    commit(store, writes).unwrap();
    let texts = |span: Span<MessageIdx>| -> Vec<(u32, String)> {
        let found = reader(store).versions(id, span).unwrap();
        found.into_iter().map(|(idx, version)| (idx.0, version.text)).collect()
    };
    let named = |idx: u32, text: &str| (idx, text.to_owned());
    assert_eq!(texts(everything(MessageIdx(0))), [named(0, "c"), named(1, "a"), named(1, "b")]);
    assert_eq!(texts(Span::between(MessageIdx(0), MessageIdx(1))), [named(0, "c")]);
    let other = store.reader(&tenant("other")).unwrap();
    assert_eq!(other.versions(id, everything(MessageIdx(0))).unwrap(), []);
    drop(other);
    commit(store, vec![Write::ForgetVersions(id, vec![MessageIdx(1)])]).unwrap();
    assert_eq!(texts(everything(MessageIdx(0))), [named(0, "c")]);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn versions_go_with_their_message_and_conversation(store: &dyn Store) {
    let add = |id| Write::AddVersions(id, MessageIdx(0), vec![version(1, "a")]);
    for number in [1, 2] {
        put(store, number);
        commit(store, vec![add(key(number).id)]).unwrap();
    }
    commit(store, vec![Write::ForgetMessages(key(1).id, vec![MessageIdx(0)])]).unwrap();
    assert_eq!((versions(store, key(1).id).len(), versions(store, key(2).id).len()), (0, 1));
    commit(store, vec![Write::RemoveConversation(key(2).id)]).unwrap();
    put(store, 2);
    assert_eq!(versions(store, key(2).id), []);
    assert!(commit_for(store, tenant("other"), vec![add(key(1).id)]).is_err(), "not its tenant");
}
