//! Faults: a server or a client that is killed, a wrong password, a database that may only be
//! read, and servers that are too old or speak something else.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use treering_core::ports::Span;
use treering_core::{
    CommitScope, MessageIdx, Reader, Role, Store as _, StoreError, TenantId, Write,
};
use treering_stores::{Neo4jCredentials, Neo4jStore};
use treering_testkit::contract::{conversation, key, message, put};

use super::{address, credentials, new_store, open};

/// The environment variable that makes a test a client to be killed.
const CLIENT: &str = "TREERING_TEST_NEO4J_CLIENT";

/// A server of a test's own.
struct Server {
    script: Child,
    process: String,
    address: String,
}

impl Server {
    fn start(folder: &Path, port: u16, read_only: bool) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/neo4j/start");
        let mut script = Command::new(script)
            .args([folder.as_os_str(), port.to_string().as_ref(), read_only.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let process = line.split(' ').next().unwrap().to_owned();
        assert!(!process.is_empty(), "the server did not start");
        Self { script, process, address: format!("bolt://127.0.0.1:{port}") }
    }

    fn open(&self) -> Neo4jStore {
        let credentials =
            Neo4jCredentials { user: "neo4j".into(), password: "treering-test".into() };
        Neo4jStore::open(self.address.parse().unwrap(), credentials).unwrap()
    }

    /// Ends the server as a crash does.
    fn kill(mut self) {
        assert!(Command::new("kill").args(["-9", &self.process]).status().unwrap().success());
        self.end();
    }

    /// Ends the server and waits for it.
    fn end(&mut self) {
        drop(self.script.stdin.take());
        self.script.wait().unwrap();
        let is_running =
            || Command::new("kill").args(["-0", &self.process]).stderr(Stdio::null()).status();
        while is_running().unwrap().success() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        drop(self.script.wait());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn add(number: u8, idx: u32) -> Write {
    Write::AddMessage(key(number).id, message(idx, idx / 2, Role::User, &format!("text {idx}")))
}

fn commit(store: &Neo4jStore, writes: Vec<Write>) -> Result<(), StoreError> {
    let plan = move |_: &dyn Reader| Ok(writes.clone());
    store.commit(CommitScope::Tenant(TenantId::default()), Box::new(plan))
}

fn positions(store: &Neo4jStore, number: u8) -> Vec<u32> {
    let reader = store.reader(&TenantId::default()).unwrap();
    let messages = reader.messages(key(number).id, Span::starting(MessageIdx(0), usize::MAX));
    messages.unwrap().iter().map(|message| message.idx.0).collect()
}

/// Several writers append until the server is killed. Then it comes back, and the same store goes
/// on by itself.
#[test]
fn a_killed_server_loses_nothing_acknowledged() {
    const WRITERS: u8 = 4;
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let server = Server::start(folder.path(), port, false);
    let store = server.open();
    for number in 1..=WRITERS {
        put(&store, number);
    }
    let counts = [const { AtomicU32::new(0) }; WRITERS as usize];
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 1..=WRITERS {
            let (store, counts, stopped) = (&store, &counts, &stopped);
            scope.spawn(move || {
                for idx in 1.. {
                    match commit(store, vec![add(number, idx)]) {
                        Ok(()) => counts[usize::from(number) - 1].store(idx, Ordering::SeqCst),
                        Err(error) => {
                            assert!(stopped.load(Ordering::SeqCst), "{error}");
                            assert!(matches!(error, StoreError::Remote { .. }), "{error}");
                            assert!(error.hint().is_some(), "{error}");
                            return;
                        }
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_secs(3));
        stopped.store(true, Ordering::SeqCst);
        server.kill();
    });
    let server = Server::start(folder.path(), port, false);
    for number in 1..=WRITERS {
        let acknowledged = counts[usize::from(number) - 1].load(Ordering::SeqCst);
        let found = positions(&store, number);
        assert!(acknowledged > 0, "writer {number} wrote nothing");
        // The last commit may have been stored without an answer.
        let stored = found.len() as u32 - 1;
        assert!((acknowledged..=acknowledged + 1).contains(&stored), "{acknowledged} {stored}");
        assert!(found.iter().copied().eq(0..=stored), "a gap");
        commit(&store, vec![add(number, stored + 1)]).unwrap();
    }
    assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    drop(server);
}

/// The client of the two tests below, in a process of its own.
#[test]
fn client_to_be_killed() {
    let Ok(task) = std::env::var(CLIENT) else { return };
    let store = open();
    let say = |line: &str| {
        let mut out = std::io::stderr();
        writeln!(out, "{line}").unwrap();
    };
    if task == "hang" {
        let plan = move |_: &dyn Reader| {
            say("planning");
            std::thread::sleep(Duration::from_secs(600));
            Ok(Vec::new())
        };
        drop(store.commit(CommitScope::Tenant(TenantId::default()), Box::new(plan)));
    }
    say("planning");
    for pair in 0.. {
        let writes = vec![add(1, 2 * pair + 1), add(1, 2 * pair + 2), add(2, pair + 1)];
        commit(&store, writes).unwrap();
    }
}

/// Starts the client and returns when it works.
fn client(task: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::client_to_be_killed", "--nocapture"])
        .env(CLIENT, task)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let errors = BufReader::new(child.stderr.take().unwrap());
    assert!(errors.lines().map_while(Result::ok).any(|line| line.contains("planning")));
    child
}

/// The lock of a client that is gone does not keep others waiting.
#[test]
fn a_client_killed_while_it_plans_leaves_no_lock() {
    let (store, _guard) = new_store();
    put(&store, 1);
    let mut child = client("hang");
    std::thread::sleep(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    let started = Instant::now();
    commit(&store, vec![add(1, 1)]).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn a_client_killed_between_statements_leaves_no_half_commit() {
    for round in 0..6 {
        let (store, _guard) = new_store();
        put(&store, 1);
        put(&store, 2);
        let mut child = client("write");
        while positions(&store, 2).len() == 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(17 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // Waits for the lock, so that the last transaction has ended.
        commit(&store, vec![Write::PutConversation(conversation(3))]).unwrap();
        let (pairs, singles) = (positions(&store, 1), positions(&store, 2));
        assert_eq!(pairs.len() - 1, 2 * (singles.len() - 1), "round {round}");
        assert_eq!(store.maintenance().check().unwrap(), Vec::<String>::new());
    }
}

fn refused(result: Result<Neo4jStore, StoreError>, words: &[&str]) {
    let error = result.map(drop).unwrap_err();
    let text = format!("{error} {}", error.hint().unwrap_or_default());
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains("not-the-password"), "{text}");
}

#[test]
fn a_wrong_password_is_explained_and_not_quoted() {
    let wrong = Neo4jCredentials { password: "not-the-password".into(), ..credentials() };
    assert!(!format!("{wrong:?}").contains("not-the-password"));
    refused(Neo4jStore::open(address(), wrong), &["TREERING_STORE_PASSWORD", "Unauthorized"]);
}

/// A member of a cluster tells which one writes; a server of its own is all there is.
#[test]
fn a_server_of_its_own_is_found_by_routing() {
    let (store, _guard) = new_store();
    put(&store, 1);
    let routed = super::variable("TREERING_TEST_NEO4J").replace("bolt://", "neo4j://");
    let store = Neo4jStore::open(routed.parse().unwrap(), credentials()).unwrap();
    assert_eq!(positions(&store, 1), [0]);
    let named = format!("{routed}/neo4j").parse().unwrap();
    assert_eq!(positions(&Neo4jStore::open(named, credentials()).unwrap(), 1), [0]);
    let other = format!("{routed}/nothing").parse().unwrap();
    refused(Neo4jStore::open(other, credentials()), &["nothing", "create the database"]);
}

#[test]
fn a_server_that_is_away_is_explained() {
    let address = format!("bolt://127.0.0.1:{}", free_port()).parse().unwrap();
    refused(Neo4jStore::open(address, credentials()), &["cannot connect", "store.url"]);
}

/// Accepts one connection, reads the handshake and answers it.
fn answering(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("bolt://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut handshake = [0; 20];
        stream.read_exact(&mut handshake).unwrap();
        stream.write_all(answer).unwrap();
        while !answer.is_empty() && stream.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
    });
    address
}

#[test]
fn servers_that_speak_no_known_version_are_refused() {
    for answer in [&[0, 0, 0, 0][..], &[0, 0, 4, 4], b"HTTP/1.1 400 Bad Request", b""] {
        let address = answering(answer).parse().unwrap();
        refused(Neo4jStore::open(address, credentials()), &["Bolt 5", "5.26", "7687"]);
    }
}

#[test]
fn an_older_server_is_refused_by_its_version() {
    // The handshake, and successes to the greeting and to the credentials.
    let answer: &[u8] = b"\0\0\x04\x05\
        \0\x17\xb1\x70\xa1\x86server\x8cNeo4j/5.20.0\0\0\
        \0\x03\xb1\x70\xa0\0\0";
    let address = answering(answer).parse().unwrap();
    refused(Neo4jStore::open(address, credentials()), &["5.20.0", "5.26", "upgrade"]);
}

/// A database that may only be read, which in the Community edition stands for a user who may.
#[test]
fn a_database_that_may_only_be_read_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut server = Server::start(folder.path(), port, false);
    put(&server.open(), 1);
    let process = server.process.clone();
    assert!(Command::new("kill").arg(&process).status().unwrap().success());
    server.end();
    let server = Server::start(folder.path(), port, true);
    let store = server.open();
    assert_eq!(positions(&store, 1), [0]);
    let error = commit(&store, vec![add(1, 1)]).unwrap_err();
    let text = format!("{error} {}", error.hint().unwrap_or_default());
    assert!(text.contains("read-only") && text.contains("write access"), "{text}");
}
