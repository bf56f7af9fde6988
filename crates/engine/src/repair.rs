//! Repair: rebuilds derived data that is inconsistent. It never changes messages or tool calls,
//! and leaves data that cannot be read as it is.

use treering_core::ports::{ConversationFilter, ConversationQuery};
use treering_core::{Conversation, ConversationId, StoreError, Write};

use crate::embed;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::orphaned_vectors;
use crate::update::{Update, UpdateStrategy};
use crate::verify;
use crate::verify::ConversationAudit;

/// Conversations per page.
const PAGE: usize = 500;

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RepairReport {
    /// Corrected rows, counts, jobs and vectors, one sentence each.
    pub store: Vec<String>,
    /// The conversations, by slug, whose trees are scheduled for a rebuild.
    pub trees: Vec<String>,
    /// The conversations, by slug, whose missing vectors are scheduled.
    pub vectors: Vec<String>,
}

impl Engine {
    /// Rebuilds inconsistent derived data of every tenant: the store's own tables, then counts,
    /// jobs, trees and missing vectors. Messages and tool calls are never changed.
    pub fn repair(&self) -> Result<RepairReport> {
        let mut repaired =
            RepairReport { store: self.store().maintenance().repair()?, ..RepairReport::default() };
        let tenants = match self.store().maintenance().tenants() {
            Err(StoreError::Corrupt { .. }) => Vec::new(),
            tenants => tenants?,
        };
        for tenant in tenants {
            ignore_corruption(self.for_tenant(tenant).repair_tenant(&mut repaired))?;
        }
        Ok(repaired)
    }

    fn repair_tenant(&self, repaired: &mut RepairReport) -> Result<()> {
        let trees = repaired.trees.len();
        let mut filter = ConversationFilter::all(PAGE);
        loop {
            let page = self.reader()?.conversations(&ConversationQuery::List(&filter))?;
            for conversation in &page {
                ignore_corruption(self.repair_conversation(conversation, repaired))?;
            }
            match page.last() {
                Some(last) if page.len() == filter.limit => {
                    filter.after = Some((last.last_activity, last.id));
                }
                _ => break,
            }
        }
        // A rebuilt tree mostly has the same texts again and reuses their vectors.
        if repaired.trees.len() > trees {
            return Ok(());
        }
        let removed = orphaned_vectors::remove_orphaned_vectors(self)?;
        if removed > 0 {
            let tenant = self.tenant();
            repaired
                .store
                .push(format!("tenant {tenant}: removed {removed} vectors of deleted text"));
        }
        Ok(())
    }

    fn repair_conversation(
        &self,
        conversation: &Conversation,
        repaired: &mut RepairReport,
    ) -> Result<()> {
        let (id, slug) = (conversation.id, self.name_of(conversation));
        if self.correct_record(id)? {
            repaired
                .store
                .push(format!("{slug}: its counts, times and latest turns were recomputed"));
        }
        for job in self.remove_misplaced_jobs(id)? {
            repaired.store.push(format!("{slug}: job {job} was removed"));
        }
        let reader = self.reader()?;
        let Some(conversation) = reader.conversation(id)? else { return Ok(()) };
        let (_, is_broken) = verify::tree::needed_repairs(&*reader, &self.key(id), &conversation)?;
        drop(reader);
        if is_broken {
            self.update(id, &Update { strategy: UpdateStrategy::Full, ..Update::default() })?;
            repaired.trees.push(slug.clone());
        }
        if embed::plan_missing_jobs(self, id)? > 0 {
            repaired.vectors.push(slug);
        }
        Ok(())
    }

    fn correct_record(&self, id: ConversationId) -> Result<bool> {
        let engine = self.clone();
        self.commit_with(self.scope_of(id), move |reader| {
            let Some(conversation) = reader.conversation(id)? else {
                return Ok((Vec::new(), false));
            };
            let corrected = ConversationAudit::corrected(&engine, reader, &conversation)?;
            let is_corrected = corrected.is_some();
            Ok((corrected.map(Write::PutConversation).into_iter().collect(), is_corrected))
        })
    }

    /// Removes jobs without input and duplicate jobs, and returns their ids.
    fn remove_misplaced_jobs(&self, id: ConversationId) -> Result<Vec<String>> {
        let engine = self.clone();
        self.commit_with(self.scope_of(id), move |reader| {
            let Some(conversation) = reader.conversation(id)? else {
                return Ok((Vec::new(), Vec::new()));
            };
            let (jobs, _) = verify::tree::needed_repairs(reader, &engine.key(id), &conversation)?;
            let names = jobs.iter().map(|job| job.id.short()).collect();
            Ok((jobs.into_iter().map(Write::RemoveJob).collect(), names))
        })
    }
}

/// Ignores corruption: data that cannot be read stays as it is, and `verify` reports it.
fn ignore_corruption(repaired: Result<()>) -> Result<()> {
    match repaired {
        Err(Error::Store(StoreError::Corrupt { .. })) => Ok(()),
        other => other,
    }
}
