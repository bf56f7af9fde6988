//! Rows of conversations, and what the writer keeps: a turn changes its conversation's row, and
//! reading the row each time costs as much as writing it; and each asks which index is in use.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};
use treering_core::conversation::Totals;
use treering_core::index::VectorIndex;
use treering_core::{Conversation, ConversationId, ConversationKey, TenantId, ThreadName};

use super::places::Latest;
use super::read::{external_id, moment, unreadable};
use super::{codes, threads, tree_read};

/// The columns that [`read`] reads.
pub(super) const COLUMNS: &str =
    "id, slug, title, participants, cwd, project_path, started_at, last_activity,
    state, external_id, messages, turns, tool_calls, chars, tokens, naming, threads, policy, growth";

/// The most conversations that are kept.
const MOST: usize = 512;

/// A conversation, the number of its row, and where its latest messages are.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) pk: i64,
    pub(super) conversation: Conversation,
    pub(super) latest: Latest,
}

impl Numbered {
    /// Whether it goes by the same names as another: those that indexes are over.
    pub(super) fn is_named_like(&self, other: &Conversation) -> bool {
        let it = &self.conversation;
        it.slug == other.slug
            && it.cwd == other.cwd
            && it.project_path == other.project_path
            && it.external_id == other.external_id
    }

    /// The number that a thread goes by in the rows of its messages: its place.
    pub(super) fn thread(&self, name: &ThreadName) -> rusqlite::Result<i64> {
        let place = self.conversation.threads.iter().position(|thread| thread.name == *name);
        place.map(|place| place as i64).ok_or(rusqlite::Error::QueryReturnedNoRows)
    }
}

/// The conversations that were read or written last through the writer's connection, as they are
/// in its transaction.
#[derive(Default)]
pub(super) struct Kept {
    /// SQLite's count of what others have written.
    version: i64,
    rows: RefCell<HashMap<ConversationKey, Numbered>>,
    /// Which index each tenant uses.
    indexes: RefCell<HashMap<TenantId, Option<VectorIndex>>>,
}

impl Kept {
    /// Begins a transaction: forgets what others may have changed.
    pub(super) fn begin(&mut self, transaction: &Connection) -> rusqlite::Result<()> {
        let version = transaction.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if std::mem::replace(&mut self.version, version) != version {
            self.forget();
        }
        // Only here: what a commit has changed is needed until it is written.
        if self.rows.borrow().len() >= MOST {
            self.rows.borrow_mut().clear();
        }
        Ok(())
    }

    /// Forgets everything: what was written is not kept.
    pub(super) fn forget(&self) {
        self.rows.borrow_mut().clear();
        self.indexes.borrow_mut().clear();
    }

    /// Keeps a conversation as it was written.
    pub(super) fn keep(&self, key: ConversationKey, row: Numbered) {
        self.rows.borrow_mut().insert(key, row);
    }

    /// Looks at a conversation, which is read if it is not kept.
    pub(super) fn with<T>(
        &self,
        connection: &Connection,
        key: &ConversationKey,
        look: impl FnOnce(Option<&Numbered>) -> T,
    ) -> rusqlite::Result<T> {
        if let Some(row) = self.rows.borrow().get(key) {
            return Ok(look(Some(row)));
        }
        let Some(row) = find(connection, key)? else { return Ok(look(None)) };
        let looked = look(Some(&row));
        self.keep(key.clone(), row);
        Ok(looked)
    }

    /// The index that a tenant uses, which `read` reads if it is not kept.
    pub(super) fn index<E>(
        &self,
        tenant: &TenantId,
        read: impl FnOnce() -> Result<Option<VectorIndex>, E>,
    ) -> Result<Option<VectorIndex>, E> {
        if let Some(index) = self.indexes.borrow().get(tenant) {
            return Ok(index.clone());
        }
        let index = read()?;
        let mut indexes = self.indexes.borrow_mut();
        if indexes.len() >= MOST {
            indexes.clear();
        }
        indexes.insert(tenant.clone(), index.clone());
        Ok(index)
    }

    /// Forgets which index a tenant uses: it is about to be another.
    pub(super) fn forget_index(&self, tenant: &TenantId) {
        self.indexes.borrow_mut().remove(tenant);
    }

    /// Looks at a conversation if it is kept.
    pub(super) fn peek<T>(&self, key: &ConversationKey, look: impl FnOnce(&Numbered) -> T) -> Option<T> {
        self.rows.borrow().get(key).map(look)
    }

    /// Changes what is kept of a conversation, if it is kept.
    pub(super) fn change<T>(
        &self,
        key: &ConversationKey,
        change: impl FnOnce(&mut Numbered) -> T,
    ) -> Option<T> {
        self.rows.borrow_mut().get_mut(key).map(change)
    }
}

/// Reads a conversation.
pub(super) fn find(connection: &Connection, key: &ConversationKey) -> rusqlite::Result<Option<Numbered>> {
    let sql = format!("SELECT {COLUMNS}, pk, latest FROM conversations WHERE tenant = ?1 AND id = ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let row = statement.query_row(params![key.tenant.as_str(), key.id.as_bytes()], |row| {
        Ok(Numbered { conversation: read(row)?, pk: row.get(19)?, latest: Latest::read(row, 20)? })
    });
    row.optional()
}

pub(super) fn totals(row: &Row<'_>, from: usize) -> rusqlite::Result<Totals> {
    Ok(Totals {
        messages: row.get(from)?,
        turns: row.get(from + 1)?,
        tool_calls: row.get(from + 2)?,
        chars: row.get::<_, i64>(from + 3)?.unsigned_abs(),
        tokens: row.get::<_, i64>(from + 4)?.unsigned_abs(),
    })
}

/// A conversation from its columns.
pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Conversation> {
    let participants: String = row.get(3)?;
    Ok(Conversation {
        id: ConversationId::from_bytes(row.get(0)?),
        slug: row.get(1)?,
        title: row.get(2)?,
        participants: serde_json::from_str(&participants).map_err(|why| unreadable(3, why))?,
        cwd: row.get(4)?,
        project_path: row.get(5)?,
        started_at: moment(row, 6)?,
        last_activity: moment(row, 7)?,
        state: codes::state(row.get(8)?).ok_or_else(|| unreadable(8, "no such state"))?,
        external_id: external_id(row, 9)?,
        totals: totals(row, 10)?,
        threads: threads::read(row, 16)?,
        policy: tree_read::parsed(row, 17)?,
        growth: tree_read::parsed(row, 18)?,
        naming: codes::naming(row.get(15)?).ok_or_else(|| unreadable(15, "no such naming"))?,
    })
}
