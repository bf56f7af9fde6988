//! Order that depends on the texts of the hits: literals as they were typed, and later statements
//! before those that they supersede.

use treering_core::ports::{ItemRef, SearchCandidate};
use treering_core::{
    COMPARED, ConversationId, MessageIdx, Question, Reader, Statement, share_as_typed, superseded,
};

use super::{Hit, HitItem};
use crate::error::Result;
use crate::recall::PastVersions;

/// Finds the literals of a question in the texts of the candidates that have their terms, and
/// ranks the candidates again.
pub(super) fn rank_as_typed(
    reader: &dyn Reader,
    question: &Question,
    versions: &PastVersions,
    candidates: &mut [SearchCandidate],
) -> Result<()> {
    let with_terms = || candidates.iter().enumerate().filter(|(_, it)| it.has_literal_terms);
    let refs: Vec<ItemRef> = with_terms().map(|(_, it)| it.item).collect();
    let positions: Vec<usize> = with_terms().map(|(position, _)| position).collect();
    if refs.is_empty() {
        return Ok(());
    }
    for (item, position) in reader.items(&refs)?.into_iter().zip(positions) {
        if let Some(item) = item.map(|item| HitItem::from(versions.restore_item(item))) {
            let share = share_as_typed(&question.literals, &item.text());
            candidates[position].signals.as_typed = share;
        }
    }
    candidates.sort_by(|a, b| b.signals.sum().total_cmp(&a.signals.sum()));
    Ok(())
}

/// Among the first hits, marks each statement that a later one supersedes, and moves the later
/// one before it. Weak hits supersede nothing.
pub(super) fn rank_latest_first(question: &Question, hits: &mut Vec<Hit>) {
    let is_compared =
        |(_, hit): &(usize, &Hit)| !hit.is_weak() && matches!(hit.item, HitItem::Message(_));
    let places: Vec<usize> = hits
        .iter()
        .enumerate()
        .take(COMPARED)
        .filter(is_compared)
        .map(|(place, _)| place)
        .collect();
    let statements: Vec<Statement<'_>> =
        places.iter().filter_map(|place| statement(&hits[*place])).collect();
    let newer = superseded(question, &statements);
    let pairs: Vec<(usize, usize)> = places
        .iter()
        .zip(newer)
        .filter_map(|(old, new)| new.map(|new| (*old, places[new])))
        .collect();
    let mut order: Vec<usize> = (0..hits.len()).collect();
    for (old, new) in pairs {
        hits[old].superseded_by = reference(&hits[new]);
        let position = |place: usize| order.iter().position(|other| *other == place);
        if let (Some(of_old), Some(of_new)) = (position(old), position(new))
            && of_new > of_old
        {
            order[of_old..=of_new].rotate_right(1);
        }
    }
    let mut taken: Vec<Option<Hit>> = hits.drain(..).map(Some).collect();
    hits.extend(order.into_iter().filter_map(|place| taken[place].take()));
}

fn statement(hit: &Hit) -> Option<Statement<'_>> {
    let HitItem::Message(message) = &hit.item else { return None };
    let body = &message.body;
    let author = (body.role, body.author.as_deref());
    Some(Statement { text: &body.text, at: body.at, author })
}

fn reference(hit: &Hit) -> Option<(ConversationId, MessageIdx)> {
    match &hit.item {
        HitItem::Message(message) => Some((hit.conversation, message.idx)),
        HitItem::ToolCall(_) | HitItem::Node(_) => None,
    }
}
