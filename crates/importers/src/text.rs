//! Decodes strings from raw JSON, including lone surrogates.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::Json;

use super::{ImportError, Sink, SourceFile};

/// A text, and its raw JSON if the text cannot represent it exactly.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DecodedText {
    pub(super) text: String,
    pub(super) original: Option<Json>,
}

/// Decodes a JSON string. Returns `None` for any other value.
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

/// Parses a record, which may borrow raw fields.
pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// A record of a JSON Lines file.
pub(super) struct NumberedRecord<'a, T> {
    pub(super) number: usize,
    pub(super) line: &'a str,
    pub(super) value: T,
}

/// Parses the records of a file that another program may be appending to. Skips an incomplete
/// last line.
pub(super) fn records<'a, T: Deserialize<'a>>(
    source: &'a SourceFile,
    sink: &mut Sink<'_>,
) -> Result<Vec<NumberedRecord<'a, T>>, ImportError> {
    let lines: Vec<(usize, &str)> = source.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (index, (number, line)) in lines.iter().enumerate() {
        match parse(line) {
            Ok(value) => records.push(NumberedRecord { number: *number, line, value }),
            Err(_) if index > 0 && index + 1 == lines.len() => {
                sink.skip("last line, still being written");
            }
            Err(error) => return Err(ImportError(format!("line {number}: {error}"))),
        }
    }
    Ok(records)
}
