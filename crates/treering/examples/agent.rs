//! Talks with a model that remembers, one question after the other from standard input.
//!
//! `cargo run --example agent -- FOLDER ollama llama3.2`

use std::error::Error;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use treering::{
    Agent, AgentOptions, AppendTarget, EntryBatch, Models, NewConversation, ProviderOptions, ReplayDetection,
};
use treering_core::ExternalId;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, provider, model] = args.as_slice() else {
        return Err("give a folder, a provider and its model, such as: memory ollama llama3.2".into());
    };
    let memory = treering::open(&PathBuf::from(folder))?;
    let chat = Models::new(ProviderOptions::default()).chat(provider, model)?;
    let agent = Agent::new(memory.clone(), chat, AgentOptions::default())?;

    // The same conversation every time, made where it is missing.
    let external_id = Some(ExternalId::new("example".to_owned())?);
    let target = AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    let begun = memory.append(EntryBatch { target, entries: Vec::new(), matching: ReplayDetection::None })?;

    for said in std::io::stdin().lock().lines() {
        let reply = agent.ask_streaming(begun.conversation.id, &said?, &mut |piece| {
            print!("{piece}");
            drop(std::io::stdout().flush());
        })?;
        let receipt = &reply.context.receipt;
        println!("\n({} of {} tokens remembered)", receipt.tokens, receipt.budget);
    }
    Ok(())
}
