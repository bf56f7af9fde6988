//! Ingest: finds or creates the conversation that entries belong to, and commits the new ones. It
//! never stores an entry twice.

mod forgotten;
mod matching;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Instant;

use treering_core::capture::{CapturePlan, CountedEntry, TurnEnd, capture, ids_of};
use treering_core::ports::{ExistingItem, StoreResult};
use treering_core::{
    CommitScope, Conversation, ConversationId, ConversationKey, ConversationKind,
    ConversationState, ConversationTotals, Entry, EntryOutcome, ExternalId, Invalid,
    NewConversation, Reader, Timestamp, TitleSource, TreeState, Write, as_slug, slug_of,
};

use crate::cwd::normalize_cwd;
use crate::embed;
use crate::engine::Engine;
use crate::error::Result;
use crate::free_slug::{free_slug, is_numbered};
use crate::project;
use crate::tree_planner::{TreePlanner, policy_of};

/// The conversation that entries belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppendTarget {
    /// An existing conversation.
    Existing(ConversationId),
    /// The conversation with this id or external id. It is created if it does not exist.
    FindOrCreate(NewConversation),
    /// The conversation with this external id, or a numbered variant of it, whose messages agree
    /// with the entries over their common length. For sources without a stable id.
    MatchContent(NewConversation),
}

/// How an append recognizes entries that are already stored, in addition to their external ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayDetection {
    /// Not at all: every entry is new.
    #[default]
    None,
    /// By position: the first entry is the first message of the conversation.
    ByPosition,
    /// By position, for a source whose entries have no ids although hooks capture them with ids. In a
    /// conversation with ids, a turn is known if its prompt is, because the hooks may have missed the
    /// first turns.
    ByPrompt,
    /// By external ids that are unique across conversations. An entry of another conversation
    /// is not stored again, for example if a session continues in a new file that repeats the old
    /// one.
    AcrossConversations,
}

/// Entries for one conversation.
#[derive(Debug, Clone)]
pub struct EntryBatch {
    /// The conversation they belong to.
    pub target: AppendTarget,
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// How replayed entries are recognized.
    pub replay_detection: ReplayDetection,
}

/// The result of an append.
#[derive(Debug, Clone)]
pub struct AppendReport {
    /// The conversation after the append.
    pub conversation: Conversation,
    /// Whether the append created the conversation.
    pub created: bool,
    /// The outcome of each entry, in order.
    pub outcomes: Vec<EntryOutcome>,
    /// The number of passages between `<private>` tags, which were left out.
    pub private_passages: u32,
    /// The number of words that match an excluded pattern, which were left out.
    pub excluded_words: u32,
}

impl Engine {
    /// Stores all entries or, on an error, none. They are durable when it returns.
    pub fn append(&self, incoming: EntryBatch) -> Result<AppendReport> {
        let started = Instant::now();
        let planner = self.planner(incoming)?;
        let report = self.commit_with(planner.scope()?, move |reader| planner.plan(reader))?;
        self.measure(|measures| measures.store_turn.add(started.elapsed()));
        Ok(report)
    }

    /// The report that [`Engine::append`] would return, without writing anything.
    pub fn preview(&self, incoming: EntryBatch) -> Result<AppendReport> {
        let planner = self.planner(incoming)?;
        Ok(planner.plan(&*self.reader()?)?.1)
    }

    /// Whether a conversation has a message or tool call with this external id.
    pub fn has_entry(&self, conversation: ConversationId, id: &ExternalId) -> Result<bool> {
        let found = self.reader()?.existing(conversation, &[id])?;
        Ok(found.iter().any(Option::is_some))
    }

    fn planner(&self, incoming: EntryBatch) -> Result<AppendPlanner> {
        let EntryBatch { mut target, mut entries, replay_detection: matching } = incoming;
        let now = self.clock().now();
        let mut private_passages = entries.iter_mut().map(Entry::leave_out_private).sum();
        let exclusions = self.exclusions();
        let mut excluded_words = entries.iter_mut().map(|entry| exclusions.apply(entry)).sum();
        if let AppendTarget::FindOrCreate(new) | AppendTarget::MatchContent(new) = &mut target {
            check_key(new)?;
            normalize(new);
            private_passages += new.leave_out_private();
            excluded_words += new.title.as_mut().map_or(0, |title| exclusions.clean(title));
            new.started_at = new.started_at.map(|at| at.plausible(now));
        }
        let entries: Vec<Entry> =
            entries.into_iter().map(|entry| entry.with_plausible_time(now)).collect();
        let drawn = match &target {
            AppendTarget::FindOrCreate(NewConversation { id: None, external_id: None, .. }) => {
                Some(random_conversation_id()?)
            }
            _ => None,
        };
        let first = entries.iter().find_map(Entry::at);
        let latest = entries.iter().filter_map(Entry::at).max();
        let tokens = |text: &str| self.count_tokens(text);
        let entries =
            entries.into_iter().map(|entry| Ok(entry.counted(&tokens)?)).collect::<Result<_>>()?;
        Ok(AppendPlanner {
            engine: self.clone(),
            now,
            random_id: drawn,
            target,
            matching,
            entries,
            first,
            latest,
            private_passages,
            excluded_words,
        })
    }
}

/// Normalizes the working directory. A conversation with an id comes from an export; its
/// directory may belong to another machine and stays unchanged.
fn normalize(new: &mut NewConversation) {
    if new.id.is_none() {
        for folder in [&mut new.cwd, &mut new.project_path].into_iter().flatten() {
            *folder = normalize_cwd(folder);
        }
    }
}

/// Refuses a reserved key. Notes and exports have an id as well.
fn check_key(new: &NewConversation) -> Result<()> {
    let key = new.external_id.as_ref().filter(|_| new.id.is_none());
    let Some(key) = key.map(ExternalId::as_str) else { return Ok(()) };
    match ConversationKind::of_key(key) {
        ConversationKind::Session => Ok(()),
        kind => {
            let prefix = kind.key_prefix();
            let reason = format!("keys that begin with {prefix:?} are reserved; choose another");
            Err(Invalid::new(format!("key {key:?}"), reason).into())
        }
    }
}

fn random_conversation_id() -> Result<ConversationId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Invalid::new(
            "conversation id",
            format!("the random number generator of the system failed: {error}"),
        )
    })?;
    Ok(ConversationId::from_bytes(bytes))
}

struct AppendPlanner {
    engine: Engine,
    now: Timestamp,
    random_id: Option<ConversationId>,
    target: AppendTarget,
    matching: ReplayDetection,
    /// The entries, with tokens counted before the store is locked.
    entries: Vec<CountedEntry>,
    /// The time of the first entry that has one.
    first: Option<Timestamp>,
    /// The latest time of all entries.
    latest: Option<Timestamp>,
    /// The number of private passages that were left out.
    private_passages: u32,
    /// The number of excluded words that were left out.
    excluded_words: u32,
}

impl AppendPlanner {
    /// The scope is one conversation if its id is known before the commit, so that writers to the
    /// tenant's other conversations need not wait.
    fn scope(&self) -> Result<CommitScope> {
        let id = match (&self.target, self.matching) {
            (_, ReplayDetection::AcrossConversations) | (AppendTarget::MatchContent(_), _) => None,
            (AppendTarget::Existing(id), _) => Some(*id),
            (AppendTarget::FindOrCreate(new), _) => match &new.external_id {
                Some(external) => {
                    let found = self.engine.reader()?.conversation_by_external_id(external)?;
                    found.map(|found| found.id).or_else(|| self.id_of(new))
                }
                None => self.id_of(new),
            },
        };
        Ok(id.map_or_else(|| self.engine.tenant_scope(), |id| self.engine.scope_of(id)))
    }

    /// The id that a new conversation would get.
    fn id_of(&self, new: &NewConversation) -> Option<ConversationId> {
        let external = new.external_id.as_ref();
        let derived = external.map(|id| ConversationId::of_external(self.engine.tenant(), id));
        new.id.or(derived).or(self.random_id)
    }

    fn plan(&self, reader: &dyn Reader) -> StoreResult<(Vec<Write>, AppendReport)> {
        let entries = &self.entries;
        let (conversation, created) = self.conversation(reader)?;
        if self.is_excluded(&conversation) {
            return self.refuse(conversation, EntryOutcome::Excluded);
        }
        if created && self.is_forgotten(reader, &conversation)? {
            return self.refuse(conversation, EntryOutcome::Forgotten);
        }
        let key = self.key(conversation.id);
        let mut matched = match self.matching {
            ReplayDetection::ByPosition if !created => {
                self.match_by_position(reader, &key, conversation.totals)?
            }
            ReplayDetection::ByPrompt if !created => {
                self.match_by_prompt(reader, &key, conversation.totals)?
            }
            ReplayDetection::AcrossConversations => {
                self.match_elsewhere(reader, conversation.id)?
            }
            ReplayDetection::ByPosition | ReplayDetection::ByPrompt | ReplayDetection::None => {
                vec![None; entries.len()]
            }
        };
        self.match_forgotten(reader, conversation.id, &mut matched)?;
        let new_entries = unmatched(entries, &matched);
        let known = if created { HashMap::new() } else { known(reader, &key, &new_entries)? };
        let before = PreviousState {
            created,
            title: conversation.title.clone(),
            state: conversation.state,
            folder: conversation.folder().map(str::to_owned),
            last_activity: conversation.last_activity,
        };
        let tokens = |text: &str| self.engine.count_tokens(text);
        let CapturePlan { mut conversation, writes, turn_ends, outcomes } =
            capture(conversation, known, &new_entries, &tokens)?;
        // Only an append without writes can leave the stored row unchanged.
        let stored = if writes.is_empty() { reader.conversation(key.id)? } else { None };
        let threads = stored.as_ref().map_or(&[][..], |stored| &stored.threads);
        let grew = !writes.is_empty() || conversation.threads != threads;
        self.update_metadata(reader, &before, &mut conversation, grew)?;

        let tree_writes = self.plan_tree(reader, &key, &mut conversation, &writes, &turn_ends)?;
        let embedded =
            embed::plan_turn_jobs(&self.engine, reader, conversation.id, &writes, self.now)?;

        // An append that adds nothing does not create a conversation.
        let missing = created && !grew && !entries.is_empty();
        let mut all = Vec::with_capacity(writes.len() + 1);
        if !missing && stored.as_ref() != Some(&conversation) {
            all.push(Write::PutConversation(conversation.clone()));
        }
        all.extend(writes);
        all.extend(tree_writes);
        all.extend(embedded);
        let is_moved = conversation.folder() != before.folder.as_deref();
        if !missing && (created || is_moved || conversation.state != before.state) {
            all.extend(project::job_of(reader, &conversation, self.now)?);
        }
        let mut new_entries = outcomes.into_iter();
        let outcomes =
            matched.into_iter().filter_map(|m| m.or_else(|| new_entries.next())).collect();
        Ok((all, self.report(conversation, created && !missing, outcomes)))
    }

    fn report(
        &self,
        conversation: Conversation,
        created: bool,
        outcomes: Vec<EntryOutcome>,
    ) -> AppendReport {
        let (private_passages, excluded_words) = (self.private_passages, self.excluded_words);
        AppendReport { conversation, created, outcomes, private_passages, excluded_words }
    }

    /// Whether the folder of the conversation is excluded from capture.
    fn is_excluded(&self, conversation: &Conversation) -> bool {
        let new = match &self.target {
            AppendTarget::FindOrCreate(new) | AppendTarget::MatchContent(new) => Some(new),
            AppendTarget::Existing(_) => None,
        };
        let cwd = conversation.cwd.as_deref().or_else(|| new?.cwd.as_deref());
        let project = conversation.project_path.as_deref();
        self.engine
            .exclusions()
            .exclude_folder(cwd, project.or_else(|| new?.project_path.as_deref()))
    }

    /// Plans the windows that the new messages seal, and replans those that a late tool result
    /// belongs to.
    fn plan_tree(
        &self,
        reader: &dyn Reader,
        key: &ConversationKey,
        conversation: &mut Conversation,
        writes: &[Write],
        turn_ends: &[TurnEnd],
    ) -> StoreResult<Vec<Write>> {
        let messages = writes.iter().filter_map(|write| match write {
            Write::AddMessage(_, message) => Some(message),
            _ => None,
        });
        let policy = policy_of(self.engine.policy(), conversation)?;
        let planner = TreePlanner { reader, key, policy: &policy, overrides: &[], now: self.now };
        let mut tree_writes = planner.plan_messages(conversation, messages, turn_ends)?;
        for write in writes {
            if let Write::FinishToolCall(_, turn, order, _) = write {
                tree_writes.extend(planner.plan_late_result(*turn, *order)?);
            }
        }
        planner.plan_top(conversation, None, &[], &mut tree_writes)?;
        Ok(tree_writes)
    }

    fn key(&self, id: ConversationId) -> ConversationKey {
        ConversationKey { tenant: self.engine.tenant().clone(), id }
    }

    /// The conversation of the entries, and whether it has to be created.
    fn conversation(&self, reader: &dyn Reader) -> StoreResult<(Conversation, bool)> {
        match &self.target {
            AppendTarget::Existing(id) => match reader.conversation(*id)? {
                Some(conversation) => Ok((conversation, false)),
                None => Err(Invalid::new(format!("conversation {id}"), "it does not exist").into()),
            },
            AppendTarget::FindOrCreate(new) => self.find_or_create(reader, new),
            AppendTarget::MatchContent(new) => {
                let Some(base) = &new.external_id else {
                    return self.find_or_create(reader, new);
                };
                for number in 1.. {
                    let mut new = new.clone();
                    if number > 1 {
                        new.external_id = Some(ExternalId::new(format!("{base}~{number}"))?);
                    }
                    let (conversation, created) = self.find_or_create(reader, &new)?;
                    // A forgotten conversation keeps its number.
                    let is_free = created && !self.is_of_other(reader, &conversation)?;
                    if is_free || (!created && self.has_same_prefix(reader, &conversation)?) {
                        return Ok((conversation, created));
                    }
                }
                Err(Invalid::new("conversation", "it cannot be distinguished from others").into())
            }
        }
    }

    fn find_or_create(
        &self,
        reader: &dyn Reader,
        new: &NewConversation,
    ) -> StoreResult<(Conversation, bool)> {
        if let Some(external) = &new.external_id
            && let Some(conversation) = reader.conversation_by_external_id(external)?
        {
            return Ok((conversation, false));
        }
        let Some(id) = self.id_of(new) else {
            return Err(Invalid::new("conversation", "it has neither id nor external id").into());
        };
        if let Some(conversation) = reader.conversation(id)? {
            return Ok((conversation, false));
        }
        let first = new.started_at.or(self.first).unwrap_or(self.now);
        let conversation = Conversation {
            id,
            slug: Conversation::untitled_slug(id),
            title: None,
            title_source: TitleSource::Untitled,
            participants: new.participants.clone(),
            cwd: new.cwd.clone(),
            project_path: new.project_path.clone(),
            started_at: first,
            last_activity: first,
            state: new.state,
            external_id: new.external_id.clone(),
            labels: new.labels.clone(),
            totals: ConversationTotals::default(),
            threads: Vec::new(),
            policy: new.policy.clone(),
            tree_state: TreeState::default(),
        };
        Ok((conversation, true))
    }

    /// Applies the source's metadata to the conversation and chooses its slug.
    fn update_metadata(
        &self,
        reader: &dyn Reader,
        before: &PreviousState,
        conversation: &mut Conversation,
        grew: bool,
    ) -> StoreResult<()> {
        let mut requested_slug = None;
        if let AppendTarget::FindOrCreate(new) | AppendTarget::MatchContent(new) = &self.target {
            // An import does not close a conversation that is open here.
            if before.created || (grew && before.state != ConversationState::Open) {
                conversation.state = new.state;
            }
            conversation.cwd = conversation.cwd.take().or_else(|| new.cwd.clone());
            conversation.project_path =
                conversation.project_path.take().or_else(|| new.project_path.clone());
            conversation.labels.set_missing(&new.labels);
            if new.title.is_some() && self.retitles(new, before, conversation.title_source, grew) {
                conversation.title.clone_from(&new.title);
                conversation.title_source = new.title_source;
            }
            requested_slug = new.slug.as_deref().map(as_slug).filter(|slug| !slug.is_empty());
        }
        let untitled = || conversation.slug == Conversation::untitled_slug(conversation.id);
        if conversation.title == before.title && !(requested_slug.is_some() && untitled()) {
            return Ok(());
        }
        let titled = conversation.title.as_deref().map(slug_of).filter(|slug| !slug.is_empty());
        if let Some(requested_slug) = requested_slug.or_else(|| titled.clone()) {
            let base = titled
                .as_deref()
                .filter(|titled| is_numbered(&requested_slug, titled))
                .unwrap_or(&requested_slug);
            conversation.slug = free_slug(reader, &requested_slug, base, conversation.id)?;
        }
        Ok(())
    }

    /// Whether the source's title replaces the current one.
    fn retitles(
        &self,
        new: &NewConversation,
        before: &PreviousState,
        title_source: TitleSource,
        grew: bool,
    ) -> bool {
        // Of two titles from the source, the one with the later activity wins. An export, which
        // carries the id, is newer only if it adds entries.
        let has_changes = grew || new.id.is_none();
        let latest = self.latest.is_none_or(|latest| latest >= before.last_activity);
        let current = before.created || (has_changes && latest);
        title_source < new.title_source
            || (title_source == new.title_source && title_source != TitleSource::Person && current)
    }
}

/// A conversation before the entries were applied.
struct PreviousState {
    created: bool,
    title: Option<String>,
    state: ConversationState,
    folder: Option<String>,
    last_activity: Timestamp,
}

/// The entries without an outcome so far, usually all of them.
fn unmatched<'a>(
    entries: &'a [CountedEntry],
    matched: &[Option<EntryOutcome>],
) -> Cow<'a, [CountedEntry]> {
    if matched.iter().all(Option::is_none) {
        return Cow::Borrowed(entries);
    }
    let new_entries = entries.iter().zip(matched).filter(|(_, matched)| matched.is_none());
    new_entries.map(|(entry, _)| entry.clone()).collect()
}

/// The stored items that have the external ids of the entries.
fn known(
    reader: &dyn Reader,
    key: &ConversationKey,
    entries: &[CountedEntry],
) -> StoreResult<HashMap<ExternalId, ExistingItem>> {
    let ids = ids_of(entries);
    let known = reader.existing(key.id, &ids)?;
    Ok(ids.into_iter().zip(known).filter_map(|(id, known)| Some((id.clone(), known?))).collect())
}
