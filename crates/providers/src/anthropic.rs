//! Anthropic's Messages API.

use serde_json::{Value, json};
use treering_core::chat::{FinishReason, Usage};

use crate::dialect::{
    ApiRequest, ChatCall, ChatDelta, ChatDialect, Dialect, HttpHeader, count, short, split_system,
};
use crate::http::Credential;
use crate::model::OptionalField;

/// The API version that this code was written for.
const VERSION: &str = "2023-06-01";

/// Default limit on the tokens of an answer; the API requires one.
const DEFAULT_REPLY_TOKENS: u32 = 4096;

pub(crate) struct Anthropic;

impl Dialect for Anthropic {
    fn headers(&self, key: Option<&Credential>) -> Vec<HttpHeader> {
        let key = key.map(|key| ("x-api-key", key.reveal().to_owned()));
        key.into_iter().chain([("anthropic-version", VERSION.to_owned())]).collect()
    }
}

impl ChatDialect for Anthropic {
    const OPTIONAL: &'static [OptionalField] = &[
        ("temperature", &["temperature"]),
        // Older models lack `output_config`, so they get a forced tool call instead.
        ("output_config", &["output_config", "output format", "structured output"]),
        ("tool_choice", &["tool_choice"]),
    ];

    fn post(&self, call: ChatCall<'_>) -> ApiRequest {
        let ChatCall { model, request, streams, fields } = call;
        let (system, messages) = split_system(request);
        let messages = messages.map(|(is_model, text)| {
            let role = if is_model { "assistant" } else { "user" };
            json!({"role": role, "content": text})
        });
        let max_tokens = request.max_tokens.unwrap_or(DEFAULT_REPLY_TOKENS);
        let mut body = json!({"model": model, "max_tokens": max_tokens, "messages": messages.collect::<Value>()});
        if let Some(system) = system {
            body["system"] = system.into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.accepts("temperature")) {
            body["temperature"] = short(temperature.min(1.0));
        }
        if let Some(schema) = &request.schema {
            let json = schema.json.to_value();
            if fields.accepts("output_config") {
                body["output_config"] = json!({"format": {"type": "json_schema", "schema": json}});
            } else {
                body["tools"] = json!([{"name": schema.name, "input_schema": json}]);
                if fields.accepts("tool_choice") {
                    body["tool_choice"] = json!({"type": "tool", "name": schema.name});
                }
            }
        }
        if streams {
            body["stream"] = true.into();
        }
        ApiRequest { path: "/v1/messages".into(), body }
    }

    fn parse_response(&self, body: &Value) -> ChatDelta {
        let blocks = body["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let form = blocks.iter().find(|block| block["type"] == "tool_use");
        let texts = blocks.iter().filter_map(|block| block["text"].as_str());
        let text = form.map_or_else(|| texts.collect(), |block| block["input"].to_string());
        ChatDelta {
            text,
            end: end(&body["stop_reason"]),
            usage: usage(&body["usage"]),
            is_last: true,
        }
    }

    fn parse_chunk(&self, event: &Value) -> ChatDelta {
        let delta = &event["delta"];
        match event["type"].as_str() {
            Some("message_start") => {
                ChatDelta { usage: usage(&event["message"]["usage"]), ..ChatDelta::default() }
            }
            Some("content_block_delta") => {
                let text = delta["text"].as_str().or_else(|| delta["partial_json"].as_str());
                ChatDelta { text: text.unwrap_or_default().to_owned(), ..ChatDelta::default() }
            }
            Some("message_delta") => ChatDelta {
                end: end(&delta["stop_reason"]),
                usage: usage(&event["usage"]),
                ..ChatDelta::default()
            },
            kind => ChatDelta { is_last: kind == Some("message_stop"), ..ChatDelta::default() },
        }
    }
}

fn end(reason: &Value) -> Option<FinishReason> {
    Some(match reason.as_str()? {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Truncated,
        "refusal" => FinishReason::Declined,
        _ => FinishReason::Complete,
    })
}

/// Cached input tokens count as input.
fn usage(usage: &Value) -> Usage {
    let read = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    Usage::for_call(
        read.iter().map(|name| count(&usage[*name])).sum(),
        count(&usage["output_tokens"]),
    )
}
