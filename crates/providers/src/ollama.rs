//! Ollama's own interface.

use serde_json::{Value, json};
use treering_core::chat::{ChatReply, ChatRequest, End, Usage};
use treering_core::{Chat, ProviderError, Role};

use crate::embedding::{Batch, Vectors};
use crate::http::{Call, Client};
use crate::model::{Fields, Model, Optional};
use crate::openai::short;

const OPTIONAL: [Optional; 1] = [("format", &["format", "grammar", "schema"])];

/// The room that is asked for grows in steps of so many tokens: a model is loaded anew for each size.
const ROOM_STEP: u64 = 4096;

/// A chat model.
pub(crate) struct OllamaChat(Model);

impl OllamaChat {
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
        let rough_tokens = request.rough_tokens() + u64::from(request.max_tokens.unwrap_or(1024));
        // What does not fit into the room is dropped without a word, so it is made large enough.
        let room = (rough_tokens * 5 / 4).div_ceil(ROOM_STEP) * ROOM_STEP;
        let mut options = json!({"num_ctx": room});
        if let Some(most) = request.max_tokens {
            options["num_predict"] = most.into();
        }
        if let Some(temperature) = request.temperature {
            options["temperature"] = short(temperature);
        }
        let messages = messages.collect::<Value>();
        let mut body =
            json!({"model": self.0.id, "messages": messages, "stream": streams, "options": options});
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.has("format")) {
            body["format"] = schema.json.to_value();
        }
        Call { path: "/api/chat", headers: headers(&self.0.client), body, rough_tokens }
    }
}

fn headers(client: &Client) -> Vec<(&'static str, String)> {
    let key = client.endpoint().key.iter();
    key.map(|key| ("authorization", format!("Bearer {}", key.reveal()))).collect()
}

fn end(body: &Value) -> End {
    if body["done_reason"] == "length" { End::Cut } else { End::Complete }
}

fn usage(body: &Value) -> Usage {
    let count = |name: &str| body[name].as_u64().unwrap_or(0);
    Usage::of_call(count("prompt_eval_count"), count("eval_count"))
}

impl Chat for OllamaChat {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        let answer = self.0.ask(&OPTIONAL, |fields| self.call(request, false, fields))?;
        let text = answer.body["message"]["content"].as_str();
        let text = text.filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| self.0.client.unusable("an answer without text"))?.to_owned();
        let (end, usage) = (end(&answer.body), usage(&answer.body));
        Ok(ChatReply { text, end, usage, redacted: answer.redacted })
    }

    fn stream(&self, request: &ChatRequest, hear: &mut dyn FnMut(&str)) -> Result<ChatReply, ProviderError> {
        let mut reply = ChatReply::default();
        let mut take = |line: &str| {
            if line.is_empty() {
                return Ok(false);
            }
            let piece = crate::stream::json(line)?;
            if let Some(text) = piece["message"]["content"].as_str().filter(|text| !text.is_empty()) {
                reply.text.push_str(text);
                hear(text);
            }
            let is_last = piece["done"] == true;
            if is_last {
                (reply.end, reply.usage) = (end(&piece), usage(&piece));
            }
            Ok(is_last)
        };
        let redacted = self.0.ask_lines(&OPTIONAL, |fields| self.call(request, true, fields), &mut take)?;
        Ok(ChatReply { redacted, ..reply })
    }
}

/// An embedding model.
pub(crate) struct OllamaEmbedding {
    model: Model,
    dims: Option<usize>,
}

impl OllamaEmbedding {
    /// The model with this id, shortened to so many numbers where that is asked for.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str, dims: Option<usize>) -> Self {
        Self { model: Model::new(client, model), dims }
    }
}

impl Batch for OllamaEmbedding {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn most(&self) -> usize {
        64
    }

    fn embed(&self, texts: &[&str], rough_tokens: u64) -> Result<Vectors, ProviderError> {
        let answer = self.model.ask(&[], |_| {
            let mut body = json!({"model": self.model.id, "input": texts, "truncate": true});
            if let Some(dims) = self.dims {
                body["dimensions"] = dims.into();
            }
            Call { path: "/api/embed", headers: headers(&self.model.client), body, rough_tokens }
        })?;
        let rows = answer.body["embeddings"].as_array();
        let rows = rows.ok_or_else(|| self.model.client.unusable("an answer without vectors"))?;
        let vectors = rows.iter().map(crate::embedding::numbers).collect();
        Ok(Vectors { vectors, tokens: answer.body["prompt_eval_count"].as_u64().unwrap_or(0) })
    }

    fn client(&self) -> &Client {
        &self.model.client
    }
}
