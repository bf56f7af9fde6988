//! A commit with the texts of its rows. They are made before the commit's turn has come, by whoever plans ahead: while
//! a leader writes, all others wait for it.

use treering_core::{Commit, Conversation, Job, TenantId, Write};

use super::threads;
use super::tree_write::{text_of, work_of};

/// What is to be written, as far as it is known without the transaction that it is written in. What is left of it
/// afterwards is for its owner to drop.
pub(super) struct Ready {
    pub(super) tenant: TenantId,
    pub(super) steps: Vec<Step>,
}

/// A write, with the texts that take time to make.
pub(super) enum Step {
    PutConversation(Conversation, Option<RowTexts>),
    AddJob(Job, String),
    Other(Write),
}

/// What is text in the row of a conversation, but for where its latest messages are.
pub(super) struct RowTexts {
    pub(super) participants: String,
    pub(super) threads: String,
    pub(super) policy: String,
    pub(super) growth: String,
}

impl RowTexts {
    pub(super) fn of(it: &Conversation) -> rusqlite::Result<Self> {
        Ok(Self {
            participants: text_of(&it.participants)?,
            threads: threads::write(&it.threads)?,
            policy: text_of(&it.policy)?,
            growth: text_of(&it.growth)?,
        })
    }
}

impl Ready {
    /// A commit as it is.
    pub(super) fn plain(commit: Commit) -> Self {
        let Commit { tenant, writes } = commit;
        Self { tenant, steps: writes.into_iter().map(Step::Other).collect() }
    }

    /// A commit with the texts of its rows.
    pub(super) fn with_texts(commit: Commit) -> rusqlite::Result<Self> {
        let Commit { tenant, writes } = commit;
        let steps = writes.into_iter().map(Step::with_texts).collect::<rusqlite::Result<_>>()?;
        Ok(Self { tenant, steps })
    }
}

impl Step {
    fn with_texts(write: Write) -> rusqlite::Result<Self> {
        Ok(match write {
            Write::PutConversation(conversation) => {
                let texts = RowTexts::of(&conversation)?;
                Self::PutConversation(conversation, Some(texts))
            }
            Write::AddJob(job) => {
                let work = work_of(&job.kind)?;
                Self::AddJob(job, work)
            }
            other => Self::Other(other),
        })
    }
}
