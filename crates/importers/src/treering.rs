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
            JsonLine::Conversation(conversation) => {
                emit(current.take(), sink)?;
                current = Some((*conversation, Vec::new()));
            }
            JsonLine::Entries(entries) => current.get_or_insert_default().1.extend(entries),
        }
    }
    emit(current, sink)
}

fn emit(pending: Option<PendingConversation>, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let Some((conversation, entries)) = pending else { return Ok(()) };
    if conversation.id.is_some() {
        return sink.emit_even_if_empty(ImportedConversation {
            conversation,
            identity: Identity::ByPosition,
            entries,
        });
    }
    if conversation.external_id.is_some() {
        return sink.emit(ImportedConversation {
            conversation,
            identity: Identity::ByPosition,
            entries,
        });
    }
    let mut imported = ImportedConversation::unnamed(Format::Treering, entries);
    if let Some(imported) = &mut imported {
        let external_id = imported.conversation.external_id.take();
        imported.conversation = NewConversation { external_id, ..conversation };
    }
    sink.emit_unnamed(imported)
}
