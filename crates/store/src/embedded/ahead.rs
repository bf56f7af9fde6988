//! Plans made ahead. Whoever leads applies the plans of all others one after the other, while they wait. So they
//! make their plans meanwhile, each from what the writer keeps; and the leader uses those that were
//! made from what is still as it was, and makes the others anew.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rusqlite::Connection;
use treering_core::ports::{Plan, Reader, StoreResult};
use treering_core::{Commit, ConversationKey, StoreError};

use super::conversations::{Kept, Mark, Seen};
use super::read::{Access, View};
use super::ready::Ready;
use super::tree_read::Tasks;

/// A plan, and what it decided.
pub(super) struct Planned {
    plan: Plan,
    ready: Option<Ready>,
    /// What it decided from, where it did so ahead.
    seen: Option<Seen>,
}

impl Planned {
    pub(super) const fn new(plan: Plan) -> Self {
        Self { plan, ready: None, seen: None }
    }

    /// Has the plan decide from what is kept, if that is all it needs.
    pub(super) fn look_ahead(&mut self, path: &Path, tasks: &Tasks, kept: &Kept) {
        let view = View::planning(Ahead::default(), path, tasks, kept);
        let decided = decide(&mut self.plan, &view, path);
        let Ahead { seen, needs_more } = view.connection;
        let seen = seen.into_inner();
        let ready = decided.ok().filter(|_| !needs_more.get()).map(Ready::with_texts);
        match ready {
            Some(Ok(ready)) => (self.ready, self.seen) = (Some(ready), Some(seen)),
            _ => kept.doubt(&seen),
        }
    }

    /// What the plan decides in the transaction that a view is of. What is left of it stays here, for the writer whose
    /// plan it is to drop: the leader has all others waiting.
    pub(super) fn decide(&mut self, view: &dyn Reader, path: &Path, kept: &Kept) -> StoreResult<&mut Ready> {
        let ahead = self.seen.take().is_some_and(|seen| {
            let holds = kept.is_as_seen(&seen);
            if !holds {
                kept.doubt(&seen);
            }
            holds
        });
        if !ahead {
            self.ready = None;
        }
        match &mut self.ready {
            Some(ready) => Ok(ready),
            none => Ok(none.insert(Ready::plain(decide(&mut self.plan, view, path)?))),
        }
    }
}

fn decide(plan: &mut Plan, view: &dyn Reader, path: &Path) -> StoreResult<Commit> {
    catch_unwind(AssertUnwindSafe(|| plan(view))).unwrap_or_else(|_| {
        let detail = "the plan of a commit panicked; nothing of it was written".into();
        Err(StoreError::Failed { path: path.into(), detail })
    })
}

/// Stands where a connection would be: there is none, and what is read of what is kept is noted.
#[derive(Default)]
struct Ahead {
    seen: RefCell<Seen>,
    needs_more: Cell<bool>,
}

impl Ahead {
    fn refuse<T>(&self) -> rusqlite::Result<T> {
        self.needs_more.set(true);
        Err(rusqlite::Error::InvalidQuery)
    }
}

impl Access for Ahead {
    fn open(&self) -> rusqlite::Result<&Connection> {
        self.refuse()
    }

    fn note(&self, key: &ConversationKey, mark: &mut Mark) -> rusqlite::Result<()> {
        if mark.doubt > 0 {
            mark.doubt -= 1;
            return self.refuse();
        }
        self.seen.borrow_mut().rows.push((key.clone(), mark.change));
        Ok(())
    }

    fn note_index(&self, change: u64) {
        self.seen.borrow_mut().indexes.get_or_insert(change);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use treering_testkit::contract::{conversation, key};

    use super::super::conversations::Numbered;
    use super::*;

    /// What is forgotten and read again may be something else, or may have been once.
    #[test]
    fn what_was_forgotten_is_not_as_it_was_seen() {
        let kept = Kept::default();
        let mut seen: Vec<Seen> = Vec::new();
        for _ in 0..3 {
            let row = Numbered { pk: 1, conversation: conversation(1), latest: Default::default() };
            kept.keep(key(1), row);
            let ahead = Ahead::default();
            kept.get(&ahead, &key(1)).unwrap().unwrap();
            assert!(!seen.iter().any(|seen| kept.is_as_seen(seen)));
            seen.push(ahead.seen.into_inner());
            assert!(kept.is_as_seen(&seen[seen.len() - 1]));
            kept.forget();
            assert!(!seen.iter().any(|seen| kept.is_as_seen(seen)));
        }
    }
}
