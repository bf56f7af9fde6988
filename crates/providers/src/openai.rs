//! OpenAI and compatible servers: llama.cpp, vLLM, LM Studio, Ollama's compatible endpoint.

use serde_json::{Value, json};
use treering_core::chat::{FinishReason, Usage};

use crate::dialect::{
    ApiRequest, ChatCall, ChatDelta, ChatDialect, Dialect, EmbeddingDialect, HttpHeader, bearer,
    count, messages, numbers, short,
};
use crate::http::Credential;
use crate::model::{Fields, OptionalField};

/// The names of the field that limits an answer: the preferred one, and the one to try if the
/// server rejects it. OpenAI deprecated `max_tokens`, but many compatible servers know no
/// other.
#[derive(Clone, Copy)]
pub(crate) struct OpenAi {
    bound: [&'static str; 2],
}

impl OpenAi {
    /// OpenAI.
    pub(crate) const ITSELF: Self = Self { bound: ["max_completion_tokens", "max_tokens"] };
    /// Compatible servers.
    pub(crate) const COMPATIBLE: Self = Self { bound: ["max_tokens", "max_completion_tokens"] };
}

impl Dialect for OpenAi {
    fn headers(&self, key: Option<&Credential>) -> Vec<HttpHeader> {
        bearer(key)
    }
}

impl ChatDialect for OpenAi {
    const OPTIONAL: &'static [OptionalField] = &[
        ("max_tokens", &["max_tokens"]),
        ("max_completion_tokens", &["max_completion_tokens"]),
        ("temperature", &["temperature"]),
        ("response_format", &["response_format", "json_schema", "structured output"]),
        ("stream_options", &["stream_options"]),
    ];

    fn post(&self, call: ChatCall<'_>) -> ApiRequest {
        let ChatCall { model, request, streams, fields } = call;
        let mut body = json!({"model": model, "messages": messages(request)});
        let bound = self.bound.into_iter().find(|name| fields.accepts(name));
        if let Some((name, max_tokens)) = bound.zip(request.max_tokens) {
            body[name] = max_tokens.into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.accepts("temperature")) {
            body["temperature"] = short(temperature);
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.accepts("response_format"))
        {
            let schema =
                json!({"name": schema.name, "strict": true, "schema": schema.json.to_value()});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        if streams {
            body["stream"] = true.into();
            if fields.accepts("stream_options") {
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        ApiRequest { path: "/chat/completions".into(), body }
    }

    fn parse_response(&self, body: &Value) -> ChatDelta {
        delta_of(body, "message")
    }

    /// No chunk is marked as the last; the stream ends with [`DONE`](crate::stream::DONE).
    fn parse_chunk(&self, piece: &Value) -> ChatDelta {
        delta_of(piece, "delta")
    }
}

fn delta_of(body: &Value, field: &str) -> ChatDelta {
    let choice = &body["choices"][0];
    let message = &choice[field];
    let refusal = message["refusal"].as_str().filter(|refusal| !refusal.is_empty());
    let end = match (refusal, choice["finish_reason"].as_str()) {
        (Some(_), _) | (None, Some("content_filter")) => Some(FinishReason::Declined),
        (None, Some("length")) => Some(FinishReason::Truncated),
        // Keep `None` so that the end of the stream does not override an earlier refusal.
        (None, _) => None,
    };
    ChatDelta {
        text: message["content"].as_str().or(refusal).unwrap_or_default().to_owned(),
        end,
        usage: usage(body),
        is_last: false,
    }
}

fn usage(body: &Value) -> Usage {
    let usage = &body["usage"];
    Usage::for_call(count(&usage["prompt_tokens"]), count(&usage["completion_tokens"]))
}

impl EmbeddingDialect for OpenAi {
    const OPTIONAL: &'static [OptionalField] = &[("dimensions", &["dimensions"])];
    const MAX_TEXTS: usize = 64;

    fn post(
        &self,
        model: &str,
        texts: &[&str],
        dims: Option<usize>,
        fields: &Fields,
    ) -> ApiRequest {
        let mut body = json!({"model": model, "input": texts, "encoding_format": "float"});
        if let Some(dims) = dims.filter(|_| fields.accepts("dimensions")) {
            body["dimensions"] = dims.into();
        }
        ApiRequest { path: "/embeddings".into(), body }
    }

    /// The vectors may arrive in any order; each row carries its index.
    fn vectors(&self, body: &Value) -> Option<(Vec<Vec<f32>>, u64)> {
        let rows = body["data"].as_array()?;
        let mut vectors = vec![Vec::new(); rows.len()];
        for (at, row) in rows.iter().enumerate() {
            let at = row["index"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(at);
            if let Some(slot) = vectors.get_mut(at) {
                *slot = numbers(&row["embedding"]);
            }
        }
        Some((vectors, usage(body).tokens_in))
    }
}
