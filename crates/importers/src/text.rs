//! Reading strings out of JSON that was kept raw, lone surrogates and all.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::Json;

use super::{Sink, Source, Unreadable};

/// A text, and the JSON it came as where the text cannot hold it exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Text {
    pub(super) text: String,
    pub(super) original: Option<Json>,
}

/// The text of a JSON string; `None` for anything else.
pub(super) fn string(raw: &RawValue) -> Option<Text> {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return Some(Text { text, original: None });
    }
    let json = Json::from_raw(raw);
    match json.to_value() {
        serde_json::Value::String(text) => Some(Text { text, original: Some(json) }),
        _ => None,
    }
}

/// A record of any shape with its raw fields, in the order they came.
pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// A record of a file that has one a line.
pub(super) struct Record<'a, T> {
    pub(super) number: usize,
    pub(super) line: &'a str,
    pub(super) value: T,
}

/// The records of a file that another program may be writing to at this very moment: a last line
/// that is not whole yet is passed over.
pub(super) fn records<'a, T: Deserialize<'a>>(
    source: &'a Source,
    sink: &mut Sink<'_>,
) -> Result<Vec<Record<'a, T>>, Unreadable> {
    let lines: Vec<(usize, &str)> = source.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (place, (number, line)) in lines.iter().enumerate() {
        match parse(line) {
            Ok(value) => records.push(Record { number: *number, line, value }),
            Err(_) if place > 0 && place + 1 == lines.len() => sink.skip("last line, still being written"),
            Err(error) => return Err(Unreadable(format!("line {number}: {error}"))),
        }
    }
    Ok(records)
}
