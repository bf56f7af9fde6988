//! Settings of `treering serve`, and of `treering mcp` as far as they concern it.

use confique::Config;

/// Treering as a service, for `treering serve`.
#[derive(Debug, Clone, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct ServeSettings {
    /// The address and port that are listened on; port 0 takes a free one. An address that other
    /// machines can reach needs a token first (`treering token create`).
    #[config(env = "TREERING_SERVE_ADDRESS", default = "127.0.0.1:7411", validate = is_address)]
    pub address: String,

    /// Whether a token is needed on a loopback address too. Elsewhere it always is.
    #[config(env = "TREERING_SERVE_REQUIRE_TOKEN", default = false)]
    pub require_token: bool,

    /// Names that the service is reached by beside its address, such as `["memory.example.org"]`;
    /// separated by commas in the environment. Requests for another host are refused.
    #[config(env = "TREERING_SERVE_HOSTS", default = [], parse_env = confique::env::parse::list_by_comma)]
    pub hosts: Vec<String>,

    /// Web pages that may call the service beside its own, such as `["https://app.example.org"]`;
    /// separated by commas in the environment.
    #[config(env = "TREERING_SERVE_ORIGINS", default = [], parse_env = confique::env::parse::list_by_comma,
        validate = are_origins)]
    pub origins: Vec<String>,

    /// The most bytes that a request may have.
    #[config(env = "TREERING_SERVE_BODY_BYTES", default = 4194304)]
    pub body_bytes: usize,

    /// How long a request may take at the most, in milliseconds. Streams of events last longer.
    #[config(env = "TREERING_SERVE_TIMEOUT_MS", default = 60000)]
    pub timeout_ms: u64,

    /// How long a client may take to send the headers of a request, in milliseconds; a connection on which nothing is asked
    /// for so long is closed.
    #[config(env = "TREERING_SERVE_HEADER_TIMEOUT_MS", default = 30000)]
    pub header_timeout_ms: u64,

    /// How many connections may be open at once; others wait until one is closed. Streams of events are connections too.
    #[config(env = "TREERING_SERVE_CONNECTIONS", default = 512)]
    pub connections: std::num::NonZeroUsize,

    /// How many requests a second each token may make, or each address that has none; twice as
    /// many at once.
    #[config(env = "TREERING_SERVE_REQUESTS_PER_SECOND", default = 1000)]
    pub requests_per_second: std::num::NonZeroU32,

    /// How long `serve` and `mcp` wait for the requests, and then for the jobs, at hand when they are told to stop, in
    /// milliseconds. Jobs that take longer are given back, and another process takes them.
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
            Err(format!("{other:?} is no origin; expected one like https://app.example.org"))
        }
    }
}
