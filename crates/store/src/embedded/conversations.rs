//! Rows of conversations, and what the writer keeps: a turn changes its conversation's row, and
//! reading the row each time costs as much as writing it; and each asks which index is in use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};
use treering_core::conversation::Totals;
use treering_core::index::VectorIndex;
use treering_core::{Conversation, ConversationId, ConversationKey, TenantId, ThreadName, Timestamp};

use super::places::Latest;
use super::read::{Access, external_id, moment, unreadable};
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
/// in its transaction. Others may look at them too, to plan ahead.
#[derive(Default)]
pub(super) struct Kept(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// SQLite's count of what others have written.
    version: i64,
    rows: HashMap<ConversationKey, (Mark, Arc<Numbered>)>,
    /// Which index each tenant uses.
    indexes: HashMap<TenantId, Option<VectorIndex>>,
    /// The last change to what one of them uses.
    indexes_changed: u64,
    /// How many changes there were; none is forgotten.
    changes: u64,
}

/// What tells a row from what it was or will be.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// The change that made it what it is.
    pub(super) change: u64,
    /// For how many more times nobody plans from it: it changes too often.
    pub(super) doubt: u8,
}

/// How often nobody plans from a row of which a plan could not be used.
const DOUBT: u8 = 100;

/// What a plan was made from: rows and indexes as of changes.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) rows: Vec<(ConversationKey, u64)>,
    pub(super) indexes: Option<u64>,
}

impl Inner {
    fn change(&mut self) -> u64 {
        self.changes += 1;
        self.changes
    }

    fn forget(&mut self) {
        self.rows.clear();
        self.indexes.clear();
        self.indexes_changed = self.change();
    }
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transaction: forgets what others may have changed.
    pub(super) fn begin(&self, transaction: &Connection) -> rusqlite::Result<()> {
        let version = transaction.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        let mut kept = self.lock();
        if std::mem::replace(&mut kept.version, version) != version {
            kept.forget();
        }
        // Only here: what a commit has changed is needed until it is written.
        if kept.rows.len() >= MOST {
            kept.rows.clear();
        }
        Ok(())
    }

    /// Forgets everything: what was written is not kept.
    pub(super) fn forget(&self) {
        self.lock().forget();
    }

    /// Keeps a conversation as it was written.
    pub(super) fn keep(&self, key: ConversationKey, row: Numbered) {
        self.insert(key, Arc::new(row));
    }

    fn insert(&self, key: ConversationKey, row: Arc<Numbered>) {
        let mut kept = self.lock();
        let mark = Mark { change: kept.change(), doubt: 0 };
        kept.rows.insert(key, (mark, row));
    }

    /// A conversation, which is read if it is not kept.
    pub(super) fn get(
        &self,
        source: &impl Access,
        key: &ConversationKey,
    ) -> rusqlite::Result<Option<Arc<Numbered>>> {
        if let Some((mark, row)) = self.lock().rows.get_mut(key) {
            source.note(key, mark)?;
            return Ok(Some(Arc::clone(row)));
        }
        let Some(row) = find(source.open()?, key)?.map(Arc::new) else { return Ok(None) };
        self.insert(key.clone(), Arc::clone(&row));
        Ok(Some(row))
    }

    /// The index that a tenant uses, which `read` reads if it is not kept.
    pub(super) fn index<E>(
        &self,
        source: &impl Access,
        tenant: &TenantId,
        read: impl FnOnce() -> Result<Option<VectorIndex>, E>,
    ) -> Result<Option<VectorIndex>, E> {
        let kept = self.lock();
        if let Some(index) = kept.indexes.get(tenant) {
            source.note_index(kept.indexes_changed);
            return Ok(index.clone());
        }
        drop(kept);
        let index = read()?;
        let mut kept = self.lock();
        if kept.indexes.len() >= MOST {
            kept.indexes.clear();
        }
        kept.indexes.insert(tenant.clone(), index.clone());
        Ok(index)
    }

    /// Forgets which index a tenant uses: it is about to be another.
    pub(super) fn forget_index(&self, tenant: &TenantId) {
        let mut kept = self.lock();
        kept.indexes.remove(tenant);
        kept.indexes_changed = kept.change();
    }

    /// Exchanges a conversation with the one that is kept, where that goes by the same names, and gives the number of its
    /// row.
    pub(super) fn exchange(&self, key: &ConversationKey, conversation: &mut Conversation) -> Option<i64> {
        let mut kept = self.lock();
        let number = kept.change();
        let (mark, row) = kept.rows.get_mut(key)?;
        if !row.is_named_like(conversation) {
            return None;
        }
        mark.change = number;
        let row = Arc::make_mut(row);
        std::mem::swap(&mut row.conversation, conversation);
        Some(row.pk)
    }

    /// Where the latest messages of a conversation are, if it is kept.
    pub(super) fn latest(&self, key: &ConversationKey) -> Option<Latest> {
        self.lock().rows.get(key).map(|(_, row)| row.latest.clone())
    }

    /// Changes what is kept of a conversation, if it is kept, and gives it as it is then.
    pub(super) fn change<T>(
        &self,
        key: &ConversationKey,
        change: impl FnOnce(&mut Numbered) -> T,
    ) -> Option<(T, Arc<Numbered>)> {
        let mut kept = self.lock();
        let number = kept.change();
        let (mark, row) = kept.rows.get_mut(key)?;
        mark.change = number;
        let changed = change(Arc::make_mut(row));
        Some((changed, Arc::clone(row)))
    }

    /// Whether all that a plan was made from is still as it was.
    pub(super) fn is_as_seen(&self, seen: &Seen) -> bool {
        let kept = self.lock();
        let is_same = |(key, change): &(ConversationKey, u64)| {
            kept.rows.get(key).is_some_and(|(mark, _)| mark.change == *change)
        };
        seen.rows.iter().all(is_same) && seen.indexes.is_none_or(|change| change == kept.indexes_changed)
    }

    /// Has nobody plan from these rows for a while.
    pub(super) fn doubt(&self, seen: &Seen) {
        let mut kept = self.lock();
        for (key, _) in &seen.rows {
            if let Some((mark, _)) = kept.rows.get_mut(key) {
                mark.doubt = DOUBT;
            }
        }
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

/// Conversations that are not in order where their last activity belongs, as sentences.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("SELECT slug FROM conversations WHERE hour <> {HOUR} ORDER BY pk");
    let mut statement = connection.prepare(&sql)?;
    let problem =
        |slug: String| format!("conversation {slug}: it is not listed by the hour of its last activity");
    statement.query_map([], |row| row.get(0).map(problem))?.collect()
}

/// Puts conversations in order again, and says which.
pub(super) fn repair(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = format!("UPDATE conversations SET hour = {HOUR} WHERE hour <> {HOUR} RETURNING slug");
    let mut statement = connection.prepare(&sql)?;
    let repaired = |slug: String| format!("conversation {slug}: it is listed by its last activity again");
    statement.query_map([], |row| row.get(0).map(repaired))?.collect()
}

/// What [`hour`] gives, in a query.
const HOUR: &str = "last_activity / 3600000000";

/// The hour that a moment lies in, by which conversations are in order.
pub(super) const fn hour(moment: Timestamp) -> i64 {
    moment.as_micros() / 3_600_000_000
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
