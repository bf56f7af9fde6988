//! Copies a store to another through the ports, conversation by conversation. A copy that was
//! interrupted continues where it ended; what the target has already is compared and kept.

mod conversation;
mod ledger;
#[cfg(any(feature = "neo4j", feature = "postgres"))]
mod to_file;
mod verify;

use treering_core::ports::{
    Change, ChangeFilter, ConversationFilter, ConversationQuery, Cursor, JobEventFilter,
    StoreResult,
};
use treering_core::{
    AuditRecord, CommitScope, Conversation, ConversationKey, Invalid, Reader, Store, StoreError,
    TenantId, TombstoneSet, VectorIndex, Write,
};

#[cfg(any(feature = "neo4j", feature = "postgres"))]
pub(crate) use to_file::backup;

/// The number of rows in a commit.
const PAGE: usize = 1000;

/// The audit record that copied tombstones belong to.
const COPIED_TOMBSTONES: &str = "copied-tombstones";

/// Everything that was copied, or was there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyReport {
    /// Tenants.
    pub tenants: u32,
    /// Conversations.
    pub conversations: u32,
    /// Messages.
    pub messages: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Nodes.
    pub nodes: u64,
    /// Unfinished jobs.
    pub jobs: u64,
    /// Vectors.
    pub vectors: u64,
    /// Tombstones.
    pub tombstones: u64,
}

/// Copies everything from one store to another, and then compares the two. `progress` gets the
/// report so far after each commit.
pub fn copy(
    from: &dyn Store,
    to: &dyn Store,
    progress: &mut dyn FnMut(&CopyReport),
) -> StoreResult<CopyReport> {
    let mut report = CopyReport::default();
    for tenant in from.maintenance().tenants()? {
        TenantCopy { from, to, tenant, report: &mut report, progress }.run()?;
    }
    Ok(report)
}

/// Moves one tenant from a store to another: copies it, compares the two, and removes it from the
/// first, unless something was written there in the meantime. Then it copies again.
pub fn move_tenant(
    from: &dyn Store,
    to: &dyn Store,
    tenant: &TenantId,
    progress: &mut dyn FnMut(&CopyReport),
) -> StoreResult<CopyReport> {
    const ROUNDS: usize = 10;
    for _ in 0..ROUNDS {
        let mut report = CopyReport::default();
        let end = end_of_feed(from, tenant)?;
        let copied = TenantCopy { from, to, tenant: tenant.clone(), report: &mut report, progress };
        match copied.run() {
            // The comparison may have met a write that came after the copy.
            Err(_) if end_of_feed(from, tenant)? != end => continue,
            copied => copied?,
        }
        if from.maintenance().remove_tenant(tenant, Some(&end))? {
            return Ok(report);
        }
    }
    let reason = "it was written to during every attempt; stop its writers and repeat the command";
    Err(Invalid::new(format!("tenant {tenant}"), reason).into())
}

fn end_of_feed(store: &dyn Store, tenant: &TenantId) -> StoreResult<Cursor> {
    let filter = ChangeFilter::default();
    Ok(store.reader(tenant)?.changes(&Cursor::start(), &filter, 0)?.cursor)
}

/// Calls `take` with each conversation of a tenant, page by page.
fn for_each_conversation(
    reader: &dyn Reader,
    mut take: impl FnMut(&Conversation) -> StoreResult<()>,
) -> StoreResult<()> {
    const CONVERSATIONS: usize = 200;
    let mut filter = ConversationFilter::all(CONVERSATIONS);
    loop {
        let page = reader.conversations(&ConversationQuery::List(&filter))?;
        page.iter().try_for_each(&mut take)?;
        match page.last() {
            Some(last) if page.len() == CONVERSATIONS => {
                filter.after = Some((last.last_activity, last.id));
            }
            _ => return Ok(()),
        }
    }
}

/// The copy of one tenant.
struct TenantCopy<'a> {
    from: &'a dyn Store,
    to: &'a dyn Store,
    tenant: TenantId,
    report: &'a mut CopyReport,
    progress: &'a mut dyn FnMut(&CopyReport),
}

impl TenantCopy<'_> {
    fn run(mut self) -> StoreResult<()> {
        let (from, tenant) = (self.from, self.tenant.clone());
        for_each_conversation(&*from.reader(&tenant)?, |it| self.conversation(it))?;
        self.events()?;
        self.vectors()?;
        self.audit()?;
        self.spend()?;
        verify::compare(self.from, self.to, &self.tenant)?;
        self.report.tenants += 1;
        (self.progress)(self.report);
        Ok(())
    }

    fn source(&self) -> StoreResult<Box<dyn Reader + '_>> {
        self.from.reader(&self.tenant)
    }

    fn target(&self) -> StoreResult<Box<dyn Reader + '_>> {
        self.to.reader(&self.tenant)
    }

    fn commit(&mut self, writes: Vec<Write>) -> StoreResult<()> {
        self.commit_in(CommitScope::Tenant(self.tenant.clone()), writes)
    }

    fn commit_to(&mut self, of: &Conversation, writes: Vec<Write>) -> StoreResult<()> {
        let key = ConversationKey { tenant: self.tenant.clone(), id: of.id };
        self.commit_in(CommitScope::Conversation(key), writes)
    }

    fn commit_in(&mut self, scope: CommitScope, writes: Vec<Write>) -> StoreResult<()> {
        if !writes.is_empty() {
            self.to.commit(scope, Box::new(move |_| Ok(writes.clone())))?;
        }
        (self.progress)(self.report);
        Ok(())
    }

    /// Copies the job events that the target does not have. They are written in order, so the
    /// target has the first of them.
    fn events(&mut self) -> StoreResult<()> {
        let all = JobEventFilter { conversation: None, job_prefix: None, limit: usize::MAX };
        let mut events = self.source()?.job_events(&all)?;
        let copied = self.target()?.job_events(&all)?;
        if events.starts_with(&copied) {
            events.drain(..copied.len());
        } else {
            return Err(self.differs("its job events are not those of the source"));
        }
        for page in events.chunks(PAGE) {
            self.commit(page.iter().cloned().map(Write::AddJobEvent).collect())?;
        }
        Ok(())
    }

    /// Copies the vectors of the model in use and of the next one. A rebuild starts over, because
    /// its position in the change feed belongs to the source.
    fn vectors(&mut self) -> StoreResult<()> {
        let Some(index) = self.source()?.vector_index()? else { return Ok(()) };
        let next = index.next.as_ref().map(|next| next.model.clone());
        for model in [Some(index.model.clone()), next.clone()].into_iter().flatten() {
            let filter = ChangeFilter { vectors_of: Some(&model), ..ChangeFilter::default() };
            let mut after = Cursor::start();
            loop {
                let page = self.source()?.changes(&after, &filter, PAGE)?;
                let vectors = page.items.into_iter().filter_map(|change| match change {
                    Change::Vector(hash, vector) => Some((hash, vector)),
                    _ => None,
                });
                let vectors: Vec<_> = vectors.collect();
                self.report.vectors += vectors.len() as u64;
                if !vectors.is_empty() {
                    self.commit(vec![Write::PutVectors(model.clone(), vectors)])?;
                }
                if page.is_last {
                    break;
                }
                after = page.cursor;
            }
        }
        if self.target()?.vector_index()?.is_none() {
            let copied = VectorIndex::of(&index.model);
            let copied = match next {
                Some(next) => copied.rebuilding_for(&next),
                None => copied,
            };
            self.commit(vec![Write::PutVectorIndex(copied)])?;
        }
        Ok(())
    }

    /// Copies the audit and the tombstones. Nothing was erased in the target, so nothing is to be
    /// scrubbed there.
    fn audit(&mut self) -> StoreResult<()> {
        let records = self.source()?.audit().records("", usize::MAX)?;
        for record in records.iter().filter(|record| record.id != COPIED_TOMBSTONES) {
            if !self.has_record(&record.id)? {
                let write = Write::TakeOverTombstones(record.clone(), TombstoneSet::default());
                self.commit(vec![write])?;
            }
        }
        let tombstones = self.source()?.audit().tombstones()?;
        self.report.tombstones += tombstones.hashes.len() as u64;
        if tombstones.hashes.is_empty() || self.has_record(COPIED_TOMBSTONES)? {
            return Ok(());
        }
        let record = AuditRecord {
            id: COPIED_TOMBSTONES.to_owned(),
            at: records.iter().map(|record| record.at).max().unwrap_or_default(),
            target: "tombstones".to_owned(),
            conversations: Vec::new(),
            tombstones: u32::try_from(tombstones.hashes.len()).unwrap_or(u32::MAX),
        };
        self.commit(vec![Write::TakeOverTombstones(record, tombstones)])
    }

    fn has_record(&self, id: &str) -> StoreResult<bool> {
        let target = self.target()?;
        let found = target.audit().records(id, usize::MAX)?;
        Ok(found.iter().any(|record| record.id == id))
    }

    fn differs(&self, reason: &str) -> StoreError {
        let subject = format!("copy of tenant {}", self.tenant);
        Invalid::new(subject, format!("{reason}; copy to an empty store")).into()
    }
}
