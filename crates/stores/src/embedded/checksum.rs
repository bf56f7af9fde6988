//! The SQL function `checksum(…)`, a hash over the values of a row. It is stored with the row,
//! so that a check detects changes made by other programs.

use rusqlite::Connection;
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use treering_core::ContentHash;

/// The tables whose rows have a checksum, and the columns that it covers, in order. Never
/// change a list: stored checksums were computed over it.
pub(super) const COVERED: [(&str, &str); 5] = [
    ("conversations", "id, slug, title, naming, participants, cwd, project_path, state, external_id, policy"),
    ("labels", "name, value"),
    ("messages", "idx, turn, turns, thread, role, at, chars, tokens, hash, author, external_id"),
    (
        "tool_calls",
        "turn, place, thread, before_idx, at, success, duration_ms, name, external_id, args, result",
    ),
    (
        "nodes",
        "level, ordinal, id, range_start, range_end, first_idx, until_idx, messages, turns, raw_chars, raw_tokens,
        source_chars, made_by, made_at, took_ms, chars, tokens, grounded, retained, task, content, invented",
    ),
];

/// Registers the function on a connection.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("checksum", -1, flags, |values: &Context<'_>| {
        let mut bytes = Vec::new();
        for index in 0..values.len() {
            let (kind, value): (u8, &[u8]) = match values.get_raw(index) {
                ValueRef::Null => (0, &[]),
                ValueRef::Integer(number) => (1, &number.to_le_bytes()),
                ValueRef::Real(number) => (2, &number.to_bits().to_le_bytes()),
                ValueRef::Text(text) => (3, text),
                ValueRef::Blob(blob) => (4, blob),
            };
            bytes.push(kind);
            bytes.extend((value.len() as u64).to_le_bytes());
            bytes.extend(value);
        }
        Ok(*ContentHash::of_fields(&[&bytes]).as_bytes())
    })
}
