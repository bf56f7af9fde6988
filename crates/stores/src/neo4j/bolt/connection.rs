//! One connection. Requests are written together and their answers read afterwards, in order. If
//! one is refused, the server ignores those after it, so that a transaction is never half done.

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use super::address::Routing;
use super::packstream::{decode_message, encode_structure};
use super::stream::Stream;
use super::{BoltError, BoltValue, Neo4jAddress, Result};

/// How long the server keeps a transaction whose client is gone without a word.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(120);
/// How long an answer may take: longer than any transaction.
const READ_TIMEOUT: Duration = Duration::from_secs(150);

/// The magic number and the proposed versions: 5.4 down to 5.1.
const HANDSHAKE: [u8; 20] =
    [0x60, 0x60, 0xb0, 0x17, 0, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

const HELLO: u8 = 0x01;
const GOODBYE: u8 = 0x02;
const RESET: u8 = 0x0f;
const RUN: u8 = 0x10;
const BEGIN: u8 = 0x11;
const COMMIT: u8 = 0x12;
const ROLLBACK: u8 = 0x13;
const PULL: u8 = 0x3f;
const ROUTE: u8 = 0x66;
const LOGON: u8 = 0x6a;
const SUCCESS: u8 = 0x70;
const RECORD: u8 = 0x71;
const IGNORED: u8 = 0x7e;
const FAILURE: u8 = 0x7f;

/// The rows of a result.
pub(in crate::neo4j) type Rows = Vec<Vec<BoltValue>>;

/// A query and its parameters.
#[derive(Debug, Clone)]
pub(in crate::neo4j) struct Cypher {
    query: String,
    params: Vec<(String, BoltValue)>,
}

impl Cypher {
    pub(in crate::neo4j) fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), params: Vec::new() }
    }

    /// Adds a parameter.
    pub(in crate::neo4j) fn with(mut self, name: &str, value: impl Into<BoltValue>) -> Self {
        self.params.push((name.to_owned(), value.into()));
        self
    }
}

/// The answer to one request.
#[derive(Default)]
struct Answer {
    rows: Rows,
    metadata: Vec<(String, BoltValue)>,
}

/// A connection after authentication.
pub(in crate::neo4j) struct BoltConnection {
    stream: BufReader<Stream>,
    database: Option<String>,
    server: String,
    is_broken: bool,
    in_transaction: bool,
}

impl BoltConnection {
    /// Connects and authenticates. With a `neo4j` address, to the server that writes the database.
    pub(in crate::neo4j) fn open(
        address: &Neo4jAddress,
        user: &str,
        password: &str,
    ) -> Result<Self> {
        let mut connection = Self::open_direct(address, user, password)?;
        if address.routing == Routing::Direct {
            return Ok(connection);
        }
        match connection.writer()?.and_then(|writer| address.on(&writer)) {
            Some(writer) => Self::open_direct(&writer, user, password),
            None => Ok(connection),
        }
    }

    fn open_direct(address: &Neo4jAddress, user: &str, password: &str) -> Result<Self> {
        let stream = BufReader::with_capacity(1 << 16, Stream::connect(address)?);
        let database = address.database.clone();
        let mut connection = Self {
            stream,
            database,
            server: String::new(),
            is_broken: false,
            in_transaction: false,
        };
        connection.shake_hands()?;
        let product = concat!("treering/", env!("CARGO_PKG_VERSION"));
        let agent = BoltValue::Map(vec![entry("product", product)]);
        let hello =
            BoltValue::Map(vec![entry("user_agent", product), ("bolt_agent".into(), agent)]);
        let credentials = [("scheme", "basic"), ("principal", user), ("credentials", password)];
        let logon = BoltValue::Map(credentials.map(|(key, value)| entry(key, value)).into());
        let answers = connection.exchange(&[(HELLO, vec![hello]), (LOGON, vec![logon])])?;
        connection.server = text_of(&answers[0].metadata, "server");
        let timeout = connection.stream.get_ref().set_timeout(READ_TIMEOUT);
        timeout.map_err(|error| broken(&error))?;
        Ok(connection)
    }

    fn shake_hands(&mut self) -> Result<()> {
        let stream = self.stream.get_mut();
        stream
            .write_all(&HANDSHAKE)
            .and_then(|()| stream.flush())
            .map_err(|error| broken(&error))?;
        let mut version = [0; 4];
        self.stream.read_exact(&mut version).map_err(|_| BoltError::Version)?;
        match version {
            [0, 0, 1..=4, 5] => Ok(()),
            _ => Err(BoltError::Version),
        }
    }

    /// The server that writes the database, as `host:port`; `None` if there is only one server.
    fn writer(&mut self) -> Result<Option<String>> {
        let database = self.database.clone().map(|name| ("db".to_owned(), BoltValue::Text(name)));
        let fields = vec![
            BoltValue::Map(Vec::new()),
            BoltValue::List(Vec::new()),
            BoltValue::Map(database.into_iter().collect()),
        ];
        let answers = self.exchange(&[(ROUTE, fields)])?;
        let table = answers.into_iter().next().map(|answer| answer.metadata).unwrap_or_default();
        let Some(BoltValue::Map(table)) = find(&table, "rt") else { return Ok(None) };
        let Some(BoltValue::List(servers)) = find(table, "servers") else { return Ok(None) };
        let mut writers = Vec::new();
        let mut all = Vec::new();
        for server in servers {
            let BoltValue::Map(server) = server else { continue };
            let Some(BoltValue::List(addresses)) = find(server, "addresses") else { continue };
            let addresses = addresses.iter().filter_map(|address| match address {
                BoltValue::Text(address) => Some(address.clone()),
                _ => None,
            });
            let addresses: Vec<String> = addresses.collect();
            if text_of(server, "role") == "WRITE" {
                writers.extend(addresses.clone());
            }
            all.extend(addresses);
        }
        all.sort();
        all.dedup();
        // A server of its own may advertise an address that only it can reach.
        Ok((all.len() > 1).then(|| writers.into_iter().next()).flatten())
    }

    /// The name and version of the server, such as `Neo4j/5.26.30`.
    pub(in crate::neo4j) fn server(&self) -> &str {
        &self.server
    }

    /// Whether the connection can no longer be used.
    pub(in crate::neo4j) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Runs a statement in a transaction of its own, or in the open one.
    pub(in crate::neo4j) fn run(&mut self, statement: &Cypher) -> Result<Rows> {
        Ok(self.run_all(std::slice::from_ref(statement))?.pop().unwrap_or_default())
    }

    /// Runs statements in the open transaction, or each in a transaction of its own, in one round
    /// trip.
    pub(in crate::neo4j) fn run_all(&mut self, statements: &[Cypher]) -> Result<Vec<Rows>> {
        let mut requests = Vec::new();
        statements.iter().for_each(|it| self.push(it, self.in_transaction, &mut requests));
        Ok(rows_of(self.exchange(&requests)?))
    }

    /// Begins a transaction and runs its first statement, in one round trip.
    pub(in crate::neo4j) fn begin(&mut self, first: &Cypher) -> Result<Rows> {
        let mut requests = vec![(BEGIN, vec![self.extra()])];
        self.push(first, true, &mut requests);
        let answer = self.exchange(&requests)?.pop();
        self.in_transaction = true;
        Ok(answer.map(|answer| answer.rows).unwrap_or_default())
    }

    /// Runs the last statements of the open transaction and commits it, in one round trip. If this
    /// fails with [`BoltError::Broken`], the transaction may have been committed.
    pub(in crate::neo4j) fn commit(&mut self, statements: &[Cypher]) -> Result<()> {
        let mut requests = Vec::new();
        statements.iter().for_each(|it| self.push(it, true, &mut requests));
        requests.push((COMMIT, Vec::new()));
        self.exchange(&requests)?;
        self.in_transaction = false;
        Ok(())
    }

    /// Rolls the open transaction back.
    pub(in crate::neo4j) fn rollback(&mut self) -> Result<()> {
        if std::mem::take(&mut self.in_transaction) && !self.is_broken {
            self.exchange(&[(ROLLBACK, Vec::new())])?;
        }
        Ok(())
    }

    fn push(&self, it: &Cypher, in_transaction: bool, requests: &mut Vec<(u8, Vec<BoltValue>)>) {
        let extra = if in_transaction { BoltValue::Map(Vec::new()) } else { self.extra() };
        let query = BoltValue::Text(it.query.clone());
        requests.push((RUN, vec![query, BoltValue::Map(it.params.clone()), extra]));
        requests.push((PULL, vec![BoltValue::Map(vec![("n".into(), BoltValue::Int(-1))])]));
    }

    /// The database and the timeout of a transaction.
    fn extra(&self) -> BoltValue {
        let timeout = i64::try_from(TRANSACTION_TIMEOUT.as_millis()).unwrap_or(i64::MAX);
        let database = self.database.clone().map(|name| ("db".to_owned(), BoltValue::Text(name)));
        let timeout = ("tx_timeout".to_owned(), BoltValue::Int(timeout));
        BoltValue::Map(database.into_iter().chain([timeout]).collect())
    }

    /// Sends requests and reads their answers. After a refusal the connection is reset, which ends
    /// an open transaction without a trace.
    fn exchange(&mut self, requests: &[(u8, Vec<BoltValue>)]) -> Result<Vec<Answer>> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|(tag, fields)| append_message(*tag, fields, &mut bytes));
        self.write(&bytes)?;
        let mut answers = Vec::with_capacity(requests.len());
        let mut refused = None;
        for _ in requests {
            match self.answer()? {
                Ok(answer) => answers.push(answer),
                Err(error) => refused = refused.or(error),
            }
        }
        let Some(error) = refused else { return Ok(answers) };
        self.in_transaction = false;
        // After some refusals, such as of a password, the server closes the connection.
        let is_reset = self.reset().unwrap_or(false);
        self.is_broken |= !is_reset || error.code().starts_with("Neo.ClientError.Cluster.");
        Err(error)
    }

    /// Makes the connection usable again after a refusal.
    fn reset(&mut self) -> Result<bool> {
        let mut reset = Vec::new();
        append_message(RESET, &[], &mut reset);
        self.write(&reset)?;
        Ok(self.answer()?.is_ok())
    }

    /// Reads the answer to one request: its rows, or the refusal; `None` in place of it if the
    /// request was ignored.
    fn answer(&mut self) -> Result<std::result::Result<Answer, Option<BoltError>>> {
        let mut answer = Answer::default();
        loop {
            let (tag, mut fields) = self.read_message()?;
            match (tag, fields.pop()) {
                (RECORD, Some(BoltValue::List(row))) => answer.rows.push(row),
                (SUCCESS, Some(BoltValue::Map(metadata))) => {
                    answer.metadata = metadata;
                    return Ok(Ok(answer));
                }
                (IGNORED, _) => return Ok(Err(None)),
                (FAILURE, Some(BoltValue::Map(failure))) => {
                    let (code, message) = (text_of(&failure, "code"), text_of(&failure, "message"));
                    return Ok(Err(Some(BoltError::Refused { code, message })));
                }
                _ => {
                    self.is_broken = true;
                    return Err(BoltError::Protocol(format!("a message with tag {tag:#x}")));
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let stream = self.stream.get_mut();
        let written = stream.write_all(bytes).and_then(|()| stream.flush());
        written.map_err(|error| {
            self.is_broken = true;
            broken(&error)
        })
    }

    fn read_message(&mut self) -> Result<(u8, Vec<BoltValue>)> {
        let message = read_chunks(&mut self.stream).map_err(|error| broken(&error));
        let message = message.and_then(|message| decode_message(&message));
        self.is_broken |= message.is_err();
        message
    }
}

impl Drop for BoltConnection {
    fn drop(&mut self) {
        if !self.is_broken {
            let mut bytes = Vec::new();
            append_message(GOODBYE, &[], &mut bytes);
            // The server closes the connection either way.
            let _ = self.write(&bytes);
        }
    }
}

fn broken(error: &std::io::Error) -> BoltError {
    BoltError::Broken(error.to_string())
}

fn entry(key: &str, value: &str) -> (String, BoltValue) {
    (key.to_owned(), BoltValue::Text(value.to_owned()))
}

fn find<'a>(map: &'a [(String, BoltValue)], key: &str) -> Option<&'a BoltValue> {
    map.iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn text_of(map: &[(String, BoltValue)], key: &str) -> String {
    match find(map, key) {
        Some(BoltValue::Text(text)) => text.clone(),
        _ => String::new(),
    }
}

/// The rows of the statements among the answers. Each is run and pulled.
fn rows_of(answers: Vec<Answer>) -> Vec<Rows> {
    answers.into_iter().skip(1).step_by(2).map(|answer| answer.rows).collect()
}

/// Appends a message in chunks of at most 65,535 bytes, with an empty chunk at its end.
fn append_message(tag: u8, fields: &[BoltValue], out: &mut Vec<u8>) {
    let mut message = Vec::new();
    encode_structure(tag, fields, &mut message);
    for chunk in message.chunks(usize::from(u16::MAX)) {
        out.extend((chunk.len() as u16).to_be_bytes());
        out.extend(chunk);
    }
    out.extend([0, 0]);
}

/// Reads the chunks of one message. Empty chunks before it keep the connection alive.
fn read_chunks(stream: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let mut size = [0; 2];
        stream.read_exact(&mut size)?;
        match usize::from(u16::from_be_bytes(size)) {
            0 if message.is_empty() => {}
            0 => return Ok(message),
            size => {
                let start = message.len();
                message.resize(start + size, 0);
                stream.read_exact(&mut message[start..])?;
            }
        }
    }
}
