//! `treering completions`: prints a completion script.

use clap::CommandFactory as _;
use clap_complete::Shell;

use super::{Cli, CliError};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering completions bash > ~/.bash_completion.d/treering
  treering completions zsh > ~/.zfunc/_treering")]
pub(super) struct Args {
    /// The shell to generate the script for
    shell: Shell,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "treering", &mut script);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &script)?;
    Ok(())
}
