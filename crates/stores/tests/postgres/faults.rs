//! Servers and connections that end while commits run: nothing acknowledged is lost, nothing is stored twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use treering_core::ports::Span;
use treering_core::{CommitScope, Message, MessageIdx, Reader, Role, Store, TenantId, Write};
use treering_stores::{PostgresOptions, PostgresStore};
use treering_testkit::contract::{key, put};

use crate::server::{OwnServer, RawConnection, Schema, new_store, open};

const WRITERS: u32 = 6;
const CONVERSATIONS: u8 = 3;

/// Appends a message with this text to a conversation.
fn append(store: &PostgresStore, number: u8, text: &str) -> Result<(), treering_core::StoreError> {
    let text = text.to_owned();
    let plan = move |reader: &dyn Reader| {
        let mut it = reader.conversation(key(number).id)?.unwrap();
        let span = Span::starting(MessageIdx(0), 1);
        let first: Message = reader.messages(it.id, span)?.pop().unwrap();
        let mut message = Message { idx: MessageIdx(it.totals.messages), ..first };
        message.body.role = Role::Assistant;
        message.body.external_id = None;
        message.set_content(text.clone(), None, Some(1));
        it.totals.messages += 1;
        let id = it.id;
        Ok(vec![Write::PutConversation(it), Write::AddMessage(id, message)])
    };
    store.commit(CommitScope::Conversation(key(number)), Box::new(plan))
}

fn stored_texts(store: &PostgresStore, number: u8) -> Vec<String> {
    let reader = store.reader(&TenantId::default()).unwrap();
    let messages =
        reader.messages(key(number).id, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    let positions = messages.iter().map(|message| message.idx.0);
    assert!(positions.eq(0..messages.len() as u32), "positions have no gap");
    messages.into_iter().skip(1).map(|message| message.body.text).collect()
}

/// The answers that the writers got for each of their messages.
#[derive(Default)]
struct Answers {
    acknowledged: Vec<(u8, String)>,
    /// Messages whose commit returned an error.
    failed: Vec<(u8, String)>,
}

/// Several writers append to shared conversations while `disturb` runs.
fn append_while(store: &PostgresStore, disturb: impl FnOnce()) -> Answers {
    let (answers, done) = (Mutex::<Answers>::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (answers, done) = (&answers, &done);
            scope.spawn(move || {
                for round in 0_u32.. {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    let number = ((writer + round) % u32::from(CONVERSATIONS)) as u8;
                    let text = format!("{writer}-{round}");
                    let appended = append(store, number, &text);
                    let mut answers = answers.lock().unwrap();
                    match appended {
                        Ok(()) => answers.acknowledged.push((number, text)),
                        Err(_) => answers.failed.push((number, text)),
                    }
                }
            });
        }
        disturb();
        done.store(true, Ordering::Release);
    });
    answers.into_inner().unwrap()
}

/// Everything acknowledged is stored once; everything else that is stored was answered with an error.
fn check(store: &PostgresStore, answers: &Answers) {
    for number in 0..CONVERSATIONS {
        let mut stored = stored_texts(store, number);
        stored.sort();
        let count = stored.len();
        stored.dedup();
        assert_eq!(stored.len(), count, "nothing is stored twice");
        let of = |list: &[(u8, String)]| -> Vec<String> {
            list.iter().filter(|(of, _)| *of == number).map(|(_, text)| text.clone()).collect()
        };
        let (acknowledged, failed) = (of(&answers.acknowledged), of(&answers.failed));
        for text in &acknowledged {
            assert!(stored.binary_search(text).is_ok(), "{text} was acknowledged and is lost");
        }
        for text in &stored {
            assert!(acknowledged.contains(text) || failed.contains(text), "{text} is unknown");
        }
    }
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
}

fn put_conversations(store: &PostgresStore) {
    (0..CONVERSATIONS).for_each(|number| put(store, number));
}

#[test]
fn a_killed_server_loses_nothing() {
    let server = OwnServer::start();
    let store = open(&server.address);
    put_conversations(&store);
    let answers = append_while(&store, || {
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(700));
            server.kill();
            server.restart();
        }
        std::thread::sleep(Duration::from_secs(1));
    });
    assert!(answers.acknowledged.len() > 20, "{} acknowledged", answers.acknowledged.len());
    check(&store, &answers);
    println!("{} acknowledged, {} failed", answers.acknowledged.len(), answers.failed.len());
}

/// The server ends connections in the middle of commits. The store learns what became of them, so that callers see no error.
#[test]
fn broken_connections_are_replaced() {
    let (store, schema) = new_store();
    put_conversations(&store);
    let answers = append_while(&store, || {
        let killer = schema.connect();
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(3) {
            killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity a WHERE application_name = 'treering'
                AND EXISTS (SELECT FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
                    WHERE l.pid = a.pid AND c.relnamespace = current_schema()::regnamespace)",
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let usage = store.maintenance().connections().unwrap();
    assert!(usage.broken > 3, "{usage:?}");
    check(&store, &answers);
    println!("{} acknowledged, {} failed", answers.acknowledged.len(), answers.failed.len());
}

#[test]
fn a_promoted_standby_has_everything_acknowledged() {
    let server = OwnServer::start();
    let (standby, host) = server.standby();
    let primary = server.address.split(['@', '/']).nth(3).unwrap();
    let url = format!("postgres://app@{primary},{host}/postgres?target_session_attrs=read-write");
    let store = open(&url);
    put_conversations(&store);
    let answers = append_while(&store, || {
        std::thread::sleep(Duration::from_secs(1));
        server.kill();
        server.promote(&standby);
        let promoted = RawConnection::open(&format!("postgres://treering@{host}/postgres"));
        promoted.execute("ALTER SYSTEM RESET synchronous_standby_names");
        promoted.execute("SELECT pg_reload_conf()");
        std::thread::sleep(Duration::from_secs(2));
    });
    let late = answers.acknowledged.len();
    assert!(late > 20, "{late} acknowledged");
    check(&store, &answers);
    println!("{late} acknowledged, {} failed", answers.failed.len());
    drop(store);
    server.stop(&standby);
}

#[test]
fn errors_say_what_to_do() {
    let schema = Schema::new();
    let refused = |url: &str| {
        let options = PostgresOptions { url: url.into(), ..PostgresOptions::default() };
        PostgresStore::open(&options).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let nobody = refused("postgres://app@127.0.0.1:1/postgres");
    assert!(nobody.contains("check the address and that it is running"), "{nobody}");
    let url = schema.url();
    let missing = refused(&url.replace("/postgres?", "/absent?"));
    assert!(missing.contains("CREATE DATABASE"), "{missing}");
    let unknown = refused(&url.replace("app@", "stranger@"));
    assert!(unknown.contains("stranger"), "{unknown}");
}
