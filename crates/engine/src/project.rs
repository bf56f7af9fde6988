//! Project trees: the nodes that cover the sessions of a project, grouped by the same rule as the nodes
//! of a conversation. A conversation without messages owns the nodes and their jobs.
//!
//! The tree is a function of the sessions in time order. A plan compares the desired groups
//! with the existing ones, level by level, so that new, changed, reopened, forgotten
//! and rebuilt sessions all take the same path.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::grouping::{GroupReason, Member, all_due};
use treering_core::ports::{
    ConversationFilter, ConversationQuery, JobFilter, NodeFilter, Span, StoreResult,
};
use treering_core::{
    ContentHash, Conversation, ConversationId, ConversationKind, ConversationState,
    ConversationTotals, Coverage, CoveredSession, GroupPolicy, Job, JobKind, Labels, Level,
    Message, MessageIdx, Node, NodeId, NodeSpec, Reader, SealCause, Timestamp, TitleSource,
    TreeState, Write, slug_of, sort_roots,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::free_slug::free_slug;
use crate::top;
use crate::tree_planner::TreePlanner;
use crate::worker::JobOutcome;

/// The lowest level of a project tree. Its nodes cover sessions.
pub(crate) const SESSIONS_LEVEL: Level = Level::FIRST.above();
/// Maximum number of children of a group, however small they are. Ungrouped nodes
/// take more room in a context.
const MAX_CHILDREN: u32 = 10;
/// A group has two children at least, and the last session stays ungrouped.
const MIN_SESSIONS: usize = 3;
/// Maximum number of messages that a session without summaries contributes.
const MAX_MESSAGES: usize = 1000;

/// The contribution of a session to the tree of its project.
pub(crate) struct SessionContent {
    /// The summary of the whole session, or the roots of its tree.
    pub(crate) roots: Vec<Node>,
    /// The messages that no node covers, as they are returned.
    pub(crate) messages: Vec<Message>,
    /// Content hash.
    pub(crate) covered: CoveredSession,
}

impl SessionContent {
    pub(crate) fn read(reader: &dyn Reader, session: &Conversation) -> StoreResult<Self> {
        let (id, state) = (session.id, &session.tree_state);
        let mut roots = top::summary(reader, id)?;
        let first_open = state.first_open().map_or(session.totals.messages, |idx| idx.0);
        let mut first = first_open.min(state.through);
        let unwritten = JobFilter { summaries: true, ..JobFilter::of(id) };
        for job in reader.jobs(&unwritten)? {
            let JobKind::Summarize(task) = job.kind else { continue };
            match &task.covers {
                Coverage::Messages(window) => first = first.min(window.from.idx.0),
                // The children of a group represent it until its node is written.
                Coverage::Nodes(_) => {
                    let Some(below) = task.level.below() else { continue };
                    let parent = Some(Some(task.ordinal));
                    let filter = NodeFilter { parent, ..NodeFilter::at(below) };
                    roots.extend(reader.nodes(id, &filter)?);
                }
                Coverage::Whole(_) | Coverage::Sessions(_) => {}
            }
        }
        sort_roots(&mut roots);
        roots.dedup_by(|one, other| one.id == other.id);
        let messages = reader.messages(id, Span::starting(MessageIdx(first), MAX_MESSAGES))?;
        let messages = messages.into_iter().map(Message::recalled);
        let messages: Vec<Message> = messages.filter(|it| !it.body.forgotten).collect();
        let nodes = roots.iter().map(|node| node.id.as_str().as_bytes());
        let texts = messages.iter().map(|message| message.hash.as_bytes().as_slice());
        let content = ContentHash::of_fields(&nodes.chain(texts).collect::<Vec<_>>());
        let covered = CoveredSession { conversation: id, content };
        Ok(Self { roots, messages, covered })
    }

    /// The characters and tokens of the content.
    pub(crate) fn size(&self) -> (u32, u32) {
        let nodes = self.roots.iter().map(|node| (node.chars, node.tokens));
        let messages = self.messages.iter().map(|message| (message.chars, message.tokens));
        let add = |(chars, tokens): (u32, u32), (more_chars, more_tokens): (u32, u32)| {
            (chars.saturating_add(more_chars), tokens.saturating_add(more_tokens))
        };
        nodes.chain(messages).fold((0, 0), add)
    }

    fn member(&self, session: &Conversation) -> Member {
        let (chars, tokens) = self.size();
        let ConversationTotals { messages, chars: raw_chars, .. } = session.totals;
        Member { chars, tokens, messages, raw_chars }
    }
}

/// The sessions of exactly this project that its tree covers, in time order.
fn sessions_of(reader: &dyn Reader, folder: &str, limit: usize) -> StoreResult<Vec<Conversation>> {
    let filter = ConversationFilter {
        project: Some(folder.to_owned()),
        states: vec![ConversationState::Open, ConversationState::Closed],
        ..ConversationFilter::sessions(limit)
    };
    let mut sessions = reader.conversations(&ConversationQuery::List(&filter))?;
    sessions.retain(|it| it.folder() == Some(folder) && it.totals.messages > 0);
    sessions.sort_by_key(|session| (session.last_activity, session.id));
    Ok(sessions)
}

/// The job that brings the tree of a session's project up to date; `None` if the session has no
/// project, or its project too few sessions for a tree.
pub(crate) fn job_of(
    reader: &dyn Reader,
    session: &Conversation,
    now: Timestamp,
) -> StoreResult<Option<Write>> {
    let Some(folder) = session.folder() else { return Ok(None) };
    let is_due = match session.kind() {
        ConversationKind::Session => {
            let project = Some(folder.to_owned());
            let few = ConversationFilter { project, ..ConversationFilter::sessions(MIN_SESSIONS) };
            reader.conversations(&ConversationQuery::List(&few))?.len() >= MIN_SESSIONS
        }
        ConversationKind::Project => true,
        ConversationKind::Notes => false,
    };
    Ok(is_due.then(|| Write::AddJob(Job::plan(session.id, JobKind::PlanProject, now))))
}

/// Runs a job that brings the tree of a project up to date. Also completes the waiting
/// jobs of the project's other sessions.
pub(crate) fn run(engine: &Engine, job: &Job) -> Result<JobOutcome> {
    let (owner, job, now) = (engine.clone(), job.clone(), engine.clock().now());
    engine.commit_with(engine.tenant_scope(), move |reader| {
        if reader.job(&job)?.is_none() {
            return Ok((Vec::new(), JobOutcome::Stale));
        }
        let mut done = vec![job.clone()];
        let mut writes = Vec::new();
        let session = reader.conversation(job.conversation)?;
        if let Some(folder) = session.as_ref().and_then(Conversation::folder) {
            writes = ProjectPlan::new(&owner, reader, folder, now)?.writes;
            let heights = Some((u8::MAX, u8::MAX));
            let others = JobFilter { heights, due: Some(now), ..JobFilter::all(usize::MAX) };
            for other in reader.jobs(&others)? {
                let other_session = reader.conversation(other.conversation)?;
                if other_session.is_some_and(|it| it.folder() == Some(folder)) {
                    done.push(other);
                }
            }
        }
        writes.extend(done.into_iter().map(Write::RemoveJob));
        Ok((writes, JobOutcome::Done))
    })
}

/// A desired group.
struct DesiredGroup {
    covers: Coverage,
    reason: GroupReason,
    /// The ordinals of its children; empty for sessions.
    children: Vec<u32>,
}

/// Plans the changes to the tree of one project.
struct ProjectPlan<'a> {
    engine: &'a Engine,
    reader: &'a dyn Reader,
    id: ConversationId,
    now: Timestamp,
    nodes: Vec<Node>,
    jobs: Vec<(Job, NodeSpec)>,
    writes: Vec<Write>,
}

impl<'a> ProjectPlan<'a> {
    fn new(
        engine: &'a Engine,
        reader: &'a dyn Reader,
        folder: &str,
        now: Timestamp,
    ) -> StoreResult<Self> {
        let id = ConversationKind::Project.id(engine.tenant(), Some(folder))?;
        let stored = reader.conversation(id)?;
        let nodes = reader.nodes(id, &NodeFilter::default())?;
        let jobs = reader.jobs(&JobFilter { summaries: true, ..JobFilter::of(id) })?;
        let with_task = |job: Job| match job.kind.clone() {
            JobKind::Summarize(task) => Some((job, task)),
            _ => None,
        };
        let jobs = jobs.into_iter().filter_map(with_task).collect();
        let mut plan = Self { engine, reader, id, now, nodes, jobs, writes: Vec::new() };
        if !engine.policy().enabled {
            return Ok(plan);
        }
        let sessions = sessions_of(reader, folder, usize::MAX)?;
        let groups = plan.groups_of(&sessions)?;
        let covered: usize = groups.iter().map(|group| group.covers.sessions().len()).sum();
        plan.compare(groups);
        if let (Some(first), Some(last)) = (sessions.first(), sessions[..covered].last()) {
            let (from, until) = (first.started_at, last.last_activity);
            let owner = match stored.clone() {
                Some(owner) => owner,
                None => plan.new_owner(folder)?,
            };
            let owner = Conversation { started_at: from, last_activity: until, ..owner };
            if stored.as_ref() != Some(&owner) {
                plan.writes.insert(0, Write::PutConversation(owner));
            }
        }
        Ok(plan)
    }

    fn new_owner(&self, folder: &str) -> StoreResult<Conversation> {
        let name = folder.rsplit(['/', '\\']).find(|name| !name.is_empty());
        let slug = format!("project-{}", slug_of(name.unwrap_or("root")));
        Ok(Conversation {
            id: self.id,
            slug: free_slug(self.reader, &slug, &slug, self.id)?,
            title: Some(format!("Project {folder}")),
            title_source: TitleSource::Source,
            participants: Vec::new(),
            cwd: Some(folder.to_owned()),
            project_path: None,
            started_at: self.now,
            last_activity: self.now,
            state: ConversationState::Open,
            external_id: Some(ConversationKind::Project.key(Some(folder))?),
            labels: Labels::new(),
            totals: ConversationTotals::default(),
            threads: Vec::new(),
            policy: Vec::new(),
            tree_state: TreeState::default(),
        })
    }

    /// The groups that sessions form.
    fn groups_of(&self, sessions: &[Conversation]) -> StoreResult<Vec<DesiredGroup>> {
        let Some(rule) = self.rule(SESSIONS_LEVEL) else { return Ok(Vec::new()) };
        let (mut members, mut covered) = (Vec::new(), Vec::new());
        for session in sessions {
            let content = SessionContent::read(self.reader, session)?;
            members.push(content.member(session));
            covered.push(content.covered);
        }
        let group = |(first, number, reason): (usize, usize, GroupReason)| DesiredGroup {
            covers: Coverage::Sessions(covered[first..first + number].to_vec()),
            reason,
            children: Vec::new(),
        };
        Ok(all_due(&members, &rule).into_iter().map(group).collect())
    }

    /// The groups that nodes form.
    fn groups_of_nodes(&self, level: Level, children: &[Node]) -> Vec<DesiredGroup> {
        let Some(rule) = self.rule(level) else { return Vec::new() };
        let members: Vec<Member> = children.iter().map(Node::member).collect();
        let group = |(first, number, reason): (usize, usize, GroupReason)| {
            let children = &children[first..first + number];
            DesiredGroup {
                covers: Coverage::Nodes(children.iter().map(|child| child.id.clone()).collect()),
                reason,
                children: children.iter().map(Node::ordinal).collect(),
            }
        };
        all_due(&members, &rule).into_iter().map(group).collect()
    }

    /// The rule for the groups of a level: that of conversations, with a limit of children.
    fn rule(&self, level: Level) -> Option<GroupPolicy> {
        let rule = self.engine.policy().group(level)?;
        let children = rule.children.map_or(MAX_CHILDREN, |most| most.min(MAX_CHILDREN));
        Some(GroupPolicy { children: Some(children), ..rule.clone() })
    }

    /// Compares the groups of the lowest level with the tree, and then each level above with the
    /// one below. A level is planned once the one below is written; until then, only the nodes
    /// whose children are gone are removed.
    fn compare(&mut self, groups: Vec<DesiredGroup>) {
        let highest =
            self.nodes.iter().map(Node::level).chain(self.jobs.iter().map(|it| it.1.level));
        let highest = highest.max().unwrap_or(SESSIONS_LEVEL);
        let (mut level, mut wanted, mut below) = (SESSIONS_LEVEL, Some(groups), Vec::new());
        while level <= highest || wanted.as_ref().is_some_and(|groups| !groups.is_empty()) {
            let is_complete = self.compare_level(level, wanted.as_deref(), &below);
            let mut kept: Vec<Node> =
                self.nodes.iter().filter(|node| node.level() == level).cloned().collect();
            kept.sort_by_key(|node| (node.range_end, node.ordinal()));
            wanted = is_complete.then(|| self.groups_of_nodes(level.above(), &kept));
            below = kept.into_iter().map(|node| node.id).collect();
            level = level.above();
        }
    }

    /// Compares one level, and returns whether all its nodes are written.
    fn compare_level(
        &mut self,
        level: Level,
        wanted: Option<&[DesiredGroup]>,
        below: &[NodeId],
    ) -> bool {
        let is_wanted = |covers: &Coverage| match wanted {
            Some(groups) => groups.iter().any(|group| group.covers == *covers),
            None => covers.nodes().iter().all(|child| below.contains(child)),
        };
        let is_gone = |at: Level, covers: &Coverage| at == level && !is_wanted(covers);
        let (gone, kept): (Vec<Node>, Vec<Node>) = std::mem::take(&mut self.nodes)
            .into_iter()
            .partition(|node| is_gone(node.level(), &node.spec.covers));
        let is_written = |task: &NodeSpec| kept.iter().any(|node| node.spec.covers == task.covers);
        let (gone_jobs, jobs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.jobs)
            .into_iter()
            .partition(|(_, task)| is_gone(task.level, &task.covers) || is_written(task));
        (self.nodes, self.jobs) = (kept, jobs);
        let ordinals: Vec<u32> = gone.iter().map(Node::ordinal).collect();
        let parents = ordinals.iter().copied().chain(gone_jobs.iter().map(|(_, it)| it.ordinal));
        self.ungroup_children(level, &parents.collect());
        if !ordinals.is_empty() {
            self.writes.push(Write::RemoveNodes(self.id, level, ordinals));
        }
        self.writes.extend(gone_jobs.into_iter().map(|(job, _)| Write::RemoveJob(job)));
        let Some(groups) = wanted else { return false };
        let mut used: BTreeSet<u32> = BTreeSet::new();
        used.extend(self.nodes.iter().filter(|it| it.level() == level).map(Node::ordinal));
        used.extend(self.jobs.iter().filter(|(_, it)| it.level == level).map(|it| it.1.ordinal));
        let mut is_complete = self.jobs.iter().all(|(_, task)| task.level != level);
        for group in groups {
            let is_written = self.nodes.iter().any(|it| it.spec.covers == group.covers);
            if !is_written && !self.jobs.iter().any(|(_, task)| task.covers == group.covers) {
                is_complete = false;
                let free = (0..).find(|ordinal| !used.contains(ordinal)).unwrap_or(u32::MAX);
                used.insert(free);
                self.add_group(level, free, group);
            }
        }
        is_complete
    }

    /// Makes the children of removed groups ungrouped.
    fn ungroup_children(&mut self, level: Level, parents: &BTreeSet<u32>) {
        let Some(below) = level.below() else { return };
        let mut ungrouped = Vec::new();
        for node in self.nodes.iter_mut().filter(|node| node.level() == below) {
            if node.parent.is_some_and(|parent| parents.contains(&parent)) {
                node.parent = None;
                ungrouped.push(node.ordinal());
            }
        }
        if !ungrouped.is_empty() {
            self.writes.push(Write::SetParent(self.id, below, ungrouped, None));
        }
    }

    /// Plans the job that writes a group.
    fn add_group(&mut self, level: Level, ordinal: u32, group: &DesiredGroup) {
        let (key, policy) = (self.engine.key(self.id), self.engine.policy());
        let task = NodeSpec {
            level,
            ordinal,
            covers: group.covers.clone(),
            style: policy.style(level),
            cause: SealCause::Group(group.reason),
            sealed_by: None,
            turns: None,
            overrides: Vec::new(),
            replaces: None,
        };
        if let Some(below) = level.below().filter(|_| !group.children.is_empty()) {
            let children = group.children.clone();
            self.writes.push(Write::SetParent(self.id, below, children, Some(ordinal)));
        }
        let (reader, now) = (self.reader, self.now);
        let planner = TreePlanner { reader, key: &key, policy, overrides: &[], now };
        self.writes.extend(planner.jobs(vec![task]));
    }
}

/// The nodes of a project tree over some sessions, which may no longer be returned, and
/// the writes that remove them and plan the tree again.
pub(crate) struct RemovedNodes {
    /// The owner of the tree.
    pub(crate) id: ConversationId,
    /// From the bottom up.
    pub(crate) nodes: Vec<Node>,
    pub(crate) writes: Vec<Write>,
}

impl RemovedNodes {
    pub(crate) fn over(
        engine: &Engine,
        reader: &dyn Reader,
        folder: &str,
        sessions: &BTreeSet<ConversationId>,
        now: Timestamp,
    ) -> StoreResult<Self> {
        let id = ConversationKind::Project.id(engine.tenant(), Some(folder))?;
        let all = reader.nodes(id, &NodeFilter::default())?;
        let place = |node: &Node| (node.level(), node.ordinal());
        let by_place: BTreeMap<(Level, u32), &Node> =
            all.iter().map(|node| (place(node), node)).collect();
        let is_over = |node: &&Node| {
            node.spec.covers.sessions().iter().any(|it| sessions.contains(&it.conversation))
        };
        let mut removed: BTreeSet<(Level, u32)> = BTreeSet::new();
        for node in all.iter().filter(is_over) {
            let mut next = Some(place(node));
            while let Some(at) = next.filter(|at| by_place.contains_key(at)) {
                removed.insert(at);
                next = by_place[&at].parent.map(|parent| (at.0.above(), parent));
            }
        }
        let mut writes = Vec::new();
        if removed.is_empty() {
            return Ok(Self { id, nodes: Vec::new(), writes });
        }
        let is_removed = |node: &Node| removed.contains(&place(node));
        let mut ungrouped: BTreeMap<Level, Vec<u32>> = BTreeMap::new();
        for node in all.iter().filter(|node| !is_removed(node)) {
            let parent = node.parent.map(|parent| (node.level().above(), parent));
            if parent.is_some_and(|parent| removed.contains(&parent)) {
                ungrouped.entry(node.level()).or_default().push(node.ordinal());
            }
        }
        let ungroup = |(level, ordinals)| Write::SetParent(id, level, ordinals, None);
        writes.extend(ungrouped.into_iter().map(ungroup));
        for (level, ordinal) in &removed {
            writes.push(Write::RemoveNodes(id, *level, vec![*ordinal]));
        }
        writes.push(Write::AddJob(Job::plan(id, JobKind::PlanProject, now)));
        let nodes = all.into_iter().filter(is_removed).collect();
        Ok(Self { id, nodes, writes })
    }
}

impl Engine {
    /// The summaries of the sessions that a node of a project tree covers: the top of each, or the
    /// roots of its tree.
    pub fn session_summaries(&self, node: &Node) -> Result<Vec<Node>> {
        let reader = self.reader()?;
        let mut summaries = Vec::new();
        for session in node.spec.covers.sessions() {
            summaries.extend(top::summary(&*reader, session.conversation)?);
        }
        Ok(summaries)
    }
}

/// Descriptions of the problems of a project tree with its sessions.
pub(crate) fn problems(reader: &dyn Reader, nodes: &[Node]) -> StoreResult<Vec<String>> {
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    for node in nodes {
        for session in node.spec.covers.sessions() {
            let id = session.conversation;
            if !seen.insert(id) {
                problems.push(format!("{}: another node covers session {id} too", node.id));
            }
            if reader.conversation(id)?.is_none() {
                problems.push(format!("{} covers session {id}, which does not exist", node.id));
            }
        }
    }
    Ok(problems)
}
