//! Labeled blocks: a turn with the labels `User`, `Assistant` and `Tools`, and a node by its
//! level, with its lists. Matches show their relevance.
//!
//! Labels stand inside the quotation, and further lines of a message are indented, so that no
//! recorded text can pass for a label.

use std::borrow::Cow;
use std::fmt::Write as _;

use treering_core::packing::{BlockStyle, DetailLevel};
use treering_core::{Message, Node, Role, excerpt, fence};

use super::render::{self, FINDINGS, GIST_CHARS, PART_CHARS};

/// The detail levels of a turn.
pub(super) const TURN_GRAINS: [DetailLevel; 3] =
    [DetailLevel::Mention, DetailLevel::Gist, DetailLevel::Text];

/// A turn, or one message of it, to be rendered.
pub(super) struct TurnBlock<'a> {
    /// The number of the turn.
    pub(super) turn: u32,
    /// The messages, each with the text to show; not empty.
    pub(super) messages: Vec<(&'a Message, &'a str)>,
    /// The tools that were called.
    pub(super) tools: Vec<&'a str>,
    /// The relevance in percent, if the turn is a match.
    pub(super) relevance: Option<u32>,
    /// The position of the message that matches; the last message if absent.
    pub(super) focus: Option<u32>,
    /// The part of that message that matches, if the message is long.
    pub(super) part: Option<&'a str>,
}

impl TurnBlock<'_> {
    /// The rendered block. A mention is an excerpt of the first message and of the one that
    /// matches, a gist is both whole, and the text is every message.
    pub(super) fn block(&self, detail: DetailLevel) -> String {
        let mut block = self.head();
        let shown = self.shown(detail);
        let mut next = 0;
        for (at, text) in &shown {
            if *at > next {
                fence::quote(&mut block, "…");
            }
            next = at + 1;
            quote_labeled(&mut block, &speaker(self.messages[*at].0), text);
        }
        if !self.tools.is_empty() {
            fence::quote(&mut block, &format!("Tools: {}", self.tools.join(", ")));
        }
        block.push('\n');
        block
    }

    /// Whether the block shows every message whole.
    pub(super) fn is_whole(&self, detail: DetailLevel) -> bool {
        detail >= DetailLevel::Text
            || detail == DetailLevel::Gist && self.shown(detail).len() == self.messages.len()
    }

    fn shown(&self, detail: DetailLevel) -> Vec<(usize, Cow<'_, str>)> {
        let whole = |at: usize| (at, Cow::Borrowed(self.messages[at].1));
        let last = self.messages.len().saturating_sub(1);
        if detail >= DetailLevel::Text {
            return (0..self.messages.len()).map(whole).collect();
        }
        let is_focus = |(message, _): &(&Message, &str)| Some(message.idx.0) == self.focus;
        let focus = self.messages.iter().position(is_focus).unwrap_or(last);
        let mut shown = Vec::new();
        if detail == DetailLevel::Gist {
            shown.extend((focus > 0).then(|| whole(0)));
            shown.push(whole(focus));
            return shown;
        }
        let head = |at: usize, chars: usize| excerpt::head(self.messages[at].1, chars);
        shown.extend((focus > 0).then(|| (0, Cow::Owned(head(0, GIST_CHARS)))));
        let part = self.part.map_or_else(|| Cow::Owned(head(focus, PART_CHARS)), Cow::Borrowed);
        shown.push((focus, part));
        shown
    }

    fn head(&self) -> String {
        let mut head = format!("[Turn {}{}]", self.turn, relevance_label(self.relevance));
        if let (Some((first, _)), Some((last, _))) = (self.messages.first(), self.messages.last()) {
            head.push_str(" · ");
            render::span(&mut head, first.idx.0, last.idx.0);
            // Writing to a string does not fail.
            _ = write!(head, " · {}", first.body.at.to_minute());
            head.push_str(&render::thread_label(&first.thread));
        }
        head.push('\n');
        head
    }
}

/// A node as a labeled block.
pub(super) fn node(
    node: &Node,
    detail: DetailLevel,
    style: BlockStyle,
    relevance: Option<u32>,
) -> String {
    let mut block = match style {
        BlockStyle::Previous => "[Previous conversation summary]: ".to_owned(),
        BlockStyle::Plain | BlockStyle::Labeled => {
            format!("[Level {} Summary{}] · ", node.level(), relevance_label(relevance))
        }
    };
    render::node_head(&mut block, node, true);
    _ = writeln!(block, " · {}", render::short_id(node));
    let content = &node.content;
    match detail {
        DetailLevel::Mention | DetailLevel::Gist => render::quote_points(&mut block, content, 1),
        DetailLevel::Points(number) => render::quote_points(&mut block, content, number),
        DetailLevel::Text | DetailLevel::Details => {
            fence::quote(&mut block, content.overview.trim());
            let findings = &content.key_findings[..content.key_findings.len().min(FINDINGS)];
            let shown = render::list("Key findings", findings, FINDINGS);
            let mut lists: Vec<String> = shown.into_iter().collect();
            lists.extend(render::new_points(content, findings));
            lists.extend(render::files_and_tools(content));
            if detail == DetailLevel::Details {
                lists.extend(render::mentions(content));
            }
            if !lists.is_empty() {
                fence::quote(&mut block, "");
            }
            lists.iter().for_each(|line| fence::quote(&mut block, line));
        }
    }
    block.push('\n');
    block
}

fn relevance_label(relevance: Option<u32>) -> String {
    relevance.map(|percent| format!(" - Relevance: {percent}%")).unwrap_or_default()
}

/// The label of a message: its role, and its author if that says more.
fn speaker(message: &Message) -> String {
    let role = match message.body.role {
        Role::User => "User",
        Role::Assistant => "Assistant",
        Role::System => "System",
        Role::Tool => "Tool",
    };
    let author = message.body.author.as_deref().map(fence::name).unwrap_or_default();
    let says_more = author.starts_with(char::is_alphanumeric) && !author.eq_ignore_ascii_case(role);
    if says_more { format!("{role}: {author}:") } else { format!("{role}:") }
}

/// Appends a text as quoted lines, the first with a label, the others indented.
fn quote_labeled(block: &mut String, label: &str, text: &str) {
    let mut quoted = String::with_capacity(text.len() + 16);
    fence::quote(&mut quoted, text);
    for (number, line) in quoted.lines().enumerate() {
        let line = line.strip_prefix("> ").unwrap_or_default();
        let (lead, gap) = if number == 0 { (label, " ") } else { ("", "  ") };
        block.push_str("> ");
        block.push_str(lead);
        if !line.is_empty() {
            block.push_str(gap);
            block.push_str(line);
        }
        // A line without text ends with its mark.
        block.truncate(block.trim_end_matches(' ').len());
        block.push('\n');
    }
}
