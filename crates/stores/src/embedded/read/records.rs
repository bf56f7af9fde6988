//! Decodes rows for a check the way the program reads them, to find rows that it cannot have
//! written.

use rusqlite::Row;

use super::conversations::{self, conversation};
use super::jobs::{self, job, log_line};
use super::tree::{node, node_columns};
use super::unreadable;

/// A table with columns that no checksum covers.
#[derive(Debug, Clone, Copy)]
pub(in crate::embedded) enum CheckedRecord {
    Conversation,
    Node,
    Job,
    LogLine,
}

impl CheckedRecord {
    pub(in crate::embedded) const ALL: [Self; 4] =
        [Self::Conversation, Self::Node, Self::Job, Self::LogLine];

    pub(in crate::embedded) const fn table(self) -> &'static str {
        match self {
            Self::Conversation => "conversations",
            Self::Node => "nodes",
            Self::Job => "jobs",
            Self::LogLine => "log",
        }
    }

    /// A query for every row, with its rowid and its name. `name` is an SQL expression over
    /// `x`.
    pub(in crate::embedded) fn select(self, name: &str) -> String {
        let owned = |columns: &str, alias: &str, table: &str| {
            format!(
                "SELECT {columns}, x.rowid, {name} FROM {table} x JOIN {table} {alias} ON {alias}.rowid = x.rowid
                LEFT JOIN conversations c ON c.pk = x.conversation"
            )
        };
        match self {
            Self::Conversation => {
                let columns = conversations::COLUMNS.replace("conversations.", "x.");
                format!("SELECT {columns}, x.rowid, {name} FROM conversations x")
            }
            Self::Node => owned(&node_columns(), "n", "nodes"),
            Self::Job => owned(&format!("{}, j.height, j.place", jobs::JOB), "j", "jobs"),
            Self::LogLine => owned(jobs::LOG_LINE, "l", "log"),
        }
    }

    /// Decodes the row the way the program does.
    pub(in crate::embedded) fn read(self, row: &Row<'_>) -> rusqlite::Result<()> {
        match self {
            Self::Conversation => conversation(row).map(drop),
            Self::Node => node(row).map(drop),
            Self::LogLine => log_line(row).map(drop),
            Self::Job => {
                let job = job(row)?;
                let (height, position): (u8, u32) = (row.get(12)?, row.get(13)?);
                // Jobs are updated and removed by their height and place.
                match (job.kind.height(), job.kind.position()) == (height, position) {
                    true => Ok(()),
                    false => Err(unreadable(12, "its payload names another place than the job")),
                }
            }
        }
    }

    /// The rowid and the name of a row.
    pub(in crate::embedded) fn label(self, row: &Row<'_>) -> rusqlite::Result<(i64, String)> {
        let columns = row.as_ref().column_count();
        Ok((row.get(columns - 2)?, row.get(columns - 1)?))
    }
}

/// Whether a conversation is unreadable only because of its tree state, which is derived.
pub(in crate::embedded) fn is_of_tree_state(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::FromSqlConversionFailure(conversations::GROWTH, ..))
}
