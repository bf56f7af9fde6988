//! Reading strings out of JSON that was kept raw, lone surrogates and all.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::Json;

use super::{ImportError, Sink, SourceFile};

/// A text, and the JSON it came as where the text cannot hold it exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DecodedText {
    pub(super) text: String,
    pub(super) original: Option<Json>,
}

/// The text of a JSON string; `None` for anything else.
pub(super) fn string(raw: &RawValue) -> Option<DecodedText> {
    if let Ok(text) = serde_json::from_str::<String>(raw.get()) {
        return Some(DecodedText { text, original: None });
    }
    let json = Json::from_raw(raw);
    match json.to_value() {
        serde_json::Value::String(text) => Some(DecodedText { text, original: Some(json) }),
        _ => None,
    }
}

/// A record of any shape with its raw fields, in the order they came.
pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// A record of a file that has one a line.
pub(super) struct NumberedRecord<'a, T> {
    pub(super) number: usize,
    pub(super) line: &'a str,
    pub(super) value: T,
}

/// The records of a file that another program may be writing to at this very moment: a last line
/// that is not whole yet is passed over.
pub(super) fn records<'a, T: Deserialize<'a>>(
    source: &'a SourceFile,
    sink: &mut Sink<'_>,
) -> Result<Vec<NumberedRecord<'a, T>>, ImportError> {
    let lines: Vec<(usize, &str)> = source.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (place, (number, line)) in lines.iter().enumerate() {
        match parse(line) {
            Ok(value) => records.push(NumberedRecord { number: *number, line, value }),
            Err(_) if place > 0 && place + 1 == lines.len() => {
                sink.skip("last line, still being written");
            }
            Err(error) => return Err(ImportError(format!("line {number}: {error}"))),
        }
    }
    Ok(records)
}
