//! A past state of one conversation in the index: its items and statistics at that time.

use std::collections::{HashMap, HashSet};

use treering_core::fusion::length_norm;
use treering_core::lexicon::{Lexer, TermId};
use treering_core::ports::AsOf;

use super::index::{ConversationEntry, IndexedItem, ItemIndex};
use super::index_build::message_flags;
use super::scan::QuantizedVectors;

/// A conversation of an index at an earlier time.
pub(super) struct PastConversation {
    as_of: AsOf,
    /// The number of messages that can be found.
    pub(super) messages: u32,
    /// The number of messages of each episode.
    pub(super) episode_sizes: HashMap<u32, u32>,
    pub(super) authors: Vec<u16>,
    /// The sum of the messages' vectors.
    pub(super) sum: Vec<f32>,
    /// The amended messages, by item.
    restored: HashMap<u32, RestoredItem>,
    vectors: QuantizedVectors,
    /// The nodes of level 1 over amended messages.
    outdated: HashSet<u32>,
}

/// A message before its amendment.
pub(super) struct RestoredItem {
    pub(super) item: IndexedItem,
    pub(super) terms: Vec<TermId>,
    pub(super) length_norm: f32,
    /// The number of its vector.
    vector: u32,
}

impl PastConversation {
    /// The state of a conversation, given its present entry.
    pub(super) fn of(index: &ItemIndex, entry: Option<&ConversationEntry>, as_of: &AsOf) -> Self {
        let mut past = Self {
            as_of: as_of.clone(),
            messages: 0,
            episode_sizes: HashMap::new(),
            authors: Vec::new(),
            sum: vec![0.0; index.dims],
            restored: HashMap::new(),
            vectors: QuantizedVectors::new(index.dims),
            outdated: HashSet::new(),
        };
        let items = entry.map_or(&[][..], |entry| &entry.items);
        let end = items.partition_point(|it| index.items[*it as usize].number < as_of.messages);
        let items = &items[..end];
        past.restore(index, items);
        for number in items.iter().filter(|it| !index.items[**it as usize].is_deleted()) {
            past.count(index, *number);
        }
        past
    }

    fn count(&mut self, index: &ItemIndex, number: u32) {
        self.messages += 1;
        *self.episode_sizes.entry(index.episode_of[number as usize]).or_default() += 1;
        let author = index.items[number as usize].author;
        if !self.authors.contains(&author) {
            self.authors.push(author);
        }
        match self.restored.get(&number) {
            Some(restored) => self.vectors.add_to(restored.vector, &mut self.sum),
            None => index.vectors.add_to(number, &mut self.sum),
        }
    }

    /// Takes the amended messages as they were. A message that was removed from the index is not
    /// found in the past either.
    fn restore(&mut self, index: &ItemIndex, items: &[u32]) {
        let mut lexer = Lexer::default();
        for restored in &self.as_of.restored {
            let message = &restored.message;
            let number = |it: &u32| index.items[*it as usize].number;
            let Ok(position) = items.binary_search_by_key(&message.idx.0, number) else { continue };
            let number = items[position];
            let current = index.items[number as usize];
            if current.is_deleted() {
                continue;
            }
            let text = &*message.recalled_text();
            let mut terms: Vec<TermId> = Vec::new();
            lexer.each_term(text, |_, id| terms.push(id));
            let length_norm = length_norm(terms.len() as u32);
            terms.sort_unstable();
            let vector = Some(restored.vector.as_slice()).filter(|it| it.len() == index.dims);
            self.vectors.push(vector);
            let flags = message_flags(message.body.role, text);
            let item = IndexedItem { chars: message.chars, flags, ..current };
            let vector = self.restored.len() as u32;
            self.restored.insert(number, RestoredItem { item, terms, length_norm, vector });
            self.outdated.extend((current.cover != number).then_some(current.cover));
        }
    }

    /// Whether an item existed, and no message under it was amended since.
    pub(super) fn existed(&self, item: &IndexedItem, number: u32) -> bool {
        if item.is_deleted() {
            return false;
        }
        match item.level {
            0 if item.is_message() => item.number < self.as_of.messages,
            0 => item.number < self.as_of.turns,
            level => {
                let sealed = self.as_of.nodes.get(usize::from(level) - 1);
                sealed.is_some_and(|sealed| item.number < *sealed)
                    && !self.outdated.contains(&number)
            }
        }
    }

    /// The amended messages, by item.
    pub(super) fn restored(&self) -> impl Iterator<Item = (u32, &RestoredItem)> {
        self.restored.iter().map(|(number, restored)| (*number, restored))
    }

    /// An amended message as it was.
    pub(super) fn restored_item(&self, number: u32) -> Option<&RestoredItem> {
        self.restored.get(&number)
    }

    /// The vectors of the amended messages, and the number of one of them there.
    pub(super) fn vector_of(&self, number: u32) -> Option<(&QuantizedVectors, u32)> {
        self.restored.get(&number).map(|restored| (&self.vectors, restored.vector))
    }
}
