//! Treering's own export.

use treering_core::Entry;
use treering_core::NewConversation;

use super::{Format, Identity, ImportError, ImportedConversation, Sink, SourceFile};
use crate::jsonl::{self, JsonLine};

type PendingConversation = (NewConversation, Vec<Entry>);

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let mut current: Option<PendingConversation> = None;
    for (number, text) in source.lines() {
        let line = jsonl::parse_line(text, source.modified)
            .map_err(|error| ImportError(format!("line {number}: {error}")))?;
        match line {
            JsonLine::Header => {}
            JsonLine::Conversation(about) => {
                give(current.take(), sink)?;
                current = Some((*about, Vec::new()));
            }
            JsonLine::Entries(entries) => current.get_or_insert_default().1.extend(entries),
        }
    }
    give(current, sink)
}

fn give(conversation: Option<PendingConversation>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let Some((about, entries)) = conversation else { return Ok(()) };
    if about.id.is_some() {
        return sink.emit_even_if_empty(ImportedConversation {
            about,
            identity: Identity::ByPosition,
            entries,
        });
    }
    if about.external_id.is_some() {
        return sink.emit(ImportedConversation { about, identity: Identity::ByPosition, entries });
    }
    let mut found = ImportedConversation::unnamed(Format::Treering, entries);
    if let Some(found) = &mut found {
        let external_id = found.about.external_id.take();
        found.about = NewConversation { external_id, ..about };
    }
    sink.emit_unnamed(found)
}
