//! Imports transcripts of other programs and lists the conversations.
//!
//! `cargo run -p treering --example import -- FOLDER ~/.claude/projects`

use std::error::Error;
use std::path::PathBuf;

use treering::Memory;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = args.next().ok_or("usage: import FOLDER PATH...")?;
    let memory = Memory::open(folder)?;

    let report = memory.import(&args.collect::<Vec<_>>())?;
    let total = report.total();
    println!("{} new conversations, {} new messages", total.conversations_new, total.messages_new);
    for file in report.files.iter().filter(|file| file.error.is_some()) {
        println!("{}: {}", file.path.display(), file.error.as_deref().unwrap_or_default());
    }
    for conversation in memory.conversations(20)? {
        println!("{:5} turns  {}", conversation.totals.turns, conversation.slug);
    }
    Ok(())
}
