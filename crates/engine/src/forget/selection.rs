//! Finds the items of a conversation that a forget selects, and those that stay.

use std::collections::BTreeSet;

use treering_core::ports::{Span, StoreResult};
use treering_core::{
    Conversation, ConversationId, ExternalId, Invalid, ItemSelection, Message, MessageIdx,
    MessageVersion, Reader, Tombstone, ToolCall, TurnNo,
};

/// Messages per page.
const PAGE: usize = 1000;

/// The items of a conversation to forget.
#[derive(Default)]
pub(super) struct SelectedItems {
    pub(super) messages: Vec<Message>,
    pub(super) calls: Vec<ToolCall>,
}

impl SelectedItems {
    /// The turns that lose something.
    pub(super) fn turns(&self) -> impl Iterator<Item = TurnNo> {
        let of_messages = self.messages.iter().map(|message| message.turn);
        of_messages.chain(self.calls.iter().map(|call| call.turn))
    }

    pub(super) fn tombstones(&self, id: ConversationId) -> impl Iterator<Item = Tombstone> {
        let of_messages = self.messages.iter().filter_map(|it| it.body.external_id.as_ref());
        let of_calls = self.calls.iter().filter_map(|it| it.call.external_id.as_ref());
        let both = move |external: &ExternalId| {
            [Tombstone::Item(id, external.clone()), Tombstone::UniqueItem(external.clone())]
        };
        of_messages.chain(of_calls).flat_map(both)
    }
}

/// Refuses a message, turn or thread that the conversation does not have.
pub(super) fn check_exists(it: &Conversation, selection: &ItemSelection) -> Result<(), Invalid> {
    let (messages, turns) = (it.totals.messages, it.totals.turns);
    let beyond = |what: &str, number: u32, count: u32| {
        let subject = format!("{what} {number} of {}", it.slug);
        Err(Invalid::new(subject, format!("it has {count} {what}s, counted from 0")))
    };
    match selection {
        ItemSelection::Message(idx) | ItemSelection::Range(idx, _) if idx.0 >= messages => {
            beyond("message", idx.0, messages)
        }
        ItemSelection::Turn(turn) if turn.0 >= turns => beyond("turn", turn.0, turns),
        ItemSelection::Thread(name) if it.threads.iter().all(|thread| thread.name != *name) => {
            let names: Vec<&str> = it.threads.iter().map(|thread| thread.name.as_str()).collect();
            let subject = format!("thread {:?} of {}", name.as_str(), it.slug);
            Err(Invalid::new(subject, format!("its threads are {}", names.join(", "))))
        }
        _ => Ok(()),
    }
}

/// The items of a selection that are not forgotten yet.
pub(super) fn select(
    reader: &dyn Reader,
    id: ConversationId,
    selection: &ItemSelection,
) -> StoreResult<SelectedItems> {
    let next = |idx: MessageIdx| MessageIdx(idx.0.saturating_add(1));
    let turns = |turn: TurnNo| Span::between(turn, TurnNo(turn.0.saturating_add(1)));
    let mut messages = match selection {
        ItemSelection::Message(idx) => reader.messages(id, Span::between(*idx, next(*idx)))?,
        ItemSelection::Range(first, last) => {
            reader.messages(id, Span::between(*first, next(*last)))?
        }
        ItemSelection::Turn(turn) => match reader.turns(id, turns(*turn))?.first() {
            Some(turn) => reader.messages(id, Span::between(turn.from, turn.until))?,
            None => Vec::new(),
        },
        ItemSelection::Thread(_) | ItemSelection::Author(_) => {
            select_messages(reader, id, |message| selection.has_message(message))?
        }
        ItemSelection::Secrets => return select_secrets(reader, id),
    };
    messages.retain(|message| selection.has_message(message) && !message.body.forgotten);
    let mut calls = match selection {
        ItemSelection::Message(_) | ItemSelection::Author(_) => Vec::new(),
        ItemSelection::Turn(turn) => reader.tool_calls(id, turns(*turn))?,
        ItemSelection::Range(..) | ItemSelection::Thread(_) | ItemSelection::Secrets => {
            reader.tool_calls(id, Span::starting(TurnNo(0), usize::MAX))?
        }
    };
    calls.retain(|call| selection.has_call(call) && !call.call.is_forgotten());
    Ok(SelectedItems { messages, calls })
}

/// The items with secrets, also those that have one only in an earlier version.
fn select_secrets(reader: &dyn Reader, id: ConversationId) -> StoreResult<SelectedItems> {
    let versions = reader.versions(id, Span::starting(MessageIdx(0), usize::MAX))?;
    let secret = versions.iter().filter(|(_, version)| version.has_secret());
    let secret: BTreeSet<MessageIdx> = secret.map(|(idx, _)| *idx).collect();
    let secrets = ItemSelection::Secrets;
    let messages =
        select_messages(reader, id, |it| secrets.has_message(it) || secret.contains(&it.idx))?;
    let mut calls = reader.tool_calls(id, Span::starting(TurnNo(0), usize::MAX))?;
    calls.retain(|call| secrets.has_call(call));
    Ok(SelectedItems { messages, calls })
}

/// The messages of a conversation that meet a condition.
pub(super) fn select_messages(
    reader: &dyn Reader,
    id: ConversationId,
    mut is_selected: impl FnMut(&Message) -> bool,
) -> StoreResult<Vec<Message>> {
    let (mut selected, mut next) = (Vec::new(), MessageIdx(0));
    loop {
        let page = reader.messages(id, Span::starting(next, PAGE))?;
        let Some(last) = page.last() else { return Ok(selected) };
        next = MessageIdx(last.idx.0 + 1);
        selected.extend(page.into_iter().filter(&mut is_selected));
    }
}

/// The first answer that `find` gives for a message that stays.
pub(super) fn first_remaining<T>(
    reader: &dyn Reader,
    id: ConversationId,
    forgotten: &BTreeSet<MessageIdx>,
    find: impl Fn(&Message) -> Option<T>,
) -> StoreResult<Option<T>> {
    let mut next = MessageIdx(0);
    loop {
        let page = reader.messages(id, Span::starting(next, PAGE))?;
        let Some(last) = page.last() else { return Ok(None) };
        next = MessageIdx(last.idx.0 + 1);
        let mut staying = page.iter().filter(|message| !forgotten.contains(&message.idx));
        if let Some(found) = staying.find_map(&find) {
            return Ok(Some(found));
        }
    }
}

/// The earlier versions of messages.
pub(super) fn versions_of(
    reader: &dyn Reader,
    id: ConversationId,
    of: &BTreeSet<MessageIdx>,
) -> StoreResult<Vec<MessageVersion>> {
    let versions = reader.versions(id, Span::starting(MessageIdx(0), usize::MAX))?;
    let chosen = versions.into_iter().filter(|(idx, _)| of.contains(idx));
    Ok(chosen.map(|(_, version)| version).collect())
}
