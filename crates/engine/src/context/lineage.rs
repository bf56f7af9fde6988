//! Lineage: the messages visible in a thread, its own and those before its fork.

use treering_core::{Conversation, Message, ThreadName, Window};

/// A thread and its ancestors, each with the end of its visible messages.
#[derive(Clone)]
pub(super) struct Lineage(pub(super) Vec<(ThreadName, u32)>);

impl Lineage {
    /// The thread and its ancestors, each up to the fork.
    pub(super) fn of(conversation: &Conversation, thread: &ThreadName) -> Self {
        let mut line = vec![(thread.clone(), u32::MAX)];
        let mut at = thread.clone();
        // The number of threads bounds the walk: a thread forks only from an earlier one.
        for _ in 0..conversation.threads.len() {
            let found = conversation.threads.iter().find(|it| it.name == at);
            let Some(fork) = found.and_then(|it| it.fork.as_ref()) else { break };
            line.push((fork.parent.clone(), fork.after.map_or(0, |after| after.0 + 1)));
            at = fork.parent.clone();
        }
        let mut least = u32::MAX;
        for (_, until) in &mut line {
            least = least.min(*until);
            *until = least;
        }
        Self(line)
    }

    pub(super) fn holds(&self, message: &Message) -> bool {
        self.0.iter().any(|(thread, until)| *thread == message.thread && message.idx.0 < *until)
    }

    pub(super) fn holds_window(&self, window: &Window) -> bool {
        self.0.iter().any(|(thread, until)| *thread == window.thread && window.end().0 <= *until)
    }
}
