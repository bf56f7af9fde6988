//! The pieces of several conversations as packing requests them: those of each conversation, at
//! their positions in one history.

use std::sync::Arc;

use treering_core::packing::{
    BlockStyle, BudgetSplit, ContextPlan, Costs, DetailLevel, HeaderStyle, Information, Omission,
    PackReason, PackedItem, Piece, PieceKey, PieceSource, Profile, RecallCandidate, SkipReason,
    ThreadSpan,
};
use treering_core::ports::StoreResult;
use treering_core::{
    Conversation, Level, MessageIdx, Node, Reader, ReceiptItem, ReceiptSession, StoreError,
    TextPosition, Timestamp,
};

use super::format::{Context, ItemSource};
use super::hits::QuestionHits;
use super::lineage::Lineage;
use super::piece_source::ConversationPieces;
use super::scope::{HEADINGS, ScopeAssembly, Session};
use super::{MIN_BUDGET_TOKENS, receipt_items};
use crate::search::Hit;

/// The pieces of several conversations. Each conversation has its own range of positions, with a
/// gap between two, so that nothing is adjacent across conversations.
pub(super) struct ScopePieces<'a> {
    pub(super) sessions: Vec<SessionPieces<'a>>,
    /// Maximum tokens of the coarsest cover of a project.
    required: u32,
}

/// The pieces of one of them.
pub(super) struct SessionPieces<'a> {
    /// The position of its first message in the history of the scope.
    first: u32,
    session: &'a Session,
    /// Whether its heading is in the cut.
    pub(super) is_shown: bool,
    pub(super) pieces: ConversationPieces<'a>,
}

impl<'a> ScopePieces<'a> {
    pub(super) fn new(
        scope: &ScopeAssembly<'a>,
        reader: &'a dyn Reader,
        hits: Option<&QuestionHits>,
        allotment: &BudgetSplit,
    ) -> Self {
        let mut first = 0;
        let mut sessions = Vec::with_capacity(scope.sessions.len());
        for session in scope.sessions {
            let conversation = &session.conversation;
            let mut pieces = ConversationPieces::new(
                (reader, &session.jobs),
                &session.key,
                conversation,
                scope.engine.context_cache(),
                Lineage::whole(conversation),
                conversation.totals.messages,
                conversation.last_activity,
            );
            pieces.slug = Some(&conversation.slug);
            if let Some(project) = &session.project {
                pieces.keep(&project.nodes);
            }
            pieces.question_hits = hits.map(|asked| QuestionHits {
                question: asked.question.clone(),
                hits: asked.hits.iter().filter(|hit| is_in(hit, conversation)).cloned().collect(),
                words_only: None,
            });
            sessions.push(SessionPieces { first, session, is_shown: false, pieces });
            first += match session.project {
                Some(_) => minutes(conversation, conversation.last_activity) + 2,
                None => conversation.totals.messages + 1,
            };
        }
        // Projects stand for more than any session.
        let mut left = allotment.target / HEADINGS;
        for is_of_project in [true, false] {
            let is_next = |it: &&mut SessionPieces<'_>| {
                it.session.is_listed && it.session.project.is_some() == is_of_project
            };
            for session in sessions.iter_mut().rev().filter(is_next) {
                let Some(less) = left.checked_sub(session.session.heading.1) else { break };
                (left, session.is_shown) = (less, true);
            }
        }
        Self { sessions, required: allotment.target / HEADINGS }
    }

    /// Whether the plan has the heading of every session and an item for every period of a project.
    pub(super) fn has_all(&self, plan: &ContextPlan) -> bool {
        let is_whole = |(index, it): (usize, &SessionPieces<'_>)| match &it.session.project {
            Some(project) => project.omitted(&self.ends(index, plan)) == 0,
            None => it.is_shown || !it.session.is_listed,
        };
        self.sessions.iter().enumerate().all(is_whole)
    }

    /// The ends of the periods that the items of a project cover.
    fn ends(&self, index: usize, plan: &ContextPlan) -> Vec<Timestamp> {
        let own = plan.items().filter(|item| self.index_at(item.from.idx) == index);
        own.filter_map(|item| self.sessions[index].end_of(item.key)).collect()
    }

    /// The pieces of a project. The largest ones are required, as far as there is room.
    fn project_roots(&self, index: usize) -> Vec<Piece> {
        let session = &self.sessions[index];
        let Some(project) = &session.session.project else { return Vec::new() };
        let mut roots = session.place_all(session.pieces.node_pieces(&project.roots));
        let mut by_size: Vec<usize> = (0..roots.len()).collect();
        let messages =
            |piece: &Piece| session.node_of(piece.key).map_or(0, |it| it.source.messages);
        by_size.sort_by_key(|index| std::cmp::Reverse(messages(&roots[*index])));
        let mut left = self.required;
        for index in by_size {
            let cost = roots[index].costs.first().map_or(0, |(_, cost)| *cost);
            let Some(less) = left.checked_sub(cost) else { break };
            (left, roots[index].is_required) = (less, true);
        }
        roots
    }

    fn index_at(&self, idx: MessageIdx) -> usize {
        self.sessions.partition_point(|session| session.first <= idx.0).saturating_sub(1)
    }

    /// The conversation at a position.
    fn at(&mut self, idx: MessageIdx) -> &mut SessionPieces<'a> {
        let index = self.index_at(idx);
        &mut self.sessions[index]
    }

    /// Loads the planned messages of each conversation.
    pub(super) fn load_planned_messages(
        &mut self,
        profile: &Profile,
        plan: &ContextPlan,
    ) -> StoreResult<()> {
        for index in 0..self.sessions.len() {
            let of_session = |items: &Vec<PackedItem>| {
                let own = items.iter().filter(|item| self.index_at(item.from.idx) == index);
                own.cloned().collect()
            };
            let sections = plan.sections.iter().map(of_session).collect();
            let own = ContextPlan { sections, ..ContextPlan::default() };
            self.sessions[index].pieces.load_planned_messages(profile, &own)?;
        }
        Ok(())
    }

    /// Every conversation of the context, oldest first, and the number of messages that neither a
    /// summary nor a quotation of the cut covers.
    pub(super) fn receipt_sessions(&self, plan: &ContextPlan) -> Vec<ReceiptSession> {
        let omitted = |index: usize| {
            let is_own = |it: &&Omission| {
                it.why == SkipReason::NoRoom && self.index_at(MessageIdx(it.from)) == index
            };
            plan.left_out.iter().filter(is_own).map(|it| it.until - it.from).sum()
        };
        let session = |(index, it): (usize, &SessionPieces<'_>)| {
            let all = it.session.conversation.totals.messages;
            let (messages, omitted) = match &it.session.project {
                Some(project) => (project.messages(), project.omitted(&self.ends(index, plan))),
                None if it.is_shown => (all, omitted(index)),
                None => (all, all),
            };
            let conversation = it.session.conversation.id.to_string();
            let slug = it.session.conversation.slug.clone();
            ReceiptSession { conversation, slug, messages, omitted }
        };
        self.sessions.iter().enumerate().map(session).collect()
    }

    pub(super) fn receipt_items(&self, context: &Context, plan: &ContextPlan) -> Vec<ReceiptItem> {
        let mut items = receipt_items(self, context, plan);
        for (item, packed) in items.iter_mut().zip(plan.items()) {
            let session = &self.sessions[self.index_at(packed.from.idx)];
            item.conversation = Some(session.session.conversation.slug.clone());
            (item.from, item.until) = match session.session.project {
                Some(_) => (0, 0),
                None => (item.from - session.first, item.until - session.first),
            };
        }
        items
    }
}

fn is_in(hit: &Hit, conversation: &Conversation) -> bool {
    hit.conversation == conversation.id
}

impl SessionPieces<'_> {
    /// The node of a piece.
    fn node_of(&self, key: PieceKey) -> Option<&Arc<Node>> {
        let PieceKey::Node(level, ordinal) = key else { return None };
        self.pieces.nodes.get(&(level, ordinal))
    }

    /// The end of the period that a node covers.
    fn end_of(&self, key: PieceKey) -> Option<Timestamp> {
        self.node_of(key).map(|node| node.range_end)
    }

    /// A piece of the conversation at its position in the history of the scope. A node of a project
    /// tree counts like one session; its position is the minutes since the project began.
    fn placed(&self, piece: Piece) -> Piece {
        if let Some(project) = &self.session.project {
            let end = self.end_of(piece.key).unwrap_or(self.session.conversation.started_at);
            let idx = MessageIdx(self.first + 1 + minutes(&self.session.conversation, end));
            let place = TextPosition { idx, offset: 0 };
            return Piece { from: place, until: place, weight: project.session_tokens, ..piece };
        }
        let Piece { from, until, .. } = piece;
        Piece { from: moved(from, self.first), until: moved(until, self.first), ..piece }
    }

    fn place_all(&self, pieces: Vec<Piece>) -> Vec<Piece> {
        pieces.into_iter().map(|piece| self.placed(piece)).collect()
    }

    /// A position in the conversation.
    fn local(&self, position: TextPosition) -> TextPosition {
        TextPosition { idx: MessageIdx(position.idx.0 - self.first), ..position }
    }

    /// The heading, before the first message.
    fn heading(&self) -> Piece {
        let start = TextPosition { idx: MessageIdx(self.first), offset: 0 };
        let costs: Costs = [(DetailLevel::Mention, self.session.heading.1)].into_iter().collect();
        Piece {
            key: PieceKey::Heading,
            from: start,
            until: start,
            weight: 0,
            chars: 0,
            costs,
            information: Information::default(),
            min_expanded_cost: None,
            is_required: false,
        }
    }
}

/// The minutes from the beginning of a project to a time.
fn minutes(project: &Conversation, at: Timestamp) -> u32 {
    let micros = at.as_micros().saturating_sub(project.started_at.as_micros());
    u32::try_from(micros.max(0) / 60_000_000).unwrap_or(u32::MAX / 4)
}

fn moved(position: TextPosition, by: u32) -> TextPosition {
    TextPosition { idx: MessageIdx(position.idx.0 + by), ..position }
}

impl ItemSource for ScopePieces<'_> {
    fn pieces_of(&self, item: &PackedItem) -> &ConversationPieces<'_> {
        &self.sessions[self.index_at(item.from.idx)].pieces
    }

    fn heading_of(&self, item: &PackedItem) -> Option<&str> {
        let session = &self.sessions[self.index_at(item.from.idx)];
        (item.key == PieceKey::Heading).then_some(session.session.heading.0.as_str())
    }

    /// The receipt lists omissions by conversation.
    fn note(&self, _: &[Omission]) -> Option<String> {
        None
    }
}

impl PieceSource for ScopePieces<'_> {
    type Error = StoreError;

    fn roots(&mut self) -> StoreResult<Vec<Piece>> {
        let mut roots = Vec::new();
        for index in 0..self.sessions.len() {
            let session = &mut self.sessions[index];
            if !session.is_shown {
                continue;
            }
            roots.push(session.heading());
            if session.session.project.is_some() {
                roots.extend(self.project_roots(index));
                continue;
            }
            let own = session.pieces.roots()?;
            roots.extend(session.place_all(own));
        }
        Ok(roots)
    }

    fn recent_tail(&mut self) -> StoreResult<Vec<Piece>> {
        Ok(Vec::new())
    }

    fn merge_tail(&mut self) {}

    fn below(&mut self, node: &Piece) -> StoreResult<Vec<Piece>> {
        let session = self.at(node.from.idx);
        let children = session.pieces.below(node)?;
        Ok(session.place_all(children))
    }

    fn latest(&mut self, _: usize) -> StoreResult<Vec<Piece>> {
        Ok(Vec::new())
    }

    fn latest_turns(&mut self, _: usize) -> StoreResult<Vec<Piece>> {
        Ok(Vec::new())
    }

    fn thread_spans(
        &mut self,
        key: PieceKey,
        (from, until): (TextPosition, TextPosition),
    ) -> StoreResult<Vec<ThreadSpan>> {
        if key == PieceKey::Heading {
            return Ok(Vec::new());
        }
        let session = self.at(from.idx);
        if session.session.project.is_some() {
            return Ok(Vec::new());
        }
        let range = (session.local(from), session.local(until));
        let mut thread_spans = session.pieces.thread_spans(key, range)?;
        for span in &mut thread_spans {
            span.from = moved(span.from, session.first);
            span.until = moved(span.until, session.first);
        }
        Ok(thread_spans)
    }

    fn styled(&mut self, piece: Piece, _: BlockStyle) -> Piece {
        piece
    }

    fn turn(&self, _: MessageIdx) -> Option<u32> {
        None
    }

    fn level(&mut self, _: Level, _: usize) -> StoreResult<Vec<Piece>> {
        Ok(Vec::new())
    }

    fn hits(&mut self, style: BlockStyle) -> StoreResult<Vec<RecallCandidate>> {
        let mut all: Vec<RecallCandidate> = Vec::new();
        for session in &mut self.sessions {
            for candidate in session.pieces.candidates(style)? {
                let piece = session.placed(candidate.piece);
                all.push(RecallCandidate { piece, ..candidate });
            }
        }
        let is_hit = |it: &&RecallCandidate| it.reason == PackReason::Hit;
        let mut scores: Vec<f32> = all.iter().filter(is_hit).map(|it| it.score).collect();
        scores.sort_by(|one, other| other.total_cmp(one));
        for candidate in &mut all {
            // A neighbor has the score of its hit.
            candidate.rank = scores.partition_point(|score| *score > candidate.score) as u32;
        }
        Ok(all)
    }

    fn cost_of_hit(
        &mut self,
        hit: &RecallCandidate,
        detail: DetailLevel,
        lead: HeaderStyle,
    ) -> u32 {
        self.at(hit.piece.from.idx).pieces.cost_of_hit(hit, detail, lead)
    }

    fn cost_of_run(&self) -> u32 {
        self.sessions.iter().map(|it| it.pieces.cost_of_run()).max().unwrap_or(MIN_BUDGET_TOKENS)
    }

    fn cost_of_note(&self) -> u32 {
        0
    }
}
