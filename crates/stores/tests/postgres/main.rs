//! The PostgreSQL store on a real server, which tools/test-postgres starts: the contract suite, the change feed, faults,
//! migrations, and the walls between tenants.

#![allow(clippy::unwrap_used, clippy::panic)]

mod faults;
mod feed;
mod migrations;
mod server;
mod tenants;

use treering_testkit::store_contract;

use server::new_store;

mod contract {
    use super::*;
    store_contract!(new_store());
    treering_testkit::tenants_contract!(new_store());
}
