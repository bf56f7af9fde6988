//! Where the messages of a conversation are among all messages, which are kept in the order they
//! arrived in: runs of messages that arrived one after the other.
//!
//! The latest runs are in the conversation's own row, which a turn writes anyway; once they are
//! many, they go to a table, all of them as one row. So a turn need not write a page of an index
//! beside its messages, and writers with a conversation each share more of what they write.

use rusqlite::{Connection, OptionalExtension, Row, Rows, ffi, params};
use treering_core::ports::StoreResult;

use super::error::explain;
use super::read::{Access, View};
use super::tree_read::parsed;
use super::tree_write::text_of;

/// How many runs a row holds at the most.
const MOST_RUNS: usize = 16;

/// How many rows of the table are looked up at once.
const PAGE: usize = 16;

/// Messages that arrived one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// The first of them in its conversation.
    idx: u32,
    /// The number of its arrival.
    seq: i64,
    count: u32,
}

impl Run {
    /// One past the last of them.
    const fn end(&self) -> u32 {
        self.idx.saturating_add(self.count)
    }

    /// Those of them that lie in a range.
    fn within(&self, from: u32, until: u32) -> Option<Self> {
        let (idx, end) = (self.idx.max(from), self.end().min(until));
        let count = end.checked_sub(idx).filter(|count| *count > 0)?;
        Some(Self { idx, seq: self.seq + i64::from(idx - self.idx), count })
    }

    /// Whether a message arrived right after them.
    fn is_followed_by(&self, idx: u32, seq: i64) -> bool {
        self.end() == idx && self.seqs().1 == seq
    }

    /// The numbers of arrival that they have: from the first up to, not including, the second.
    pub(super) fn seqs(&self) -> (i64, i64) {
        (self.seq, self.seq + i64::from(self.count))
    }
}

/// The latest runs of a conversation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Latest(Vec<Run>);

impl Latest {
    /// Adds a message that has arrived. Where the conversation has one there already, or a later one,
    /// it is refused.
    pub(super) fn add(
        &mut self,
        connection: &Connection,
        pk: i64,
        idx: u32,
        seq: i64,
    ) -> rusqlite::Result<()> {
        let end = match self.0.last() {
            Some(last) => last.end(),
            None => settled_end(connection, pk)?,
        };
        if idx < end {
            let code = ffi::Error::new(ffi::SQLITE_CONSTRAINT_UNIQUE);
            return Err(rusqlite::Error::SqliteFailure(
                code,
                Some(format!("there is a message {idx} already")),
            ));
        }
        match self.0.last_mut() {
            Some(last) if last.is_followed_by(idx, seq) => last.count += 1,
            _ => self.0.push(Run { idx, seq, count: 1 }),
        }
        Ok(())
    }

    /// Takes the runs that are to go into the table, once they are many: all but the last, which may still grow.
    pub(super) fn settled(&mut self) -> Self {
        match self.0.len() > MOST_RUNS {
            true => Self(self.0.drain(..self.0.len() - 1).collect()),
            false => Self::default(),
        }
    }

    /// Puts the runs into the table.
    pub(super) fn put(&self, connection: &Connection, pk: i64) -> rusqlite::Result<()> {
        let sql = "INSERT INTO places (conversation, idx, runs) VALUES (?1, ?2, ?3)";
        for runs in self.0.chunks(MOST_RUNS) {
            connection.prepare_cached(sql)?.execute(params![pk, runs[0].idx, text(runs)?])?;
        }
        Ok(())
    }

    /// As it is in the row.
    pub(super) fn write(&self) -> rusqlite::Result<String> {
        text(&self.0)
    }

    pub(super) fn read(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        let runs: Vec<(u32, i64, u32)> = parsed(row, at)?;
        Ok(Self(runs.into_iter().map(|(idx, seq, count)| Run { idx, seq, count }).collect()))
    }
}

/// How runs are written in a row: `[idx, seq, count]` for each.
fn text(runs: &[Run]) -> rusqlite::Result<String> {
    text_of(&runs.iter().map(|run| (run.idx, run.seq, run.count)).collect::<Vec<_>>())
}

impl<C: Access> View<'_, C> {
    /// Calls `read` for each run of messages in a range, in order, until it says that this is enough.
    pub(super) fn each_run(
        &self,
        pk: i64,
        latest: &Latest,
        (mut from, until): (u32, u32),
        mut read: impl FnMut(Run) -> StoreResult<bool>,
    ) -> StoreResult<()> {
        let settled = latest.0.first().map_or(until, |first| first.idx.min(until));
        while from < settled {
            let page = self.settled_rows(pk, from, settled)?;
            let runs = || page.iter().flat_map(|row| &row.0);
            for run in runs().filter_map(|run| run.within(from, until)) {
                if read(run)? {
                    return Ok(());
                }
            }
            match runs().last() {
                Some(last) if page.len() == PAGE => from = last.end(),
                _ => break,
            }
        }
        for run in latest.0.iter().filter_map(|run| run.within(from, until)) {
            if read(run)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The number of arrival of a message, and `None` where there is none.
    pub(super) fn seq(&self, pk: i64, latest: &Latest, idx: u32) -> StoreResult<Option<i64>> {
        let mut seq = None;
        self.each_run(pk, latest, (idx, idx.saturating_add(1)), |run| {
            seq = Some(run.seq);
            Ok(true)
        })?;
        Ok(seq)
    }

    /// One past the last message.
    pub(super) fn messages_end(&self, pk: i64, latest: &Latest) -> StoreResult<u32> {
        match latest.0.last() {
            Some(last) => Ok(last.end()),
            None => {
                let end = self.connection.open().and_then(|connection| settled_end(connection, pk));
                end.map_err(|error| explain(self.path, &error))
            }
        }
    }

    /// The first rows in the table that reach into a range.
    fn settled_rows(&self, pk: i64, from: u32, until: u32) -> StoreResult<Vec<Latest>> {
        let sql = "SELECT runs FROM places
            WHERE conversation = ?1 AND idx < ?3 AND idx >= ifnull(
                (SELECT max(idx) FROM places WHERE conversation = ?1 AND idx <= ?2), ?2)
            ORDER BY idx LIMIT ?4";
        self.many(sql, params![pk, from, until, PAGE as i64], |row| Latest::read(row, 0))
    }
}

/// One past the last message that has a place in the table.
fn settled_end(connection: &Connection, pk: i64) -> rusqlite::Result<u32> {
    let sql = "SELECT runs FROM places WHERE conversation = ?1 ORDER BY idx DESC LIMIT 1";
    let last = connection.prepare_cached(sql)?.query_row([pk], |row| Latest::read(row, 0)).optional()?;
    Ok(last.and_then(|row| row.0.last().map(Run::end)).unwrap_or(0))
}

/// Conversations whose messages are not where their places say, as sentences.
pub(super) fn check(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    Ok(astray(connection)?.iter().map(Astray::problem).collect())
}

/// Gives the messages of such conversations their places anew. Says of which.
pub(super) fn repair(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut repaired = Vec::new();
    for it in astray(connection)? {
        let Some(slug) = it.slug else { continue };
        connection.execute("DELETE FROM places WHERE conversation = ?1", [it.pk])?;
        Latest(it.stored).put(connection, it.pk)?;
        connection.execute("UPDATE conversations SET latest = '[]' WHERE pk = ?1", [it.pk])?;
        repaired.push(format!("conversation {slug}: its messages have their places again"));
    }
    Ok(repaired)
}

/// A conversation whose messages are not where its places say.
struct Astray {
    pk: i64,
    /// Absent where messages or places are of no conversation.
    slug: Option<String>,
    /// The runs that its messages make.
    stored: Vec<Run>,
    /// The runs that it has.
    placed: Vec<Run>,
}

impl Astray {
    fn problem(&self) -> String {
        let which = match &self.slug {
            Some(slug) => format!("conversation {slug}"),
            None => format!("row {} of no conversation", self.pk),
        };
        let count = |runs: &[Run]| runs.iter().map(|run| u64::from(run.count)).sum::<u64>();
        match (count(&self.stored), count(&self.placed)) {
            (stored, placed) if stored == placed => {
                format!("{which}: its {stored} messages are not where their places say")
            }
            (stored, placed) => format!("{which}: {stored} messages are stored, and {placed} have a place"),
        }
    }
}

fn astray(connection: &Connection) -> rusqlite::Result<Vec<Astray>> {
    let mut messages = connection
        .prepare("SELECT conversation, idx, seq, 1 FROM messages ORDER BY conversation, idx, seq")?;
    let mut places = connection.prepare(
        "SELECT p.conversation, value ->> 0, value ->> 1, value ->> 2 FROM places p, json_each(p.runs)
        UNION ALL SELECT c.pk, value ->> 0, value ->> 1, value ->> 2 FROM conversations c, json_each(c.latest)
        ORDER BY 1, 2, 3",
    )?;
    let mut stored = Runs::new(messages.query([])?)?;
    let mut placed = Runs::new(places.query([])?)?;
    let mut slug = connection.prepare("SELECT slug FROM conversations WHERE pk = ?1")?;
    let mut astray = Vec::new();
    while let Some(pk) = [stored.pk(), placed.pk()].into_iter().flatten().min() {
        let (stored, placed) = (stored.of(pk)?, placed.of(pk)?);
        if stored != placed {
            let slug = slug.query_row([pk], |row| row.get(0)).optional()?;
            astray.push(Astray { pk, slug, stored, placed });
        }
    }
    Ok(astray)
}

/// Runs in the order of their conversations.
struct Runs<'a> {
    rows: Rows<'a>,
    next: Option<(i64, Run)>,
}

impl<'a> Runs<'a> {
    fn new(rows: Rows<'a>) -> rusqlite::Result<Self> {
        let mut runs = Self { rows, next: None };
        runs.advance()?;
        Ok(runs)
    }

    fn advance(&mut self) -> rusqlite::Result<()> {
        let run = |row: &Row<'_>| -> rusqlite::Result<(i64, Run)> {
            Ok((row.get(0)?, Run { idx: row.get(1)?, seq: row.get(2)?, count: row.get(3)? }))
        };
        self.next = self.rows.next()?.map(run).transpose()?;
        Ok(())
    }

    /// The conversation that the next run is of.
    fn pk(&self) -> Option<i64> {
        self.next.as_ref().map(|(pk, _)| *pk)
    }

    /// The runs of that conversation if it is this one, those in one that follow one another.
    fn of(&mut self, pk: i64) -> rusqlite::Result<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        while let Some((_, run)) = self.next.take_if(|(of, _)| *of == pk) {
            match runs.last_mut() {
                Some(last) if last.is_followed_by(run.idx, run.seq) => last.count += run.count,
                _ => runs.push(run),
            }
            self.advance()?;
        }
        Ok(runs)
    }
}
