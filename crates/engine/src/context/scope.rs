//! Contexts over several conversations, such as those of a project: one history in time order, in
//! which every conversation has a heading.

use std::collections::HashSet;

use treering_core::packing::{BlockStyle, BudgetSplit, Profile, SectionSource, pack};
use treering_core::ports::{ConversationFilter, ConversationQuery, JobFilter};
use treering_core::{
    Conversation, ConversationId, ConversationKey, ConversationKind, GateOutcome, GateStatus,
    Invalid, Job, Question, Reader, Receipt, ReusablePrefix, Timestamp,
};

use super::format::{self, Context};
use super::hits::QuestionHits;
use super::pinned::PinnedNotes;
use super::project_cover::{ProjectCover, ProjectTrees};
use super::scope_pieces::ScopePieces;
use super::{MESSAGE_OVERHEAD_TOKENS, check_budget, hits_wanted, render};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::search::{Exclusion, Query};

/// Headings take at most 1/N of the cut.
pub(super) const HEADINGS: u32 = 4;
/// Tokens per session shown individually; project trees represent the others.
const SESSION_TOKENS: u32 = 100;
/// The minimum cost of a heading, which bounds the number of conversations that are read.
const MIN_HEADING_TOKENS: u32 = 8;

/// The conversations that a context may draw on.
#[derive(Debug, Clone)]
pub struct ContextScope {
    /// These conversations; empty for all that pass the filter.
    pub conversations: Vec<ConversationId>,
    /// The conversations to choose from. Its limit and its position in the listing are ignored.
    pub filter: ConversationFilter,
    /// Conversations to leave out, such as the calling session.
    pub exclude: Vec<ConversationId>,
    /// The name of the scope in the first line of the context, such as "the project /srv/shop".
    pub name: String,
}

/// A request for a context over several conversations.
#[derive(Debug, Clone)]
pub struct ScopeContextRequest {
    /// The conversations.
    pub scope: ContextScope,
    /// The question to answer, if any.
    pub query: Option<String>,
    /// The minimum score of recalled messages; that of a search if absent.
    pub min_score: Option<f32>,
    /// Maximum number of tokens.
    pub budget: u32,
    /// The profile. It may have a cut and a recall section.
    pub profile: Profile,
}

impl Engine {
    /// The best context over several conversations that fits the budget. It does not wait for
    /// unfinished jobs; the receipt lists them.
    pub fn scope_context(&self, request: &ScopeContextRequest) -> Result<Context> {
        check_budget(&request.profile, request.budget)?;
        check_sections(&request.profile)?;
        let reader = self.reader()?;
        let now = self.clock().now();
        let hits = self.hits_in_scope(request, now)?;
        let (sessions, is_all) = self.sessions(&*reader, request, hits.as_ref())?;
        let request = &ScopeContextRequest { profile: titled(&request.profile), ..request.clone() };
        let scope = ScopeAssembly { engine: self, request, sessions: &sessions, is_all, now };
        super::within_budget(request.budget, |budget| {
            scope.assemble(&*reader, hits.as_ref(), budget)
        })
    }

    fn hits_in_scope(
        &self,
        request: &ScopeContextRequest,
        now: Timestamp,
    ) -> Result<Option<QuestionHits>> {
        let Some(text) = request.query.as_ref().filter(|_| request.profile.is_volatile()) else {
            return Ok(None);
        };
        let ContextScope { conversations, filter, exclude, .. } = &request.scope;
        let query = Query {
            text: text.clone(),
            conversations: conversations.clone(),
            cwd: filter.cwd.clone(),
            project: filter.project.clone(),
            labels: filter.labels.clone(),
            states: filter.states.clone(),
            exclude: exclude.iter().copied().map(Exclusion::Conversation).collect(),
            levels: vec![0],
            limit: hits_wanted(request.budget, 0),
            min_score: request.min_score,
            ..Query::default()
        };
        let answer = self.search_whole(&query)?;
        let question = Question::new(text, now);
        let words_only = answer.lexical_only_reason;
        Ok(Some(QuestionHits { question, hits: answer.hits, words_only }))
    }

    /// The latest conversations of the scope that could have room for their heading, and those of
    /// the hits, oldest first, with the trees of projects that stand for the others; and whether
    /// the scope has no others.
    fn sessions(
        &self,
        reader: &dyn Reader,
        request: &ScopeContextRequest,
        hits: Option<&QuestionHits>,
    ) -> Result<(Vec<Session>, bool)> {
        let scope = &request.scope;
        let most = (request.budget / HEADINGS / MIN_HEADING_TOKENS).max(1) as usize;
        let mut trees = match has_whole_projects(scope) {
            true => Some(ProjectTrees::read(self, reader, &scope.filter)?),
            false => None,
        };
        trees = trees.filter(|trees| !trees.is_empty());
        let (mut listed, mut is_all) = match &mut trees {
            None => self.listed(reader, scope, most)?,
            Some(trees) => self.beside_trees(reader, request, trees, most)?,
        };
        listed.retain(|it| !scope.exclude.contains(&it.id) && it.totals.messages > 0);
        listed.sort_by_key(|it| std::cmp::Reverse((it.last_activity, it.id)));
        is_all &= listed.len() <= most;
        listed.truncate(most);
        let mut sessions: Vec<Session> = Vec::with_capacity(listed.len());
        for conversation in listed {
            sessions.push(self.session(reader, conversation, true)?);
        }
        for hit in hits.iter().flat_map(|asked| &asked.hits) {
            if sessions.iter().all(|session| session.conversation.id != hit.conversation)
                && let Some(conversation) = reader.conversation(hit.conversation)?
            {
                sessions.push(self.session(reader, conversation, false)?);
            }
        }
        for (owner, cover) in trees.into_iter().flat_map(ProjectTrees::into_covers) {
            let heading = render::project_heading(&owner, cover.sessions);
            let heading = (self.context_cache().count(&heading), heading);
            sessions.push(Session {
                key: self.key(owner.id),
                jobs: Vec::new(),
                heading: (heading.1, heading.0),
                is_listed: true,
                conversation: owner,
                project: Some(cover),
            });
        }
        sessions.sort_by_key(Session::position);
        Ok((sessions, is_all))
    }

    /// The latest conversations of a scope, and whether there are no others.
    fn listed(
        &self,
        reader: &dyn Reader,
        scope: &ContextScope,
        most: usize,
    ) -> Result<(Vec<Conversation>, bool)> {
        let ContextScope { conversations, filter, exclude, .. } = scope;
        if !conversations.is_empty() {
            return Ok((read_all(reader, conversations)?, true));
        }
        // One more shows that there are others.
        let limit = most + 1 + exclude.len();
        let kind = Some(ConversationKind::Session);
        let filter = ConversationFilter { kind, after: None, limit, ..filter.clone() };
        let listed = reader.conversations(&ConversationQuery::List(&filter))?;
        let is_all = listed.len() < limit;
        Ok((listed, is_all))
    }

    /// The conversations of a scope that are shown individually, because they are the latest or
    /// because no project tree covers them as they are, and whether there are no others.
    fn beside_trees(
        &self,
        reader: &dyn Reader,
        request: &ScopeContextRequest,
        trees: &mut ProjectTrees,
        most: usize,
    ) -> Result<(Vec<Conversation>, bool)> {
        let scope = &request.scope;
        let shown = (request.budget / SESSION_TOKENS).max(1) as usize;
        let (mut listed, _) = self.listed(reader, scope, shown)?;
        // A question leaves a quarter to the cut. Some room is for the headings of projects, and
        // for sessions that no tree covers.
        let is_asked = request.query.is_some() && request.profile.is_volatile();
        let cut = if is_asked { request.budget / 4 } else { request.budget };
        let mut left = cut / HEADINGS * 3 / 4;
        let mut fitting = 0;
        for session in listed.iter().take(shown) {
            let cost = self.context_cache().count(&render::session_heading(session));
            let Some(less) = left.checked_sub(cost) else { break };
            (left, fitting) = (less, fitting + 1);
        }
        listed.truncate(fitting);
        let sessions =
            ConversationFilter { kind: Some(ConversationKind::Session), ..scope.filter.clone() };
        let ids: HashSet<ConversationId> =
            reader.conversation_ids(&sessions)?.into_iter().collect();
        let is_listed = |listed: &[Conversation], id| listed.iter().any(|it| it.id == id);
        let mut others: Vec<ConversationId> = ids
            .iter()
            .copied()
            .filter(|id| !trees.covers(*id) && !is_listed(&listed, *id))
            .collect();
        others.sort_unstable();
        let is_all = others.len() <= most;
        others.truncate(most);
        listed.extend(read_all(reader, &others)?);
        // Archived sessions stay in the tree until it is planned again.
        let hidden = |id: &ConversationId| scope.exclude.contains(id) || !ids.contains(id);
        let left_out: Vec<ConversationId> = trees.sessions().filter(|id| hidden(id)).collect();
        let mut added = trees.resolve(&mut listed, &left_out);
        added.retain(|id| ids.contains(id));
        listed.extend(read_all(reader, &added)?);
        Ok((listed, is_all))
    }

    fn session(
        &self,
        reader: &dyn Reader,
        conversation: Conversation,
        is_listed: bool,
    ) -> Result<Session> {
        let key = self.key(conversation.id);
        let jobs = reader.jobs(&JobFilter::of(conversation.id))?;
        let heading = render::session_heading(&conversation);
        let cost = self.context_cache().count(&heading);
        let heading = (heading, cost);
        Ok(Session { key, jobs, heading, is_listed, conversation, project: None })
    }
}

/// Whether a scope has either all or none of the sessions of a project, except for the excluded ones.
fn has_whole_projects(scope: &ContextScope) -> bool {
    scope.conversations.is_empty() && scope.filter.labels.is_empty() && scope.filter.cwd.is_none()
}

fn read_all(reader: &dyn Reader, ids: &[ConversationId]) -> Result<Vec<Conversation>> {
    let of = |id: &ConversationId| match reader.conversation(*id) {
        Ok(found) => found.ok_or_else(|| Error::no_conversation(*id)),
        Err(error) => Err(error.into()),
    };
    ids.iter().map(of).collect()
}

/// Refuses profiles with sections that make sense in one conversation only.
fn check_sections(profile: &Profile) -> Result<()> {
    let is_possible = |take: SectionSource, style: BlockStyle| match take {
        SectionSource::Cut => true,
        SectionSource::Recall => style == BlockStyle::Plain,
        _ => false,
    };
    if profile.sections.iter().all(|section| is_possible(section.take, section.style)) {
        return Ok(());
    }
    let why = "it is for one conversation; over several, use `cut` or a profile with `cut` and `recall` sections";
    Err(Invalid::new(format!("profile {}", profile.name), why).into())
}

/// The profile with a heading that fits several conversations.
fn titled(profile: &Profile) -> Profile {
    let mut profile = profile.clone();
    for section in profile.sections.iter_mut().filter(|it| it.take == SectionSource::Cut) {
        section.heading = Some("Earlier conversations".into());
    }
    profile
}

/// A conversation of a scope, as it was read.
pub(super) struct Session {
    pub(super) conversation: Conversation,
    pub(super) key: ConversationKey,
    /// The unfinished jobs.
    pub(super) jobs: Vec<Job>,
    /// The rendered heading, and its cost.
    pub(super) heading: (String, u32),
    /// Whether it is part of the cut; otherwise only its hits are shown.
    pub(super) is_listed: bool,
    /// The nodes to show, if the conversation is the owner of a project tree.
    pub(super) project: Option<ProjectCover>,
}

impl Session {
    /// The position in time order.
    fn position(&self) -> (Timestamp, ConversationId) {
        let roots = self.project.as_ref().and_then(|project| project.roots.last());
        let end = roots.map_or(self.conversation.last_activity, |root| root.range_end);
        (end, self.conversation.id)
    }
}

/// Assembles a context over several conversations.
pub(super) struct ScopeAssembly<'a> {
    pub(super) engine: &'a Engine,
    request: &'a ScopeContextRequest,
    /// Oldest first.
    pub(super) sessions: &'a [Session],
    /// Whether the scope has no other conversations.
    is_all: bool,
    now: Timestamp,
}

impl ScopeAssembly<'_> {
    fn assemble(
        &self,
        reader: &dyn Reader,
        hits: Option<&QuestionHits>,
        budget: u32,
    ) -> Result<Context> {
        let cache = self.engine.context_cache();
        let profile = &self.request.profile;
        let preamble = |has_all: bool| render::scope_preamble(&self.request.scope.name, has_all);
        let opening = cache.count(&preamble(false)).max(cache.count(&preamble(true)));
        let budget = budget.saturating_sub(opening);
        // A profile without a history answers one prompt of a session, which began with the notes.
        let pinned = match profile.cut() {
            Some(_) => PinnedNotes::read(self.engine, reader, &self.request.scope, budget)?,
            None => None,
        };
        let budget = budget.saturating_sub(pinned.as_ref().map_or(0, |it| it.cost));
        let heading = |title: &String| cache.count(&render::heading(title));
        let headings: Vec<u32> =
            profile.sections.iter().map(|it| it.heading.as_ref().map_or(0, heading)).collect();
        let allotment = self.allot(budget.saturating_sub(headings.iter().sum()));
        let mut pieces = ScopePieces::new(self, reader, hits, &allotment);
        for session in &mut pieces.sessions {
            session.pieces.room = budget.saturating_sub(allotment.target);
        }
        self.engine.check_canceled()?;
        let plan = pack(&mut pieces, profile, &headings, budget, &allotment)?;
        self.engine.check_canceled()?;
        pieces.load_planned_messages(profile, &plan)?;
        let sections = format::sections(&pieces, profile, &plan);
        let has_all = self.is_all && pieces.has_all(&plan);
        let mut context =
            Context { preamble: preamble(has_all), sections, receipt: Receipt::default() };
        let mut items = pieces.receipt_items(&context, &plan);
        if let Some(pinned) = pinned {
            context.sections.insert(0, pinned.section);
            items.splice(0..0, pinned.receipt);
        }
        let tokens = context.tokens(cache);
        context.receipt = Receipt {
            conversation: String::new(),
            scope: Some(self.request.scope.name.clone()),
            sessions: pieces.receipt_sessions(&plan),
            thread: super::WHOLE.to_owned(),
            profile: profile.name.clone(),
            query: self.request.query.clone(),
            as_of: None,
            asked_at: self.now.to_string(),
            budget: self.request.budget,
            tokens,
            tokenizer: self.engine.tokenizer().name().to_owned(),
            items,
            left_out: Vec::new(),
            hits_left_out: plan.hits_left_out,
            forgotten: 0,
            gate: self.gate(hits),
            reusable: ReusablePrefix::default(),
        };
        Ok(context)
    }

    fn allot(&self, room: u32) -> BudgetSplit {
        let profile = &self.request.profile;
        let cost = |it: &Session| {
            let totals = &it.conversation.totals;
            let overhead = u64::from(MESSAGE_OVERHEAD_TOKENS) * u64::from(totals.messages);
            let project = it.project.as_ref().map_or(0, ProjectCover::tokens);
            totals.tokens + project + overhead + u64::from(it.heading.1)
        };
        let whole = self.sessions.iter().map(cost).sum();
        let recent = profile.cut().and_then(|section| section.tokens).unwrap_or(0);
        let asked = self.request.query.is_some() && profile.is_volatile();
        // The context is built once for a session, so no room is kept for later messages.
        BudgetSplit { slack: 0, ..BudgetSplit::new(room, recent, asked, whole) }
    }

    /// The unfinished jobs of all conversations.
    fn gate(&self, hits: Option<&QuestionHits>) -> GateOutcome {
        let jobs: Vec<Job> = self.sessions.iter().flat_map(|it| it.jobs.clone()).collect();
        let mut outcome = GateOutcome::of(&GateStatus::of(&jobs, |_| false), 0);
        if let Some(why) = hits.and_then(|asked| asked.words_only.as_ref()) {
            outcome.degraded = true;
            outcome.failed.push(format!("search used only the words of the question: {why}"));
        }
        outcome
    }
}
