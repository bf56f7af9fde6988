//! Contexts for a model: waits for the gate, reads the pieces, packs them into the budget, and
//! renders the result with a receipt.

mod context_cache;
mod cover;
mod format;
mod hits;
mod information;
mod labeled;
mod lineage;
mod messages;
mod piece_source;
mod pinned;
mod project_cover;
mod render;
mod scope;
mod scope_pieces;
mod turns;

use std::cell::Cell;
use std::time::Duration;

use treering_core::packing::{
    BudgetSplit, ContextPlan, PieceSource as _, Profile, SectionSource, pack, stable_prefix_end,
};
use treering_core::ports::Span;
use treering_core::{
    Conversation, ConversationId, ConversationKey, GateOutcome, GateStatus, Invalid, Job, JobKind,
    MessageIdx, Reader, Receipt, ReusablePrefix, ThreadName, TurnNo,
};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::gate::GateSnapshot;
use crate::recall::PastVersions;
use format::receipt_items;
use lineage::Lineage;
use piece_source::ConversationPieces;

pub(crate) use context_cache::ContextCache;
pub use format::{Context, ContextChange, ContextItem, ContextSection};
pub use scope::{ContextScope, ScopeContextRequest};

/// Minimum budget of a context.
const MIN_BUDGET_TOKENS: u32 = 128;
/// Approximate cost of a message in addition to its text.
const MESSAGE_OVERHEAD_TOKENS: u32 = 8;

/// A request for a context.
#[derive(Debug, Clone)]
pub struct ContextRequest {
    /// The conversation's id.
    pub conversation: ConversationId,
    /// The thread; the whole conversation if absent.
    pub thread: Option<ThreadName>,
    /// The question to answer, if any.
    pub query: Option<String>,
    /// Maximum number of tokens.
    pub budget: u32,
    /// The profile that decides what goes into the context.
    pub profile: Profile,
    /// The last turn that the context may use; the latest turn if absent.
    pub as_of: Option<TurnNo>,
    /// Maximum time to wait for the gate; the configured timeout if absent.
    pub gate_timeout: Option<Duration>,
}

impl ContextRequest {
    /// A request without a question, with the default profile: 8000 tokens, of which 2000 are
    /// reserved for the latest messages.
    #[must_use]
    pub fn new(conversation: ConversationId) -> Self {
        let profile = Profile::named("cut", 2000);
        Self {
            conversation,
            thread: None,
            query: None,
            budget: 8000,
            profile: profile.unwrap_or(Profile { name: "cut".into(), sections: Vec::new() }),
            as_of: None,
            gate_timeout: None,
        }
    }
}

impl Engine {
    /// The best context that fits the budget. Waits for the critical jobs of the conversation
    /// first, at most for the gate timeout; the receipt records the outcome.
    pub fn context(&self, request: &ContextRequest) -> Result<Context> {
        check_budget(&request.profile, request.budget)?;
        let patience =
            request.gate_timeout.unwrap_or(Duration::from_millis(self.work().gate_timeout_ms));
        let (seen, passage) = self.wait_for_gate_snapshot(request.conversation, patience)?;
        let waited_ms = u64::try_from(passage.waited.as_millis()).unwrap_or(u64::MAX);
        let key = self.key(request.conversation);
        let conversation = seen.reader.conversation(key.id)?;
        let conversation =
            conversation.ok_or_else(|| Error::no_conversation(request.conversation))?;
        let end = match request.as_of {
            None => conversation.totals.messages,
            Some(turn) => self.end_of(&*seen.reader, &key, &conversation, turn)?,
        };
        let mut assembly = Assembly {
            engine: self,
            seen: &seen,
            key: &key,
            conversation: &conversation,
            request,
            budget: request.budget,
            known_tokens: Cell::default(),
        };
        let gate = match end < conversation.totals.messages {
            true => GateOutcome::of(&assembly.gate_as_of(end)?, waited_ms),
            false => GateOutcome::of(&passage.status, waited_ms),
        };
        within_budget(request.budget, |budget| {
            assembly.budget = budget;
            assembly.assemble(end, gate.clone())
        })
    }

    /// The context of the same request one turn earlier; `None` before the second turn.
    pub fn previous_context(&self, request: &ContextRequest) -> Result<Option<Context>> {
        let turn = match request.as_of {
            Some(turn) => turn.0,
            None => {
                let reader = self.reader()?;
                let conversation = reader.conversation(request.conversation)?;
                let turns = conversation
                    .ok_or_else(|| Error::no_conversation(request.conversation))?
                    .totals
                    .turns;
                let Some(last) = turns.checked_sub(1) else { return Ok(None) };
                last
            }
        };
        let Some(before) = turn.checked_sub(1) else { return Ok(None) };
        let request = ContextRequest { as_of: Some(TurnNo(before)), ..request.clone() };
        self.context(&request).map(Some)
    }

    /// One past the last message of a turn.
    fn end_of(
        &self,
        reader: &dyn Reader,
        key: &ConversationKey,
        conversation: &Conversation,
        turn: TurnNo,
    ) -> Result<u32> {
        let found = reader.turns(key.id, Span::starting(turn, 1))?.pop();
        let Some(found) = found.filter(|found| found.no == turn) else {
            let why =
                format!("the conversation has {} turns, counted from 0", conversation.totals.turns);
            return Err(Invalid::new(format!("turn {turn}"), why).into());
        };
        Ok(found.until.0.min(conversation.totals.messages))
    }
}

fn check_budget(profile: &Profile, budget: u32) -> Result<()> {
    profile.check()?;
    if budget < MIN_BUDGET_TOKENS {
        let why = format!("a context needs at least {MIN_BUDGET_TOKENS} tokens");
        return Err(Invalid::new(format!("budget {budget}"), why).into());
    }
    Ok(())
}

/// Assembles a context that does not exceed the budget. It can exceed it only if the tokenizer is
/// not additive; then it is assembled again with a smaller one.
fn within_budget(most: u32, mut assemble: impl FnMut(u32) -> Result<Context>) -> Result<Context> {
    let mut budget = most;
    loop {
        let context = assemble(budget)?;
        let over = context.receipt.tokens.saturating_sub(most);
        if over == 0 || budget <= MIN_BUDGET_TOKENS {
            return Ok(context);
        }
        budget = budget.saturating_sub(over + SHRINK_STEP_TOKENS).max(MIN_BUDGET_TOKENS);
    }
}

/// The number of hits to request, given the mean size of a message in tokens, if it is known. More
/// than fit the budget, because short hits fill the gaps that long ones leave, and long ones may
/// be shortened.
fn hits_wanted(budget: u32, mean_tokens: u64) -> usize {
    let each = mean_tokens.clamp(16, 56) + u64::from(MESSAGE_OVERHEAD_TOKENS);
    usize::try_from(u64::from(budget) * 7 / 8 / each).unwrap_or(0).clamp(12, 160)
}

/// The thread of a context for a whole conversation with several threads, in receipts.
const WHOLE: &str = "*";

/// Extra tokens by which the budget shrinks when a context is too large.
const SHRINK_STEP_TOKENS: u32 = 8;

/// Assembles one context.
struct Assembly<'a> {
    engine: &'a Engine,
    seen: &'a GateSnapshot<'a>,
    key: &'a ConversationKey,
    conversation: &'a Conversation,
    request: &'a ContextRequest,
    /// The token budget for the sum of its blocks.
    budget: u32,
    /// A position, and the tokens of the messages before it.
    known_tokens: Cell<(u32, u64)>,
}

impl Assembly<'_> {
    fn assemble(&self, end: u32, mut gate: GateOutcome) -> Result<Context> {
        let last = self.last_message(end)?;
        let at = last.as_ref().map_or(self.conversation.started_at, |message| message.body.at);
        let is_past = end < self.conversation.totals.messages;
        let now = match is_past {
            true => at,
            false => self.engine.clock().now(),
        };
        let (lineage, thread) = self.lineage(end)?;
        let cache = self.engine.context_cache();
        let mut pieces = ConversationPieces::new(
            (&*self.seen.reader, &self.seen.jobs),
            self.key,
            self.conversation,
            cache,
            lineage,
            end,
            at,
        );
        if is_past {
            pieces.past = PastVersions::read(&*self.seen.reader, self.key.id, end, now)?;
        }
        pieces.question_hits = self.ask(end, is_past.then_some(&pieces.past), now)?;
        if let Some(why) = pieces.question_hits.as_ref().and_then(|asked| asked.words_only.as_ref())
        {
            gate.degraded = true;
            gate.failed.push(format!("search used only the words of the question: {why}"));
        }
        let allotment = self.allot(&mut pieces)?;
        self.engine.check_canceled()?;
        let plan = self.pack(&mut pieces, &allotment)?;
        self.engine.check_canceled()?;
        pieces.load_planned_messages(&self.request.profile, &plan)?;
        let sections = format::sections(&pieces, &self.request.profile, &plan);
        let reusable = self.reusable(&pieces, &plan, &sections)?;
        let mut context = Context {
            preamble: render::PREAMBLE.to_owned(),
            sections,
            receipt: Receipt::default(),
        };
        let tokens = context.tokens(cache);
        let forgotten =
            pieces.reader.audit().placeholders(self.conversation.id, MessageIdx(end))?;
        let of_context = |tokens_reused: u32| ReusablePrefix::of(tokens_reused, tokens);
        context.receipt = Receipt {
            conversation: self.conversation.id.to_string(),
            scope: None,
            sessions: Vec::new(),
            thread,
            profile: self.request.profile.name.clone(),
            query: self.request.query.clone(),
            as_of: last_turn(&pieces, end),
            asked_at: now.to_string(),
            budget: self.request.budget,
            tokens,
            tokenizer: self.engine.tokenizer().name().to_owned(),
            items: receipt_items(&pieces, &context, &plan),
            left_out: plan.left_out.clone(),
            hits_left_out: plan.hits_left_out,
            forgotten,
            gate,
            reusable: of_context(reusable),
        };
        Ok(context)
    }

    /// The visible messages, and the name of the thread: of the requested one, of the only one,
    /// or [`WHOLE`].
    fn lineage(&self, end: u32) -> Result<(Lineage, String)> {
        let threads = &self.conversation.threads;
        let thread = match (&self.request.thread, threads.as_slice()) {
            (Some(thread), _) => thread.clone(),
            (None, []) => ThreadName::main(),
            (None, [only]) => only.name.clone(),
            (None, _) => return Ok((Lineage::whole(self.conversation), WHOLE.to_owned())),
        };
        if !threads.iter().any(|it| it.name == thread) && end > 0 {
            let names: Vec<&str> = threads.iter().map(|it| it.name.as_str()).collect();
            let why = format!("the conversation has {}", names.join(", "));
            return Err(Invalid::new(format!("thread {thread}"), why).into());
        }
        Ok((Lineage::of(self.conversation, &thread), thread.to_string()))
    }

    fn last_message(&self, end: u32) -> Result<Option<treering_core::Message>> {
        let Some(last) = end.checked_sub(1) else { return Ok(None) };
        Ok(self.seen.reader.messages(self.key.id, Span::starting(MessageIdx(last), 1))?.pop())
    }

    fn headings(&self) -> Vec<u32> {
        let cache = self.engine.context_cache();
        let cost = |title: &String| cache.count(&render::heading(title));
        let sections = self.request.profile.sections.iter();
        sections.map(|section| section.heading.as_ref().map_or(0, cost)).collect()
    }

    fn budget(&self) -> u32 {
        self.budget.saturating_sub(self.engine.context_cache().count(render::PREAMBLE))
    }

    /// Splits the budget, and sets the end of the stable prefix.
    fn allot(&self, pieces: &mut ConversationPieces<'_>) -> Result<BudgetSplit> {
        let profile = &self.request.profile;
        let history_size = self.history_size(pieces.end)?;
        let asked = self.request.query.is_some() && profile.is_volatile();
        let recent = profile.cut().and_then(|section| section.tokens).unwrap_or(0);
        let room = self.budget().saturating_sub(self.headings().iter().sum());
        let allotment = BudgetSplit::new(room, recent, asked, history_size);
        pieces.room = room;
        if profile.cut().is_some() {
            pieces.room = room.saturating_sub(allotment.target);
            pieces.settled = self.settled(pieces.end, history_size, allotment.slack)?;
        }
        Ok(allotment)
    }

    fn pack(
        &self,
        pieces: &mut ConversationPieces<'_>,
        allotment: &BudgetSplit,
    ) -> Result<ContextPlan> {
        Ok(pack(pieces, &self.request.profile, &self.headings(), self.budget(), allotment)?)
    }

    /// Approximate token cost of the messages before `end`, as rendered.
    fn history_size(&self, end: u32) -> Result<u64> {
        let totals = &self.conversation.totals;
        // The sum is derived from the nearest position where it is known.
        let known = [(0, 0), (totals.messages, totals.tokens), self.known_tokens.get()];
        let nearest = known.into_iter().min_by_key(|(at, _)| at.abs_diff(end));
        let (at, tokens) = nearest.unwrap_or_default();
        let between = Span::between(MessageIdx(at.min(end)), MessageIdx(at.max(end)));
        let difference = match at == end {
            true => 0,
            false => self.seen.reader.message_tokens(self.key.id, between)?,
        };
        let tokens = match at < end {
            true => tokens + difference,
            false => tokens.saturating_sub(difference),
        };
        self.known_tokens.set((end, tokens));
        Ok(tokens + u64::from(MESSAGE_OVERHEAD_TOKENS) * u64::from(end))
    }

    fn settled(&self, end: u32, history_size: u64, slack: u32) -> Result<u32> {
        const PAGE: u32 = 12;
        // Every message costs at least its overhead, which bounds how far back to read.
        let least = end.saturating_sub(slack / MESSAGE_OVERHEAD_TOKENS + 1);
        let (mut from, mut sizes) = (end, Vec::new());
        loop {
            let settled = stable_prefix_end(end, history_size, sizes.iter().copied(), slack);
            // If the prefix ends at the earliest message read so far, it may end even earlier.
            if from <= least || settled > from {
                return Ok(settled);
            }
            let until = from;
            from = from.saturating_sub(PAGE).max(least);
            let page = self
                .seen
                .reader
                .messages(self.key.id, Span::between(MessageIdx(from), MessageIdx(until)))?;
            sizes.extend(page.iter().rev().map(|message| message.tokens + MESSAGE_OVERHEAD_TOKENS));
        }
    }

    /// The status of the gate as of a position.
    fn gate_as_of(&self, end: u32) -> Result<GateStatus> {
        let turn = self.last_message(end)?.map(|message| message.turn);
        let was_there = |job: &&Job| match &job.kind {
            JobKind::Summarize(task) => task.sealed_by.is_some_and(|by| by.0 < end),
            JobKind::EmbedTurn(embedded) => turn.is_some_and(|last| *embedded <= last),
            JobKind::EmbedNode(..) | JobKind::PlanProject => true,
        };
        let jobs: Vec<Job> = self.seen.jobs.iter().filter(was_there).cloned().collect();
        Ok(GateStatus::of(&jobs, |_| false))
    }

    /// Number of leading tokens that this context shares with the one of the previous turn.
    fn reusable(
        &self,
        now: &ConversationPieces<'_>,
        plan: &ContextPlan,
        sections: &[ContextSection],
    ) -> Result<u32> {
        let cache = self.engine.context_cache();
        let last = now.end.checked_sub(1).and_then(|last| now.turn(MessageIdx(last)));
        let Some(before) = last.and_then(|turn| turn.checked_sub(1)) else { return Ok(0) };
        let turns = self.seen.reader.turns(self.key.id, Span::starting(TurnNo(before), 1))?;
        let Some(earlier) = turns.last().map(|turn| turn.until.0.min(now.end)) else {
            return Ok(0);
        };
        let head = cache.count(render::PREAMBLE);
        let mut pieces = now.earlier(earlier);
        let allotment = self.allot(&mut pieces)?;
        let cut_first =
            self.request.profile.sections.first().is_some_and(|it| it.take == SectionSource::Cut);
        if cut_first && pieces.settled == now.settled && now.settled <= earlier {
            // The stable prefix is the same; the new messages were only appended.
            let Some(section) = sections.first() else { return Ok(head) };
            let items = section.items.iter().zip(plan.items());
            let same =
                items.take_while(|(_, item)| item.span().1 <= earlier).map(|(item, _)| item.tokens);
            return Ok(head + cache.count(&section.head) + same.sum::<u32>());
        }
        let plan = self.pack(&mut pieces, &allotment)?;
        pieces.load_planned_messages(&self.request.profile, &plan)?;
        let was = format::sections(&pieces, &self.request.profile, &plan);

        let same = steady(sections).zip(steady(&was)).take_while(|(now, was)| now == was);
        Ok(head + same.map(|(block, _)| cache.count(block)).sum::<u32>())
    }
}

/// The rendered blocks of the leading sections that do not depend on the question.
fn steady(sections: &[ContextSection]) -> impl Iterator<Item = &str> {
    sections.iter().take_while(|section| !section.is_volatile).flat_map(ContextSection::blocks)
}

fn last_turn(pieces: &ConversationPieces<'_>, end: u32) -> Option<u32> {
    pieces.turn(MessageIdx(end.checked_sub(1)?))
}
