//! Decodes strings from raw JSON, including lone surrogates.

use serde::{Deserialize, Serialize};
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

/// The records of a part of a JSON Lines file.
pub(super) struct Records<'a, T> {
    pub(super) records: Vec<NumberedRecord<'a, T>>,
    /// The number of bytes before an incomplete last line, or all of them.
    pub(super) consumed: usize,
}

/// Parses the records of a file that another program may be appending to. Leaves an incomplete
/// last line for later.
pub(super) fn records<'a, T: Deserialize<'a>>(
    source: &'a SourceFile,
    at: &mut LinePosition,
    sink: &mut Sink<'_>,
) -> Result<Records<'a, T>, ImportError> {
    let mut parsed = Records { records: Vec::new(), consumed: source.text.len() };
    let lines: Vec<(usize, usize, &str)> = numbered_lines(&source.text, at.lines).collect();
    for (index, (number, start, line)) in lines.iter().enumerate() {
        let is_last = index + 1 == lines.len();
        // A live reader knows that a complete line ends with a line break.
        let is_unfinished = match at.is_live {
            true => is_last && !source.text.ends_with('\n'),
            false => is_last && index > 0,
        };
        match parse(line) {
            Ok(value) => parsed.records.push(NumberedRecord { number: *number, line, value }),
            Err(_) if is_unfinished => {
                sink.skip("last line, still being written");
                parsed.consumed = *start;
            }
            Err(_) if at.is_live => sink.skip("lines that are not valid JSON"),
            Err(error) => return Err(ImportError(format!("line {number}: {error}"))),
        }
    }
    at.lines += source.text[..parsed.consumed].matches('\n').count();
    Ok(parsed)
}

/// The non-empty lines, each with its number and its first byte.
fn numbered_lines(text: &str, before: usize) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').enumerate().map(move |(index, line)| {
        let numbered = (before + index + 1, start, super::trim_line(line));
        start += line.len();
        numbered
    });
    lines.filter(|(_, _, line)| !line.is_empty())
}

/// The position of a reader in a file that it reads in parts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct LinePosition {
    /// The number of line breaks before it.
    pub(super) lines: usize,
    /// Whether the file is captured while an agent writes it. One damaged line must not stop the
    /// capture of the lines after it.
    pub(super) is_live: bool,
}
