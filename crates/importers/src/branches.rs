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
/// thread continues with the last child. Siblings in `twigs` must be ordered oldest first.
pub(super) fn split_into_threads(
    found: &mut ImportedConversation,
    twigs: Vec<BranchNode<'_>>,
    leaf: Option<&str>,
) {
    let place: HashMap<&str, usize> =
        twigs.iter().enumerate().map(|(at, twig)| (twig.id, at)).collect();
    let parent = |at: usize| twigs[at].parent.and_then(|id| place.get(id).copied());
    let mut children: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
    for at in 0..twigs.len() {
        children.entry(parent(at)).or_default().push(at);
    }
    let mut followed = HashSet::new();
    let mut at = leaf.and_then(|id| place.get(id).copied());
    while let Some(here) = at {
        if !followed.insert(here) {
            break;
        }
        at = parent(here);
    }

    let mut taken: Vec<Option<Vec<EntryKind>>> = Vec::with_capacity(twigs.len());
    let ids: Vec<String> = twigs.iter().map(|twig| twig.id.to_owned()).collect();
    taken.extend(twigs.into_iter().map(|twig| Some(twig.entries)));
    let mut open: Vec<PendingThread> = Vec::new();
    let roots = children.remove(&None).unwrap_or_default();
    let main = ThreadName::main();
    if let Some(start) = queue(&mut open, &roots, &main, &ForkPoint::Start, &followed, &ids) {
        open.push(PendingThread { start, name: main, fork: None });
    }
    while let Some(PendingThread { start, name, fork }) = open.pop() {
        if let Some((parent, after)) = fork {
            found
                .entries
                .push(Entry { thread: name.clone(), kind: EntryKind::Fork { parent, after } });
        }
        let mut last = ForkPoint::Start;
        let mut next = Some(start);
        while let Some(here) = next {
            let Some(entries) = taken[here].take() else { break };
            if entries.iter().any(|kind| matches!(kind, EntryKind::Message(_))) {
                last = ForkPoint::External(external(&ids[here]));
            }
            found
                .entries
                .extend(entries.into_iter().map(|kind| Entry { thread: name.clone(), kind }));
            let after = children.remove(&Some(here)).unwrap_or_default();
            next = queue(&mut open, &after, &name, &last, &followed, &ids);
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
