//! The `treering` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    treering::cli::main()
}
