//! Adds items to the index: new ones from the change feed, and those of sealed segments. Both
//! take the same path through [`ItemIndex::link`], so that an index answers alike however it was
//! built.

use treering_core::fusion::length_norm;
use treering_core::lexicon::{TermId, fold};
use treering_core::ports::Change;
use treering_core::{
    ContentHash, ConversationId, Coverage, Message, MessageIdx, Node, Role, ThreadName, Timestamp,
    ToolCall, is_question, is_standing_instruction,
};

use super::index::{
    ConversationEntry, FLAG_DELETED, FLAG_QUESTION, FLAG_STANDING_INSTRUCTION, FLAG_TOOL_CALL,
    FLAG_USER, IndexedItem, ItemEmbedding, ItemIndex, NO_EPISODE, NodeExtent, role_code,
};
use super::text::{call_text, node_text};

/// The minimum silence between two episodes, in microseconds.
const EPISODE_GAP_MICROS: i64 = 20 * 60 * 1_000_000;

impl ItemIndex {
    /// Applies a change of the store.
    pub(super) fn add(&mut self, change: &Change, embedding: ItemEmbedding) {
        match change {
            Change::Message(id, it) if it.is_left_out() => self.forget(*id, Some(it.idx)),
            Change::Message(id, message) => self.add_message(*id, message, embedding),
            Change::Removed(id) => self.forget(*id, None),
            Change::ToolCall(id, call) => self.add_call(*id, call, embedding),
            Change::Node(id, node) => self.add_node(*id, node, embedding),
            Change::Vector(hash, vector) => self.add_vector(hash, vector),
            Change::JobEvent(..) => {}
        }
    }

    /// Adds a message and replaces its previous version. Otherwise the messages of a conversation
    /// arrive in order.
    fn add_message(&mut self, id: ConversationId, message: &Message, embedding: ItemEmbedding) {
        let body = &message.body;
        let text = &*message.recalled_text();
        let item = IndexedItem {
            at: body.at,
            number: message.idx.0,
            chars: message.chars,
            author: self.author(body.author.as_deref()),
            thread: self.thread(&message.thread),
            role: role_code(body.role),
            flags: message_flags(body.role, text),
            ..self.new_item(id)
        };
        self.insert(item, None, text, embedding);
    }

    /// Adds a tool call and replaces its previous version.
    fn add_call(&mut self, id: ConversationId, call: &ToolCall, embedding: ItemEmbedding) {
        let item = IndexedItem {
            at: call.call.at,
            number: call.turn.0,
            order: call.order.min(u32::from(u16::MAX)) as u16,
            thread: self.thread(&call.thread),
            role: role_code(Role::Tool),
            flags: FLAG_TOOL_CALL,
            ..self.new_item(id)
        };
        self.insert(item, None, &call_text(call), embedding);
    }

    /// Adds a node and replaces its previous version.
    fn add_node(&mut self, id: ConversationId, node: &Node, embedding: ItemEmbedding) {
        let item = IndexedItem {
            at: node.range_end,
            number: node.ordinal(),
            chars: node.chars,
            level: node.level().number(),
            ..self.new_item(id)
        };
        let extent = self.extent_of(node);
        self.insert(item, Some(extent), &node_text(node), embedding);
    }

    /// The extent of a node. A group follows its children in the change feed.
    fn extent_of(&mut self, node: &Node) -> NodeExtent {
        let main = self.thread(&ThreadName::main());
        let mut threads = match &node.spec.covers {
            Coverage::Messages(window) => vec![self.thread(&window.thread)],
            Coverage::Sessions(_) => vec![main],
            Coverage::Nodes(children) | Coverage::Whole(children) => {
                let of_child = |id| self.side_threads.get(id).cloned().unwrap_or(vec![main]);
                children.iter().flat_map(of_child).collect()
            }
        };
        threads.sort_unstable();
        threads.dedup();
        let window = match &node.spec.covers {
            Coverage::Messages(window) => {
                let positions = window.from.idx.0..window.end().0;
                Some((self.thread(&window.thread), positions))
            }
            Coverage::Nodes(_) | Coverage::Whole(_) | Coverage::Sessions(_) => None,
        };
        let id = (threads != [main]).then(|| node.id.clone());
        NodeExtent { start: node.range_start, threads, window, id }
    }

    /// A blank item of a conversation.
    fn new_item(&mut self, id: ConversationId) -> IndexedItem {
        IndexedItem {
            at: Timestamp::from_micros(0),
            conversation: self.conversation_index_of(id),
            number: 0,
            before: 0,
            after: 0,
            cover: 0,
            mid_char: 0.0,
            chars: 0,
            order: 0,
            author: u16::MAX,
            thread: u16::MAX,
            level: 0,
            role: u8::MAX,
            flags: 0,
        }
    }

    /// Adds an item with its terms and its vector.
    fn insert(
        &mut self,
        item: IndexedItem,
        extent: Option<NodeExtent>,
        text: &str,
        embedding: ItemEmbedding,
    ) {
        let number = self.items.len() as u32;
        let mut terms: Vec<TermId> = Vec::new();
        self.lexer.each_term(text, |_, id| terms.push(id));
        self.length_norms.push(length_norm(terms.len() as u32));
        terms.sort_unstable();
        terms.dedup();
        self.postings.push(number, &terms);
        self.link(item, extent);
        self.vectors.push(None);
        match embedding {
            ItemEmbedding::Ready(vector) => self.set_vector(number, &vector),
            ItemEmbedding::Pending(hash) => {
                self.pending_embeddings.entry(hash).or_default().push(number);
            }
        }
    }

    /// Numbers an item, and links it to the items before it and to those that it covers.
    pub(super) fn link(&mut self, mut item: IndexedItem, extent: Option<NodeExtent>) {
        let number = self.items.len() as u32;
        (item.before, item.after, item.cover) = (number, number, number);
        let episode = match item.is_message() {
            true => self.link_message(&mut item, number),
            false => {
                self.replace(&item, number);
                NO_EPISODE
            }
        };
        let entry = &mut self.conversations[item.conversation as usize];
        if entry.numbers.is_empty() {
            entry.numbers.start = number;
        }
        entry.numbers.end = number + 1;
        self.episode_of.push(episode);
        self.items.push(item);
        let Some(extent) = extent else { return };
        if let Some((thread, messages)) = extent.window.clone() {
            self.each_covered(item.conversation, thread, messages, |items, message| {
                items[message as usize].cover = number;
                let it = &mut items[number as usize];
                it.before = if it.before == number { message } else { it.before };
                it.after = message;
            });
        }
        if let Some(id) = &extent.id {
            self.side_threads.insert(id.clone(), extent.threads.clone());
        }
        self.extents.insert(number, extent);
    }

    /// Links a message to the message before it in its thread, and returns its episode.
    fn link_message(&mut self, item: &mut IndexedItem, number: u32) -> u32 {
        let entry = &self.conversations[item.conversation as usize];
        let last = entry.items.last().map(|last| self.items[*last as usize].number);
        if last.is_some_and(|last| item.number <= last) {
            return self.link_amended(item, number);
        }
        let entry = &mut self.conversations[item.conversation as usize];
        let end = entry.thread_ends.iter_mut().find(|(of, ..)| *of == item.thread);
        let (before, start) = match &end {
            Some((_, last, chars)) => (*last, *chars),
            None => (number, 0.0),
        };
        let chars = f64::from(item.chars);
        match end {
            Some(end) => *end = (item.thread, number, start + chars),
            None => entry.thread_ends.push((item.thread, number, chars)),
        }
        entry.items.push(number);
        if !entry.authors.contains(&item.author) {
            entry.authors.push(item.author);
        }
        item.before = before;
        item.mid_char = (start + chars / 2.0) as f32;
        if before != number {
            self.items[before as usize].after = number;
        }
        self.messages += 1;
        self.assign_episode(item, number)
    }

    /// Links an amended message in the place of its previous version, or between its neighbors if
    /// that is no longer in the index. Returns its episode.
    fn link_amended(&mut self, item: &mut IndexedItem, number: u32) -> u32 {
        let entry = &mut self.conversations[item.conversation as usize];
        let position =
            entry.items.partition_point(|it| self.items[*it as usize].number < item.number);
        let old = entry.items[position];
        let is_version = self.items[old as usize].number == item.number;
        match is_version {
            true => entry.items[position] = number,
            false => entry.items.insert(position, number),
        }
        let is_beside = |it: &&u32| self.items[**it as usize].thread == item.thread;
        let before = entry.items[..position].iter().rev().find(is_beside).copied();
        let after = entry.items[position + 1..].iter().find(is_beside).copied();
        if let Some(end) = entry.thread_ends.iter_mut().find(|(of, ..)| *of == item.thread)
            && after.is_none()
        {
            end.1 = number;
        }
        (item.before, item.after) = (before.unwrap_or(number), after.unwrap_or(number));
        let beside = if is_version { Some(old) } else { before.or(after) };
        item.mid_char = beside.map_or(0.0, |beside| self.items[beside as usize].mid_char);
        item.cover = self.cover_of(item).unwrap_or(number);
        if let Some(before) = before {
            self.items[before as usize].after = number;
        }
        if let Some(after) = after {
            self.items[after as usize].before = number;
        }
        if is_version {
            self.delete(old, true);
            return self.episode_of[old as usize];
        }
        self.messages += 1;
        match beside {
            Some(beside) => self.episode_of[beside as usize],
            None => self.assign_episode(item, number),
        }
    }

    /// The node of level 1 that covers a message.
    fn cover_of(&self, item: &IndexedItem) -> Option<u32> {
        let covers = |(node, extent): &(&u32, &NodeExtent)| {
            self.items[**node as usize].conversation == item.conversation
                && extent.window.as_ref().is_some_and(|(thread, messages)| {
                    *thread == item.thread && messages.contains(&item.number)
                })
        };
        self.extents.iter().find(covers).map(|(node, _)| *node)
    }

    /// The episode of a message: that of the message before it, unless the gap is too long.
    fn assign_episode(&mut self, item: &IndexedItem, number: u32) -> u32 {
        let before = item.before as usize;
        let continues = item.before != number && {
            let gap = item.at.as_micros() - self.items[before].at.as_micros();
            gap <= EPISODE_GAP_MICROS
        };
        if continues {
            let episode = self.episode_of[before];
            self.episode_sizes[episode as usize] += 1;
            return episode;
        }
        self.episode_sizes.push(1);
        self.conversations[item.conversation as usize].episode_count += 1;
        self.episode_sizes.len() as u32 - 1
    }

    /// Makes a tool call or a node the current version, and deletes the previous one.
    fn replace(&mut self, item: &IndexedItem, number: u32) {
        let key = (item.conversation, item.level, item.number, item.order);
        if let Some(old) = self.current_items.insert(key, number) {
            self.delete(old, true);
        }
        self.conversations[item.conversation as usize].others.push(number);
    }

    /// Removes an item that has no newer version.
    pub(super) fn remove(&mut self, number: u32) {
        let item = &self.items[number as usize];
        if !item.is_message() {
            self.current_items.remove(&(item.conversation, item.level, item.number, item.order));
        }
        self.delete(number, false);
    }

    /// Removes a forgotten message, or everything of a removed conversation.
    fn forget(&mut self, id: ConversationId, only: Option<MessageIdx>) {
        let Some(entry) = self.entry_index(id) else { return };
        let ConversationEntry { items, others, .. } = &self.conversations[entry as usize];
        let others = others.iter().filter(|_| only.is_none());
        let is_meant =
            |item: &&u32| only.is_none_or(|idx| self.items[**item as usize].number == idx.0);
        let gone: Vec<u32> = items.iter().chain(others).filter(is_meant).copied().collect();
        gone.into_iter().for_each(|item| self.remove(item));
    }

    /// Marks an item as deleted. The messages under a deleted node are no longer covered.
    fn delete(&mut self, number: u32, has_newer: bool) {
        let item = &mut self.items[number as usize];
        if item.is_deleted() {
            return;
        }
        item.flags |= FLAG_DELETED;
        self.deleted += 1;
        self.chain.item_deleted(number, has_newer);
        let conversation = item.conversation;
        let window = self.extents.remove(&number).and_then(|extent| extent.window);
        if let Some((thread, messages)) = window {
            self.each_covered(conversation, thread, messages, |items, message| {
                let it = &mut items[message as usize];
                it.cover = if it.cover == number { message } else { it.cover };
            });
        }
    }

    /// Calls `change` for each message of a window.
    fn each_covered(
        &mut self,
        conversation: u32,
        thread: u16,
        messages: std::ops::Range<u32>,
        change: impl Fn(&mut [IndexedItem], u32),
    ) {
        let numbers = &self.conversations[conversation as usize].items;
        let first = numbers.partition_point(|it| self.items[*it as usize].number < messages.start);
        for number in &numbers[first..] {
            let item = &self.items[*number as usize];
            if item.number >= messages.end {
                break;
            }
            if item.thread == thread {
                change(&mut self.items, *number);
            }
        }
    }

    /// Sets a vector that has arrived on every item that waits for it.
    pub(super) fn add_vector(&mut self, of: &ContentHash, vector: &[f32]) {
        for item in self.pending_embeddings.remove(of).into_iter().flatten() {
            self.set_vector(item, vector);
        }
    }

    fn set_vector(&mut self, number: u32, vector: &[f32]) {
        self.vectors.set(number, vector);
        self.add_to_sums(number);
    }

    /// Adds the vector of a message to the sums. The sums are of the quantized vectors, so that
    /// they are the same for an index that was loaded from segments.
    pub(super) fn add_to_sums(&mut self, number: u32) {
        let item = &self.items[number as usize];
        if item.is_message() {
            let entry = &mut self.conversations[item.conversation as usize];
            self.vectors.add_to(number, &mut entry.sum);
            self.vectors.add_to(number, &mut self.sum);
        }
    }

    pub(super) fn conversation_index_of(&mut self, id: ConversationId) -> u32 {
        let (entries, dims) = (&mut self.conversations, self.dims);
        *self.entry_of.entry(id).or_insert_with(|| {
            entries.push(ConversationEntry {
                id,
                numbers: 0..0,
                items: Vec::new(),
                others: Vec::new(),
                sum: vec![0.0; dims],
                episode_count: 0,
                authors: Vec::new(),
                thread_ends: Vec::new(),
            });
            entries.len() as u32 - 1
        })
    }

    pub(super) fn author(&mut self, name: Option<&str>) -> u16 {
        let Some(name) = name else { return u16::MAX };
        if let Some(position) = self.authors.iter().position(|other| other == name) {
            return position as u16;
        }
        // About 65,000 authors are distinguished; all others share one number.
        if self.authors.len() >= usize::from(u16::MAX) - 1 {
            return u16::MAX - 1;
        }
        self.authors.push(name.to_owned());
        self.authors.len() as u16 - 1
    }

    pub(super) fn thread(&mut self, name: &ThreadName) -> u16 {
        if let Some(position) = self.threads.iter().position(|other| other == name) {
            return position as u16;
        }
        if self.threads.len() >= usize::from(u16::MAX) - 1 {
            return u16::MAX - 1;
        }
        self.threads.push(name.clone());
        self.threads.len() as u16 - 1
    }
}

/// The flags of a message with this text.
pub(super) fn message_flags(role: Role, text: &str) -> u8 {
    let mut flags = 0;
    if role == Role::User {
        flags |= FLAG_USER;
        if is_standing_instruction(&fold(text)) {
            flags |= FLAG_STANDING_INSTRUCTION;
        }
    }
    if is_question(text) {
        flags |= FLAG_QUESTION;
    }
    flags
}
