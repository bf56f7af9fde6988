//! Recognizes entries that are already stored, by position, by content or in other conversations.

use std::collections::{HashMap, HashSet};

use treering_core::capture::{CountedEntry, ids_of};
use treering_core::ports::{Span, StoreResult};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationKey, ConversationTotals, EntryKind,
    EntryOutcome, Message, MessageIdx, Reader, Role, ThreadName,
};

use super::AppendPlanner;

impl AppendPlanner {
    /// Whether the stored messages and the entries agree over their common length. A forgotten or
    /// edited message agrees with any.
    pub(super) fn has_same_prefix(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
    ) -> StoreResult<bool> {
        let stored = stored_messages(reader, &self.key(conversation.id))?;
        let entries = self.entries.iter().filter_map(message_hash);
        let agrees = |(stored, entry): (StoredMessage, ContentHash)| match stored {
            StoredMessage::Forgotten | StoredMessage::Edited => true,
            StoredMessage::Original(hash) => hash == entry,
        };
        Ok(stored.into_iter().zip(entries).all(agrees))
    }

    /// The outcomes of the entries that the conversation already has, matched by position.
    pub(super) fn match_by_position(
        &self,
        reader: &dyn Reader,
        key: &ConversationKey,
        totals: ConversationTotals,
    ) -> StoreResult<Vec<Option<EntryOutcome>>> {
        let mut stored = stored_messages(reader, key)?.into_iter();
        let mut calls = totals.tool_calls;
        let matched = self.entries.iter().map(|entry| match &entry.kind {
            EntryKind::Message(message) => {
                let outcome = match stored.next()? {
                    StoredMessage::Forgotten => EntryOutcome::Forgotten,
                    StoredMessage::Edited => EntryOutcome::AlreadyStored,
                    StoredMessage::Original(hash) if hash == message.hash => {
                        EntryOutcome::AlreadyStored
                    }
                    StoredMessage::Original(_) => EntryOutcome::ContentDiffers,
                };
                message.body.external_id.is_none().then_some(outcome)
            }
            // A call with an external id is matched by it, so that a missing result can be added.
            EntryKind::ToolCall(call) => {
                let before = calls > 0;
                calls = calls.saturating_sub(1);
                (before && call.external_id.is_none()).then_some(EntryOutcome::AlreadyStored)
            }
            // Only the end after the last stored message can be new.
            EntryKind::TurnEnd => (stored.len() > 0).then_some(EntryOutcome::TurnEnded),
            EntryKind::ToolResult { .. } | EntryKind::Fork { .. } => None,
        });
        Ok(matched.collect())
    }

    /// The outcomes of the entries that the conversation already has. If it has ids, a turn is known
    /// by its prompt, otherwise by its position. A turn whose prompt is not stored stays out if it may
    /// be one that was forgotten or edited.
    pub(super) fn match_by_prompt(
        &self,
        reader: &dyn Reader,
        key: &ConversationKey,
        totals: ConversationTotals,
    ) -> StoreResult<Vec<Option<EntryOutcome>>> {
        let (mut has_ids, mut changed) = (false, None);
        let mut prompts: HashMap<String, usize> = HashMap::new();
        each_stored(reader, key, |message| {
            let body = &message.body;
            has_ids |= body.external_id.is_some() || body.forgotten;
            match body.role {
                Role::User if body.forgotten => changed = Some(EntryOutcome::Forgotten),
                Role::User if body.edited_at.is_some() => {
                    changed = changed.or(Some(EntryOutcome::ContentDiffers));
                }
                Role::User => *prompts.entry(body.text.trim().to_owned()).or_default() += 1,
                _ => {}
            }
        })?;
        if !has_ids {
            return self.match_by_position(reader, key, totals);
        }
        let mut outcome = Some(EntryOutcome::AlreadyStored);
        let matched = self.entries.iter().map(|entry| {
            if let EntryKind::Message(message) = &entry.kind
                && message.body.role == Role::User
            {
                outcome = match prompts.get_mut(message.body.text.trim()) {
                    Some(left) if *left > 0 => {
                        *left -= 1;
                        Some(EntryOutcome::AlreadyStored)
                    }
                    _ => changed,
                };
            }
            match entry.kind {
                EntryKind::TurnEnd => outcome.map(|_| EntryOutcome::TurnEnded),
                _ => outcome,
            }
        });
        Ok(matched.collect())
    }

    /// The outcomes of the entries that belong to another conversation.
    pub(super) fn match_elsewhere(
        &self,
        reader: &dyn Reader,
        conversation_id: ConversationId,
    ) -> StoreResult<Vec<Option<EntryOutcome>>> {
        let entries = &self.entries;
        let mut owners = reader.owners(&ids_of(entries))?.into_iter();
        // The threads whose last entry belongs to another conversation, as does its turn's end.
        let mut other_threads: HashSet<&ThreadName> = HashSet::new();
        let matched = entries.iter().map(|entry| {
            if entry.kind == EntryKind::TurnEnd {
                return other_threads.contains(&entry.thread).then_some(EntryOutcome::TurnEnded);
            }
            let owner = entry.external_id().and_then(|_| owners.next().flatten());
            let forks = matches!(entry.kind, EntryKind::Fork { .. });
            let is_elsewhere = owner.is_some_and(|owner| owner != conversation_id) && !forks;
            if is_elsewhere {
                other_threads.insert(&entry.thread);
            } else {
                other_threads.remove(&entry.thread);
            }
            is_elsewhere.then_some(EntryOutcome::InOtherConversation)
        });
        Ok(matched.collect())
    }
}

/// A stored message, to be compared with the source.
enum StoredMessage {
    /// As it came.
    Original(ContentHash),
    /// Its content was forgotten.
    Forgotten,
    /// The text at the source is another one.
    Edited,
}

fn stored_messages(reader: &dyn Reader, key: &ConversationKey) -> StoreResult<Vec<StoredMessage>> {
    let mut stored = Vec::new();
    each_stored(reader, key, |message| {
        stored.push(match &message.body {
            body if body.forgotten => StoredMessage::Forgotten,
            body if body.edited_at.is_some() => StoredMessage::Edited,
            _ => StoredMessage::Original(message.hash),
        });
    })?;
    Ok(stored)
}

/// Visits the stored messages in order.
fn each_stored(
    reader: &dyn Reader,
    key: &ConversationKey,
    mut visit: impl FnMut(&Message),
) -> StoreResult<()> {
    const PAGE: usize = 1000;
    let mut next = MessageIdx(0);
    loop {
        let page = reader.messages(key.id, Span::starting(next, PAGE))?;
        page.iter().for_each(&mut visit);
        match page.last() {
            Some(last) if page.len() == PAGE => next = MessageIdx(last.idx.0 + 1),
            _ => return Ok(()),
        }
    }
}

pub(super) fn message_hash(entry: &CountedEntry) -> Option<ContentHash> {
    match &entry.kind {
        EntryKind::Message(message) => Some(message.hash),
        _ => None,
    }
}
