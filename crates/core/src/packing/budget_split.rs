//! The split of a budget between the parts of a context, and the position up to which the cut
//! stays the same while a conversation grows.

/// The split of a budget between the cut and the recall, and within the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetSplit {
    /// The size up to which the cut is refined.
    pub target: u32,
    /// The maximum size of the coarsest complete cover.
    pub most: u32,
    /// The part of the cut reserved for the latest messages.
    pub recent: u32,
    /// The part of the cut reserved for messages that arrive before it is recomputed.
    pub slack: u32,
}

/// The share of the budget for the refined cut if there is a question.
const TARGET: f64 = 0.25;
/// The maximum share of the budget for a complete cover if there is a question.
const MOST: f64 = 0.3;

/// The latest messages take at most one part in this many of a standing cut, and of the smaller cut
/// beside a question. This includes those that arrive before the cut is recomputed.
const RECENT: (u32, u32) = (4, 2);

impl BudgetSplit {
    /// Splits a budget. `whole` is the cost of the whole history, verbatim.
    #[must_use]
    pub fn new(budget: u32, recent: u32, asked: bool, whole: u64) -> Self {
        let share = |of: f64| (f64::from(budget) * of) as u32;
        let fits = whole + u64::from(slack_of(budget)) <= u64::from(budget);
        let (target, most) = match asked && !fits {
            true => (share(TARGET), share(MOST)),
            false => (budget, budget),
        };
        let parts = if target == budget { RECENT.0 } else { RECENT.1 };
        let slack = slack_of(target);
        Self { target, most, recent: recent.min((target / parts).saturating_sub(slack)), slack }
    }
}

/// The largest power of two that is at most a twelfth of the target, so that similar budgets
/// have the same slack.
fn slack_of(target: u32) -> u32 {
    (target / 12).checked_ilog2().map_or(0, |power| 1 << power)
}

/// The end of the stable prefix: the first message at which the history reached a multiple of
/// the slack. Takes the total size and the message sizes from the latest back. The end stays
/// the same until the history reaches the next multiple.
#[must_use]
pub fn stable_prefix_end(
    end: u32,
    total: u64,
    sizes: impl Iterator<Item = u32>,
    slack: u32,
) -> u32 {
    let Some(line) = total.checked_div(slack.into()).map(|steps| steps * u64::from(slack)) else {
        return end;
    };
    let (mut place, mut before) = (end, total);
    for size in sizes {
        let earlier = before.saturating_sub(size.into());
        if earlier < line || place == 0 {
            break;
        }
        (place, before) = (place - 1, earlier);
    }
    place
}
