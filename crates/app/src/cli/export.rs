//! `treering export`

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use treering_core::Conversation;
use treering_core::ports::ConversationFilter;
use treering_engine::Memory;

use super::Failure;
use crate::wire;

#[derive(clap::Args)]
pub(super) struct Args {
    /// Slugs, ids, or the first digits of ids [default: every conversation]
    conversations: Vec<String>,
    /// The file to write [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args, memory: &Memory) -> Result<(), Failure> {
    let chosen = args.conversations.iter().map(|c| memory.find(c)).collect::<Result<Vec<_>, _>>()?;
    match &args.output {
        None => write(&mut BufWriter::new(io::stdout().lock()), memory, &chosen),
        Some(path) => {
            let failed = |error| Failure::File(path.clone(), error);
            // Written beside and moved in place, so that a file that is there is never half an export.
            let mut beside = path.clone().into_os_string();
            beside.push(".part");
            let file = File::create(&beside).map_err(failed)?;
            let mut out = BufWriter::new(file);
            write(&mut out, memory, &chosen)?;
            out.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)?;
            std::fs::rename(&beside, path).map_err(failed)
        }
    }
}

fn write(out: &mut impl Write, memory: &Memory, chosen: &[Conversation]) -> Result<(), Failure> {
    const PAGE: usize = 200;
    writeln!(out, "{}", wire::header()?)?;
    if !chosen.is_empty() {
        chosen.iter().try_for_each(|conversation| write_one(out, memory, conversation))?;
        return Ok(out.flush()?);
    }
    let mut filter = ConversationFilter::all(PAGE);
    loop {
        let page = memory.sessions(&filter)?;
        for session in &page {
            write_one(out, memory, &session.conversation)?;
        }
        match page.last() {
            Some(last) if page.len() == PAGE => {
                filter.after = Some((last.conversation.last_activity, last.conversation.id));
            }
            _ => return Ok(out.flush()?),
        }
    }
}

fn write_one(out: &mut impl Write, memory: &Memory, conversation: &Conversation) -> Result<(), Failure> {
    writeln!(out, "{}", wire::conversation_line(conversation)?)?;
    memory.record(conversation.id, |recorded| {
        writeln!(out, "{}", wire::recorded_line(recorded)?)?;
        Ok(())
    })
}
