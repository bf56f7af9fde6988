//! The tests of the engine on a real store. One program instead of one for each file, because every
//! program is linked with the whole engine.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

mod agent;
mod amend;
mod caller_summaries;
mod capture;
mod common;
mod context;
mod context_profiles;
mod fail_stop;
mod fixtures;
mod forget;
mod labels;
mod late_results;
mod preceding;
mod scenarios;
mod scope_context;
mod search;
mod search_expectations;
mod search_scope;
mod segments;
mod spend;
mod tenants;
mod top;
mod tree;
mod turn_embedding;
mod vectors;
