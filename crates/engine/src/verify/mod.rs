//! Verification: reads the whole store and lists every inconsistency. It never writes.

pub(crate) mod tree;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use treering_core::ports::{ConversationFilter, ConversationQuery, Span, StoreResult};
use treering_core::{
    Conversation, ConversationTotals, Message, MessageIdx, Reader, StoreError, TenantId,
    ThreadName, Timestamp, Turn, TurnNo,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::{embed, orphaned_vectors};

const PAGE: usize = 500;

/// An inconsistency.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityProblem {
    /// The slug of the conversation, prefixed by its tenant unless that is the default one.
    /// Absent if the problem concerns the store itself.
    pub conversation: Option<String>,
    /// A description of the problem.
    pub description: String,
}

impl fmt::Display for IntegrityProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.conversation {
            Some(slug) => write!(f, "{slug}: {}", self.description),
            None => write!(f, "store: {}", self.description),
        }
    }
}

/// The result of a verification.
#[derive(Debug, Clone, Default)]
pub struct Verification {
    /// Number of conversations read.
    pub conversations: u32,
    /// Number of messages read and hashed again.
    pub messages: u64,
    /// Number of tool calls read.
    pub tool_calls: u64,
    /// Number of nodes read.
    pub nodes: u64,
    /// The inconsistencies.
    pub problems: Vec<IntegrityProblem>,
    /// Harmless leftovers of replaced data; a repair removes them.
    pub leftovers: Vec<IntegrityProblem>,
    /// Nodes that are stale because a message was edited; an update regenerates them.
    pub stale: Vec<IntegrityProblem>,
    /// Warnings about data that may be missing, one sentence each.
    pub warnings: Vec<String>,
}

impl Verification {
    /// Whether there are no problems.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

impl Engine {
    /// Verifies the store and every conversation of every tenant. After each conversation, calls
    /// `progress` with the number of messages read so far.
    pub fn verify(&self, mut progress: impl FnMut(u64)) -> Result<Verification> {
        let mut report = Verification::default();
        let problems = self.store().maintenance().check()?;
        report.warnings = self.warnings();
        report.warnings.retain(|warning| !problems.contains(warning));
        report.warnings.extend(self.scrub_warning()?);
        report.problems.extend(
            problems
                .into_iter()
                .map(|description| IntegrityProblem { conversation: None, description }),
        );
        match self.store().maintenance().tenants() {
            Ok(tenants) => {
                for tenant in tenants {
                    self.for_tenant(tenant).verify_tenant(&mut report, &mut progress)?;
                }
            }
            Err(error) => {
                report
                    .problems
                    .push(IntegrityProblem { conversation: None, description: unreadable(error)? });
            }
        }
        Ok(report)
    }

    /// The warning that bytes of forgotten content may remain; none if the store is unreadable,
    /// which is a problem of its own.
    fn scrub_warning(&self) -> Result<Option<String>> {
        let pending = match self.store().maintenance().pending_scrubs() {
            Err(StoreError::Corrupt { .. }) => 0,
            pending => pending?,
        };
        Ok((pending > 0).then(|| {
            "bytes of forgotten content may still be in the files of the store; run `treering \
             forget --scrub` to erase them"
                .to_owned()
        }))
    }

    fn verify_tenant(
        &self,
        report: &mut Verification,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<()> {
        let problem = |error| -> StoreResult<IntegrityProblem> {
            let description = format!("tenant {}: {}", self.tenant(), unreadable(error)?);
            Ok(IntegrityProblem { conversation: None, description })
        };
        let is_readable = match self.verify_conversations(report, progress) {
            Ok(is_readable) => is_readable,
            Err(error) => {
                report.problems.push(problem(error)?);
                false
            }
        };
        if !is_readable {
            return Ok(());
        }
        match orphaned_vectors::orphaned_vectors(self, &*self.reader()?) {
            Ok(orphaned) => {
                for (model, contents) in orphaned {
                    let (tenant, count) = (self.tenant(), contents.len());
                    let description = format!(
                        "tenant {tenant}: {count} vectors of model {model} belong to deleted text"
                    );
                    report.leftovers.push(IntegrityProblem { conversation: None, description });
                }
            }
            Err(error) => report.problems.push(problem(error)?),
        }
        Ok(())
    }

    /// Returns whether all of them could be read.
    fn verify_conversations(
        &self,
        report: &mut Verification,
        progress: &mut dyn FnMut(u64),
    ) -> StoreResult<bool> {
        let mut is_readable = true;
        let reader = self.reader()?;
        let mut filter = ConversationFilter::all(PAGE);
        loop {
            let page = reader.conversations(&ConversationQuery::List(&filter))?;
            for conversation in &page {
                report.conversations += 1;
                let (problems, stale) = match ConversationAudit::read(self, &*reader, conversation)
                {
                    Ok(ledger) => {
                        report.messages += u64::from(ledger.counted.messages);
                        report.tool_calls += u64::from(ledger.counted.tool_calls);
                        report.nodes += ledger.nodes;
                        (ledger.problems, ledger.stale)
                    }
                    Err(error) => {
                        is_readable = false;
                        (vec![unreadable(error)?], Vec::new())
                    }
                };
                let slug = self.name_of(conversation);
                let problem = |description| IntegrityProblem {
                    conversation: Some(slug.clone()),
                    description,
                };
                report.problems.extend(problems.into_iter().map(problem));
                report.stale.extend(stale.into_iter().map(problem));
                progress(report.messages);
            }
            match page.last() {
                Some(last) if page.len() == PAGE => {
                    filter.after = Some((last.last_activity, last.id));
                }
                _ => return Ok(is_readable),
            }
        }
    }

    /// The conversation's slug, prefixed by its tenant unless that is the default one.
    pub(crate) fn name_of(&self, conversation: &Conversation) -> String {
        match self.tenant() == &TenantId::default() {
            true => conversation.slug.clone(),
            false => format!("{}/{}", self.tenant(), conversation.slug),
        }
    }
}

/// The description of damaged data. Other errors say nothing about the stored data and are
/// returned.
fn unreadable(error: StoreError) -> StoreResult<String> {
    match error {
        StoreError::Corrupt { detail, .. } => Ok(format!("cannot be read further: {detail}")),
        other => Err(other),
    }
}

/// The actual contents of a conversation, counted row by row.
pub(crate) struct ConversationAudit<'a> {
    engine: &'a Engine,
    reader: &'a dyn Reader,
    conversation: &'a Conversation,
    counted: ConversationTotals,
    /// The earliest and the latest time of messages and tool calls.
    times: Option<(Timestamp, Timestamp)>,
    /// The thread of each turn, taken from its first message or tool call.
    turns: BTreeMap<TurnNo, ThreadName>,
    /// The latest turn of each thread.
    last_turns: Vec<Option<Turn>>,
    /// Whether a message, tool call or turn is missing between others.
    has_gap: bool,
    nodes: u64,
    problems: Vec<String>,
    stale: Vec<String>,
}

impl<'a> ConversationAudit<'a> {
    fn read(
        engine: &'a Engine,
        reader: &'a dyn Reader,
        conversation: &'a Conversation,
    ) -> StoreResult<Self> {
        let mut ledger = Self::count(engine, reader, conversation)?;
        let key = engine.key(conversation.id);
        let findings = tree::check(reader, &key, conversation)?;
        (ledger.nodes, ledger.stale) = (findings.nodes, findings.stale);
        ledger.problems.extend(findings.problems);
        for gap in embed::missing_jobs(engine, reader, conversation.id)? {
            ledger.report_problem(format!("no vector and no job to {gap}"));
        }
        Ok(ledger)
    }

    /// Counts messages, tool calls and turns, and compares them with the conversation's record.
    fn count(
        engine: &'a Engine,
        reader: &'a dyn Reader,
        conversation: &'a Conversation,
    ) -> StoreResult<Self> {
        let (counted, times, turns, last_turns) = Default::default();
        let (has_gap, nodes, problems, stale) = Default::default();
        let mut ledger = Self {
            engine,
            reader,
            conversation,
            counted,
            times,
            turns,
            last_turns,
            has_gap,
            nodes,
            problems,
            stale,
        };
        ledger.count_messages()?;
        ledger.count_tool_calls()?;
        ledger.check_turns();
        ledger.check_threads()?;
        if conversation.totals != ledger.counted {
            let (stored, has) = (Counts(conversation.totals), Counts(ledger.counted));
            ledger.report_problem(format!("the conversation records {stored} but has {has}"));
        }
        if let Some((start, end)) = ledger.times.filter(|_| !ledger.has_its_times()) {
            let (from, until) = (conversation.started_at, conversation.last_activity);
            ledger.report_problem(format!(
                "the conversation records {from} to {until} but lasted from {start} to {end}"
            ));
        }
        Ok(ledger)
    }

    /// The conversation with corrected counts, times and latest turns; `None` if they are right.
    /// Also `None` if messages or tool calls may be missing: the record is then the only evidence
    /// of them.
    pub(crate) fn corrected(
        engine: &'a Engine,
        reader: &'a dyn Reader,
        conversation: &'a Conversation,
    ) -> StoreResult<Option<Conversation>> {
        let ledger = Self::count(engine, reader, conversation)?;
        let wrong = [
            conversation.totals != ledger.counted,
            !ledger.has_its_times(),
            !ledger.has_its_last_turns(),
        ];
        let lost_calls = conversation.totals.tool_calls > ledger.counted.tool_calls;
        // A lost message shows in both the counts and the latest turn, so a single wrong value is
        // an error of the record itself.
        if ledger.has_gap || lost_calls || wrong.iter().filter(|is_wrong| **is_wrong).count() != 1 {
            return Ok(None);
        }
        let mut corrected = Conversation { totals: ledger.counted, ..conversation.clone() };
        if let Some((start, end)) = ledger.times {
            (corrected.started_at, corrected.last_activity) = (start, end);
        }
        for (thread, last) in corrected.threads.iter_mut().zip(ledger.last_turns) {
            thread.last_turn = last;
        }
        Ok(Some(corrected))
    }

    fn has_its_times(&self) -> bool {
        let stored = (self.conversation.started_at, self.conversation.last_activity);
        self.times.is_none_or(|times| times == stored)
    }

    fn has_its_last_turns(&self) -> bool {
        let stored = self.conversation.threads.iter().map(|thread| &thread.last_turn);
        stored.eq(self.last_turns.iter())
    }

    fn report_problem(&mut self, description: impl Into<String>) {
        self.problems.push(description.into());
    }

    fn note_gap(&mut self, description: String) {
        self.has_gap = true;
        self.report_problem(description);
    }

    fn note_time(&mut self, at: Timestamp) {
        let (start, end) = self.times.unwrap_or((at, at));
        self.times = Some((start.min(at), end.max(at)));
    }

    /// Checks that every message is at its position and matches its hash.
    fn count_messages(&mut self) -> StoreResult<()> {
        let key = self.engine.key(self.conversation.id);
        let (mut next, mut turns) = (0, 0);
        loop {
            let page = self.reader.messages(key.id, Span::starting(MessageIdx(next), PAGE))?;
            for message in &page {
                match message.idx.0.cmp(&next) {
                    Ordering::Equal => {}
                    Ordering::Less => {
                        self.report_problem(format!("message {} exists twice", message.idx));
                    }
                    Ordering::Greater => self.note_gap(match message.idx.0 - next {
                        1 => format!("message #{next} is missing"),
                        _ => format!("messages #{next} to #{} are missing", message.idx.0 - 1),
                    }),
                }
                next = next.max(message.idx.0.saturating_add(1));
                if message.turns < turns || message.turn.0 >= message.turns {
                    self.report_problem(format!(
                        "message {} belongs to a turn that did not exist yet",
                        message.idx
                    ));
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
        if message.body.hash() != message.hash {
            self.report_problem(format!(
                "message {} was changed after it was stored: its hash differs",
                message.idx
            ));
        }
        if treering_core::text::chars(&message.body.text) != message.chars {
            self.report_problem(format!(
                "message {} records a wrong number of characters",
                message.idx
            ));
        }
        self.note_time(message.body.at);
        if !self.belongs(message.turn, &message.thread) {
            self.report_problem(format!(
                "message {} belongs to another thread than its turn",
                message.idx
            ));
        }
    }

    fn count_tool_calls(&mut self) -> StoreResult<()> {
        let key = self.engine.key(self.conversation.id);
        let mut from = 0;
        let step = u32::try_from(PAGE).unwrap_or(u32::MAX);
        loop {
            // The last page is open-ended, so that it also reports calls beyond the last turn.
            let last = from + step >= self.conversation.totals.turns;
            let mut span = Span::between(TurnNo(from), TurnNo(from + step));
            if last {
                span.until = None;
            }
            let (mut turn, mut next) = (None, 0);
            for call in self.reader.tool_calls(key.id, span)? {
                if turn.replace(call.turn) != Some(call.turn) {
                    next = 0;
                }
                match call.order.cmp(&next) {
                    Ordering::Equal => {}
                    Ordering::Less => {
                        self.report_problem(format!(
                            "tool call {} of turn {} exists twice",
                            call.order, call.turn
                        ));
                    }
                    Ordering::Greater => {
                        self.note_gap(format!("turn {} has no tool call {next}", call.turn));
                    }
                }
                next = next.max(call.order.saturating_add(1));
                self.counted.tool_calls += 1;
                self.note_time(call.call.at);
                if !self.belongs(call.turn, &call.thread) {
                    let (order, turn) = (call.order, call.turn);
                    self.report_problem(format!(
                        "tool call {order} of turn {turn} belongs to another thread than its turn"
                    ));
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
            self.note_gap(format!("turn {missing} has neither messages nor tool calls"));
        }
    }

    /// Checks that every thread forks from an existing one and records its latest turn.
    fn check_threads(&mut self) -> StoreResult<()> {
        let threads = &self.conversation.threads;
        let key = self.engine.key(self.conversation.id);
        for (index, thread) in threads.iter().enumerate() {
            let known = |name: &ThreadName| threads.iter().any(|other| other.name == *name);
            let is_valid = match &thread.fork {
                None => index == 0 && thread.name.is_main(),
                Some(fork) => {
                    index > 0
                        && known(&fork.parent)
                        && fork.after.is_none_or(|idx| idx.0 < self.counted.messages)
                }
            };
            if !is_valid {
                self.report_problem(format!(
                    "thread {:?} forks from a message or thread that does not exist",
                    thread.name.as_str()
                ));
            }
            let latest =
                self.turns.iter().rev().find(|(_, name)| **name == thread.name).map(|(no, _)| *no);
            let computed = match latest {
                Some(no) => self.reader.turns(key.id, Span::starting(no, 1))?.pop(),
                None => None,
            };
            let is_wrong = computed != thread.last_turn;
            self.last_turns.push(computed);
            if is_wrong {
                self.report_problem(format!(
                    "thread {:?} records a wrong latest turn",
                    thread.name.as_str()
                ));
            }
        }
        Ok(())
    }
}

struct Counts(ConversationTotals);

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConversationTotals { messages, turns, tool_calls, chars, tokens } = self.0;
        write!(
            f,
            "{messages} messages, {turns} turns, {tool_calls} tool calls, {chars} chars, {tokens} tokens"
        )
    }
}
