//! Parameters of statements and the columns of rows. Every number is a `bigint`.
//!
//! PostgreSQL cannot store the character U+0000, so it is written as an escape sequence.

use std::borrow::Cow;
use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use treering_core::{ConversationId, ExternalId, Json, Timestamp};

/// A noncharacter, which begins an escape sequence.
const ESCAPE: char = '\u{10ffff}';

/// A parameter of a statement.
#[derive(Debug, Clone)]
pub(super) enum SqlValue {
    Null,
    Integer(i64),
    Real(f64),
    Boolean(bool),
    Text(String),
    Blob(Vec<u8>),
    Integers(Vec<i64>),
    Texts(Vec<String>),
    Blobs(Vec<Vec<u8>>),
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) => value.to_sql(ty, out),
            Self::Real(value) => value.to_sql(ty, out),
            Self::Boolean(value) => value.to_sql(ty, out),
            Self::Text(value) => value.to_sql(ty, out),
            Self::Blob(value) => value.to_sql(ty, out),
            Self::Integers(value) => value.to_sql(ty, out),
            Self::Texts(value) => value.to_sql(ty, out),
            Self::Blobs(value) => value.to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

macro_rules! from_integers {
    ($($ty:ty),*) => {
        $(impl From<$ty> for SqlValue {
            fn from(value: $ty) -> Self {
                Self::Integer(i64::from(value))
            }
        })*
    };
}

from_integers!(u8, u32, i64);

impl From<u64> for SqlValue {
    fn from(value: u64) -> Self {
        Self::Integer(value.cast_signed())
    }
}

impl From<usize> for SqlValue {
    fn from(value: usize) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for SqlValue {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for SqlValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(escaped(text).into_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        match escaped(&text) {
            Cow::Borrowed(_) => Self::Text(text),
            Cow::Owned(escaped) => Self::Text(escaped),
        }
    }
}

impl From<&String> for SqlValue {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&[u8]> for SqlValue {
    fn from(bytes: &[u8]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for SqlValue {
    fn from(bytes: &[u8; N]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

impl From<Vec<u8>> for SqlValue {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Blob(bytes)
    }
}

impl From<ConversationId> for SqlValue {
    fn from(id: ConversationId) -> Self {
        Self::Blob(id.as_bytes().to_vec())
    }
}

impl From<Timestamp> for SqlValue {
    fn from(at: Timestamp) -> Self {
        Self::Integer(at.as_micros())
    }
}

impl<T: Into<Self>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A list of texts as one parameter.
pub(super) fn texts<'a>(of: impl IntoIterator<Item = &'a str>) -> SqlValue {
    SqlValue::Texts(of.into_iter().map(|text| escaped(text).into_owned()).collect())
}

/// A list of numbers as one parameter.
pub(super) fn integers(of: impl IntoIterator<Item = u32>) -> SqlValue {
    SqlValue::Integers(of.into_iter().map(i64::from).collect())
}

/// A list of byte strings as one parameter.
pub(super) fn blobs<'a>(of: impl IntoIterator<Item = &'a [u8]>) -> SqlValue {
    SqlValue::Blobs(of.into_iter().map(<[u8]>::to_vec).collect())
}

/// Builds the list of a statement's parameters.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::postgres::value::SqlValue::from($value)),*] };
}
pub(super) use values;

fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.extend([ESCAPE, '0']),
            ESCAPE => escaped.extend([ESCAPE, '1']),
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

fn unescaped(text: String) -> String {
    if !text.contains(ESCAPE) {
        return text;
    }
    let mut unescaped = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            ESCAPE if chars.next() == Some('0') => unescaped.push('\0'),
            c => unescaped.push(c),
        }
    }
    unescaped
}

/// Why a row could not be decoded.
#[derive(Debug)]
pub(super) struct UndecodableRow(pub(super) String);

impl UndecodableRow {
    #[allow(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
    pub(super) fn new(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

impl From<String> for UndecodableRow {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl From<&str> for UndecodableRow {
    fn from(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

pub(super) type Decoded<T> = Result<T, UndecodableRow>;

/// Reads the columns of a row.
pub(super) trait Columns {
    fn value<'a, T: FromSql<'a>>(&'a self, column: usize) -> Decoded<T>;

    fn long(&self, column: usize) -> Decoded<i64> {
        self.value(column)
    }

    /// A number that is never negative.
    fn number<T: TryFrom<i64>>(&self, column: usize) -> Decoded<T> {
        let value = self.long(column)?;
        value.try_into().map_err(|_| UndecodableRow(format!("{value} is out of range")))
    }

    fn optional_number<T: TryFrom<i64>>(&self, column: usize) -> Decoded<Option<T>> {
        match self.value::<Option<i64>>(column)? {
            None => Ok(None),
            Some(_) => self.number(column).map(Some),
        }
    }

    fn flag(&self, column: usize) -> Decoded<bool> {
        self.value(column)
    }

    fn text(&self, column: usize) -> Decoded<String> {
        self.value(column).map(unescaped)
    }

    fn optional_text(&self, column: usize) -> Decoded<Option<String>> {
        Ok(self.value::<Option<String>>(column)?.map(unescaped))
    }

    fn bytes<const N: usize>(&self, column: usize) -> Decoded<[u8; N]> {
        let bytes: &[u8] = self.value(column)?;
        bytes.try_into().map_err(|_| UndecodableRow(format!("{N} bytes expected")))
    }

    fn conversation(&self, column: usize) -> Decoded<ConversationId> {
        self.bytes(column).map(ConversationId::from_bytes)
    }

    fn time(&self, column: usize) -> Decoded<Timestamp> {
        self.long(column).map(Timestamp::from_micros)
    }

    fn optional_time(&self, column: usize) -> Decoded<Option<Timestamp>> {
        Ok(self.value::<Option<i64>>(column)?.map(Timestamp::from_micros))
    }

    fn external_id(&self, column: usize) -> Decoded<Option<ExternalId>> {
        self.optional_text(column)?.map(ExternalId::new).transpose().map_err(UndecodableRow::new)
    }

    fn json(&self, column: usize) -> Decoded<Option<Json>> {
        let text = self.optional_text(column)?;
        text.map(|text| Json::new(&text)).transpose().map_err(UndecodableRow::new)
    }

    fn parsed<T: serde::de::DeserializeOwned>(&self, column: usize) -> Decoded<T> {
        serde_json::from_str(&self.text(column)?).map_err(UndecodableRow::new)
    }

    /// A list of texts.
    fn texts(&self, column: usize) -> Decoded<Vec<String>> {
        Ok(self.value::<Vec<String>>(column)?.into_iter().map(unescaped).collect())
    }
}

impl Columns for Row {
    fn value<'a, T: FromSql<'a>>(&'a self, column: usize) -> Decoded<T> {
        self.try_get(column).map_err(UndecodableRow::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back() {
        for text in ["", "plain", "a\0b", "\u{10ffff}", "\u{10ffff}0", "\0\0\u{10ffff}1\0"] {
            let stored = escaped(text).into_owned();
            assert!(!stored.contains('\0'));
            assert_eq!(unescaped(stored), text);
        }
    }
}
