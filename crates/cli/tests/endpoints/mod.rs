//! The server's endpoints in real processes: `serve` over HTTP and `mcp` over standard input.

#![allow(dead_code, reason = "every test takes what it needs of it")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use treering_testkit::fault_server::FaultServer;

pub(crate) fn treering(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
    command.env_clear().env("TREERING_HOME", home).args(args).current_dir(home);
    command
}

pub(crate) fn ok(home: &Path, args: &[&str]) -> Value {
    let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
    let Output { status, stdout, stderr } = treering(home, &args).output().unwrap();
    let [output, error] = [&stdout, &stderr].map(|it| String::from_utf8_lossy(it));
    assert!(status.success(), "{args:?}: {error}{output}");
    serde_json::from_str(&output).unwrap()
}

/// A server on a port that the system assigns.
const SERVE: [&str; 4] = ["--json", "serve", "--address", "127.0.0.1:0"];

/// A command whose files cannot grow beyond this many blocks of 512 or 1024 bytes. Larger writes
/// fail with an I/O error.
#[cfg(unix)]
pub(crate) fn limited(command: &Command, blocks: u32) -> Command {
    let mut limited = Command::new("/bin/sh");
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$@\"");
    limited.args(["-c", &script, "limited"]).arg(command.get_program()).args(command.get_args());
    limited.env_clear();
    limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    limited
}

/// Sends SIGTERM and waits. A process that does not exit is killed, and the test fails.
fn terminate(child: &mut Child) -> ExitStatus {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(120) {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("it was asked to stop and did not");
}

/// The options that make a server under the test's control write the summaries.
pub(crate) fn summarized_by(server: &FaultServer) -> Vec<String> {
    let settings = [
        "summarize.provider=ollama".to_owned(),
        "summarize.model=none".to_owned(),
        format!("providers.ollama.base_url={}", server.url()),
        "serve.stop_timeout_ms=100".to_owned(),
    ];
    settings.into_iter().flat_map(|setting| ["--set".to_owned(), setting]).collect()
}

/// Waits until a server has received more than this many requests.
pub(crate) fn await_request(server: &FaultServer, before: usize) {
    while server.requests().len() <= before {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Asserts that there are jobs, and that all of them are pending and without a failure.
#[track_caller]
pub(crate) fn assert_given_back(home: &Path) {
    let jobs = ok(home, &["jobs", "--limit", "1000"]);
    let jobs = jobs["jobs"].as_array().unwrap();
    assert!(!jobs.is_empty());
    for job in jobs {
        assert_eq!((&job["state"], &job["failures"]), (&json!("pending"), &json!(0)), "{job}");
    }
}

/// A running `treering serve`.
pub(crate) struct TestServer {
    pub(crate) child: Child,
    pub(crate) address: String,
    pub(crate) agent: ureq::Agent,
    /// Reads the log all the time: a server whose log nobody reads would stop.
    log: Option<JoinHandle<std::io::Result<String>>>,
}

impl TestServer {
    pub(crate) fn start(home: &Path, args: &[&str]) -> Self {
        let args: Vec<&str> = SERVE.iter().chain(args).copied().collect();
        Self::spawn(treering(home, &args))
    }

    /// A server whose files cannot grow beyond this many blocks; larger writes fail.
    #[cfg(unix)]
    pub(crate) fn start_limited(home: &Path, blocks: u32) -> Self {
        Self::spawn(limited(&treering(home, &SERVE), blocks))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        let log = std::thread::spawn(move || {
            let mut log = String::new();
            stderr.read_to_string(&mut log).map(|_| log)
        });
        let mut text = String::new();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        while !text.ends_with("}\n") {
            assert!(lines.read_line(&mut text).unwrap() > 0, "it ended: {text}");
        }
        let ready: Value = serde_json::from_str(&text).unwrap();
        let agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let address = ready["address"].as_str().unwrap().to_owned();
        Self { child, address, agent, log: Some(log) }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> (u16, Value) {
        let mut request =
            ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.address));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut response = match body {
            Some(body) => {
                let request = request
                    .header("content-type", "application/json")
                    .body(body.to_string())
                    .unwrap();
                self.agent.run(request).unwrap()
            }
            None => self.agent.run(request.body(()).unwrap()).unwrap(),
        };
        let text = response.body_mut().read_to_string().unwrap();
        assert!(response.headers().contains_key("x-request-id"), "{path}");
        let value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        (response.status().as_u16(), value)
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, value) = self.request("GET", path, &[], None);
        assert_eq!(status, 200, "{path}: {value}");
        value
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, value) = self.request("POST", path, &[], Some(body));
        assert!((200..300).contains(&status), "{path}: {status} {value}");
        value
    }

    /// Sends raw bytes and returns the open connection.
    pub(crate) fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        // Far longer than any step of a test.
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Reads events until one of each kind has arrived.
    pub(crate) fn events(&self, last: &str, kinds: &[&str]) -> Vec<(String, Value)> {
        let request = ureq::http::Request::get(format!("{}/v1/events", self.address))
            .header("last-event-id", last);
        let response = self.agent.run(request.body(()).unwrap()).unwrap();
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut events: Vec<(String, Value)> = Vec::new();
        let mut kind = String::new();
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let line = line.unwrap();
            if let Some(name) = line.strip_prefix("event: ") {
                name.clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((kind.clone(), serde_json::from_str(data).unwrap()));
            }
            if kinds.iter().all(|kind| events.iter().any(|(it, _)| it == kind)) {
                return events;
            }
        }
        panic!("the stream ended with {events:?}");
    }

    /// Stops the server and returns its log.
    pub(crate) fn stop(mut self) -> String {
        let status = terminate(&mut self.child);
        let log = self.log.take().unwrap().join().unwrap().unwrap();
        assert!(status.success(), "{log}");
        log
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn turn(number: usize) -> Value {
    json!({ "type": "turn", "user": format!("How is gate {number}? {}", "We wait. ".repeat(40)),
        "assistant": format!("Gate {number} holds. {}", "It is calm. ".repeat(40)), "external_id": format!("t{number}") })
}

/// An MCP client and the server process it started.
pub(crate) struct McpClient {
    pub(crate) child: Child,
    pub(crate) to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
    /// Notifications received between the responses.
    pub(crate) notes: Vec<Value>,
}

impl McpClient {
    pub(crate) fn start(home: &Path) -> Self {
        Self::start_with(home, &[])
    }

    pub(crate) fn start_with(home: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
        command.env_clear().env("TREERING_HOME", home).args(options).arg("mcp");
        Self::spawn(command)
    }

    /// A server with one more variable in its environment.
    pub(crate) fn start_with_variable(home: &Path, name: &str, value: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
        command.env_clear().env("TREERING_HOME", home).env(name, value).arg("mcp");
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut client = Self { to: child.stdin.take(), child, from, next: 0, notes: Vec::new() };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" } });
        let info = client.ask("initialize", &params);
        assert_eq!(info["serverInfo"]["name"], "treering");
        assert!(info["instructions"].as_str().unwrap().contains("Search first"));
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        client
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.to.as_mut().unwrap(), "{message}").unwrap();
    }

    pub(crate) fn begin(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }),
        );
        self.next
    }

    pub(crate) fn read(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the server ended");
        serde_json::from_str(&line).unwrap()
    }

    /// The response to a request, which may be an error.
    pub(crate) fn reply(&mut self, method: &str, params: &Value) -> Value {
        let id = self.begin(method, params);
        loop {
            let message = self.read();
            if message["id"] == id {
                return message;
            }
            self.notes.push(message);
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let reply = self.reply(method, params);
        assert!(reply.get("error").is_none(), "{method}: {reply}");
        reply["result"].clone()
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask(
            "tools/call",
            &json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": 7 } }),
        )
    }

    /// Calls a tool and returns its result. Asserts that it succeeds.
    pub(crate) fn ok(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        result["structuredContent"].clone()
    }

    /// Calls a tool that answers with text alone. Asserts that it succeeds.
    pub(crate) fn text(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{tool}: {result}");
        assert!(result.get("structuredContent").is_none(), "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool and returns its error. Asserts that it fails.
    pub(crate) fn refused(&mut self, tool: &str, arguments: &Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Stops the process while its standard input is open.
    pub(crate) fn stop(mut self) {
        assert!(terminate(&mut self.child).success());
    }

    /// Closes standard input and waits for the process to exit.
    pub(crate) fn end(mut self) {
        self.to = None;
        assert!(self.child.wait().unwrap().success());
    }
}

/// Appends enough turns for windows to seal.
pub(crate) fn fill(client: &mut McpClient, key: &str, turns: usize) {
    for turn in 0..turns {
        let user = format!(
            "Question {turn}: how high is the water at gate {turn}? {}",
            "We wait here. ".repeat(20)
        );
        let assistant = format!(
            "It stands at {} cm at gate {turn}. {}",
            turn * 3,
            "The sill holds. ".repeat(20)
        );
        client.ok("remember", &json!({ "key": key, "user": user, "assistant": assistant }));
    }
}
