//! Marks the items that contain the terms of a query, from the posting lists.

use std::ops::Range;

use treering_core::QuestionTerm;

use super::filter::Filter;
use super::index::{ItemIndex, NO_EPISODE};
use super::past::PastConversation;

/// The terms of a query in each item, with counts.
pub(super) struct TermMatches {
    pub(super) holds: Vec<u32>,
    /// For each term the number of messages, and of episodes, that contain it.
    pub(super) messages: Vec<u32>,
    pub(super) episode_counts: Vec<u32>,
    pub(super) episode_term_counts: Vec<u16>,
}

/// Marks which items of a range contain which terms.
pub(super) fn term_matches(
    index: &ItemIndex,
    terms: &[&QuestionTerm],
    filter: &Filter,
    range: &Range<u32>,
) -> TermMatches {
    let mut matches = TermMatches {
        holds: vec![0; range.len()],
        messages: vec![0; terms.len()],
        episode_counts: vec![0; terms.len()],
        episode_term_counts: vec![0; index.episode_sizes.len() * terms.len()],
    };
    // Segment by segment, so that the marked items stay in the CPU cache.
    for segment in index.postings.segments(range) {
        for (term, question_term) in terms.iter().enumerate() {
            for id in question_term.ids() {
                let (base, run) = index.postings.run(id, segment, range);
                matches.add_run(index, filter, term, base, run, range.start as usize);
            }
        }
    }
    for (item, restored) in filter.past.iter().flat_map(PastConversation::restored) {
        for (term, question_term) in terms.iter().enumerate() {
            if question_term.ids().any(|id| restored.terms.binary_search(&id).is_ok()) {
                matches.holds[(item - range.start) as usize] |= 1 << term;
                matches.count(index.episode_of[item as usize], term, 1);
            }
        }
    }
    matches
}

impl TermMatches {
    /// Marks the items of a run as containing the term at a position.
    fn add_run(
        &mut self,
        index: &ItemIndex,
        filter: &Filter,
        term: usize,
        base: usize,
        run: &[u16],
        start: usize,
    ) {
        let scoped = filter.conversations.is_some();
        // Consecutive items mostly belong to one episode.
        let (mut episode, mut run_length) = (NO_EPISODE, 0);
        for item in run.iter().map(|item| base + usize::from(*item)) {
            if scoped {
                let number = item as u32;
                // An amended message has other terms in the past, which are added later.
                if !filter.in_scope(&index.items[item], number) || filter.restored(number).is_some()
                {
                    continue;
                }
            }
            let bits = &mut self.holds[item - start];
            if *bits >> term & 1 == 1 {
                // The item contains an alternative of the term too.
                continue;
            }
            *bits |= 1 << term;
            if index.episode_of[item] != episode {
                self.count(episode, term, run_length);
                (episode, run_length) = (index.episode_of[item], 0);
            }
            run_length += 1;
        }
        self.count(episode, term, run_length);
    }

    /// Counts messages of an episode that contain the term at a position.
    fn count(&mut self, episode: u32, term: usize, messages: u32) {
        if episode == NO_EPISODE || messages == 0 {
            return;
        }
        self.messages[term] += messages;
        let count = &mut self.episode_term_counts[episode as usize * self.messages.len() + term];
        self.episode_counts[term] += u32::from(*count == 0);
        *count = count.saturating_add(u16::try_from(messages).unwrap_or(u16::MAX));
    }
}
