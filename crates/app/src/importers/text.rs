//! Reading strings out of JSON that was kept raw, lone surrogates and all.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::Json;

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
