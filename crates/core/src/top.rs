//! The top: the summary of a whole closed conversation. It covers the roots of the tree, the nodes
//! without a group. Grouping ignores it, so that a reopened conversation grows as if it had never
//! been closed.

use crate::ids::MessageIdx;
use crate::node::{Coverage, Node, NodeSpec, SealCause};
use crate::policy::{Policy, SummaryLength};

/// Sorts the roots of a tree in time order.
pub fn sort_roots(roots: &mut [Node]) {
    roots.sort_by_key(|root| (root.range_end, root.source.from, root.level(), root.ordinal()));
}

/// Plans the top over the roots of a tree, given in time order. `None` if there are no roots, or
/// only one that serves as the summary of the whole.
#[must_use]
pub fn plan_top(
    roots: &[Node],
    sealed_by: Option<MessageIdx>,
    policy: &Policy,
) -> Option<NodeSpec> {
    let highest = roots.iter().map(Node::level).max()?;
    if let [root] = roots
        && serves_as_top(root.tokens, root.source.raw_tokens, policy.top_length)
    {
        return None;
    }
    Some(NodeSpec {
        level: highest.above(),
        ordinal: NodeSpec::TOP_ORDINAL,
        covers: Coverage::Whole(roots.iter().map(|root| root.id.clone()).collect()),
        style: policy.top_style(),
        cause: SealCause::Closed,
        sealed_by,
        turns: None,
        overrides: Vec::new(),
        replaces: None,
    })
}

/// Whether the only root, of this many tokens, serves as the summary of a conversation: its
/// length is in the range, or the conversation is itself too short for a longer one.
fn serves_as_top(tokens: u32, raw_tokens: u64, length: SummaryLength) -> bool {
    match length {
        SummaryLength::Tokens(min, max) => {
            tokens <= max && (tokens >= min || raw_tokens <= u64::from(max))
        }
        SummaryLength::Keep(_) | SummaryLength::Sentences(..) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_root_serves_as_top_if_its_length_is_right() {
        let range = SummaryLength::Tokens(200, 400);
        for (tokens, raw_tokens, serves) in [
            (300, 10_000, true),
            (200, 401, true),
            (400, 10_000, true),
            (401, 10_000, false),
            (199, 401, false),
            (50, 400, true),
            (1, 1, true),
        ] {
            assert_eq!(serves_as_top(tokens, raw_tokens, range), serves, "{tokens}/{raw_tokens}");
        }
        assert!(serves_as_top(1000, 10_000, SummaryLength::Keep(0.1)));
    }
}
