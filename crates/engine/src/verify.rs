//! Verification: the conservation ledger. Reads everything, writes nothing, and lists exactly
//! what does not add up.

use std::collections::BTreeMap;
use std::fmt;

use treering_core::conversation::Totals;
use treering_core::ports::{ConversationFilter, Span, StoreResult};
use treering_core::{Conversation, Message, MessageIdx, Reader, StoreError, TenantId, ThreadName, TurnNo};

use crate::embed;
use crate::error::Result;
use crate::memory::Memory;
use crate::verify_tree;

const PAGE: usize = 500;

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The conversation it is in, by slug, behind its tenant where that is not the default one;
    /// the store itself when absent.
    pub conversation: Option<String>,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.conversation {
            Some(slug) => write!(f, "{slug}: {}", self.what),
            None => write!(f, "store: {}", self.what),
        }
    }
}

/// What a verification looked at and found.
#[derive(Debug, Clone, Default)]
pub struct Verification {
    /// Conversations that were read.
    pub conversations: u32,
    /// Messages that were read and whose hash was counted again.
    pub messages: u64,
    /// Tool calls that were read.
    pub tool_calls: u64,
    /// Nodes that were read.
    pub nodes: u64,
    /// What does not add up.
    pub problems: Vec<Problem>,
}

impl Verification {
    /// Whether everything adds up.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Memory {
    /// Reads the store, and every conversation of every tenant in it, and adds everything up.
    /// `progress` is told after each conversation how many messages were read so far.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<Verification> {
        let mut report = Verification::default();
        let problems = self.store().check()?;
        report.problems.extend(problems.into_iter().map(|what| Problem { conversation: None, what }));
        match self.verify_conversations(&mut report, &mut progress) {
            Ok(()) => {}
            Err(StoreError::Corrupt { detail, .. }) => {
                let what = format!("cannot be read further: {detail}");
                report.problems.push(Problem { conversation: None, what });
            }
            Err(error) => return Err(error.into()),
        }
        Ok(report)
    }

    /// What is wrong with the store itself, below what is kept in it.
    pub fn check_store(&self) -> Result<Vec<String>> {
        Ok(self.store().check()?)
    }

    fn verify_conversations(
        &self,
        report: &mut Verification,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<()> {
        for tenant in self.store().reader()?.tenants()? {
            self.of_tenant(tenant).verify_tenant(report, progress)?;
        }
        Ok(())
    }

    fn verify_tenant(&self, report: &mut Verification, progress: &mut dyn FnMut(u64)) -> StoreResult<()> {
        let reader = self.store().reader()?;
        let mut filter = ConversationFilter::all(PAGE);
        let place = |slug: &str| match self.tenant() == &TenantId::default() {
            true => slug.to_owned(),
            false => format!("{}/{slug}", self.tenant()),
        };
        loop {
            let page = reader.conversations(self.tenant(), &filter)?;
            for conversation in &page {
                let ledger = Ledger::read(self, &*reader, conversation)?;
                report.conversations += 1;
                report.messages += u64::from(ledger.counted.messages);
                report.tool_calls += u64::from(ledger.counted.tool_calls);
                report.nodes += ledger.nodes;
                let place = place(&conversation.slug);
                let problem = |what| Problem { conversation: Some(place.clone()), what };
                report.problems.extend(ledger.problems.into_iter().map(problem));
                progress(report.messages);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => filter.after = Some((last.last_activity, last.id)),
                _ => return Ok(()),
            }
        }
    }
}

/// What one conversation really holds, counted row by row.
struct Ledger<'a> {
    memory: &'a Memory,
    reader: &'a dyn Reader,
    conversation: &'a Conversation,
    counted: Totals,
    /// The thread of each turn, as the first of its messages or tool calls says.
    turns: BTreeMap<TurnNo, ThreadName>,
    nodes: u64,
    problems: Vec<String>,
}

impl<'a> Ledger<'a> {
    fn read(memory: &'a Memory, reader: &'a dyn Reader, conversation: &'a Conversation) -> StoreResult<Self> {
        let (counted, turns, nodes, problems) = Default::default();
        let mut ledger = Self { memory, reader, conversation, counted, turns, nodes, problems };
        ledger.count_messages()?;
        ledger.count_tool_calls()?;
        ledger.check_turns();
        ledger.check_threads()?;
        if conversation.totals != ledger.counted {
            let (says, has) = (Counts(conversation.totals), Counts(ledger.counted));
            ledger.note(format!("the conversation says {says} and has {has}"));
        }
        let key = memory.key(conversation.id);
        let (nodes, problems) = verify_tree::problems(reader, &key, conversation)?;
        ledger.nodes = nodes;
        ledger.problems.extend(problems);
        for gap in embed::gaps(memory, reader, conversation.id)? {
            ledger.note(format!("no vector and no job to {gap}"));
        }
        Ok(ledger)
    }

    fn note(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    /// Every message is in its place and says what it said.
    fn count_messages(&mut self) -> StoreResult<()> {
        let key = self.memory.key(self.conversation.id);
        let (mut next, mut turns) = (0, 0);
        loop {
            let page = self.reader.messages(&key, Span::starting(MessageIdx(next), PAGE))?;
            for message in &page {
                if message.idx.0 != next {
                    self.note(format!("messages #{next} to #{} are missing", message.idx.0 - 1));
                }
                next = message.idx.0 + 1;
                if message.turns < turns || message.turn.0 >= message.turns {
                    self.note(format!("message {} is of a turn that was not there yet", message.idx));
                }
                turns = message.turns;
                self.check_message(message);
            }
            if page.len() < PAGE {
                return Ok(());
            }
        }
    }

    fn check_message(&mut self, message: &Message) {
        self.counted.messages += 1;
        self.counted.chars += u64::from(message.chars);
        self.counted.tokens += u64::from(message.tokens);
        if message.said.hash() != message.hash {
            self.note(format!("message {} is not what was stored: its hash differs", message.idx));
        }
        if treering_core::text::chars(&message.said.text) != message.chars {
            self.note(format!("message {} has another number of characters", message.idx));
        }
        let (start, end) = (self.conversation.started_at, self.conversation.last_activity);
        if !(start..=end).contains(&message.said.at) {
            self.note(format!("message {} is outside the conversation's time", message.idx));
        }
        if !self.belongs(message.turn, &message.thread) {
            self.note(format!("message {} is of another thread than its turn", message.idx));
        }
    }

    fn count_tool_calls(&mut self) -> StoreResult<()> {
        let key = self.memory.key(self.conversation.id);
        let mut from = 0;
        let step = u32::try_from(PAGE).unwrap_or(u32::MAX);
        loop {
            // The last page is open-ended: a call beyond the last turn is a problem, not a secret.
            let last = from + step >= self.conversation.totals.turns;
            let mut span = Span::between(TurnNo(from), TurnNo(from + step));
            if last {
                span.until = None;
            }
            let (mut turn, mut next) = (None, 0);
            for call in self.reader.tool_calls(&key, span)? {
                if turn.replace(call.turn) != Some(call.turn) {
                    next = 0;
                }
                if call.order != next {
                    self.note(format!("turn {} has no tool call {next}", call.turn));
                }
                next = call.order + 1;
                self.counted.tool_calls += 1;
                if !self.belongs(call.turn, &call.thread) {
                    self.note(format!("tool call {next} of turn {} is of another thread", call.turn));
                }
            }
            if last {
                return Ok(());
            }
            from += step;
        }
    }

    fn belongs(&mut self, turn: TurnNo, thread: &ThreadName) -> bool {
        self.turns.entry(turn).or_insert_with(|| thread.clone()) == thread
    }

    fn check_turns(&mut self) {
        self.counted.turns = u32::try_from(self.turns.len()).unwrap_or(u32::MAX);
        let gap = self.turns.keys().zip(0..).find(|(turn, expected)| turn.0 != *expected);
        if let Some((_, missing)) = gap {
            self.note(format!("turn {missing} has neither messages nor tool calls"));
        }
    }

    /// Every thread leaves another that is there, and knows its latest turn.
    fn check_threads(&mut self) -> StoreResult<()> {
        let threads = &self.conversation.threads;
        let key = self.memory.key(self.conversation.id);
        for (place, thread) in threads.iter().enumerate() {
            let known = |name: &ThreadName| threads.iter().any(|other| other.name == *name);
            let sound = match &thread.fork {
                None => place == 0 && thread.name.is_main(),
                Some(fork) => {
                    place > 0
                        && known(&fork.parent)
                        && fork.after.is_none_or(|idx| idx.0 < self.counted.messages)
                }
            };
            if !sound {
                self.note(format!("thread {:?} forks from nowhere", thread.name.as_str()));
            }
            let latest = self.turns.iter().rev().find(|(_, name)| **name == thread.name).map(|(no, _)| *no);
            let made = match latest {
                Some(no) => self.reader.turns(&key, Span::starting(no, 1))?.pop(),
                None => None,
            };
            if made != thread.last_turn {
                self.note(format!("thread {:?} has another latest turn than it says", thread.name.as_str()));
            }
        }
        Ok(())
    }
}

struct Counts(Totals);

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { messages, turns, tool_calls, chars, tokens } = self.0;
        write!(
            f,
            "{messages} messages, {turns} turns, {tool_calls} tool calls, {chars} chars, {tokens} tokens"
        )
    }
}
