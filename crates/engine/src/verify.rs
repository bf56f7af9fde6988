//! Verification: the conservation ledger. Reads everything, writes nothing, and lists exactly
//! what does not add up.

use std::collections::HashMap;
use std::fmt;

use treering_core::conversation::{Thread, Totals};
use treering_core::ports::{ConversationFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationId, Message, MessageIdx, Reader, StoreError, ThreadName, ToolCall, Turn, TurnNo,
};

use crate::error::Result;
use crate::memory::Memory;

const PAGE: usize = 500;

/// Something that does not add up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The conversation it is in, by slug; the store itself when absent.
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
    /// Reads every conversation of the tenant and the store below, and adds everything up.
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

    fn verify_conversations(
        &self,
        report: &mut Verification,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<()> {
        let reader = self.store().reader()?;
        let mut filter = ConversationFilter::all(PAGE);
        loop {
            let page = reader.conversations(self.tenant(), &filter)?;
            for conversation in &page {
                let ledger = Ledger::read(self, &*reader, conversation)?;
                report.conversations += 1;
                report.messages += u64::from(ledger.counted.messages);
                report.tool_calls += u64::from(ledger.counted.tool_calls);
                let slug = &conversation.slug;
                let problem = |what| Problem { conversation: Some(slug.clone()), what };
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
#[derive(Default)]
struct Ledger {
    counted: Totals,
    turns: HashMap<TurnNo, Turn>,
    problems: Vec<String>,
}

impl Ledger {
    fn read(memory: &Memory, reader: &dyn Reader, conversation: &Conversation) -> StoreResult<Self> {
        let mut ledger = Self::default();
        let threads = reader.threads(&memory.key(conversation.id))?;
        ledger.count_turns(memory, reader, conversation.id, &threads)?;
        ledger.count_messages(memory, reader, conversation)?;
        ledger.count_tool_calls(memory, reader, conversation.id)?;
        ledger.check_threads(&threads);
        ledger.check_turns();
        ledger.check_totals(conversation.totals);
        Ok(ledger)
    }

    fn note(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    fn count_turns(
        &mut self,
        memory: &Memory,
        reader: &dyn Reader,
        id: ConversationId,
        threads: &[Thread],
    ) -> StoreResult<()> {
        let key = memory.key(id);
        let mut next = 0;
        loop {
            let page = reader.turns(&key, Span::starting(TurnNo(next), PAGE))?;
            let full = page.len() == PAGE;
            for turn in page {
                if turn.no.0 != next {
                    self.note(format!("turns {next} to {} are missing", turn.no.0 - 1));
                }
                if !threads.iter().any(|thread| thread.name == turn.thread) {
                    self.note(format!("turn {} is of no thread", turn.no));
                }
                next = turn.no.0 + 1;
                self.counted.turns += 1;
                self.turns.insert(turn.no, turn);
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Every message is where it should be, in a turn that claims it, and says what it said.
    fn count_messages(
        &mut self,
        memory: &Memory,
        reader: &dyn Reader,
        conversation: &Conversation,
    ) -> StoreResult<()> {
        let key = memory.key(conversation.id);
        let mut next = 0;
        loop {
            let page = reader.messages(&key, Span::starting(MessageIdx(next), PAGE))?;
            let full = page.len() == PAGE;
            for message in page {
                if message.idx.0 != next {
                    self.note(format!("messages #{next} to #{} are missing", message.idx.0 - 1));
                }
                next = message.idx.0 + 1;
                self.check_message(&message);
                let (start, end) = (conversation.started_at, conversation.last_activity);
                if !(start..=end).contains(&message.said.at) {
                    self.note(format!("message {} is outside the conversation's time", message.idx));
                }
            }
            if !full {
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
        let problem = match self.turns.get_mut(&message.turn) {
            None => Some("belongs to no turn"),
            Some(turn) if turn.thread != message.thread => Some("is of another thread than its turn"),
            Some(turn) if !(turn.from..turn.until).contains(&message.idx) => Some("is outside its turn"),
            Some(turn) => {
                // Counted down: what is left at the end was claimed but is not there.
                turn.messages = turn.messages.wrapping_sub(1);
                None
            }
        };
        if let Some(problem) = problem {
            self.note(format!("message {} {problem}", message.idx));
        }
    }

    fn count_tool_calls(
        &mut self,
        memory: &Memory,
        reader: &dyn Reader,
        id: ConversationId,
    ) -> StoreResult<()> {
        let key = memory.key(id);
        let step = u32::try_from(PAGE).unwrap_or(u32::MAX);
        let end = self.turns.keys().map(|no| no.0 + 1).max().unwrap_or(0);
        let mut from = 0;
        loop {
            // The last page is open-ended: a call beyond the last turn belongs to none.
            let last = from + step >= end;
            let mut span = Span::between(TurnNo(from), TurnNo(from + step));
            if last {
                span.until = None;
            }
            for call in reader.tool_calls(&key, span)? {
                self.check_tool_call(&call);
            }
            if last {
                return Ok(());
            }
            from += step;
        }
    }

    fn check_tool_call(&mut self, call: &ToolCall) {
        self.counted.tool_calls += 1;
        match self.turns.get_mut(&call.turn) {
            None => self.note(format!("tool call {}/{} belongs to no turn", call.turn, call.order)),
            Some(turn) => turn.tool_calls = turn.tool_calls.wrapping_sub(1),
        }
    }

    fn check_threads(&mut self, threads: &[Thread]) {
        let main_first = threads.first().is_none_or(|thread| thread.name.is_main() && thread.fork.is_none());
        if !main_first {
            self.note("the first thread is not main");
        }
        for thread in threads.iter().skip(1) {
            let known = |name: &ThreadName| threads.iter().any(|other| other.name == *name);
            let sound = thread.fork.as_ref().is_some_and(|fork| {
                known(&fork.parent) && fork.after.is_none_or(|idx| idx.0 < self.counted.messages)
            });
            if !sound {
                self.note(format!("thread {:?} forks from nowhere", thread.name.as_str()));
            }
        }
    }

    fn check_turns(&mut self) {
        let mut off: Vec<TurnNo> = self
            .turns
            .values()
            .filter(|turn| turn.messages != 0 || turn.tool_calls != 0)
            .map(|turn| turn.no)
            .collect();
        off.sort_unstable();
        for no in off {
            self.note(format!("turn {no} counts other messages or tool calls than it has"));
        }
    }

    fn check_totals(&mut self, claimed: Totals) {
        if claimed != self.counted {
            let (says, has) = (Counts(claimed), Counts(self.counted));
            self.note(format!("the conversation says {says} and has {has}"));
        }
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
