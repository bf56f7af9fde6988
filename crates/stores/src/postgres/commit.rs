//! Commits. A commit of one conversation is planned without locks: one flight then takes the locks, verifies that the versions
//! the plan saw are still current, writes, and commits. If they are not, the plan runs again; after two conflicts, and for
//! every other scope, the locks are taken before the plan runs.

use std::thread;
use std::time::Duration;

use tokio_postgres::Row;
use treering_core::ports::{CommitPlan, StoreResult};
use treering_core::{CommitScope, ConversationKey, StoreError, Write};

use super::PostgresStore;
use super::connection::{Access, FirstRow, Grouping, PgConnection, SqlQuery};
use super::error::{Failure, Outcome};
use super::locks::Locks;
use super::read::{SeenVersions, TenantReader};
use super::value::{Columns, SqlValue, values};
use super::write::CommitWriter;
use crate::planning::plan_writes;

/// Plans without locks before the locks are taken first.
const OPTIMISTIC_ATTEMPTS: u32 = 2;
/// Attempts in total. With the locks, only unique names can still conflict.
const MAX_ATTEMPTS: u32 = 5;
/// Delays before a commit is repeated on a new connection, while a server restarts or a standby takes over.
const RECONNECT_DELAYS: [Duration; 5] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

const BEGIN_COMMIT: &str = "SELECT begin_commit($1, $2, $3, $4, $5)";

/// Plans and applies a commit. It is durable when this returns.
pub(super) fn commit(
    store: &PostgresStore,
    scope: &CommitScope,
    plan: CommitPlan,
) -> StoreResult<()> {
    let locks = Locks::of(store.schema(), scope);
    let access = Access::Tenant(scope.tenant().clone());
    let mut attempt = CommitAttempt { store, scope, locks, access, plan };
    let (mut attempts, mut delays) = (0, RECONNECT_DELAYS.iter());
    loop {
        let optimistic = match scope {
            CommitScope::Conversation(key) if attempts < OPTIMISTIC_ATTEMPTS => Some(key),
            _ => None,
        };
        let failure = match attempt.run(optimistic) {
            Ok(has_written) => {
                if has_written {
                    store.notifier.committed();
                }
                return Ok(());
            }
            Err(AttemptFailure::Unknown(failure)) => return Err(unknown(store, failure)),
            Err(AttemptFailure::NotWritten(failure)) => failure,
        };
        if failure.is_disconnect() {
            let Some(delay) = delays.next() else { return Err(store.explain(failure)) };
            thread::sleep(*delay);
            continue;
        }
        attempts += 1;
        store.pool.count_conflict();
        if !(failure.is_conflict() || failure.is_stale_plan()) || attempts >= MAX_ATTEMPTS {
            return Err(store.explain(failure));
        }
    }
}

fn unknown(store: &PostgresStore, failure: Failure) -> StoreError {
    let cause = match store.explain(failure) {
        StoreError::Failed { detail, .. } => detail,
        other => other.to_string(),
    };
    let detail = format!(
        "{cause}; the last commit may or may not be stored, so send it again with the same external ids, which are \
         stored once"
    );
    StoreError::Failed { path: store.location().into(), detail }
}

/// Why a commit failed.
enum AttemptFailure {
    /// Nothing was written.
    NotWritten(Failure),
    /// The connection broke before the server confirmed the commit, and its outcome could not be learned.
    Unknown(Failure),
}

impl From<Failure> for AttemptFailure {
    fn from(failure: Failure) -> Self {
        Self::NotWritten(failure)
    }
}

/// A commit that may be attempted several times.
struct CommitAttempt<'a> {
    store: &'a PostgresStore,
    scope: &'a CommitScope,
    locks: Locks,
    access: Access,
    plan: CommitPlan,
}

impl CommitAttempt<'_> {
    /// Returns whether something was written.
    fn run(&mut self, optimistic: Option<&ConversationKey>) -> Result<bool, AttemptFailure> {
        match optimistic {
            Some(key) => self.run_optimistic(key),
            None => self.run_locked(),
        }
    }

    /// Plans first, then verifies and writes in one flight.
    fn run_optimistic(&mut self, key: &ConversationKey) -> Result<bool, AttemptFailure> {
        let mut pooled = self.store.pool.take()?;
        let (writes, versions) = pooled.with(|connection| {
            let reader = TenantReader::verified(self.store, connection, key);
            let planned = self.plan_writes(&reader);
            // The reads of a plan that writes nothing or refuses may be of different moments.
            let has_written = planned.as_ref().is_ok_and(|writes| !writes.is_empty());
            if !has_written && reader.has_changed()? {
                return Err(Failure::Changed);
            }
            Ok((planned?, reader.versions()))
        })?;
        if writes.is_empty() {
            return Ok(false);
        }
        let mut transaction = None;
        let written = pooled.with(|connection| {
            let queries = self.queries(connection, &writes, versions)?;
            let run = connection.run(&self.access, &queries, Grouping::Transaction);
            transaction = ServerTransaction::of(&connection.take_partial(), connection);
            run
        });
        drop(pooled);
        match written {
            Ok(_) => Ok(true),
            Err(failure) if failure.is_disconnect() => {
                self.resolve(failure, transaction.as_ref(), versions)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Takes the locks, plans inside the transaction, then writes.
    fn run_locked(&mut self) -> Result<bool, AttemptFailure> {
        let mut pooled = self.store.pool.take()?;
        let lock = self.lock_query(None);
        let transaction = pooled.with(|connection| {
            let begun = connection.run(&self.access, &[lock], Grouping::Begin)?;
            Ok(ServerTransaction::of(&begun, connection))
        })?;
        let planned = pooled.with(|connection| {
            let reader = TenantReader::locked(self.store, connection, self.scope.tenant());
            let writes = self.plan_writes(&reader)?;
            let queries = match writes.is_empty() {
                true => Vec::new(),
                false => self.writer(connection, &writes)?.into_queries(),
            };
            Ok((writes, queries))
        });
        let (writes, queries) = match planned {
            Ok(planned) => planned,
            Err(failure) => {
                let rolled_back = pooled.with(|connection| connection.execute_batch("ROLLBACK"));
                if rolled_back.is_err() {
                    pooled.discard();
                }
                return Err(failure.into());
            }
        };
        let written =
            pooled.with(|connection| connection.run(&self.access, &queries, Grouping::Commit));
        drop(pooled);
        match written {
            Ok(_) => Ok(!writes.is_empty()),
            Err(failure) if failure.is_disconnect() => {
                self.resolve(failure, transaction.as_ref(), None)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    fn plan_writes(&mut self, reader: &TenantReader<'_>) -> Outcome<Vec<Write>> {
        Ok(plan_writes(&mut self.plan, reader, self.scope)?)
    }

    fn lock_query(&self, versions: Option<SeenVersions>) -> SqlQuery {
        let (shared, exclusive) = self.locks.values();
        let conversation = match self.scope {
            CommitScope::Conversation(key) => SqlValue::from(key.id),
            CommitScope::Tenant(_) | CommitScope::Provider(..) => SqlValue::Null,
        };
        let expected = versions.map_or(SqlValue::Null, |it| it.value());
        let tenant = self.scope.tenant().as_str();
        SqlQuery::new(BEGIN_COMMIT, values![tenant, shared, exclusive, conversation, expected])
    }

    fn queries(
        &self,
        connection: &mut PgConnection,
        writes: &[Write],
        versions: Option<SeenVersions>,
    ) -> Outcome<Vec<SqlQuery>> {
        let mut queries = vec![self.lock_query(versions)];
        queries.extend(self.writer(connection, writes)?.into_queries());
        Ok(queries)
    }

    /// The statements of the writes.
    fn writer(&self, connection: &mut PgConnection, writes: &[Write]) -> Outcome<CommitWriter> {
        let tenant = self.scope.tenant();
        let mut writer = CommitWriter::new(tenant, connection.seq_offset());
        if writes.iter().any(|write| matches!(write, Write::AddTombstones(..))) {
            writer.set_salt(super::read::own_salt(connection, tenant)?);
        }
        writes.iter().try_for_each(|write| writer.write(write))?;
        if matches!(self.scope, CommitScope::Tenant(_)) {
            writer.touch_tenant();
        }
        writer.finish()?;
        Ok(writer)
    }

    /// Learns from the server what became of a commit that it did not confirm.
    fn resolve(
        &self,
        failure: Failure,
        transaction: Option<&ServerTransaction>,
        versions: Option<SeenVersions>,
    ) -> Result<bool, AttemptFailure> {
        for delay in RECONNECT_DELAYS {
            thread::sleep(delay);
            let state = transaction.map(|it| self.transaction_state(it));
            let asked = match (state, versions) {
                (None | Some(Ok(TransactionState::Unknown)), Some(versions)) => {
                    self.is_unchanged(versions)
                }
                (None, None) => break,
                (Some(state), _) => state,
            };
            match asked {
                Ok(TransactionState::Committed) => return Ok(true),
                Ok(TransactionState::Aborted) => return Err(AttemptFailure::NotWritten(failure)),
                Ok(TransactionState::Unknown) => break,
                // The server is still busy with it, or not back yet.
                Ok(TransactionState::Open) | Err(_) => {}
            }
        }
        Err(AttemptFailure::Unknown(failure))
    }

    fn transaction_state(&self, of: &ServerTransaction) -> Outcome<TransactionState> {
        let query = SqlQuery::new("SELECT pg_xact_status($1::text::xid8)", values![of.id.as_str()]);
        let state = self.store.pool.take()?.with(|connection| {
            // A promoted standby gives the ids that it has not received to other transactions.
            if connection.timeline() != of.timeline {
                return Ok(None);
            }
            let rows = connection.run(&self.access, &[query], Grouping::None)?;
            Ok(rows.concat_first().map(|row| row.optional_text(0)).transpose()?.flatten())
        })?;
        Ok(match state.as_deref() {
            Some("committed") => TransactionState::Committed,
            Some("aborted") => TransactionState::Aborted,
            Some("in progress") => TransactionState::Open,
            _ => TransactionState::Unknown,
        })
    }

    /// Whether nothing was written since the plan, which the locks make certain: they wait for a commit in progress.
    fn is_unchanged(&self, versions: SeenVersions) -> Outcome<TransactionState> {
        let query = self.lock_query(Some(versions));
        let locked = self
            .store
            .pool
            .take()?
            .with(|connection| connection.run(&self.access, &[query], Grouping::Transaction));
        match locked {
            Ok(_) => Ok(TransactionState::Aborted),
            Err(failure) if failure.is_conflict() => Ok(TransactionState::Unknown),
            Err(failure) => Err(failure),
        }
    }
}

/// The end of a transaction.
enum TransactionState {
    Committed,
    Aborted,
    Open,
    Unknown,
}

/// A transaction of the server, in the history in which its id is unique.
struct ServerTransaction {
    id: String,
    timeline: String,
}

impl ServerTransaction {
    /// The transaction whose id `begin_commit` has returned.
    fn of(answers: &[Vec<Row>], connection: &PgConnection) -> Option<Self> {
        let id = answers.first()?.first()?.text(0).ok()?;
        Some(Self { id, timeline: connection.timeline().to_owned() })
    }
}
