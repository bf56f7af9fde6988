//! Recognizes entries that were forgotten, so that an import does not bring them back.

use std::collections::HashSet;

use treering_core::capture::ids_of;
use treering_core::ports::StoreResult;
use treering_core::{
    Conversation, ConversationId, EntryKind, EntryOutcome, ExternalId, Invalid, MessageIdx, Reader,
    ThreadName, Tombstone, Write,
};

use super::matching::message_hash;
use super::{AppendPlanner, AppendReport, ReplayDetection};

impl AppendPlanner {
    /// Whether a conversation that does not exist was forgotten.
    pub(super) fn is_forgotten(
        &self,
        reader: &dyn Reader,
        new: &Conversation,
    ) -> StoreResult<bool> {
        let mut tombstones = vec![Tombstone::Conversation(new.id)];
        tombstones.extend(new.external_id.clone().map(Tombstone::Source));
        Ok(reader.audit().are_forgotten(&tombstones)?.contains(&true))
    }

    /// Whether a conversation with the same external id but other messages was forgotten.
    pub(super) fn is_of_other(&self, reader: &dyn Reader, new: &Conversation) -> StoreResult<bool> {
        let Some(source) = &new.external_id else { return Ok(false) };
        let hashes = (0..).map(MessageIdx).zip(self.entries.iter().filter_map(message_hash));
        let mut tombstones =
            vec![Tombstone::Source(source.clone()), Tombstone::AnyOpening(source.clone())];
        tombstones.extend(hashes.map(|(idx, hash)| Tombstone::Opening(source.clone(), idx, hash)));
        let mut forgotten = reader.audit().are_forgotten(&tombstones)?.into_iter();
        Ok(forgotten.next() == Some(true) && !forgotten.any(|is_same| is_same))
    }

    /// The report on entries of a forgotten or excluded conversation: nothing is stored.
    pub(super) fn refuse(
        &self,
        conversation: Conversation,
        reason: EntryOutcome,
    ) -> StoreResult<(Vec<Write>, AppendReport)> {
        if self.entries.is_empty() {
            let reason = match reason {
                EntryOutcome::Excluded => "its folder is in capture.exclude_folders",
                _ => "it was forgotten; allow its return with `treering forget --allow-return`",
            };
            return Err(Invalid::new(format!("conversation {}", conversation.id), reason).into());
        }
        let outcome = |kind: &EntryKind<_>| match kind {
            EntryKind::TurnEnd => EntryOutcome::TurnEnded,
            _ => reason,
        };
        let outcomes = self.entries.iter().map(|entry| outcome(&entry.kind)).collect();
        Ok((Vec::new(), self.report(conversation, false, outcomes)))
    }

    /// Adds the outcomes of entries that were forgotten.
    pub(super) fn match_forgotten(
        &self,
        reader: &dyn Reader,
        id: ConversationId,
        matched: &mut [Option<EntryOutcome>],
    ) -> StoreResult<()> {
        let is_unique = self.matching == ReplayDetection::AcrossConversations;
        let tombstone = |external: &ExternalId| match is_unique {
            true => Tombstone::UniqueItem(external.clone()),
            false => Tombstone::Item(id, external.clone()),
        };
        let tombstones: Vec<Tombstone> = ids_of(&self.entries).into_iter().map(tombstone).collect();
        let mut forgotten = reader.audit().are_forgotten(&tombstones)?.into_iter();
        // The end of a forgotten turn must not end a later one.
        let mut in_forgotten: HashSet<&ThreadName> = HashSet::new();
        for (entry, outcome) in self.entries.iter().zip(matched) {
            let is_forgotten = match &entry.kind {
                EntryKind::TurnEnd => in_forgotten.contains(&entry.thread),
                kind => {
                    let is_known = entry.external_id().is_some() && forgotten.next() == Some(true);
                    // A thread may branch off a forgotten message.
                    is_known && !matches!(kind, EntryKind::Fork { .. })
                }
            };
            if outcome.is_none() && is_forgotten {
                let is_end = entry.kind == EntryKind::TurnEnd;
                *outcome =
                    Some(if is_end { EntryOutcome::TurnEnded } else { EntryOutcome::Forgotten });
            }
            match outcome {
                Some(EntryOutcome::Forgotten) => drop(in_forgotten.insert(&entry.thread)),
                _ => drop(in_forgotten.remove(&entry.thread)),
            }
        }
        Ok(())
    }
}
