//! `treering export`: writes conversations as JSON lines.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use treering_core::ConversationId;
use treering_engine::Engine;

use super::CliError;
use treering::{jsonl, private_file};
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering export > everything.jsonl
  treering export tidewatch --output tidewatch.jsonl")]
pub(super) struct Args {
    /// Slugs, ids, or the first digits of ids [default: every conversation]
    conversations: Vec<String>,
    /// The file to write, readable only by its owner [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, service: &Service) -> Result<(), CliError> {
    let engine = service.engine();
    let chosen = args.conversations.iter().map(|it| engine.find(it).map(|found| found.id));
    let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
    match &args.output {
        None => write(&mut BufWriter::new(io::stdout().lock()), engine, &chosen),
        Some(path) => {
            let failed = |error| CliError::File(path.clone(), error);
            private_file::replace(path, failed, |out| write(out, engine, &chosen))
        }
    }
}

fn write(out: &mut impl Write, engine: &Engine, chosen: &[ConversationId]) -> Result<(), CliError> {
    // Tombstones do not tell which conversation they belong to.
    let tombstones = match chosen.is_empty() {
        true => engine.tombstones()?,
        false => treering_core::TombstoneSet::default(),
    };
    writeln!(out, "{}", jsonl::header(&tombstones)?)?;
    engine.export(chosen, |item| -> Result<(), CliError> {
        Ok(writeln!(out, "{}", jsonl::line(item)?)?)
    })?;
    Ok(out.flush()?)
}
