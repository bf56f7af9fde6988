//! Runs a profile: its sections in turn, each with the budget that the previous ones left.

use super::cut::{BudgetSplit, cut};
use super::recall::{RecallCandidate, recall};
use super::{
    ContextPlan, DetailLevel, Omission, PackReason, PackedItem, Piece, PieceKey, PieceSource,
    Profile, Section, SectionSource, SkipReason, end_of,
};
use crate::node::Level;

/// The minimum number of tokens that a node plausibly costs.
const MIN_NODE_TOKENS: usize = 24;

/// Packs a context from the sections of a profile. `headings` holds the cost of each section's
/// heading. Sections with the latest messages go first; the others follow in order.
pub fn pack<F: PieceSource>(
    forest: &mut F,
    profile: &Profile,
    headings: &[u32],
    budget: u32,
    allotment: &BudgetSplit,
) -> Result<ContextPlan, F::Error> {
    let mut packer = Packer {
        forest,
        left: budget,
        told: Vec::new(),
        said: Vec::new(),
        left_out: Vec::new(),
        hits_left_out: 0,
    };
    let mut sections = vec![Vec::new(); profile.sections.len()];
    let (late, rest): (Vec<usize>, Vec<usize>) = (0..sections.len())
        .partition(|place| profile.sections[*place].take == SectionSource::Recent);
    for place in late.into_iter().chain(rest) {
        let section = &profile.sections[place];
        let heading = headings.get(place).copied().unwrap_or(0);
        if packer.left <= heading || section.when_left.is_some_and(|least| packer.left < least) {
            continue;
        }
        if section.unless_left.is_some_and(|most| packer.left >= most) {
            continue;
        }
        packer.left -= heading;
        let items = packer.take(section, allotment)?;
        if items.is_empty() {
            packer.left += heading;
            continue;
        }
        packer.told.extend(items.iter().map(PackedItem::span));
        let whole = items
            .iter()
            .filter(|item| item.key.level() == 0 && item.detail_level >= DetailLevel::Text);
        packer.said.extend(whole.map(PackedItem::span));
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

struct Packer<'f, F> {
    forest: &'f mut F,
    left: u32,
    /// The messages that the context covers, as spans.
    told: Vec<(u32, u32)>,
    /// The messages that appear verbatim.
    said: Vec<(u32, u32)>,
    left_out: Vec<Omission>,
    hits_left_out: u32,
}

impl<F: PieceSource> Packer<'_, F> {
    fn take(
        &mut self,
        section: &Section,
        allotment: &BudgetSplit,
    ) -> Result<Vec<PackedItem>, F::Error> {
        let room = section
            .share
            .map_or(self.left, |share| (f64::from(self.left) * f64::from(share)) as u32);
        let room = match section.take {
            SectionSource::Cut => room,
            _ => section.tokens.map_or(room, |most| room.min(most)),
        };
        let items = match section.take {
            SectionSource::Cut => return self.cut(allotment),
            SectionSource::Recent => self.recent(section, room)?,
            SectionSource::Recall | SectionSource::Nodes => return self.hits(section, room),
            SectionSource::Level => {
                let Some(level) = section.level.and_then(Level::new) else { return Ok(Vec::new()) };
                let most =
                    section.limit.map_or(room as usize / MIN_NODE_TOKENS, |limit| limit as usize);
                let mut nodes = self.forest.level(level, most + self.told.len())?;
                if section.uncovered {
                    let roots = self.forest.roots()?;
                    nodes.retain(|node| roots.iter().any(|root| root.key == node.key));
                }
                self.whole_pieces(nodes, section, room, PackReason::Level)
            }
            SectionSource::Frontier => {
                let mut pieces = self.forest.roots()?;
                pieces.extend(self.forest.recent_tail()?);
                self.whole_pieces(pieces, section, room, PackReason::Cover)
            }
        };
        self.left -= items.iter().map(|item| item.cost).sum::<u32>();
        Ok(items)
    }

    fn cut(&mut self, allotment: &BudgetSplit) -> Result<Vec<PackedItem>, F::Error> {
        // Reserve room for the note about omissions and for the header of the first message.
        let (head, note) = (self.forest.cost_of_run(), self.forest.cost_of_note());
        let Some(room) = self.left.checked_sub(head + note) else { return Ok(Vec::new()) };
        let within = |size: u32| size.min(room);
        let (target, most) = (within(allotment.target), within(allotment.most));
        // With less room than planned, the latest messages and the slack shrink too.
        let (recent, slack) = (allotment.recent.min(target / 2), allotment.slack.min(target / 2));
        let mut cut = cut(self.forest, &BudgetSplit { target, most, recent, slack })?;
        self.left -= cut.cost;
        if cut.items.first().is_some_and(|item| item.key.level() == 0) {
            self.left -= head;
        }
        if cut.left_out.iter().any(|it| it.why == SkipReason::NoRoom) {
            self.left -= note;
        }
        self.left_out.append(&mut cut.left_out);
        Ok(cut.items)
    }

    /// The latest messages within the limits of the section. A message that does not fit is
    /// truncated and becomes the first of the section.
    fn recent(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, F::Error> {
        const PER_TURN: usize = 8;
        let number = |limit: Option<u32>| limit.map(|limit| limit as usize);
        let messages = number(section.messages);
        let want = messages
            .or(number(section.turns).map(|turns| turns * PER_TURN))
            .unwrap_or(room as usize / 4);
        let latest = self.forest.latest(want.max(1))?;
        let mut used = self.forest.cost_of_run();
        let (mut chars, mut turns, mut items) = (0_u64, Vec::new(), Vec::new());
        for piece in latest.iter().rev() {
            let PieceKey::Message(slice) = piece.key else { continue };
            let turn = self.forest.turn(slice.idx);
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
            first.cost += self.forest.cost_of_run();
        }
        Ok(items)
    }

    /// Nodes and messages that no earlier section covers, latest first while there is room.
    fn whole_pieces(
        &mut self,
        mut pieces: Vec<Piece>,
        section: &Section,
        room: u32,
        reason: PackReason,
    ) -> Vec<PackedItem> {
        pieces.retain(|piece| !self.is_told(piece.span()));
        let limit = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut used = self.forest.cost_of_run();
        let mut items: Vec<PackedItem> = Vec::new();
        for piece in pieces.iter().rev() {
            let Some(cost) = piece.cost(section.grain()) else { continue };
            if items.len() >= limit || used + cost.1 > room {
                break;
            }
            used += cost.1;
            items.push(PackedItem::of(piece, cost, reason));
        }
        items.reverse();
        if let Some(first) = items.first_mut() {
            first.cost += self.forest.cost_of_run();
        }
        items
    }

    fn hits(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, F::Error> {
        let wants_nodes = section.take == SectionSource::Nodes;
        let mut hits: Vec<RecallCandidate> = self.forest.hits()?;
        hits.retain(|hit| (hit.piece.key.level() > 0) == wants_nodes && !self.is_told_whole(hit));
        let limit = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let recalled = recall(self.forest, &hits, limit, room);
        self.hits_left_out += recalled.left_out;
        self.left -= recalled.cost;
        Ok(recalled.items)
    }

    fn is_told(&self, (from, until): (u32, u32)) -> bool {
        self.told.iter().any(|(start, end)| *start < until && from < *end)
    }

    /// Whether the context already contains the hit.
    fn is_told_whole(&self, hit: &RecallCandidate) -> bool {
        let (from, until) = hit.piece.span();
        match hit.piece.key {
            // A node repeats covered content, so it is redundant once all its messages are
            // covered.
            PieceKey::Node(..) => {
                self.told.iter().any(|(start, end)| *start <= from && until <= *end)
            }
            PieceKey::Message(_) => self.said.contains(&(from, until)),
        }
    }

    /// Records the messages that a profile without a cut does not cover.
    fn note_gaps(&mut self) -> Result<(), F::Error> {
        let mut pieces = self.forest.roots()?;
        pieces.extend(self.forest.recent_tail()?);
        self.told.sort_unstable();
        for piece in pieces {
            let (mut from, until) = (piece.from.idx.0, end_of(piece.until));
            for (start, end) in &self.told {
                if *end <= from || *start >= until {
                    continue;
                }
                if *start > from {
                    self.left_out.push(Omission {
                        from,
                        until: *start,
                        why: SkipReason::NotAskedFor,
                    });
                }
                from = from.max(*end);
            }
            if from < until {
                self.left_out.push(Omission { from, until, why: SkipReason::NotAskedFor });
            }
        }
        Ok(())
    }
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
