//! A scripted HTTP server on loopback that can misbehave: it returns errors, hangs, or
//! truncates an answer. It records the requests.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedResponse {
    /// Responds with a status, headers and a body.
    Respond(u16, Vec<(&'static str, String)>, String),
    /// Sends the beginning of a response and closes the connection.
    Truncate(String),
    /// Closes the connection without a response.
    Disconnect,
    /// Sends nothing for this long, then closes the connection.
    Hang(Duration),
}

impl ScriptedResponse {
    /// A JSON response.
    #[must_use]
    pub fn json(body: &(impl ToString + ?Sized)) -> Self {
        Self::Respond(200, vec![("content-type", "application/json".into())], body.to_string())
    }

    /// An error response with a status and a message.
    #[must_use]
    pub fn refuse(status: u16, words: &str) -> Self {
        Self::Respond(status, Vec::new(), words.to_owned())
    }

    /// A response with server-sent events.
    #[must_use]
    pub fn events(body: &str) -> Self {
        Self::Respond(200, vec![("content-type", "text/event-stream".into())], body.to_owned())
    }
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// The path and query.
    pub path: String,
    /// Names in lowercase, and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl RecordedRequest {
    /// The value of a header. The name must be lowercase.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

/// The server. It follows its script and then repeats the last response.
pub struct FaultServer {
    url: String,
    state: Arc<Mutex<FaultServerState>>,
}

struct FaultServerState {
    script: VecDeque<ScriptedResponse>,
    requests: Vec<RecordedRequest>,
}

impl FaultServer {
    /// Starts a server with a script.
    ///
    /// # Panics
    /// If it cannot listen on loopback.
    #[must_use]
    #[allow(clippy::unwrap_used)]
    pub fn start(script: impl IntoIterator<Item = ScriptedResponse>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(FaultServerState {
            script: script.into_iter().collect(),
            requests: Vec::new(),
        }));
        let shared = Arc::clone(&state);
        // The thread is never joined; it ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || drop(serve(&stream, &state)));
            }
        });
        Self { url, state }
    }

    /// The base URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests received so far.
    #[must_use]
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.lock().requests.clone()
    }

    /// Replaces the script.
    pub fn set_script(&self, script: impl IntoIterator<Item = ScriptedResponse>) {
        self.lock().script = script.into_iter().collect();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FaultServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one request. Connections are not reused.
fn serve(stream: &TcpStream, state: &Mutex<FaultServerState>) -> std::io::Result<()> {
    let Some(request) = read(stream)? else { return Ok(()) };
    let response = {
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests.push(request);
        match state.script.len() {
            0 => ScriptedResponse::refuse(404, "the script is empty"),
            1 => state.script[0].clone(),
            _ => state.script.pop_front().unwrap_or(ScriptedResponse::Disconnect),
        }
    };
    let mut out = stream;
    match response {
        ScriptedResponse::Respond(status, headers, body) => {
            let mut head = format!(
                "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n",
                body.len()
            );
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            out.write_all(format!("{head}\r\n{body}").as_bytes())?;
        }
        ScriptedResponse::Truncate(body) => {
            let length = body.len() + 1000;
            out.write_all(
                format!("HTTP/1.1 200 x\r\ncontent-length: {length}\r\n\r\n{body}").as_bytes(),
            )?;
        }
        ScriptedResponse::Disconnect => {}
        ScriptedResponse::Hang(time) => thread::sleep(time),
    }
    out.flush()?;
    stream.shutdown(Shutdown::Both)
}

fn read(stream: &TcpStream) -> std::io::Result<Option<RecordedRequest>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(RecordedRequest { path, headers, body: String::from_utf8_lossy(&body).into_owned() }))
}
