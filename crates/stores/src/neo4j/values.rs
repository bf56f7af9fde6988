//! Conversions between domain values and the values of the database.

use treering_core::{ContentHash, ConversationId, ExternalId, Json, ThreadName, Timestamp};

use super::bolt::BoltValue;

impl From<&str> for BoltValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for BoltValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for BoltValue {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<bool> for BoltValue {
    fn from(is_set: bool) -> Self {
        Self::Bool(is_set)
    }
}

impl From<i64> for BoltValue {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for BoltValue {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u8> for BoltValue {
    fn from(number: u8) -> Self {
        Self::Int(number.into())
    }
}

/// The bits are kept: the sum of such numbers never matters beyond 2^63.
impl From<u64> for BoltValue {
    fn from(number: u64) -> Self {
        Self::Int(number.cast_signed())
    }
}

impl From<usize> for BoltValue {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f32> for BoltValue {
    fn from(number: f32) -> Self {
        Self::Float(number.into())
    }
}

impl From<Timestamp> for BoltValue {
    fn from(at: Timestamp) -> Self {
        let micros = at.as_micros();
        Self::DateTime(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1000)
    }
}

impl From<ConversationId> for BoltValue {
    fn from(id: ConversationId) -> Self {
        Self::Text(id.to_string())
    }
}

impl From<ContentHash> for BoltValue {
    fn from(hash: ContentHash) -> Self {
        Self::Text(hash.to_string())
    }
}

impl<T: Into<Self>> From<Option<T>> for BoltValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for BoltValue {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// A map of these entries.
pub(super) fn map<const N: usize>(entries: [(&str, BoltValue); N]) -> BoltValue {
    BoltValue::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A value as JSON text.
pub(super) fn json_text(value: &impl serde::Serialize) -> BoltValue {
    serde_json::to_string(value).map_or(BoltValue::Null, BoltValue::Text)
}

/// A value that this program cannot have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadableValue(pub(super) String);

pub(super) type Read<T> = Result<T, UnreadableValue>;

/// Refuses a value.
#[allow(clippy::needless_pass_by_value, reason = "it is passed to `or_else`")]
pub(super) fn unreadable<T>(reason: impl ToString) -> Read<T> {
    Err(UnreadableValue(reason.to_string()))
}

/// Takes the values of a row, from left to right.
pub(super) struct BoltRow {
    values: std::vec::IntoIter<BoltValue>,
}

impl BoltRow {
    pub(super) fn new(values: Vec<BoltValue>) -> Self {
        Self { values: values.into_iter() }
    }

    /// The next value.
    pub(super) fn take<T: FromValue>(&mut self) -> Read<T> {
        match self.values.next() {
            Some(value) => T::from_value(value),
            None => unreadable("a row has too few values"),
        }
    }

    /// The next value, decoded from JSON text.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&mut self) -> Read<T> {
        serde_json::from_str(&self.take::<String>()?).or_else(unreadable)
    }
}

/// A type that the database stores.
pub(super) trait FromValue: Sized {
    fn from_value(value: BoltValue) -> Read<Self>;
}

impl FromValue for BoltValue {
    fn from_value(value: BoltValue) -> Read<Self> {
        Ok(value)
    }
}

impl FromValue for String {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::Text(text) => Ok(text),
            other => unreadable(format!("{} is not a text", shown(&other))),
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::Int(number) => Ok(number),
            other => unreadable(format!("{} is not an integer", shown(&other))),
        }
    }
}

macro_rules! from_int {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: BoltValue) -> Read<Self> {
                let number = i64::from_value(value)?;
                Self::try_from(number).or_else(|_| unreadable(format!("{number} is out of range")))
            }
        }
    )*};
}

from_int!(u8, u32, usize);

impl FromValue for u64 {
    fn from_value(value: BoltValue) -> Read<Self> {
        i64::from_value(value).map(i64::cast_unsigned)
    }
}

impl FromValue for f64 {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::Float(number) => Ok(number),
            BoltValue::Int(number) => Ok(number as Self),
            other => unreadable(format!("{} is not a number", shown(&other))),
        }
    }
}

impl FromValue for f32 {
    fn from_value(value: BoltValue) -> Read<Self> {
        f64::from_value(value).map(|number| number as Self)
    }
}

impl FromValue for bool {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::Bool(is_set) => Ok(is_set),
            other => unreadable(format!("{} is not a boolean", shown(&other))),
        }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::DateTime(seconds, nanos) => Ok(Self::from_micros(
                seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000),
            )),
            other => unreadable(format!("{} is not a time", shown(&other))),
        }
    }
}

macro_rules! from_text {
    ($($type:ty => $parse:expr),*) => {$(
        impl FromValue for $type {
            fn from_value(value: BoltValue) -> Read<Self> {
                let text = String::from_value(value)?;
                let parse: fn(String) -> Result<Self, treering_core::Invalid> = $parse;
                parse(text).or_else(unreadable)
            }
        }
    )*};
}

from_text!(
    ConversationId => |text| text.parse(),
    ContentHash => ContentHash::try_from,
    ExternalId => ExternalId::new,
    ThreadName => ThreadName::new,
    Json => |text| Json::new(&text)
);

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::Null => Ok(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: BoltValue) -> Read<Self> {
        match value {
            BoltValue::List(values) => values.into_iter().map(T::from_value).collect(),
            other => unreadable(format!("{} is not a list", shown(&other))),
        }
    }
}

/// The kind of a value. An error never quotes content.
fn shown(value: &BoltValue) -> &'static str {
    match value {
        BoltValue::Null => "null",
        BoltValue::Bool(_) => "a boolean",
        BoltValue::Int(_) => "an integer",
        BoltValue::Float(_) => "a number",
        BoltValue::Bytes(_) => "a byte array",
        BoltValue::Text(_) => "a text",
        BoltValue::List(_) => "a list",
        BoltValue::Map(_) => "a map",
        BoltValue::DateTime(..) => "a time",
        BoltValue::Node(..) => "a node",
        BoltValue::Structure(..) => "a structure",
    }
}
