//! Ollama's native API.

use serde_json::{Value, json};
use treering_core::chat::{FinishReason, Usage};

use crate::dialect::{
    ApiRequest, ChatCall, ChatDelta, ChatDialect, Dialect, EmbeddingDialect, HttpHeader, bearer,
    count, messages, rows, short,
};
use crate::http::Credential;
use crate::model::{Fields, OptionalField};

/// The context length is rounded up to a multiple of this many tokens, because Ollama reloads a
/// model whenever the length changes.
const ROOM_STEP: u64 = 4096;

/// Expected tokens of an answer if the request sets no limit.
const DEFAULT_REPLY_TOKENS: u32 = 1024;

pub(crate) struct Ollama;

impl Dialect for Ollama {
    fn headers(&self, key: Option<&Credential>) -> Vec<HttpHeader> {
        bearer(key)
    }
}

impl ChatDialect for Ollama {
    const OPTIONAL: &'static [OptionalField] = &[("format", &["format", "grammar", "schema"])];
    const EVENTS: bool = false;

    fn post(&self, call: ChatCall<'_>) -> ApiRequest {
        let ChatCall { model, request, streams, fields } = call;
        let tokens = request.estimated_tokens()
            + u64::from(request.max_tokens.unwrap_or(DEFAULT_REPLY_TOKENS));
        // Ollama silently truncates a prompt that exceeds `num_ctx`, so request enough.
        let context_tokens = (tokens * 5 / 4).div_ceil(ROOM_STEP) * ROOM_STEP;
        let mut options = json!({"num_ctx": context_tokens});
        if let Some(max_tokens) = request.max_tokens {
            options["num_predict"] = max_tokens.into();
        }
        if let Some(temperature) = request.temperature {
            options["temperature"] = short(temperature);
        }
        let mut body = json!({
            "model": model, "messages": messages(request), "stream": streams, "options": options
        });
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.accepts("format")) {
            body["format"] = schema.json.to_value();
        }
        ApiRequest { path: "/api/chat".into(), body }
    }

    fn parse_response(&self, body: &Value) -> ChatDelta {
        self.parse_chunk(body)
    }

    fn parse_chunk(&self, piece: &Value) -> ChatDelta {
        let is_last = piece["done"] == true;
        let end = if piece["done_reason"] == "length" {
            FinishReason::Truncated
        } else {
            FinishReason::Complete
        };
        ChatDelta {
            text: piece["message"]["content"].as_str().unwrap_or_default().to_owned(),
            end: is_last.then_some(end),
            usage: Usage::for_call(count(&piece["prompt_eval_count"]), count(&piece["eval_count"])),
            is_last,
        }
    }
}

impl EmbeddingDialect for Ollama {
    const MAX_TEXTS: usize = 64;

    fn post(&self, model: &str, texts: &[&str], dims: Option<usize>, _: &Fields) -> ApiRequest {
        let mut body = json!({"model": model, "input": texts, "truncate": true});
        if let Some(dims) = dims {
            body["dimensions"] = dims.into();
        }
        ApiRequest { path: "/api/embed".into(), body }
    }

    fn vectors(&self, body: &Value) -> Option<(Vec<Vec<f32>>, u64)> {
        Some((rows(&body["embeddings"], |row| row)?, count(&body["prompt_eval_count"])))
    }
}
