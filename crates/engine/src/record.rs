//! The record of a conversation: everything in it, in the order it arrived.

use treering_core::conversation::Thread;
use treering_core::ports::Span;
use treering_core::{ConversationId, Message, MessageIdx, ThreadName, ToolCall, TurnNo};

use crate::error::Result;
use crate::memory::Memory;

/// One entry of a record.
#[derive(Debug, Clone, Copy)]
pub enum Recorded<'a> {
    /// A thread leaves another.
    Thread(&'a Thread),
    /// Something was said.
    Message(&'a Message),
    /// A tool was called.
    ToolCall(&'a ToolCall),
}

impl Memory {
    /// Hands over everything in a conversation in the order it arrived. What stores the record
    /// again gets the same conversation.
    pub fn record<E: From<crate::Error>>(
        &self,
        id: ConversationId,
        mut take: impl FnMut(Recorded<'_>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const PAGE: usize = 500;
        let (threads, calls) = self.threads_and_calls(id)?;
        let mut calls = calls.iter().peekable();
        let mut opened = 0;
        let mut open =
            |name: &ThreadName, take: &mut dyn FnMut(Recorded<'_>) -> std::result::Result<(), E>| {
                let place = threads.iter().position(|thread| thread.name == *name).unwrap_or(0);
                while opened <= place {
                    if threads.get(opened).is_some_and(|thread| thread.fork.is_some()) {
                        take(Recorded::Thread(&threads[opened]))?;
                    }
                    opened += 1;
                }
                Ok::<(), E>(())
            };
        let mut next = MessageIdx(0);
        loop {
            let page = self.messages(id, Span::starting(next, PAGE))?;
            for message in &page {
                while let Some(call) = calls.next_if(|call| call.before <= message.idx) {
                    open(&call.thread, &mut take)?;
                    take(Recorded::ToolCall(call))?;
                }
                open(&message.thread, &mut take)?;
                take(Recorded::Message(message))?;
                next = MessageIdx(message.idx.0 + 1);
            }
            if page.len() < PAGE {
                break;
            }
        }
        for call in calls {
            open(&call.thread, &mut take)?;
            take(Recorded::ToolCall(call))?;
        }
        if let Some(last) = threads.last() {
            open(&last.name, &mut take)?;
        }
        Ok(())
    }

    fn threads_and_calls(&self, id: ConversationId) -> Result<(Vec<Thread>, Vec<ToolCall>)> {
        let (reader, key) = (self.store().reader()?, self.key(id));
        let threads = reader.conversation(&key)?.map(|conversation| conversation.threads);
        let mut calls = reader.tool_calls(&key, Span::starting(TurnNo(0), usize::MAX))?;
        // Where turns of several threads overlap, position decides.
        calls.sort_by_key(|call| call.before);
        Ok((threads.unwrap_or_default(), calls))
    }
}
