//! The input of one node, read from the store and converted to a summary request.

use std::sync::{Arc, Mutex, PoisonError};

use treering_core::acceptance::Fidelity;
use treering_core::ports::{NodeFilter, Span, StoreResult};
use treering_core::{
    ContentHash, ConversationKey, Coverage, CoveredSession, Level, Message, MessageIdx,
    MessagePassage, NewMessage, NewToolCall, Node, NodeContent, NodeId, NodePassage, NodeSpec,
    OVERLAP_LOOK_BACK, Passage, Provenance, Reader, SessionInfo, SourceTotals, SummaryLength,
    SummaryRequest, Timestamp, ToolPassage, TurnNo, Window, hash_of_nodes, hash_of_window,
    sort_roots,
};

use crate::project::SessionContent;
use crate::top;

/// Maximum length of a tool call's arguments in a summary request, in characters.
const ARGS_CHARS: usize = 400;
/// Maximum length of a tool call's result in a summary request, in characters.
const RESULT_CHARS: usize = 600;

/// Length above which a message is cached, in characters.
const LONG_CHARS: u32 = 50_000;

/// Number of characters before a window that are compared to find what is new in it.
const PRECEDING_CHARS: u32 = 6_000;
/// Messages per read.
const PRECEDING_STEP: u32 = 32;

/// The input of a node.
#[derive(Debug)]
pub(crate) struct SummaryInput {
    pub(crate) request: SummaryRequest,
    pub(crate) source: SourceTotals,
    pub(crate) id: NodeId,
    pub(crate) covers: Coverage,
    pub(crate) range_start: Timestamp,
    pub(crate) range_end: Timestamp,
    /// Number of covered tool calls without a result.
    pub(crate) unanswered: usize,
}

impl SummaryInput {
    /// Reads the input of a task; `None` if it no longer exists.
    pub(crate) fn read(
        reader: &dyn Reader,
        key: &ConversationKey,
        task: &NodeSpec,
        long: &LongMessageCache,
    ) -> StoreResult<Option<Self>> {
        let input = match &task.covers {
            Coverage::Messages(window) => {
                let messages = long.messages(reader, key, window.from.idx, window.end())?;
                Self::of_window(reader, key, task, window, messages)?
            }
            Coverage::Nodes(_) => Self::of_group(reader, key, task)?,
            Coverage::Whole(_) => Self::of_whole(reader, key, task, long)?,
            Coverage::Sessions(sessions) => Self::of_sessions(reader, key, task, sessions)?,
        };
        let Some(mut input) = input else { return Ok(None) };
        if let Some(conversation) = reader.conversation(key.id)? {
            let session = &mut input.request.session;
            (session.title, session.participants) = (conversation.title, conversation.participants);
        }
        Ok(Some(input))
    }

    fn of_window(
        reader: &dyn Reader,
        key: &ConversationKey,
        task: &NodeSpec,
        window: &Window,
        mut messages: Vec<Arc<Message>>,
    ) -> StoreResult<Option<Self>> {
        messages.retain(|message| message.thread == window.thread);
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else {
            return Ok(None);
        };
        let turns = Span::between(first.turn, TurnNo(last.turn.0 + 1));
        let mut calls = reader.tool_calls(key.id, turns)?;
        calls.retain(|call| window.has_call(call));
        calls.retain(|call| !call.call.is_forgotten());
        let unanswered = calls.iter().filter(|call| call.call.outcome.is_none()).count();
        let mut passages = overlap(reader, key, window, first, task.style.overlap_chars)?;
        let mut slices = Vec::with_capacity(messages.len());
        let mut source =
            SourceTotals { from: first.idx.0, until: last.idx.0 + 1, ..SourceTotals::default() };
        let mut next_calls = calls.iter().peekable();
        let kept = messages.iter().filter(|message| !message.body.forgotten);
        let mut turns: Vec<TurnNo> = kept.map(|message| message.turn).collect();
        turns.dedup();
        source.turns = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        for message in &messages {
            while let Some(call) = next_calls.next_if(|call| call.before <= message.idx) {
                passages.push(Passage::Tool(tool_passage(&call.call)));
            }
            let Some(slice) = window.slice(message.idx, message.chars) else { continue };
            slices.push((message.hash, slice));
            if message.body.forgotten {
                continue;
            }
            let text = cut(&message.body.text, slice.from, slice.until);
            let chars = u64::from(slice.until.saturating_sub(slice.from));
            source.messages += 1;
            source.raw_chars += chars;
            source.raw_tokens += match message.chars {
                0 => u64::from(message.tokens),
                all => u64::from(message.tokens) * chars / u64::from(all),
            };
            passages.push(Passage::Message(message_passage(&message.body, text)));
        }
        source.chars = source.raw_chars;
        let hash = hash_of_window(key.id, &window.thread, slices.into_iter(), &calls, &task.style);
        let times = messages.iter().map(|message| message.body.at);
        let mut input = Self::new(task, passages, source, hash, task.covers.clone(), times);
        input.request.preceding = preceding(reader, key, window)?;
        Ok(Some(Self { unanswered, ..input }))
    }

    fn of_group(
        reader: &dyn Reader,
        key: &ConversationKey,
        task: &NodeSpec,
    ) -> StoreResult<Option<Self>> {
        let Some(child_level) = task.level.below() else { return Ok(None) };
        let mut children = children_of(reader, key, child_level, task.ordinal)?;
        if children.is_empty() {
            return Ok(None);
        }
        children.sort_by_key(|child| (child.range_end, child.ordinal()));
        let ids = children.iter().map(|child| child.id.clone()).collect();
        Ok(Some(Self::of_nodes(key, task, Coverage::Nodes(ids), children)))
    }

    /// The input of the top: the roots. If they are shorter than the top may be, it is written
    /// from the nodes below them, and at last from the messages.
    fn of_whole(
        reader: &dyn Reader,
        key: &ConversationKey,
        task: &NodeSpec,
        long: &LongMessageCache,
    ) -> StoreResult<Option<Self>> {
        let mut row = top::roots(reader, key)?;
        let is_current = row.iter().map(|root| &root.id).eq(task.covers.nodes());
        if row.is_empty() || !is_current {
            return Ok(None);
        }
        let enough = match task.style.length {
            SummaryLength::Tokens(_, max_tokens) => u64::from(max_tokens),
            SummaryLength::Keep(_) | SummaryLength::Sentences(..) => 0,
        };
        let is_short =
            |row: &[Node]| row.iter().map(|it| u64::from(it.tokens)).sum::<u64>() < enough;
        while let Some(child_level) = row.iter().map(Node::level).max().and_then(Level::below)
            && is_short(&row)
        {
            let (opened, mut rest): (Vec<Node>, Vec<Node>) =
                row.into_iter().partition(|node| node.level().below() == Some(child_level));
            for node in opened {
                rest.extend(children_of(reader, key, child_level, node.ordinal())?);
            }
            sort_roots(&mut rest);
            row = rest;
        }
        let mut input = Self::of_nodes(key, task, task.covers.clone(), row.clone());
        if is_short(&row) {
            input.request.passages.clear();
            for node in row {
                let messages = Self::read(reader, key, &node.spec, long)?;
                input
                    .request
                    .passages
                    .extend(messages.into_iter().flat_map(|it| it.request.passages));
            }
            input.request.session.tokens = input.source.raw_tokens;
            input.source.chars = input.source.raw_chars;
        }
        Ok(Some(input))
    }

    /// The input of a node that covers the sessions of a project: their summaries, and the messages that
    /// no summary covers. Its totals have no positions.
    fn of_sessions(
        reader: &dyn Reader,
        key: &ConversationKey,
        task: &NodeSpec,
        sessions: &[CoveredSession],
    ) -> StoreResult<Option<Self>> {
        let (mut passages, mut times) = (Vec::new(), Vec::new());
        let (mut source, mut tokens) = (SourceTotals::default(), 0);
        for covered in sessions {
            let Some(session) = reader.conversation(covered.conversation)? else {
                return Ok(None);
            };
            let content = SessionContent::read(reader, &session)?;
            times.extend([session.started_at, session.last_activity]);
            source.messages += session.totals.messages;
            source.turns += session.totals.turns;
            source.raw_chars += session.totals.chars;
            source.raw_tokens += session.totals.tokens;
            let (chars, of_tokens) = content.size();
            source.chars += u64::from(chars);
            tokens += u64::from(of_tokens);
            passages.extend(content.roots.into_iter().filter_map(node_passage));
            let message = |it: &Message| message_passage(&it.body, &it.body.text);
            passages.extend(content.messages.iter().map(|it| Passage::Message(message(it))));
        }
        let hash = hash_of_nodes(key.id, task.level, &task.covers, &task.style);
        let covers = task.covers.clone();
        let mut input = Self::new(task, passages, source, hash, covers, times.into_iter());
        input.request.session.tokens = tokens;
        Ok(Some(input))
    }

    /// The input of a node over other nodes, given in time order.
    fn of_nodes(
        key: &ConversationKey,
        task: &NodeSpec,
        covers: Coverage,
        children: Vec<Node>,
    ) -> Self {
        let sum = |of: fn(&Node) -> u64| children.iter().map(of).sum::<u64>();
        let source = SourceTotals {
            from: children.iter().map(|child| child.source.from).min().unwrap_or(0),
            until: children.iter().map(|child| child.source.until).max().unwrap_or(0),
            messages: children.iter().map(|child| child.source.messages).sum(),
            turns: children.iter().map(|child| child.source.turns).sum(),
            raw_chars: sum(|child| child.source.raw_chars),
            raw_tokens: sum(|child| child.source.raw_tokens),
            chars: sum(|child| u64::from(child.chars)),
        };
        let tokens = sum(|child| u64::from(child.tokens));
        let hash = hash_of_nodes(key.id, task.level, &covers, &task.style);
        let times: Vec<_> =
            children.iter().flat_map(|child| [child.range_start, child.range_end]).collect();
        let passages = children.into_iter().filter_map(node_passage).collect();
        let mut input = Self::new(task, passages, source, hash, covers, times.into_iter());
        input.request.session.tokens = tokens;
        input
    }

    /// The tokens of the input: those of the messages, or a share of the children's.
    pub(crate) fn tokens(&self) -> u64 {
        match &self.covers {
            Coverage::Messages(_) => self.source.raw_tokens,
            Coverage::Nodes(_) | Coverage::Whole(_) | Coverage::Sessions(_) => {
                self.source.chars.div_ceil(4)
            }
        }
    }

    /// The node with this content.
    pub(crate) fn into_node(
        self,
        task: &NodeSpec,
        content: NodeContent,
        tokens: u32,
        fidelity: Fidelity,
        provenance: Provenance,
    ) -> Node {
        Node {
            id: self.id,
            spec: NodeSpec { covers: self.covers, ..task.clone() },
            parent: None,
            superseded: false,
            dirty: false,
            chars: treering_core::text::chars(&content.overview),
            tokens,
            content,
            range_start: self.range_start,
            range_end: self.range_end,
            source: self.source,
            provenance,
            grounded: fidelity.grounded,
            retained: fidelity.retained,
            invented: fidelity.invented,
        }
    }

    fn new(
        task: &NodeSpec,
        passages: Vec<Passage>,
        source: SourceTotals,
        hash: ContentHash,
        covers: Coverage,
        times: impl Iterator<Item = Timestamp> + Clone,
    ) -> Self {
        let epoch = Timestamp::from_micros(0);
        let (range_start, range_end) =
            (times.clone().min().unwrap_or(epoch), times.max().unwrap_or(epoch));
        let style = &task.style;
        let session = SessionInfo {
            range: Some((range_start, range_end)),
            messages: source.messages,
            tokens: source.raw_tokens,
            ..SessionInfo::default()
        };
        let request = SummaryRequest::new(
            task.level,
            style.strategy,
            style.length,
            style.deduplicate,
            passages,
            session,
        );
        let id = NodeId::new(task.level, hash, range_end);
        Self { request, source, id, covers, range_start, range_end, unanswered: 0 }
    }
}

/// The passage of a node; `None` if it has nothing to summarize, because every message under it was
/// forgotten.
fn node_passage(node: Node) -> Option<Passage> {
    let Node { range_start, range_end, content, .. } = node;
    let is_written = content != NodeContent::default();
    is_written.then_some(Passage::Node(NodePassage { range_start, range_end, content }))
}

/// The nodes of a level in one group of the level above.
fn children_of(
    reader: &dyn Reader,
    key: &ConversationKey,
    level: Level,
    parent: u32,
) -> StoreResult<Vec<Node>> {
    reader.nodes(key.id, &NodeFilter { parent: Some(Some(parent)), ..NodeFilter::at(level) })
}

/// The last long message that was read. Many consecutive windows are slices of it, and reading it
/// each time would take longer than writing their nodes.
#[derive(Debug, Default)]
pub(crate) struct LongMessageCache(Mutex<Option<(ConversationKey, u64, Arc<Message>)>>);

impl LongMessageCache {
    /// Drops the cached message.
    pub(crate) fn clear(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The messages of a range. A cached message stays valid until something is forgotten.
    fn messages(
        &self,
        reader: &dyn Reader,
        key: &ConversationKey,
        from: MessageIdx,
        until: MessageIdx,
    ) -> StoreResult<Vec<Arc<Message>>> {
        let revision = reader.audit().revision()?;
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|(_, read_at, _)| *read_at != revision);
        if let Some((_, _, message)) =
            last.as_ref().filter(|(of, _, message)| of == key && message.idx == from)
            && until.0 == from.0 + 1
        {
            return Ok(vec![Arc::clone(message)]);
        }
        let read = reader.messages(key.id, Span::between(from, until))?;
        let messages: Vec<Arc<Message>> =
            read.into_iter().map(|message| Arc::new(message.recalled())).collect();
        if let Some(long) = messages.iter().rfind(|message| message.chars > LONG_CHARS) {
            *last = Some((key.clone(), revision, Arc::clone(long)));
        }
        Ok(messages)
    }
}

/// The end of the thread's text before the window, for continuity: whole words, at most `chars`
/// characters.
fn overlap(
    reader: &dyn Reader,
    key: &ConversationKey,
    window: &Window,
    first: &Message,
    chars: u32,
) -> StoreResult<Vec<Passage>> {
    if chars == 0 {
        return Ok(Vec::new());
    }
    // The window starts within its first message, or after an earlier one of the thread.
    if window.from.offset > 0 {
        return Ok(vec![Passage::Message(message_passage(
            &first.body,
            tail(first, window.from.offset, chars),
        ))]);
    }
    let from = MessageIdx(window.from.idx.0.saturating_sub(OVERLAP_LOOK_BACK));
    let before = reader.messages(key.id, Span::between(from, window.from.idx))?;
    let last = before.into_iter().rfind(|message| message.thread == window.thread);
    let last = last.map(Message::recalled);
    Ok(last
        .iter()
        .map(|last| Passage::Message(message_passage(&last.body, tail(last, last.chars, chars))))
        .collect())
}

/// The messages of the thread before the window, from the latest back, up to the first with which
/// they have `PRECEDING_CHARS`.
fn preceding(reader: &dyn Reader, key: &ConversationKey, window: &Window) -> StoreResult<String> {
    let (mut text, mut chars) = (String::new(), 0);
    let mut until = window.from.idx;
    while until.0 > 0 && chars < PRECEDING_CHARS {
        let from = MessageIdx(until.0.saturating_sub(PRECEDING_STEP));
        let before = reader.messages(key.id, Span::between(from, until))?;
        for message in before.into_iter().rev().filter(|it| it.thread == window.thread) {
            if chars >= PRECEDING_CHARS {
                break;
            }
            let message = message.recalled();
            text.push_str(tail(&message, message.chars, PRECEDING_CHARS));
            text.push('\n');
            chars += message.chars;
        }
        until = from;
    }
    Ok(text)
}

/// The last `chars` characters before `end`, in whole words.
fn tail(message: &Message, end: u32, chars: u32) -> &str {
    let tail = cut(&message.body.text, end.saturating_sub(chars), end);
    match tail.split_once(char::is_whitespace) {
        Some((_, rest)) if end > chars => rest,
        _ => tail,
    }
}

pub(crate) fn message_passage(body: &NewMessage, text: &str) -> MessagePassage {
    MessagePassage {
        role: body.role,
        author: body.author.clone(),
        at: body.at,
        text: text.to_owned(),
    }
}

pub(crate) fn tool_passage(call: &NewToolCall) -> ToolPassage {
    let outcome = call.outcome.as_ref();
    let head = |text: &str, limit: usize| text.chars().take(limit).collect();
    ToolPassage {
        name: call.name.clone(),
        success: outcome.and_then(|outcome| outcome.success),
        args: head(call.args.as_str(), ARGS_CHARS),
        result: outcome
            .map_or_else(String::new, |outcome| head(&outcome.result.to_text(), RESULT_CHARS)),
    }
}

/// The characters of a text from `from` to `until`.
fn cut(text: &str, from: u32, until: u32) -> &str {
    let rest = skip(text, from);
    &rest[..rest.len() - skip(rest, until.saturating_sub(from)).len()]
}

/// A text without its first characters. `nth` is faster than counting them one by one.
fn skip(text: &str, chars: u32) -> &str {
    let mut rest = text.chars();
    if let Some(last) = chars.checked_sub(1) {
        rest.nth(last as usize);
    }
    rest.as_str()
}
