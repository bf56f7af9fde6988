//! Searches for the question of a context. The hits are candidates for recall, together with their
//! neighbors.

use std::collections::BTreeMap;
use std::sync::Arc;

use treering_core::packing::{
    BlockStyle, DetailLevel, Information, PackReason, Piece, PieceKey, RecallCandidate,
    SectionSource,
};
use treering_core::ports::{Span, StoreResult};
use treering_core::{
    Message, MessageIdx, Node, Question, Slice, TextPosition, Timestamp, TurnNo, excerpt,
};

use super::piece_source::{CLOSE, ConversationPieces, day_of, increasing_costs, runs};
use super::render::PART_CHARS;
use super::{Assembly, hits_wanted};
use crate::error::Result;
use crate::recall::PastVersions;
use crate::search::{Hit, HitItem, Query};

/// The number of hits to request for each that a profile takes.
const SPARE_HITS: usize = 4;
/// Number of hits whose neighbors are added if not all hits fit the budget.
const WITH_NEIGHBORS: usize = 8;
/// Approximate maximum cost of a hit that is shown as an excerpt.
const MAX_HIT_TOKENS: u32 = 140;

/// A question and its search results.
pub(super) struct QuestionHits {
    pub(super) question: Question,
    pub(super) hits: Vec<Hit>,
    /// Why the search used words only, if it did.
    pub(super) words_only: Option<String>,
}

impl Assembly<'_> {
    /// Searches for the question, if there is one and the profile uses hits. A context of the past
    /// takes the messages that were amended since as they were.
    pub(super) fn ask(
        &self,
        end: u32,
        past: Option<&PastVersions>,
        now: Timestamp,
    ) -> Result<Option<QuestionHits>> {
        let profile = &self.request.profile;
        let Some(text) = self.request.query.as_ref().filter(|_| profile.is_volatile()) else {
            return Ok(None);
        };
        let (engine, reader) = (self.engine, &*self.seen.reader);
        let state = |versions| engine.state_as_of(reader, self.conversation, end, versions);
        let past = match past {
            Some(versions) => Some((state(versions)?, versions)),
            None => None,
        };
        let (mut hits, mut words_only) = (Vec::new(), None);
        for (levels, limit) in self.searches(end)? {
            let query = Query {
                text: text.clone(),
                conversations: vec![self.conversation.id],
                levels,
                limit,
                ..Query::default()
            };
            let answer = match &past {
                Some((state, versions)) => engine.search_as_of(&query, (state, versions), now)?,
                None => engine.search_whole(&query)?,
            };
            hits.extend(answer.hits);
            words_only = words_only.or(answer.lexical_only_reason);
        }
        let question = Question::new(text, now);
        Ok(Some(QuestionHits { question, hits, words_only }))
    }

    /// The searches that the profile needs, as levels and limits. Messages and nodes do not
    /// compete with each other; with quotas, no level competes with another.
    fn searches(&self, end: u32) -> Result<Vec<(Vec<u8>, usize)>> {
        let mean_tokens = self.history_size(end)?.checked_div(end.into()).unwrap_or(0);
        let enough = hits_wanted(self.budget, mean_tokens);
        let height = u8::try_from(self.conversation.tree_state.sealed.len()).unwrap_or(u8::MAX);
        let all_nodes: Vec<u8> = (1..=height).collect();
        let mut searches: Vec<(Vec<u8>, usize)> = Vec::new();
        for section in &self.request.profile.sections {
            let limit = section.limit.map_or(enough, |limit| limit as usize);
            // Several messages of one turn may match, and some nodes may be in the context.
            let limit = SPARE_HITS * limit;
            match section.take {
                SectionSource::Recall if section.style == BlockStyle::Plain => {
                    searches.push((vec![0], enough));
                }
                SectionSource::Recall => searches.push((vec![0], limit)),
                SectionSource::Nodes => searches.push((all_nodes.clone(), limit)),
                SectionSource::Search => {
                    let last = section.quotas.len().saturating_sub(1);
                    for level in 0..=height {
                        let quota = section.quotas.get(usize::from(level).min(last));
                        let quota = quota.map_or(limit, |quota| SPARE_HITS * *quota as usize);
                        searches.push((vec![level], quota));
                    }
                }
                _ => {}
            }
        }
        searches.retain(|(levels, limit)| !levels.is_empty() && *limit > 0);
        searches.sort();
        // Of two searches at the same levels, the one with the higher limit finds more.
        searches.reverse();
        searches.dedup_by(|less, more| less.0 == more.0);
        searches.reverse();
        Ok(searches)
    }
}

impl ConversationPieces<'_> {
    /// The hits that are visible: messages and the neighbors of the best of them, or turns in a
    /// labeled style, and nodes.
    pub(super) fn candidates(&mut self, style: BlockStyle) -> StoreResult<Vec<RecallCandidate>> {
        let Some(asked) = &self.question_hits else { return Ok(Vec::new()) };
        let (mut found, mut nodes, mut calls) = (Vec::new(), Vec::new(), Vec::new());
        for hit in &asked.hits {
            match &hit.item {
                HitItem::Message(message) => {
                    let message = self.past.restore((**message).clone());
                    found.push((self.cache.recall.message(message), hit.score));
                }
                HitItem::Node(node) => nodes.push((Arc::new((**node).clone()), hit.score)),
                HitItem::ToolCall(call) => calls.push((call.before, call.turn, hit.score)),
            }
        }
        self.add_reporting_messages(&mut found, &calls)?;
        found.retain(|(message, _)| message.idx.0 < self.end && self.lineage.holds(message));
        for (message, _) in &found {
            self.messages.entry(message.idx.0).or_insert_with(|| Arc::new(message.clone()));
            self.find_part(message.idx.0);
        }
        let mut candidates = match style {
            BlockStyle::Plain => self.message_candidates(&found)?,
            BlockStyle::Labeled | BlockStyle::Previous => self.turn_candidates(&found)?,
        };
        for (rank, (node, score)) in nodes.iter().enumerate() {
            if self.counts(node)? {
                self.keep(std::slice::from_ref(node));
                candidates.push(self.node_candidate(node, *score, rank as u32, style));
            }
        }
        Ok(candidates)
    }

    /// Found messages, and the neighbors of the best of them.
    fn message_candidates(
        &mut self,
        found: &[(Message, f32)],
    ) -> StoreResult<Vec<RecallCandidate>> {
        let mut candidates = Vec::new();
        for (rank, (message, score)) in found.iter().enumerate() {
            candidates.push(self.candidate(message, *score, rank as u32, PackReason::Hit));
        }
        let tokens: u32 =
            found.iter().map(|(message, _)| (message.tokens + 10).min(MAX_HIT_TOKENS)).sum();
        let with = if tokens < self.room { found.len() } else { WITH_NEIGHBORS };
        let mut beside: BTreeMap<u32, (u32, f32)> = BTreeMap::new();
        for (rank, (message, score)) in found.iter().enumerate().take(with) {
            let idx = message.idx.0;
            for next in [idx.checked_sub(1), Some(idx + 1)].into_iter().flatten() {
                if next < self.end && !found.iter().any(|(message, _)| message.idx.0 == next) {
                    beside.entry(next).or_insert((rank as u32, *score));
                }
            }
        }
        self.read_all(beside.keys().copied())?;
        for (idx, (rank, score)) in beside {
            self.find_part(idx);
            if let Some(message) = self.messages.get(&idx).filter(|it| self.lineage.holds(it)) {
                candidates.push(self.candidate(message, score, rank, PackReason::Neighbor));
            }
        }
        Ok(candidates)
    }

    /// The turns of found messages. A turn has the score of its best message.
    fn turn_candidates(&mut self, found: &[(Message, f32)]) -> StoreResult<Vec<RecallCandidate>> {
        let mut candidates: Vec<RecallCandidate> = Vec::new();
        for (message, score) in found {
            let turn = message.turn;
            let is_known = candidates.iter().any(|it| it.piece.key == PieceKey::Turn(turn));
            if is_known || !self.read_turn(turn.0)? {
                continue;
            }
            self.focus.insert(turn.0, message.idx.0);
            candidates.extend(self.turn_piece(turn, Some(*score)).map(|piece| RecallCandidate {
                piece,
                score: *score,
                rank: candidates.len() as u32,
                reason: PackReason::Hit,
                day: day_of(message),
                style: BlockStyle::Labeled,
            }));
        }
        Ok(candidates)
    }

    fn node_candidate(
        &self,
        node: &Node,
        score: f32,
        rank: u32,
        style: BlockStyle,
    ) -> RecallCandidate {
        let detail_levels = match style {
            BlockStyle::Plain => &[DetailLevel::Text][..],
            BlockStyle::Labeled | BlockStyle::Previous => {
                &[DetailLevel::Points(1), DetailLevel::Points(3), DetailLevel::Text]
            }
        };
        let cost = |detail: &DetailLevel| {
            let block = self.node_block(node, *detail, style, Some(score));
            (*detail, self.cache.count(&block))
        };
        let costs = increasing_costs(detail_levels.iter().map(cost));
        let piece = Piece { costs, ..self.node_piece(node) };
        RecallCandidate { piece, score, rank, reason: PackReason::Hit, day: i64::MIN, style }
    }

    /// Adds, for each tool call found, the next message of its turn, which reports its result.
    fn add_reporting_messages(
        &mut self,
        found: &mut Vec<(Message, f32)>,
        calls: &[(MessageIdx, TurnNo, f32)],
    ) -> StoreResult<()> {
        let end = self.end;
        self.read_all(calls.iter().map(|(idx, ..)| idx.0).filter(|idx| *idx < end))?;
        for (idx, turn, score) in calls {
            let report = self.messages.get(&idx.0).filter(|message| message.turn == *turn);
            if let Some(message) =
                report.filter(|it| found.iter().all(|(other, _)| other.idx != it.idx))
            {
                found.push(((**message).clone(), *score));
            }
        }
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        Ok(())
    }

    /// Reads single messages, nearby ones in one range.
    fn read_all(&mut self, wanted: impl Iterator<Item = u32>) -> StoreResult<()> {
        let missing: Vec<u32> = wanted.filter(|idx| !self.messages.contains_key(idx)).collect();
        for run in runs(missing.into_iter(), CLOSE) {
            let span = Span::between(MessageIdx(run.start), MessageIdx(run.end));
            let read = self.recalled_messages(span)?;
            self.messages
                .extend(read.into_iter().map(|message| (message.idx.0, Arc::new(message))));
        }
        Ok(())
    }

    /// Excerpts the part of a long message that matches the question.
    fn find_part(&mut self, idx: u32) {
        let (Some(asked), Some(message)) = (&self.question_hits, self.messages.get(&idx)) else {
            return;
        };
        if message.chars as usize > PART_CHARS + PART_CHARS / 2 {
            let part = || excerpt::best(&message.body.text, &asked.question, PART_CHARS);
            self.parts.entry(idx).or_insert_with(part);
        }
    }

    fn candidate(
        &self,
        message: &Message,
        score: f32,
        rank: u32,
        reason: PackReason,
    ) -> RecallCandidate {
        let slice = Slice { idx: message.idx, from: 0, until: message.chars };
        // A token is about four bytes.
        let part =
            self.parts.get(&message.idx.0).map(|part| (DetailLevel::Gist, part.len() as u32 / 4));
        let whole = (DetailLevel::Text, message.tokens);
        let piece = Piece {
            key: PieceKey::Message(slice),
            from: TextPosition { idx: message.idx, offset: 0 },
            until: TextPosition::after(message.idx),
            weight: message.tokens,
            chars: message.chars,
            costs: part.into_iter().chain([whole]).collect(),
            information: Information::default(),
            min_expanded_cost: None,
            is_required: false,
        };
        let (day, style) = (day_of(message), BlockStyle::Plain);
        RecallCandidate { piece, score, rank, reason, day, style }
    }
}
