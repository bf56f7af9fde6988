//! The server of the tests, a schema of its own for each test, and servers that a test may kill.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use treering_stores::{PostgresOptions, PostgresStore};

/// Address, data folder and program folder of the server, from `TREERING_POSTGRES`.
fn shared_server() -> Vec<String> {
    let server = std::env::var("TREERING_POSTGRES");
    let server =
        server.unwrap_or_else(|_| panic!("run tools/test-postgres, which starts a server"));
    server.split_whitespace().map(str::to_owned).collect()
}

pub(crate) fn address() -> String {
    shared_server()[0].clone()
}

/// The log of the shared server.
pub(crate) fn log_file() -> PathBuf {
    Path::new(&shared_server()[1]).parent().unwrap().join("log")
}

/// Runs a program of PostgreSQL with a script, for all tenants.
pub(crate) fn program(name: &str, url: &str, arguments: &[String], script: &Path) {
    let mut command = Command::new(Path::new(&shared_server()[2]).join(name));
    command.env("PGOPTIONS", "-c treering.tenant=*").args(arguments);
    command.args(["--dbname", url, "--file"]).arg(script);
    assert!(command.status().unwrap().success(), "{name}");
}

/// A schema that no other test uses. Dropped with its tables at the end of the test.
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("test_{}_{number}", std::process::id()))
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}&pool=16", address(), self.0)
    }

    pub(crate) fn open(&self) -> PostgresStore {
        open(&self.url())
    }

    /// A connection of its own, with the schema in its search path.
    pub(crate) fn connect(&self) -> RawConnection {
        let connection = RawConnection::open(&address());
        connection.execute(&format!("SET search_path = {}, public", self.0));
        connection
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let drop = format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0);
        RawConnection::open(&address()).execute(&drop);
    }
}

/// Opens a store with default options.
pub(crate) fn open(url: &str) -> PostgresStore {
    let options = PostgresOptions { url: url.into(), ..PostgresOptions::default() };
    PostgresStore::open(&options).unwrap()
}

/// An empty store, and the schema that holds it.
pub(crate) fn new_store() -> (PostgresStore, Schema) {
    let schema = Schema::new();
    (schema.open(), schema)
}

/// A connection without a store.
pub(crate) struct RawConnection {
    client: Client,
    runtime: Runtime,
}

impl RawConnection {
    pub(crate) fn open(url: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            tokio::spawn(connection);
            client
        });
        Self { client, runtime }
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.try_execute(sql).unwrap();
    }

    pub(crate) fn try_execute(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        self.runtime.block_on(self.client.batch_execute(sql))
    }

    /// The first column of the first row.
    pub(crate) fn first(&self, sql: &str) -> Option<String> {
        let messages = self.runtime.block_on(self.client.simple_query(sql)).unwrap();
        messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    }
}

/// A server that belongs to one test.
pub(crate) struct OwnServer {
    pub(crate) address: String,
    data: PathBuf,
    programs: PathBuf,
    child: Child,
    /// The server stops when this closes.
    input: Option<ChildStdin>,
}

impl OwnServer {
    pub(crate) fn start() -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/postgres/start");
        let mut child =
            Command::new(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut words = line.split_whitespace().map(str::to_owned);
        Self {
            address: words.next().unwrap(),
            data: words.next().unwrap().into(),
            programs: words.next().unwrap().into(),
            child,
            input: Some(input),
        }
    }

    fn port(&self) -> &str {
        self.address.split([':', '/']).rev().nth(1).unwrap()
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&self) {
        let pid = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap().to_owned();
        assert!(Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    }

    /// Starts the server again after it was killed.
    pub(crate) fn restart(&self) {
        let folder = self.data.parent().unwrap();
        let options = format!(
            "-c listen_addresses=127.0.0.1 -p {} -c unix_socket_directories={} -c max_connections=200",
            self.port(),
            folder.display()
        );
        for _ in 0..50 {
            let mut start =
                self.control(&self.data, &["--wait", "--timeout=60", "-o", &options, "start"]);
            start.arg(format!("--log={}", folder.join("log").display()));
            if start.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success() {
                return;
            }
            // The processes of the killed server have not ended yet.
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("the server does not start again");
    }

    /// Makes a synchronous standby of this server in a folder of its own, and returns its folder and address.
    pub(crate) fn standby(&self) -> (PathBuf, String) {
        let folder = self.data.parent().unwrap().join("standby");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let admin = self.address.replace("app@", "treering@");
        let connection = format!("{admin}?application_name=standby");
        let copied = self
            .as_owner(&self.programs.join("pg_basebackup"))
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast"])
            .arg(format!("--pgdata={}", folder.display()))
            .arg(format!("--dbname={connection}"))
            .status();
        assert!(copied.unwrap().success());
        let options = format!(
            "-c listen_addresses=127.0.0.1 -p {port} -c unix_socket_directories={} -c max_connections=200 -c hot_standby=on",
            folder.display()
        );
        let started = self
            .control(&folder, &["--wait", "-o", &options, "start"])
            .arg(format!("--log={}", folder.join("log").display()))
            .stdout(Stdio::null())
            .status();
        assert!(started.unwrap().success());
        let admin = RawConnection::open(&admin);
        admin.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        admin.execute("SELECT pg_reload_conf()");
        let state = "SELECT sync_state FROM pg_stat_replication WHERE application_name = 'standby'";
        for _ in 0..100 {
            if admin.first(state).as_deref() == Some("sync") {
                return (folder, format!("127.0.0.1:{port}"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the standby does not become synchronous");
    }

    /// Makes a standby a primary.
    pub(crate) fn promote(&self, standby: &Path) {
        let promoted = self.control(standby, &["--wait", "promote"]).stdout(Stdio::null()).status();
        assert!(promoted.unwrap().success());
    }

    /// Stops a standby.
    pub(crate) fn stop(&self, standby: &Path) {
        let stopped =
            self.control(standby, &["--mode=immediate", "stop"]).stdout(Stdio::null()).status();
        assert!(stopped.unwrap().success());
    }

    fn control(&self, data: &Path, arguments: &[&str]) -> Command {
        let mut command = self.as_owner(&self.programs.join("pg_ctl"));
        command.arg(format!("--pgdata={}", data.display())).args(arguments);
        command
    }

    /// Runs a program as the owner of the data: PostgreSQL refuses to run as root.
    fn as_owner(&self, program: &Path) -> Command {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        let mut command = match is_root {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", "nobody", "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        command.current_dir("/");
        command
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // The script stops the server and removes its folder.
        drop(self.input.take());
        drop(self.child.wait());
    }
}
