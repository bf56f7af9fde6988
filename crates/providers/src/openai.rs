//! OpenAI and everything that speaks like it: llama.cpp, vLLM, LM Studio, Ollama's compatible port.

use serde_json::{Value, json};
use treering_core::chat::{ChatReply, ChatRequest, End, Usage};
use treering_core::{Chat, ProviderError, Role};

use crate::embedding::{Batch, Vectors};
use crate::http::{Call, Client};
use crate::model::{Fields, Model, Optional};
use crate::stream::data;

const OPTIONAL: [Optional; 4] = [
    ("max_tokens", &["max_tokens"]),
    ("temperature", &["temperature"]),
    ("response_format", &["response_format", "json_schema", "structured output"]),
    ("stream_options", &["stream_options"]),
];

/// A chat model.
pub(crate) struct OpenAiChat(Model);

impl OpenAiChat {
    /// The model with this id.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str) -> Self {
        Self(Model::new(client, model))
    }

    fn call(&self, request: &ChatRequest, streams: bool, fields: &Fields) -> Call<'static> {
        let messages = request.messages.iter().map(|message| {
            let role = match message.role {
                Role::System => "system",
                Role::Assistant => "assistant",
                Role::User | Role::Tool => "user",
            };
            json!({"role": role, "content": message.text})
        });
        let mut body = json!({"model": self.0.id, "messages": messages.collect::<Value>()});
        if let Some(most) = request.max_tokens {
            // Newer models of OpenAI know it by another name.
            let name = if fields.has("max_tokens") { "max_tokens" } else { "max_completion_tokens" };
            body[name] = most.into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.has("temperature")) {
            body["temperature"] = short(temperature);
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.has("response_format")) {
            let schema = json!({"name": schema.name, "strict": true, "schema": schema.json.to_value()});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        if streams {
            body["stream"] = true.into();
            if fields.has("stream_options") {
                body["stream_options"] = json!({"include_usage": true});
            }
        }
        let rough_tokens = request.rough_tokens() + u64::from(request.max_tokens.unwrap_or(0));
        Call { path: "/chat/completions", headers: headers(&self.0.client), body, rough_tokens }
    }
}

/// A number as people write it: 0.3, not 0.30000001.
pub(crate) fn short(number: f32) -> Value {
    number.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn headers(client: &Client) -> Vec<(&'static str, String)> {
    let key = client.endpoint().key.iter();
    key.map(|key| ("authorization", format!("Bearer {}", key.reveal()))).collect()
}

fn end(reason: &Value) -> End {
    match reason.as_str() {
        Some("length") => End::Cut,
        Some("content_filter") => End::Declined,
        _ => End::Complete,
    }
}

fn usage(body: &Value) -> Usage {
    let count = |name: &str| body["usage"][name].as_u64().unwrap_or(0);
    Usage::of_call(count("prompt_tokens"), count("completion_tokens"))
}

impl Chat for OpenAiChat {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        let answer = self.0.ask(&OPTIONAL, |fields| self.call(request, false, fields))?;
        let choice = &answer.body["choices"][0];
        let message = &choice["message"];
        let mut end = end(&choice["finish_reason"]);
        let text = match message["content"].as_str() {
            Some(text) => text,
            None => match message["refusal"].as_str() {
                Some(refusal) => {
                    end = End::Declined;
                    refusal
                }
                None => return Err(self.0.client.unusable("an answer without text")),
            },
        };
        let usage = usage(&answer.body);
        self.settle(request, usage);
        Ok(ChatReply { text: text.to_owned(), end, usage, redacted: answer.redacted })
    }

    fn stream(&self, request: &ChatRequest, hear: &mut dyn FnMut(&str)) -> Result<ChatReply, ProviderError> {
        let mut reply = ChatReply { usage: Usage::of_call(0, 0), ..ChatReply::default() };
        let mut take = |line: &str| {
            let Some(data) = data(line) else { return Ok(false) };
            if data == "[DONE]" {
                return Ok(true);
            }
            let chunk = crate::stream::json(data)?;
            let choice = &chunk["choices"][0];
            if let Some(text) = choice["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
                reply.text.push_str(text);
                hear(text);
            }
            if !choice["finish_reason"].is_null() {
                reply.end = end(&choice["finish_reason"]);
            }
            if chunk["usage"].is_object() {
                reply.usage = usage(&chunk);
            }
            Ok(false)
        };
        let redacted = self.0.ask_lines(&OPTIONAL, |fields| self.call(request, true, fields), &mut take)?;
        self.settle(request, reply.usage);
        Ok(ChatReply { redacted, ..reply })
    }
}

impl OpenAiChat {
    fn settle(&self, request: &ChatRequest, usage: Usage) {
        let thought = request.rough_tokens() + u64::from(request.max_tokens.unwrap_or(0));
        if usage.tokens_in > 0 {
            self.0.client.settle(thought, usage.tokens_in + usage.tokens_out);
        }
    }
}

/// An embedding model.
pub(crate) struct OpenAiEmbedding {
    model: Model,
    /// How many numbers to ask for, where not as many as the model likes.
    pub(crate) dims: Option<usize>,
}

impl OpenAiEmbedding {
    /// The model with this id, shortened to so many numbers where that is asked for.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str, dims: Option<usize>) -> Self {
        Self { model: Model::new(client, model), dims }
    }
}

impl Batch for OpenAiEmbedding {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn most(&self) -> usize {
        64
    }

    fn embed(&self, texts: &[&str], rough_tokens: u64) -> Result<Vectors, ProviderError> {
        let answer = self.model.ask(&[("dimensions", &["dimensions"])], |fields| {
            let mut body = json!({"model": self.model.id, "input": texts, "encoding_format": "float"});
            if let Some(dims) = self.dims.filter(|_| fields.has("dimensions")) {
                body["dimensions"] = dims.into();
            }
            Call { path: "/embeddings", headers: headers(&self.model.client), body, rough_tokens }
        })?;
        let rows = answer.body["data"].as_array();
        let rows = rows.ok_or_else(|| self.model.client.unusable("an answer without vectors"))?;
        // They may come in any order, each with its number.
        let mut vectors = vec![Vec::new(); rows.len()];
        for (at, row) in rows.iter().enumerate() {
            let at = row["index"].as_u64().and_then(|at| usize::try_from(at).ok()).unwrap_or(at);
            if let Some(place) = vectors.get_mut(at) {
                *place = crate::embedding::numbers(&row["embedding"]);
            }
        }
        Ok(Vectors { vectors, tokens: usage(&answer.body).tokens_in })
    }

    fn client(&self) -> &Client {
        &self.model.client
    }
}
