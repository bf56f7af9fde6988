//! The store contract for forgetting.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::ports::{
    Change, ChangeFilter, Cursor, JobEventFilter, JobFilter, NodeFilter, Span, SpendFilter,
};
use treering_core::spend::{Charge, Money, SpendAmount};
use treering_core::{
    AuditRecord, Job, JobEvent, JobEventKind, Level, MessageIdx, Store, Tombstone, TombstoneSet,
    TurnNo, Write,
};

use crate::contract::jobs::job;
use crate::contract::tree::{nodes, put_nodes};
use crate::contract::{at, commit, commit_for, key, put, reader, tenant, tool_call};
use crate::generate::external_id;

/// Expands to one test per rule about forgetting; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! forget_contract {
    ($new_store:expr) => {
        $crate::store_contract!(
            $new_store,
            forget,
            a_forgotten_message_becomes_a_placeholder,
            a_forgotten_tool_call_becomes_a_placeholder,
            removed_nodes_are_gone,
            a_removed_conversation_leaves_nothing_but_its_cost,
            the_audit_is_kept_and_counts_revisions,
            tombstones_are_kept_apart_by_tenant_and_can_be_lifted,
            tombstones_of_another_store_are_taken_over,
            errors_of_jobs_are_erased,
            scrubs_are_pending_until_they_are_done,
        );
    };
}

fn record(id: &str) -> AuditRecord {
    let (target, conversations) = ("message".into(), Vec::new());
    AuditRecord { id: id.into(), at: 7, target, conversations, tombstones: 0 }
}

fn changes(store: &dyn Store, after: &Cursor) -> Vec<Change> {
    reader(store).changes(after, &ChangeFilter::content(), 100).unwrap().items
}

pub fn a_forgotten_message_becomes_a_placeholder(store: &dyn Store) {
    put(store, 1);
    let end =
        reader(store).changes(&Cursor::start(), &ChangeFilter::content(), 100).unwrap().cursor;
    commit(store, vec![Write::ForgetMessages(key(1).id, vec![MessageIdx(0)])]).unwrap();
    let message = reader(store).messages(key(1).id, Span::starting(MessageIdx(0), 9)).unwrap();
    let message = message.into_iter().next().unwrap();
    assert!(message.body.forgotten && message.body.text.is_empty());
    assert_eq!((message.body.author.as_ref(), message.body.parts.as_ref()), (None, None));
    assert_eq!((message.chars, message.tokens, message.hash), (0, 0, message.body.hash()));
    assert_eq!(changes(store, &end), [Change::Message(key(1).id, message)]);
    let known = reader(store).existing(key(1).id, &[&external_id("m0")]).unwrap();
    assert_eq!(known, [None]);
    assert_eq!(reader(store).audit().placeholders(key(1).id, MessageIdx(1)).unwrap(), 1);
    assert_eq!(reader(store).audit().placeholders(key(1).id, MessageIdx(0)).unwrap(), 0);
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn a_forgotten_tool_call_becomes_a_placeholder(store: &dyn Store) {
    put(store, 1);
    commit(store, vec![Write::AddToolCall(key(1).id, tool_call(0, 0, None))]).unwrap();
    commit(store, vec![Write::ForgetToolCalls(key(1).id, vec![(TurnNo(0), 0)])]).unwrap();
    let calls = reader(store).tool_calls(key(1).id, Span::starting(TurnNo(0), 9)).unwrap();
    assert!(calls.len() == 1 && calls[0].call.is_forgotten());
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

pub fn removed_nodes_are_gone(store: &dyn Store) {
    put_nodes(store, 1, &[(1, 0, Some(0)), (1, 1, Some(0)), (2, 0, None)]);
    commit(store, vec![Write::RemoveNodes(key(1).id, Level::FIRST, vec![0])]).unwrap();
    let left: Vec<_> = nodes(store, 1, &NodeFilter::default())
        .iter()
        .map(|it| (it.level().number(), it.ordinal()))
        .collect();
    assert_eq!(left, [(1, 1), (2, 0)]);
}

pub fn a_removed_conversation_leaves_nothing_but_its_cost(store: &dyn Store) {
    put_nodes(store, 1, &[(1, 0, None)]);
    put(store, 2);
    let money = SpendAmount { calls: 2, tokens_in: 3, tokens_out: 4, money: Money(5), unpriced: 0 };
    let charge = |conversation| {
        Write::AddSpend(Charge { at: at(0), conversation, model: "m/x".into(), spent: money })
    };
    commit(store, vec![charge(Some(key(1).id)), charge(None)]).unwrap();
    let end =
        reader(store).changes(&Cursor::start(), &ChangeFilter::content(), 100).unwrap().cursor;
    commit(store, vec![Write::RemoveConversation(key(1).id)]).unwrap();
    assert_eq!(reader(store).conversation(key(1).id).unwrap(), None);
    assert!(reader(store).conversation(key(2).id).unwrap().is_some());
    assert_eq!(changes(store, &end), [Change::Removed(key(1).id)]);
    let all: Vec<Change> = changes(store, &Cursor::start());
    assert!(all.iter().all(|it| !matches!(it, Change::Message(id, _) if *id == key(1).id)));
    let spent = reader(store).ledger().spent(&SpendFilter::default()).unwrap();
    assert_eq!((spent.len(), spent[0].1.calls, spent[0].1.money), (1, 4, Money(10)));
    let of_it = SpendFilter { conversation: Some(key(1).id), day: None };
    assert!(reader(store).ledger().spent(&of_it).unwrap().is_empty());
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    put(store, 1);
}

pub fn the_audit_is_kept_and_counts_revisions(store: &dyn Store) {
    put(store, 1);
    assert_eq!(reader(store).audit().revision().unwrap(), 0);
    for id in ["forget-1", "forget-2"] {
        let before = reader(store).audit().revision().unwrap();
        commit(store, vec![Write::AddAuditRecord(record(id))]).unwrap();
        assert!(reader(store).audit().revision().unwrap() > before);
    }
    let records = reader(store).audit().records("", 9).unwrap();
    assert_eq!(records, [record("forget-1"), record("forget-2")]);
    assert_eq!(reader(store).audit().records("", 1).unwrap(), [record("forget-2")]);
    assert_eq!(reader(store).audit().records("forget-1", 9).unwrap(), [record("forget-1")]);
    assert!(commit(store, vec![Write::AddAuditRecord(record("forget-1"))]).is_err());
    let other = store.reader(&tenant("other")).unwrap();
    assert_eq!(other.audit().revision().unwrap(), 0);
}

pub fn tombstones_are_kept_apart_by_tenant_and_can_be_lifted(store: &dyn Store) {
    put(store, 1);
    let item = Tombstone::Item(key(1).id, external_id("m0"));
    let source = Tombstone::Source(external_id("m0"));
    let both = [item.clone(), source];
    assert_eq!(reader(store).audit().are_forgotten(&both).unwrap(), [false, false]);
    let writes = vec![
        Write::AddAuditRecord(record("forget-1")),
        Write::AddTombstones("forget-1".into(), vec![item.clone(), item]),
    ];
    commit(store, writes.clone()).unwrap();
    assert_eq!(reader(store).audit().are_forgotten(&both).unwrap(), [true, false]);
    let other = store.reader(&tenant("other")).unwrap();
    assert_eq!(other.audit().are_forgotten(&both).unwrap(), [false, false]);
    drop(other);
    commit_for(store, tenant("other"), writes).unwrap();
    commit(store, vec![Write::RemoveTombstones("forget-1".into())]).unwrap();
    assert_eq!(reader(store).audit().are_forgotten(&both).unwrap(), [false, false]);
    let other = store.reader(&tenant("other")).unwrap();
    assert_eq!(other.audit().are_forgotten(&both).unwrap(), [true, false]);
}

pub fn tombstones_of_another_store_are_taken_over(store: &dyn Store) {
    put(store, 1);
    let (item, salt) = (Tombstone::Item(key(1).id, external_id("m0")), vec![7; 16]);
    let from = TombstoneSet { hashes: vec![item.hash(&salt)], salts: vec![salt.clone()] };
    let is_forgotten = || reader(store).audit().are_forgotten(std::slice::from_ref(&item)).unwrap();
    assert_eq!(is_forgotten(), [false]);
    for id in ["forget-1", "forget-2"] {
        commit(store, vec![Write::TakeOverTombstones(record(id), from.clone())]).unwrap();
    }
    assert_eq!(is_forgotten(), [true]);
    let known = reader(store).audit().tombstones().unwrap();
    assert_eq!(known.hashes, from.hashes, "once");
    assert!(known.salts.contains(&salt));
    assert_eq!(store.maintenance().pending_scrubs().unwrap(), 0, "nothing was erased");
}

pub fn errors_of_jobs_are_erased(store: &dyn Store) {
    let failed = |number: u8| {
        let error = Some("quoted words".to_owned());
        Job { error, ..job(number, 1, 0) }
    };
    let event = |number: u8, kind, text: &str| {
        let (job, conversation) = (failed(number).id, Some(key(number).id));
        let text = text.to_owned();
        Write::AddJobEvent(JobEvent { at: at(1), conversation, job, kind, text, took_ms: None })
    };
    for number in [1, 2] {
        put(store, number);
        let writes = vec![
            Write::AddJob(failed(number)),
            event(number, JobEventKind::Fail, "failed: quoted words"),
            event(number, JobEventKind::Acquire, "planned"),
            event(number, JobEventKind::Release, "done; quoted words"),
        ];
        commit(store, writes).unwrap();
    }
    commit(store, vec![Write::ForgetErrors(key(1).id)]).unwrap();
    for (number, has_errors) in [(1, false), (2, true)] {
        let jobs = reader(store).jobs(&JobFilter::of(key(number).id)).unwrap();
        assert_eq!((jobs.len(), format!("{jobs:?}").contains("quoted")), (1, has_errors));
        let conversation = Some(key(number).id);
        let filter = JobEventFilter { conversation, job_prefix: None, limit: 9 };
        let events = format!("{:?}", reader(store).job_events(&filter).unwrap());
        assert_eq!(events.contains("quoted"), has_errors, "{events}");
        assert!(events.contains("planned") && events.contains("done"), "{events}");
    }
}

pub fn scrubs_are_pending_until_they_are_done(store: &dyn Store) {
    put(store, 1);
    assert_eq!(store.maintenance().pending_scrubs().unwrap(), 0);
    commit(store, vec![Write::AddAuditRecord(record("forget-1"))]).unwrap();
    assert_eq!(store.maintenance().pending_scrubs().unwrap(), 1);
    // Neo4j cannot erase the bytes: it says why, and does not count them as erased.
    let keeps_bytes = store.maintenance().describe().unwrap().kind == "neo4j";
    let remaining = store.maintenance().scrub().unwrap().pending;
    assert_eq!(remaining.is_some(), keeps_bytes, "{remaining:?}");
    assert_eq!(store.maintenance().pending_scrubs().unwrap(), u32::from(keeps_bytes));
    assert!(reader(store).conversation(key(1).id).unwrap().is_some());
}
