//! The top: the node over a whole closed conversation. It covers the roots of the tree, the nodes
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
/// one that needs no other node above it.
#[must_use]
pub fn plan_top(
    roots: &[Node],
    sealed_by: Option<MessageIdx>,
    policy: &Policy,
) -> Option<NodeSpec> {
    let highest = roots.iter().map(Node::level).max()?;
    if is_own_top(roots, policy.top_length) {
        return None;
    }
    Some(NodeSpec {
        level: highest.above(),
        ordinal: NodeSpec::TOP_ORDINAL,
        covers: Coverage::Whole(roots.iter().map(|root| root.id.clone()).collect()),
        style: policy.top_style(),
        cause: SealCause::Closed,
        sealed_by,
        overrides: Vec::new(),
    })
}

/// Whether a tree has a single root that serves as the summary of the whole conversation: its
/// length is in the range, or the conversation is itself too short for a longer one.
#[must_use]
pub fn is_own_top(roots: &[Node], length: SummaryLength) -> bool {
    match (roots, length) {
        ([root], SummaryLength::Tokens(least, most)) => {
            root.tokens <= most
                && (root.tokens >= least || root.source.raw_tokens <= u64::from(most))
        }
        ([_], _) => true,
        _ => false,
    }
}
