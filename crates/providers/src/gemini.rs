//! Google's Gemini: content generation, streaming and embeddings.

use serde_json::{Value, json};
use treering_core::chat::{FinishReason, Usage};

use crate::dialect::{
    ApiRequest, ChatCall, ChatDelta, ChatDialect, Dialect, EmbeddingDialect, HttpHeader, count,
    rows, short, split_system,
};
use crate::http::Credential;
use crate::model::{Fields, OptionalField};

/// Default dimensions of the embedding models.
pub(crate) const DIMS: usize = 3072;

pub(crate) struct Gemini;

impl Dialect for Gemini {
    fn headers(&self, key: Option<&Credential>) -> Vec<HttpHeader> {
        key.map(|key| ("x-goog-api-key", key.reveal().to_owned())).into_iter().collect()
    }
}

impl ChatDialect for Gemini {
    const OPTIONAL: &'static [OptionalField] = &[
        (
            "responseSchema",
            &["response_schema", "responseschema", "json mode", "response_mime_type"],
        ),
        ("temperature", &["temperature"]),
    ];

    fn post(&self, call: ChatCall<'_>) -> ApiRequest {
        let ChatCall { model, request, streams, fields } = call;
        let part = |text: &str| json!([{"text": text}]);
        let (system, messages) = split_system(request);
        let contents = messages.map(|(is_model, text)| {
            let role = if is_model { "model" } else { "user" };
            json!({"role": role, "parts": part(text)})
        });
        let mut config = json!({});
        if let Some(max_tokens) = request.max_tokens {
            config["maxOutputTokens"] = max_tokens.into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.accepts("temperature")) {
            config["temperature"] = short(temperature);
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.accepts("responseSchema")) {
            let mut schema = schema.json.to_value();
            without(&mut schema, "additionalProperties");
            config["responseMimeType"] = "application/json".into();
            config["responseSchema"] = schema;
        }
        let mut body = json!({"contents": contents.collect::<Value>(), "generationConfig": config});
        if let Some(system) = system {
            body["systemInstruction"] = json!({"parts": part(&system)});
        }
        let method = if streams { "streamGenerateContent?alt=sse" } else { "generateContent" };
        ApiRequest { path: format!("/models/{model}:{method}"), body }
    }

    fn parse_response(&self, body: &Value) -> ChatDelta {
        self.parse_chunk(body)
    }

    /// The last chunk carries the finish reason.
    fn parse_chunk(&self, piece: &Value) -> ChatDelta {
        let end = end(piece);
        ChatDelta { text: text(piece), end, usage: usage(piece), is_last: end.is_some() }
    }
}

/// Removes a field at every depth; Gemini's schema dialect does not support it.
fn without(schema: &mut Value, field: &str) {
    if let Value::Object(fields) = schema {
        fields.shift_remove(field);
        fields.values_mut().for_each(|value| without(value, field));
    }
}

/// The text of an answer or chunk, without the model's thoughts.
fn text(body: &Value) -> String {
    let parts =
        body["candidates"][0]["content"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let answer_parts = parts.iter().filter(|part| part["thought"] != true);
    answer_parts.filter_map(|part| part["text"].as_str()).collect()
}

/// Why the answer ended, if it did.
fn end(body: &Value) -> Option<FinishReason> {
    if body["promptFeedback"]["blockReason"].is_string() {
        return Some(FinishReason::Declined);
    }
    Some(match body["candidates"][0]["finishReason"].as_str()? {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => FinishReason::Complete,
        "MAX_TOKENS" => FinishReason::Truncated,
        _ => FinishReason::Declined,
    })
}

fn usage(body: &Value) -> Usage {
    let usage = &body["usageMetadata"];
    let written = count(&usage["candidatesTokenCount"]) + count(&usage["thoughtsTokenCount"]);
    Usage::for_call(count(&usage["promptTokenCount"]), written)
}

impl EmbeddingDialect for Gemini {
    const MAX_TEXTS: usize = 100;

    fn post(&self, model: &str, texts: &[&str], dims: Option<usize>, _: &Fields) -> ApiRequest {
        let request = |text: &&str| {
            let mut request =
                json!({"model": format!("models/{model}"), "content": {"parts": [{"text": text}]}});
            if let Some(dims) = dims {
                request["outputDimensionality"] = dims.into();
            }
            request
        };
        let body = json!({"requests": texts.iter().map(request).collect::<Value>()});
        ApiRequest { path: format!("/models/{model}:batchEmbedContents"), body }
    }

    fn vectors(&self, body: &Value) -> Option<(Vec<Vec<f32>>, u64)> {
        Some((rows(&body["embeddings"], |row| &row["values"])?, usage(body).tokens_in))
    }
}
