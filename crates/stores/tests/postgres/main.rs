//! The PostgreSQL store passes the contract suite on a real server, which tools/test-postgres starts.

#![allow(clippy::unwrap_used, clippy::panic)]

mod server;

use treering_testkit::store_contract;

use server::new_store;

mod contract {
    use super::*;
    store_contract!(new_store());
}
