//! The in-memory search index of a tenant. It is derived: a process builds it from the store and
//! applies the change feed before each search.

use std::collections::HashMap;
use std::ops::Range;

use treering_core::fusion::length_norm;
use treering_core::lexicon::{Lexer, TermId, fold};
use treering_core::ports::{Change, Cursor, ItemRef};
use treering_core::{
    ContentHash, ConversationId, Coverage, Level, Message, MessageIdx, Node, NodeId, Role,
    ThreadName, Timestamp, ToolCall, TurnNo, Window, is_question, is_standing_instruction,
};

use super::postings::Postings;
use super::text::{call_text, head, node_text};

/// The minimum silence between two sessions, in microseconds.
const SESSION_GAP_MICROS: i64 = 20 * 60 * 1_000_000;

pub(super) const FLAG_USER: u8 = 1;
pub(super) const FLAG_QUESTION: u8 = 2;
pub(super) const FLAG_STANDING_INSTRUCTION: u8 = 4;
pub(super) const FLAG_DELETED: u8 = 8;
pub(super) const FLAG_TOOL_CALL: u8 = 16;

/// A message, tool call or node that can be found. The fields that every query scans are stored
/// apart, in [`ItemIndex::session_of`] and [`ItemIndex::length_norms`].
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexedItem {
    pub(super) at: Timestamp,
    /// The index of its conversation.
    pub(super) conversation: u32,
    /// The message's position, the turn of the call, or the node's ordinal.
    pub(super) number: u32,
    /// The previous and next items in its thread; for a level-1 node the first and last message
    /// it covers. The item itself if there is none.
    pub(super) before: u32,
    pub(super) after: u32,
    /// The level-1 node that covers it; the item itself if there is none.
    pub(super) cover: u32,
    /// The offset of its middle in its thread, in characters.
    pub(super) mid_char: f32,
    pub(super) chars: u32,
    /// The position of a tool call in its turn.
    pub(super) order: u16,
    pub(super) author: u16,
    pub(super) thread: u16,
    pub(super) level: u8,
    pub(super) role: u8,
    pub(super) flags: u8,
}

/// The extent of a node, for filters. Nodes are few, so it is stored apart from the items.
#[derive(Debug)]
pub(super) struct NodeExtent {
    /// The earliest time covered; the item's own time is the latest.
    pub(super) start: Timestamp,
    /// The threads of the covered messages.
    pub(super) threads: Vec<u16>,
}

/// The session of items that belong to none: tool calls and nodes.
pub(super) const NO_SESSION: u32 = u32::MAX;

/// Per-conversation data of the index.
#[derive(Debug)]
pub(super) struct ConversationEntry {
    pub(super) id: ConversationId,
    /// Its messages, in order.
    pub(super) items: Vec<u32>,
    /// Its tool calls and nodes.
    pub(super) others: Vec<u32>,
    /// The sum of its messages' vectors.
    pub(super) sum: Vec<f32>,
    pub(super) session_count: u32,
    pub(super) authors: Vec<u16>,
    /// For each thread its last item and its length in characters.
    thread_ends: Vec<(u16, u32, f64)>,
}

impl ConversationEntry {
    /// The range that contains the numbers of its items.
    pub(super) fn range(&self) -> Range<u32> {
        let firsts = [self.items.first(), self.others.first()];
        let lasts = [self.items.last(), self.others.last()];
        let first = firsts.into_iter().flatten().min().copied().unwrap_or(0);
        first..lasts.into_iter().flatten().max().map_or(first, |last| last + 1)
    }
}

/// All searchable items of a tenant.
pub(super) struct ItemIndex {
    /// The model of the vectors.
    pub(super) model: String,
    pub(super) dims: usize,
    pub(super) items: Vec<IndexedItem>,
    /// The session of each item.
    pub(super) session_of: Vec<u32>,
    /// The length normalization factor of each item.
    pub(super) length_norms: Vec<f32>,
    pub(super) vectors: super::scan::QuantizedVectors,
    pub(super) postings: Postings,
    pub(super) conversations: Vec<ConversationEntry>,
    entry_of: HashMap<ConversationId, u32>,
    /// The number of messages of each session.
    pub(super) session_sizes: Vec<u32>,
    pub(super) authors: Vec<String>,
    pub(super) threads: Vec<ThreadName>,
    /// The extent of each node, by item.
    pub(super) extents: HashMap<u32, NodeExtent>,
    /// The threads of nodes that cover more than the main thread.
    side_threads: HashMap<NodeId, Vec<u16>>,
    /// The current version of replaceable items, by conversation, level (0 for tool calls),
    /// number and order.
    current_items: HashMap<(u32, u8, u32, u16), u32>,
    /// The number of messages, and the sum of their vectors.
    pub(super) messages: u32,
    pub(super) sum: Vec<f32>,
    /// Items that wait for their vectors, by content hash.
    pending_embeddings: HashMap<ContentHash, Vec<u32>>,
    pub(super) lexer: Lexer,
    /// The position in the change feed.
    pub(super) cursor: Cursor,
}

/// The vector of an item, or the content hash that its vector will have.
pub(super) enum ItemEmbedding {
    Ready(Vec<f32>),
    Pending(ContentHash),
}

impl ItemIndex {
    pub(super) fn new(model: &str, dims: usize) -> Self {
        Self {
            model: model.to_owned(),
            dims,
            items: Vec::new(),
            session_of: Vec::new(),
            length_norms: Vec::new(),
            vectors: super::scan::QuantizedVectors::new(dims),
            postings: Postings::default(),
            conversations: Vec::new(),
            entry_of: HashMap::new(),
            session_sizes: Vec::new(),
            authors: Vec::new(),
            threads: Vec::new(),
            extents: HashMap::new(),
            side_threads: HashMap::new(),
            current_items: HashMap::new(),
            messages: 0,
            sum: vec![0.0; dims],
            pending_embeddings: HashMap::new(),
            lexer: Lexer::default(),
            cursor: Cursor::start(),
        }
    }

    /// Approximate memory use.
    pub(super) fn bytes(&self) -> usize {
        // An empty index: the stemming tables and the allocations around them.
        const EMPTY: usize = 16 << 10;
        let item = size_of::<IndexedItem>() + size_of::<u32>() + size_of::<f32>();
        let entry = |entry: &ConversationEntry| {
            size_of::<ConversationEntry>()
                + 4 * (entry.items.len() + entry.others.len() + entry.sum.len())
                + 128
        };
        EMPTY
            + self.items.len() * item
            + self.vectors.bytes()
            + self.postings.bytes()
            + self.conversations.iter().map(entry).sum::<usize>()
            + self.current_items.len() * 40
            + self.extents.len() * (size_of::<NodeExtent>() + 8)
            + self.side_threads.len() * 96
            + self.pending_embeddings.len() * 72
            + self.lexer.bytes()
    }

    /// The item's reference in the store.
    pub(super) fn item_ref(&self, item: u32) -> ItemRef {
        let it = &self.items[item as usize];
        let id = self.conversations[it.conversation as usize].id;
        match Level::new(it.level) {
            Some(level) => ItemRef::Node(id, level, it.number),
            None if it.flags & FLAG_TOOL_CALL != 0 => {
                ItemRef::ToolCall(id, TurnNo(it.number), it.order.into())
            }
            None => ItemRef::Message(id, MessageIdx(it.number)),
        }
    }

    pub(super) fn entry_index(&self, id: ConversationId) -> Option<u32> {
        self.entry_of.get(&id).copied()
    }

    /// Applies a change of the store.
    pub(super) fn add(&mut self, change: &Change, embedding: ItemEmbedding) {
        match change {
            Change::Message(id, it) if it.body.forgotten => self.forget(*id, Some(it.idx)),
            Change::Message(id, message) => self.add_message(*id, message, embedding),
            Change::Removed(id) => self.forget(*id, None),
            Change::ToolCall(id, call) => self.add_call(*id, call, embedding),
            Change::Node(id, node) => self.add_node(*id, node, embedding),
            Change::Vector(hash, vector) => self.add_vector(hash, vector),
            Change::JobEvent(..) => {}
        }
    }

    /// Adds a message. The messages of a conversation arrive in order.
    fn add_message(&mut self, id: ConversationId, message: &Message, embedding: ItemEmbedding) {
        let conversation_index = self.conversation_index_of(id);
        let body = &message.body;
        let text = head(&body.text);
        let (author, thread) = (self.author(body.author.as_deref()), self.thread(&message.thread));
        let number = self.items.len() as u32;
        let mut flags = 0;
        if body.role == Role::User {
            flags |= FLAG_USER;
            if is_standing_instruction(&fold(text)) {
                flags |= FLAG_STANDING_INSTRUCTION;
            }
        }
        if is_question(text) {
            flags |= FLAG_QUESTION;
        }
        let entry = &mut self.conversations[conversation_index as usize];
        let end = entry.thread_ends.iter_mut().find(|(of, ..)| *of == thread);
        let (before, start) = match &end {
            Some((_, last, chars)) => (*last, *chars),
            None => (number, 0.0),
        };
        let chars = f64::from(message.chars);
        match end {
            Some(end) => *end = (thread, number, start + chars),
            None => entry.thread_ends.push((thread, number, chars)),
        }
        entry.items.push(number);
        if !entry.authors.contains(&author) {
            entry.authors.push(author);
        }
        let session = self.assign_session(conversation_index, number, before, body.at);
        if before != number {
            self.items[before as usize].after = number;
        }
        let item = IndexedItem {
            at: body.at,
            conversation: conversation_index,
            number: message.idx.0,
            before,
            after: number,
            cover: number,
            mid_char: (start + chars / 2.0) as f32,
            chars: message.chars,
            order: 0,
            author,
            thread,
            level: 0,
            role: role_code(body.role),
            flags,
        };
        self.messages += 1;
        self.insert(item, session, text, embedding);
    }

    /// Excludes a forgotten message, or all of a removed conversation, from every result. This is
    /// the place to purge segments on disk.
    fn forget(&mut self, id: ConversationId, only: Option<MessageIdx>) {
        let Some(entry) = self.entry_index(id) else { return };
        let ConversationEntry { items, others, .. } = &self.conversations[entry as usize];
        let others = others.iter().filter(|_| only.is_none());
        for item in items.iter().chain(others) {
            let item = &mut self.items[*item as usize];
            if only.is_none_or(|idx| item.number == idx.0) {
                item.flags |= FLAG_DELETED;
            }
        }
    }

    /// The session of a message: that of the message before it, unless the gap is too long.
    fn assign_session(
        &mut self,
        conversation_index: u32,
        number: u32,
        before: u32,
        at: Timestamp,
    ) -> u32 {
        let continues = before != number && {
            let gap = at.as_micros() - self.items[before as usize].at.as_micros();
            gap <= SESSION_GAP_MICROS
        };
        if continues {
            let session = self.session_of[before as usize];
            self.session_sizes[session as usize] += 1;
            return session;
        }
        self.session_sizes.push(1);
        self.conversations[conversation_index as usize].session_count += 1;
        self.session_sizes.len() as u32 - 1
    }

    /// Adds a tool call and replaces its previous version.
    fn add_call(&mut self, id: ConversationId, call: &ToolCall, embedding: ItemEmbedding) {
        let thread = self.thread(&call.thread);
        let item = IndexedItem {
            at: call.call.at,
            number: call.turn.0,
            order: call.order.min(u32::from(u16::MAX)) as u16,
            thread,
            role: role_code(Role::Tool),
            flags: FLAG_TOOL_CALL,
            ..self.new_item(id)
        };
        self.replace(item, &call_text(call), embedding);
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
        let number = self.items.len() as u32;
        let extent = NodeExtent { start: node.range_start, threads: self.threads_of(node) };
        self.extents.insert(number, extent);
        self.replace(item, &node_text(node), embedding);
        if let Coverage::Messages(window) = &node.spec.covers {
            self.cover(item.conversation, window, number);
        }
    }

    /// The threads that a node covers. A group follows its children in the change feed.
    fn threads_of(&mut self, node: &Node) -> Vec<u16> {
        let main = self.thread(&ThreadName::main());
        let mut threads = match &node.spec.covers {
            Coverage::Messages(window) => vec![self.thread(&window.thread)],
            Coverage::Nodes(children) | Coverage::Whole(children) => {
                let of_child = |id| self.side_threads.get(id).cloned().unwrap_or(vec![main]);
                children.iter().flat_map(of_child).collect()
            }
        };
        threads.sort_unstable();
        threads.dedup();
        if threads != [main] {
            self.side_threads.insert(node.id.clone(), threads.clone());
        }
        threads
    }

    /// Links the messages of a window to their node.
    fn cover(&mut self, conversation_index: u32, window: &Window, node: u32) {
        let Some(thread) = self.threads.iter().position(|name| *name == window.thread) else {
            return;
        };
        let items = &self.conversations[conversation_index as usize].items;
        let (from, until) = (window.from.idx.0, window.until.idx.0);
        let start = items.partition_point(|item| self.items[*item as usize].number < from);
        for message in &items[start..] {
            let item = &mut self.items[*message as usize];
            if item.number > until || (item.number == until && window.until.offset == 0) {
                break;
            }
            if usize::from(item.thread) == thread {
                item.cover = node;
                let it = &mut self.items[node as usize];
                it.before = if it.before == node { *message } else { it.before };
                it.after = *message;
            }
        }
    }

    /// A blank item of a conversation.
    fn new_item(&mut self, id: ConversationId) -> IndexedItem {
        let number = self.items.len() as u32;
        IndexedItem {
            at: Timestamp::from_micros(0),
            conversation: self.conversation_index_of(id),
            number: 0,
            before: number,
            after: number,
            cover: number,
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

    fn replace(&mut self, item: IndexedItem, text: &str, embedding: ItemEmbedding) {
        let number = self.items.len() as u32;
        let key = (item.conversation, item.level, item.number, item.order);
        if let Some(old) = self.current_items.insert(key, number) {
            self.items[old as usize].flags |= FLAG_DELETED;
            self.extents.remove(&old);
        }
        self.conversations[item.conversation as usize].others.push(number);
        self.insert(item, NO_SESSION, head(text), embedding);
    }

    /// Adds an item with its terms and its vector.
    fn insert(&mut self, item: IndexedItem, session: u32, text: &str, embedding: ItemEmbedding) {
        let number = self.items.len() as u32;
        let mut terms: Vec<TermId> = Vec::new();
        self.lexer.each_term(text, |_, id| terms.push(id));
        self.length_norms.push(length_norm(terms.len() as u32));
        terms.sort_unstable();
        terms.dedup();
        self.postings.push(number, &terms);
        self.session_of.push(session);
        self.items.push(item);
        self.vectors.push(None);
        match embedding {
            ItemEmbedding::Ready(vector) => self.set_vector(number, &vector),
            ItemEmbedding::Pending(hash) => {
                self.pending_embeddings.entry(hash).or_default().push(number);
            }
        }
    }

    /// Sets a vector that has arrived on every item that waits for it.
    fn add_vector(&mut self, of: &ContentHash, vector: &[f32]) {
        for item in self.pending_embeddings.remove(of).into_iter().flatten() {
            self.set_vector(item, vector);
        }
    }

    fn set_vector(&mut self, number: u32, vector: &[f32]) {
        self.vectors.set(number, vector);
        if self.session_of[number as usize] == NO_SESSION {
            return;
        }
        let entry = &mut self.conversations[self.items[number as usize].conversation as usize];
        entry.sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        self.sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
    }

    fn conversation_index_of(&mut self, id: ConversationId) -> u32 {
        let (entries, dims) = (&mut self.conversations, self.dims);
        *self.entry_of.entry(id).or_insert_with(|| {
            entries.push(ConversationEntry {
                id,
                items: Vec::new(),
                others: Vec::new(),
                sum: vec![0.0; dims],
                session_count: 0,
                authors: Vec::new(),
                thread_ends: Vec::new(),
            });
            entries.len() as u32 - 1
        })
    }

    fn author(&mut self, name: Option<&str>) -> u16 {
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

    fn thread(&mut self, name: &ThreadName) -> u16 {
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

pub(super) const fn role_code(role: Role) -> u8 {
    match role {
        Role::System => 0,
        Role::User => 1,
        Role::Assistant => 2,
        Role::Tool => 3,
    }
}
