//! Remembers a turn, finds the conversation again and reads it back.
//!
//! `cargo run --example remember -- FOLDER`

use std::error::Error;
use std::path::PathBuf;

use treering::{
    AppendTarget, Entry, EntryBatch, NewConversation, NewMessage, ReplayDetection, Role, ThreadName,
};
use treering_core::TurnNo;
use treering_core::ports::Span;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os()
        .nth(1)
        .map_or_else(|| std::env::temp_dir().join("treering-example"), PathBuf::from);
    let memory = treering::open(&folder)?;

    let now = memory.clock().now();
    let said = |role, text| Entry::message(ThreadName::main(), NewMessage::new(role, text, now));
    let entries =
        vec![said(Role::User, "Which port does staging use?"), said(Role::Assistant, "7410, since March.")];
    let target = AppendTarget::FindOrCreate(NewConversation::default());
    let appended = memory.append(EntryBatch { target, entries, matching: ReplayDetection::None })?;

    let conversation = memory.find(&appended.conversation.slug)?;
    println!("{} in {}", conversation.slug, folder.display());
    for turn in memory.turns(conversation.id, Span::starting(TurnNo(0), 10))? {
        for message in &turn.messages {
            println!("  {} {}: {}", message.idx, message.body.role, message.body.text);
        }
    }
    Ok(())
}
