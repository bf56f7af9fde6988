//! The pinned notes of a scope, which come first in its contexts.

use treering_core::packing::{DetailLevel, HeaderStyle, PackReason};
use treering_core::ports::{ItemRef, StoreResult, StoredItem};
use treering_core::{Conversation, ConversationKind, MessageIdx, Reader, ReceiptItem, Slice};

use super::context_cache::RenderedBlock;
use super::format::{ContextItem, ContextSection};
use super::render::{self, MessageBlock};
use super::scope::ContextScope;
use crate::engine::Engine;

const TITLE: &str = "Pinned notes";
/// Pinned notes take at most 1/N of the budget.
const SHARE: u32 = 2;

/// The section of pinned notes.
pub(super) struct PinnedNotes {
    pub(super) section: ContextSection,
    /// The receipt, with one item for each note of the section.
    pub(super) receipt: Vec<ReceiptItem>,
    /// The cost of the whole section in tokens.
    pub(super) cost: u32,
}

impl PinnedNotes {
    /// The pinned notes of a scope in time order; the latest if there is no room for all. `None`
    /// if there are none.
    pub(super) fn read(
        engine: &Engine,
        reader: &dyn Reader,
        scope: &ContextScope,
        budget: u32,
    ) -> StoreResult<Option<Self>> {
        let (cache, mut notes) = (engine.context_cache(), Vec::new());
        for conversation in conversations(engine, reader, scope)? {
            let pinned = (0..conversation.totals.messages).map(MessageIdx);
            let pinned = pinned.filter(|idx| conversation.is_pinned(*idx));
            let refs: Vec<_> = pinned.map(|idx| ItemRef::Message(conversation.id, idx)).collect();
            for item in reader.items(&refs)?.into_iter().flatten() {
                let StoredItem::Message(message) = item else { continue };
                if !message.is_left_out() {
                    let message = cache.recall.message(*message);
                    notes.push((conversation.slug.clone(), message));
                }
            }
        }
        notes.sort_by_key(|(_, message)| std::cmp::Reverse((message.body.at, message.idx)));
        let head = render::heading(TITLE);
        let all = notes.len();
        let mut left =
            (budget / SHARE).saturating_sub(cache.count(&head) + cache.count(&rest(all)));
        let (mut items, mut receipt, mut cost) = (Vec::new(), Vec::new(), cache.count(&head));
        for (slug, message) in &notes {
            let slice = Slice { idx: message.idx, from: 0, until: message.chars };
            let (calls, lead) = (&[][..], HeaderStyle::Day);
            let block = MessageBlock { message, slice, calls, lead, slug: Some(slug), part: None };
            let (block, tokens) = block.block(cache, DetailLevel::Text);
            let Some(less) = left.checked_sub(tokens) else { break };
            (left, cost) = (less, cost + tokens);
            let RenderedBlock { block, hash, tokens } = RenderedBlock::new(block, tokens);
            receipt.push(ReceiptItem {
                section: TITLE.to_owned(),
                conversation: Some(slug.clone()),
                level: 0,
                node: None,
                from: message.idx.0,
                until: message.idx.0 + 1,
                detail: DetailLevel::Text,
                reason: PackReason::Pinned,
                score: 0.0,
                tokens,
                hash,
            });
            items.push(ContextItem { block, messages: Vec::new(), hash, tokens });
        }
        if all == 0 {
            return Ok(None);
        }
        items.reverse();
        receipt.reverse();
        let note = (items.len() < all).then(|| rest(all - items.len()));
        cost += note.as_deref().map_or(0, |note| cache.count(note));
        let (is_volatile, is_latest) = (false, false);
        let heading = Some(TITLE.to_owned());
        let section = ContextSection { heading, head, note, items, is_volatile, is_latest };
        Ok(Some(Self { section, receipt, cost }))
    }
}

/// The line that counts the omitted notes.
fn rest(number: usize) -> String {
    format!("Pinned notes without room here: {number}.\n\n")
}

/// The conversations that hold the notes of a scope. Notes of no project belong to every scope.
fn conversations(
    engine: &Engine,
    reader: &dyn Reader,
    scope: &ContextScope,
) -> StoreResult<Vec<Conversation>> {
    let filter = &scope.filter;
    let is_everything =
        filter.labels.is_empty() && filter.cwd.is_none() && scope.conversations.is_empty();
    if filter.project.is_some() || is_everything {
        return engine.notes_in(reader, filter.project.as_deref());
    }
    let general = ConversationKind::Notes.id(engine.tenant(), None)?;
    Ok(reader.conversation(general)?.into_iter().collect())
}
