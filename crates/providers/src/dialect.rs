//! How a provider is spoken to: what a wire has to say about itself so that `chat` and `embedding` can do the rest.
//! A dialect knows shapes; it never sends anything.

use serde_json::{Value, json};
use treering_core::Role;
use treering_core::chat::{ChatRequest, FinishReason, Usage};

use crate::http::Credential;
use crate::model::{Fields, OptionalField};

/// A header and its value.
pub(crate) type Header = (&'static str, String);

/// What is sent: where to, and what.
pub(crate) struct ApiRequest {
    pub(crate) path: String,
    pub(crate) body: Value,
}

/// What every wire has.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// The headers of a call.
    fn headers(&self, key: Option<&Credential>) -> Vec<Header>;
}

/// A wire that chat models are reached by.
pub(crate) trait ChatDialect: Dialect {
    /// The fields that a server may refuse.
    const OPTIONAL: &'static [OptionalField];
    /// Whether a stream comes as server-sent events; otherwise each line is a piece.
    const EVENTS: bool = true;

    /// The call for a request.
    fn post(
        &self,
        model: &str,
        request: &ChatRequest,
        streams: bool,
        fields: &Fields,
    ) -> ApiRequest;

    /// What a whole answer says.
    fn parse_response(&self, body: &Value) -> ChatDelta;

    /// What a piece of a stream adds.
    fn parse_chunk(&self, piece: &Value) -> ChatDelta;
}

/// What an answer, or a piece of one, says.
#[derive(Default)]
pub(crate) struct ChatDelta {
    pub(crate) text: String,
    /// Why the answer ends, where it says so.
    pub(crate) end: Option<FinishReason>,
    /// The tokens so far, as far as it says so.
    pub(crate) usage: Usage,
    /// Whether nothing follows.
    pub(crate) is_last: bool,
}

/// A wire that embedding models are reached by.
pub(crate) trait EmbeddingDialect: Dialect {
    /// The fields that a server may refuse.
    const OPTIONAL: &'static [OptionalField] = &[];
    /// The most texts of a call.
    const MOST: usize;

    /// The call for texts, their vectors shortened to so many numbers where that is asked for.
    fn post(&self, model: &str, texts: &[&str], dims: Option<usize>, fields: &Fields)
    -> ApiRequest;

    /// The vectors of an answer in the order of the texts, and the tokens it took where it says so.
    fn vectors(&self, body: &Value) -> Option<(Vec<Vec<f32>>, u64)>;
}

/// The key as most want it.
pub(crate) fn bearer(key: Option<&Credential>) -> Vec<Header> {
    key.map(|key| ("authorization", format!("Bearer {}", key.reveal()))).into_iter().collect()
}

/// The messages as most want them: each with its role and text.
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

/// What the system says, which some want apart, and the other messages: whether the model speaks, and the text.
pub(crate) fn apart(request: &ChatRequest) -> (Option<String>, impl Iterator<Item = (bool, &str)>) {
    let is_system = |role: Role| role == Role::System;
    let system = request.messages.iter().filter(|message| is_system(message.role));
    let system: Vec<&str> = system.map(|message| message.text.as_str()).collect();
    let others = request.messages.iter().filter(move |message| !is_system(message.role));
    let others = others.map(|message| (message.role == Role::Assistant, message.text.as_str()));
    ((!system.is_empty()).then(|| system.join("\n\n")), others)
}

/// A number as people write it: 0.3, not 0.30000001.
pub(crate) fn short(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// A count; nothing where there is none.
pub(crate) fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// The vectors in a list, each found in its row.
pub(crate) fn rows(list: &Value, vector: impl Fn(&Value) -> &Value) -> Option<Vec<Vec<f32>>> {
    Some(list.as_array()?.iter().map(|row| numbers(vector(row))).collect())
}

/// The numbers of an array; empty where it is none.
pub(crate) fn numbers(value: &Value) -> Vec<f32> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let numbers: Option<Vec<f32>> =
        items.iter().map(|item| item.as_f64().map(|x| x as f32)).collect();
    numbers.unwrap_or_default()
}
