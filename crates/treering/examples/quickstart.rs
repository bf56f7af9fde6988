//! Stores a turn, searches for it, and builds a context.
//!
//! `cargo run -p treering --example quickstart -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use treering::Memory;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("treering-quickstart"), PathBuf::from);
    let memory = Memory::open(&folder)?;

    let chat = memory.conversation("support:42")?;
    chat.turn("Which port does staging use?", "7410, since March.")?;

    for hit in memory.search("staging port").within(&chat).limit(5).run()? {
        println!("{:.2} {}", hit.score, hit.snippet);
    }
    let context = chat.context().query("Which port was it?").budget(1_000).build()?;
    println!("\n{}", context.markdown());
    println!("{} of {} tokens", context.receipt().tokens, context.receipt().budget);
    Ok(())
}
