//! Ranking: which items fit a question, and why. Candidates come from the words and from the
//! meaning; each is then judged by everything there is to know about it.

use treering_core::fusion::{Signals, briefness, nearness, presence, rarity, sitting, term_weights};
use treering_core::lexicon::words;
use treering_core::question::Question;

use super::Query;
use super::arena::{ASKS, Arena, GONE, Item, USER, WISHES, role_code};
use super::scan::best;

/// How many candidates the words and the meaning bring, each.
const CANDIDATES: usize = 200;
/// How many items on either side count as near by.
const RADIUS: usize = 3;
/// How many items are few enough to look at every vector.
const FEW: usize = 20_000;
/// The most terms of a question that are looked at.
const MOST_TERMS: usize = 32;
/// How long after a time that a question names people still tell of it, in microseconds.
const AFTERWARDS: i64 = 7 * 86_400_000_000;

/// Which items may be found.
#[derive(Debug)]
pub(super) struct Filter {
    /// Only in these conversations, by place.
    shelves: Option<Vec<u32>>,
    thread: Option<u16>,
    author: Option<u16>,
    role: Option<u8>,
    levels: Vec<u8>,
    since: Option<i64>,
    until: Option<i64>,
    impossible: bool,
}

impl Filter {
    /// A filter that nothing passes.
    pub(super) const fn nothing() -> Self {
        Self {
            shelves: None,
            thread: None,
            author: None,
            role: None,
            levels: Vec::new(),
            since: None,
            until: None,
            impossible: true,
        }
    }

    pub(super) fn of(arena: &Arena, query: &Query, wanted: &[treering_core::ConversationId]) -> Self {
        let mut filter = Self { impossible: false, ..Self::nothing() };
        if !wanted.is_empty() {
            filter.shelves = Some(wanted.iter().filter_map(|id| arena.shelf_place(*id)).collect());
        }
        if let Some(thread) = &query.thread {
            let place = arena.threads.iter().position(|other| other == thread);
            filter.impossible |= place.is_none();
            filter.thread = place.map(|place| place as u16);
        }
        if let Some(author) = &query.author {
            let place = arena.authors.iter().position(|other| other.eq_ignore_ascii_case(author));
            filter.impossible |= place.is_none();
            filter.author = place.map(|place| place as u16);
        }
        filter.role = query.role.map(role_code);
        filter.levels.clone_from(&query.levels);
        filter.since = query.since.map(|at| at.as_micros());
        filter.until = query.until.map(|at| at.as_micros());
        filter
    }

    fn passes(&self, item: &Item) -> bool {
        let at = item.at.as_micros();
        !self.impossible
            && item.flags & GONE == 0
            && self.shelves.as_ref().is_none_or(|shelves| shelves.contains(&item.conversation))
            && self.thread.is_none_or(|thread| item.thread == thread)
            && self.author.is_none_or(|author| item.author == author)
            && self.role.is_none_or(|role| item.role == role)
            && (self.levels.is_empty() || self.levels.contains(&item.level))
            && self.since.is_none_or(|since| at >= since)
            && self.until.is_none_or(|until| at < until)
    }
}

/// An item and how well it fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked {
    pub(super) item: u32,
    pub(super) score: f32,
    pub(super) signals: Signals,
}

/// The items that fit a question best.
pub(super) fn rank(
    arena: &Arena,
    question: &Question,
    vector: &[f32],
    filter: &Filter,
    limit: usize,
) -> Vec<Ranked> {
    if filter.impossible || limit == 0 || arena.items.is_empty() {
        return Vec::new();
    }
    let asked = Asked::new(arena, question, vector, filter);
    let mut candidates: Vec<u32> = asked.by_words(CANDIDATES.max(limit));
    candidates.extend(asked.by_meaning(CANDIDATES.max(limit)));
    for place in 0..candidates.len() {
        let item = &arena.items[candidates[place] as usize];
        candidates.extend([item.before, item.after]);
    }
    candidates.sort_unstable();
    candidates.dedup();
    candidates.retain(|item| filter.passes(&arena.items[*item as usize]));
    let scored: Vec<(u32, f32)> =
        candidates.iter().map(|item| (*item, asked.signals(*item).score())).collect();
    let ranked = best(scored, limit).into_iter();
    ranked.map(|(item, score)| Ranked { item, score, signals: asked.signals(item) }).collect()
}

/// A question before an arena: what its words weigh there, and which items hold them.
struct Asked<'a> {
    arena: &'a Arena,
    question: &'a Question,
    filter: &'a Filter,
    /// What the question means, less what everything in scope is about.
    meaning: Vec<f32>,
    /// Which of the question's terms each item holds, a bit a term.
    holds: Vec<u32>,
    /// Items that hold a term.
    touched: Vec<u32>,
    weights: Vec<f32>,
    /// What each term weighs among sittings, and their usual size.
    sitting_weights: Vec<f32>,
    sitting_mean: f32,
    /// How many messages of a sitting hold each term.
    sitting_counts: Vec<u16>,
    /// The authors that the question names, if it does not name all of them.
    named: Vec<u16>,
}

impl<'a> Asked<'a> {
    fn new(arena: &'a Arena, question: &'a Question, vector: &[f32], filter: &'a Filter) -> Self {
        let (names, named) = authors(arena, question, filter);
        let terms: Vec<(u64, bool)> = question
            .terms
            .iter()
            .filter(|term| !names.contains(&term.word))
            .take(MOST_TERMS)
            .map(|term| (term.id, term.is_asking))
            .collect();
        let mut holds = vec![0_u32; arena.items.len()];
        let mut touched = Vec::new();
        let mut holding = vec![0_u32; terms.len()];
        let mut sitting_counts = vec![0_u16; arena.sittings.len() * terms.len()];
        let in_scope = |item: &Item| filter.shelves.as_ref().is_none_or(|it| it.contains(&item.conversation));
        for (place, (id, _)) in terms.iter().enumerate() {
            for number in arena.postings.get(id).into_iter().flatten() {
                let item = &arena.items[*number as usize];
                if !in_scope(item) {
                    continue;
                }
                let held = &mut holds[*number as usize];
                if *held == 0 {
                    touched.push(*number);
                }
                *held |= 1 << place;
                if item.level == 0 {
                    holding[place] += 1;
                    sitting_counts[item.sitting as usize * terms.len() + place] += 1;
                }
            }
        }
        let (messages, sum) = scope(arena, filter);
        let meaning: Vec<f32> =
            vector.iter().zip(sum).map(|(x, sum)| x - sum / messages.max(1) as f32).collect();
        let weights = term_weights(&terms, messages, &holding);
        let (sitting_weights, sitting_mean) = sittings(arena, filter, &sitting_counts, &weights);
        Self {
            arena,
            question,
            filter,
            meaning,
            holds,
            touched,
            weights,
            sitting_weights,
            sitting_mean,
            sitting_counts,
            named,
        }
    }

    fn by_words(&self, limit: usize) -> Vec<u32> {
        let passing =
            self.touched.iter().filter(|item| self.filter.passes(&self.arena.items[**item as usize]));
        let scored = passing.map(|item| (*item, self.own(*item))).collect();
        best(scored, limit).into_iter().map(|(item, _)| item).collect()
    }

    fn by_meaning(&self, limit: usize) -> Vec<u32> {
        let (arena, filter) = (self.arena, self.filter);
        let passes = |item: &u32| filter.passes(&arena.items[*item as usize]);
        let nearest = match &filter.shelves {
            Some(shelves) => {
                let items = shelves.iter().flat_map(|place| {
                    let shelf = &arena.shelves[*place as usize];
                    shelf.items.iter().chain(&shelf.nodes).copied()
                });
                arena.vectors.nearest_of(items.filter(passes), &self.meaning, limit)
            }
            None if arena.items.len() <= FEW => {
                let items = 0..arena.items.len() as u32;
                arena.vectors.nearest_of(items.filter(passes), &self.meaning, limit)
            }
            None => arena.vectors.nearest(&self.meaning, limit, |item| passes(&item)),
        };
        nearest.into_iter().map(|(item, _)| item).collect()
    }

    /// The weight of the question's words that an item holds.
    fn own(&self, item: u32) -> f32 {
        let held = self.holds[item as usize];
        if held == 0 {
            return 0.0;
        }
        let sum: f32 =
            self.weights.iter().enumerate().filter(|(place, _)| held >> place & 1 == 1).map(|(_, w)| w).sum();
        sum * presence(self.arena.items[item as usize].words)
    }

    fn signals(&self, item: u32) -> Signals {
        let it = &self.arena.items[item as usize];
        let own = self.own(item);
        let meaning = self.arena.vectors.likeness(item, &self.meaning);
        if it.level > 0 {
            // A node has no neighbours: what lies near by is in it.
            return Signals { own, near: own, meaning, time: self.time(it), ..Signals::default() };
        }
        let named = !self.named.is_empty() && self.named.contains(&it.author);
        let is_user = it.flags & USER != 0;
        let flag = |is: bool| if is { 1.0 } else { 0.0 };
        Signals {
            own,
            near: self.near(item),
            meaning,
            sitting: self.sitting(it),
            author: flag(named),
            user: flag(self.question.first_person && is_user),
            assistant: flag(self.question.about_answers && !is_user),
            time: self.time(it),
            answer: self.answer(item),
            wish: flag(!self.question.about_past && it.flags & WISHES != 0),
        }
    }

    /// Word by word the best of the item and those near by in the same sitting.
    fn near(&self, item: u32) -> f32 {
        let items = &self.arena.items;
        let it = &items[item as usize];
        let mut best = [0.0_f32; MOST_TERMS];
        let mut take = |other: u32, gain: f32| {
            let held = self.holds[other as usize];
            if held == 0 {
                return;
            }
            let gain = gain * presence(items[other as usize].words);
            for (place, best) in best.iter_mut().enumerate().take(self.weights.len()) {
                if held >> place & 1 == 1 && gain > *best {
                    *best = gain;
                }
            }
        };
        take(item, 1.0);
        for step in [|it: &Item| it.before, |it: &Item| it.after] {
            let mut at = item;
            for _ in 0..RADIUS {
                let next = step(&items[at as usize]);
                if next == at || items[next as usize].sitting != it.sitting {
                    break;
                }
                at = next;
                take(at, nearness((items[at as usize].middle - it.middle).abs()));
            }
        }
        self.weights.iter().zip(best).map(|(weight, best)| weight * best).sum()
    }

    fn sitting(&self, it: &Item) -> f32 {
        let terms = self.weights.len();
        let start = it.sitting as usize * terms;
        let size = self.arena.sittings[it.sitting as usize];
        let counts = &self.sitting_counts[start..start + terms];
        let parts = counts.iter().zip(&self.sitting_weights);
        parts.map(|(count, weight)| weight * sitting(u32::from(*count), size, self.sitting_mean)).sum()
    }

    /// 1 within a time that the question names, half in the week after it.
    fn time(&self, it: &Item) -> f32 {
        let at = it.at.as_micros();
        let of = |(from, until): &(treering_core::Timestamp, treering_core::Timestamp)| {
            let (from, until) = (from.as_micros(), until.as_micros());
            match at {
                at if at >= from && at < until => 1.0,
                at if at >= until && at < until + AFTERWARDS => 0.5,
                _ => 0.0,
            }
        };
        self.question.times.iter().map(of).fold(0.0, f32::max)
    }

    /// What comes before asks, and holds the question's words.
    fn answer(&self, item: u32) -> f32 {
        let it = &self.arena.items[item as usize];
        let before = &self.arena.items[it.before as usize];
        if it.before == item || before.flags & ASKS == 0 || before.sitting != it.sitting {
            return 0.0;
        }
        self.own(it.before) * briefness(it.chars)
    }
}

/// How many messages are in scope, and their vectors added up.
fn scope(arena: &Arena, filter: &Filter) -> (u32, Vec<f32>) {
    let mut sum = vec![0.0; arena.dims];
    let mut messages = 0;
    let mut add = |shelf: &super::arena::Shelf| {
        messages += shelf.items.len() as u32;
        sum.iter_mut().zip(&shelf.sum).for_each(|(sum, x)| *sum += x);
    };
    match &filter.shelves {
        Some(shelves) => shelves.iter().for_each(|place| add(&arena.shelves[*place as usize])),
        None => arena.shelves.iter().for_each(add),
    }
    (messages, sum)
}

/// What the terms weigh among sittings, and how large a sitting usually is.
fn sittings(arena: &Arena, filter: &Filter, counts: &[u16], weights: &[f32]) -> (Vec<f32>, f32) {
    let terms = weights.len();
    let (number, messages) = match &filter.shelves {
        None => (arena.sittings.len() as u32, arena.messages),
        Some(shelves) => {
            let mut own: Vec<u32> = Vec::new();
            let mut messages = 0;
            for place in shelves {
                let shelf = &arena.shelves[*place as usize];
                messages += shelf.items.len() as u32;
                own.extend(shelf.items.iter().map(|item| arena.items[*item as usize].sitting));
            }
            own.sort_unstable();
            own.dedup();
            (own.len() as u32, messages)
        }
    };
    if terms == 0 {
        return (Vec::new(), 1.0);
    }
    let mut holding = vec![0_u32; terms];
    for sitting in counts.chunks_exact(terms) {
        holding.iter_mut().zip(sitting).for_each(|(holding, count)| *holding += u32::from(*count > 0));
    }
    let weigh = |(place, holding): (usize, &u32)| match *holding > 0 && weights[place] > 0.0 {
        true => rarity(number, *holding),
        false => 0.0,
    };
    let mut own: Vec<f32> = holding.iter().enumerate().map(weigh).collect();
    let sum = own.iter().sum::<f32>().max(1e-9);
    own.iter_mut().for_each(|weight| *weight /= sum);
    (own, messages as f32 / number.max(1) as f32)
}

/// The first names of the authors in scope, and the authors that the question names: none where it
/// names all of them.
fn authors(arena: &Arena, question: &Question, filter: &Filter) -> (Vec<String>, Vec<u16>) {
    let mut here: Vec<u16> = match &filter.shelves {
        None => (0..arena.authors.len() as u16).collect(),
        Some(shelves) => {
            let items = shelves.iter().flat_map(|place| &arena.shelves[*place as usize].items);
            items.map(|item| arena.items[*item as usize].author).collect()
        }
    };
    here.sort_unstable();
    here.dedup();
    let (mut names, mut named) = (Vec::new(), Vec::new());
    for author in here {
        let Some(name) = arena.authors.get(usize::from(author)) else { continue };
        if matches!(name.to_lowercase().as_str(), "user" | "assistant" | "system" | "tool") {
            continue;
        }
        let Some(first) = words(name).into_iter().next() else { continue };
        if question.words.contains(&first) {
            named.push(author);
        }
        names.push(first);
    }
    if named.len() == names.len() {
        named.clear();
    }
    (names, named)
}
