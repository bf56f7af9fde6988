//! The arena: everything that is searched, in memory, following the store. It is derived: a
//! process makes it from the store, and adds what has come since before each question.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use treering_core::lexicon::{TermId, fold, terms};
use treering_core::question::{asks, is_standing_wish};
use treering_core::{ConversationId, Message, Node, Role, ThreadName, Timestamp};

/// How long a silence parts two sittings, in microseconds.
const SITTING_GAP: i64 = 20 * 60 * 1_000_000;
/// The most of a text that is looked at, in bytes.
const LONGEST_TEXT: usize = 100_000;
/// The most of a text that is embedded, in characters.
const LONGEST_EMBEDDED: usize = 4000;

pub(super) const USER: u8 = 1;
pub(super) const ASKS: u8 = 2;
pub(super) const WISHES: u8 = 4;
pub(super) const GONE: u8 = 8;

/// One thing that can be found: a message, or a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub(super) at: Timestamp,
    /// Its conversation, by place.
    pub(super) conversation: u32,
    /// The message's position, or the node's number.
    pub(super) number: u32,
    /// The items before and after it in its thread; itself where there is none.
    pub(super) before: u32,
    pub(super) after: u32,
    pub(super) sitting: u32,
    /// Where its middle lies in its thread, in characters.
    pub(super) middle: f32,
    pub(super) chars: u32,
    pub(super) words: u32,
    pub(super) author: u16,
    pub(super) thread: u16,
    pub(super) level: u8,
    pub(super) role: u8,
    pub(super) flags: u8,
}

/// What is known about a conversation as a whole.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) id: ConversationId,
    /// Its messages, in order.
    pub(super) items: Vec<u32>,
    pub(super) nodes: Vec<u32>,
    /// The vectors of its messages, added up.
    pub(super) sum: Vec<f32>,
    /// The last item of each thread, and how many characters its thread has.
    ends: Vec<(u16, u32, f64)>,
}

/// Hashes of terms are hashes already.
#[derive(Default)]
pub(super) struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Postings = HashMap<TermId, Vec<u32>, BuildHasherDefault<Same>>;

/// Everything that is searched.
pub(super) struct Arena {
    pub(super) dims: usize,
    pub(super) items: Vec<Item>,
    pub(super) vectors: super::scan::Vectors,
    pub(super) postings: Postings,
    pub(super) shelves: Vec<Shelf>,
    shelf_of: HashMap<ConversationId, u32>,
    /// How many messages each sitting has.
    pub(super) sittings: Vec<u32>,
    pub(super) authors: Vec<String>,
    pub(super) threads: Vec<ThreadName>,
    node_at: HashMap<(u32, u8, u32), u32>,
    pub(super) messages: u32,
    /// The last arrival and the last node that are in it.
    pub(super) seen: (u64, u64),
}

impl Arena {
    pub(super) fn new(dims: usize) -> Self {
        Self {
            dims,
            items: Vec::new(),
            vectors: super::scan::Vectors::new(dims),
            postings: Postings::default(),
            shelves: Vec::new(),
            shelf_of: HashMap::new(),
            sittings: Vec::new(),
            authors: Vec::new(),
            threads: Vec::new(),
            node_at: HashMap::new(),
            messages: 0,
            seen: (0, 0),
        }
    }

    pub(super) fn shelf_place(&self, id: ConversationId) -> Option<u32> {
        self.shelf_of.get(&id).copied()
    }

    /// Adds a message. Messages of a conversation come in order.
    pub(super) fn add_message(&mut self, id: ConversationId, message: &Message, vector: &[f32]) {
        let place = self.place_of(id);
        let said = &message.said;
        let text = head(&said.text);
        let (author, thread) = (self.author(said.author.as_deref()), self.thread(&message.thread));
        let number = self.items.len() as u32;
        let mut flags = 0;
        if said.role == Role::User {
            flags |= USER;
            if is_standing_wish(&fold(text)) {
                flags |= WISHES;
            }
        }
        if asks(text) {
            flags |= ASKS;
        }
        let words = self.index(number, text);
        let shelf = &mut self.shelves[place as usize];
        let end = shelf.ends.iter_mut().find(|(of, ..)| *of == thread);
        let (before, start) = match &end {
            Some((_, last, chars)) => (*last, *chars),
            None => (number, 0.0),
        };
        let chars = f64::from(message.chars);
        match end {
            Some(end) => *end = (thread, number, start + chars),
            None => shelf.ends.push((thread, number, chars)),
        }
        let continues = before != number && {
            let gap = said.at.as_micros() - self.items[before as usize].at.as_micros();
            gap <= SITTING_GAP
        };
        let sitting =
            if continues { self.items[before as usize].sitting } else { self.sittings.len() as u32 };
        if continues {
            self.sittings[sitting as usize] += 1;
        } else {
            self.sittings.push(1);
        }
        if before != number {
            self.items[before as usize].after = number;
        }
        shelf.items.push(number);
        shelf.sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        self.items.push(Item {
            at: said.at,
            conversation: place,
            number: message.idx.0,
            before,
            after: number,
            sitting,
            middle: (start + chars / 2.0) as f32,
            chars: message.chars,
            words,
            author,
            thread,
            level: 0,
            role: role_code(said.role),
            flags,
        });
        self.vectors.push(vector);
        self.messages += 1;
    }

    /// Adds a node, instead of what stood at its place.
    pub(super) fn add_node(&mut self, id: ConversationId, node: &Node, vector: &[f32]) {
        let place = self.place_of(id);
        let number = self.items.len() as u32;
        let (level, ordinal) = (node.level().number(), node.ordinal());
        if let Some(old) = self.node_at.insert((place, level, ordinal), number) {
            self.items[old as usize].flags |= GONE;
        }
        let words = self.index(number, head(&node_text(node)));
        self.shelves[place as usize].nodes.push(number);
        self.items.push(Item {
            at: node.range_end,
            conversation: place,
            number: ordinal,
            before: number,
            after: number,
            sitting: u32::MAX,
            middle: 0.0,
            chars: node.chars,
            words,
            author: u16::MAX,
            thread: u16::MAX,
            level,
            role: u8::MAX,
            flags: 0,
        });
        self.vectors.push(vector);
    }

    /// Enters the terms of a text; says how many words it has.
    fn index(&mut self, number: u32, text: &str) -> u32 {
        let found = terms(text);
        let words = found.len() as u32;
        let mut ids: Vec<TermId> = found.into_iter().map(|term| term.id).collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            self.postings.entry(id).or_default().push(number);
        }
        words
    }

    fn place_of(&mut self, id: ConversationId) -> u32 {
        let (shelves, dims) = (&mut self.shelves, self.dims);
        *self.shelf_of.entry(id).or_insert_with(|| {
            shelves.push(Shelf {
                id,
                items: Vec::new(),
                nodes: Vec::new(),
                sum: vec![0.0; dims],
                ends: Vec::new(),
            });
            shelves.len() as u32 - 1
        })
    }

    fn author(&mut self, name: Option<&str>) -> u16 {
        let Some(name) = name else { return u16::MAX };
        if let Some(place) = self.authors.iter().position(|other| other == name) {
            return place as u16;
        }
        // Sixty thousand authors are told apart; more share the last place.
        if self.authors.len() >= usize::from(u16::MAX) - 1 {
            return u16::MAX - 1;
        }
        self.authors.push(name.to_owned());
        self.authors.len() as u16 - 1
    }

    fn thread(&mut self, name: &ThreadName) -> u16 {
        if let Some(place) = self.threads.iter().position(|other| other == name) {
            return place as u16;
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

/// The text that a node is found by: what it says, what is to be done, files and findings.
pub(super) fn node_text(node: &Node) -> String {
    let content = &node.content;
    let lists = [&content.action_items, &content.files_mentioned, &content.key_findings, &content.decisions];
    let mut text = content.overview.clone();
    for item in lists.into_iter().flatten() {
        text.push('\n');
        text.push_str(item);
    }
    text
}

/// The part of a text that is embedded.
pub(super) fn embedded_part(text: &str) -> &str {
    text.char_indices().nth(LONGEST_EMBEDDED).map_or(text, |(end, _)| &text[..end])
}

fn head(text: &str) -> &str {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let end = (0..=LONGEST_TEXT).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}
