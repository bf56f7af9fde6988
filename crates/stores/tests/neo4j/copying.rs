//! Copies between the embedded store and Neo4j, there and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use treering_core::ports::SpendFilter;
use treering_core::spend::{Charge, Money, SpendAmount};
use treering_core::{
    AuditRecord, CommitScope, ContentHash, Correction, ExternalId, JobEvent, JobEventKind, Json,
    MessageVersion, Reader, Role, Store, TenantId, Timestamp, Tombstone, VectorIndex, Write,
};
use treering_stores::{CopyReport, EmbeddedStore, Sync, copy};
use treering_testkit::contract::{conversation, jobs::job, key, message, tool_call, tree::node};

use super::new_store;

fn commit(store: &dyn Store, tenant: &str, writes: Vec<Write>) {
    let scope = CommitScope::Tenant(TenantId::new(tenant).unwrap());
    store.commit(scope, Box::new(move |_| Ok(writes.clone()))).unwrap();
}

/// Two tenants with everything that a store keeps.
fn fill(store: &dyn Store) {
    for tenant in ["default", "others"] {
        for number in 1..=3 {
            let id = key(number).id;
            let mut writes = vec![Write::PutConversation(conversation(number))];
            for idx in 0..(40 * u32::from(number)) {
                let role = if idx % 2 == 0 { Role::User } else { Role::Assistant };
                let mut message = message(idx, idx / 2, role, &format!("{tenant} 潮 \0 {idx}"));
                if idx == 4 {
                    let text = Some("better".to_owned());
                    let at = Timestamp::from_micros(7);
                    message.body.correction = Some(Correction { at, text });
                }
                message.hash = message.body.hash();
                writes.push(Write::AddMessage(id, message));
            }
            let version = MessageVersion {
                replaced_at: Timestamp::from_micros(5),
                text: "before".into(),
                parts: Some(Json::new("[1.50]").unwrap()),
                correction: None,
            };
            writes.extend([
                Write::AddVersions(id, treering_core::MessageIdx(2), vec![version]),
                Write::AddToolCall(id, tool_call(1, 0, None)),
                Write::PutNode(id, Box::new(node(1, 0))),
                Write::PutNode(id, Box::new(node(2, 0))),
                Write::SetParent(id, treering_core::Level::FIRST, vec![0], Some(0)),
                Write::AddJob(job(number, 1, 1)),
                Write::AddJobEvent(JobEvent {
                    at: Timestamp::from_micros(9),
                    conversation: Some(id),
                    job: job(number, 1, 1).id,
                    kind: JobEventKind::Acquire,
                    text: "planned".into(),
                    took_ms: Some(3),
                }),
            ]);
            commit(store, tenant, writes);
        }
        let record = AuditRecord {
            id: "forget-1".into(),
            at: 8,
            target: "message".into(),
            conversations: Vec::new(),
            tombstones: 1,
        };
        let spent =
            SpendAmount { calls: 2, tokens_in: 3, tokens_out: 4, money: Money(5), unpriced: 1 };
        let charge = |conversation| {
            let at = conversation_start();
            Write::AddSpend(Charge { at, conversation, model: "a/b".into(), spent })
        };
        commit(
            store,
            tenant,
            vec![
                Write::AddAuditRecord(record),
                Write::AddTombstones("forget-1".into(), vec![tombstone()]),
                charge(Some(key(1).id)),
                charge(None),
                Write::PutVectors("m".into(), vec![(hash(), vec![0.5, -0.1])]),
                Write::PutVectorIndex(VectorIndex::of("m").rebuilding_for("n")),
            ],
        );
    }
}

fn conversation_start() -> Timestamp {
    conversation(1).started_at
}

fn tombstone() -> Tombstone {
    Tombstone::Source(ExternalId::new("forgotten").unwrap())
}

fn hash() -> ContentHash {
    ContentHash::of_fields(&[b"content"])
}

fn copied(from: &dyn Store, to: &dyn Store) -> CopyReport {
    copy(from, to, &mut |_| {}).unwrap()
}

/// Compares the parts that a copy does not compare at its end.
fn check_rest(from: &dyn Store, to: &dyn Store) {
    for tenant in from.maintenance().tenants().unwrap() {
        let (from, to) = (from.reader(&tenant).unwrap(), to.reader(&tenant).unwrap());
        let of_one = SpendFilter { conversation: Some(key(1).id), day: None };
        for filter in [SpendFilter::default(), of_one] {
            let spent = |reader: &dyn Reader| reader.ledger().spent(&filter).unwrap();
            assert_eq!(spent(&*from), spent(&*to));
        }
        assert_eq!(from.vectors("m", &[hash()]).unwrap(), to.vectors("m", &[hash()]).unwrap());
        assert_eq!(from.vector_index().unwrap(), to.vector_index().unwrap());
        assert_eq!(to.audit().are_forgotten(&[tombstone()]).unwrap(), [true]);
    }
}

#[test]
fn a_store_is_the_same_there_and_back() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] =
        [0, 1].map(|it| EmbeddedStore::open(folders[it].path(), Sync::Normal).unwrap());
    fill(&first);
    let (graph, _guard) = new_store();
    let report = copied(&first, &graph);
    assert_eq!((report.tenants, report.conversations, report.messages), (2, 6, 480));
    assert_eq!((report.nodes, report.tool_calls, report.jobs, report.vectors), (12, 6, 6, 2));
    check_rest(&first, &graph);
    assert_eq!(graph.maintenance().check().unwrap(), Vec::<String>::new());
    assert_eq!(graph.maintenance().pending_scrubs().unwrap(), 0, "nothing was erased there");
    copied(&graph, &second);
    check_rest(&first, &second);
    copied(&first, &second);
    assert_eq!(copied(&first, &graph), report, "a second time changes nothing");
    check_rest(&first, &graph);
}

#[test]
fn an_interrupted_copy_continues() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedStore::open(folder.path(), Sync::Normal).unwrap();
    fill(&first);
    let (graph, _guard) = new_store();
    for stop in (1..).step_by(3) {
        let mut left = stop;
        let interrupted = catch_unwind(AssertUnwindSafe(|| {
            copy(&first, &graph, &mut |_| {
                left -= 1;
                assert!(left > 0, "interrupted");
            })
        }));
        if let Ok(finished) = interrupted {
            finished.unwrap();
            assert!(stop > 10, "it was interrupted several times");
            break;
        }
    }
    check_rest(&first, &graph);
}

#[test]
fn a_target_with_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = EmbeddedStore::open(folder.path(), Sync::Normal).unwrap();
    fill(&first);
    let (graph, _guard) = new_store();
    let mut other = conversation(1);
    other.title = Some("another".into());
    commit(&graph, "default", vec![Write::PutConversation(other)]);
    let error = copy(&first, &graph, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("slug-1") && error.contains("empty store"), "{error}");
}
