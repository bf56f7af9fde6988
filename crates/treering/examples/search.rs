//! Searches with filters, and shows the parts of each score.
//!
//! `cargo run -p treering --example search -- FOLDER "which port does staging use"`

use std::error::Error;

use treering::{Memory, Role};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, question] = args.as_slice() else {
        return Err("usage: search FOLDER QUESTION".into());
    };
    let memory = Memory::open(folder)?;

    println!("Everything:");
    for hit in memory.search(question).limit(5).run()? {
        println!("  {:.2} level {} {}", hit.score, hit.level(), hit.snippet);
    }
    println!("What the user said:");
    for hit in memory.search(question).role(Role::User).limit(5).run()? {
        let parts = hit.parts().into_iter().filter(|(_, part)| *part != 0.0);
        let parts: Vec<String> = parts.map(|(name, part)| format!("{name} {part:.2}")).collect();
        println!("  {:.2} {} ({})", hit.score, hit.snippet, parts.join(", "));
    }
    Ok(())
}
