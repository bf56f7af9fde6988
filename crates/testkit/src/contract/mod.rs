//! The contract of a store. Every store must pass this suite.
//!
//! A store's tests call [`store_contract!`](crate::store_contract) with an expression that
//! creates a fresh store and a guard that is kept until the end of the test.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

pub mod amend;
pub mod basics;
pub mod feed;
pub mod forget;
pub mod jobs;
pub mod ledger;
pub mod listing;
pub mod tenants;
pub mod tree;
pub mod writers;

use treering_core::ports::Span;
use treering_core::windowing::WindowMessage;
use treering_core::{
    CommitScope, Conversation, ConversationId, ConversationKey, ConversationState,
    ConversationTotals, Json, Labels, Message, MessageIdx, NewMessage, NewToolCall, Policy, Reader,
    Role, Store, StoreError, TenantId, Thread, ThreadName, Timestamp, TitleSource, ToolCall,
    ToolResult, TreeState, Turn, TurnNo, Write,
};

use crate::generate::external_id;

/// Expands to one test per rule of the contract.
#[macro_export]
macro_rules! store_contract {
    ($new_store:expr) => {
        $crate::store_contract!($new_store, basics,
            stored_items_are_read_back,
            any_text_comes_back,
            a_refused_plan_writes_nothing,
            a_failing_write_takes_the_whole_commit_with_it,
            a_panicking_plan_harms_nobody,
            tenants_do_not_see_each_other,
            ids_are_found_by_their_first_digits,
            external_ids_are_known,
            a_tool_call_gets_its_result_once,
            turns_are_made_by_what_is_in_them,
            items_are_read_together,
            a_write_outside_its_scope_is_refused,
            a_renamed_conversation_needs_a_free_name,
            a_backup_is_a_whole_store,
            commits_are_seen_at_once,
            a_sound_store_has_no_problems,
        );
        $crate::store_contract!($new_store, listing,
            listing_is_newest_first_and_pages,
            listing_follows_activity,
            listing_finds_what_lies_below_a_folder,
            conversations_are_found_by_their_labels,
            conversations_are_found_by_their_kind,
        );
        $crate::writers_contract!($new_store);
        $crate::tree_contract!($new_store);
        $crate::feed_contract!($new_store);
        $crate::ledger_contract!($new_store);
        $crate::forget_contract!($new_store);
        $crate::amend_contract!($new_store);
    };
    ($new_store:expr, $part:ident, $($rule:ident),* $(,)?) => {
        $(
            #[test]
            fn $rule() {
                let (store, _guard) = $new_store;
                $crate::contract::$part::$rule(&store);
            }
        )*
    };
}

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000)
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

pub fn key(number: u8) -> ConversationKey {
    ConversationKey { tenant: TenantId::default(), id: ConversationId::from_bytes([number; 16]) }
}

pub fn conversation(number: u8) -> Conversation {
    Conversation {
        id: ConversationId::from_bytes([number; 16]),
        slug: format!("slug-{number}"),
        title: Some(format!("Title {number}")),
        title_source: TitleSource::Source,
        participants: vec!["Ana".into(), "Juno".into()],
        cwd: Some("/home/ana".into()),
        project_path: None,
        started_at: at(0),
        last_activity: at(i64::from(number)),
        state: ConversationState::Open,
        external_id: Some(external_id(&format!("source:{number}"))),
        labels: Labels::parse(["source=test", "user=42"]).unwrap(),
        totals: ConversationTotals { messages: 1, turns: 1, tool_calls: 0, chars: 5, tokens: 2 },
        threads: vec![Thread {
            name: ThreadName::main(),
            fork: None,
            last_turn: Some(turn(0, 0, 1)),
            turn_ended: true,
        }],
        policy: vec![
            "window_chars=4000".parse().unwrap(),
            "length@2=3-4 sentences".parse().unwrap(),
        ],
        tree_state: growth(),
    }
}

/// The state of a tree with sealed nodes at two levels and an open window.
fn growth() -> TreeState {
    let mut growth = TreeState {
        sealed: vec![3, 1],
        offered: vec![2],
        closings: vec![7],
        ..TreeState::default()
    };
    let first = message(0, 0, Role::User, "hello");
    growth.push(0, &ThreadName::main(), &WindowMessage::from(&first), &Policy::default());
    growth
}

pub(crate) fn turn(no: u32, from: u32, until: u32) -> Turn {
    Turn {
        no: TurnNo(no),
        thread: ThreadName::main(),
        from: MessageIdx(from),
        until: MessageIdx(until),
        messages: until - from,
        tool_calls: 0,
        answered: false,
        started_at: at(0),
        ended_at: at(0),
    }
}

pub fn message(idx: u32, turn: u32, role: Role, text: &str) -> Message {
    let mut body = NewMessage::new(role, text, at(i64::from(idx)));
    body.author = Some("Ana".into());
    body.external_id = Some(external_id(&format!("m{idx}")));
    body.parts = Some(Json::new(r#"[{"a":1.0,"b":"\ud83d"}]"#).unwrap());
    Message {
        idx: MessageIdx(idx),
        turn: TurnNo(turn),
        turns: turn + 1,
        thread: ThreadName::main(),
        chars: treering_core::text::chars(text),
        tokens: 2,
        hash: body.hash(),
        body,
    }
}

pub fn tool_call(turn: u32, order: u32, outcome: Option<ToolResult>) -> ToolCall {
    ToolCall {
        turn: TurnNo(turn),
        thread: ThreadName::main(),
        order,
        before: MessageIdx(1),
        call: NewToolCall {
            name: "shell".into(),
            args: Json::new(r#"{"cmd": "ls"}"#).unwrap(),
            outcome,
            at: at(9),
            external_id: Some(external_id(&format!("t{turn}-{order}"))),
        },
    }
}

pub(crate) fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<(), StoreError> {
    commit_for(store, TenantId::default(), writes)
}

pub(crate) fn commit_for(
    store: &dyn Store,
    tenant: TenantId,
    writes: Vec<Write>,
) -> Result<(), StoreError> {
    store.commit(CommitScope::Tenant(tenant), Box::new(move |_| Ok(writes.clone())))
}

/// Stores a conversation with one message.
pub fn put(store: &dyn Store, number: u8) {
    let it = conversation(number);
    let writes = vec![
        Write::PutConversation(it.clone()),
        Write::AddMessage(it.id, message(0, 0, Role::User, "hello")),
    ];
    commit(store, writes).unwrap();
}

pub(crate) fn everything<T>(from: T) -> Span<T> {
    Span::starting(from, usize::MAX)
}

/// A reader of the default tenant.
pub(crate) fn reader(store: &dyn Store) -> Box<dyn Reader + '_> {
    store.reader(&TenantId::default()).unwrap()
}
