//! Reads the threads of a conversation from its row.

use rusqlite::Row;
use treering_core::Thread;

use super::unreadable;
use crate::row_codec::decode_threads;

pub(in crate::embedded) fn read(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<Thread>> {
    decode_threads(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(column, error))
}
