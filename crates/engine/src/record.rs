//! The record of a conversation: everything in it, in the order it arrived.

use std::collections::HashMap;

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
    /// A tool was called, in this thread.
    ToolCall(&'a ThreadName, &'a ToolCall),
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
        let Parts { threads, calls, of_turn } = self.parts(id)?;
        let mut calls = calls.iter().peekable();
        let mut opened = 0;
        let mut open = |name: &ThreadName, take: &mut dyn FnMut(Recorded<'_>) -> std::result::Result<(), E>| {
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
                    let thread = &of_turn[&call.turn];
                    open(thread, &mut take)?;
                    take(Recorded::ToolCall(thread, call))?;
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
            let thread = &of_turn[&call.turn];
            open(thread, &mut take)?;
            take(Recorded::ToolCall(thread, call))?;
        }
        if let Some(last) = threads.last() {
            open(&last.name, &mut take)?;
        }
        Ok(())
    }

    fn parts(&self, id: ConversationId) -> Result<Parts> {
        let (reader, key) = (self.store().reader()?, self.key(id));
        let everything = Span::starting(TurnNo(0), usize::MAX);
        let turns = reader.turns(&key, everything)?;
        let mut calls = reader.tool_calls(&key, everything)?;
        // A call is of a turn; where turns of several threads overlap, position decides.
        calls.sort_by_key(|call| call.before);
        let mut of_turn: HashMap<TurnNo, ThreadName> =
            turns.into_iter().map(|turn| (turn.no, turn.thread)).collect();
        for call in &calls {
            of_turn.entry(call.turn).or_default();
        }
        Ok(Parts { threads: reader.threads(&key)?, calls, of_turn })
    }
}

struct Parts {
    threads: Vec<Thread>,
    calls: Vec<ToolCall>,
    of_turn: HashMap<TurnNo, ThreadName>,
}
