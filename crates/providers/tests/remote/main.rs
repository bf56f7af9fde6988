//! Remote models: request and response formats, and failures.

#![allow(clippy::unwrap_used)]

mod faults;
mod shapes;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use treering_core::chat::{ChatMessage, ChatRequest, Schema, Usage};
use treering_core::spend::{Reservation, Unmetered};
use treering_core::{ChatModel, Embedder, Json, Meter, ProviderError, Redactions, Role};
use treering_providers::http::{Client, Credential, Endpoint};
use treering_providers::remote::{self, ApiProtocol};
use treering_testkit::fault_server::FaultServer;

/// A key that must never appear in an error.
const KEY: &str = "zq8-very-private-7410";

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/remote/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn endpoint(server: &FaultServer) -> Endpoint {
    let mut endpoint = Endpoint::new("test", server.url());
    endpoint.key = Some(Credential::new(KEY));
    endpoint.timeout = Duration::from_millis(600);
    endpoint.connect_timeout = Duration::from_millis(400);
    endpoint
}

fn chat(wire: ApiProtocol, server: &FaultServer) -> Arc<dyn ChatModel> {
    remote::chat(wire, Client::new(endpoint(server)), "m-1")
}

fn embedder(wire: ApiProtocol, server: &FaultServer, dims: Option<usize>) -> Arc<dyn Embedder> {
    remote::embedder(wire, Client::new(endpoint(server)), "e-1", dims).unwrap()
}

/// Records usage and redactions.
#[derive(Default)]
struct UsageMeter(Mutex<(Usage, Redactions)>);

impl Meter for UsageMeter {
    fn reserve_usage(&self, model: &str, max_usage: Usage) -> Result<Reservation, ProviderError> {
        assert!(max_usage.tokens_in > 0, "{max_usage:?}");
        Unmetered.reserve_usage(model, max_usage)
    }

    fn settle(&self, _: Reservation, usage: Usage, redacted: &Redactions) {
        let mut total = self.0.lock().unwrap();
        total.0 += usage;
        total.1.add(redacted);
    }
}

/// A request that uses every field.
fn question() -> ChatRequest {
    let json = r#"{"type": "object", "additionalProperties": false,
        "properties": {"overview": {"type": "string"}}}"#;
    ChatRequest {
        messages: vec![
            ChatMessage::new(Role::System, "Be short."),
            ChatMessage::new(Role::User, "How often?"),
            ChatMessage::new(Role::Assistant, "What?"),
            ChatMessage::new(Role::User, "Does the gauge read?"),
        ],
        schema: Some(Schema { name: "summary".into(), json: Json::new(json).unwrap() }),
        max_tokens: Some(50),
        temperature: Some(0.3),
    }
}
