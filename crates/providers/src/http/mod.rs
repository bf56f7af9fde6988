//! The only HTTP client for providers: timeouts, quick retries of broken connections,
//! redaction, request ids, and errors with retry advice. A key never appears in an error.

mod failure;
mod retry_after;

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use treering_core::chat::Usage;
use treering_core::{FailedCall, ProviderError, Redactions, redact};
use ureq::http::Response;
use ureq::{Agent, Body};

use failure::CallFailure;

/// Number of immediate retries after a broken connection.
const QUICK_RETRIES: u64 = 2;
/// Pause before the first quick retry; the second waits four times as long.
const QUICK_PAUSE_MS: u64 = 100;
/// Maximum size of an answer.
const MAX_RESPONSE_BYTES: u64 = 64 << 20;

/// A provider's address, credential and timeouts.
#[derive(Clone)]
pub struct Endpoint {
    /// The provider's name, e.g. `openai`.
    pub provider: String,
    /// The base URL, e.g. `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, if the provider needs one.
    pub key: Option<Credential>,
    /// The environment variable that should hold the key but is not set. If present, every call
    /// fails without sending anything.
    pub missing_key_variable: Option<String>,
    /// Timeout of the connection.
    pub connect_timeout: Duration,
    /// Timeout of the whole call.
    pub timeout: Duration,
    /// Whether secrets are redacted before sending.
    pub redact: bool,
}

impl Endpoint {
    /// Creates an endpoint without a key and with default timeouts.
    pub fn new(provider: impl Into<String>, base_url: impl Into<String>) -> Self {
        Self {
            provider: provider.into(),
            base_url: base_url.into().trim_end_matches('/').to_owned(),
            key: None,
            missing_key_variable: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(120),
            redact: true,
        }
    }
}

/// A key. `Debug` never prints it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(String);

impl Credential {
    /// Creates a key from its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().trim().to_owned())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A client of a provider. Clones share connections.
#[derive(Clone)]
pub struct Client(Arc<ClientInner>);

struct ClientInner {
    endpoint: Endpoint,
    agent: Agent,
    calls: AtomicU64,
    /// Distinguishes the request ids of this process from those of others.
    run_id: u64,
}

/// Path, headers and body of a request.
pub(crate) struct HttpCall {
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

/// An answer, and the redactions made in the request.
pub(crate) struct HttpAnswer {
    pub(crate) body: Value,
    pub(crate) redacted: Redactions,
}

/// A failed call: the error, and the HTTP status if there was one.
pub(crate) struct CallError {
    pub(crate) error: ProviderError,
    pub(crate) status: Option<u16>,
}

impl From<CallError> for ProviderError {
    fn from(refused: CallError) -> Self {
        refused.error
    }
}

impl Client {
    /// Creates a client of an endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(endpoint.connect_timeout))
            .timeout_global(Some(endpoint.timeout))
            // Never follow a redirect with the key.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("treering/", env!("CARGO_PKG_VERSION")));
        let config = match is_loopback(&endpoint.base_url) {
            true => config.proxy(None),
            false => config.proxy(ureq::Proxy::try_from_env()),
        };
        let run = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_micros() as u64);
        let agent = config.build().new_agent();
        Self(Arc::new(ClientInner { endpoint, agent, calls: AtomicU64::new(0), run_id: run }))
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Posts JSON and parses the answer as JSON.
    pub(crate) fn post(&self, call: HttpCall) -> Result<HttpAnswer, CallError> {
        let (mut response, redacted) = self.send(call)?;
        let failure = |failure: CallFailure| self.broken_off(&failure, &redacted);
        let text = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES).read_to_string();
        let text = text.map_err(|error| failure(CallFailure::Transport(error)))?;
        let body = serde_json::from_str(&text);
        let body =
            body.map_err(|error| failure(CallFailure::Broken(format!("not JSON: {error}"))))?;
        Ok(HttpAnswer { body, redacted })
    }

    /// Posts JSON and passes the lines of the answer to `on_line` as they arrive, until `on_line`
    /// returns `true`. An answer that ends earlier is an error.
    pub(crate) fn post_lines(
        &self,
        call: HttpCall,
        on_line: &mut dyn FnMut(&str) -> Result<bool, ProviderError>,
    ) -> Result<Redactions, CallError> {
        let (response, redacted) = self.send(call)?;
        let failure = |failure: CallFailure| self.broken_off(&failure, &redacted);
        let body = response.into_body().into_with_config().limit(MAX_RESPONSE_BYTES).reader();
        let mut lines = BufReader::new(body.take(MAX_RESPONSE_BYTES)).lines();
        loop {
            let line = match lines.next() {
                Some(Ok(line)) => line,
                Some(Err(error)) => return Err(failure(CallFailure::Transport(error.into()))),
                None => return Err(failure(CallFailure::Broken("the stream was cut off".into()))),
            };
            match on_line(line.trim_end()) {
                Ok(true) => return Ok(redacted),
                Ok(false) => {}
                Err(error) => {
                    let reason = self.with_provider_name(&error.reason);
                    let call = FailedCall { is_charged: true, redacted, ..FailedCall::default() };
                    let error = ProviderError::new(reason, error.advice).with_call(call);
                    return Err(CallError { error, status: None });
                }
            }
        }
    }

    /// The error for an unusable answer.
    pub(crate) fn unusable(&self, reason: &str) -> ProviderError {
        self.refused(&CallFailure::Broken(reason.to_owned())).error
    }

    /// Redacts and sends a call. An error lists the redactions made in the sent request.
    fn send(&self, mut call: HttpCall) -> Result<(Response<Body>, Redactions), CallError> {
        let endpoint = &self.0.endpoint;
        if let Some(variable) = &endpoint.missing_key_variable {
            return Err(self.refused(&CallFailure::NoKey(variable.clone())));
        }
        let mut redacted = Redactions::default();
        if endpoint.redact {
            redact_strings(&mut call.body, &mut redacted);
        }
        match self.send_as_it_is(&call) {
            Ok(response) => Ok((response, redacted)),
            Err(failure) => {
                let CallError { error, status } = self.refused(&failure);
                let is_charged = failure.is_read_timeout();
                let call = FailedCall { is_charged, redacted, ..FailedCall::default() };
                Err(CallError { error: error.with_call(call), status })
            }
        }
    }

    /// The error for a failure after the answer had begun.
    fn broken_off(&self, failure: &CallFailure, redacted: &Redactions) -> CallError {
        let CallError { error, status } = self.refused(failure);
        let call =
            FailedCall { is_charged: true, usage: Usage::default(), redacted: redacted.clone() };
        CallError { error: error.with_call(call), status }
    }

    fn send_as_it_is(&self, call: &HttpCall) -> Result<Response<Body>, CallFailure> {
        let ClientInner { endpoint, agent, calls, run_id: run, .. } = &*self.0;
        let id = format!("treering-{run:x}-{}", calls.fetch_add(1, Ordering::Relaxed));
        let body = call.body.to_string();
        let url = format!("{}{}", endpoint.base_url, call.path);
        let mut attempts = 0;
        let mut response = loop {
            let mut request = agent.post(&url).header("content-type", "application/json");
            request = request.header("x-client-request-id", &id);
            for (name, value) in &call.headers {
                request = request.header(*name, value);
            }
            match request.send(&body) {
                Ok(response) => break response,
                Err(error) if attempts < QUICK_RETRIES && failure::is_broken_connection(&error) => {
                    let jitter = (run ^ attempts.wrapping_mul(7919)) % QUICK_PAUSE_MS;
                    thread::sleep(Duration::from_millis(
                        (QUICK_PAUSE_MS << (2 * attempts)) + jitter,
                    ));
                    attempts += 1;
                }
                Err(error) => return Err(CallFailure::Transport(error)),
            }
        };
        if response.status().is_success() {
            return Ok(response);
        }
        let header = |name: &str| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        let server_id = header("x-request-id").or_else(|| header("request-id"));
        let retry_after =
            header("retry-after-ms").or_else(|| header("retry-after").map(|value| value + " s"));
        let status = response.status().as_u16();
        // An unreadable body does not change the status.
        let text =
            response.body_mut().with_config().limit(1 << 20).lossy_utf8(true).read_to_string();
        Err(CallFailure::Status {
            status,
            text: text.unwrap_or_default(),
            retry_after_ms: retry_after
                .and_then(|value| retry_after::millis(&value, SystemTime::now())),
            request_id: server_id.unwrap_or(id),
        })
    }

    fn refused(&self, failure: &CallFailure) -> CallError {
        let mut error = failure.to_error();
        error.reason = self.with_provider_name(&error.reason);
        let status =
            if let CallFailure::Status { status, .. } = failure { Some(*status) } else { None };
        CallError { error, status }
    }

    /// Prefixes a reason with the provider's name, and removes the key and other secrets.
    fn with_provider_name(&self, reason: &str) -> String {
        let endpoint = self.endpoint();
        let reason = match &endpoint.key {
            Some(key) if !key.0.is_empty() => reason.replace(&key.0, "[key]"),
            _ => reason.to_owned(),
        };
        format!("{}: {}", endpoint.provider, redact(&reason).0)
    }
}

/// Redacts every string of a value.
fn redact_strings(value: &mut Value, redactions: &mut Redactions) {
    match value {
        Value::String(text) => {
            let (redacted, found) = redact(text);
            if !found.is_empty() {
                redactions.add(&found);
                *text = redacted.into_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact_strings(item, redactions)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| redact_strings(field, redactions));
        }
        _ => {}
    }
}

/// Whether a URL refers to this machine.
#[must_use]
pub fn is_loopback(base_url: &str) -> bool {
    let authority = base_url.split_once("://").map_or(base_url, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<std::net::IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        for url in
            ["http://127.0.0.1:8080/v1", "http://localhost:11434", "http://[::1]:1/v1", "localhost"]
        {
            assert!(is_loopback(url), "{url}");
        }
        for url in
            ["https://api.openai.com/v1", "http://10.0.0.1:8080", "http://localhost.example.org"]
        {
            assert!(!is_loopback(url), "{url}");
        }
    }

    #[test]
    fn every_string_is_redacted() {
        let mut body = serde_json::json!({"a": [{"text": "AKIAIOSFODNN7EXAMPLE here"}], "n": 1});
        let mut redactions = Redactions::default();
        redact_strings(&mut body, &mut redactions);
        assert_eq!(body["a"][0]["text"], "[redacted API key] here");
        assert_eq!(redactions.count(), 1);
    }

    #[test]
    fn a_key_does_not_show() {
        assert!(!format!("{:?}", Credential::new("hunter2")).contains("hunter2"));
        let mut endpoint = Endpoint::new("openai", "http://127.0.0.1:1/");
        endpoint.key = Some(Credential::new("hunter2"));
        let client = Client::new(endpoint);
        assert_eq!(client.unusable("bad key hunter2").reason, "openai: bad key [key]");
    }
}
