//! Exports conversations with all their contents, in order of arrival.

use std::result::Result;

use treering_core::ports::{ConversationFilter, ConversationQuery, Span};
use treering_core::{
    Conversation, ConversationId, ExportItem, MessageIdx, Reader, Thread, ThreadName, TurnNo,
};

use crate::engine::Engine;
use crate::error::Error;

impl Engine {
    /// Passes the chosen conversations, or all of them if none is chosen, to `take`, from one
    /// snapshot. Appending the items in this order reproduces the conversation.
    pub fn export<E: From<Error>>(
        &self,
        chosen: &[ConversationId],
        mut take: impl FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        const PAGE: usize = 200;
        let reader = self.reader().map_err(Error::from)?;
        for id in chosen {
            if let Some(conversation) = reader.conversation(*id).map_err(Error::from)? {
                self.export_one(&*reader, &conversation, &mut take)?;
            }
        }
        if !chosen.is_empty() {
            return Ok(());
        }
        let mut filter = ConversationFilter::all(PAGE);
        loop {
            let page =
                reader.conversations(&ConversationQuery::List(&filter)).map_err(Error::from)?;
            page.iter()
                .try_for_each(|conversation| self.export_one(&*reader, conversation, &mut take))?;
            match page.last() {
                Some(last) if page.len() == PAGE => {
                    filter.after = Some((last.last_activity, last.id));
                }
                _ => return Ok(()),
            }
        }
    }

    fn export_one<E: From<Error>>(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        const PAGE: usize = 500;
        take(ExportItem::Conversation(conversation))?;
        let id = conversation.id;
        let all = Span::starting(TurnNo(0), usize::MAX);
        let mut calls = reader.tool_calls(id, all).map_err(Error::from)?;
        // If turns of several threads overlap, the position decides.
        calls.sort_by_key(|call| call.before);
        let mut calls = calls.iter().peekable();
        let mut threads = Threads { all: &conversation.threads, opened: 0 };
        let mut next = MessageIdx(0);
        loop {
            let page = reader.messages(id, Span::starting(next, PAGE)).map_err(Error::from)?;
            for message in &page {
                while let Some(call) = calls.next_if(|call| call.before <= message.idx) {
                    threads.open(&call.thread, take)?;
                    take(ExportItem::ToolCall(call))?;
                }
                threads.open(&message.thread, take)?;
                take(ExportItem::Message(message))?;
                next = MessageIdx(message.idx.0 + 1);
            }
            if page.len() < PAGE {
                break;
            }
        }
        for call in calls {
            threads.open(&call.thread, take)?;
            take(ExportItem::ToolCall(call))?;
        }
        conversation.threads.last().map_or(Ok(()), |last| threads.open(&last.name, take))
    }
}

/// The threads of a conversation, exported in the order of their creation and before their
/// contents.
struct Threads<'a> {
    all: &'a [Thread],
    opened: usize,
}

impl Threads<'_> {
    fn open<E>(
        &mut self,
        name: &ThreadName,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let place = self.all.iter().position(|thread| thread.name == *name).unwrap_or(0);
        for thread in
            self.all.iter().take(place + 1).skip(self.opened).filter(|it| it.fork.is_some())
        {
            take(ExportItem::Thread(thread))?;
        }
        self.opened = self.opened.max(place + 1);
        Ok(())
    }
}
