//! Exports conversations with all their contents, in order of arrival.

use std::result::Result;

use treering_core::capture::opens_turn;
use treering_core::ports::{ConversationFilter, ConversationQuery, Span, StoreResult};
use treering_core::{
    Conversation, ConversationId, ExportItem, Message, MessageIdx, Reader, Role, Thread,
    ThreadName, Timestamp, ToolCall, TurnNo,
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
        let open_turns = vec![None; conversation.threads.len()];
        let mut threads = Threads { all: &conversation.threads, exported: 0, open_turns };
        let mut next = MessageIdx(0);
        loop {
            let page = messages_with_history(reader, id, next, PAGE).map_err(Error::from)?;
            for message in &page {
                while let Some(call) = calls.next_if(|call| call.before <= message.idx) {
                    threads.tool_call(call, take)?;
                }
                threads.message(message, take)?;
                next = MessageIdx(message.idx.0 + 1);
            }
            if page.len() < PAGE {
                break;
            }
        }
        for call in calls {
            threads.tool_call(call, take)?;
        }
        if let Some(last) = conversation.threads.last() {
            threads.open(&last.name, take)?;
        }
        let mut ended = conversation.threads.iter().filter(|thread| thread.turn_ended);
        ended.try_for_each(|thread| take(ExportItem::TurnEnd(&thread.name)))
    }
}

/// A page of messages, with their earlier versions.
fn messages_with_history(
    reader: &dyn Reader,
    id: ConversationId,
    from: MessageIdx,
    limit: usize,
) -> StoreResult<Vec<Message>> {
    let mut messages = reader.messages(id, Span::starting(from, limit))?;
    let Some(last) = messages.last() else { return Ok(messages) };
    for (idx, version) in reader.versions(id, Span::between(from, MessageIdx(last.idx.0 + 1)))? {
        let message = messages.iter_mut().find(|message| message.idx == idx);
        message.into_iter().for_each(|it| it.body.history.push(version.clone()));
    }
    Ok(messages)
}

/// The threads of a conversation, exported in the order of their creation and before their
/// contents.
struct Threads<'a> {
    all: &'a [Thread],
    exported: usize,
    /// The latest turn of each thread, as exported so far.
    open_turns: Vec<Option<OpenTurn>>,
}

/// The properties of a turn that decide whether the next item continues it.
#[derive(Clone, Copy)]
struct OpenTurn {
    no: TurnNo,
    answered: bool,
    ended_at: Timestamp,
}

impl Threads<'_> {
    fn message<E>(
        &mut self,
        message: &Message,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (body, name) = (&message.body, &message.thread);
        self.open(name, take)?;
        self.enter_turn(name, message.turn, Some(body.role), body.at, take)?;
        let index = self.index_of(name);
        if let Some(Some(turn)) = self.open_turns.get_mut(index) {
            turn.answered |= body.is_answer();
        }
        take(ExportItem::Message(message))
    }

    fn tool_call<E>(
        &mut self,
        call: &ToolCall,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(&call.thread, take)?;
        self.enter_turn(&call.thread, call.turn, None, call.call.at, take)?;
        take(ExportItem::ToolCall(call))
    }

    /// Exports the end of the previous turn if the next item would not show it.
    fn enter_turn<E>(
        &mut self,
        name: &ThreadName,
        no: TurnNo,
        role: Option<Role>,
        at: Timestamp,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let index = self.index_of(name);
        let Some(latest) = self.open_turns.get_mut(index) else { return Ok(()) };
        match latest {
            Some(turn) if turn.no == no => turn.ended_at = turn.ended_at.max(at),
            _ => {
                let before = latest.replace(OpenTurn { no, answered: false, ended_at: at });
                if before.is_some_and(|it| !opens_turn(it.answered, it.ended_at, role, at)) {
                    take(ExportItem::TurnEnd(name))?;
                }
            }
        }
        Ok(())
    }

    fn index_of(&self, name: &ThreadName) -> usize {
        self.all.iter().position(|thread| thread.name == *name).unwrap_or(0)
    }

    fn open<E>(
        &mut self,
        name: &ThreadName,
        take: &mut dyn FnMut(ExportItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let index = self.index_of(name);
        for thread in
            self.all.iter().take(index + 1).skip(self.exported).filter(|it| it.fork.is_some())
        {
            take(ExportItem::Thread(thread))?;
        }
        self.exported = self.exported.max(index + 1);
        Ok(())
    }
}
