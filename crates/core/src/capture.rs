//! Capture: converts entries to writes. The result does not depend on how the entries are
//! batched or how often they are replayed.
//!
//! Pure: the caller reads the conversation and the items with the entries' external ids, this
//! module plans the writes, and the caller commits them. It never reads a store or a clock.

use std::collections::HashMap;

use crate::commit::Write;
use crate::conversation::{Conversation, ConversationState, Fork, Thread, TitleSource};
use crate::error::Invalid;
use crate::ids::{ExternalId, MessageIdx, ThreadName, TurnNo};
use crate::message::{Message, NewMessage, Role, Turn};
use crate::ports::ExistingItem;
use crate::slug;
use crate::time::Timestamp;
use crate::tool::{NewToolCall, ToolCall, ToolResult};

pub use crate::entry::{CountedEntry, CountedMessage};
use crate::entry::{EntryKind, ForkPoint};

/// The outcome of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryOutcome {
    /// A message was added at this position.
    Message(MessageIdx),
    /// A tool call was added to this turn.
    ToolCall(TurnNo),
    /// A tool call received its result.
    Finished,
    /// A thread was created.
    Thread,
    /// The latest turn of the thread has ended, with this entry or before it.
    TurnEnded,
    /// It was already stored; nothing was added.
    AlreadyStored,
    /// Different content is already stored under its external id; the stored content stays.
    ContentDiffers,
    /// Another conversation contains it; nothing was added.
    InOtherConversation,
    /// It was forgotten; nothing was added.
    Forgotten,
    /// Its conversation is in a folder that is excluded from capture; nothing was added.
    Excluded,
}

/// The plan for a batch of entries.
#[derive(Debug)]
pub struct CapturePlan {
    /// The resulting conversation; its slug is unchanged.
    pub conversation: Conversation,
    /// The writes, except for the conversation itself.
    pub writes: Vec<Write>,
    /// The turns that the entries ended, in order.
    pub turn_ends: Vec<TurnEnd>,
    /// The outcome of each entry, in order.
    pub outcomes: Vec<EntryOutcome>,
}

/// The end of a turn, between two messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TurnEnd {
    /// The number of messages in the conversation at that point.
    pub after: u32,
    /// The index of the thread.
    pub thread: usize,
}

/// The external ids that [`capture`] needs to look up.
pub fn ids_of(entries: &[CountedEntry]) -> Vec<&ExternalId> {
    entries.iter().filter_map(CountedEntry::external_id).collect()
}

/// Plans the writes for `entries`, given the conversation and the items that exist under the
/// entries' external ids.
pub fn capture(
    conversation: Conversation,
    known: HashMap<ExternalId, ExistingItem>,
    entries: &[CountedEntry],
    tokens: &dyn Fn(&str) -> u32,
) -> Result<CapturePlan, Invalid> {
    let mut state = CapturePlanner {
        conversation,
        known,
        tokens,
        added_calls: HashMap::new(),
        replays: HashMap::new(),
        turn_ends: Vec::new(),
        writes: Vec::new(),
    };
    let outcomes = entries.iter().map(|entry| state.take(entry)).collect::<Result<Vec<_>, _>>()?;
    let CapturePlanner { mut conversation, writes, turn_ends, .. } = state;
    let grew = |outcome: &EntryOutcome| match outcome {
        EntryOutcome::AlreadyStored
        | EntryOutcome::ContentDiffers
        | EntryOutcome::TurnEnded
        | EntryOutcome::Forgotten
        | EntryOutcome::Excluded => false,
        EntryOutcome::Message(_)
        | EntryOutcome::ToolCall(_)
        | EntryOutcome::Finished
        | EntryOutcome::Thread
        | EntryOutcome::InOtherConversation => true,
    };
    if outcomes.iter().any(grew) {
        conversation.state = ConversationState::Open;
    }
    Ok(CapturePlan { conversation, writes, turn_ends, outcomes })
}

/// The longest silence within a turn.
const MAX_TURN_SILENCE_MICROS: i64 = 24 * 60 * 60 * 1_000_000;

/// Whether a message, or a tool call if there is no role, opens a new turn although nothing
/// marked the end of the latest one.
#[must_use]
pub fn opens_turn(answered: bool, ended_at: Timestamp, role: Option<Role>, at: Timestamp) -> bool {
    let silence = at.as_micros().saturating_sub(ended_at.as_micros());
    (answered && role == Some(Role::User)) || silence > MAX_TURN_SILENCE_MICROS
}

struct CapturePlanner<'a> {
    conversation: Conversation,
    known: HashMap<ExternalId, ExistingItem>,
    tokens: &'a dyn Fn(&str) -> u32,
    /// The index into `writes` of the tool calls that this batch added.
    added_calls: HashMap<(TurnNo, u32), usize>,
    /// Whether the last message or tool call of the batch in each thread was already stored, in
    /// an earlier turn. The end of such a replayed turn must not end a later one.
    replays: HashMap<ThreadName, bool>,
    turn_ends: Vec<TurnEnd>,
    writes: Vec<Write>,
}

impl CapturePlanner<'_> {
    fn take(&mut self, entry: &CountedEntry) -> Result<EntryOutcome, Invalid> {
        match &entry.kind {
            EntryKind::Message(message) => self.message(&entry.thread, message),
            EntryKind::ToolCall(call) => self.tool_call(&entry.thread, call),
            EntryKind::ToolResult { call, outcome, at } => {
                self.tool_result(&entry.thread, call, outcome, *at)
            }
            EntryKind::Fork { parent, after } => {
                let after = match after {
                    ForkPoint::Start => None,
                    ForkPoint::Position(idx) => Some(*idx),
                    ForkPoint::External(id) => match self.known.get(id) {
                        Some(ExistingItem::Message(idx, _)) => Some(*idx),
                        _ => None,
                    },
                };
                self.fork(&entry.thread, &Fork { parent: parent.clone(), after })
            }
            EntryKind::TurnEnd => Ok(self.end_turn(&entry.thread)),
        }
    }

    fn end_turn(&mut self, thread: &ThreadName) -> EntryOutcome {
        let replay = self.replays.get(thread).copied().unwrap_or(false);
        let mut threads = self.conversation.threads.iter_mut().enumerate();
        if let Some((index, existing)) = threads.find(|(_, existing)| existing.name == *thread)
            && existing.last_turn.is_some()
            && !existing.turn_ended
            && !replay
        {
            existing.turn_ended = true;
            let after = self.conversation.totals.messages;
            self.turn_ends.push(TurnEnd { after, thread: index });
        }
        EntryOutcome::TurnEnded
    }

    /// Remembers whether an item that is already stored is in the latest turn of its thread.
    fn note_replay(&mut self, thread: &ThreadName, is_in: impl Fn(&Turn) -> bool) {
        let mut threads = self.conversation.threads.iter();
        let last =
            threads.find(|existing| existing.name == *thread).and_then(|it| it.last_turn.as_ref());
        self.replays.insert(thread.clone(), !last.is_some_and(is_in));
    }

    fn message(
        &mut self,
        thread: &ThreadName,
        message: &CountedMessage,
    ) -> Result<EntryOutcome, Invalid> {
        let body = &message.body;
        if let Some(known) = body.external_id.as_ref().and_then(|id| self.known.get(id).copied()) {
            return Ok(match known {
                ExistingItem::Message(idx, hash) => {
                    // A turn that began with a tool call has no message yet.
                    self.note_replay(thread, |turn| turn.messages > 0 && turn.until.0 == idx.0 + 1);
                    if hash == message.hash {
                        EntryOutcome::AlreadyStored
                    } else {
                        EntryOutcome::ContentDiffers
                    }
                }
                ExistingItem::ToolCall { .. } => EntryOutcome::ContentDiffers,
            });
        }
        self.replays.insert(thread.clone(), false);
        let idx = MessageIdx(self.conversation.totals.messages);
        let opens_new_turn =
            |turn: &Turn| opens_turn(turn.answered, turn.ended_at, Some(body.role), body.at);
        let no = self.extend_turn(thread, body.at, opens_new_turn, |turn| {
            if turn.messages == 0 {
                turn.from = idx;
            }
            turn.messages += 1;
            turn.until = MessageIdx(idx.0 + 1);
            turn.answered |= body.is_answer();
            turn.no
        });
        self.conversation.totals.messages = idx.0.checked_add(1).ok_or_else(full)?;
        self.conversation.totals.chars += u64::from(message.chars);
        self.conversation.totals.tokens += u64::from(message.tokens);
        self.update_metadata(body);
        if let Some(id) = &body.external_id {
            self.known.insert(id.clone(), ExistingItem::Message(idx, message.hash));
        }
        let (id, mut body) = (self.conversation.id, body.clone());
        let history = std::mem::take(&mut body.history);
        let stored = Message {
            idx,
            turn: no,
            turns: self.conversation.totals.turns,
            thread: thread.clone(),
            body,
            chars: message.chars,
            tokens: message.tokens,
            hash: message.hash,
        };
        self.writes.push(Write::AddMessage(id, stored));
        if !history.is_empty() {
            self.writes.push(Write::AddVersions(id, idx, history));
        }
        Ok(EntryOutcome::Message(idx))
    }

    fn tool_call(
        &mut self,
        thread: &ThreadName,
        call: &NewToolCall,
    ) -> Result<EntryOutcome, Invalid> {
        let existing = call.external_id.as_ref().and_then(|id| self.known.get(id).copied());
        if let Some(ExistingItem::ToolCall { turn, .. }) = existing {
            self.note_replay(thread, |last| last.no == turn);
        }
        match existing {
            None => drop(self.replays.insert(thread.clone(), false)),
            Some(ExistingItem::ToolCall { turn, order, finished: false }) => {
                let Some(outcome) = &call.outcome else { return Ok(EntryOutcome::AlreadyStored) };
                return Ok(self.finish(call.external_id.as_ref(), turn, order, outcome));
            }
            Some(ExistingItem::ToolCall { .. }) => return Ok(EntryOutcome::AlreadyStored),
            Some(ExistingItem::Message(..)) => return Ok(EntryOutcome::ContentDiffers),
        }
        let before = MessageIdx(self.conversation.totals.messages);
        let opens_new_turn = |turn: &Turn| opens_turn(turn.answered, turn.ended_at, None, call.at);
        let (no, order) = self.extend_turn(thread, call.at, opens_new_turn, |turn| {
            turn.tool_calls += 1;
            (turn.no, turn.tool_calls - 1)
        });
        self.conversation.totals.tool_calls += 1;
        if let Some(id) = &call.external_id {
            let finished = call.outcome.is_some();
            self.known.insert(id.clone(), ExistingItem::ToolCall { turn: no, order, finished });
        }
        self.added_calls.insert((no, order), self.writes.len());
        let stored =
            ToolCall { turn: no, thread: thread.clone(), order, before, call: call.clone() };
        self.writes.push(Write::AddToolCall(self.conversation.id, stored));
        Ok(EntryOutcome::ToolCall(no))
    }

    /// Assigns a result to its call. A result without a call becomes a message with the tool
    /// role.
    fn tool_result(
        &mut self,
        thread: &ThreadName,
        call: &ExternalId,
        outcome: &ToolResult,
        at: Timestamp,
    ) -> Result<EntryOutcome, Invalid> {
        match self.known.get(call).copied() {
            Some(ExistingItem::ToolCall { turn, order, finished: false }) => {
                Ok(self.finish(Some(call), turn, order, outcome))
            }
            Some(ExistingItem::ToolCall { .. }) => Ok(EntryOutcome::AlreadyStored),
            Some(ExistingItem::Message(..)) | None => {
                let mut message = NewMessage::new(Role::Tool, outcome.result.to_text(), at);
                message.parts = Some(outcome.result.clone());
                message.external_id = Some(call.clone());
                self.message(thread, &CountedMessage::new(message, self.tokens))
            }
        }
    }

    fn finish(
        &mut self,
        id: Option<&ExternalId>,
        turn: TurnNo,
        order: u32,
        outcome: &ToolResult,
    ) -> EntryOutcome {
        if let Some(id) = id {
            self.known.insert(id.clone(), ExistingItem::ToolCall { turn, order, finished: true });
        }
        // The call is part of this batch: add the result to its pending write.
        let added =
            self.added_calls.get(&(turn, order)).and_then(|index| self.writes.get_mut(*index));
        if let Some(Write::AddToolCall(_, call)) = added {
            call.call.outcome = Some(outcome.clone());
        } else {
            self.writes.push(Write::FinishToolCall(
                self.conversation.id,
                turn,
                order,
                outcome.clone(),
            ));
        }
        EntryOutcome::Finished
    }

    fn fork(&mut self, thread: &ThreadName, fork: &Fork) -> Result<EntryOutcome, Invalid> {
        if thread.is_main() {
            return Err(Invalid::new(
                "thread \"main\"",
                "the main thread cannot fork from another thread",
            ));
        }
        let threads = &self.conversation.threads;
        if let Some(existing) = threads.iter().find(|existing| existing.name == *thread) {
            let same = existing.fork.as_ref() == Some(fork);
            return Ok(if same {
                EntryOutcome::AlreadyStored
            } else {
                EntryOutcome::ContentDiffers
            });
        }
        let known_parent =
            fork.parent.is_main() || threads.iter().any(|existing| existing.name == fork.parent);
        if !known_parent {
            return Err(Invalid::new(
                format!("thread {:?}", thread.as_str()),
                format!("it forks from {:?}, which does not exist", fork.parent.as_str()),
            ));
        }
        if fork.after.is_some_and(|idx| idx.0 >= self.conversation.totals.messages) {
            return Err(Invalid::new(
                format!("thread {:?}", thread.as_str()),
                format!(
                    "it forks after message {}, which does not exist",
                    fork.after.map_or(0, |i| i.0)
                ),
            ));
        }
        self.open_thread(thread, Some(fork.clone()));
        Ok(EntryOutcome::Thread)
    }

    /// Creates a thread and returns its index; `main` is always the first.
    fn open_thread(&mut self, name: &ThreadName, fork: Option<Fork>) -> usize {
        let threads = &mut self.conversation.threads;
        if threads.is_empty() && !name.is_main() {
            threads.push(Thread {
                name: ThreadName::main(),
                fork: None,
                last_turn: None,
                turn_ended: false,
            });
        }
        threads.push(Thread { name: name.clone(), fork, last_turn: None, turn_ended: false });
        threads.len() - 1
    }

    /// Applies a change to the turn of the next entry in `thread`: the latest turn, or a new
    /// one if there is none, if it has ended, or if `opens_new_turn` returns true.
    fn extend_turn<T>(
        &mut self,
        thread: &ThreadName,
        at: Timestamp,
        opens_new_turn: impl Fn(&Turn) -> bool,
        change: impl FnOnce(&mut Turn) -> T,
    ) -> T {
        let index = self.conversation.threads.iter().position(|existing| existing.name == *thread);
        let index = index.unwrap_or_else(|| {
            let after = self.conversation.totals.messages.checked_sub(1).map(MessageIdx);
            let fork = (!thread.is_main()).then(|| Fork { parent: ThreadName::main(), after });
            self.open_thread(thread, fork)
        });
        let totals = &mut self.conversation.totals;
        let Thread { last_turn: latest, turn_ended, .. } = &mut self.conversation.threads[index];
        if std::mem::take(turn_ended) || latest.as_ref().is_some_and(opens_new_turn) {
            *latest = None;
        }
        let turn_is_new = latest.is_none();
        let turn = latest.get_or_insert_with(|| {
            totals.turns += 1;
            Turn {
                no: TurnNo(totals.turns - 1),
                thread: thread.clone(),
                from: MessageIdx(totals.messages),
                until: MessageIdx(totals.messages),
                messages: 0,
                tool_calls: 0,
                answered: false,
                started_at: at,
                ended_at: at,
            }
        });
        turn.started_at = turn.started_at.min(at);
        turn.ended_at = turn.ended_at.max(at);
        let result = change(turn);
        let conversation = &mut self.conversation;
        // The first entry sets the start of an empty conversation.
        let is_first_turn = conversation.totals.turns == 1 && turn_is_new;
        conversation.started_at = if is_first_turn { at } else { conversation.started_at.min(at) };
        conversation.last_activity =
            if is_first_turn { at } else { conversation.last_activity.max(at) };
        result
    }

    /// Updates the participants and the title from a message.
    fn update_metadata(&mut self, message: &NewMessage) {
        let conversation = &mut self.conversation;
        if let Some(author) = &message.author
            && message.role != Role::Tool
            && !conversation.participants.contains(author)
        {
            conversation.participants.push(author.clone());
        }
        if conversation.title_source == TitleSource::Untitled
            && message.role == Role::User
            && let Some(title) = slug::title_of(&message.text)
        {
            conversation.title = Some(title);
            conversation.title_source = TitleSource::FirstMessage;
        }
    }
}

fn full() -> Invalid {
    Invalid::new("conversation", "it has the maximum number of messages; start a new one")
}
