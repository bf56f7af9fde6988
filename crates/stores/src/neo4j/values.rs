//! Conversions between domain values and the values of the database.

use treering_core::{ContentHash, ConversationId, ExternalId, Json, ThreadName, Timestamp};

use super::bolt::Value;

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<bool> for Value {
    fn from(is_set: bool) -> Self {
        Self::Bool(is_set)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(number.into())
    }
}

impl From<u8> for Value {
    fn from(number: u8) -> Self {
        Self::Int(number.into())
    }
}

/// The bits are kept: the sum of such numbers never matters beyond 2^63.
impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Int(number.cast_signed())
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f32> for Value {
    fn from(number: f32) -> Self {
        Self::Float(number.into())
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        let micros = at.as_micros();
        Self::DateTime(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1000)
    }
}

impl From<ConversationId> for Value {
    fn from(id: ConversationId) -> Self {
        Self::Text(id.to_string())
    }
}

impl From<ContentHash> for Value {
    fn from(hash: ContentHash) -> Self {
        Self::Text(hash.to_string())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// A map of these entries.
pub(super) fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// A value as JSON text.
pub(super) fn json_text(value: &impl serde::Serialize) -> Value {
    serde_json::to_string(value).map_or(Value::Null, Value::Text)
}

/// A value that this program cannot have written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable(pub(super) String);

pub(super) type Read<T> = Result<T, Unreadable>;

/// Refuses a value.
pub(super) fn unreadable<T>(reason: impl ToString) -> Read<T> {
    Err(Unreadable(reason.to_string()))
}

/// Takes the values of a row, from left to right.
pub(super) struct Row {
    values: std::vec::IntoIter<Value>,
}

impl Row {
    pub(super) fn new(values: Vec<Value>) -> Self {
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
    fn from_value(value: Value) -> Read<Self>;
}

impl FromValue for Value {
    fn from_value(value: Value) -> Read<Self> {
        Ok(value)
    }
}

impl FromValue for String {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::Text(text) => Ok(text),
            other => unreadable(format!("{} is not a text", shown(&other))),
        }
    }
}

impl FromValue for i64 {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::Int(number) => Ok(number),
            other => unreadable(format!("{} is not an integer", shown(&other))),
        }
    }
}

macro_rules! from_int {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Read<Self> {
                let number = i64::from_value(value)?;
                Self::try_from(number).or_else(|_| unreadable(format!("{number} is out of range")))
            }
        }
    )*};
}

from_int!(u8, u32, usize);

impl FromValue for u64 {
    fn from_value(value: Value) -> Read<Self> {
        i64::from_value(value).map(i64::cast_unsigned)
    }
}

impl FromValue for f64 {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::Float(number) => Ok(number),
            Value::Int(number) => Ok(number as Self),
            other => unreadable(format!("{} is not a number", shown(&other))),
        }
    }
}

impl FromValue for f32 {
    fn from_value(value: Value) -> Read<Self> {
        f64::from_value(value).map(|number| number as Self)
    }
}

impl FromValue for bool {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::Bool(is_set) => Ok(is_set),
            other => unreadable(format!("{} is not a boolean", shown(&other))),
        }
    }
}

impl FromValue for Timestamp {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::DateTime(seconds, nanos) => {
                Ok(Self::from_micros(seconds.saturating_mul(1_000_000).saturating_add(nanos / 1000)))
            }
            other => unreadable(format!("{} is not a time", shown(&other))),
        }
    }
}

macro_rules! from_text {
    ($($type:ty => $parse:expr),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Value) -> Read<Self> {
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
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::Null => Ok(None),
            other => T::from_value(other).map(Some),
        }
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: Value) -> Read<Self> {
        match value {
            Value::List(values) => values.into_iter().map(T::from_value).collect(),
            other => unreadable(format!("{} is not a list", shown(&other))),
        }
    }
}

/// The kind of a value. An error never quotes content.
fn shown(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Int(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Bytes(_) => "a byte array",
        Value::Text(_) => "a text",
        Value::List(_) => "a list",
        Value::Map(_) => "a map",
        Value::DateTime(..) => "a time",
        Value::Node(..) => "a node",
        Value::Structure(..) => "a structure",
    }
}
