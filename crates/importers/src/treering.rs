//! Treering's own export.

use treering_core::Entry;
use treering_core::NewConversation;

use super::{Format, Found, Identity, Sink, Source, Unreadable};
use crate::jsonl::{self, Line};

type Conversation = (NewConversation, Vec<Entry>);

pub(super) fn read(source: &Source, sink: &mut Sink<'_>) -> Result<(), Unreadable> {
    let mut current: Option<Conversation> = None;
    for (number, text) in source.lines() {
        let line = jsonl::parse_line(text, source.modified)
            .map_err(|error| Unreadable(format!("line {number}: {error}")))?;
        match line {
            Line::Header => {}
            Line::Conversation(about) => {
                give(current.take(), sink)?;
                current = Some((*about, Vec::new()));
            }
            Line::Entries(entries) => current.get_or_insert_default().1.extend(entries),
        }
    }
    give(current, sink)
}

fn give(conversation: Option<Conversation>, sink: &mut Sink<'_>) -> Result<(), Unreadable> {
    let Some((about, entries)) = conversation else { return Ok(()) };
    if about.id.is_some() {
        return sink.give_any(Found { about, identity: Identity::ByPosition, entries });
    }
    if about.external_id.is_some() {
        return sink.give(Found { about, identity: Identity::ByPosition, entries });
    }
    let mut found = Found::nameless(Format::Treering, entries);
    if let Some(found) = &mut found {
        let external_id = found.about.external_id.take();
        found.about = NewConversation { external_id, ..about };
    }
    sink.give_nameless(found)
}
