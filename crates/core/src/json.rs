//! JSON preserved byte for byte, and decoding of its strings.

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use crate::error::Invalid;

/// Valid JSON text, preserved as received: numbers keep their digits, objects their key order,
/// strings their escapes (including lone surrogates). Only line breaks between tokens become
/// spaces, so that the text fits on one line.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Box<str>);

impl Json {
    /// Validates a text as one JSON value and trims outer white space.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) => Ok(Self::from_raw(raw)),
            Err(error) => Err(Invalid::new(
                format!("JSON {:?}", crate::text::preview(text, 60)),
                error.to_string(),
            )),
        }
    }

    /// Wraps JSON that a parser has already validated.
    #[must_use]
    pub fn from_raw(raw: &RawValue) -> Self {
        // Inside a string a line break is always escaped.
        match raw.get().contains(['\n', '\r']) {
            true => Self(raw.get().replace(['\n', '\r'], " ").into()),
            false => Self(raw.get().into()),
        }
    }

    /// An object without fields.
    #[must_use]
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// Null.
    #[must_use]
    pub fn null() -> Self {
        Self("null".into())
    }

    /// A JSON string with this text.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self(serde_json::Value::from(text).to_string().into_boxed_str())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Decodes the value; lone surrogates become U+FFFD.
    #[must_use]
    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(&mend_surrogates(&self.0)).unwrap_or_default()
    }

    /// The same JSON with some of its strings, keys included, replaced; `None` if none is. The
    /// rest stays byte for byte.
    #[must_use]
    pub(crate) fn with_strings(
        &self,
        mut replace: impl FnMut(&str) -> Option<String>,
    ) -> Option<Self> {
        let (mut out, mut copied) = (String::new(), 0);
        let mut at = 0;
        while let Some(start) = self.0[at..].find('"').map(|found| at + found) {
            let end = string_end(self.0.as_bytes(), start);
            at = end;
            let string = &self.0[start..end];
            let decoded = match string.contains('\\') {
                true => serde_json::from_str(&mend_surrogates(string))
                    .map_or_else(|_| Cow::Borrowed(string), |decoded: String| Cow::Owned(decoded)),
                false => Cow::Borrowed(string.trim_matches('"')),
            };
            if let Some(new) = replace(&decoded) {
                out.push_str(&self.0[copied..start]);
                out.push_str(Self::string(&new).as_str());
                copied = end;
            }
        }
        (copied > 0).then(|| Self(format!("{out}{}", &self.0[copied..]).into()))
    }

    /// The human-readable form: the text of a JSON string, otherwise the JSON itself.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        if self.0.starts_with('"')
            && let serde_json::Value::String(text) = self.to_value()
        {
            return Cow::Owned(text);
        }
        Cow::Borrowed(&self.0)
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        Self(value.to_string().into_boxed_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One past the closing quote of the string that starts at `start`.
fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < json.len() && json[at] != b'"' {
        at += if json[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(json.len())
}

/// Replaces every unpaired `\uD800`–`\uDFFF` escape by `\uFFFD`, so that strings can be
/// decoded. Borrowed if nothing changed.
#[must_use]
pub(crate) fn mend_surrogates(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut repaired: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let Some(unit) = escaped_unit(bytes, at) else {
            at += 2;
            continue;
        };
        let is_paired = matches!(unit, 0xD800..=0xDBFF)
            && matches!(escaped_unit(bytes, at + 6), Some(0xDC00..=0xDFFF));
        if is_paired {
            at += 12;
        } else {
            if matches!(unit, 0xD800..=0xDFFF) {
                let out = repaired.get_or_insert_with(String::new);
                out.push_str(&json[copied..at]);
                out.push_str("\\ufffd");
                copied = at + 6;
            }
            at += 6;
        }
    }
    match repaired {
        None => Cow::Borrowed(json),
        Some(mut out) => {
            out.push_str(&json[copied..]);
            Cow::Owned(out)
        }
    }
}

/// The UTF-16 unit of a `\uXXXX` escape that starts at `at`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_kept_as_it_came() {
        let text = r#"{"b":1.00, "a":[1e400, "\ud83d", "\/"]}"#;
        assert_eq!(Json::new(&format!("  {text}\n")).unwrap().as_str(), text);
        assert_eq!(Json::new("[1,\n\"a\\nb\"\r\n]").unwrap().as_str(), "[1, \"a\\nb\"  ]");
        assert!(Json::new("{\"a\":}").is_err());
        assert!(Json::new("1 2").is_err());
    }

    #[test]
    fn lone_surrogates_are_mended_for_reading_only() {
        let check = |json: &str, text: &str| assert_eq!(Json::new(json).unwrap().to_text(), text);
        check(r#""a \ud83d\ude00 b""#, "a 😀 b");
        check(r#""a \ud83d b""#, "a \u{fffd} b");
        check(r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}");
        check(r#""\\ud83d""#, "\\ud83d");
        check(r#""\ud83d\n\ud83d\ude00""#, "\u{fffd}\n😀");
        check("{\"k\":1}", "{\"k\":1}");
    }
}
