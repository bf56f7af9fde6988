//! Plans the regeneration of nodes whose content may no longer be returned: they are removed, and
//! jobs regenerate them in the same place.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::ports::{JobFilter, StoreResult};
use treering_core::{
    Conversation, JobKind, Level, Node, NodeSpec, Reader, RemovedNode, Timestamp, Write,
};

use crate::engine::Engine;
use crate::tree_planner::{TreePlanner, policy_of};

/// Removes nodes, and plans the jobs that regenerate them in the same place. Returns the
/// number of jobs that worked on erased content.
pub(crate) fn regenerate_nodes(
    engine: &Engine,
    reader: &dyn Reader,
    (conversation, now): (&mut Conversation, Timestamp),
    rewritten: &[&Node],
    writes: &mut Vec<Write>,
) -> StoreResult<u32> {
    let (key, id) = (engine.key(conversation.id), conversation.id);
    let policy = policy_of(engine.policy(), conversation)?;
    let planner = TreePlanner { reader, key: &key, policy: &policy, overrides: &[], now };
    let mut by_level: BTreeMap<Level, Vec<u32>> = BTreeMap::new();
    let mut replaced: BTreeMap<(Level, u32), NodeSpec> = BTreeMap::new();
    for node in rewritten.iter().filter(|node| !node.spec.is_top()) {
        by_level.entry(node.level()).or_default().push(node.ordinal());
        let replaces = Some(RemovedNode { parent: node.parent });
        let spec = NodeSpec { replaces, ..node.spec.clone() };
        replaced.insert((node.level(), node.ordinal()), spec);
    }
    writes.extend(
        by_level.into_iter().map(|(level, ordinals)| Write::RemoveNodes(id, level, ordinals)),
    );
    if let Some(level) = conversation.tree_state.top.filter(|_| !rewritten.is_empty()) {
        planner.drop_top(conversation, level, writes);
    }
    let parents: BTreeSet<(Level, u32)> =
        rewritten.iter().filter_map(|node| Some((node.level().above(), node.parent?))).collect();
    let mut affected = 0;
    for mut job in reader.jobs(&JobFilter::of(id))? {
        let place = Level::new(job.kind.height()).map(|level| (level, job.kind.position()));
        let Some(place) = place else { continue };
        let own = replaced.get(&place).cloned();
        match &mut job.kind {
            JobKind::EmbedNode(..) if own.is_some() => writes.push(Write::RemoveJob(job)),
            JobKind::Summarize(task) if own.is_some() || parents.contains(&place) => {
                // The job of a group that was never written lists children by their old ids.
                task.replaces =
                    own.and_then(|own| own.replaces).or(Some(RemovedNode { parent: None }));
                replaced.remove(&place);
                job.retry(now);
                writes.push(Write::PutJob(job));
            }
            _ => continue,
        }
        affected += 1;
    }
    writes.extend(planner.jobs(replaced.into_values().collect()));
    Ok(affected)
}
