//! Repair: makes anew what follows from messages and tool calls and does not add up. Messages and tool calls are never
//! touched, and neither is what the store has of them in doubt.

use treering_core::ports::{ConversationFilter, ConversationQuery};
use treering_core::{Conversation, ConversationId, StoreError, Write};

use crate::embed;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::update::{Update, UpdateStrategy};
use crate::verify::ConversationAudit;
use crate::verify_tree;

/// Conversations that are read at once.
const PAGE: usize = 500;

/// What was made anew.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// Rows, counts, jobs and vectors that were set right, as sentences.
    pub store: Vec<String>,
    /// The conversations, by slug, whose trees are to be grown anew.
    pub trees: Vec<String>,
    /// The conversations, by slug, that lacked vectors, which are to be made.
    pub vectors: Vec<String>,
}

impl Engine {
    /// Makes anew what does not add up, of every tenant: what the store derives from messages, then counts, jobs and
    /// trees, from the messages and what still can be trusted, and missing vectors. Messages are never touched.
    pub fn repair(&self) -> Result<RepairReport> {
        let mut repaired =
            RepairReport { store: self.store().maintenance().repair()?, ..RepairReport::default() };
        let tenants = match self.store().maintenance().tenants() {
            Err(StoreError::Corrupt { .. }) => Vec::new(),
            tenants => tenants?,
        };
        for tenant in tenants {
            unless_damaged(self.for_tenant(tenant).repair_tenant(&mut repaired))?;
        }
        Ok(repaired)
    }

    fn repair_tenant(&self, repaired: &mut RepairReport) -> Result<()> {
        let trees = repaired.trees.len();
        let mut filter = ConversationFilter::all(PAGE);
        loop {
            let page = self.reader()?.conversations(&ConversationQuery::List(&filter))?;
            for conversation in &page {
                unless_damaged(self.repair_conversation(conversation, repaired))?;
            }
            match page.last() {
                Some(last) if page.len() == filter.limit => {
                    filter.after = Some((last.last_activity, last.id));
                }
                _ => break,
            }
        }
        // A tree that is grown anew mostly says the same again, and finds the vectors of its texts.
        if repaired.trees.len() > trees {
            return Ok(());
        }
        let removed = embed::remove_orphaned_vectors(self)?;
        if removed > 0 {
            let tenant = self.tenant();
            repaired.store.push(format!(
                "tenant {tenant}: vectors for text that is not there any more, removed: {removed}"
            ));
        }
        Ok(())
    }

    fn repair_conversation(
        &self,
        conversation: &Conversation,
        repaired: &mut RepairReport,
    ) -> Result<()> {
        let (id, place) = (conversation.id, self.place(conversation));
        if self.correct_record(id)? {
            repaired
                .store
                .push(format!("{place}: its counts, times and latest turns were counted anew"));
        }
        for job in self.remove_misplaced_jobs(id)? {
            repaired.store.push(format!("{place}: job {job} was removed"));
        }
        let reader = self.reader()?;
        let Some(conversation) = reader.conversation(id)? else { return Ok(()) };
        let (_, is_broken) = verify_tree::needed_repairs(&*reader, &self.key(id), &conversation)?;
        drop(reader);
        if is_broken {
            self.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() })?;
            repaired.trees.push(place.clone());
        }
        if embed::plan_missing_jobs(self, id)? > 0 {
            repaired.vectors.push(place);
        }
        Ok(())
    }

    fn correct_record(&self, id: ConversationId) -> Result<bool> {
        let memory = self.clone();
        self.commit_with(self.scope_of(id), move |reader| {
            let Some(conversation) = reader.conversation(id)? else {
                return Ok((Vec::new(), false));
            };
            let corrected = ConversationAudit::corrected(&memory, reader, &conversation)?;
            let is_corrected = corrected.is_some();
            Ok((corrected.map(Write::PutConversation).into_iter().collect(), is_corrected))
        })
    }

    /// Removes jobs that have nothing to work on or do what another does, and says which.
    fn remove_misplaced_jobs(&self, id: ConversationId) -> Result<Vec<String>> {
        let memory = self.clone();
        self.commit_with(self.scope_of(id), move |reader| {
            let Some(conversation) = reader.conversation(id)? else {
                return Ok((Vec::new(), Vec::new()));
            };
            let (jobs, _) = verify_tree::needed_repairs(reader, &memory.key(id), &conversation)?;
            let names = jobs.iter().map(|job| job.id.short()).collect();
            Ok((jobs.into_iter().map(Write::RemoveJob).collect(), names))
        })
    }
}

/// What cannot be read is left as it is; a verification names it.
fn unless_damaged(repaired: Result<()>) -> Result<()> {
    match repaired {
        Err(Error::Store(StoreError::Corrupt { .. })) => Ok(()),
        other => other,
    }
}
