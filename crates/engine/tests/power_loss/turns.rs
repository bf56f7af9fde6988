//! Reproducible turns: a label determines every word of its turn, so that labels are enough to
//! check a store.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::ports::ConversationFilter;
use treering_core::{
    Conversation, Entry, EntryKind, ExportItem, Json, NewMessage, NewToolCall, Role, ThreadName,
    Timestamp, ToolResult, TreeState,
};
use treering_engine::{AppendTarget, Engine, EntryBatch, Error, NewConversation, ReplayDetection};
use treering_testkit::disk::Rng;
use treering_testkit::generate::{external_id, sentence};

use crate::common::start;

/// Messages of an import.
const IMPORTED_MESSAGES: usize = 240;

/// The label of a turn: its conversation, the writer, and the writer's count. A conversation
/// whose name begins with `import` gets hundreds of messages in one append.
pub(crate) fn label(conversation: &str, writer: usize, number: usize) -> String {
    format!("{conversation}/{writer}.{number}")
}

/// One message or tool call of a turn. Its text begins with the label.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Message(Role, String),
    ToolCall { args: String, result: String },
}

impl Part {
    fn label(&self) -> &str {
        let (Self::Message(_, text) | Self::ToolCall { args: text, .. }) = self;
        text.split(' ').next().unwrap_or_default()
    }
}

/// All parts of the turn with this label.
fn parts_of(label: &str) -> Vec<Part> {
    let mut rng = Rng::for_part(0, label, 0);
    let mut text = |topic: &str, max_words: usize| {
        let mut state = rng.next_u64();
        format!("{label} {topic} {}", sentence(&mut state, 3 + rng.below(max_words)))
    };
    let mut parts = Vec::new();
    if label.starts_with("import") {
        for message in 0..IMPORTED_MESSAGES {
            let role = if message % 2 == 0 { Role::User } else { Role::Assistant };
            parts.push(Part::Message(role, text(&format!("says {message}:"), 40)));
            if message % 6 == 0 {
                parts.push(Part::ToolCall { args: text("asks", 10), result: text("reads", 20) });
            }
        }
        return parts;
    }
    // Some texts are longer than a database page.
    let max_words = if label.ends_with('7') { 1500 } else { 60 };
    parts.push(Part::Message(Role::User, text("asks", max_words)));
    if label.ends_with(['2', '5']) {
        parts.push(Part::ToolCall { args: text("looks", 12), result: text("finds", 60) });
    }
    parts.push(Part::Message(Role::Assistant, text("answers", max_words)));
    parts
}

/// The time of a turn, which increases with its number.
fn time_of(label: &str) -> Timestamp {
    let number = label.rsplit('.').next().and_then(|number| number.parse::<i64>().ok());
    start().plus_micros(number.unwrap_or(0) * 60_000_000)
}

fn entry(label: &str, number: usize, part: Part) -> Entry {
    let (at, thread) = (time_of(label), ThreadName::main());
    let external_id = Some(external_id(&format!("{label}#{number}")));
    match part {
        Part::Message(role, text) => {
            Entry::message(thread, NewMessage { external_id, ..NewMessage::new(role, text, at) })
        }
        Part::ToolCall { args, result } => {
            let result = ToolResult {
                result: Json::string(&result),
                success: Some(true),
                duration_ms: None,
            };
            let (name, args) = ("gauge".into(), Json::string(&args));
            let call = NewToolCall { name, args, outcome: Some(result), at, external_id };
            Entry { thread, kind: EntryKind::ToolCall(call) }
        }
    }
}

/// Appends the turn with this label, in one append.
pub(crate) fn append(engine: &Engine, label: &str) -> Result<(), Error> {
    let conversation = label.split('/').next().unwrap_or_default();
    let parts = parts_of(label).into_iter().enumerate();
    let entries = parts.map(|(number, part)| entry(label, number, part)).collect();
    let external_id = Some(external_id(conversation));
    let target =
        AppendTarget::FindOrCreate(NewConversation { external_id, ..NewConversation::default() });
    engine.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None }).map(drop)
}

/// Checks that every turn in the memory is complete, unique, identical to its label's content,
/// and in the order of its writer. Returns the labels.
pub(crate) fn stored(engine: &Engine) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for session in engine.listed_conversations(&ConversationFilter::all(usize::MAX)).unwrap() {
        let mut turns: Vec<(String, Vec<Part>)> = Vec::new();
        let mut take =
            |part: Part| match turns.iter_mut().rev().find(|(label, _)| label == part.label()) {
                Some((_, parts)) => parts.push(part),
                None => turns.push((part.label().to_owned(), vec![part])),
            };
        engine
            .export::<Error>(&[session.conversation.id], |exported| {
                match exported {
                    ExportItem::Message(message) if message.body.forgotten => {}
                    ExportItem::ToolCall(tool) if tool.call.is_forgotten() => {}
                    ExportItem::Message(message) => {
                        take(Part::Message(message.body.role, message.body.text.clone()));
                    }
                    ExportItem::ToolCall(tool) => take(Part::ToolCall {
                        args: without_escapes(&tool.call.args),
                        result: without_escapes(&tool.call.outcome.as_ref().unwrap().result),
                    }),
                    ExportItem::Thread(_)
                    | ExportItem::Conversation(_)
                    | ExportItem::TurnEnd(_) => {}
                }
                Ok(())
            })
            .unwrap();
        assert_in_order(&turns);
        for (label, parts) in turns {
            assert_eq!(parts, parts_of(&label), "turn {label} is not as it was appended");
            assert!(labels.insert(label.clone()), "turn {label} is in two conversations");
        }
    }
    labels
}

fn assert_in_order(turns: &[(String, Vec<Part>)]) {
    let mut latest: BTreeMap<&str, u64> = BTreeMap::new();
    for (label, _) in turns {
        let (writer, number) = label.rsplit_once('.').unwrap();
        let number = number.parse().unwrap();
        let before = latest.insert(writer, number);
        assert!(before.is_none_or(|before| before < number), "turn {label} comes after {before:?}");
    }
}

/// The contents of a JSON string of plain words.
fn without_escapes(json: &Json) -> String {
    json.as_str().trim_matches('"').to_owned()
}

/// The contents of the memory as text, for stores whose turns have no labels. Omits the growth of
/// trees, because jobs change it.
pub(crate) fn transcript(engine: &Engine) -> Vec<String> {
    let mut lines = Vec::new();
    for session in engine.listed_conversations(&ConversationFilter::all(usize::MAX)).unwrap() {
        engine
            .export::<Error>(&[session.conversation.id], |exported| {
                lines.push(match exported {
                    ExportItem::Conversation(conversation) => {
                        let tree_state = TreeState::default();
                        format!("{:?}", Conversation { tree_state, ..conversation.clone() })
                    }
                    other => format!("{other:?}"),
                });
                Ok(())
            })
            .unwrap();
    }
    lines
}
