//! Capture: turns entries into writes. The result is the same however the entries are batched
//! and however often they are replayed.
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
    /// It was already stored; nothing was added.
    AlreadyStored,
    /// Different content is already stored under its external id; the stored content stays.
    ContentDiffers,
    /// Another conversation contains it; nothing was added.
    InOtherConversation,
}

/// The plan for a batch of entries.
#[derive(Debug)]
pub struct CapturePlan {
    /// The resulting conversation; its slug is unchanged.
    pub conversation: Conversation,
    /// The writes, except for the conversation itself.
    pub writes: Vec<Write>,
    /// The outcome of each entry, in order.
    pub outcomes: Vec<EntryOutcome>,
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
        writes: Vec::new(),
    };
    let outcomes = entries.iter().map(|entry| state.take(entry)).collect::<Result<Vec<_>, _>>()?;
    let CapturePlanner { mut conversation, writes, .. } = state;
    let grew = |outcome: &EntryOutcome| {
        !matches!(outcome, EntryOutcome::AlreadyStored | EntryOutcome::ContentDiffers)
    };
    if outcomes.iter().any(grew) {
        conversation.state = ConversationState::Open;
    }
    Ok(CapturePlan { conversation, writes, outcomes })
}

struct CapturePlanner<'a> {
    conversation: Conversation,
    known: HashMap<ExternalId, ExistingItem>,
    tokens: &'a dyn Fn(&str) -> u32,
    /// The index into `writes` of the tool calls that this batch added.
    added_calls: HashMap<(TurnNo, u32), usize>,
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
        }
    }

    fn message(
        &mut self,
        thread: &ThreadName,
        message: &CountedMessage,
    ) -> Result<EntryOutcome, Invalid> {
        let body = &message.body;
        if let Some(known) = body.external_id.as_ref().and_then(|id| self.known.get(id)) {
            return Ok(match known {
                ExistingItem::Message(_, hash) if *hash == message.hash => {
                    EntryOutcome::AlreadyStored
                }
                _ => EntryOutcome::ContentDiffers,
            });
        }
        let idx = MessageIdx(self.conversation.totals.messages);
        let opens = |turn: &Turn| turn.answered && body.role == Role::User;
        let no = self.extend_turn(thread, body.at, opens, |turn| {
            if turn.messages == 0 {
                turn.from = idx;
            }
            turn.messages += 1;
            turn.until = MessageIdx(idx.0 + 1);
            turn.answered |= body.role == Role::Assistant && !body.text.is_empty();
            turn.no
        });
        self.conversation.totals.messages = idx.0.checked_add(1).ok_or_else(full)?;
        self.conversation.totals.chars += u64::from(message.chars);
        self.conversation.totals.tokens += u64::from(message.tokens);
        self.update_metadata(body);
        if let Some(id) = &body.external_id {
            self.known.insert(id.clone(), ExistingItem::Message(idx, message.hash));
        }
        let stored = Message {
            idx,
            turn: no,
            turns: self.conversation.totals.turns,
            thread: thread.clone(),
            body: body.clone(),
            chars: message.chars,
            tokens: message.tokens,
            hash: message.hash,
        };
        self.writes.push(Write::AddMessage(self.conversation.id, stored));
        Ok(EntryOutcome::Message(idx))
    }

    fn tool_call(
        &mut self,
        thread: &ThreadName,
        call: &NewToolCall,
    ) -> Result<EntryOutcome, Invalid> {
        match call.external_id.as_ref().and_then(|id| self.known.get(id).copied()) {
            None => {}
            Some(ExistingItem::ToolCall { turn, order, finished: false }) => {
                let Some(outcome) = &call.outcome else { return Ok(EntryOutcome::AlreadyStored) };
                return Ok(self.finish(call.external_id.as_ref(), turn, order, outcome));
            }
            Some(ExistingItem::ToolCall { .. }) => return Ok(EntryOutcome::AlreadyStored),
            Some(ExistingItem::Message(..)) => return Ok(EntryOutcome::ContentDiffers),
        }
        let before = MessageIdx(self.conversation.totals.messages);
        let opens = |_: &Turn| false;
        let (no, order) = self.extend_turn(thread, call.at, opens, |turn| {
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
        // A call that this batch added receives its result before it is written.
        let added =
            self.added_calls.get(&(turn, order)).and_then(|place| self.writes.get_mut(*place));
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
        if let Some(there) = threads.iter().find(|there| there.name == *thread) {
            let same = there.fork.as_ref() == Some(fork);
            return Ok(if same {
                EntryOutcome::AlreadyStored
            } else {
                EntryOutcome::ContentDiffers
            });
        }
        let known_parent =
            fork.parent.is_main() || threads.iter().any(|there| there.name == fork.parent);
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
            threads.push(Thread { name: ThreadName::main(), fork: None, last_turn: None });
        }
        threads.push(Thread { name: name.clone(), fork, last_turn: None });
        threads.len() - 1
    }

    /// Applies a change to the turn of the next entry in `thread`: the latest turn, or a new
    /// one if there is none or `opens` returns true.
    fn extend_turn<T>(
        &mut self,
        thread: &ThreadName,
        at: Timestamp,
        opens: impl Fn(&Turn) -> bool,
        change: impl FnOnce(&mut Turn) -> T,
    ) -> T {
        let place = self.conversation.threads.iter().position(|there| there.name == *thread);
        let place = place.unwrap_or_else(|| {
            let after = self.conversation.totals.messages.checked_sub(1).map(MessageIdx);
            let fork = (!thread.is_main()).then(|| Fork { parent: ThreadName::main(), after });
            self.open_thread(thread, fork)
        });
        let totals = &mut self.conversation.totals;
        let latest = &mut self.conversation.threads[place].last_turn;
        if latest.as_ref().is_some_and(opens) {
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
        let begins = conversation.totals.turns == 1 && turn_is_new;
        conversation.started_at = if begins { at } else { conversation.started_at.min(at) };
        conversation.last_activity = if begins { at } else { conversation.last_activity.max(at) };
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
