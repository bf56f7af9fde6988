//! Hardship: writers that are killed, that meet, that have no room or no right to write, files that
//! are damaged or foreign, input that is odd. Every test runs the real program as real processes,
//! and asks three things of it: nothing acknowledged is lost, nothing is half-written, and whoever
//! is refused is told where and what to do.
//!
//! `TREERING_CRASH_KILLS` raises the number of killed writers, `TREERING_CRASH_SEED` changes the
//! moments; a failing test prints its seed.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "all of this is test code, also what is not in a function marked as a test"
)]

mod backups;
mod crash;
mod damage;
mod disk_full;
mod malformed_input;
mod other_user;
mod permissions;
mod processes;
mod rng;
mod turns;
mod wal_recovery;
mod writers;
