//! One connection. Statements of one call are sent in one flight: all of them leave before the first
//! answer arrives, so that a commit of many statements costs one round trip.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};
use treering_core::TenantId;

use super::error::{Failure, Outcome};
use super::options::ServerTarget;
use super::pool::Counters;
use super::value::{Columns, SqlValue};

/// Maximum time to wait for a lock of the server.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(15);

/// Limits of the server for one statement, one lock and one idle transaction. A transaction that stays open keeps the
/// followers of the change feed waiting.
const TIMEOUTS: &str = "SET statement_timeout = '120s'; SET lock_timeout = '15s';
    SET idle_in_transaction_session_timeout = '60s'; SET client_min_messages = error";

/// Maximum time to wait for an answer. Longer than the limits of the server, which give the better message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(150);

/// Maximum number of statements that stay prepared on a connection.
const MAX_PREPARED: usize = 500;

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub(super) struct SqlQuery {
    pub(super) sql: Cow<'static, str>,
    pub(super) values: Vec<SqlValue>,
}

impl SqlQuery {
    pub(super) fn new(sql: impl Into<Cow<'static, str>>, values: Vec<SqlValue>) -> Self {
        Self { sql: sql.into(), values }
    }
}

/// The rows that a statement may touch, which row-level security enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    Tenant(TenantId),
    AllTenants,
}

impl Access {
    fn setting(&self) -> &str {
        match self {
            Self::Tenant(tenant) => tenant.as_str(),
            Self::AllTenants => "*",
        }
    }
}

/// How the statements of a flight belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grouping {
    /// They are part of the open transaction, or each stands alone.
    None,
    /// They read one snapshot.
    Snapshot,
    /// They are one transaction.
    Transaction,
    /// They begin a transaction that stays open.
    Begin,
    /// They end the open transaction.
    Commit,
}

/// A connection with its prepared statements.
pub(super) struct PgConnection {
    client: Client,
    statements: HashMap<Cow<'static, str>, Statement>,
    access: Option<Access>,
    /// Added to the number of every write of a commit (schema/0001_tables.sql).
    seq_offset: i64,
    /// The history of the server that it writes: a promoted standby begins another one.
    timeline: String,
    /// The answers that arrived before the last flight failed.
    partial: Vec<Vec<Row>>,
    counters: Arc<Counters>,
}

/// Sends one message of a flight and waits for its answer.
type Exchange<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send + 'a>>;

impl PgConnection {
    /// Connects, with the tables of the store in the search path.
    pub(super) fn open(
        target: &ServerTarget,
        runtime: &Handle,
        counters: Arc<Counters>,
    ) -> Outcome<Self> {
        let (config, tls, handle) = (target.config.clone(), target.tls.clone(), runtime.clone());
        let setup = format!("{TIMEOUTS}; SET search_path = {}, public", target.schema);
        let connecting = runtime.spawn(async move {
            let (client, connection) = config.connect(tls).await?;
            // Ends with the client.
            handle.spawn(async move { drop(connection.await) });
            client.batch_execute(&setup).await?;
            Ok::<_, tokio_postgres::Error>(client)
        });
        let client = wait(connecting, ANSWER_TIMEOUT)
            .ok_or(Failure::TimedOut(ANSWER_TIMEOUT))?
            .map_err(super::value::UndecodableRow::new)??;
        Ok(Self {
            client,
            statements: HashMap::new(),
            access: None,
            seq_offset: 0,
            timeline: String::new(),
            partial: Vec::new(),
            counters,
        })
    }

    /// Reads the offset of sequence numbers and the timeline, once the tables exist.
    pub(super) fn read_server_state(&mut self) -> Outcome<()> {
        let sql = "SELECT xid_offset << 20, CASE WHEN pg_is_in_recovery() THEN ''
            ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END FROM store";
        let query = SqlQuery::new(sql, Vec::new());
        let rows = self.run(&Access::AllTenants, &[query], Grouping::None)?;
        if let Some(row) = rows.concat_first() {
            (self.seq_offset, self.timeline) = (row.long(0)?, row.text(1)?);
        }
        Ok(())
    }

    pub(super) fn timeline(&self) -> &str {
        &self.timeline
    }

    pub(super) const fn seq_offset(&self) -> i64 {
        self.seq_offset
    }

    /// The answers that arrived before the last flight failed.
    pub(super) fn take_partial(&mut self) -> Vec<Vec<Row>> {
        std::mem::take(&mut self.partial)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Executes statements without parameters, one after the other.
    pub(super) fn execute_batch(&self, sql: &str) -> Outcome<()> {
        Ok(wait(self.client.batch_execute(sql), ANSWER_TIMEOUT)
            .ok_or(Failure::TimedOut(ANSWER_TIMEOUT))??)
    }

    /// The first column of the first row of a statement, as text.
    pub(super) fn first_text(&self, sql: &str) -> Outcome<Option<String>> {
        let messages = wait(self.client.simple_query(sql), ANSWER_TIMEOUT)
            .ok_or(Failure::TimedOut(ANSWER_TIMEOUT))??;
        Ok(messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        }))
    }

    /// Sends statements in one flight and returns the rows of each. After an error, no transaction is open.
    pub(super) fn run(
        &mut self,
        access: &Access,
        queries: &[SqlQuery],
        grouping: Grouping,
    ) -> Outcome<Vec<Vec<Row>>> {
        let ran = self.try_run(access, queries, grouping);
        match &ran {
            Err(failure) if failure.is_disconnect() => {}
            Err(failure) => {
                if failure.is_stale_plan() {
                    self.statements.clear();
                }
                if matches!(grouping, Grouping::Begin | Grouping::None) {
                    // Without a transaction, this is only a warning.
                    self.execute_batch("ROLLBACK")?;
                }
            }
            Ok(_) => {}
        }
        ran
    }

    fn try_run(
        &mut self,
        access: &Access,
        queries: &[SqlQuery],
        grouping: Grouping,
    ) -> Outcome<Vec<Vec<Row>>> {
        self.prepare(queries)?;
        let (before, after) = match grouping {
            Grouping::None => (None, None),
            Grouping::Snapshot => {
                (Some("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"), Some("COMMIT"))
            }
            Grouping::Transaction => (Some("BEGIN"), Some("COMMIT")),
            Grouping::Begin => (Some("BEGIN"), None),
            Grouping::Commit => (None, Some("COMMIT")),
        };
        let mut flight: Vec<Exchange<'_>> = Vec::with_capacity(queries.len() + 3);
        let is_other = self.access.as_ref() != Some(access);
        if is_other {
            let setting = access.setting().replace('\'', "''");
            let sql = format!("SELECT set_config('treering.tenant', '{setting}', false)");
            flight.push(Box::pin(simple(&self.client, sql.into())));
            // Unknown until the answer arrives.
            self.access = None;
        }
        flight.extend(
            before.map(|sql| -> Exchange<'_> { Box::pin(simple(&self.client, sql.into())) }),
        );
        let first = flight.len();
        for query in queries {
            let Some(statement) = self.statements.get(&query.sql) else { continue };
            flight.push(Box::pin(extended(&self.client, statement, &query.values)));
        }
        let end = flight.len();
        flight.extend(
            after.map(|sql| -> Exchange<'_> { Box::pin(simple(&self.client, sql.into())) }),
        );
        let (started, statements) = (Instant::now(), queries.len() as u64);
        let answered = wait(Flight::new(flight), ANSWER_TIMEOUT);
        self.counters.statements.fetch_add(statements, Ordering::Relaxed);
        self.counters.round_trips.fetch_add(1, Ordering::Relaxed);
        let waited = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.waited_micros.fetch_add(waited, Ordering::Relaxed);
        let Some(answers) = answered else {
            return Err(Failure::TimedOut(ANSWER_TIMEOUT));
        };
        let mut rows = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Ok(answer) => rows.push(answer),
                Err(error) => {
                    self.partial =
                        if rows.len() > first { rows.split_off(first) } else { Vec::new() };
                    return Err(error.into());
                }
            }
        }
        if is_other {
            self.access = Some(access.clone());
        }
        rows.truncate(end);
        Ok(rows.split_off(first))
    }

    /// Prepares the statements that are not, in one flight.
    fn prepare(&mut self, queries: &[SqlQuery]) -> Outcome<()> {
        if self.statements.len() > MAX_PREPARED {
            self.statements.clear();
        }
        let mut missing: Vec<Cow<'static, str>> = Vec::new();
        for query in queries {
            if !self.statements.contains_key(&query.sql) && !missing.contains(&query.sql) {
                missing.push(query.sql.clone());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let client = &self.client;
        let flight = missing
            .iter()
            .map(|sql| client.prepare(sql))
            .map(|it| Box::pin(it) as Pin<Box<dyn Future<Output = _> + Send>>);
        let prepared = wait(Flight::new(flight.collect()), ANSWER_TIMEOUT)
            .ok_or(Failure::TimedOut(ANSWER_TIMEOUT))?;
        for (sql, statement) in missing.into_iter().zip(prepared) {
            self.statements.insert(sql, statement?);
        }
        Ok(())
    }
}

/// The first row of the first statement.
pub(super) trait FirstRow {
    fn concat_first(&self) -> Option<&Row>;
}

impl FirstRow for Vec<Vec<Row>> {
    fn concat_first(&self) -> Option<&Row> {
        self.first().and_then(|rows| rows.first())
    }
}

async fn simple(
    client: &Client,
    sql: Cow<'static, str>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    client.batch_execute(&sql).await.map(|()| Vec::new())
}

async fn extended(
    client: &Client,
    statement: &Statement,
    values: &[SqlValue],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| value as _).collect();
    client.query(statement, &values).await
}

/// Polls futures in order, so that their messages leave in order, until all of them are done.
struct Flight<'a, T> {
    waiting: Vec<Option<Pin<Box<dyn Future<Output = T> + Send + 'a>>>>,
    done: Vec<Option<T>>,
    /// Everything before this index is done: answers arrive in order.
    first: usize,
    is_sent: bool,
}

impl<'a, T> Flight<'a, T> {
    fn new(exchanges: Vec<Pin<Box<dyn Future<Output = T> + Send + 'a>>>) -> Self {
        let done = exchanges.iter().map(|_| None).collect();
        Self { waiting: exchanges.into_iter().map(Some).collect(), done, first: 0, is_sent: false }
    }
}

impl<T: Unpin> Future for Flight<'_, T> {
    type Output = Vec<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<T>> {
        let this = self.get_mut();
        for index in this.first..this.waiting.len() {
            if let Some(exchange) = &mut this.waiting[index] {
                match exchange.as_mut().poll(context) {
                    Poll::Ready(answer) => {
                        this.done[index] = Some(answer);
                        this.waiting[index] = None;
                    }
                    // The first poll sends every message; later polls only wait for the next answer.
                    Poll::Pending if this.is_sent => break,
                    Poll::Pending => {}
                }
            }
        }
        this.is_sent = true;
        while this.first < this.waiting.len() && this.waiting[this.first].is_none() {
            this.first += 1;
        }
        if this.first < this.waiting.len() {
            return Poll::Pending;
        }
        Poll::Ready(this.done.iter_mut().filter_map(Option::take).collect())
    }
}

/// Wakes a parked thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Blocks the thread until the future is done; `None` after the timeout. Unlike the `block_on` of a runtime, it works
/// inside an asynchronous task as well.
pub(super) fn wait<F: Future>(future: F, timeout: Duration) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let started = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = timeout.checked_sub(started.elapsed()).filter(|left| !left.is_zero())?;
        thread::park_timeout(left);
    }
}
