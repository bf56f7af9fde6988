//! Chats with a model that remembers, one question per line of standard input.
//!
//! `cargo run -p treering --example agent -- FOLDER MODEL`, with Ollama running and MODEL
//! pulled

use std::error::Error;
use std::io::{BufRead as _, Write as _};

use treering::{Memory, models};

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, model] = args.as_slice() else {
        return Err("usage: agent FOLDER MODEL, for example: agent memory llama3.2".into());
    };
    let memory = Memory::open(folder)?;
    let chat = memory.conversation("agent-example")?;
    let agent = chat.agent(models::ollama(model)?)?;

    for question in std::io::stdin().lock().lines() {
        let reply = agent.ask_streaming(&question?, &mut |text| {
            print!("{text}");
            drop(std::io::stdout().flush());
        })?;
        let receipt = reply.context.receipt();
        println!("\n(context: {} of {} tokens)", receipt.tokens, receipt.budget);
    }
    Ok(())
}
