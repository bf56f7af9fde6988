//! A tree of any shape as the source of a context, for the property tests of packing and for the
//! fuzz target `packer`.

use treering_core::packing::{
    BlockStyle, BudgetSplit, ContextPlan, DetailLevel, HeaderStyle, Information, PackReason, Piece,
    PieceKey, PieceSource, Profile, RecallCandidate, ThreadSpan, pack,
};
use treering_core::{Level, MessageIdx, Slice, TextPosition, TurnNo};

/// A tree over messages, given the size of each message, the messages per window and the nodes
/// per group.
#[derive(Debug, Clone)]
pub(crate) struct RandomTree {
    pub(crate) sizes: Vec<u32>,
    pub(crate) window: usize,
    pub(crate) group: usize,
    pub(crate) settled: usize,
    pub(crate) hits: Vec<(usize, u32)>,
}

/// A word of its own for each part of a message, one for each detail level.
fn words(parts: &[(usize, u32)]) -> Information {
    let words: Vec<String> =
        parts.iter().map(|(idx, part)| format!("message{idx}part{part}")).collect();
    Information::of(words.iter().map(|word| vec![(word.as_str(), 1.0)]))
}

impl RandomTree {
    fn message(&self, idx: usize) -> Piece {
        let size = self.sizes[idx];
        let at = MessageIdx(idx as u32);
        let gist = (size > 60).then_some((DetailLevel::Gist, 30));
        Piece {
            key: PieceKey::Message(Slice { idx: at, from: 0, until: size }),
            from: TextPosition { idx: at, offset: 0 },
            until: TextPosition::after(at),
            weight: size,
            chars: size,
            costs: gist.into_iter().chain([(DetailLevel::Text, size + 5)]).collect(),
            information: words(&(0..=size / 60).map(|part| (idx, part)).collect::<Vec<_>>()),
            min_expanded_cost: None,
            is_required: false,
        }
    }

    pub(crate) fn width(&self, level: u8) -> usize {
        self.window * self.group.pow(u32::from(level) - 1)
    }

    pub(crate) fn node(&self, level: u8, ordinal: usize) -> Piece {
        let width = self.width(level);
        let (from, until) = (ordinal * width, (ordinal + 1) * width);
        let place = |idx: usize| TextPosition { idx: MessageIdx(idx as u32), offset: 0 };
        let weight: u32 = self.sizes[from..until].iter().sum();
        Piece {
            key: PieceKey::Node(Level::new(level).unwrap(), ordinal as u32),
            from: place(from),
            until: place(until),
            weight,
            chars: weight,
            costs: [
                (DetailLevel::Points(1), 20),
                (DetailLevel::Points(2), 40),
                (DetailLevel::Text, 90),
                (DetailLevel::Details, 110),
            ]
            .into_iter()
            .collect(),
            information: words(&[(from, 0), (from + width / 2, 0), (until - 1, 0)]),
            min_expanded_cost: Some(20),
            is_required: false,
        }
    }

    /// A turn: two messages.
    fn turn_of(&self, idx: usize) -> Piece {
        let (from, until) = (idx / 2 * 2, (idx / 2 * 2 + 2).min(self.sizes.len()));
        let size: u32 = self.sizes[from..until].iter().sum();
        let place = |idx: usize| TextPosition { idx: MessageIdx(idx as u32), offset: 0 };
        let gist = (size > 60).then_some((DetailLevel::Gist, 40));
        Piece {
            key: PieceKey::Turn(TurnNo(idx as u32 / 2)),
            from: place(from),
            until: place(until),
            weight: size,
            chars: size,
            costs: gist.into_iter().chain([(DetailLevel::Text, size + 9)]).collect(),
            information: Information::default(),
            min_expanded_cost: None,
            is_required: false,
        }
    }

    /// The nodes that cover a message.
    fn nodes_over(&self, idx: usize) -> Vec<Piece> {
        let levels = (1..=self.height()).filter(|level| {
            let width = self.width(*level);
            (idx / width + 1) * width <= self.settled
        });
        levels.map(|level| self.node(level, idx / self.width(level))).collect()
    }

    fn height(&self) -> u8 {
        (1..=6).rev().find(|level| self.width(*level) <= self.settled).unwrap_or(0)
    }
}

impl PieceSource for RandomTree {
    type Error = std::convert::Infallible;

    fn roots(&mut self) -> Result<Vec<Piece>, Self::Error> {
        let (mut at, mut roots) = (0, Vec::new());
        for level in (1..=self.height()).rev() {
            while at + self.width(level) <= self.settled {
                roots.push(self.node(level, at / self.width(level)));
                at += self.width(level);
            }
        }
        roots.extend((at..self.settled).map(|idx| self.message(idx)));
        Ok(roots)
    }

    fn recent_tail(&mut self) -> Result<Vec<Piece>, Self::Error> {
        Ok((self.settled..self.sizes.len()).map(|idx| self.message(idx)).collect())
    }

    fn merge_tail(&mut self) {
        self.settled = self.sizes.len();
    }

    fn below(&mut self, node: &Piece) -> Result<Vec<Piece>, Self::Error> {
        let PieceKey::Node(level, ordinal) = node.key else { return Ok(Vec::new()) };
        let (level, ordinal) = (level.number(), ordinal as usize);
        Ok(match level {
            1 => (ordinal * self.window..(ordinal + 1) * self.window)
                .map(|idx| self.message(idx))
                .collect(),
            _ => {
                let group = self.group;
                (ordinal * group..(ordinal + 1) * group)
                    .map(|child| self.node(level - 1, child))
                    .collect()
            }
        })
    }

    fn latest(&mut self, messages: usize) -> Result<Vec<Piece>, Self::Error> {
        let from = self.sizes.len().saturating_sub(messages);
        Ok((from..self.sizes.len()).map(|idx| self.message(idx)).collect())
    }

    fn turn(&self, idx: MessageIdx) -> Option<u32> {
        Some(idx.0 / 2)
    }

    fn level(&mut self, level: Level, _: usize) -> Result<Vec<Piece>, Self::Error> {
        let nodes = self.settled / self.width(level.number());
        Ok((0..nodes).map(|ordinal| self.node(level.number(), ordinal)).collect())
    }

    fn latest_turns(&mut self, turns: usize) -> Result<Vec<Piece>, Self::Error> {
        let all = self.sizes.len().div_ceil(2);
        Ok((all.saturating_sub(turns)..all).map(|turn| self.turn_of(2 * turn)).collect())
    }

    fn thread_spans(
        &mut self,
        _: PieceKey,
        (from, until): (TextPosition, TextPosition),
    ) -> Result<Vec<ThreadSpan>, Self::Error> {
        Ok(vec![ThreadSpan { thread: 0, from, until }])
    }

    fn styled(&mut self, piece: Piece, _: BlockStyle) -> Piece {
        piece
    }

    fn hits(&mut self, style: BlockStyle) -> Result<Vec<RecallCandidate>, Self::Error> {
        let mut candidates: Vec<RecallCandidate> = Vec::new();
        let mut add = |piece: Piece, score: u32, rank: usize, reason: PackReason| {
            if candidates.iter().all(|it| it.piece.key != piece.key) {
                let (score, rank) = (score as f32, rank as u32);
                let day = i64::from(piece.from.idx.0 / 10);
                candidates.push(RecallCandidate { piece, score, rank, reason, day, style });
            }
        };
        for (rank, (idx, score)) in self.hits.iter().enumerate() {
            let piece = match style {
                BlockStyle::Plain => self.message(*idx),
                BlockStyle::Labeled | BlockStyle::Previous => self.turn_of(*idx),
            };
            add(piece, *score, rank, PackReason::Hit);
        }
        for (rank, (idx, score)) in self.hits.iter().enumerate() {
            self.nodes_over(*idx)
                .into_iter()
                .for_each(|node| add(node, *score, rank, PackReason::Hit));
            let beside = [idx.checked_sub(1), Some(idx + 1)].into_iter().flatten();
            for next in beside.filter(|next| *next < self.sizes.len()) {
                if style == BlockStyle::Plain {
                    add(self.message(next), *score, rank, PackReason::Neighbor);
                }
            }
        }
        Ok(candidates)
    }

    fn cost_of_hit(
        &mut self,
        hit: &RecallCandidate,
        detail: DetailLevel,
        lead: HeaderStyle,
    ) -> u32 {
        let own = hit.piece.costs.iter().find(|(its, _)| *its == detail).unwrap().1;
        own + match lead {
            HeaderStyle::None => 0,
            HeaderStyle::Number => 3,
            HeaderStyle::Day | HeaderStyle::Minute => 9,
        }
    }

    fn cost_of_run(&self) -> u32 {
        12
    }

    fn cost_of_note(&self) -> u32 {
        15
    }
}

/// Packs a tree with a profile.
pub(crate) fn packed(tree: &RandomTree, profile: &str, budget: u32) -> ContextPlan {
    let whole = tree.sizes.iter().map(|size| u64::from(size + 5)).sum();
    let allotment = BudgetSplit::new(budget, 400, !tree.hits.is_empty(), whole);
    let profile = Profile::named(profile, 400).unwrap();
    let headings = vec![4; profile.sections.len()];
    pack(&mut tree.clone(), &profile, &headings, budget, &allotment).unwrap()
}
