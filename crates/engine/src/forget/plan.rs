//! Plans the commit that forgets: the rows to erase, the summaries to regenerate, the tombstones
//! and the audit record. Runs inside the plan of a commit.

use std::collections::{BTreeMap, BTreeSet};

use treering_core::ports::{
    ConversationFilter, ConversationQuery, JobEventFilter, JobFilter, NodeFilter, Span, StoreResult,
};
use treering_core::{
    AuditRecord, AuditedConversation, AuditedNode, Conversation, ConversationId, ConversationKind,
    ErasedCounts, ForgetTarget, Invalid, ItemSelection, Message, MessageIdx, Node, Reader,
    RetentionRule, Role, Timestamp, TitleSource, Tombstone, TurnNo, Write, nodes_to_regenerate,
    redact, slug_of, title_of,
};

use super::selection::{
    SelectedItems, check_exists, first_remaining, select, select_messages, versions_of,
};
use crate::embed;
use crate::engine::Engine;
use crate::free_slug::free_slug;
use crate::project::{self, RemovedNodes};
use crate::regenerate::regenerate_nodes;

/// Plans one forget.
pub(super) struct ForgetPlanner {
    pub(super) engine: Engine,
    pub(super) target: ForgetTarget,
    pub(super) leaves_tombstones: bool,
    /// The id of the audit record.
    pub(super) id: String,
    pub(super) now: Timestamp,
}

/// The plan for one or more conversations.
#[derive(Default)]
struct Plan {
    writes: Vec<Write>,
    tombstones: Vec<Tombstone>,
    conversations: Vec<AuditedConversation>,
    /// The slugs that earlier conversations of the plan get.
    slugs: BTreeSet<String>,
    /// The sessions that lose something, by the folder of their project.
    projects: BTreeMap<String, BTreeSet<ConversationId>>,
}

impl Plan {
    /// Records that the nodes that cover a session in the tree of its project must be regenerated.
    fn note_project(&mut self, conversation: &Conversation) {
        if conversation.kind() == ConversationKind::Session
            && let Some(folder) = conversation.folder()
        {
            self.projects.entry(folder.to_owned()).or_default().insert(conversation.id);
        }
    }
}

impl ForgetPlanner {
    /// The writes and the audit record. Refuses a target that does not exist or has nothing to
    /// forget.
    pub(super) fn plan(&self, reader: &dyn Reader) -> StoreResult<(Vec<Write>, AuditRecord)> {
        let mut plan = Plan::default();
        let all = ConversationFilter::all(usize::MAX);
        let (conversations, selection) = match &self.target {
            ForgetTarget::Items(id, selection) => {
                let conversation = existing(reader, *id)?;
                check_exists(&conversation, selection)?;
                (vec![conversation], Some(selection.clone()))
            }
            ForgetTarget::Author(author) => {
                (listed(reader, &all)?, Some(ItemSelection::Author(author.clone())))
            }
            ForgetTarget::Secrets => (listed(reader, &all)?, Some(ItemSelection::Secrets)),
            ForgetTarget::Conversation(id) => (vec![existing(reader, *id)?], None),
            ForgetTarget::Expired(rules) => (expired(reader, rules, self.now)?, None),
            ForgetTarget::Project(folder) => {
                let project = Some(folder.clone());
                (listed(reader, &ConversationFilter { project, ..all })?, None)
            }
            ForgetTarget::Label(label) => {
                let labels = vec![label.clone()];
                (listed(reader, &ConversationFilter { labels, ..all })?, None)
            }
            ForgetTarget::Tenant => (listed(reader, &all)?, None),
        };
        for conversation in conversations {
            match &selection {
                Some(selection) => self.forget_items(reader, conversation, selection, &mut plan)?,
                None => self.remove(reader, &conversation, &mut plan)?,
            }
        }
        if plan.conversations.is_empty() {
            let reason = match &self.target {
                ForgetTarget::Author(_) | ForgetTarget::Items(_, ItemSelection::Author(_)) => {
                    "no message is by this author, or all were forgotten before"
                }
                ForgetTarget::Secrets | ForgetTarget::Items(_, ItemSelection::Secrets) => {
                    "no secret was found"
                }
                ForgetTarget::Items(..) | ForgetTarget::Conversation(_) => {
                    "it was forgotten before"
                }
                ForgetTarget::Project(_)
                | ForgetTarget::Label(_)
                | ForgetTarget::Expired(_)
                | ForgetTarget::Tenant => "no conversation matches",
            };
            return Err(Invalid::new("nothing to forget", reason).into());
        }
        self.rewrite_projects(reader, &mut plan)?;
        if !self.leaves_tombstones {
            plan.tombstones.clear();
        }
        let record = AuditRecord {
            id: self.id.clone(),
            at: self.now.as_micros(),
            target: self.target.kind().to_owned(),
            conversations: plan.conversations,
            tombstones: u32::try_from(plan.tombstones.len()).unwrap_or(u32::MAX),
        };
        let mut writes = plan.writes;
        writes.push(Write::AddAuditRecord(record.clone()));
        writes.push(Write::AddTombstones(record.id.clone(), plan.tombstones));
        Ok((writes, record))
    }

    /// Removes the nodes that cover the sessions in the trees of their projects, to be regenerated.
    fn rewrite_projects(&self, reader: &dyn Reader, plan: &mut Plan) -> StoreResult<()> {
        for (folder, sessions) in std::mem::take(&mut plan.projects) {
            let over = RemovedNodes::over(&self.engine, reader, &folder, &sessions, self.now)?;
            let id = over.id.to_string();
            if over.nodes.is_empty() || plan.conversations.iter().any(|it| it.id == id) {
                continue;
            }
            let nodes = count(over.nodes.len());
            plan.conversations.push(AuditedConversation {
                id,
                removed: false,
                messages: Vec::new(),
                erased: ErasedCounts { nodes, ..ErasedCounts::default() },
                rewritten: over.nodes.iter().map(audited).collect(),
            });
            plan.writes.extend(over.writes);
        }
        Ok(())
    }

    /// Removes a whole conversation.
    fn remove(
        &self,
        reader: &dyn Reader,
        conversation: &Conversation,
        plan: &mut Plan,
    ) -> StoreResult<()> {
        let id = conversation.id;
        plan.note_project(conversation);
        let items = SelectedItems {
            messages: select_messages(reader, id, |_| true)?,
            calls: reader.tool_calls(id, Span::starting(TurnNo(0), usize::MAX))?,
        };
        plan.tombstones.push(Tombstone::Conversation(id));
        if let Some(source) = &conversation.external_id {
            plan.tombstones.push(Tombstone::Source(source.clone()));
            // The source still has the text from before an edit.
            let is_original = |it: &&Message| !it.body.forgotten && it.body.edited_at.is_none();
            let first = items.messages.iter().find(is_original);
            plan.tombstones.push(match first {
                Some(first) => Tombstone::Opening(source.clone(), first.idx, first.hash),
                None => Tombstone::AnyOpening(source.clone()),
            });
        }
        plan.tombstones.extend(items.tombstones(id));
        let events = JobEventFilter { conversation: Some(id), job_prefix: None, limit: usize::MAX };
        let erased = ErasedCounts {
            messages: count(items.messages.len()),
            tool_calls: count(items.calls.len()),
            nodes: count(reader.node_versions(id, &NodeFilter::default())?.len()),
            jobs: count(reader.jobs(&JobFilter::of(id))?.len()),
            events: count(reader.job_events(&events)?.len()),
        };
        plan.writes.push(Write::RemoveConversation(id));
        plan.conversations.push(AuditedConversation {
            id: id.to_string(),
            removed: true,
            messages: runs(&items.messages),
            erased,
            rewritten: Vec::new(),
        });
        Ok(())
    }

    /// Replaces items of a conversation with placeholders, and removes the nodes that cover them to be
    /// regenerated.
    fn forget_items(
        &self,
        reader: &dyn Reader,
        mut conversation: Conversation,
        selection: &ItemSelection,
        plan: &mut Plan,
    ) -> StoreResult<()> {
        let id = conversation.id;
        let items = select(reader, id, selection)?;
        let is_masked = *selection == ItemSelection::Secrets;
        let title = conversation.title.as_deref().map(redact);
        let masks_title = is_masked && title.is_some_and(|(_, secrets)| !secrets.is_empty());
        if items.messages.is_empty() && items.calls.is_empty() && !masks_title {
            return Ok(());
        }
        let erasing = match is_masked {
            true => self.mask(&mut conversation, &items),
            false => erase(&mut conversation, &items),
        };
        conversation.tree_state.outdate_windows();
        if masks_title {
            let title = conversation.title.as_deref().map(|it| redact(it).0.into_owned());
            set_title(reader, &mut conversation, title)?;
        }
        if !is_masked {
            self.update_metadata(reader, &mut conversation, &items.messages)?;
            items.messages.iter().for_each(|message| conversation.unpin(message.idx));
        }
        if !plan.slugs.insert(conversation.slug.clone()) {
            conversation.slug = format!("{}-{}", conversation.slug, id.short());
        }
        let nodes = reader.nodes(id, &NodeFilter::default())?;
        let rewritten = nodes_to_regenerate(&nodes, &items.messages, &items.calls);
        let mut tree_writes = Vec::new();
        let (engine, now) = (&self.engine, self.now);
        let jobs = regenerate_nodes(
            engine,
            reader,
            (&mut conversation, now),
            &rewritten,
            &mut tree_writes,
        )?;
        let turns: BTreeSet<TurnNo> = items.turns().collect();
        let embeddings = embed::plan_turns(&self.engine, reader, id, turns, self.now)?;
        // The ids of masked items stay, so that an import finds them.
        plan.tombstones.extend(items.tombstones(id).filter(|_| !is_masked));
        plan.conversations.push(AuditedConversation {
            id: id.to_string(),
            removed: false,
            messages: runs(&items.messages),
            erased: ErasedCounts {
                messages: count(items.messages.len()),
                tool_calls: count(items.calls.len()),
                nodes: count(rewritten.len()),
                jobs,
                events: 0,
            },
            rewritten: rewritten.iter().map(|node| audited(node)).collect(),
        });
        plan.note_project(&conversation);
        let of_project = project::job_of(reader, &conversation, self.now)?;
        plan.writes.push(Write::PutConversation(conversation));
        plan.writes.extend(erasing);
        plan.writes.push(Write::ForgetErrors(id));
        plan.writes.extend(tree_writes);
        plan.writes.extend(embeddings);
        plan.writes.extend(of_project);
        Ok(())
    }

    /// Masks the secrets of items, and erases their earlier versions.
    fn mask(&self, conversation: &mut Conversation, items: &SelectedItems) -> Vec<Write> {
        let id = conversation.id;
        let mut writes = vec![Write::ForgetVersions(id, positions(&items.messages))];
        for message in &items.messages {
            let mut masked = message.clone();
            masked.mask();
            masked.tokens = self.engine.count_tokens(&masked.body.text);
            masked.hash = masked.body.hash();
            // An import must not take the text at the source for another message.
            masked.body.edited_at = Some(self.now);
            let totals = &mut conversation.totals;
            totals.chars = totals.chars + u64::from(masked.chars) - u64::from(message.chars);
            totals.tokens = totals.tokens + u64::from(masked.tokens) - u64::from(message.tokens);
            writes.push(Write::AmendMessage(id, Box::new(masked), None));
        }
        for call in &items.calls {
            let mut masked = call.clone();
            masked.call.mask();
            writes.push(Write::AmendToolCall(id, masked));
        }
        writes
    }

    /// Removes forgotten authors from the participants, and a title that quotes a forgotten
    /// message.
    fn update_metadata(
        &self,
        reader: &dyn Reader,
        conversation: &mut Conversation,
        forgotten: &[Message],
    ) -> StoreResult<()> {
        let (id, erased) =
            (conversation.id, forgotten.iter().map(|it| it.idx).collect::<BTreeSet<_>>());
        let authors: BTreeSet<&String> =
            forgotten.iter().filter_map(|message| message.body.author.as_ref()).collect();
        for author in authors {
            let is_by =
                |message: &Message| (message.body.author.as_ref() == Some(author)).then_some(());
            if first_remaining(reader, id, &erased, is_by)?.is_none() {
                conversation.participants.retain(|name| name != author);
            }
        }
        let Some(title) = conversation.title.clone() else { return Ok(()) };
        let quotes = |text: &str| title_of(text).as_ref() == Some(&title);
        let is_quote = conversation.title_source != TitleSource::Person
            && (forgotten.iter().any(|message| quotes(&message.body.text))
                // An edit may have left the title as it was.
                || versions_of(reader, id, &erased)?.iter().any(|version| quotes(&version.text)));
        if !is_quote {
            return Ok(());
        }
        let titled = |message: &Message| match message.body.role {
            Role::User => title_of(&message.body.text),
            _ => None,
        };
        let title = first_remaining(reader, id, &erased, titled)?;
        conversation.title_source = match title {
            Some(_) => TitleSource::FirstMessage,
            None => TitleSource::Untitled,
        };
        set_title(reader, conversation, title)
    }
}

/// Replaces the title, and the slug that was derived from it.
fn set_title(
    reader: &dyn Reader,
    conversation: &mut Conversation,
    title: Option<String>,
) -> StoreResult<()> {
    let slug = title.as_deref().map(slug_of).filter(|slug| !slug.is_empty());
    conversation.slug = match slug {
        Some(slug) => free_slug(reader, &slug, &slug, conversation.id)?,
        None => Conversation::untitled_slug(conversation.id),
    };
    conversation.title = title;
    Ok(())
}

/// Replaces items with placeholders.
fn erase(conversation: &mut Conversation, items: &SelectedItems) -> Vec<Write> {
    for message in &items.messages {
        conversation.totals.chars -= u64::from(message.chars);
        conversation.totals.tokens -= u64::from(message.tokens);
    }
    let places = items.calls.iter().map(|call| (call.turn, call.order)).collect();
    vec![
        Write::ForgetMessages(conversation.id, positions(&items.messages)),
        Write::ForgetToolCalls(conversation.id, places),
    ]
}

fn positions(messages: &[Message]) -> Vec<MessageIdx> {
    messages.iter().map(|message| message.idx).collect()
}

fn existing(reader: &dyn Reader, id: ConversationId) -> StoreResult<Conversation> {
    let missing = || Invalid::new(format!("conversation {id}"), "it does not exist");
    Ok(reader.conversation(id)?.ok_or_else(missing)?)
}

/// The sessions that one of these rules says are too old to keep. Notes are kept until someone
/// withdraws or forgets them.
pub(super) fn expired(
    reader: &dyn Reader,
    rules: &[RetentionRule],
    now: Timestamp,
) -> StoreResult<Vec<Conversation>> {
    let mut all = listed(reader, &ConversationFilter::sessions(usize::MAX))?;
    all.retain(|conversation| rules.iter().any(|rule| rule.expires(conversation, now)));
    Ok(all)
}

/// All conversations that a filter selects.
fn listed(reader: &dyn Reader, filter: &ConversationFilter) -> StoreResult<Vec<Conversation>> {
    reader.conversations(&ConversationQuery::List(filter))
}

/// The first and the last position of each run of messages.
fn runs(messages: &[Message]) -> Vec<(u32, u32)> {
    let run = |run: &[Message]| Some((run.first()?.idx.0, run.last()?.idx.0));
    messages.chunk_by(|one, next| next.idx.0 == one.idx.0 + 1).filter_map(run).collect()
}

fn audited(node: &Node) -> AuditedNode {
    let (level, ordinal) = (node.level().number(), node.ordinal());
    AuditedNode { level, ordinal, old_id: node.id.to_string() }
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}
