//! The request and response formats of a provider's API. `chat` and `embedding` do everything
//! else. A dialect only builds and parses JSON; it never sends anything.

use serde_json::{Value, json};
use treering_core::Role;
use treering_core::chat::{ChatRequest, FinishReason, Usage};

use crate::http::Credential;
use crate::model::{Fields, OptionalField};

/// A header's name and value.
pub(crate) type HttpHeader = (&'static str, String);

/// Path and body of a request.
pub(crate) struct ApiRequest {
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// Properties common to all provider APIs.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The headers of a call.
    fn headers(&self, key: Option<&Credential>) -> Vec<HttpHeader>;
}

/// The API of a chat model.
pub(crate) trait ChatDialect: Dialect {
    /// Fields that a server may reject.
    const OPTIONAL: &'static [OptionalField];
    /// Whether a stream uses server-sent events. If not, each line is a chunk.
    const EVENTS: bool = true;

    /// Builds the call for a request.
    fn post(&self, call: ChatCall<'_>) -> ApiRequest;

    /// Parses a complete answer.
    fn parse_response(&self, body: &Value) -> ChatDelta;

    /// Parses one chunk of a stream.
    fn parse_chunk(&self, piece: &Value) -> ChatDelta;
}

/// A request to a chat model, as a dialect sends it.
#[derive(Clone, Copy)]
pub(crate) struct ChatCall<'a> {
    pub(crate) model: &'a str,
    pub(crate) request: &'a ChatRequest,
    /// Whether the answer is streamed.
    pub(crate) streams: bool,
    /// The optional fields that the server accepts.
    pub(crate) fields: &'a Fields,
}

/// A complete answer, or one chunk of it.
#[derive(Default)]
pub(crate) struct ChatDelta {
    pub(crate) text: String,
    /// Why the answer ended, if it says so.
    pub(crate) end: Option<FinishReason>,
    /// Tokens used so far; zero if the provider does not report them.
    pub(crate) usage: Usage,
    /// Whether this is the last chunk.
    pub(crate) is_last: bool,
}

/// The API of an embedding model.
pub(crate) trait EmbeddingDialect: Dialect {
    /// Fields that a server may reject.
    const OPTIONAL: &'static [OptionalField] = &[];
    /// Maximum number of texts in a call.
    const MAX_TEXTS: usize;

    /// Builds the call that embeds `texts`. `dims` requests shorter vectors.
    fn post(&self, model: &str, texts: &[&str], dims: Option<usize>, fields: &Fields)
    -> ApiRequest;

    /// The vectors of an answer in the order of the texts, and the tokens used (zero if
    /// unreported).
    fn vectors(&self, body: &Value) -> Option<(Vec<Vec<f32>>, u64)>;
}

/// The key as a bearer token.
pub(crate) fn bearer(key: Option<&Credential>) -> Vec<HttpHeader> {
    key.map(|key| ("authorization", format!("Bearer {}", key.reveal()))).into_iter().collect()
}

/// The messages in the most common format: a role and a text each.
pub(crate) fn messages(request: &ChatRequest) -> Value {
    let messages = request.messages.iter().map(|message| {
        let role = match message.role {
            Role::System => "system",
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
        };
        json!({"role": role, "content": message.text})
    });
    messages.collect()
}

/// Splits a request into the system text and the other messages, each as a pair: whether the
/// model wrote it, and its text.
pub(crate) fn split_system(
    request: &ChatRequest,
) -> (Option<String>, impl Iterator<Item = (bool, &str)>) {
    let is_system = |role: Role| role == Role::System;
    let system = request.messages.iter().filter(|message| is_system(message.role));
    let system: Vec<&str> = system.map(|message| message.text.as_str()).collect();
    let others = request.messages.iter().filter(move |message| !is_system(message.role));
    let others = others.map(|message| (message.role == Role::Assistant, message.text.as_str()));
    ((!system.is_empty()).then(|| system.join("\n\n")), others)
}

/// Converts a number without the noise of `f32`: 0.3, not 0.30000001.
pub(crate) fn short(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A count, or zero if the value is not one.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The vectors of a list; `vector` finds the vector in a row.
pub(crate) fn rows(list: &Value, vector: impl Fn(&Value) -> &Value) -> Option<Vec<Vec<f32>>> {
    Some(list.as_array()?.iter().map(|row| numbers(vector(row))).collect())
}

/// The numbers of an array; empty if any element is not a number.
pub(crate) fn numbers(value: &Value) -> Vec<f32> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let numbers: Option<Vec<f32>> =
        items.iter().map(|item| item.as_f64().map(|x| x as f32)).collect();
    numbers.unwrap_or_default()
}
