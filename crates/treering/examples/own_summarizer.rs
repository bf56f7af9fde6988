//! Summarizes with your own summarizer.
//!
//! `cargo run -p treering --example own_summarizer`

use std::error::Error;

use treering::{Memory, NodeContent, Passage, Preset, ProviderError, Summarizer, SummaryRequest};

/// Keeps the first sentence of every message.
struct FirstSentences;

impl Summarizer for FirstSentences {
    fn name(&self) -> &str {
        "first-sentences"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        let first = |text: &str| {
            text.split_inclusive(['.', '?', '!']).next().unwrap_or(text).trim().to_owned()
        };
        let sentences: Vec<String> = request
            .passages
            .iter()
            .filter_map(|passage| match passage {
                Passage::Message(message) => Some(first(&message.text)),
                Passage::Node(node) => Some(first(&node.content.overview)),
                Passage::Tool(_) => None,
            })
            .collect();
        Ok(NodeContent { overview: sentences.join(" "), ..NodeContent::default() })
    }
}

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let home = std::env::temp_dir().join("treering-own-summarizer");
    let memory =
        Memory::builder(home).policy(Preset::PerTurn.into()).summarizer(FirstSentences).open()?;
    let chat = memory.conversation("notes")?;
    chat.turn(
        "Which port does staging use? I forgot.",
        "7410, since March. Before that it was 7400.",
    )?;
    chat.turn("And production?", "7420. It never moved.")?;

    // A context waits until the summaries of its conversation are written.
    let context = chat.context().profile("frontier").build()?;
    println!("{}", context.markdown());
    Ok(())
}
