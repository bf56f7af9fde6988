//! Detects commits: those of this process immediately, those of other processes by `LISTEN`.
//!
//! `NOTIFY` inside a commit would serialize all commits of the server. Instead one task of each process sends a
//! notification after the commits, one for all that came in the meantime, on a connection of its own.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_postgres::AsyncMessage;
use treering_core::ports::Revision;

use super::options::ServerTarget;

/// Minimum interval between two notifications.
const INTERVAL: Duration = Duration::from_millis(2);
/// Delay before the listener connects again.
const RECONNECT: Duration = Duration::from_millis(500);
/// While the listener is not connected, waiting callers look for commits at this interval.
const POLL: Duration = Duration::from_millis(250);

/// Counts the commits that this process observes.
pub(super) struct Notifier {
    state: Mutex<NotifierState>,
    committed: Condvar,
    /// Wakes the task that sends notifications.
    outgoing: Arc<Notify>,
}

#[derive(Default)]
struct NotifierState {
    revision: u64,
    is_listening: bool,
}

impl Notifier {
    /// Starts the task that listens and sends. It ends with the notifier.
    pub(super) fn start(target: &ServerTarget, runtime: &Handle) -> Arc<Self> {
        let outgoing = Arc::new(Notify::new());
        let notifier = Arc::new(Self {
            state: Mutex::default(),
            committed: Condvar::new(),
            outgoing: Arc::clone(&outgoing),
        });
        let (target, weak) = (target.clone(), Arc::downgrade(&notifier));
        runtime.spawn(async move {
            while weak.strong_count() > 0 {
                // An error ends the connection; the next one reports everything that happened since.
                drop(exchange(&target, &weak, &outgoing).await);
                if let Some(notifier) = weak.upgrade() {
                    notifier.set_listening(false);
                }
                sleep(RECONNECT).await;
            }
        });
        notifier
    }

    /// Waits until the listener is connected, so that no commit after this call is missed.
    pub(super) fn wait_for_listener(&self, timeout: Duration) {
        let is_deaf = |state: &mut NotifierState| !state.is_listening;
        drop(self.committed.wait_timeout_while(self.lock(), timeout, is_deaf));
    }

    pub(super) fn revision(&self) -> Revision {
        Revision(self.lock().revision)
    }

    /// Records a commit of this process and tells the others.
    pub(super) fn committed(&self) {
        self.increment();
        self.outgoing.notify_one();
    }

    /// Makes every waiting caller return.
    pub(super) fn increment(&self) {
        self.lock().revision += 1;
        self.committed.notify_all();
    }

    pub(super) fn wait(&self, seen: Revision, timeout: Duration) -> Revision {
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            let left = timeout.saturating_sub(started.elapsed());
            if state.revision != seen.0 || left.is_zero() {
                return Revision(state.revision);
            }
            let (waits, is_deaf) = (left.min(POLL), !state.is_listening);
            let (next, timed_out) =
                self.committed.wait_timeout(state, waits).unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timed_out.timed_out() && is_deaf && !state.is_listening && waits == POLL {
                state.revision += 1;
            }
        }
    }

    /// A new listener may have missed commits.
    fn set_listening(&self, is_listening: bool) {
        let mut state = self.lock();
        if is_listening != state.is_listening {
            state.is_listening = is_listening;
            state.revision += 1;
            drop(state);
            self.committed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, NotifierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.outgoing.notify_one();
    }
}

/// Listens and sends on one connection until it breaks or the notifier is dropped.
async fn exchange(
    target: &ServerTarget,
    weak: &Weak<Notifier>,
    outgoing: &Notify,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = target.config.connect(target.tls.clone()).await?;
    let (listener, channel) = (weak.clone(), target.schema.clone());
    let own_backend = Arc::new(AtomicI32::new(0));
    let own = Arc::clone(&own_backend);
    let name = channel.clone();
    let mut receiver = tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            let AsyncMessage::Notification(notification) = message else { continue };
            // Commits of this process are counted when they return.
            let is_own = notification.process_id() == own.load(Ordering::Acquire);
            if !is_own && notification.channel() == name {
                let Some(notifier) = listener.upgrade() else { break };
                notifier.increment();
            }
        }
    });
    let row = client.query_one("SELECT pg_backend_pid()", &[]).await?;
    own_backend.store(row.get(0), Ordering::Release);
    client.batch_execute(&format!("LISTEN {channel}")).await?;
    if let Some(notifier) = weak.upgrade() {
        notifier.set_listening(true);
    }
    let send = async {
        loop {
            outgoing.notified().await;
            if weak.strong_count() == 0 {
                return Ok(());
            }
            client.batch_execute(&format!("NOTIFY {channel}")).await?;
            sleep(INTERVAL).await;
        }
    };
    let ended = tokio::select! {
        sent = send => sent,
        _ = &mut receiver => Ok(()),
    };
    receiver.abort();
    ended
}
