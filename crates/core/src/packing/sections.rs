//! Runs a profile: its sections by rank, each with the budget that the previous ones left.

use super::budget_split::BudgetSplit;
use super::cut::cut;
use super::recall::{HitLimits, RecallCandidate, recall};
use super::thread_spans::{Overlap, ThreadSpanSet};
use super::{
    BlockStyle, ContextPlan, DetailLevel, Omission, PackReason, PackedItem, Piece, PieceKey,
    PieceSource, Profile, Section, SectionSource, SkipReason,
};
use crate::node::Level;

/// The minimum number of tokens that a node plausibly costs.
const MIN_NODE_TOKENS: usize = 24;

/// Packs a context from the sections of a profile. `headings` holds the cost of each section's
/// heading. Sections claim tokens by rank: those with the latest messages first, unless the
/// profile says otherwise.
pub fn pack<S: PieceSource>(
    source: &mut S,
    profile: &Profile,
    headings: &[u32],
    budget: u32,
    allotment: &BudgetSplit,
) -> Result<ContextPlan, S::Error> {
    let mut packer = Packer {
        source,
        left: budget,
        covered: ThreadSpanSet::default(),
        verbatim: ThreadSpanSet::default(),
        mentioned: ThreadSpanSet::default(),
        nodes: Vec::new(),
        left_out: Vec::new(),
        hits_left_out: 0,
    };
    let mut sections = vec![Vec::new(); profile.sections.len()];
    let mut order: Vec<usize> = (0..sections.len()).collect();
    order.sort_by_key(|place| profile.sections[*place].claim_rank());
    let mut after_recent = None;
    for place in order {
        let section = &profile.sections[place];
        if section.take != SectionSource::Recent {
            after_recent = after_recent.or(Some(packer.left));
        }
        let remaining = after_recent.unwrap_or(packer.left);
        let heading = headings.get(place).copied().unwrap_or(0);
        let is_due = section.when_left.is_none_or(|least| remaining >= least)
            && section.unless_left.is_none_or(|most| remaining < most);
        if packer.left <= heading || !is_due {
            continue;
        }
        packer.left -= heading;
        let items = packer.take(section, allotment)?;
        if items.is_empty() {
            packer.left += heading;
            continue;
        }
        packer.record(section, &items)?;
        sections[place] = items;
        if section.unless_left.is_some() {
            break;
        }
    }
    if profile.cut().is_none() {
        packer.note_gaps()?;
    }
    let Packer { left, mut left_out, hits_left_out, .. } = packer;
    left_out.sort_by_key(|it| (it.from, it.until));
    Ok(ContextPlan { sections, left_out: joined(left_out), hits_left_out, cost: budget - left })
}

struct Packer<'s, S> {
    source: &'s mut S,
    left: u32,
    /// The history that later sections do not cover again.
    covered: ThreadSpanSet,
    /// The history that appears verbatim.
    verbatim: ThreadSpanSet,
    /// The history that any section covers or quotes.
    mentioned: ThreadSpanSet,
    /// The nodes of all sections.
    nodes: Vec<PieceKey>,
    left_out: Vec<Omission>,
    hits_left_out: u32,
}

impl<S: PieceSource> Packer<'_, S> {
    fn take(
        &mut self,
        section: &Section,
        allotment: &BudgetSplit,
    ) -> Result<Vec<PackedItem>, S::Error> {
        let room = section
            .share
            .map_or(self.left, |share| (f64::from(self.left) * f64::from(share)) as u32);
        let room = match section.take {
            SectionSource::Cut => room,
            _ => section.tokens.map_or(room, |most| room.min(most)),
        };
        let items = match section.take {
            SectionSource::Cut => return self.cut(allotment),
            SectionSource::Recall | SectionSource::Nodes | SectionSource::Search => {
                return self.hits(section, room);
            }
            SectionSource::Recent if section.style == BlockStyle::Plain => {
                self.recent(section, room)?
            }
            SectionSource::Recent => self.recent_turns(section, room)?,
            SectionSource::Level => {
                let nodes = self.level(section, room)?;
                self.uncovered(nodes, section, room, PackReason::Level)?
            }
            SectionSource::Frontier => {
                let pieces = self.history()?;
                self.uncovered(pieces, section, room, PackReason::Cover)?
            }
            SectionSource::Unsummarized => {
                let mut pieces = self.history()?;
                pieces.retain(|piece| piece.key.level() == 0);
                self.uncovered(pieces, section, room, PackReason::Unsummarized)?
            }
        };
        self.left -= items.iter().map(|item| item.cost).sum::<u32>();
        Ok(items)
    }

    /// Records the parts of the history that a section covers. A hit is a quotation: it does
    /// not keep a summary of the same messages out.
    fn record(&mut self, section: &Section, items: &[PackedItem]) -> Result<(), S::Error> {
        for item in items {
            let thread_spans = self.source.thread_spans(item.key, (item.from, item.until))?;
            self.mentioned.extend(&thread_spans);
            if !section.take.is_volatile() && !section.overlap {
                self.covered.extend(&thread_spans);
            }
            match item.key {
                PieceKey::Node(..) => self.nodes.push(item.key),
                _ if item.detail_level >= DetailLevel::Text => self.verbatim.extend(&thread_spans),
                _ => {}
            }
        }
        Ok(())
    }

    /// The coarsest complete cover of the whole history.
    fn history(&mut self) -> Result<Vec<Piece>, S::Error> {
        let mut pieces = self.source.roots()?;
        pieces.extend(self.source.recent_tail()?);
        Ok(pieces)
    }

    /// The latest nodes of a level that are not covered yet: the limit of the section, or as
    /// many as could fit.
    fn level(&mut self, section: &Section, room: u32) -> Result<Vec<Piece>, S::Error> {
        let Some(level) = section.level.and_then(Level::new) else { return Ok(Vec::new()) };
        let limit = section.limit.map_or(room as usize / MIN_NODE_TOKENS, |limit| limit as usize);
        let roots = if section.uncovered { self.source.roots()? } else { Vec::new() };
        let mut wanted = limit;
        loop {
            let nodes = self.source.level(level, wanted)?;
            let is_all = nodes.len() < wanted;
            let mut fresh = Vec::new();
            for node in nodes {
                let is_root = || roots.iter().any(|root| root.key == node.key);
                if (!section.uncovered || is_root()) && self.is_fresh(&node, section)? {
                    fresh.push(node);
                }
            }
            if is_all || fresh.len() >= limit {
                return Ok(fresh);
            }
            wanted = (2 * wanted).max(1);
        }
    }

    /// Whether a node has something that the context lacks.
    fn is_fresh(&mut self, node: &Piece, section: &Section) -> Result<bool, S::Error> {
        let thread_spans = self.source.thread_spans(node.key, (node.from, node.until))?;
        Ok(match section.overlap {
            true => {
                self.verbatim.overlap(&thread_spans) != Overlap::All
                    && !self.nodes.contains(&node.key)
            }
            false => self.covered.overlap(&thread_spans) != Overlap::All,
        })
    }

    fn cut(&mut self, allotment: &BudgetSplit) -> Result<Vec<PackedItem>, S::Error> {
        // Reserve room for the note about omissions.
        let note = self.source.cost_of_note();
        let Some(room) = self.left.checked_sub(note) else { return Ok(Vec::new()) };
        let within = |size: u32| size.min(room);
        let (target, most) = (within(allotment.target), within(allotment.most));
        // With less room than planned, the latest messages and the slack shrink too.
        let (recent, slack) = (allotment.recent.min(target / 2), allotment.slack.min(target / 2));
        let mut cut = cut(self.source, &BudgetSplit { target, most, recent, slack })?;
        self.left -= cut.cost;
        if cut.left_out.iter().any(|it| it.why == SkipReason::NoRoom) {
            self.left -= note;
        }
        self.left_out.append(&mut cut.left_out);
        Ok(cut.items)
    }

    /// The latest messages within the limits of the section. A message that does not fit is
    /// truncated and becomes the first of the section.
    fn recent(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, S::Error> {
        const PER_TURN: usize = 8;
        let number = |limit: Option<u32>| limit.map(|limit| limit as usize);
        let messages = number(section.messages);
        let want = messages
            .or(number(section.turns).map(|turns| turns * PER_TURN))
            .unwrap_or(room as usize / 4);
        let latest = self.source.latest(want.max(1))?;
        let mut used = self.source.cost_of_run();
        let (mut chars, mut turns, mut items) = (0_u64, Vec::new(), Vec::new());
        for piece in latest.iter().rev() {
            let PieceKey::Message(slice) = piece.key else { continue };
            let turn = self.source.turn(slice.idx);
            if turns.last() != Some(&turn) {
                turns.push(turn);
            }
            chars += u64::from(slice.until - slice.from);
            let too_many = messages.is_some_and(|most| items.len() >= most)
                || section.turns.is_some_and(|most| turns.len() > most as usize)
                || section.chars.is_some_and(|most| chars > u64::from(most) && !items.is_empty());
            if too_many {
                break;
            }
            let fits = |cost: &&(DetailLevel, u32)| used + cost.1 <= room;
            let Some(cost) = piece.costs.iter().rev().find(fits) else { break };
            used += cost.1;
            items.push(PackedItem::of(piece, *cost, PackReason::Recent));
            if cost.0 < DetailLevel::Text {
                let (from, until) = piece.span();
                self.left_out.push(Omission { from, until, why: SkipReason::Cut });
                break;
            }
        }
        items.reverse();
        // The first message pays for the header of the run.
        if let Some(first) = items.first_mut() {
            first.cost += self.source.cost_of_run();
            first.begins_run = true;
        }
        Ok(items)
    }

    /// The latest turns within the limits of the section. The latest one is always taken,
    /// shortened if it is too long.
    fn recent_turns(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, S::Error> {
        let most = section.turns.map_or(room as usize / 8, |turns| turns as usize);
        let latest = self.source.latest_turns(most.max(1))?;
        let (mut used, mut chars, mut items) = (0, 0_u64, Vec::new());
        for piece in latest.iter().rev().take(most) {
            chars += u64::from(piece.chars);
            let is_long = section.chars.is_some_and(|most| chars > u64::from(most));
            if is_long && !items.is_empty() {
                break;
            }
            // A token is about four characters.
            let room = section.chars.filter(|_| is_long).map_or(room, |most| room.min(most / 4));
            let fits = |(_, cost): &&(DetailLevel, u32)| used + cost <= room;
            let Some(cost) = piece.costs.iter().rev().find(fits) else { break };
            used += cost.1;
            items.push(PackedItem::of(piece, *cost, PackReason::Recent));
            if cost.0 < DetailLevel::Text {
                self.leave_out(piece, SkipReason::Cut);
                break;
            }
        }
        items.reverse();
        Ok(items)
    }

    /// The parts of pieces that no other section covers, latest first while there is room. Nodes
    /// of a level are whole, except the last one, which is shortened to fit. Sections that cover
    /// the rest of the history first take each part in short, nodes before messages.
    fn uncovered(
        &mut self,
        pieces: Vec<Piece>,
        section: &Section,
        room: u32,
        reason: PackReason,
    ) -> Result<Vec<PackedItem>, S::Error> {
        let limit = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let is_cover = section.take != SectionSource::Level;
        let head = self.cost_of_head(section);
        let mut parts = Vec::new();
        for piece in pieces {
            match section.overlap {
                true => parts.push((piece, reason)),
                false => trim(self.source, &self.covered, piece, reason, &mut parts)?,
            }
        }
        parts.reverse();
        if is_cover {
            // Nodes say more about the history than single messages of the same length.
            parts.sort_by_key(|(part, _)| part.key.level() == 0);
        }
        let (mut used, mut taken) = (head, Vec::new());
        for (part, reason) in parts.into_iter().take(limit) {
            let part = self.source.styled(part, section.style);
            let cost = match is_cover {
                true => part.costs.first().copied().filter(|(_, cost)| used + cost <= room),
                false => finest(&part, section, room.saturating_sub(used)),
            };
            let Some(cost) = cost else { break };
            used += cost.1;
            let is_short = finest(&part, section, u32::MAX) != Some(cost);
            taken.push((part, reason, cost));
            if is_short && !is_cover {
                break;
            }
        }
        for (part, _, cost) in &mut taken {
            let room = (room + cost.1).saturating_sub(used);
            if let Some(finer) = finest(part, section, room) {
                used = used - cost.1 + finer.1;
                *cost = finer;
            }
        }
        for (part, _, cost) in &taken {
            if part.key.level() == 0 && cost.0 < DetailLevel::Text {
                self.leave_out(part, SkipReason::Cut);
            }
        }
        let item =
            |(part, reason, cost): &(Piece, PackReason, _)| PackedItem::of(part, *cost, *reason);
        let mut items: Vec<PackedItem> = taken.iter().map(item).collect();
        items.sort_by_key(|item| (item.from, item.until));
        if let Some(first) = items.first_mut() {
            first.cost += head;
        }
        Ok(items)
    }

    /// The cost of the header of a section's first message. Labeled blocks have their own.
    fn cost_of_head(&self, section: &Section) -> u32 {
        match section.style {
            BlockStyle::Plain => self.source.cost_of_run(),
            BlockStyle::Labeled | BlockStyle::Previous => 0,
        }
    }

    fn leave_out(&mut self, piece: &Piece, why: SkipReason) {
        let (from, until) = piece.span();
        self.left_out.push(Omission { from, until, why });
    }

    fn hits(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, S::Error> {
        let mut hits: Vec<RecallCandidate> = Vec::new();
        for hit in self.source.hits(section.style)? {
            let is_node = hit.piece.key.level() > 0;
            let is_wanted = match section.take {
                SectionSource::Nodes => is_node,
                SectionSource::Search => true,
                _ => !is_node,
            };
            if is_wanted && !self.is_redundant(&hit)? {
                hits.push(hit);
            }
        }
        if section.take == SectionSource::Search {
            hits.sort_by(|one, other| other.score.total_cmp(&one.score));
            (0..).zip(&mut hits).for_each(|(rank, hit)| hit.rank = rank);
        }
        let all = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let limits = HitLimits { all, quotas: &section.quotas };
        let mut recalled = recall(self.source, &hits, &limits, room);
        // Labeled blocks show their relevance, so the best comes first.
        if section.style != BlockStyle::Plain {
            recalled.items.sort_by(|one, other| other.score.total_cmp(&one.score));
        }
        self.hits_left_out += recalled.left_out;
        self.left -= recalled.cost;
        Ok(recalled.items)
    }

    /// Whether the context already contains the hit.
    fn is_redundant(&mut self, hit: &RecallCandidate) -> Result<bool, S::Error> {
        let Piece { key, from, until, .. } = hit.piece;
        let thread_spans = self.source.thread_spans(key, (from, until))?;
        Ok(match key {
            // A node repeats covered content, so it is redundant once all its messages are
            // covered.
            PieceKey::Node(..) => {
                self.nodes.contains(&key) || self.covered.overlap(&thread_spans) == Overlap::All
            }
            PieceKey::Heading | PieceKey::Turn(_) | PieceKey::Message(_) => {
                self.verbatim.overlap(&thread_spans) == Overlap::All
            }
        })
    }

    /// Records the messages that a profile without a cut does not cover.
    fn note_gaps(&mut self) -> Result<(), S::Error> {
        let mut gaps = Vec::new();
        for piece in self.history()? {
            trim(self.source, &self.mentioned, piece, PackReason::Cover, &mut gaps)?;
        }
        gaps.iter().for_each(|(gap, _)| self.leave_out(gap, SkipReason::NotAskedFor));
        Ok(())
    }
}

/// The finest detail level of a piece that a section allows and that fits the room.
fn finest(piece: &Piece, section: &Section, room: u32) -> Option<(DetailLevel, u32)> {
    let mut costs = piece.costs.iter().rev();
    costs.find(|(detail, cost)| *detail <= section.max_detail() && *cost <= room).copied()
}

/// The parts of a piece outside a set, in time order: the piece itself, or the nodes and messages
/// below it.
fn trim<S: PieceSource>(
    source: &mut S,
    covered: &ThreadSpanSet,
    piece: Piece,
    reason: PackReason,
    parts: &mut Vec<(Piece, PackReason)>,
) -> Result<(), S::Error> {
    let thread_spans = source.thread_spans(piece.key, (piece.from, piece.until))?;
    match covered.overlap(&thread_spans) {
        Overlap::All => {}
        Overlap::Part if piece.key.level() > 0 => {
            for part in source.below(&piece)? {
                trim(source, covered, part, PackReason::Trimmed, parts)?;
            }
        }
        Overlap::Nothing | Overlap::Part => parts.push((piece, reason)),
    }
    Ok(())
}

/// Merges adjacent omissions with the same reason.
fn joined(left_out: Vec<Omission>) -> Vec<Omission> {
    let mut joined: Vec<Omission> = Vec::new();
    for next in left_out {
        match joined.last_mut() {
            Some(last)
                if last.why == next.why
                    && next.why != SkipReason::Cut
                    && next.from <= last.until =>
            {
                last.until = last.until.max(next.until);
            }
            _ => joined.push(next),
        }
    }
    joined
}
