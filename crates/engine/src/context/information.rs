//! The information that a reader gets from the pieces of a context, level by level.

use treering_core::packing::{Costs, DetailLevel, Information};
use treering_core::{Point, Role, excerpt};

use super::render::{GIST_CHARS, MessageBlock};

/// The worth of what programs write, relative to what people say.
const PROGRAM_WORTH: f32 = 0.4;

/// The information in a message: a gist has that of the beginning, the text all of it.
pub(super) fn of_message(block: &MessageBlock<'_>) -> Information {
    let worth = match block.message.body.role {
        Role::Tool | Role::System => PROGRAM_WORTH,
        Role::User | Role::Assistant => 1.0,
    };
    let text = block.text();
    match block.detail_levels().len() {
        1 => Information::of([vec![(text, worth)]]),
        _ => {
            let head = excerpt::head(text, GIST_CHARS);
            Information::of([vec![(head.as_str(), worth)], vec![(text, worth)]])
        }
    }
}

/// The information in the points that each detail level of a node adds.
pub(super) fn of_node(points: &[Point<'_>], costs: &Costs) -> Information {
    let mut shown = 0;
    Information::of(costs.iter().map(|(detail, _)| {
        let until = match detail {
            DetailLevel::Points(number) => usize::from(*number).min(points.len()),
            _ => points.len(),
        };
        let added = points[shown.min(until)..until].iter();
        shown = until;
        added.map(|point| (point.text, point.worth as f32 / 100.0)).collect()
    }))
}
