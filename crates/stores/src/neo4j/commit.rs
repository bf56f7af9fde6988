//! Commits. The plan of a conversation runs outside a transaction. The transaction then takes the
//! lock of the tenant, compares the versions that the plan saw, and writes. If they differ, the
//! plan runs again; after two failures, and for the other scopes, under the lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use treering_core::ports::{CommitPlan, JobFilter, StoreResult};
use treering_core::{
    BatchSizes, CommitScope, Conversation, ConversationId, ConversationKey, Invalid, Job, Reader,
    StoreError, TenantId, Timestamp, Write,
};

use super::bolt::{BoltConnection, BoltError, Cypher};
use super::error::{explain, unreadable};
use super::pool::PooledBolt;
use super::read::{
    CONVERSATION, GraphView, PlannedState, TenantState, conversation, few_jobs, few_jobs_query,
    vector_index,
};
use super::values::{BoltRow, Read};
use super::write::{CommitBase, statements};
use super::{Neo4jStore, back_off, schema};
use crate::planning::plan_writes;

/// How often a commit is repeated after a refusal that had no effect.
const ATTEMPTS: u32 = 12;
/// How often a plan runs without the lock.
const OPTIMISTIC_ATTEMPTS: u32 = 2;

/// The versions that a plan depends on: of its conversation, and the number of commits of the
/// tenant that concern every conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct PlanVersions {
    conversation: Option<i64>,
    exclusive: i64,
}

/// The tenant as the first statement of a transaction found it, under its lock.
struct LockedTenant {
    seq: i64,
    exclusive: i64,
    /// The conversations that exist, of those that were asked for, with their versions.
    conversations: Vec<(ConversationId, i64)>,
}

/// Why an attempt did not commit.
enum Abort {
    /// The error is final.
    Final(StoreError),
    /// Nothing was written, and another attempt may succeed.
    Repeat(BoltError),
    /// The plan saw something that has changed since.
    Outdated,
}

impl From<StoreError> for Abort {
    fn from(error: StoreError) -> Self {
        Self::Final(error)
    }
}

impl From<Invalid> for Abort {
    fn from(error: Invalid) -> Self {
        Self::Final(error.into())
    }
}

type GraphAttempt<T> = Result<T, Abort>;

impl Neo4jStore {
    /// Plans and applies a commit. An exclusive one, of a tenant, makes the plans of other scopes
    /// start again.
    pub(super) fn commit_plan(
        &self,
        scope: &CommitScope,
        mut plan: CommitPlan,
        is_exclusive: bool,
    ) -> StoreResult<()> {
        if let Some(error) = &self.read_only {
            return Err(error.clone());
        }
        let mut must_lock = 0;
        for attempt in 1.. {
            let result = match scope {
                CommitScope::Conversation(key) if must_lock < OPTIMISTIC_ATTEMPTS => {
                    self.plan_then_lock(key, scope, &mut plan)
                }
                _ => self.lock_then_plan(scope, &mut plan, is_exclusive),
            };
            match result {
                Ok(is_changed) => {
                    if is_changed {
                        self.watch.notify();
                    }
                    return Ok(());
                }
                Err(Abort::Outdated) => must_lock += 1,
                Err(Abort::Repeat(error)) if attempt < ATTEMPTS => {
                    must_lock += u32::from(error.is_transient());
                    back_off(attempt);
                }
                Err(Abort::Repeat(error)) => return Err(explain(self.address(), &error)),
                Err(Abort::Final(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Leases due jobs under the lock of the tenant.
    pub(super) fn lease_due(
        &self,
        tenant: &TenantId,
        filter: &JobFilter,
        (worker, now): (&str, Timestamp),
        sizes: BatchSizes,
    ) -> StoreResult<Vec<Job>> {
        let (filter, worker) =
            (JobFilter { limit: sizes.largest(), ..filter.clone() }, worker.to_owned());
        let leased = Arc::new(Mutex::new(Vec::new()));
        let slot = Arc::clone(&leased);
        let plan = move |reader: &dyn Reader| {
            let mut jobs = sizes.take(reader.jobs(&filter)?);
            jobs.iter_mut().for_each(|job| job.lease(&worker, now));
            slot.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&jobs);
            Ok(jobs.into_iter().map(Write::PutJob).collect())
        };
        self.commit_plan(&CommitScope::Tenant(tenant.clone()), Box::new(plan), false)?;
        let leased = std::mem::take(&mut *leased.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(leased)
    }

    /// Runs the plan of a conversation, and then locks, compares and writes.
    fn plan_then_lock(
        &self,
        key: &ConversationKey,
        scope: &CommitScope,
        plan: &mut CommitPlan,
    ) -> GraphAttempt<bool> {
        let mut connection = self.pool.take().map_err(|error| self.abort(error))?;
        let (versions, state) = self.read_before(&mut connection, key)?;
        let known = state.conversation.1.clone();
        let view = GraphView::new(self, connection, &key.tenant).knowing(state);
        let writes = plan_writes(plan, &view, scope)?;
        if writes.is_empty() {
            return Ok(false);
        }
        let mut connection = view.into_connection();
        let locked = self.begin(&mut connection, scope, &touched(&writes))?;
        let found = locked.conversations.iter().find(|(id, _)| *id == key.id);
        let found = PlanVersions {
            conversation: found.map(|(_, version)| *version),
            exclusive: locked.exclusive,
        };
        // A plan that writes to none of it depends on the conversation all the same.
        if found != versions {
            return Err(Abort::Outdated);
        }
        self.write(&mut connection, scope, (locked, known.as_ref(), false), &writes)?;
        Ok(true)
    }

    /// Locks, and then plans and writes.
    fn lock_then_plan(
        &self,
        scope: &CommitScope,
        plan: &mut CommitPlan,
        is_exclusive: bool,
    ) -> GraphAttempt<bool> {
        let mut connection = self.pool.take().map_err(|error| self.abort(error))?;
        let locked = self.begin(&mut connection, scope, &[])?;
        let view = GraphView::new(self, connection, scope.tenant()).in_transaction();
        let writes = plan_writes(plan, &view, scope)?;
        let mut connection = view.into_connection();
        if writes.is_empty() {
            return Ok(false);
        }
        let conversations = match touched(&writes) {
            ids if ids.is_empty() => Vec::new(),
            ids => self.versions_of(&mut connection, scope.tenant(), &ids)?,
        };
        let is_exclusive = is_exclusive && matches!(scope, CommitScope::Tenant(_));
        let locked = LockedTenant { conversations, ..locked };
        self.write(&mut connection, scope, (locked, None, is_exclusive), &writes)?;
        Ok(true)
    }

    /// Reads what most plans of a conversation ask for, and the versions to compare later.
    fn read_before<'a>(
        &'a self,
        connection: &mut PooledBolt<'a>,
        key: &ConversationKey,
    ) -> GraphAttempt<(PlanVersions, PlannedState)> {
        let statement = Cypher::new(format!(
            "OPTIONAL MATCH (x:TreeringTenant {{name: $tenant}}) SET x:TreeringTenant
            WITH x OPTIONAL MATCH (c:ConversationSession {{tenant: $tenant, sessionId: $session}})
            RETURN x.exclusive, x.auditRevision,
                EXISTS {{ MATCH (d:TreeringTombstone) WHERE d.tenant = $tenant
                    AND d.hash IS NOT NULL }},
                x.vectorModel, x.nextVectorModel, x.nextVectorSeq, c.version, {}, {CONVERSATION}",
            few_jobs_query()
        ));
        let statement = statement.with("tenant", key.tenant.as_str()).with("session", key.id);
        let rows = match connection.run(&statement) {
            Err(BoltError::Broken(_)) if !connection.is_new => {
                *connection = self.pool.reopen().map_err(|error| self.abort(error))?;
                connection.run(&statement)
            }
            result => result,
        };
        let row = rows.map_err(|error| self.abort(error))?.pop().unwrap_or_default();
        let decode = |mut row: BoltRow| -> Read<_> {
            let exclusive: Option<i64> = row.take()?;
            let (revision, has_tombstones) = (row.take::<Option<u64>>()?, row.take()?);
            let vector_index = vector_index(&mut row)?;
            let tenant =
                TenantState { revision: revision.unwrap_or(0), has_tombstones, vector_index };
            let version: Option<i64> = row.take()?;
            let jobs = few_jobs(row.take()?)?;
            let found = version.map(|_| conversation(&mut row)).transpose()?;
            let versions =
                PlanVersions { conversation: version, exclusive: exclusive.unwrap_or_default() };
            Ok((versions, PlannedState { conversation: (key.id, found), tenant, jobs }))
        };
        Ok(decode(BoltRow::new(row)).map_err(|error| unreadable(self.address(), error))?)
    }

    /// Begins a transaction with the lock of the tenant, and that of the provider in its scope.
    fn begin<'a>(
        &'a self,
        connection: &mut PooledBolt<'a>,
        scope: &CommitScope,
        conversations: &[ConversationId],
    ) -> GraphAttempt<LockedTenant> {
        let (key, provider) = match scope {
            CommitScope::Conversation(key) => (Some(key.id), None),
            CommitScope::Provider(_, provider) => (None, Some(provider)),
            CommitScope::Tenant(_) => (None, None),
        };
        let clause = match provider {
            Some(_) => "MERGE (p:TreeringProvider {name: $provider}) SET p:TreeringProvider WITH x",
            None => "",
        };
        let statement = Cypher::new(format!(
            "MERGE (x:TreeringTenant {{name: $tenant}})
            ON CREATE SET x.seq = 0, x.commits = 0, x.exclusive = 0, x.auditRevision = 0
            SET x:TreeringTenant WITH x {clause}
            RETURN x.seq, x.exclusive, COLLECT {{
                MATCH (c:ConversationSession) WHERE c.tenant = $tenant AND c.sessionId IN $sessions
                RETURN [c.sessionId, c.version] }}"
        ));
        let sessions: Vec<ConversationId> = conversations.iter().copied().chain(key).collect();
        let statement = statement
            .with("tenant", scope.tenant().as_str())
            .with("provider", provider)
            .with("sessions", sessions);
        let rows = match connection.begin(&statement) {
            Err(BoltError::Broken(_)) if !connection.is_new => {
                *connection = self.pool.reopen().map_err(|error| self.abort(error))?;
                connection.begin(&statement)
            }
            result => result,
        };
        let row = rows.map_err(|error| self.abort(error))?.pop().unwrap_or_default();
        let decode = |mut row: BoltRow| -> Read<LockedTenant> {
            let (seq, exclusive) = (row.take()?, row.take()?);
            Ok(LockedTenant { seq, exclusive, conversations: versions(row.take()?)? })
        };
        Ok(decode(BoltRow::new(row)).map_err(|error| unreadable(self.address(), error))?)
    }

    /// The versions of the conversations that exist, of these.
    fn versions_of(
        &self,
        connection: &mut BoltConnection,
        tenant: &TenantId,
        ids: &[ConversationId],
    ) -> GraphAttempt<Vec<(ConversationId, i64)>> {
        let statement = Cypher::new(
            "MATCH (c:ConversationSession) WHERE c.tenant = $tenant AND c.sessionId IN $sessions
            RETURN [c.sessionId, c.version]",
        );
        let statement = statement.with("tenant", tenant.as_str()).with("sessions", ids.to_vec());
        let rows = connection.run(&statement).map_err(|error| self.abort(error))?;
        let found = versions(rows.into_iter().flatten().collect());
        Ok(found.map_err(|error| unreadable(self.address(), error))?)
    }

    /// Writes and commits in one round trip.
    fn write(
        &self,
        connection: &mut BoltConnection,
        scope: &CommitScope,
        (locked, known, is_exclusive): (LockedTenant, Option<&Conversation>, bool),
        writes: &[Write],
    ) -> GraphAttempt<()> {
        check_owners(&locked, writes)?;
        let base = CommitBase {
            tenant: scope.tenant().as_str(),
            seq: locked.seq,
            salt: &self.salt,
            known,
            is_exclusive,
        };
        connection.commit(&statements(base, writes)).map_err(|error| match error {
            BoltError::Broken(reason) => Abort::Final(self.remote(
                format!("the connection broke during a commit: {reason}"),
                "the commit is either stored completely or not at all; read before you repeat it, \
                 or repeat it with external ids",
            )),
            error => self.abort(error),
        })?;
        self.index_embeddings(connection, writes);
        Ok(())
    }

    /// Creates the vector indexes for the dimensions of embeddings that were just stored. The
    /// embeddings are found without an index too, so a failure is left to the next attempt.
    fn index_embeddings(&self, connection: &mut BoltConnection, writes: &[Write]) {
        let has_embeddings = writes.iter().any(|it| matches!(it, Write::SetEmbeddings(..)));
        let dims = writes.iter().find_map(|write| match write {
            Write::PutVectors(_, vectors) => vectors.first().map(|(_, vector)| vector.len()),
            _ => None,
        });
        let Some(dims) = dims.filter(|_| has_embeddings) else { return };
        if self.indexed_dims.load(Ordering::Relaxed) != dims
            && schema::create_vector_indexes(connection, dims).is_ok()
        {
            self.indexed_dims.store(dims, Ordering::Relaxed);
        }
    }

    fn abort(&self, error: BoltError) -> Abort {
        match &error {
            BoltError::Broken(_) | BoltError::Unreachable(_) => Abort::Repeat(error),
            refused if refused.is_transient() => Abort::Repeat(error),
            refused if refused.code().starts_with("Neo.ClientError.Cluster.") => {
                Abort::Repeat(error)
            }
            other => Abort::Final(explain(self.address(), other)),
        }
    }
}

/// Decodes pairs of an id and a version.
fn versions(pairs: Vec<super::BoltValue>) -> Read<Vec<(ConversationId, i64)>> {
    let decode = |pair| match pair {
        super::BoltValue::List(pair) => {
            let mut pair = BoltRow::new(pair);
            Ok((pair.take()?, pair.take()?))
        }
        _ => super::values::unreadable("a version without its conversation"),
    };
    pairs.into_iter().map(decode).collect()
}

/// The conversations that writes change.
fn touched(writes: &[Write]) -> Vec<ConversationId> {
    let mut ids: Vec<ConversationId> = writes.iter().filter_map(Write::conversation).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Refuses writes to conversations that do not exist when their turn comes.
fn check_owners(locked: &LockedTenant, writes: &[Write]) -> Result<(), Invalid> {
    let mut existing: Vec<ConversationId> =
        locked.conversations.iter().map(|(id, _)| *id).collect();
    for write in writes {
        match write {
            Write::PutConversation(it) => existing.push(it.id),
            write => {
                if let Some(id) = write.conversation()
                    && !existing.contains(&id)
                {
                    let reason = "its conversation does not exist";
                    return Err(Invalid::new(format!("write to conversation {id}"), reason));
                }
                if let Write::RemoveConversation(id) = write {
                    existing.retain(|known| known != id);
                }
            }
        }
    }
    Ok(())
}
