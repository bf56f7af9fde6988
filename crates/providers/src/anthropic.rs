//! Anthropic's messages.

use serde_json::{Value, json};
use treering_core::chat::{ChatReply, ChatRequest, End, Usage};
use treering_core::{Chat, ProviderError, Role};

use crate::http::{Call, Client};
use crate::model::{Fields, Model, Optional};
use crate::openai::short;
use crate::stream::data;

/// The version of the interface that this was written for.
const VERSION: &str = "2023-06-01";
/// The most tokens of an answer where nobody says: the interface wants a number.
const MOST_TOKENS: u32 = 4096;

const OPTIONAL: [Optional; 3] = [
    ("temperature", &["temperature"]),
    // Models from before that field are made to fill in a form instead.
    ("output_config", &["output_config", "output format", "structured output"]),
    ("tool_choice", &["tool_choice"]),
];

/// A chat model.
pub(crate) struct AnthropicChat(Model);

impl AnthropicChat {
    /// The model with this id.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str) -> Self {
        Self(Model::new(client, model))
    }

    fn call(&self, request: &ChatRequest, streams: bool, fields: &Fields) -> Call<'static> {
        let is_system = |role: Role| role == Role::System;
        let system = request.messages.iter().filter(|message| is_system(message.role));
        let system: Vec<&str> = system.map(|message| message.text.as_str()).collect();
        let messages = request.messages.iter().filter(|message| !is_system(message.role)).map(|message| {
            let role = if message.role == Role::Assistant { "assistant" } else { "user" };
            json!({"role": role, "content": message.text})
        });
        let most = request.max_tokens.unwrap_or(MOST_TOKENS);
        let messages = messages.collect::<Value>();
        let mut body = json!({"model": self.0.id, "max_tokens": most, "messages": messages});
        if !system.is_empty() {
            body["system"] = system.join("\n\n").into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.has("temperature")) {
            body["temperature"] = short(temperature.min(1.0));
        }
        if let Some(schema) = &request.schema {
            let json = schema.json.to_value();
            if fields.has("output_config") {
                body["output_config"] = json!({"format": {"type": "json_schema", "schema": json}});
            } else {
                body["tools"] = json!([{"name": schema.name, "input_schema": json}]);
                if fields.has("tool_choice") {
                    body["tool_choice"] = json!({"type": "tool", "name": schema.name});
                }
            }
        }
        if streams {
            body["stream"] = true.into();
        }
        let key = self.0.client.endpoint().key.iter().map(|key| ("x-api-key", key.reveal().to_owned()));
        let headers = key.chain([("anthropic-version", VERSION.to_owned())]).collect();
        Call { path: "/v1/messages", headers, body, rough_tokens: rough(request) }
    }

    fn settle(&self, request: &ChatRequest, usage: Usage) {
        self.0.client.settle(rough(request), usage.tokens_in + usage.tokens_out);
    }
}

fn rough(request: &ChatRequest) -> u64 {
    request.rough_tokens() + u64::from(request.max_tokens.unwrap_or(MOST_TOKENS))
}

fn end(reason: &Value) -> End {
    match reason.as_str() {
        Some("max_tokens" | "model_context_window_exceeded") => End::Cut,
        Some("refusal") => End::Declined,
        _ => End::Complete,
    }
}

/// What was read; the parts that a cache knew count as well.
fn tokens_in(usage: &Value) -> u64 {
    let names = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
    names.iter().filter_map(|name| usage[*name].as_u64()).sum()
}

impl Chat for AnthropicChat {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        let answer = self.0.ask(&OPTIONAL, |fields| self.call(request, false, fields))?;
        let body = &answer.body;
        let blocks = body["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        let form =
            blocks.iter().find(|block| block["type"] == "tool_use").map(|block| block["input"].to_string());
        let said = blocks.iter().filter_map(|block| block["text"].as_str());
        let text = form.unwrap_or_else(|| said.collect());
        let end = end(&body["stop_reason"]);
        if text.is_empty() && end != End::Declined {
            return Err(self.0.client.unusable("an answer without text"));
        }
        let out = body["usage"]["output_tokens"].as_u64().unwrap_or(0);
        let usage = Usage::of_call(tokens_in(&body["usage"]), out);
        self.settle(request, usage);
        Ok(ChatReply { text, end, usage, redacted: answer.redacted })
    }

    fn stream(&self, request: &ChatRequest, hear: &mut dyn FnMut(&str)) -> Result<ChatReply, ProviderError> {
        let mut reply = ChatReply { usage: Usage::of_call(0, 0), ..ChatReply::default() };
        let mut take = |line: &str| {
            let Some(data) = data(line) else { return Ok(false) };
            let event = crate::stream::json(data)?;
            match event["type"].as_str() {
                Some("message_start") => reply.usage.tokens_in = tokens_in(&event["message"]["usage"]),
                Some("content_block_delta") => {
                    let delta = &event["delta"];
                    if let Some(text) = delta["text"].as_str().or_else(|| delta["partial_json"].as_str()) {
                        reply.text.push_str(text);
                        hear(text);
                    }
                }
                Some("message_delta") => {
                    reply.end = end(&event["delta"]["stop_reason"]);
                    reply.usage.tokens_out = event["usage"]["output_tokens"].as_u64().unwrap_or(0);
                }
                Some("message_stop") => return Ok(true),
                _ => {}
            }
            Ok(false)
        };
        let redacted = self.0.ask_lines(&OPTIONAL, |fields| self.call(request, true, fields), &mut take)?;
        self.settle(request, reply.usage);
        Ok(ChatReply { redacted, ..reply })
    }
}
