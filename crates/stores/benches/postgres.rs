//! Figures of the PostgreSQL store beside plain statements on the same server:
//! `TREERING_POSTGRES="$(tools/postgres/start)" cargo bench --package treering-stores --features postgres`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio_postgres::NoTls;
use treering_core::ports::{ChangeFilter, Cursor, JobFilter, Span};
use treering_core::{
    BatchSizes, CommitScope, Job, JobKind, Message, MessageIdx, Reader, Store, TenantId, Timestamp,
    TurnNo, Write,
};
use treering_stores::{PostgresOptions, PostgresStore};
use treering_testkit::contract::{key, put};

/// Bytes of the text of a message.
const BYTES: usize = 1500;
const WRITERS: u32 = 16;

fn main() {
    let address = std::env::var("TREERING_POSTGRES").unwrap();
    let address = address.split_whitespace().next().unwrap().to_owned();
    let schema = format!("bench_{}", std::process::id());
    let options = PostgresOptions {
        url: format!("{address}?schema={schema}&pool=20"),
        ..PostgresOptions::default()
    };
    let store = PostgresStore::open(&options).unwrap();
    (0..WRITERS as u8).for_each(|number| put(&store, number));

    let insert = plain_inserts(&address, &schema, 500);
    let append = times(500, || append(&store, 0));
    println!("one prepared INSERT in its own transaction: {}", percentiles(&insert));
    println!("append of one message:                      {}", percentiles(&append));
    println!("ratio of the medians: {:.2}", ratio(&append, &insert));

    let seconds = Duration::from_secs(5);
    let one = throughput(&store, 1, seconds);
    let many = throughput(&store, WRITERS, seconds);
    println!(
        "1 writer: {one:.0} appends/s; {WRITERS} writers: {many:.0} appends/s; ratio {:.2}",
        many / one
    );
    let shared = contended(&store, seconds);
    println!("{WRITERS} writers of one conversation: {shared:.0} appends/s");

    let reader = store.reader(&TenantId::default()).unwrap();
    let reads = times(500, || {
        drop(
            reader
                .messages(key(0).id, Span { limit: 50, ..Span::starting(MessageIdx(100), 50) })
                .unwrap(),
        );
    });
    println!("50 messages: {}", percentiles(&reads));
    let started = Instant::now();
    let (mut cursor, mut changes) = (Cursor::start(), 0);
    loop {
        let page = reader.changes(&cursor, &ChangeFilter::content(), 1000).unwrap();
        changes += page.items.len();
        cursor = page.cursor;
        if page.is_last {
            break;
        }
    }
    println!("change feed: {:.0} changes/s", changes as f64 / started.elapsed().as_secs_f64());
    println!("jobs: {:.0} leases/s by 8 workers", leases(&store));
}

fn percentiles(times: &[Duration]) -> String {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    format!("p50 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.99))
}

fn ratio(a: &[Duration], b: &[Duration]) -> f64 {
    a[a.len() / 2].as_secs_f64() / b[b.len() / 2].as_secs_f64()
}

/// The sorted durations of calls, after a warm-up.
fn times(count: usize, mut call: impl FnMut()) -> Vec<Duration> {
    (0..50).for_each(|_| call());
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let started = Instant::now();
            call();
            started.elapsed()
        })
        .collect();
    times.sort();
    times
}

/// One INSERT of as many bytes, prepared, in its own transaction.
fn plain_inserts(address: &str, schema: &str, count: usize) -> Vec<Duration> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, statement) = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
        tokio::spawn(connection);
        let table = format!("{schema}.plain");
        let create = format!("CREATE TABLE {table} (id bigserial PRIMARY KEY, text text NOT NULL)");
        client.batch_execute(&create).await.unwrap();
        let insert = format!("INSERT INTO {table} (text) VALUES ($1)");
        let statement = client.prepare(&insert).await.unwrap();
        (client, statement)
    });
    let text = "x".repeat(BYTES);
    times(count, || {
        runtime.block_on(client.execute(&statement, &[&text])).unwrap();
    })
}

/// Appends a message the way ingest does: reads the conversation, writes its row and the message.
fn append(store: &PostgresStore, number: u8) {
    let plan = move |reader: &dyn Reader| {
        let mut it = reader.conversation(key(number).id)?.unwrap();
        let mut message = message();
        message.idx = MessageIdx(it.totals.messages);
        it.totals.messages += 1;
        let id = it.id;
        Ok(vec![Write::PutConversation(it), Write::AddMessage(id, message)])
    };
    store.commit(CommitScope::Conversation(key(number)), Box::new(plan)).unwrap();
}

fn message() -> Message {
    let mut message = treering_testkit::contract::message(0, 0, treering_core::Role::User, "");
    message.body.external_id = None;
    message.set_content("x".repeat(BYTES), None, Some(400));
    message
}

/// Appends per second, with one conversation for each writer.
fn throughput(store: &PostgresStore, writers: u32, period: Duration) -> f64 {
    let (count, started) = (AtomicU32::new(0), Instant::now());
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let count = &count;
            scope.spawn(move || {
                while started.elapsed() < period {
                    append(store, writer as u8);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    f64::from(count.into_inner()) / started.elapsed().as_secs_f64()
}

/// Appends per second by many writers of one conversation.
fn contended(store: &PostgresStore, period: Duration) -> f64 {
    let (count, started) = (AtomicU32::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while started.elapsed() < period {
                    append(store, 0);
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    f64::from(count.into_inner()) / started.elapsed().as_secs_f64()
}

fn leases(store: &PostgresStore) -> f64 {
    let now = Timestamp::from_micros(1_800_000_000_000_000);
    for number in 0..8_u8 {
        let job = |turn| Job::plan(key(number).id, JobKind::EmbedTurn(TurnNo(turn)), now);
        let writes: Vec<Write> = (0..500).map(|turn| Write::AddJob(job(turn))).collect();
        let scope = CommitScope::Conversation(key(number));
        store.commit(scope, Box::new(move |_| Ok(writes.clone()))).unwrap();
    }
    let (count, started) = (AtomicU32::new(0), Instant::now());
    let sizes = BatchSizes { turns: 16, others: 4 };
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let count = &count;
            scope.spawn(move || {
                let due = JobFilter { due: Some(now), ..JobFilter::all(usize::MAX) };
                loop {
                    let name = format!("worker {worker}");
                    let jobs = store.lease(&TenantId::default(), &due, &name, sizes).unwrap();
                    if jobs.is_empty() {
                        break;
                    }
                    count.fetch_add(jobs.len() as u32, Ordering::Relaxed);
                }
            });
        }
    });
    f64::from(count.into_inner()) / started.elapsed().as_secs_f64()
}
