//! Haystacks: the turns of one long conversation. The questions in the file are ignored.

use serde::Deserialize;
use treering_core::{EntryKind, NewMessage, TitleSource};

use super::{Format, Identity, ImportError, ImportedConversation, Sink, SourceFile, external};

#[derive(Deserialize)]
struct HaystackFile {
    haystack: String,
    turns: Vec<HaystackTurn>,
}

#[derive(Deserialize)]
struct HaystackTurn {
    id: String,
    author: Option<String>,
    role: String,
    text: String,
    ts: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let haystack: HaystackFile = serde_json::from_str(&source.text)?;
    let mut imported = ImportedConversation::named(Format::Haystack, &haystack.haystack);
    // Two haystacks may share a name but differ in content.
    imported.identity = Identity::ByContent;
    imported.conversation.title = Some(haystack.haystack);
    imported.conversation.title_source = TitleSource::Source;
    for turn in haystack.turns {
        let at = turn.ts.map(|ts| ts.parse()).transpose()?.unwrap_or(source.modified);
        let mut message = NewMessage::new(turn.role.parse()?, turn.text, at);
        message.author = turn.author;
        message.external_id = Some(external(&turn.id));
        imported.push(EntryKind::Message(message));
    }
    sink.emit(imported)
}
