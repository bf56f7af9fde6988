//! Treering's own export.

use treering_core::ThreadName;
use treering_engine::NewConversation;

use super::{Format, Found, Identity, Piece, Sink, Source, Unreadable};
use crate::wire::{self, Line};

type Conversation = (NewConversation, Vec<(ThreadName, Piece)>);

pub(super) fn read(source: &Source, sink: &mut Sink<'_>) -> Result<(), Unreadable> {
    let mut current: Option<Conversation> = None;
    for (number, text) in source.lines() {
        let line = wire::parse_line(text, source.modified)
            .map_err(|error| Unreadable(format!("line {number}: {error}")))?;
        match line {
            Line::Header => {}
            Line::Conversation(about) => {
                give(current.take(), sink)?;
                current = Some((*about, Vec::new()));
            }
            Line::Pieces(pieces) => current.get_or_insert_default().1.extend(pieces),
        }
    }
    give(current, sink)
}

fn give(conversation: Option<Conversation>, sink: &mut Sink<'_>) -> Result<(), Unreadable> {
    let Some((about, pieces)) = conversation else { return Ok(()) };
    if about.id.is_some() || about.external_id.is_some() {
        return sink.give(Found { about, identity: Identity::ByPosition, pieces });
    }
    let mut found = Found::nameless(Format::Treering, pieces);
    if let Some(found) = &mut found {
        let external_id = found.about.external_id.take();
        found.about = NewConversation { external_id, ..about };
    }
    sink.give_nameless(found)
}
