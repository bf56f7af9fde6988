//! The store contract for the cost of model calls.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::SpendFilter;
use treering_core::quota::QuotaUsage;
use treering_core::spend::{Charge, Money, SpendAmount};
use treering_core::{ConversationId, Store, Timestamp, Write};

use crate::contract::{commit, commit_for, key, reader, tenant};

/// Expands to one test per rule about spend; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! ledger_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            ledger,
            spend_is_added_up_by_model_conversation_and_day,
            spend_can_be_taken_back_and_is_apart_by_tenant,
            requests_to_a_provider_are_shared_by_all_tenants,
        );
    };
}

fn spent(unit: i64) -> SpendAmount {
    SpendAmount {
        calls: unit,
        tokens_in: 10 * unit,
        tokens_out: 3 * unit,
        money: Money(7 * unit),
        unpriced: 2 * unit,
    }
}

fn charge(day: i64, conversation: Option<ConversationId>, model: &str, unit: i64) -> Write {
    charge_at(86_400 * day + 50, conversation, model, unit)
}

fn charge_at(second: i64, conversation: Option<ConversationId>, model: &str, unit: i64) -> Write {
    Write::AddSpend(Charge {
        at: at(second),
        conversation,
        model: model.into(),
        spent: spent(unit),
    })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_micros(second * 1_000_000)
}

fn read(
    store: &dyn Store,
    conversation: Option<ConversationId>,
    day: Option<i64>,
) -> Vec<(String, SpendAmount)> {
    reader(store).ledger().spent(&SpendFilter { conversation, day }).unwrap()
}

pub fn spend_is_added_up_by_model_conversation_and_day(store: &dyn Store) {
    let (one, two) = (Some(key(1).id), Some(key(2).id));
    let writes = vec![
        charge(7, one, "b", 1),
        charge(7, one, "b", 2),
        charge(8, one, "b", 4),
        charge(7, two, "a", 8),
    ];
    commit(store, writes).unwrap();
    commit(store, vec![charge(8, None, "b", 16), charge(-1, two, "b", 32)]).unwrap();
    let sum = |model: &str, unit: i64| (model.to_owned(), spent(unit));
    assert_eq!(read(store, None, None), [sum("a", 8), sum("b", 55)]);
    assert_eq!(read(store, one, None), [sum("b", 7)]);
    assert_eq!(read(store, two, Some(7)), [sum("a", 8)]);
    assert_eq!(
        read(store, None, Some(8)),
        [sum("b", 20)],
        "spend without a conversation counts for its day"
    );
    assert_eq!(read(store, Some(key(3).id), None), []);
}

pub fn spend_can_be_taken_back_and_is_apart_by_tenant(store: &dyn Store) {
    let large = i64::from(i32::MAX);
    commit(store, vec![charge(1, None, "m", 5 * large), charge(1, None, "m", -2 * large)]).unwrap();
    commit_for(store, tenant("others"), vec![charge(1, None, "m", 9)]).unwrap();
    assert_eq!(read(store, None, None), [("m".to_owned(), spent(3 * large))]);
}

pub fn requests_to_a_provider_are_shared_by_all_tenants(store: &dyn Store) {
    let usage = |second: i64, calls: i64, tokens: i64| QuotaUsage { at: at(second), calls, tokens };
    let read = |since: i64| reader(store).ledger().requests_since("openai", at(since)).unwrap();
    commit(store, vec![charge_at(1000, None, "openai/a", 2), charge_at(1010, None, "openai/b", 1)])
        .unwrap();
    commit_for(store, tenant("others"), vec![charge_at(1000, None, "openai/b", 4)]).unwrap();
    commit(store, vec![charge_at(1000, None, "gemini/a", 9)]).unwrap();
    assert_eq!(read(1000), [usage(1000, 6, 78), usage(1010, 1, 13)]);
    assert_eq!(read(1001), [usage(1010, 1, 13)]);
    commit(store, vec![charge_at(1010, None, "openai/b", -1)]).unwrap();
    assert_eq!(read(1001), [usage(1010, 1, 0)], "a refund does not undo the request");
    commit(store, vec![charge_at(1125, None, "openai/a", 1)]).unwrap();
    assert_eq!(read(0), [usage(1010, 1, 0), usage(1125, 1, 13)], "old requests are deleted");
}
