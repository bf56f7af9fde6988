//! The output formats of a context: Markdown, and messages for a chat API.

use treering_core::chat::ChatMessage;
use treering_core::packing::{
    BlockStyle, ContextPlan, DetailLevel, HeaderStyle, Omission, PackReason, PackedItem, PieceKey,
    Profile, Section, SectionSource,
};
use treering_core::{ContentHash, Message, Receipt, ReceiptItem, Role, Slice, fence};

use super::context_cache::{ContextCache, RenderedBlock};
use super::piece_source::{ConversationPieces, day_of};
use super::render::{self, MessageBlock};

/// A context for a model, with its receipt.
#[derive(Debug, Clone)]
pub struct Context {
    /// The opening text that explains how to read the rest.
    pub preamble: String,
    /// The sections of the profile. Empty sections are omitted.
    pub sections: Vec<ContextSection>,
    /// Every item with its reason and cost, and everything that was left out.
    pub receipt: Receipt,
}

/// A section of a context.
#[derive(Debug, Clone)]
pub struct ContextSection {
    /// Its title.
    pub heading: Option<String>,
    /// The rendered title.
    pub head: String,
    /// A note about omitted messages at the end of the section.
    pub note: Option<String>,
    /// Its items, in order.
    pub items: Vec<ContextItem>,
    /// Whether the section depends on the question.
    pub is_volatile: bool,
    /// Whether the section ends with the latest messages.
    pub is_latest: bool,
}

/// An item of a context.
#[derive(Debug, Clone)]
pub struct ContextItem {
    /// The rendered and quoted block.
    pub block: String,
    /// The role and the full text of each message, if the item consists of complete messages.
    /// Hidden characters are written out, and tool calls before a message are quoted.
    pub messages: Vec<(Role, String)>,
    /// The hash of the block.
    pub hash: ContentHash,
    /// Number of tokens of the block.
    pub tokens: u32,
}

/// A difference between two contexts.
#[derive(Debug, Clone, PartialEq)]
pub enum ContextChange {
    /// The item is only in this context.
    Added(ReceiptItem),
    /// The item is only in the other context.
    Removed(ReceiptItem),
}

impl ContextItem {
    /// The role and the full text, if the item is one complete message.
    #[must_use]
    pub fn message(&self) -> Option<&(Role, String)> {
        self.messages.first().filter(|_| self.messages.len() == 1)
    }
}

impl ContextSection {
    /// All rendered blocks, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &str> {
        let items = self.items.iter().map(|item| item.block.as_str());
        std::iter::once(self.head.as_str()).chain(items).chain(self.note.as_deref())
    }

    /// Index of the first item of the trailing run of complete messages. The run does not start
    /// with an assistant message, as chat APIs expect.
    fn raw_tail(&self) -> usize {
        if !self.is_latest {
            return self.items.len();
        }
        let first =
            self.items.iter().rposition(|item| item.messages.is_empty()).map_or(0, |last| last + 1);
        let answers =
            |item: &&ContextItem| matches!(item.messages.first(), Some((Role::Assistant, _)));
        first + self.items[first..].iter().take_while(answers).count()
    }
}

impl Context {
    /// Every item with its reason and cost, and everything that is missing.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }

    /// All rendered blocks, in order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &str> {
        let sections = self.sections.iter().flat_map(ContextSection::blocks);
        std::iter::once(self.preamble.as_str()).chain(sections)
    }

    /// Number of tokens: the sum over the blocks if the tokenizer is additive, otherwise a count
    /// of the whole text.
    pub(super) fn tokens(&self, cache: &ContextCache) -> u32 {
        if !cache.adds_up() {
            return cache.count(&self.markdown());
        }
        let of = |section: &ContextSection| {
            let items = section.items.iter().map(|item| item.tokens).sum::<u32>();
            cache.count(&section.head)
                + items
                + section.note.as_deref().map_or(0, |note| cache.count(note))
        };
        cache.count(&self.preamble) + self.sections.iter().map(of).sum::<u32>()
    }

    /// The context as one Markdown text.
    #[must_use]
    pub fn markdown(&self) -> String {
        self.blocks().collect()
    }

    /// The context as messages for a chat API: the history as quoted data, then the latest turns
    /// verbatim, then the recalled items, which change with each question. None of them is a system
    /// message, because models follow those as instructions.
    #[must_use]
    pub fn messages(&self) -> Vec<ChatMessage> {
        let (mut standing, mut volatile) = (self.preamble.clone(), String::new());
        let mut latest: Vec<ChatMessage> = Vec::new();
        for section in &self.sections {
            let tail = section.raw_tail();
            let text = if section.is_volatile { &mut volatile } else { &mut standing };
            if tail > 0 {
                text.push_str(&section.head);
            }
            text.extend(section.items[..tail].iter().map(|item| item.block.as_str()));
            text.extend(section.note.as_deref());
            for item in &section.items[tail..] {
                for (role, text) in &item.messages {
                    match role {
                        Role::User | Role::Assistant => latest.push(ChatMessage::new(*role, text)),
                        // System messages and tool output of the past are data now, not
                        // instructions.
                        Role::System | Role::Tool if item.messages.len() == 1 => {
                            latest.push(ChatMessage::new(Role::User, &item.block));
                        }
                        Role::System | Role::Tool => {
                            latest.push(ChatMessage::new(Role::User, fence::quoted(text)));
                        }
                    }
                }
            }
        }
        let mut messages = Vec::with_capacity(latest.len() + 2);
        if standing.len() > self.preamble.len() {
            messages.push(ChatMessage::new(Role::User, standing.trim_end()));
        }
        messages.append(&mut latest);
        if !volatile.is_empty() {
            messages.push(ChatMessage::new(
                Role::User,
                format!("{}{}", self.preamble, volatile.trim_end()),
            ));
        }
        messages
    }

    /// The differences from another context, in order.
    #[must_use]
    pub fn changes_since(&self, other: &Self) -> Vec<ContextChange> {
        let lacks = |items: &[ReceiptItem], item: &ReceiptItem| {
            !items.iter().any(|it| (&it.section, it.hash) == (&item.section, item.hash))
        };
        let (now, was) = (&self.receipt.items, &other.receipt.items);
        let removed =
            was.iter().filter(|item| lacks(now, item)).cloned().map(ContextChange::Removed);
        let added = now.iter().filter(|item| lacks(was, item)).cloned().map(ContextChange::Added);
        let is_match = |why| matches!(why, PackReason::Hit | PackReason::Neighbor);
        let mut changes: Vec<ContextChange> = removed.chain(added).collect();
        changes.sort_by_key(|change| match change {
            ContextChange::Added(item) | ContextChange::Removed(item) => {
                (is_match(item.reason), item.from, item.until)
            }
        });
        changes
    }
}

/// Finds the conversation of each item.
pub(super) trait ItemSource {
    /// The conversation of an item.
    fn pieces_of(&self, item: &PackedItem) -> &ConversationPieces<'_>;

    /// The heading of a conversation, if the item is one.
    fn heading_of(&self, item: &PackedItem) -> Option<&str>;

    /// The note about omitted messages.
    fn note(&self, left_out: &[Omission]) -> Option<String>;
}

impl ItemSource for ConversationPieces<'_> {
    fn pieces_of(&self, _: &PackedItem) -> &ConversationPieces<'_> {
        self
    }

    fn heading_of(&self, _: &PackedItem) -> Option<&str> {
        None
    }

    fn note(&self, left_out: &[Omission]) -> Option<String> {
        render::note(left_out)
    }
}

/// The receipt of the items, in order.
pub(super) fn receipt_items(
    source: &dyn ItemSource,
    context: &Context,
    plan: &ContextPlan,
) -> Vec<ReceiptItem> {
    let written = context.sections.iter().flat_map(|section| {
        section.items.iter().map(|item| (section.heading.clone().unwrap_or_default(), item))
    });
    let line = |((section, context_item), item): ((String, &ContextItem), &PackedItem)| {
        let node = match item.key {
            PieceKey::Node(level, ordinal) => {
                let node = source.pieces_of(item).nodes.get(&(level, ordinal));
                node.map(|node| node.id.to_string())
            }
            PieceKey::Heading | PieceKey::Turn(_) | PieceKey::Message(_) => None,
        };
        let (from, until) = item.span();
        ReceiptItem {
            section,
            conversation: None,
            level: item.key.level(),
            node,
            from,
            until,
            detail: item.detail_level,
            reason: item.reason,
            score: item.score,
            tokens: context_item.tokens,
            hash: context_item.hash,
        }
    };
    written.zip(plan.items()).map(line).collect()
}

/// Renders the sections of a plan.
pub(super) fn sections(
    source: &dyn ItemSource,
    profile: &Profile,
    plan: &ContextPlan,
) -> Vec<ContextSection> {
    let mut written = Vec::new();
    for (section, items) in profile.sections.iter().zip(&plan.sections) {
        if items.is_empty() {
            continue;
        }
        let is_latest = matches!(section.take, SectionSource::Cut | SectionSource::Recent);
        written.push(ContextSection {
            heading: section.heading.clone(),
            head: section.heading.as_deref().map(render::heading).unwrap_or_default(),
            note: match section.take {
                SectionSource::Cut => source.note(&plan.left_out),
                _ => None,
            },
            items: write_items(source, items, section),
            is_volatile: section.take.is_volatile(),
            is_latest,
        });
    }
    written
}

fn write_items(
    source: &dyn ItemSource,
    items: &[PackedItem],
    section: &Section,
) -> Vec<ContextItem> {
    let recalled = section.take.is_volatile();
    let mut written = Vec::with_capacity(items.len());
    let mut before: Option<&PackedItem> = None;
    for item in items {
        let pieces = source.pieces_of(item);
        let item_written = match (item.key, section.style) {
            (PieceKey::Heading, _) => write_heading(source, item),
            (PieceKey::Message(slice), BlockStyle::Plain) => {
                let lead = match (before, recalled) {
                    (None, true) => HeaderStyle::Day,
                    (Some(before), true) => lead(source, before, item),
                    (None, false) => HeaderStyle::Minute,
                    (Some(_), false) if item.begins_run => HeaderStyle::Minute,
                    (Some(_), false) => pieces.lead(slice),
                };
                write_message(pieces, item, slice, lead, recalled)
            }
            _ => write_labeled(pieces, item, section.style, recalled),
        };
        written.extend(item_written);
        before = Some(item);
    }
    written
}

fn write_heading(source: &dyn ItemSource, item: &PackedItem) -> Option<ContextItem> {
    let block = source.heading_of(item)?.to_owned();
    let RenderedBlock { block, hash, tokens } = RenderedBlock::new(block, item.cost);
    Some(ContextItem { block, messages: Vec::new(), hash, tokens })
}

/// A message in the style of a record.
fn write_message(
    pieces: &ConversationPieces<'_>,
    item: &PackedItem,
    slice: Slice,
    lead: HeaderStyle,
    recalled: bool,
) -> Option<ContextItem> {
    let block = match recalled {
        true => pieces.recalled(slice, lead)?,
        false => pieces.message_block(slice, lead)?,
    };
    let is_whole = item.detail_level >= DetailLevel::Text
        && slice.from == 0
        && slice.until >= block.message.chars;
    let message = (is_whole && !recalled).then(|| (block.message.body.role, message_text(&block)));
    let RenderedBlock { block, hash, tokens } =
        pieces.rendered(&block, item.detail_level, recalled);
    Some(ContextItem { block, messages: message.into_iter().collect(), hash, tokens })
}

/// A node, or a turn or message in a labeled style.
fn write_labeled(
    pieces: &ConversationPieces<'_>,
    item: &PackedItem,
    style: BlockStyle,
    recalled: bool,
) -> Option<ContextItem> {
    let score = recalled.then_some(item.score);
    let mut messages = Vec::new();
    let block = match item.key {
        PieceKey::Node(level, ordinal) => {
            let node = pieces.nodes.get(&(level, ordinal))?;
            pieces.node_block(node, item.detail_level, style, score)
        }
        PieceKey::Heading | PieceKey::Turn(_) | PieceKey::Message(_) => {
            let turn = match item.key {
                PieceKey::Turn(turn) => pieces.turn_block(turn, score)?,
                PieceKey::Message(slice) => pieces.message_as_turn(slice)?,
                PieceKey::Heading | PieceKey::Node(..) => return None,
            };
            if !recalled && turn.is_whole(item.detail_level) {
                let said = turn.messages.iter();
                let message = |(it, text): &(&Message, &str)| {
                    (it.body.role, fence::visible(text).into_owned())
                };
                messages.extend(said.map(message));
            }
            turn.block(item.detail_level)
        }
    };
    let tokens = pieces.cache.count(&block);
    let RenderedBlock { block, hash, tokens } = RenderedBlock::new(block, tokens);
    Some(ContextItem { block, messages, hash, tokens })
}

/// The text of a message, preceded by the quoted tool calls before it.
fn message_text(block: &MessageBlock<'_>) -> String {
    let mut text = String::new();
    block.calls.iter().for_each(|call| fence::quote(&mut text, &render::tool_line(call)));
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&fence::visible(block.text()));
    text
}

/// The header of a hit, given the one before it.
fn lead(source: &dyn ItemSource, before: &PackedItem, item: &PackedItem) -> HeaderStyle {
    let day = |item: &PackedItem| match item.key {
        PieceKey::Message(slice) => {
            let message = source.pieces_of(item).messages.get(&slice.idx.0);
            message.map(|message| day_of(message))
        }
        PieceKey::Heading | PieceKey::Node(..) | PieceKey::Turn(_) => None,
    };
    match (day(before) == day(item), before.span().1 == item.span().0) {
        (true, true) => HeaderStyle::None,
        (true, false) => HeaderStyle::Number,
        (false, _) => HeaderStyle::Day,
    }
}
