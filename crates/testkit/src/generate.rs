//! Random conversations for property tests.

use proptest::prelude::*;
use treering_core::{
    Entry, EntryKind, ExternalId, Json, NewMessage, NewToolCall, Role, ThreadName, Timestamp,
    ToolResult,
};

/// Ordinary texts, and texts that tend to break software.
pub fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-zA-Z ,.é漢🌊]{0,80}",
        1 => Just("NUL \0 in the middle\u{202e}".to_owned()),
        1 => Just(String::new()),
        1 => "\\PC{0,200}",
        1 => Just("x".repeat(20_000)),
    ]
}

/// A conversation of fewer than `length` entries in up to three threads, each message and tool
/// call with an external id. Times mostly increase.
pub fn conversation(length: usize) -> impl Strategy<Value = Vec<Entry>> {
    let event = (0..11_u8, 0..8_u8, text(), -5_i64..600, any::<bool>());
    proptest::collection::vec(event, 0..length).prop_map(|events| {
        let mut at = Timestamp::from_micros(1_772_440_860_000_000);
        let mut open: Vec<ExternalId> = Vec::new();
        let mut entries = Vec::new();
        for (number, (kind, thread, text, seconds, flag)) in events.into_iter().enumerate() {
            at = at.plus_micros(seconds * 1_000_000);
            let thread = match thread {
                0 => name("idea"),
                1 => name("other"),
                _ => ThreadName::main(),
            };
            let id = external_id(&format!("e{number}"));
            entries.push(match kind {
                0..=6 => {
                    let role = match kind {
                        0..=2 => Role::User,
                        3..=5 => Role::Assistant,
                        _ => Role::System,
                    };
                    let mut message = NewMessage::new(role, text, at);
                    message.author = flag.then(|| format!("{role}-author"));
                    message.external_id = Some(id);
                    Entry::message(thread, message)
                }
                7 | 8 => {
                    let outcome = flag.then(|| result(&text));
                    if !flag {
                        open.push(id.clone());
                    }
                    let args = Json::string(&text);
                    let external_id = Some(id);
                    let call = NewToolCall { name: "tool".into(), args, outcome, at, external_id };
                    Entry { thread, kind: EntryKind::ToolCall(call) }
                }
                9 if !entries.is_empty() => Entry::turn_end(thread),
                _ => match open.pop() {
                    Some(call) => {
                        let outcome = result(&text);
                        Entry { thread, kind: EntryKind::ToolResult { call, outcome, at } }
                    }
                    None => continue,
                },
            });
        }
        entries
    })
}

fn result(text: &str) -> ToolResult {
    ToolResult {
        result: Json::string(text),
        success: Some(text.len().is_multiple_of(2)),
        duration_ms: Some(7),
    }
}

fn name(name: &str) -> ThreadName {
    ThreadName::new(name).unwrap_or_default()
}

/// Creates an external id from a valid literal.
#[must_use]
pub fn external_id(id: &str) -> ExternalId {
    ExternalId::new(id).unwrap_or_else(|invalid| unreachable!("{invalid}"))
}

fn step(state: &mut u64) {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
}

/// A pseudo-random number below `end`. The same state always gives the same number.
#[must_use]
pub fn random_below(state: &mut u64, end: u32) -> u32 {
    step(state);
    (*state >> 33) as u32 % end
}

/// A pseudo-random word with a skewed, Zipf-like distribution: as in language, a few words make
/// up most of a text.
#[must_use]
pub fn word(state: &mut u64) -> String {
    step(state);
    let fraction = (*state >> 40) as f64 / (1_u64 << 24) as f64;
    let rank = (20_000_f64.powf(fraction)) as u64;
    const PARTS: [&str; 16] = [
        "ha", "ti", "gau", "be", "re", "mo", "wi", "si", "ski", "mor", "se", "lo", "ka", "ne",
        "po", "ru",
    ];
    let mut number = rank;
    let mut word = String::new();
    loop {
        word.push_str(PARTS[(number % 16) as usize]);
        number /= 16;
        if number == 0 {
            return word;
        }
    }
}

/// A sequence of pseudo-random words. The same state always gives the same words.
#[must_use]
pub fn sentence(state: &mut u64, words: usize) -> String {
    (0..words).map(|_| word(state)).collect::<Vec<_>>().join(" ")
}
