//! The terms of a query that an index searches.

use treering_core::fusion::is_common;
use treering_core::{Literal, QuestionTerm};

use super::filter::Filter;
use super::index::ItemIndex;

/// Drops the terms that more than half of all items contain, before their long posting lists are
/// read, unless no other term is left.
pub(super) fn leave_out_common(index: &ItemIndex, filter: &Filter, terms: &mut Vec<&QuestionTerm>) {
    if filter.conversations.is_some() {
        return;
    }
    let items = index.live_items();
    let is_common = |term: &&QuestionTerm| is_common(items, index.doc_freq(term.id));
    if !terms.iter().filter(|term| !term.is_question_word).all(is_common) {
        terms.retain(|term| !is_common(term));
    }
}

/// The bit mask of a literal's terms; none if no term is searched.
pub(super) fn mask(literal: &Literal, terms: &[&QuestionTerm]) -> Option<u32> {
    let is_in = |term: &QuestionTerm| literal.terms.contains(&term.id);
    let bits = terms.iter().enumerate().filter(|(_, term)| is_in(term));
    let mask = bits.fold(0, |mask, (index, _)| mask | 1 << index);
    (mask != 0).then_some(mask)
}
