//! The part of a scope that project trees cover: sessions that are too old to be shown by
//! themselves.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use treering_core::ports::{ConversationFilter, ConversationQuery, StoreResult};
use treering_core::{
    Conversation, ConversationId, ConversationKind, Coverage, Level, Node, Reader, Timestamp,
};

use super::lineage::Lineage;
use super::piece_source::ConversationPieces;
use crate::engine::Engine;
use crate::project::SESSIONS_LEVEL;

/// The trees of the projects of a scope.
pub(super) struct ProjectTrees {
    trees: Vec<(Conversation, Vec<Arc<Node>>)>,
    /// The tree and the node that covers each session.
    covered: HashMap<ConversationId, (usize, Arc<Node>)>,
}

/// The nodes of a project tree that stand for the sessions that are not shown individually.
pub(super) struct ProjectCover {
    /// Every node of the tree.
    pub(super) nodes: Vec<Arc<Node>>,
    /// The coarsest cover of the sessions, in time order.
    pub(super) roots: Vec<Arc<Node>>,
    /// The number of sessions.
    pub(super) sessions: usize,
    /// The mean number of tokens of a session.
    pub(super) session_tokens: u32,
}

impl ProjectTrees {
    /// Reads the trees of the projects that a filter selects. Their nodes are few, because each
    /// of the lowest level covers several sessions.
    pub(super) fn read(
        engine: &Engine,
        reader: &dyn Reader,
        filter: &ConversationFilter,
    ) -> StoreResult<Self> {
        let owners = ConversationFilter {
            kind: Some(ConversationKind::Project),
            project: filter.project.clone(),
            ..ConversationFilter::all(usize::MAX)
        };
        let (mut trees, mut covered) = (Vec::new(), HashMap::new());
        for owner in reader.conversations(&ConversationQuery::List(&owners))? {
            let key = engine.key(owner.id);
            let (lineage, at) = (Lineage::whole(&owner), owner.last_activity);
            let cache = engine.context_cache();
            let mut pieces =
                ConversationPieces::new((reader, &[]), &key, &owner, cache, lineage, 0, at);
            let nodes = pieces.read_nodes(&treering_core::ports::NodeFilter::default())?;
            drop(pieces);
            for node in &nodes {
                for session in node.spec.covers.sessions() {
                    covered.insert(session.conversation, (trees.len(), Arc::clone(node)));
                }
            }
            trees.push((owner, nodes));
        }
        Ok(Self { trees, covered })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.covered.is_empty()
    }

    /// The sessions that the trees cover.
    pub(super) fn sessions(&self) -> impl Iterator<Item = ConversationId> {
        self.covered.keys().copied()
    }

    pub(super) fn covers(&self, id: ConversationId) -> bool {
        self.covered.contains_key(&id)
    }

    /// Decides which nodes stay whole. A node whose sessions are all shown or left out is not
    /// needed. If a session has grown or is excluded, its node is dropped and the other sessions
    /// are returned. Otherwise the node stays, and its sessions are removed from
    /// the ones that are shown.
    pub(super) fn resolve(
        &mut self,
        shown: &mut Vec<Conversation>,
        left_out: &[ConversationId],
    ) -> Vec<ConversationId> {
        let has_grown = |it: &Conversation, end: Timestamp| it.last_activity > end;
        let mut touched: BTreeMap<(usize, u32), Arc<Node>> = BTreeMap::new();
        let (mut grown, mut added) = (HashSet::new(), Vec::new());
        for session in shown.iter() {
            if let Some((tree, node)) = self.covered.get(&session.id) {
                touched.insert((*tree, node.ordinal()), Arc::clone(node));
                if has_grown(session, node.range_end) {
                    grown.insert(session.id);
                }
            }
        }
        for id in left_out {
            if let Some((tree, node)) = self.covered.get(id) {
                touched.insert((*tree, node.ordinal()), Arc::clone(node));
                grown.insert(*id);
            }
        }
        for node in touched.into_values() {
            let of_node: Vec<ConversationId> =
                node.spec.covers.sessions().iter().map(|it| it.conversation).collect();
            let is_shown = |id: &ConversationId| {
                left_out.contains(id) || shown.iter().any(|session| session.id == *id)
            };
            let others: Vec<ConversationId> =
                of_node.iter().copied().filter(|id| !is_shown(id)).collect();
            if !others.is_empty() && !of_node.iter().any(|id| grown.contains(id)) {
                shown.retain(|session| !of_node.contains(&session.id));
                continue;
            }
            of_node.iter().for_each(|id| drop(self.covered.remove(id)));
            added.extend(others);
        }
        added
    }

    /// The nodes that stand for the sessions they cover, by project.
    pub(super) fn into_covers(self) -> Vec<(Conversation, ProjectCover)> {
        let Self { trees, covered } = self;
        let cover = |(index, (owner, nodes)): (usize, (Conversation, Vec<Arc<Node>>))| {
            let of_tree = covered.values().filter(|(tree, _)| *tree == index);
            let whole: BTreeSet<u32> = of_tree.map(|(_, node)| node.ordinal()).collect();
            let cover = ProjectCover::new(nodes, &whole);
            (!cover.roots.is_empty()).then_some((owner, cover))
        };
        trees.into_iter().enumerate().filter_map(cover).collect()
    }
}

impl ProjectCover {
    /// Takes the highest nodes below which every node of the lowest level stays whole.
    fn new(nodes: Vec<Arc<Node>>, whole: &BTreeSet<u32>) -> Self {
        let by_place: HashMap<(Level, u32), &Arc<Node>> =
            nodes.iter().map(|node| ((node.level(), node.ordinal()), node)).collect();
        let parent_of = |node: &Node| {
            let parent = node.parent.map(|parent| (node.level().above(), parent));
            parent.filter(|parent| by_place.contains_key(parent))
        };
        let mut open: BTreeSet<(Level, u32)> = BTreeSet::new();
        let is_base = |node: &&Arc<Node>| node.level() == SESSIONS_LEVEL;
        let (mut sessions, mut tokens) = (0, 0);
        for node in nodes.iter().filter(is_base) {
            if whole.contains(&node.ordinal()) {
                sessions += node.spec.covers.sessions().len();
                tokens += node.source.raw_tokens;
                continue;
            }
            let mut next = Some((node.level(), node.ordinal()));
            while let Some(place) = next {
                open.insert(place);
                next = by_place.get(&place).and_then(|node| parent_of(node));
            }
        }
        let is_root = |node: &&Arc<Node>| {
            !open.contains(&(node.level(), node.ordinal()))
                && parent_of(node).is_none_or(|parent| open.contains(&parent))
        };
        let mut roots: Vec<Arc<Node>> = nodes.iter().filter(is_root).cloned().collect();
        roots.sort_by_key(|node| (node.range_end, node.ordinal()));
        let mean = tokens / (sessions as u64).max(1);
        let session_tokens = u32::try_from(mean).unwrap_or(u32::MAX);
        Self { nodes, roots, sessions, session_tokens }
    }

    /// The messages under the roots that no item of a context is about, given the ends of the
    /// periods that its items cover.
    pub(super) fn omitted(&self, shown: &[Timestamp]) -> u32 {
        let (mut before, mut omitted) = (None, 0);
        for root in &self.roots {
            let is_own = |end: &Timestamp| before < Some(*end) && *end <= root.range_end;
            if !shown.iter().any(is_own) {
                omitted += root.source.messages;
            }
            before = Some(root.range_end);
        }
        omitted
    }

    /// The tokens of the sessions.
    pub(super) fn tokens(&self) -> u64 {
        u64::from(self.session_tokens) * self.sessions as u64
    }

    /// The messages under the roots.
    pub(super) fn messages(&self) -> u32 {
        self.roots.iter().map(|root| root.source.messages).sum()
    }
}

/// Whether a node covers sessions, directly or not.
pub(super) fn is_over_sessions(node: &Node) -> bool {
    matches!(node.spec.covers, Coverage::Sessions(_)) || node.source.until == 0
}
