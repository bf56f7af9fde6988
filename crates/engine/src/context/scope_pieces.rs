//! The pieces of several conversations as packing requests them: those of each conversation, at
//! their positions in one history.

use treering_core::packing::{
    BlockStyle, BudgetSplit, ContextPlan, Costs, DetailLevel, HeaderStyle, Information, Omission,
    PackReason, PackedItem, Piece, PieceKey, PieceSource, Profile, RecallCandidate, SkipReason,
    Strand,
};
use treering_core::ports::StoreResult;
use treering_core::{
    Conversation, Level, MessageIdx, Reader, ReceiptItem, ReceiptSession, StoreError, TextPosition,
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
            pieces.question_hits = hits.map(|asked| QuestionHits {
                question: asked.question.clone(),
                hits: asked.hits.iter().filter(|hit| is_in(hit, conversation)).cloned().collect(),
                words_only: None,
            });
            sessions.push(SessionPieces { first, session, is_shown: false, pieces });
            first += conversation.totals.messages + 1;
        }
        let mut left = allotment.target / HEADINGS;
        for session in sessions.iter_mut().rev().filter(|it| it.session.is_listed) {
            let Some(less) = left.checked_sub(session.session.heading.1) else { break };
            (left, session.is_shown) = (less, true);
        }
        Self { sessions }
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
        let session = |(index, it): (usize, &SessionPieces<'_>)| ReceiptSession {
            conversation: it.session.conversation.id.to_string(),
            slug: it.session.conversation.slug.clone(),
            messages: it.session.conversation.totals.messages,
            omitted: match it.is_shown {
                true => omitted(index),
                false => it.session.conversation.totals.messages,
            },
        };
        self.sessions.iter().enumerate().map(session).collect()
    }

    pub(super) fn receipt_items(&self, context: &Context, plan: &ContextPlan) -> Vec<ReceiptItem> {
        let mut items = receipt_items(self, context, plan);
        for (item, packed) in items.iter_mut().zip(plan.items()) {
            let session = &self.sessions[self.index_at(packed.from.idx)];
            item.conversation = Some(session.session.conversation.slug.clone());
            item.from -= session.first;
            item.until -= session.first;
        }
        items
    }
}

fn is_in(hit: &Hit, conversation: &Conversation) -> bool {
    hit.conversation == conversation.id
}

impl SessionPieces<'_> {
    /// A piece of the conversation at its position in the history of the scope.
    fn placed(&self, piece: Piece) -> Piece {
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
        }
    }
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
        for session in self.sessions.iter_mut().filter(|session| session.is_shown) {
            roots.push(session.heading());
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

    fn strands(
        &mut self,
        key: PieceKey,
        (from, until): (TextPosition, TextPosition),
    ) -> StoreResult<Vec<Strand>> {
        if key == PieceKey::Heading {
            return Ok(Vec::new());
        }
        let session = self.at(from.idx);
        let range = (session.local(from), session.local(until));
        let mut strands = session.pieces.strands(key, range)?;
        for strand in &mut strands {
            strand.from = moved(strand.from, session.first);
            strand.until = moved(strand.until, session.first);
        }
        Ok(strands)
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
