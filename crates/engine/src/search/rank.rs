//! Ranking: finds the items that match a query best. Posting lists and vectors supply the
//! candidates; all signals together score each of them.

use std::cmp::Ordering;

use treering_core::fusion::{
    Signals, brevity, episode_bm25, idf, is_rare, proximity, rare_term_bonus, term_weights,
};
use treering_core::{Question, QuestionTerm};

use super::filter::Filter;
use super::index::{
    FLAG_QUESTION, FLAG_STANDING_INSTRUCTION, FLAG_USER, IndexedItem, ItemIndex, NO_EPISODE,
};
use super::named_authors::authors;
use super::past::PastConversation;
use super::query_terms::{leave_out_common, mask};
use super::scan::{QuantizedQuery, TopK};
use super::term_matches::term_matches;

/// Minimum number of candidates from words, and from similarity. It is the same for all small
/// limits, so that a short result is a prefix of a longer one.
const CANDIDATES: usize = 140;
/// Neighbors on either side that count as nearby.
const RADIUS: usize = 3;
/// Maximum number of items at which every vector is compared.
const EXHAUSTIVE_MAX_ITEMS: usize = 20_000;
/// Minimum number of items at which words and similarity are evaluated in parallel.
const PARALLEL_MIN_ITEMS: usize = 50_000;
/// Maximum number of terms of a query.
const MAX_TERMS: usize = 32;
/// Period after a time named in the query in which items still match it, in microseconds.
const GRACE_MICROS: i64 = 7 * 86_400_000_000;
/// Maximum number of items whose texts are searched for the literals of a query.
const LITERAL_CANDIDATES: usize = 200;

/// An item with the signals that rank it.
pub(super) struct RankedItem {
    pub(super) item: u32,
    pub(super) signals: Signals,
    /// Whether it contains all terms of a literal.
    pub(super) has_literal_terms: bool,
}

/// The items that match a query best, best first, and all that may contain a literal.
pub(super) fn rank(
    index: &ItemIndex,
    question: &Question,
    vector: &[f32],
    filter: &Filter,
    limit: usize,
) -> Vec<RankedItem> {
    if filter.matches_nothing || limit == 0 || index.items.is_empty() {
        return Vec::new();
    }
    let candidate_limit = CANDIDATES.max(limit);
    // Spare results replace items that the store deletes in the meantime.
    let limit = limit.saturating_mul(2);
    let quantized = quantized(index, vector, filter);
    let by_words = || {
        let scorer = Scorer::new(index, question, &quantized, filter);
        let mut candidates = scorer.by_words(candidate_limit, 0);
        for literal in &scorer.literals {
            candidates.extend(scorer.by_words(LITERAL_CANDIDATES, *literal));
        }
        (scorer, candidates)
    };
    let ((scorer, mut candidates), nearest_by_similarity) = if index.items.len()
        < PARALLEL_MIN_ITEMS
    {
        (by_words(), by_meaning(index, &quantized, filter, candidate_limit))
    } else {
        std::thread::scope(|scope| {
            let nearest = scope.spawn(|| by_meaning(index, &quantized, filter, candidate_limit));
            let by_words = by_words();
            (by_words, nearest.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    };
    candidates.extend(nearest_by_similarity);
    // Their present words and vectors did not make them candidates.
    candidates
        .extend(filter.past.iter().flat_map(PastConversation::restored).map(|(item, _)| item));
    for position in 0..candidates.len() {
        let item = &index.items[candidates[position] as usize];
        candidates.extend([item.before, item.after]);
    }
    drill(index, &mut candidates);
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|item| filter.passes(index, *item));
    let mut scored: Vec<(u32, f32)> =
        candidates.iter().map(|item| (*item, scorer.signals(*item).sum())).collect();
    scored.sort_unstable_by(|a, b| by_score(index, *a, *b));
    let mut left = (limit, LITERAL_CANDIDATES);
    let ranked = scored.into_iter().filter_map(|(item, _)| {
        let has_literal_terms = scorer.has_literal_terms(item);
        let left = if has_literal_terms { &mut left.1 } else { &mut left.0 };
        *left = left.checked_sub(1)?;
        Some(RankedItem { item, signals: scorer.signals(item), has_literal_terms })
    });
    ranked.collect()
}

/// Orders items by score, best first. Ties are broken in an order that does not depend on how the
/// index was built.
pub(super) fn by_score(index: &ItemIndex, a: (u32, f32), b: (u32, f32)) -> Ordering {
    let name = |item: u32| {
        let it = &index.items[item as usize];
        (it.at, index.conversations[it.conversation as usize].id, it.level, it.number, it.order)
    };
    b.1.total_cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0)))
}

/// Adds the messages under the first nodes: a message may use other words than the query and the
/// node that summarizes it.
fn drill(index: &ItemIndex, candidates: &mut Vec<u32>) {
    const NODES: usize = 8;
    const MESSAGES: usize = 100;
    let is_node = |item: &u32| index.items[*item as usize].level > 0;
    let nodes: Vec<u32> = candidates.iter().copied().filter(is_node).take(NODES).collect();
    for node in nodes {
        let IndexedItem { before: first, after: last, .. } = index.items[node as usize];
        let mut item = first;
        for _ in 0..MESSAGES {
            candidates.push(item);
            let next = index.items[item as usize].after;
            if item == last || next == item {
                break;
            }
            item = next;
        }
    }
}

/// The query vector minus the mean of all messages in scope.
fn quantized(index: &ItemIndex, vector: &[f32], filter: &Filter) -> QuantizedQuery {
    let messages = filter.message_count(index).max(1) as f32;
    let sum = filter.vector_sum(index);
    let less = vector.iter().zip(&*sum).map(|(x, sum)| x - sum / messages);
    QuantizedQuery::of(&less.collect::<Vec<f32>>())
}

/// The items whose vectors are nearest to the query.
pub(super) fn by_meaning(
    index: &ItemIndex,
    quantized: &QuantizedQuery,
    filter: &Filter,
    limit: usize,
) -> Vec<u32> {
    let passes = |item: &u32| filter.passes(index, *item);
    let all = 0..index.items.len() as u32;
    let nearest = match &filter.conversations {
        Some(conversations) => {
            let items = conversations
                .entries(index)
                .flat_map(|entry| entry.items.iter().chain(&entry.others).copied());
            index.vectors.nearest_of(items.filter(passes), quantized, limit)
        }
        // With selective conditions the preselection by bits could miss the few items that pass.
        None if filter.has_item_conditions || index.items.len() <= EXHAUSTIVE_MAX_ITEMS => {
            index.vectors.nearest_of(all.filter(passes), quantized, limit)
        }
        None => index.vectors.nearest(quantized, limit, |item| passes(&item)),
    };
    nearest.into_iter().map(|(item, _)| item).collect()
}

/// A query against an index: the weights of its terms, and the items that contain them.
struct Scorer<'a> {
    index: &'a ItemIndex,
    question: &'a Question,
    filter: &'a Filter,
    quantized: &'a QuantizedQuery,
    /// For each item from `first` on, a bit mask of the query terms that it contains.
    holds: Vec<u32>,
    first: u32,
    weights: Vec<f32>,
    /// The summed weights of the terms, for each byte of the mask; also those of the rare ones.
    sums: Vec<[f32; 256]>,
    rare_sums: Vec<[f32; 256]>,
    /// A bit mask of the rare terms.
    rare_terms: u32,
    /// For each term its weight among episodes, and the mean episode size.
    episode_weights: Vec<f32>,
    episode_mean: f32,
    /// For each episode and term the number of messages that contain it.
    episode_term_counts: Vec<u16>,
    /// The authors named in the query; empty if it names all of them.
    named_authors: Vec<u16>,
    /// For each literal of the query a bit mask of its terms.
    literals: Vec<u32>,
}

impl<'a> Scorer<'a> {
    fn new(
        index: &'a ItemIndex,
        question: &'a Question,
        quantized: &'a QuantizedQuery,
        filter: &'a Filter,
    ) -> Self {
        let (names, named_authors) = authors(index, question, filter);
        let terms =
            question.terms.iter().filter(|term| !names.contains(&term.word)).take(MAX_TERMS);
        let mut terms: Vec<&QuestionTerm> = terms.collect();
        leave_out_common(index, filter, &mut terms);
        let all = 0..index.items.len() as u32;
        let range =
            filter.conversations.as_ref().map_or(all, |conversations| conversations.range.clone());
        let matches = term_matches(index, &terms, filter, &range);
        let messages = filter.message_count(index);
        let shares: Vec<f32> = terms.iter().map(|term| term.share()).collect();
        let weights = term_weights(&shares, messages, &matches.messages);
        let is_rare: Vec<bool> = matches.messages.iter().map(|it| is_rare(messages, *it)).collect();
        let rare_weights: Vec<f32> =
            weights.iter().zip(&is_rare).map(|(it, is)| if *is { *it } else { 0.0 }).collect();
        let number = filter.episode_count(index);
        Self {
            index,
            question,
            filter,
            quantized,
            holds: matches.holds,
            first: range.start,
            sums: byte_sums(&weights),
            rare_sums: byte_sums(&rare_weights),
            rare_terms: (0..).zip(&is_rare).map(|(bit, is)| u32::from(*is) << bit).sum(),
            episode_weights: episode_weights(number, &matches.episode_counts, &weights),
            episode_mean: messages as f32 / number.max(1) as f32,
            episode_term_counts: matches.episode_term_counts,
            weights,
            named_authors,
            literals: question.literals.iter().filter_map(|it| mask(it, &terms)).collect(),
        }
    }

    /// The items that contain most of the query's words, and all terms of a mask.
    fn by_words(&self, limit: usize, required: u32) -> Vec<u32> {
        /// Items per block. Most blocks score below the threshold and are skipped.
        const BLOCK: usize = 16;
        let length_norm = self.index.length_norms[self.first as usize..].chunks(BLOCK);
        let mut best = TopK::new(limit);
        for (first, (term_bits, length_norm)) in
            (self.first..).step_by(BLOCK).zip(self.holds.chunks(BLOCK).zip(length_norm))
        {
            let mut scores = [0.0; BLOCK];
            let highest = self.score(term_bits, length_norm, &mut scores);
            if highest < best.threshold {
                continue;
            }
            for (item, (bits, score)) in (first..).zip(term_bits.iter().zip(scores)) {
                let is_among = *bits != 0 && bits & required == required && score >= best.threshold;
                if is_among && self.filter.passes(self.index, item) {
                    best.push(item, score);
                }
            }
        }
        best.into_sorted().into_iter().map(|(item, _)| item).collect()
    }

    /// Computes the word scores of a block of items, and returns the highest.
    #[inline]
    fn score(&self, term_bits: &[u32], length_norm: &[f32], scores: &mut [f32]) -> f32 {
        let items = scores.iter_mut().zip(term_bits.iter().zip(length_norm));
        let mut highest = 0.0_f32;
        let mut put = |score: &mut f32, value: f32| {
            *score = value;
            highest = if value > highest { value } else { highest };
        };
        // Nearly every query has eight terms or fewer.
        match (self.sums.as_slice(), self.rare_sums.as_slice()) {
            ([sums], [rare_sums]) => {
                items.for_each(|(score, (bits, length_norm))| {
                    let bits = *bits as usize & 255;
                    let bonus = rare_sums[bits] * rare_term_bonus(*length_norm);
                    put(score, sums[bits] * length_norm + bonus);
                });
            }
            _ => items.for_each(|(score, (bits, length_norm))| {
                put(score, self.weight(*bits, *length_norm));
            }),
        }
        highest
    }

    /// The bit mask of the terms that an item contains.
    #[inline]
    fn term_bits(&self, item: u32) -> u32 {
        let index = item.checked_sub(self.first).map(|index| index as usize);
        index.and_then(|index| self.holds.get(index)).copied().unwrap_or(0)
    }

    fn has_literal_terms(&self, item: u32) -> bool {
        let bits = self.term_bits(item);
        self.literals.iter().any(|literal| bits & literal == *literal)
    }

    /// The word score of an item.
    #[inline]
    fn own_score(&self, item: u32) -> f32 {
        let term_bits = self.term_bits(item);
        if term_bits == 0 {
            return 0.0;
        }
        self.weight(term_bits, self.length_norm(item))
    }

    /// The summed weight of the terms in a mask, in an item with this length norm.
    #[inline]
    fn weight(&self, term_bits: u32, length_norm: f32) -> f32 {
        let sum = |tables: &[[f32; 256]]| -> f32 {
            let bytes = term_bits.to_le_bytes();
            tables.iter().zip(bytes).map(|(sums, byte)| sums[usize::from(byte)]).sum()
        };
        let bonus = rare_term_bonus(length_norm);
        sum(&self.sums) * length_norm + sum(&self.rare_sums) * bonus
    }

    #[inline]
    fn length_norm(&self, item: u32) -> f32 {
        let restored = self.filter.restored(item);
        restored.map_or(self.index.length_norms[item as usize], |restored| restored.length_norm)
    }

    /// An item, as it was at the time that is searched.
    fn item(&self, item: u32) -> &IndexedItem {
        let restored = self.filter.restored(item);
        restored.map_or(&self.index.items[item as usize], |restored| &restored.item)
    }

    fn similarity(&self, item: u32) -> f32 {
        let restored = self.filter.past.as_ref().and_then(|past| past.vector_of(item));
        let (vectors, item) = restored.unwrap_or((&self.index.vectors, item));
        vectors.similarity(item, self.quantized)
    }

    fn signals(&self, item: u32) -> Signals {
        let it = self.item(item);
        let own_score = self.own_score(item);
        let similarity = self.similarity(item);
        let episode = self.index.episode_of[item as usize];
        let is_user = it.flags & FLAG_USER != 0;
        let is_message = episode != NO_EPISODE;
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        // A question about both favors neither.
        let (first_person, about_answers) =
            (self.question.first_person, self.question.about_answers);
        let user = -flag(first_person && !about_answers && !is_user);
        let assistant = -flag(about_answers && !first_person && (is_user || !is_message));
        if !is_message {
            // A node or a tool call has no neighbors, so its own terms count as nearby.
            return Signals {
                exact_terms: own_score,
                nearby_terms: own_score,
                similarity,
                user,
                assistant,
                time: self.time(it),
                ..Signals::default()
            };
        }
        let is_named = !self.named_authors.is_empty() && self.named_authors.contains(&it.author);
        Signals {
            as_typed: 0.0,
            exact_terms: own_score,
            nearby_terms: self.nearby_score(item),
            similarity,
            episode: self.episode(episode),
            window: self.window(item, it),
            author: flag(is_named),
            user,
            assistant,
            time: self.time(it),
            answer: self.answer(item),
            standing_instruction: flag(
                !self.question.about_past && it.flags & FLAG_STANDING_INSTRUCTION != 0,
            ),
        }
    }

    /// For each term, the best match among the item and its neighbors in the same episode.
    fn nearby_score(&self, item: u32) -> f32 {
        let (items, episodes) = (&self.index.items, &self.index.episode_of);
        let it = &items[item as usize];
        let mut best = [0.0_f32; MAX_TERMS];
        let mut take = |other: u32| {
            let term_bits = self.term_bits(other);
            if term_bits == 0 {
                return;
            }
            let distance = (items[other as usize].mid_char - it.mid_char).abs();
            let (near, norm) =
                (if other == item { 1.0 } else { proximity(distance) }, self.length_norm(other));
            let (gain, rare_gain) = (near * norm, near * (norm + rare_term_bonus(norm)));
            for (index, best) in best.iter_mut().enumerate().take(self.weights.len()) {
                let is_rare = self.rare_terms >> index & 1 == 1;
                let gain = if is_rare { rare_gain } else { gain };
                if term_bits >> index & 1 == 1 && gain > *best {
                    *best = gain;
                }
            }
        };
        take(item);
        for step in [|it: &IndexedItem| it.before, |it: &IndexedItem| it.after] {
            let mut at = item;
            for _ in 0..RADIUS {
                let next = step(&items[at as usize]);
                if next == at || episodes[next as usize] != episodes[item as usize] {
                    break;
                }
                at = next;
                take(at);
            }
        }
        self.weights.iter().zip(best).map(|(weight, best)| weight * best).sum()
    }

    fn episode(&self, number: u32) -> f32 {
        let terms = self.weights.len();
        let start = number as usize * terms;
        let size = match &self.filter.past {
            Some(past) => past.episode_sizes.get(&number).copied().unwrap_or(0),
            None => self.index.episode_sizes[number as usize],
        };
        let counts = &self.episode_term_counts[start..start + terms];
        let parts = counts.iter().zip(&self.episode_weights);
        parts
            .map(|(count, weight)| {
                weight * episode_bm25(u32::from(*count), size, self.episode_mean)
            })
            .sum()
    }

    /// The score of the node that covers a message.
    fn window(&self, item: u32, it: &IndexedItem) -> f32 {
        let cover = &self.index.items[it.cover as usize];
        if it.cover == item || !self.filter.in_scope(cover, it.cover) {
            return 0.0;
        }
        (self.own_score(it.cover) + self.index.vectors.similarity(it.cover, self.quantized)) / 2.0
    }

    /// 1 within a time that the query names, 0.5 in the week after it.
    fn time(&self, it: &IndexedItem) -> f32 {
        let at = it.at.as_micros();
        let of = |(from, until): &(treering_core::Timestamp, treering_core::Timestamp)| {
            let (from, until) = (from.as_micros(), until.as_micros());
            match at {
                at if at >= from && at < until => 1.0,
                at if at >= until && at < until + GRACE_MICROS => 0.5,
                _ => 0.0,
            }
        };
        self.question.times.iter().map(of).fold(0.0, f32::max)
    }

    /// Scores an item as an answer, by the query's terms in the question right before it.
    fn answer(&self, item: u32) -> f32 {
        let it = self.item(item);
        let before = self.item(it.before);
        let episode = |item: u32| self.index.episode_of[item as usize];
        if it.before == item
            || before.flags & FLAG_QUESTION == 0
            || episode(it.before) != episode(item)
        {
            return 0.0;
        }
        self.own_score(it.before) * brevity(it.chars)
    }
}

/// For each group of eight terms, the summed weights of all subsets.
fn byte_sums(weights: &[f32]) -> Vec<[f32; 256]> {
    let of = |weights: &[f32]| {
        let mut sums = [0.0; 256];
        for bits in 1..256_usize {
            let lowest = bits.trailing_zeros() as usize;
            sums[bits] = sums[bits & (bits - 1)] + weights.get(lowest).copied().unwrap_or(0.0);
        }
        sums
    };
    weights.chunks(8).map(of).collect()
}

/// The normalized IDF weights of the terms among episodes.
fn episode_weights(number: u32, holding: &[u32], weights: &[f32]) -> Vec<f32> {
    let weigh = |(holding, weight): (&u32, &f32)| match *holding > 0 && *weight > 0.0 {
        true => idf(number, *holding),
        false => 0.0,
    };
    let mut shares: Vec<f32> = holding.iter().zip(weights).map(weigh).collect();
    let sum = shares.iter().sum::<f32>().max(1e-9);
    shares.iter_mut().for_each(|weight| *weight /= sum);
    shares
}
