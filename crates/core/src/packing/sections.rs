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
        covered: Vec::new(),
        verbatim: Vec::new(),
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
        packer.covered.extend(items.iter().map(PackedItem::span));
        let whole = items
            .iter()
            .filter(|item| item.key.level() == 0 && item.detail_level >= DetailLevel::Text);
        packer.verbatim.extend(whole.map(PackedItem::span));
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
    /// The messages that the context covers, as spans.
    covered: Vec<(u32, u32)>,
    /// The messages that appear verbatim.
    verbatim: Vec<(u32, u32)>,
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
            SectionSource::Recent => self.recent(section, room)?,
            SectionSource::Recall | SectionSource::Nodes => return self.hits(section, room),
            SectionSource::Level => {
                let Some(level) = section.level.and_then(Level::new) else { return Ok(Vec::new()) };
                let most =
                    section.limit.map_or(room as usize / MIN_NODE_TOKENS, |limit| limit as usize);
                let mut nodes = self.source.level(level, most + self.covered.len())?;
                if section.uncovered {
                    let roots = self.source.roots()?;
                    nodes.retain(|node| roots.iter().any(|root| root.key == node.key));
                }
                self.whole_pieces(nodes, section, room, PackReason::Level)
            }
            SectionSource::Frontier => {
                let mut pieces = self.source.roots()?;
                pieces.extend(self.source.recent_tail()?);
                self.whole_pieces(pieces, section, room, PackReason::Cover)
            }
        };
        self.left -= items.iter().map(|item| item.cost).sum::<u32>();
        Ok(items)
    }

    fn cut(&mut self, allotment: &BudgetSplit) -> Result<Vec<PackedItem>, S::Error> {
        // Reserve room for the note about omissions and for the header of the first message.
        let (head, note) = (self.source.cost_of_run(), self.source.cost_of_note());
        let Some(room) = self.left.checked_sub(head + note) else { return Ok(Vec::new()) };
        let within = |size: u32| size.min(room);
        let (target, most) = (within(allotment.target), within(allotment.most));
        // With less room than planned, the latest messages and the slack shrink too.
        let (recent, slack) = (allotment.recent.min(target / 2), allotment.slack.min(target / 2));
        let mut cut = cut(self.source, &BudgetSplit { target, most, recent, slack })?;
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
        pieces.retain(|piece| !self.is_covered(piece.span()));
        let limit = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut used = self.source.cost_of_run();
        let mut items: Vec<PackedItem> = Vec::new();
        for piece in pieces.iter().rev() {
            let Some(cost) = piece.cost(section.max_detail()) else { continue };
            if items.len() >= limit || used + cost.1 > room {
                break;
            }
            used += cost.1;
            items.push(PackedItem::of(piece, cost, reason));
        }
        items.reverse();
        if let Some(first) = items.first_mut() {
            first.cost += self.source.cost_of_run();
        }
        items
    }

    fn hits(&mut self, section: &Section, room: u32) -> Result<Vec<PackedItem>, S::Error> {
        let wants_nodes = section.take == SectionSource::Nodes;
        let mut hits: Vec<RecallCandidate> = self.source.hits()?;
        hits.retain(|hit| {
            (hit.piece.key.level() > 0) == wants_nodes && !self.is_fully_covered(hit)
        });
        let limit = section.limit.map_or(usize::MAX, |limit| limit as usize);
        let recalled = recall(self.source, &hits, limit, room);
        self.hits_left_out += recalled.left_out;
        self.left -= recalled.cost;
        Ok(recalled.items)
    }

    fn is_covered(&self, (from, until): (u32, u32)) -> bool {
        self.covered.iter().any(|(start, end)| *start < until && from < *end)
    }

    /// Whether the context already contains the hit.
    fn is_fully_covered(&self, hit: &RecallCandidate) -> bool {
        let (from, until) = hit.piece.span();
        match hit.piece.key {
            // A node repeats covered content, so it is redundant once all its messages are
            // covered.
            PieceKey::Node(..) => {
                self.covered.iter().any(|(start, end)| *start <= from && until <= *end)
            }
            PieceKey::Message(_) => self.verbatim.contains(&(from, until)),
        }
    }

    /// Records the messages that a profile without a cut does not cover.
    fn note_gaps(&mut self) -> Result<(), S::Error> {
        let mut pieces = self.source.roots()?;
        pieces.extend(self.source.recent_tail()?);
        self.covered.sort_unstable();
        for piece in pieces {
            let (mut from, until) = (piece.from.idx.0, end_of(piece.until));
            for (start, end) in &self.covered {
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
