//! Filters: the items that a query may find.

use std::borrow::Cow;
use std::ops::Range;

use treering_core::ports::{AsOf, ItemFilter};

use super::index::{ConversationEntry, FLAG_DELETED, IndexedItem, ItemIndex, role_code};
use super::past::{PastConversation, RestoredItem};

/// Decides which items may be found.
pub(super) struct Filter {
    /// The conversations in scope, by index.
    pub(super) conversations: Option<ConversationSet>,
    /// Whether each conversation is excluded, by index; empty if none is.
    excluded: Vec<bool>,
    excluded_roles: Vec<u8>,
    thread: Option<u16>,
    author: Option<u16>,
    role: Option<u8>,
    levels: Vec<u8>,
    since: Option<i64>,
    until: Option<i64>,
    /// The earlier state of the conversation that is searched, if it is not the present one.
    pub(super) past: Option<PastConversation>,
    /// Whether items must meet conditions beyond existing and being in scope.
    pub(super) has_item_conditions: bool,
    pub(super) matches_nothing: bool,
}

/// A set of conversations of an index, by position.
#[derive(Debug)]
pub(super) struct ConversationSet {
    indexes: Vec<u32>,
    /// Membership, by conversation.
    is_in: Vec<bool>,
    /// The range that contains the numbers of all their items.
    pub(super) range: Range<u32>,
}

impl ConversationSet {
    fn of(index: &ItemIndex, mut indexes: Vec<u32>) -> Self {
        indexes.sort_unstable();
        indexes.dedup();
        let mut is_in = vec![false; index.conversations.len()];
        indexes.iter().for_each(|position| is_in[*position as usize] = true);
        let ranges =
            indexes.iter().map(|position| index.conversations[*position as usize].numbers.clone());
        let range = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0);
        Self { indexes, is_in, range }
    }

    pub(super) fn entries<'a>(
        &'a self,
        index: &'a ItemIndex,
    ) -> impl Iterator<Item = &'a ConversationEntry> {
        self.indexes.iter().map(|position| &index.conversations[*position as usize])
    }
}

impl Filter {
    /// A filter that no item passes.
    pub(super) const fn none() -> Self {
        Self {
            conversations: None,
            excluded: Vec::new(),
            excluded_roles: Vec::new(),
            thread: None,
            author: None,
            role: None,
            levels: Vec::new(),
            since: None,
            until: None,
            past: None,
            has_item_conditions: false,
            matches_nothing: true,
        }
    }

    pub(super) fn of(index: &ItemIndex, query: &ItemFilter, as_of: Option<&AsOf>) -> Self {
        let mut filter = Self { matches_nothing: false, ..Self::none() };
        if let Some(ids) = &query.conversations {
            let indexes: Vec<u32> = ids.iter().filter_map(|id| index.entry_index(*id)).collect();
            filter.matches_nothing |= indexes.is_empty();
            filter.conversations = Some(ConversationSet::of(index, indexes));
        }
        let excluded: Vec<u32> =
            query.excluded.iter().filter_map(|id| index.entry_index(*id)).collect();
        if !excluded.is_empty() {
            filter.excluded = vec![false; index.conversations.len()];
            excluded.iter().for_each(|position| filter.excluded[*position as usize] = true);
        }
        filter.excluded_roles = query.excluded_roles.iter().copied().map(role_code).collect();
        if let Some(thread) = &query.thread {
            let position = index.threads.iter().position(|other| other == thread);
            filter.matches_nothing |= position.is_none();
            filter.thread = position.map(|position| position as u16);
        }
        if let Some(author) = &query.author {
            let position =
                index.authors.iter().position(|other| other.eq_ignore_ascii_case(author));
            filter.matches_nothing |= position.is_none();
            filter.author = position.map(|position| position as u16);
        }
        filter.role = query.role.map(role_code);
        filter.levels.clone_from(&query.levels);
        filter.since = query.since.map(|at| at.as_micros());
        filter.until = query.until.map(|at| at.as_micros());
        if let Some(as_of) = as_of {
            let conversations = filter.conversations.as_ref();
            let entry = conversations.and_then(|them| them.entries(index).next());
            filter.past = Some(PastConversation::of(index, entry, as_of));
        }
        filter.has_item_conditions = filter.thread.is_some()
            || filter.author.is_some()
            || filter.role.is_some()
            || !filter.excluded_roles.is_empty()
            || !filter.levels.is_empty()
            || filter.since.is_some()
            || filter.until.is_some();
        filter
    }

    #[inline]
    pub(super) fn passes(&self, index: &ItemIndex, number: u32) -> bool {
        let item = &index.items[number as usize];
        item.flags & FLAG_DELETED == 0
            && self.in_scope(item, number)
            && (!self.has_item_conditions || self.matches_conditions(item, index, number))
    }

    /// Whether an item meets the conditions other than the scope. A node covers an interval of time
    /// and one or more threads.
    fn matches_conditions(&self, item: &IndexedItem, index: &ItemIndex, number: u32) -> bool {
        let extent = if item.level > 0 { index.extents.get(&number) } else { None };
        let end = item.at.as_micros();
        let start = extent.map_or(end, |extent| extent.start.as_micros());
        let is_in = |thread: u16| {
            extent.map_or(item.thread == thread, |extent| extent.threads.contains(&thread))
        };
        self.thread.is_none_or(is_in)
            && self.author.is_none_or(|author| item.author == author)
            && self.role.is_none_or(|role| item.role == role)
            && !self.excluded_roles.contains(&item.role)
            && (self.levels.is_empty() || self.levels.contains(&item.level))
            && self.since.is_none_or(|since| end >= since)
            && self.until.is_none_or(|until| start < until)
    }

    /// Whether an item is of a conversation in scope, and of the time that is searched.
    #[inline]
    pub(super) fn in_scope(&self, item: &IndexedItem, number: u32) -> bool {
        let conversation = item.conversation as usize;
        !self.excluded.get(conversation).is_some_and(|is_excluded| *is_excluded)
            && self.conversations.as_ref().is_none_or(|all| all.is_in[conversation])
            && self.past.as_ref().is_none_or(|past| past.existed(item, number))
    }

    /// The number of messages in scope.
    pub(super) fn message_count(&self, index: &ItemIndex) -> u32 {
        match (&self.past, &self.conversations) {
            (Some(past), _) => past.messages,
            (None, Some(conversations)) => {
                conversations.entries(index).map(|entry| entry.items.len() as u32).sum()
            }
            (None, None) => index.messages,
        }
    }

    /// The number of episodes in scope.
    pub(super) fn episode_count(&self, index: &ItemIndex) -> u32 {
        match (&self.past, &self.conversations) {
            (Some(past), _) => past.episode_sizes.len() as u32,
            (None, Some(conversations)) => {
                conversations.entries(index).map(|entry| entry.episode_count).sum()
            }
            (None, None) => index.episode_sizes.len() as u32,
        }
    }

    /// The sum of the vectors of the messages in scope.
    pub(super) fn vector_sum<'a>(&'a self, index: &'a ItemIndex) -> Cow<'a, [f32]> {
        match (&self.past, &self.conversations) {
            (Some(past), _) => Cow::Borrowed(&past.sum),
            (None, Some(conversations)) => {
                let mut sum = vec![0.0; index.dims];
                for entry in conversations.entries(index) {
                    sum.iter_mut().zip(&entry.sum).for_each(|(sum, x)| *sum += x);
                }
                Cow::Owned(sum)
            }
            (None, None) => Cow::Borrowed(&index.sum),
        }
    }

    /// A message that was amended after the time that is searched, as it was.
    #[inline]
    pub(super) fn restored(&self, number: u32) -> Option<&RestoredItem> {
        self.past.as_ref()?.restored_item(number)
    }
}
