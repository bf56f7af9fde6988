//! PackStream: the binary encoding of values in Bolt messages.

use super::{BoltError, Result};

/// A value in a message.
#[derive(Debug, Clone, PartialEq)]
pub enum BoltValue {
    /// Null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A byte array.
    Bytes(Vec<u8>),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<BoltValue>),
    /// A map. Keys are distinct.
    Map(Vec<(String, BoltValue)>),
    /// A time with its offset zero, in seconds since 1970 and nanoseconds after them.
    DateTime(i64, i64),
    /// A node of the graph: its labels and properties.
    Node(Vec<String>, Vec<(String, BoltValue)>),
    /// Any other structure, with its tag.
    Structure(u8, Vec<BoltValue>),
}

/// The tags of the structures that a [`BoltValue`] stands for.
const DATE_TIME: u8 = 0x49;
const NODE: u8 = 0x4e;

/// Appends a value.
pub(super) fn encode(value: &BoltValue, out: &mut Vec<u8>) {
    match value {
        BoltValue::Null => out.push(0xc0),
        BoltValue::Bool(is_set) => out.push(if *is_set { 0xc3 } else { 0xc2 }),
        BoltValue::Int(number) => encode_int(*number, out),
        BoltValue::Float(number) => {
            out.push(0xc1);
            out.extend(number.to_be_bytes());
        }
        BoltValue::Bytes(bytes) => {
            encode_size(bytes.len(), [None, Some(0xcc), Some(0xcd), Some(0xce)], out);
            out.extend(bytes);
        }
        BoltValue::Text(text) => encode_text(text, out),
        BoltValue::List(values) => {
            encode_size(values.len(), [Some(0x90), Some(0xd4), Some(0xd5), Some(0xd6)], out);
            values.iter().for_each(|value| encode(value, out));
        }
        BoltValue::Map(entries) => encode_map(entries, out),
        BoltValue::DateTime(seconds, nanos) => {
            let fields = [BoltValue::Int(*seconds), BoltValue::Int(*nanos), BoltValue::Int(0)];
            encode_structure(DATE_TIME, &fields, out);
        }
        BoltValue::Structure(tag, fields) => encode_structure(*tag, fields, out),
        // A server never takes a node as a parameter.
        BoltValue::Node(..) => out.push(0xc0),
    }
}

/// Appends a structure. A Bolt message is one.
pub(super) fn encode_structure(tag: u8, fields: &[BoltValue], out: &mut Vec<u8>) {
    out.extend([0xb0 | (fields.len() as u8 & 0xf), tag]);
    fields.iter().for_each(|field| encode(field, out));
}

fn encode_map(entries: &[(String, BoltValue)], out: &mut Vec<u8>) {
    encode_size(entries.len(), [Some(0xa0), Some(0xd8), Some(0xd9), Some(0xda)], out);
    for (key, value) in entries {
        encode_text(key, out);
        encode(value, out);
    }
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    encode_size(text.len(), [Some(0x80), Some(0xd0), Some(0xd1), Some(0xd2)], out);
    out.extend(text.as_bytes());
}

fn encode_int(number: i64, out: &mut Vec<u8>) {
    if let Ok(byte) = i8::try_from(number) {
        if byte < -16 {
            out.push(0xc8);
        }
        out.extend(byte.to_be_bytes());
    } else if let Ok(number) = i16::try_from(number) {
        out.push(0xc9);
        out.extend(number.to_be_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        out.push(0xca);
        out.extend(number.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend(number.to_be_bytes());
    }
}

/// Appends the marker of a sized value: the one with the size in it, or those for sizes of 1, 2 and
/// 4 bytes.
fn encode_size(size: usize, [tiny, one, two, four]: [Option<u8>; 4], out: &mut Vec<u8>) {
    match (tiny, one, two) {
        (Some(tiny), ..) if size < 16 => out.push(tiny | size as u8),
        (_, Some(one), _) if u8::try_from(size).is_ok() => out.extend([one, size as u8]),
        (_, _, Some(two)) if u16::try_from(size).is_ok() => {
            out.push(two);
            out.extend((size as u16).to_be_bytes());
        }
        _ => {
            out.push(four.unwrap_or_default());
            out.extend((size as u32).to_be_bytes());
        }
    }
}

/// Decodes the structure of a message: its tag and its fields.
pub(super) fn decode_message(bytes: &[u8]) -> Result<(u8, Vec<BoltValue>)> {
    let mut decoder = Decoder { rest: bytes };
    let marker = decoder.byte()?;
    if marker & 0xf0 != 0xb0 {
        return Err(malformed("a message is a structure"));
    }
    let tag = decoder.byte()?;
    let fields = decoder.values(usize::from(marker & 0xf), 0)?;
    Ok((tag, fields))
}

fn malformed(reason: &str) -> BoltError {
    BoltError::Protocol(reason.to_owned())
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl Decoder<'_> {
    /// Deeper values are refused: the stack is finite, and no query of the store returns them.
    const MAX_DEPTH: usize = 64;

    fn take(&mut self, size: usize) -> Result<&[u8]> {
        let (taken, rest) =
            self.rest.split_at_checked(size).ok_or_else(|| malformed("a value ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N)?);
        Ok(bytes)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// The size after a marker: in 1, 2 or 4 bytes.
    fn size(&mut self, width: u8) -> Result<usize> {
        Ok(match width {
            0 => usize::from(self.byte()?),
            1 => usize::from(u16::from_be_bytes(self.array()?)),
            _ => u32::from_be_bytes(self.array()?) as usize,
        })
    }

    fn text(&mut self, size: usize) -> Result<String> {
        let text = std::str::from_utf8(self.take(size)?);
        Ok(text.map_err(|_| malformed("a text is not UTF-8"))?.to_owned())
    }

    fn key(&mut self) -> Result<String> {
        match self.value(0)? {
            BoltValue::Text(key) => Ok(key),
            _ => Err(malformed("a key is not a text")),
        }
    }

    fn values(&mut self, count: usize, depth: usize) -> Result<Vec<BoltValue>> {
        // The count is not trusted for the allocation.
        let mut values = Vec::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            values.push(self.value(depth)?);
        }
        Ok(values)
    }

    fn map(&mut self, count: usize, depth: usize) -> Result<Vec<(String, BoltValue)>> {
        let mut entries = Vec::with_capacity(count.min(self.rest.len()));
        for _ in 0..count {
            entries.push((self.key()?, self.value(depth)?));
        }
        Ok(entries)
    }

    fn value(&mut self, depth: usize) -> Result<BoltValue> {
        if depth > Self::MAX_DEPTH {
            return Err(malformed("a value is nested too deeply"));
        }
        let marker = self.byte()?;
        let low = usize::from(marker & 0xf);
        Ok(match marker {
            0xc0 => BoltValue::Null,
            0xc1 => BoltValue::Float(f64::from_be_bytes(self.array()?)),
            0xc2 => BoltValue::Bool(false),
            0xc3 => BoltValue::Bool(true),
            0xc8 => BoltValue::Int(i64::from(i8::from_be_bytes(self.array()?))),
            0xc9 => BoltValue::Int(i64::from(i16::from_be_bytes(self.array()?))),
            0xca => BoltValue::Int(i64::from(i32::from_be_bytes(self.array()?))),
            0xcb => BoltValue::Int(i64::from_be_bytes(self.array()?)),
            0xcc..=0xce => {
                let size = self.size(marker - 0xcc)?;
                BoltValue::Bytes(self.take(size)?.to_vec())
            }
            0x80..=0x8f => BoltValue::Text(self.text(low)?),
            0xd0..=0xd2 => {
                let size = self.size(marker - 0xd0)?;
                BoltValue::Text(self.text(size)?)
            }
            0x90..=0x9f => BoltValue::List(self.values(low, depth + 1)?),
            0xd4..=0xd6 => {
                let count = self.size(marker - 0xd4)?;
                BoltValue::List(self.values(count, depth + 1)?)
            }
            0xa0..=0xaf => BoltValue::Map(self.map(low, depth + 1)?),
            0xd8..=0xda => {
                let count = self.size(marker - 0xd8)?;
                BoltValue::Map(self.map(count, depth + 1)?)
            }
            0xb0..=0xbf => {
                let tag = self.byte()?;
                structure(tag, self.values(low, depth + 1)?)
            }
            0x00..=0x7f | 0xf0..=0xff => BoltValue::Int(i64::from(marker.cast_signed())),
            _ => return Err(malformed("an unknown marker")),
        })
    }
}

/// The value of a structure.
fn structure(tag: u8, fields: Vec<BoltValue>) -> BoltValue {
    match (tag, fields.as_slice()) {
        (DATE_TIME, [BoltValue::Int(seconds), BoltValue::Int(nanos), BoltValue::Int(_)]) => {
            BoltValue::DateTime(*seconds, *nanos)
        }
        (NODE, [_, BoltValue::List(labels), BoltValue::Map(properties), ..]) => {
            let labels = labels.iter().filter_map(|label| match label {
                BoltValue::Text(label) => Some(label.clone()),
                _ => None,
            });
            BoltValue::Node(labels.collect(), properties.clone())
        }
        _ => BoltValue::Structure(tag, fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back(value: BoltValue) {
        let mut bytes = Vec::new();
        encode_structure(0x71, std::slice::from_ref(&value), &mut bytes);
        assert_eq!(decode_message(&bytes), Ok((0x71, vec![value])));
    }

    #[test]
    fn values_come_back() {
        for number in [0, -16, -17, 127, 128, -128, -129, 32_767, -40_000, i64::MIN, i64::MAX] {
            comes_back(BoltValue::Int(number));
        }
        for size in [0, 15, 16, 255, 256, 65_535, 65_536] {
            comes_back(BoltValue::Text("é".repeat(size)));
            comes_back(BoltValue::Bytes(vec![7; size]));
            comes_back(BoltValue::List(vec![BoltValue::Null; size]));
            let entry =
                |number: usize| (number.to_string(), BoltValue::Bool(number.is_multiple_of(2)));
            comes_back(BoltValue::Map((0..size).map(entry).collect()));
        }
        comes_back(BoltValue::Float(0.1_f32.into()));
        comes_back(BoltValue::DateTime(-1, 999_999_000));
        comes_back(BoltValue::Structure(0x52, vec![BoltValue::Int(1)]));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let cases: [&[u8]; 6] = [
            &[],
            &[0x01],
            &[0xb1, 0x71],
            &[0xb1, 0x71, 0xd0, 9, b'a'],
            &[0xb1, 0x71, 0xd6, 0xff, 0xff, 0xff, 0xff],
            &[0xb1, 0x71, 0x81, 0xff],
        ];
        for bytes in cases {
            assert!(decode_message(bytes).is_err(), "{bytes:?}");
        }
        let deep = [vec![0xb1, 0x71], vec![0x91; 5000]].concat();
        assert!(decode_message(&deep).is_err());
    }
}
