//! The LongMemEval data set: each question comes with its own history.

use serde::Deserialize;
use treering_core::{EntryKind, NewMessage, Timestamp, TitleSource};

use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external};

#[derive(Deserialize)]
struct Instance {
    question_id: String,
    haystack_dates: Vec<String>,
    haystack_session_ids: Vec<String>,
    haystack_sessions: Vec<Vec<LongMemEvalSourceTurn>>,
}

#[derive(Deserialize)]
struct LongMemEvalSourceTurn {
    role: String,
    content: String,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let instances: Vec<Instance> = serde_json::from_str(&source.text)?;
    for instance in instances {
        let mut imported = ImportedConversation::named(Format::LongMemEval, &instance.question_id);
        imported.conversation.title = Some(format!("longmemeval {}", instance.question_id));
        imported.conversation.title_source = TitleSource::Source;
        let dates =
            instance.haystack_dates.iter().map(|date| parse_date(date).unwrap_or(source.modified));
        let mut sessions: Vec<_> =
            dates.zip(instance.haystack_session_ids).zip(instance.haystack_sessions).collect();
        sessions.sort_by_key(|((at, _), _)| *at);
        for ((mut at, id), turns) in sessions {
            for (number, turn) in turns.into_iter().enumerate() {
                let mut message = NewMessage::new(turn.role.parse()?, turn.content, at);
                message.external_id = Some(external(&format!("{id}#{number}")));
                imported.push(EntryKind::Message(message));
                at = at.plus_micros(30_000_000);
            }
        }
        sink.emit(imported)?;
    }
    Ok(())
}

/// Parses `2023/06/28 (Wed) 20:07`.
fn parse_date(date: &str) -> Option<Timestamp> {
    let (day, rest) = date.split_once(' ')?;
    let time = rest.rsplit(' ').next()?;
    Timestamp::parse_with("%Y/%m/%d %H:%M", &format!("{day} {time}"))
}
