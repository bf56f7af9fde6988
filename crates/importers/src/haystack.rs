//! Haystacks: the turns of one long conversation, with questions that are left alone.

use serde::Deserialize;
use treering_core::{EntryKind, Naming, NewMessage};

use super::{Format, Found, Identity, Sink, Source, Unreadable, external};

#[derive(Deserialize)]
struct Haystack {
    haystack: String,
    turns: Vec<Turn>,
}

#[derive(Deserialize)]
struct Turn {
    id: String,
    author: Option<String>,
    role: String,
    text: String,
    ts: Option<String>,
}

pub(super) fn read(source: &Source, sink: &mut Sink<'_>) -> Result<(), Unreadable> {
    let haystack: Haystack = serde_json::from_str(&source.text)?;
    let mut found = Found::named(Format::Haystack, &haystack.haystack);
    // Two haystacks may have the same name and say different things.
    found.identity = Identity::ByContent;
    found.about.title = Some(haystack.haystack);
    found.about.naming = Naming::Source;
    for turn in haystack.turns {
        let at = turn.ts.map(|ts| ts.parse()).transpose()?.unwrap_or(source.modified);
        let mut said = NewMessage::new(turn.role.parse()?, turn.text, at);
        said.author = turn.author;
        said.external_id = Some(external(&turn.id));
        found.push(EntryKind::Message(said));
    }
    sink.give(found)
}
