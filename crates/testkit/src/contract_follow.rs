//! The part of the contract of a store that search follows: arrivals and vectors.

#![allow(clippy::unwrap_used, missing_docs)]

use treering_core::commit::{LogEvent, LogLine};
use treering_core::index::{Progress, VectorIndex};
use treering_core::ports::Arrivals;
use treering_core::{
    ContentHash, ConversationId, JobId, Json, MessageIdx, Role, Store, TenantId, Timestamp, ToolResult,
    TurnNo, Write,
};

use crate::contract::{commit, commit_for, conversation, key, message, put, tenant, tool_call};
use crate::contract_tree::node;

/// Makes one test of every rule about what search follows; part of
/// [`store_contract!`](crate::store_contract).
#[macro_export]
macro_rules! follow_contract {
    ($fresh:expr) => {
        $crate::store_contract!(
            $fresh,
            contract_follow,
            messages_arrive_in_order_and_are_told_apart_by_tenant,
            a_tool_call_arrives_again_with_its_result,
            a_node_written_anew_arrives_again,
            lines_of_the_log_arrive_in_order_and_are_told_apart_by_tenant,
            vectors_are_kept_by_model_and_content,
            vectors_of_tenants_and_models_are_apart,
            the_vector_index_comes_back,
        );
    };
}

fn numbers<T>(arrivals: &Arrivals<T>) -> Vec<u64> {
    arrivals.items.iter().map(|(number, ..)| *number).collect()
}

pub fn messages_arrive_in_order_and_are_told_apart_by_tenant(store: &dyn Store) {
    put(store, 1);
    let others = tenant("others");
    let it = conversation(2);
    let writes = vec![
        Write::PutConversation(it.clone()),
        Write::AddMessage(it.id, message(0, 0, Role::User, "theirs")),
    ];
    commit_for(store, others.clone(), writes).unwrap();
    commit(store, vec![Write::AddMessage(key(1).id, message(1, 0, Role::Assistant, "there"))]).unwrap();

    let reader = store.reader().unwrap();
    let all = reader.arrivals(&TenantId::default(), 0, 10).unwrap();
    let said: Vec<&str> = all.items.iter().map(|(.., it)| it.said.text.as_str()).collect();
    assert_eq!(said, ["hello", "there"]);
    assert!(numbers(&all).is_sorted() && all.items.iter().all(|(_, id, _)| *id == key(1).id));
    let first = reader.arrivals(&TenantId::default(), 0, 1).unwrap();
    assert_eq!((first.items.len(), first.through), (1, first.items[0].0), "no further than it was read");
    let rest = reader.arrivals(&TenantId::default(), first.through, 10).unwrap();
    assert_eq!(rest.items[0].2.idx, MessageIdx(1));
    let none = reader.arrivals(&TenantId::default(), rest.through, 10).unwrap();
    assert_eq!((none.items.len(), none.through), (0, rest.through));
    let theirs = reader.arrivals(&others, 0, 10).unwrap();
    assert_eq!(theirs.items[0].2.said.text, "theirs");
    assert_eq!(theirs.through, all.through, "what is not theirs was looked at too");
}

pub fn a_tool_call_arrives_again_with_its_result(store: &dyn Store) {
    put(store, 1);
    let id = key(1).id;
    let calls = [0, 1].map(|order| Write::AddToolCall(id, tool_call(0, order, None)));
    commit(store, calls.to_vec()).unwrap();
    let before = store.reader().unwrap().call_arrivals(&TenantId::default(), 0, 10).unwrap();
    assert_eq!(before.items.iter().map(|(.., call)| call.order).collect::<Vec<_>>(), [0, 1]);
    for order in [1, 0] {
        let outcome = ToolResult { result: Json::string("ok"), success: None, duration_ms: None };
        commit(store, vec![Write::FinishToolCall(id, TurnNo(0), order, outcome)]).unwrap();
    }
    let reader = store.reader().unwrap();
    let after = reader.call_arrivals(&TenantId::default(), before.through, 10).unwrap();
    assert_eq!(after.items.iter().map(|(.., call)| call.order).collect::<Vec<_>>(), [1, 0]);
    assert!(after.items.iter().all(|(.., call)| call.call.outcome.is_some()));
    assert_eq!(reader.call_arrivals(&TenantId::default(), 0, 10).unwrap().items.len(), 2, "each once");
}

pub fn a_node_written_anew_arrives_again(store: &dyn Store) {
    put(store, 1);
    let write = || Write::PutNode(key(1).id, Box::new(node(1, 0)));
    commit(store, vec![write()]).unwrap();
    let before = store.reader().unwrap().node_arrivals(&TenantId::default(), 0, 10).unwrap();
    commit(store, vec![write()]).unwrap();
    let after = store.reader().unwrap().node_arrivals(&TenantId::default(), before.through, 10).unwrap();
    assert_eq!((before.items.len(), after.items.len()), (1, 1));
}

pub fn lines_of_the_log_arrive_in_order_and_are_told_apart_by_tenant(store: &dyn Store) {
    put(store, 1);
    let others = tenant("others");
    let theirs = Write::PutConversation(conversation(2));
    commit_for(store, others.clone(), vec![theirs, Write::AddLog(log_line(key(2).id, "theirs"))]).unwrap();
    commit(store, ["one", "two"].map(|text| Write::AddLog(log_line(key(1).id, text))).to_vec()).unwrap();

    let reader = store.reader().unwrap();
    let first = reader.log_arrivals(&TenantId::default(), 0, 1).unwrap();
    assert_eq!(first.items[0].2, log_line(key(1).id, "one"));
    let rest = reader.log_arrivals(&TenantId::default(), first.through, 10).unwrap();
    assert_eq!(rest.items.iter().map(|(.., line)| line.text.as_str()).collect::<Vec<_>>(), ["two"]);
    let end = reader.log_arrivals(&TenantId::default(), 0, 0).unwrap();
    assert_eq!((end.items.len(), end.through), (0, rest.through), "the end can be asked for alone");
    assert_eq!(reader.log_arrivals(&others, 0, 10).unwrap().items[0].2.text, "theirs");
}

fn log_line(conversation: ConversationId, text: &str) -> LogLine {
    let (at, job, event) = (Timestamp::from_micros(5), JobId(hash(7)), LogEvent::Acquire);
    LogLine { at, conversation: Some(conversation), job, event, text: text.into(), took_ms: Some(3) }
}

fn hash(number: u8) -> ContentHash {
    ContentHash::of_fields(&[&[number]])
}

pub fn vectors_are_kept_by_model_and_content(store: &dyn Store) {
    let exact = vec![0.1_f32, -1.0, f32::MIN_POSITIVE, 1e-20];
    let first = vec![(hash(1), exact.clone()), (hash(2), vec![0.5])];
    commit(store, vec![Write::PutVectors("a".into(), first)]).unwrap();
    let again = vec![(hash(1), vec![9.0]), (hash(3), vec![0.25])];
    commit(store, vec![Write::PutVectors("a".into(), again)]).unwrap();
    let reader = store.reader().unwrap();
    let asked = [hash(3), hash(4), hash(1)];
    let found = reader.vectors(&TenantId::default(), "a", &asked).unwrap();
    assert_eq!(found, [Some(vec![0.25]), None, Some(exact)], "what is there stays, to the last bit");
    let (some, through) = reader.vector_arrivals(&TenantId::default(), "a", 0, 2).unwrap();
    assert_eq!(some.iter().map(|(hash, _)| *hash).collect::<Vec<_>>(), [hash(1), hash(2)]);
    let (rest, through) = reader.vector_arrivals(&TenantId::default(), "a", through, 2).unwrap();
    assert_eq!(rest, [(hash(3), vec![0.25])]);
    assert_eq!(reader.vector_arrivals(&TenantId::default(), "a", through, 2).unwrap(), (vec![], through));
}

pub fn vectors_of_tenants_and_models_are_apart(store: &dyn Store) {
    let others = tenant("others");
    let put = |model: &str| vec![Write::PutVectors(model.into(), vec![(hash(1), vec![1.0])])];
    commit(store, put("a")).unwrap();
    commit(store, put("b")).unwrap();
    commit_for(store, others.clone(), put("a")).unwrap();
    commit(store, vec![Write::DropVectors("a".into())]).unwrap();
    let reader = store.reader().unwrap();
    let there =
        |tenant: &TenantId, model: &str| reader.vectors(tenant, model, &[hash(1)]).unwrap()[0].is_some();
    assert!(!there(&TenantId::default(), "a"));
    assert!(there(&TenantId::default(), "b") && there(&others, "a"));
    assert!(!there(&others, "b"));
}

pub fn the_vector_index_comes_back(store: &dyn Store) {
    let read = || store.reader().unwrap().vector_index(&TenantId::default()).unwrap();
    assert_eq!(read(), None);
    let done = Progress { messages: 1 << 40, calls: 2, nodes: 3 };
    for index in [
        VectorIndex::of("a"),
        VectorIndex::of("a").towards("b").advanced("b", done),
        VectorIndex::of("a").towards("b").cut_over(),
    ] {
        commit(store, vec![Write::PutVectorIndex(index.clone())]).unwrap();
        assert_eq!(read(), Some(index));
    }
    assert_eq!(store.reader().unwrap().vector_index(&tenant("others")).unwrap(), None);
}
