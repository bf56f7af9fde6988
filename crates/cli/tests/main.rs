//! The tests of the program, which run it as real processes. One program instead of one for each file,
//! because every program is linked with the whole product.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

mod acceptance;
mod agents;
mod capture;
mod chat;
mod cli;
mod copy;
mod doctor;
mod endpoints;
mod export;
mod forget;
mod home;
mod importers;
mod labels;
mod mcp;
mod outage;
mod privacy;
mod recall;
mod scope;
mod search;
mod search_scope;
mod serve;
mod storage;
mod terminal;
mod tree;
mod verify;
