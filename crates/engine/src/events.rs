//! Events: changes of the store since a cursor, whichever process wrote them. This module only
//! reads; delivery is up to the caller.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use treering_core::ports::{Change, ChangeFilter, Cursor, Revision};
use treering_core::{
    ConversationId, JobEvent, JobEventKind, Message, MessageIdx, Node, StoreError, TenantId,
    ThreadName, TurnNo,
};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Changes per page of the feed.
const PORTION: usize = 256;
/// A change of the store.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Messages of a turn were stored.
    Turn {
        /// The conversation's id.
        conversation: ConversationId,
        /// The turn.
        turn: TurnNo,
        /// Its thread.
        thread: ThreadName,
        /// The positions of the messages.
        messages: Vec<MessageIdx>,
    },
    /// A window or group was sealed, and the job that writes its node was planned.
    Sealed(ConversationId, JobEvent),
    /// A node was written or regenerated.
    Node(ConversationId, Box<Node>),
    /// A job failed; it is retried or was given up.
    Failed(ConversationId, JobEvent),
}

/// The positions in the change feeds of all tenants.
#[derive(Debug, Clone)]
pub struct FeedCursors {
    revision: Revision,
    cursors: HashMap<TenantId, Cursor>,
}

impl FeedCursors {
    /// Records the position reached in a tenant's feed.
    pub fn advance(&mut self, tenant: TenantId, cursor: Cursor) {
        self.cursors.insert(tenant, cursor);
    }
}

impl Engine {
    /// The end of the change feed: later commits come after it.
    pub fn event_cursor(&self) -> Result<Cursor> {
        Ok(self.reader()?.changes(&Cursor::start(), &ChangeFilter::default(), usize::MAX)?.cursor)
    }

    /// The next page of events after a cursor in commit order, and the cursor after them.
    pub fn events_after(&self, after: &Cursor) -> Result<(Vec<Event>, Cursor)> {
        let filter = ChangeFilter {
            messages: true,
            nodes: true,
            job_events: true,
            ..ChangeFilter::default()
        };
        let changes = self.reader()?.changes(after, &filter, PORTION)?;
        let mut events: Vec<Event> = Vec::new();
        for change in changes.items {
            match change {
                Change::Message(_, message)
                    if message.body.forgotten || message.amended_at().is_some() => {}
                Change::Message(id, message) => add_message(&mut events, id, message),
                Change::Node(id, node) => events.push(Event::Node(id, node)),
                Change::JobEvent(id, line) => match line.kind {
                    JobEventKind::Fail | JobEventKind::Dead => events.push(Event::Failed(id, line)),
                    _ if line.is_sealing() => events.push(Event::Sealed(id, line)),
                    _ => {}
                },
                Change::ToolCall(..) | Change::Vector(..) | Change::Removed(_) => {}
            }
        }
        Ok((events, changes.cursor))
    }

    /// The ends of the change feeds of all tenants.
    pub fn feed_cursors(&self) -> Result<FeedCursors> {
        let revision = self.store().revision();
        Ok(FeedCursors { revision, cursors: self.store().cursors()?.into_iter().collect() })
    }

    /// Waits for a commit after these positions, at most for `timeout`. Returns the tenants that
    /// have changed, each with the cursor reached before.
    pub fn wait_for_changes(
        &self,
        cursors: &mut FeedCursors,
        timeout: Duration,
    ) -> Result<Vec<(TenantId, Cursor)>> {
        let revision = self.store().wait(cursors.revision, timeout);
        if revision == cursors.revision {
            return Ok(Vec::new());
        }
        let now = self.store().cursors()?;
        cursors.revision = revision;
        let known = |tenant: &TenantId| cursors.cursors.get(tenant).cloned().unwrap_or_default();
        let changed = now.into_iter().map(|(tenant, end)| (known(&tenant), tenant, end));
        Ok(changed
            .filter(|(known, _, end)| known != end)
            .map(|(known, tenant, _)| (tenant, known))
            .collect())
    }

    /// Like [`Self::events_after`], but waits until there is an event, at most for `timeout`.
    pub fn wait_for_events(
        &self,
        after: &Cursor,
        timeout: Duration,
    ) -> Result<(Vec<Event>, Cursor)> {
        let (started, mut after) = (Instant::now(), after.clone());
        loop {
            let revision = self.store().revision();
            let (events, cursor) = match self.events_after(&after) {
                // A concurrent writer changed the store during the read; the next read sees its
                // commit.
                Err(Error::Store(StoreError::Changed { .. })) if started.elapsed() < timeout => {
                    continue;
                }
                other => other?,
            };
            let waited = started.elapsed();
            if !events.is_empty() || waited >= timeout {
                return Ok((events, cursor));
            }
            if cursor == after {
                self.store().wait(revision, timeout.saturating_sub(waited));
            }
            after = cursor;
        }
    }
}

/// Adds a message to the previous event if both belong to the same turn.
fn add_message(events: &mut Vec<Event>, id: ConversationId, message: Message) {
    if let Some(Event::Turn { conversation, turn, messages, .. }) = events.last_mut()
        && (*conversation, *turn) == (id, message.turn)
    {
        return messages.push(message.idx);
    }
    events.push(Event::Turn {
        conversation: id,
        turn: message.turn,
        thread: message.thread,
        messages: vec![message.idx],
    });
}
