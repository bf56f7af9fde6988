//! The LoCoMo data set: two speakers, in sessions weeks apart.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{EntryKind, Json, NewMessage, Role, Timestamp, TitleSource};

use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external};

#[derive(Deserialize)]
struct Sample<'a> {
    sample_id: String,
    #[serde(borrow)]
    conversation: HashMap<String, &'a RawValue>,
}

#[derive(Deserialize)]
struct LocomoTurn {
    speaker: String,
    dia_id: String,
    text: String,
    blip_caption: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let samples: Vec<Sample<'_>> = serde_json::from_str(&source.text)?;
    for sample in samples {
        let mut imported = ImportedConversation::named(Format::Locomo, &sample.sample_id);
        imported.conversation.title = Some(sample.sample_id.clone());
        imported.conversation.title_source = TitleSource::Source;
        let field = |name: &str| -> Option<String> {
            sample.conversation.get(name).and_then(|raw| serde_json::from_str(raw.get()).ok())
        };
        let first = field("speaker_a").unwrap_or_default();
        let mut clock = source.modified;
        for number in 1.. {
            let Some(session) = sample.conversation.get(&format!("session_{number}")) else {
                if sample.conversation.contains_key(&format!("session_{number}_date_time")) {
                    continue;
                }
                break;
            };
            let date = field(&format!("session_{number}_date_time")).unwrap_or_default();
            clock = Timestamp::parse_with("%I:%M %p on %d %B, %Y", &date).unwrap_or(clock);
            for raw in serde_json::from_str::<Vec<&RawValue>>(session.get())? {
                imported.push(EntryKind::Message(message(raw, &first, clock)?));
                clock = clock.plus_micros(30_000_000);
            }
        }
        sink.emit(imported)?;
    }
    Ok(())
}

fn message(raw: &RawValue, first: &str, at: Timestamp) -> Result<NewMessage, ImportError> {
    let turn: LocomoTurn = serde_json::from_str(raw.get())?;
    let role = if turn.speaker == first { Role::User } else { Role::Assistant };
    let mut message = NewMessage::new(role, turn.text, at);
    if let Some(caption) = turn.blip_caption {
        message.text = format!("{} [image: {caption}]", message.text);
        message.parts = Some(Json::from_raw(raw));
    }
    message.author = Some(turn.speaker);
    message.external_id = Some(external(&turn.dia_id));
    Ok(message)
}
