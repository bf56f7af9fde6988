//! The store on Neo4j passes the contract suite against a real server, whose address is in the
//! environment; tools/test-neo4j starts one. The tests share its database, so they run one after
//! the other and empty it first.

#![allow(clippy::unwrap_used)]

mod copying;
mod faults;

use std::sync::{Mutex, MutexGuard, PoisonError};

use treering_stores::{Neo4jAddress, Neo4jCredentials, Neo4jStore};
use treering_testkit::store_contract;

static DATABASE: Mutex<()> = Mutex::new(());

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run tools/test-neo4j"))
}

fn address() -> Neo4jAddress {
    variable("TREERING_TEST_NEO4J").parse().unwrap()
}

fn credentials() -> Neo4jCredentials {
    Neo4jCredentials { user: "neo4j".into(), password: variable("TREERING_TEST_NEO4J_PASSWORD") }
}

fn open() -> Neo4jStore {
    Neo4jStore::open(address(), credentials()).unwrap()
}

/// An empty store. The guard keeps the other tests away.
fn new_store() -> (Neo4jStore, MutexGuard<'static, ()>) {
    let guard = DATABASE.lock().unwrap_or_else(PoisonError::into_inner);
    open().cypher("MATCH (n) DETACH DELETE n", Vec::new()).unwrap();
    (open(), guard)
}

store_contract!(new_store());
