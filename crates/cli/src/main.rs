//! The `treering` program: starts the command line and nothing else.

mod commands;
mod eval;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
