//! Lineage: the messages visible in a context. For a thread, its own and those before its fork;
//! for the whole conversation, those of all threads.

use treering_core::{Conversation, Message, ThreadName, Window};

/// The visible part of a thread.
#[derive(Clone)]
pub(super) struct Ancestry {
    pub(super) thread: ThreadName,
    /// A position before which the thread has no message.
    pub(super) from: u32,
    /// One past the last visible position.
    pub(super) until: u32,
}

/// The visible threads of a conversation.
#[derive(Clone)]
pub(super) struct Lineage {
    threads: Vec<Ancestry>,
    is_whole: bool,
}

impl Lineage {
    /// The thread and its ancestors, each up to the fork.
    pub(super) fn of(conversation: &Conversation, thread: &ThreadName) -> Self {
        let (mut threads, mut at, mut until) = (Vec::new(), thread.clone(), u32::MAX);
        // The number of threads bounds the walk: a thread forks only from an earlier one.
        for _ in 0..=conversation.threads.len() {
            let from = first_position(conversation, &at);
            threads.push(Ancestry { thread: at.clone(), from, until });
            let found = conversation.threads.iter().find(|it| it.name == at);
            let Some(fork) = found.and_then(|it| it.fork.as_ref()) else { break };
            until = until.min(fork.after.map_or(0, |after| after.0 + 1));
            at = fork.parent.clone();
        }
        Self { threads, is_whole: false }
    }

    /// All threads.
    pub(super) fn whole(conversation: &Conversation) -> Self {
        let visible = |thread: &ThreadName| Ancestry {
            thread: thread.clone(),
            from: first_position(conversation, thread),
            until: u32::MAX,
        };
        let threads = conversation.threads.iter().map(|it| visible(&it.name));
        Self { threads: threads.collect(), is_whole: true }
    }

    pub(super) fn threads(&self) -> &[Ancestry] {
        &self.threads
    }

    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether a message is visible. A placeholder has nothing to show.
    pub(super) fn holds(&self, message: &Message) -> bool {
        let is_in = || {
            self.threads.iter().any(|it| it.thread == message.thread && message.idx.0 < it.until)
        };
        !message.body.forgotten && (self.is_whole || is_in())
    }

    pub(super) fn holds_window(&self, window: &Window) -> bool {
        self.is_whole
            || self
                .threads
                .iter()
                .any(|it| it.thread == window.thread && window.end().0 <= it.until)
    }
}

/// A position before which a thread has no message: messages of a fork follow the fork point.
fn first_position(conversation: &Conversation, thread: &ThreadName) -> u32 {
    let found = conversation.threads.iter().find(|it| it.name == *thread);
    let fork = found.and_then(|it| it.fork.as_ref());
    fork.and_then(|fork| fork.after).map_or(0, |after| after.0 + 1)
}
