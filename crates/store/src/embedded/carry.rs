//! Carrying the log over into the file while others go on writing.
//!
//! Left to itself, SQLite does this inside a commit: all writers wait for it, some ten
//! milliseconds each time. Here the writer that finds the log long starts a thread for it, which has
//! a connection of its own: it carries over what there is, then what was written meanwhile, until
//! that is little, and has the disk take all of it; every few pages it lets others run (see `vfs`).
//! The next commit carries the little over, and then the log begins anew. Where writers are faster
//! than that, they wait after all.
//!
//! A log that is not carried over only grows; whatever fails here is tried again after the next
//! commit.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, Row};

use super::open::open_carrier;
use super::vfs;

/// How long the log grows before it is carried over: long enough that a page which changes with
/// every commit is carried over once for many.
const LONG_PAGES: i32 = 4000;

/// How long it may grow while it is carried over.
const TOO_LONG_PAGES: i32 = 2 * LONG_PAGES;

/// How much is left to a commit.
const LITTLE_PAGES: i64 = 100;

/// How often it is tried to leave no more than that.
const PASSES: usize = 4;

/// Knows how far the log is carried over. Dropping it waits for the thread that does so.
#[derive(Default)]
pub(super) struct Carrier {
    shared: Arc<Shared>,
    /// The thread that did it last.
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    stage: Mutex<Stage>,
    /// Held while a part of the log is carried over beside the writers.
    pass: Mutex<()>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The log is short.
    #[default]
    Short,
    /// It is long.
    Long,
    /// Somebody carries it over.
    Carrying,
    /// It was carried over but for what was written meanwhile.
    Carried,
}

impl Carrier {
    /// Watches the log that a connection writes.
    pub(super) fn watch(&self, writer: &mut Connection) -> rusqlite::Result<()> {
        let shared = Arc::clone(&self.shared);
        writer.wal_hook(Some(move |log: &mut Wal, pages| {
            shared.note(log, pages);
            Ok(())
        }))
    }

    /// Has the log of a file carried over if it is long and nobody does it yet.
    pub(super) fn carry(&self, path: &Path) {
        if !self.shared.advance(Stage::Long, Stage::Carrying) {
            return;
        }
        let (shared, path) = (Arc::clone(&self.shared), path.to_path_buf());
        let carry = move || {
            let carried = open_carrier(&path).and_then(|connection| shared.carry(&connection));
            let stage = if carried == Ok(true) { Stage::Carried } else { Stage::Short };
            shared.advance(Stage::Carrying, stage);
        };
        match thread::Builder::new().name("treering-carry".into()).spawn(carry) {
            Ok(thread) => drop(lock(&self.thread).replace(thread)),
            // Then a commit does all of it.
            Err(_) => drop(self.shared.advance(Stage::Carrying, Stage::Carried)),
        }
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(thread) = lock(&self.thread).take() {
            drop(thread.join());
        }
    }
}

impl Shared {
    /// Notes how long the log is after a commit, and carries over what is left to it.
    fn note(&self, log: &mut Wal, pages: i32) {
        let mut stage = lock(&self.stage);
        let finish = match *stage {
            Stage::Short | Stage::Long => false,
            Stage::Carrying => pages >= TOO_LONG_PAGES,
            Stage::Carried => pages >= LONG_PAGES,
        };
        *stage = match *stage {
            Stage::Short | Stage::Long if pages >= LONG_PAGES => Stage::Long,
            Stage::Carrying if !finish => Stage::Carrying,
            _ => Stage::Short,
        };
        drop(stage);
        if finish {
            let _pass = lock(&self.pass);
            drop(log.checkpoint());
        }
    }

    /// Carries the log over; `false` where another process does so, or a commit will.
    fn carry(&self, connection: &Connection) -> rusqlite::Result<bool> {
        let mut carried = 0;
        for _ in 0..PASSES {
            let Some(until) = self.pass(connection)? else { return Ok(false) };
            if until - carried <= LITTLE_PAGES {
                break;
            }
            carried = until;
        }
        // SQLite syncs the file only when it has carried over everything, which may not be before the commit that all
        // wait for.
        vfs::sync_file(connection)?;
        Ok(self.pass(connection)?.is_some())
    }

    /// Carries over what is in the log, and says how far that is.
    fn pass(&self, connection: &Connection) -> rusqlite::Result<Option<i64>> {
        let _pass = lock(&self.pass);
        if *lock(&self.stage) != Stage::Carrying {
            return Ok(None);
        }
        let read = |row: &Row<'_>| Ok((row.get::<_, bool>(0)?, row.get::<_, i64>(2)?));
        let (busy, until) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], read)?;
        Ok((!busy).then_some(until))
    }

    /// Goes from one stage to another; `false` where it was not at the first.
    fn advance(&self, from: Stage, to: Stage) -> bool {
        let mut stage = lock(&self.stage);
        let is_there = *stage == from;
        if is_there {
            *stage = to;
        }
        is_there
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
