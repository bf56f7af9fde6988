//! Settings of `treering serve`, some of which `treering mcp` uses too.

use confique::Config;

use super::is_positive;

/// The server, for `treering serve`.
#[derive(Debug, Clone, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ServeSettings {
    /// The address and port to listen on; port 0 selects a free port. An address that other
    /// machines can reach requires a token (`treering token create`).
    #[config(env = "TREERING_SERVE_ADDRESS", default = "127.0.0.1:7411", validate = is_address)]
    pub address: String,

    /// Whether requests to a loopback address require a token too. Other addresses always do.
    #[config(env = "TREERING_SERVE_REQUIRE_TOKEN", default = false)]
    pub require_token: bool,

    /// Host names of the server besides its address, such as `["memory.example.org"]`;
    /// separated by commas in the environment. Requests for other hosts are rejected.
    #[config(env = "TREERING_SERVE_HOSTS", default = [], parse_env = confique::env::parse::list_by_comma)]
    pub hosts: Vec<String>,

    /// Web origins that may call the server besides its own, such as
    /// `["https://app.example.org"]`; separated by commas in the environment.
    #[config(env = "TREERING_SERVE_ORIGINS", default = [], parse_env = confique::env::parse::list_by_comma,
        validate = are_origins)]
    pub origins: Vec<String>,

    /// Maximum size of a request body, in bytes.
    #[config(env = "TREERING_SERVE_BODY_BYTES", default = 4194304, validate = is_positive)]
    pub body_bytes: usize,

    /// Maximum duration of a request, in milliseconds. Event streams are exempt.
    #[config(env = "TREERING_SERVE_TIMEOUT_MS", default = 60000, validate = is_positive)]
    pub timeout_ms: u64,

    /// Maximum time for a client to send the headers of a request, in milliseconds. A
    /// connection that is idle for this long is closed.
    #[config(env = "TREERING_SERVE_HEADER_TIMEOUT_MS", default = 30000, validate = is_positive)]
    pub header_timeout_ms: u64,

    /// Maximum time without progress while the client reads a response, in milliseconds. Then the
    /// connection is closed.
    #[config(env = "TREERING_SERVE_WRITE_TIMEOUT_MS", default = 30000, validate = is_positive)]
    pub write_timeout_ms: u64,

    /// Maximum number of open connections, event streams included. When all are open, the
    /// server closes the longest-idle connection for the next client. While the server works on a request of every connection, further requests get 503.
    #[config(env = "TREERING_SERVE_CONNECTIONS", default = 512)]
    pub connections: std::num::NonZeroUsize,

    /// Maximum number of open connections of one address. Loopback addresses have no such
    /// limit, because all programs of the machine share them.
    #[config(env = "TREERING_SERVE_CONNECTIONS_PER_ADDRESS", default = 128)]
    pub connections_per_address: std::num::NonZeroUsize,

    /// Maximum number of requests of one tenant that the server works on at the same time.
    /// Further ones are refused. Requests without a token have no such limit.
    #[config(env = "TREERING_SERVE_CONCURRENT_REQUESTS", default = 128)]
    pub concurrent_requests: std::num::NonZeroUsize,

    /// Maximum number of requests per second for each token, or for each address without a
    /// token. Bursts may be twice as large.
    #[config(env = "TREERING_SERVE_REQUESTS_PER_SECOND", default = 1000)]
    pub requests_per_second: std::num::NonZeroU32,

    /// Maximum time that `serve` and `mcp` wait at shutdown for running requests, and then for
    /// running jobs, in milliseconds. Jobs that take longer are released, and another process
    /// runs them.
    #[config(env = "TREERING_SERVE_STOP_TIMEOUT_MS", default = 10000)]
    pub stop_timeout_ms: u64,
}

fn is_address(text: &impl AsRef<str>) -> Result<(), String> {
    let parsed = text.as_ref().parse::<std::net::SocketAddr>();
    parsed
        .map(drop)
        .map_err(|_| "expected an address with a port, like 127.0.0.1:7411 or [::1]:7411".into())
}

fn are_origins(origins: &impl AsRef<[String]>) -> Result<(), String> {
    let is_origin = |origin: &&String| {
        let rest = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/') && rest.is_ascii())
    };
    match origins.as_ref().iter().find(|origin| !is_origin(origin)) {
        None => Ok(()),
        Some(other) => {
            Err(format!("{other:?} is not an origin; expected one like https://app.example.org"))
        }
    }
}
