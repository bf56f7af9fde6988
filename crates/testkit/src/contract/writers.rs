//! The store contract for plans and concurrent writers.

#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::{Arc, Barrier};

use treering_core::ports::{Span, StoreResult};
use treering_core::{CommitScope, Message, MessageIdx, Reader, Role, Store, TurnNo, Write};

use crate::contract::{commit, conversation, everything, key, message, put, reader};
use crate::generate::random_below;

/// Expands to one test per rule about writers; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! writers_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            writers,
            a_plan_sees_nothing_of_a_failed_commit,
            a_plan_sees_what_was_committed_before,
            plans_hold_beside_commits_that_fail,
            conversations_that_take_turns_keep_their_own,
            a_message_is_not_put_where_one_is,
            writers_at_once_all_get_through,
        );
    };
}

/// Commits of one to three messages, each to a random one of three conversations.
pub fn conversations_that_take_turns_keep_their_own(store: &dyn Store) {
    let mut state = 20_261_117_u64;
    let mut draw = |end| random_below(&mut state, end);
    let mut written: [Vec<Message>; 3] = Default::default();
    for number in 0..3 {
        commit(store, vec![Write::PutConversation(conversation(number))]).unwrap();
    }
    for _ in 0..2000 {
        let number = draw(3) as u8;
        let messages = &mut written[usize::from(number)];
        let mut writes = vec![Write::PutConversation(conversation(number))];
        for _ in 0..=draw(3) {
            let idx = messages.len() as u32;
            let role = if idx.is_multiple_of(2) { Role::User } else { Role::Assistant };
            let mut message = message(idx, idx / 2, role, &format!("{number}: {idx}"));
            message.body.external_id = None;
            message.hash = message.body.hash();
            messages.push(message.clone());
            writes.push(Write::AddMessage(key(number).id, message));
        }
        commit(store, writes).unwrap();
    }
    let reader = reader(store);
    for (number, messages) in written.iter().enumerate() {
        let id = key(number as u8).id;
        assert_eq!(reader.messages(id, everything(MessageIdx(0))).unwrap(), *messages);
        let count = messages.len() as u32;
        for _ in 0..200 {
            let (from, size, limit) = (draw(count + 2), draw(40), draw(30) as usize);
            let span = Span {
                limit,
                ..Span::between(MessageIdx(from), MessageIdx(from.saturating_add(size)))
            };
            let expected = messages.iter().skip(from as usize).take(limit.min(size as usize));
            assert!(
                reader.messages(id, span).unwrap().iter().eq(expected),
                "{from} {size} {limit}"
            );
            let turn = draw(count / 2);
            let turns = reader.turns(id, Span::starting(TurnNo(turn), 1)).unwrap();
            let [turn] = turns.try_into().unwrap();
            assert_eq!(
                (turn.from.0, turn.until.0),
                (2 * turn.no.0, (2 * turn.no.0 + 2).min(count))
            );
            assert_eq!(
                (turn.messages, turn.answered),
                (turn.until.0 - turn.from.0, turn.messages == 2)
            );
        }
    }
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn a_message_is_not_put_where_one_is(store: &dyn Store) {
    put(store, 1);
    put(store, 2);
    let mut again = message(0, 0, Role::User, "another");
    again.body.external_id = None;
    assert!(commit(store, vec![Write::AddMessage(key(1).id, again.clone())]).is_err());
    again.idx = MessageIdx(1);
    commit(store, vec![Write::AddMessage(key(1).id, again)]).unwrap();
    let messages = reader(store).messages(key(1).id, everything(MessageIdx(0))).unwrap();
    assert_eq!(
        messages.iter().map(|message| message.body.text.as_str()).collect::<Vec<_>>(),
        ["hello", "another"]
    );
}

pub fn writers_at_once_all_get_through(store: &dyn Store) {
    const WRITERS: u8 = 12;
    const EACH: u32 = 25;
    let start = Arc::new(Barrier::new(usize::from(WRITERS)));
    std::thread::scope(|scope| {
        for number in 0..WRITERS {
            let start = Arc::clone(&start);
            scope.spawn(move || {
                start.wait();
                put(store, number);
                for idx in 1..EACH {
                    let refuse = idx % 5 == 0;
                    let id = conversation(number).id;
                    let write = Write::AddMessage(
                        id,
                        message(if refuse { 0 } else { idx }, 0, Role::User, "x"),
                    );
                    assert_eq!(commit(store, vec![write]).is_err(), refuse);
                }
            });
        }
    });
    let reader = reader(store);
    for number in 0..WRITERS {
        let messages = reader.messages(key(number).id, everything(MessageIdx(0))).unwrap();
        let expected: Vec<u32> = (0..EACH).filter(|idx| *idx == 0 || idx % 5 != 0).collect();
        assert_eq!(messages.iter().map(|message| message.idx.0).collect::<Vec<_>>(), expected);
    }
}

/// Adds a message to conversation 1 at the index that the plan computes.
pub fn add_next(store: &dyn Store) {
    store
        .commit(CommitScope::Conversation(key(1)), Box::new(|reader| next_message(reader, 1)))
        .unwrap();
}

/// Plans a message at the next index of a conversation.
pub fn next_message(reader: &dyn Reader, number: u8) -> StoreResult<Vec<Write>> {
    let mut it = reader.conversation(key(number).id)?.unwrap();
    let next = it.totals.messages;
    it.totals.messages += 1;
    let mut message = message(next, 0, Role::User, "counted");
    message.body.external_id = None;
    let id = it.id;
    Ok(vec![Write::PutConversation(it), Write::AddMessage(id, message)])
}

/// Several concurrent writers per conversation, whose plans depend on the current state. Some
/// commits fail and must be rolled back without affecting the others.
pub fn plans_hold_beside_commits_that_fail(store: &dyn Store) {
    const CONVERSATIONS: u8 = 3;
    const EACH: u32 = 60;
    for number in 0..CONVERSATIONS {
        put(store, number);
    }
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for writer in 0..8_u8 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                for round in 0..EACH {
                    let number = (writer + round as u8 / 4) % CONVERSATIONS;
                    let fails = (round + u32::from(writer)) % 5 == 0;
                    let plan = move |reader: &dyn Reader| {
                        let mut writes = next_message(reader, number)?;
                        if fails {
                            let duplicate = message(0, 0, Role::User, "the place is taken");
                            writes.push(Write::AddMessage(key(number).id, duplicate));
                        }
                        Ok(writes)
                    };
                    let committed =
                        store.commit(CommitScope::Conversation(key(number)), Box::new(plan));
                    assert_eq!(committed.is_err(), fails, "{committed:?}");
                }
            });
        }
    });
    let reader = reader(store);
    let mut written = 0;
    for number in 0..CONVERSATIONS {
        let count = reader.conversation(key(number).id).unwrap().unwrap().totals.messages;
        let messages = reader.messages(key(number).id, everything(MessageIdx(0))).unwrap();
        assert!(messages.iter().map(|message| message.idx.0).eq(0..count), "conversation {number}");
        written += count - 1;
    }
    assert_eq!(written, 8 * EACH * 4 / 5);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

/// Writes about this many bytes in large commits; each writer has its own conversation.
pub fn write_much(store: &dyn Store, writers: u8, bytes: usize) {
    let text = "tide ".repeat(50_000);
    let each = bytes / text.len() / usize::from(writers);
    std::thread::scope(|scope| {
        for number in 1..=writers {
            let text = &text;
            scope.spawn(move || {
                put(store, number);
                for idx in 1..=each {
                    let message = message(idx as u32, 0, Role::User, text);
                    commit(store, vec![Write::AddMessage(conversation(number).id, message)])
                        .unwrap();
                }
            });
        }
    });
}

pub fn a_plan_sees_nothing_of_a_failed_commit(store: &dyn Store) {
    put(store, 1);
    let mut it = conversation(1);
    it.totals.messages = 7;
    it.threads.clear();
    let duplicate = Write::AddMessage(it.id, message(0, 0, Role::User, "the place is taken"));
    commit(store, vec![Write::PutConversation(it.clone()), duplicate]).unwrap_err();
    add_next(store);
    it = reader(store).conversation(key(1).id).unwrap().unwrap();
    assert_eq!((it.totals.messages, it.threads), (2, conversation(1).threads));
}

pub fn a_plan_sees_what_was_committed_before(store: &dyn Store) {
    put(store, 1);
    const WRITERS: u32 = 8;
    const EACH: u32 = 20;
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                (0..EACH).for_each(|_| add_next(store));
            });
        }
    });
    let reader = reader(store);
    assert_eq!(
        reader.conversation(key(1).id).unwrap().unwrap().totals.messages,
        1 + WRITERS * EACH
    );
    let messages = reader.messages(key(1).id, everything(MessageIdx(0))).unwrap();
    assert!(messages.iter().map(|message| message.idx.0).eq(0..=WRITERS * EACH));
}
