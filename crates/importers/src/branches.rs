//! Sources that are trees of messages. The active path becomes the main thread; each branch
//! becomes its own thread.

use std::collections::{HashMap, HashSet};

use treering_core::{Entry, EntryKind, ForkPoint, ThreadName};

use super::{ImportedConversation, external, thread};

/// A message of the tree and its entries.
pub(super) struct BranchNode<'a> {
    pub(super) id: &'a str,
    pub(super) parent: Option<&'a str>,
    pub(super) entries: Vec<EntryKind>,
}

/// Splits a tree into threads. `leaf` is the end of the active path; if it is unknown, each
/// thread continues with the last child. Siblings in `nodes` must be ordered oldest first.
pub(super) fn split_into_threads(
    imported: &mut ImportedConversation,
    nodes: Vec<BranchNode<'_>>,
    leaf: Option<&str>,
) {
    let index_of_id: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let parent = |at: usize| nodes[at].parent.and_then(|id| index_of_id.get(id).copied());
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for at in 0..nodes.len() {
        children.entry(parent(at)).or_default().push(at);
    }
    let mut followed = HashSet::new();
    let mut next = leaf.and_then(|id| index_of_id.get(id).copied());
    while let Some(index) = next {
        if !followed.insert(index) {
            break;
        }
        next = parent(index);
    }

    let mut entries_of_node: Vec<Option<Vec<EntryKind>>> = Vec::with_capacity(nodes.len());
    let ids: Vec<String> = nodes.iter().map(|node| node.id.to_owned()).collect();
    entries_of_node.extend(nodes.into_iter().map(|node| Some(node.entries)));
    let mut open: Vec<PendingThread> = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    let main = ThreadName::main();
    if let Some(start) = queue(&mut open, &roots, &main, &ForkPoint::Start, &followed, &ids) {
        open.push(PendingThread { start, name: main, fork: None });
    }
    while let Some(PendingThread { start, name, fork }) = open.pop() {
        if let Some((parent, after)) = fork {
            imported
                .entries
                .push(Entry { thread: name.clone(), kind: EntryKind::Fork { parent, after } });
        }
        let mut last = ForkPoint::Start;
        let mut next = Some(start);
        while let Some(index) = next {
            let Some(entries) = entries_of_node[index].take() else { break };
            if entries.iter().any(|kind| matches!(kind, EntryKind::Message(_))) {
                last = ForkPoint::External(external(&ids[index]));
            }
            imported
                .entries
                .extend(entries.into_iter().map(|kind| Entry { thread: name.clone(), kind }));
            let next_nodes = children.remove(&Some(index)).unwrap_or_default();
            next = queue(&mut open, &next_nodes, &name, &last, &followed, &ids);
        }
    }
}

/// A thread to visit: its first node, its name and its fork point.
struct PendingThread {
    start: usize,
    name: ThreadName,
    fork: Option<(ThreadName, ForkPoint)>,
}

/// Returns the child that continues the thread, and queues the others as branches.
fn queue(
    open: &mut Vec<PendingThread>,
    children: &[usize],
    name: &ThreadName,
    last: &ForkPoint,
    followed: &HashSet<usize>,
    ids: &[String],
) -> Option<usize> {
    let main = children
        .iter()
        .copied()
        .find(|child| followed.contains(child))
        .or(children.last().copied());
    for child in children.iter().rev().copied().filter(|child| Some(*child) != main) {
        let branch = thread(&format!("branch-{}", ids[child].chars().take(8).collect::<String>()));
        open.push(PendingThread {
            start: child,
            name: branch,
            fork: Some((name.clone(), last.clone())),
        });
    }
    main
}
