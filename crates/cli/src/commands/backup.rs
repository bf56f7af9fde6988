//! `treering backup`: copies the store to a file. Never overwrites a file.

use std::path::PathBuf;

use serde::Serialize;

use super::CliError;
use super::output::{DIM, GOOD, Output, count, paint, size};
use treering::BackupContents;
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering backup ~/treering-2026-03-02.db

The backup is a single file that only you can read. It contains every turn of every tenant that was
acknowledged before the backup started, but no settings, access tokens or prompts.
To restore it, run `treering restore FILE`.")]
pub(super) struct Args {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct View {
    file: PathBuf,
    conversations: u64,
    messages: u64,
    schema_version: u32,
    bytes: u64,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    engine.backup(&args.file)?;
    let BackupContents { conversations, messages, schema_version, bytes } =
        treering::inspect_backup(&args.file).map_err(CliError::Backup)?;
    let view = View { file: args.file.clone(), conversations, messages, schema_version, bytes };
    output.show(&view, |out| {
        let contents =
            format!("{}, {}", count(conversations, "conversation"), count(messages, "message"));
        writeln!(out, "{} {contents}, {}: {}", paint(GOOD, "✓"), size(bytes), view.file.display())?;
        writeln!(
            out,
            "{}",
            paint(DIM, format!("restore it with `treering restore {}`", view.file.display()))
        )
    })?;
    Ok(())
}
