//! Two servers and a worker, as processes, on one PostgreSQL database, with kills. `tools/test-postgres` starts the
//! database and passes its address in `TREERING_POSTGRES`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::expect_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long the processes are killed and started again.
const PERIOD: Duration = Duration::from_secs(30);
const WRITERS: usize = 4;
const CONVERSATIONS: usize = 5;

/// The address of a schema of its own, without the user, who comes from the environment.
fn store_url(schema: &str) -> String {
    let server = std::env::var("TREERING_POSTGRES").expect("tools/test-postgres sets it");
    let address = server.split_whitespace().next().unwrap().replace("app@", "");
    format!("{address}?schema={schema}_{}", std::process::id())
}

fn treering(home: &Path, url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
    command.env_clear().env("TREERING_HOME", home).env("HOME", home);
    command.env("TREERING_STORE_URL", url).env("TREERING_STORE_USER", "app");
    command.args(args).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
    command
}

fn json_of(home: &Path, url: &str, args: &[&str]) -> Value {
    let args = [&["--json"], args].concat();
    let output = treering(home, url, &args).stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{args:?}: {text}"))
}

/// A process that is killed and started again.
struct Process {
    child: Child,
    address: String,
    /// The process stops if its output closes.
    _output: Option<BufReader<ChildStdout>>,
}

impl Process {
    fn serve(home: &Path, url: &str) -> Self {
        let args = ["--json", "serve", "--address", "127.0.0.1:0"];
        let mut child = treering(home, url, &args).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.ends_with("}\n") {
            assert!(lines.read_line(&mut text).unwrap() > 0, "it ended: {text}");
        }
        let ready: Value = serde_json::from_str(&text).unwrap();
        let address = ready["address"].as_str().unwrap().to_owned();
        Self { child, address, _output: Some(lines) }
    }

    fn work(home: &Path, url: &str) -> Self {
        let mut command = treering(home, url, &["work", "--watch"]);
        let child = command.stdout(Stdio::null()).spawn().unwrap();
        Self { child, address: String::new(), _output: None }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Appends a turn through a server. Returns whether it was acknowledged.
fn append(agent: &ureq::Agent, address: &str, conversation: usize, id: &str) -> bool {
    let turn = json!({ "type": "turn", "user": format!("How is gate {id}? {}", "We wait. ".repeat(40)),
        "assistant": format!("Gate {id} holds. {}", "It is calm. ".repeat(40)), "external_id": id });
    let body = json!({ "key": format!("day-{conversation}"), "entries": [turn] });
    let request = ureq::http::Request::builder()
        .method("POST")
        .uri(format!("{address}/v1/append"))
        .header("content-type", "application/json")
        .body(body.to_string())
        .unwrap();
    agent.run(request).is_ok_and(|response| response.status() == 200)
}

#[test]
fn servers_and_workers_are_killed_and_nothing_acknowledged_is_lost() {
    let url = store_url("many");
    let homes = [0, 1, 2].map(|_| tempfile::tempdir().unwrap());
    let home = |number: usize| homes[number].path();
    let servers = [0, 1].map(|number| Mutex::new(Process::serve(home(number), &url)));
    let address = |number: usize| servers[number].lock().unwrap().address.clone();
    let (done, acknowledged) = (AtomicBool::new(false), Mutex::new(BTreeMap::new()));
    let mut worker = Process::work(home(2), &url);
    let mut kills = 0;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (done, acknowledged, address) = (&done, &acknowledged, &address);
            scope.spawn(move || {
                let timeout = Some(Duration::from_secs(10));
                let agent: ureq::Agent =
                    ureq::Agent::config_builder().timeout_global(timeout).build().into();
                for round in 0_usize.. {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    let (conversation, id) =
                        ((writer + round) % CONVERSATIONS, format!("{writer}-{round}"));
                    // A turn that was not acknowledged is sent again, also to the other server.
                    let mut attempts = (0..200).map(|attempt| {
                        let sent =
                            append(&agent, &address((round + attempt) % 2), conversation, &id);
                        if !sent {
                            std::thread::sleep(Duration::from_millis(50));
                        }
                        sent
                    });
                    assert!(attempts.any(|sent| sent), "{id} was never accepted");
                    acknowledged.lock().unwrap().insert(id, conversation);
                }
            });
        }
        let started = Instant::now();
        while started.elapsed() < PERIOD {
            std::thread::sleep(Duration::from_millis(1500));
            match kills % 3 {
                2 => worker = Process::work(home(2), &url),
                number => {
                    // The writers wait for the address of the new process.
                    let mut server = servers[number].lock().unwrap();
                    *server = Process::serve(home(number), &url);
                }
            }
            kills += 1;
        }
        done.store(true, Ordering::Release);
    });
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 50, "{} turns", acknowledged.len());
    await_jobs(home(0), &url);
    for conversation in 0..CONVERSATIONS {
        let sent = acknowledged.values().filter(|of| **of == conversation).count();
        let key = format!("day-{conversation}");
        let stored = stored_ids(home(0), &url, &key);
        assert_eq!(stored.len(), sent, "{key}: every turn once");
        let expected = acknowledged.iter().filter(|(_, of)| **of == conversation);
        for (id, _) in expected {
            assert!(stored.contains_key(id), "{id} was acknowledged and is lost");
        }
    }
    let verified = treering(home(0), &url, &["verify"]).status().unwrap();
    assert!(verified.success(), "{verified}");
    println!("{} turns acknowledged, {kills} kills", acknowledged.len());
    drop(worker);
}

/// How often the turns of a conversation with each external id are stored.
fn stored_ids(home: &Path, url: &str, key: &str) -> BTreeMap<String, u32> {
    let output = treering(home, url, &["export", key]).output().unwrap();
    let mut ids = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let id = entry["external_id"].as_str().unwrap_or_default();
        // A turn gives its id to both of its messages, with a suffix.
        let id = id.split(['/', '#', ':']).next().unwrap_or_default().to_owned();
        if entry["role"] == "user" {
            *ids.entry(id).or_default() += 1;
        }
    }
    assert!(ids.values().all(|count| *count == 1), "stored twice: {ids:?}");
    ids
}

fn await_jobs(home: &Path, url: &str) {
    let started = Instant::now();
    while json_of(home, url, &["jobs"])["jobs"] != json!([]) {
        assert!(started.elapsed() < Duration::from_secs(60), "the jobs do not end");
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The commands of a person, on PostgreSQL.
#[test]
fn the_program_works_on_postgresql() {
    let (url, home) = (store_url("person"), tempfile::tempdir().unwrap());
    let (home, other) = (home.path(), tempfile::tempdir().unwrap());
    for number in 0..12 {
        let (user, assistant) =
            (format!("Which port does service {number} use?"), format!("It uses 74{number:02}."));
        let args = ["append", "--key", "ports", "--user", &user, "--assistant", &assistant];
        assert!(treering(home, &url, &args).status().unwrap().success());
    }
    for args in [&["work"][..], &["verify"], &["doctor"], &["stats"], &["tenant", "list"]] {
        let ran = treering(home, &url, args).output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stdout));
    }
    let sessions = json_of(home, &url, &["sessions"]);
    let slug = sessions["conversations"][0]["slug"].as_str().unwrap().to_owned();
    assert!(!json_of(home, &url, &["search", "port"])["hits"].as_array().unwrap().is_empty());
    let context = json_of(home, &url, &["context", &slug, "--query", "port"]);
    assert!(context["receipt"].is_object(), "{context}");
    // There and back: the store in the folder has the same content.
    let folder = other.path().join("store");
    let target = folder.to_str().unwrap();
    let copied = treering(home, &url, &["copy", "--from", &url, "--to", target]).status().unwrap();
    assert!(copied.success());
    let export = |home: &Path, url: &str| {
        String::from_utf8(treering(home, url, &["export", "--all"]).output().unwrap().stdout)
            .unwrap()
    };
    assert_eq!(export(home, &url), export(&folder, ""));
    let moved = treering(home, &url, &["tenant", "move", "default", "--to", &store_url("moved")]);
    assert!({ moved }.status().unwrap().success());
    assert_eq!(json_of(home, &url, &["tenant", "list"]), json!([]));
    assert_eq!(export(home, &store_url("moved")), export(&folder, ""));
}
