//! Fault tests: killed writers, concurrent writers, full disks, missing permissions, damaged or
//! foreign files, malformed input. Every test runs the real program in real processes and checks
//! three things: no acknowledged turn is lost, nothing is half written, and every refusal names
//! the place and a remedy.
//!
//! `TREERING_CRASH_KILLS` sets the number of killed writers and `TREERING_CRASH_SEED` the random
//! seed; a failing test prints its seed.

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
