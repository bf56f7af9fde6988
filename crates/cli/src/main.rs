//! The `treering` program.

mod commands;
mod eval;

use std::process::ExitCode;

fn main() -> ExitCode {
    commands::main()
}
