//! Google's Gemini: content, streams of it, and vectors.

use serde_json::{Value, json};
use treering_core::chat::{ChatReply, ChatRequest, End, Usage};
use treering_core::{Chat, ProviderError, Role};

use crate::embedding::{Batch, Vectors};
use crate::http::{Call, Client};
use crate::model::{Fields, Model, Optional};
use crate::openai::short;
use crate::stream::data;

/// How many numbers the vectors have, where nobody asks for fewer.
pub(crate) const DIMS: usize = 3072;

const OPTIONAL: [Optional; 2] = [
    ("responseSchema", &["response_schema", "responseschema", "json mode", "response_mime_type"]),
    ("temperature", &["temperature"]),
];

/// A chat model.
pub(crate) struct GeminiChat(Model);

impl GeminiChat {
    /// The model with this id.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str) -> Self {
        Self(Model::new(client, model))
    }

    fn call<'a>(&self, request: &ChatRequest, path: &'a str, fields: &Fields) -> Call<'a> {
        let part = |text: &str| json!([{"text": text}]);
        let is_system = |role: Role| role == Role::System;
        let system = request.messages.iter().filter(|message| is_system(message.role));
        let system: Vec<&str> = system.map(|message| message.text.as_str()).collect();
        let contents = request.messages.iter().filter(|message| !is_system(message.role)).map(|message| {
            let role = if message.role == Role::Assistant { "model" } else { "user" };
            json!({"role": role, "parts": part(&message.text)})
        });
        let mut config = json!({});
        if let Some(most) = request.max_tokens {
            config["maxOutputTokens"] = most.into();
        }
        if let Some(temperature) = request.temperature.filter(|_| fields.has("temperature")) {
            config["temperature"] = short(temperature);
        }
        if let Some(schema) = request.schema.as_ref().filter(|_| fields.has("responseSchema")) {
            let mut schema = schema.json.to_value();
            without(&mut schema, "additionalProperties");
            config["responseMimeType"] = "application/json".into();
            config["responseSchema"] = schema;
        }
        let mut body = json!({"contents": contents.collect::<Value>(), "generationConfig": config});
        if !system.is_empty() {
            body["systemInstruction"] = json!({"parts": part(&system.join("\n\n"))});
        }
        Call { path, headers: headers(&self.0.client), body, rough_tokens: rough(request) }
    }

    fn settle(&self, request: &ChatRequest, usage: Usage) {
        if usage.tokens_in > 0 {
            self.0.client.settle(rough(request), usage.tokens_in + usage.tokens_out);
        }
    }
}

fn rough(request: &ChatRequest) -> u64 {
    request.rough_tokens() + u64::from(request.max_tokens.unwrap_or(0))
}

/// Takes a field out wherever it is: this dialect of schemas does not know it.
fn without(schema: &mut Value, field: &str) {
    if let Value::Object(fields) = schema {
        fields.remove(field);
        fields.values_mut().for_each(|value| without(value, field));
    }
}

fn headers(client: &Client) -> Vec<(&'static str, String)> {
    let key = client.endpoint().key.iter();
    key.map(|key| ("x-goog-api-key", key.reveal().to_owned())).collect()
}

/// The text of an answer or a piece of one, without what the model thought to itself.
fn text(body: &Value) -> String {
    let parts = body["candidates"][0]["content"]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let spoken = parts.iter().filter(|part| part["thought"] != true);
    spoken.filter_map(|part| part["text"].as_str()).collect()
}

/// Why it ends, if it does.
fn end(body: &Value) -> Option<End> {
    if body["promptFeedback"]["blockReason"].is_string() {
        return Some(End::Declined);
    }
    Some(match body["candidates"][0]["finishReason"].as_str()? {
        "STOP" | "FINISH_REASON_UNSPECIFIED" => End::Complete,
        "MAX_TOKENS" => End::Cut,
        _ => End::Declined,
    })
}

fn usage(body: &Value) -> Usage {
    let count = |name: &str| body["usageMetadata"][name].as_u64().unwrap_or(0);
    Usage::of_call(count("promptTokenCount"), count("candidatesTokenCount") + count("thoughtsTokenCount"))
}

impl Chat for GeminiChat {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError> {
        let path = format!("/models/{}:generateContent", self.0.id);
        let answer = self.0.ask(&OPTIONAL, |fields| self.call(request, &path, fields))?;
        let (text, end, usage) = (text(&answer.body), end(&answer.body), usage(&answer.body));
        if text.is_empty() && end != Some(End::Declined) {
            return Err(self.0.client.unusable("an answer without text"));
        }
        self.settle(request, usage);
        Ok(ChatReply { text, end: end.unwrap_or_default(), usage, redacted: answer.redacted })
    }

    fn stream(&self, request: &ChatRequest, hear: &mut dyn FnMut(&str)) -> Result<ChatReply, ProviderError> {
        let path = format!("/models/{}:streamGenerateContent?alt=sse", self.0.id);
        let mut reply = ChatReply { usage: Usage::of_call(0, 0), ..ChatReply::default() };
        let mut take = |line: &str| {
            let Some(data) = data(line) else { return Ok(false) };
            let piece = crate::stream::json(data)?;
            let text = text(&piece);
            if !text.is_empty() {
                reply.text.push_str(&text);
                hear(&text);
            }
            if piece["usageMetadata"].is_object() {
                reply.usage = usage(&piece);
            }
            // The last piece says why it is the last.
            Ok(end(&piece).map(|end| reply.end = end).is_some())
        };
        let redacted = self.0.ask_lines(&OPTIONAL, |fields| self.call(request, &path, fields), &mut take)?;
        self.settle(request, reply.usage);
        Ok(ChatReply { redacted, ..reply })
    }
}

/// An embedding model.
pub(crate) struct GeminiEmbedding {
    model: Model,
    dims: Option<usize>,
}

impl GeminiEmbedding {
    /// The model with this id, shortened to so many numbers where that is asked for.
    #[must_use]
    pub(crate) fn new(client: Client, model: &str, dims: Option<usize>) -> Self {
        Self { model: Model::new(client, model), dims }
    }
}

impl Batch for GeminiEmbedding {
    fn name(&self) -> &str {
        &self.model.name
    }

    fn most(&self) -> usize {
        100
    }

    fn embed(&self, texts: &[&str], rough_tokens: u64) -> Result<Vectors, ProviderError> {
        let path = format!("/models/{}:batchEmbedContents", self.model.id);
        let request = |text: &&str| {
            let model = format!("models/{}", self.model.id);
            let mut request = json!({"model": model, "content": {"parts": [{"text": text}]}});
            if let Some(dims) = self.dims {
                request["outputDimensionality"] = dims.into();
            }
            request
        };
        let answer = self.model.ask(&[], |_| {
            let body = json!({"requests": texts.iter().map(request).collect::<Value>()});
            Call { path: &path, headers: headers(&self.model.client), body, rough_tokens }
        })?;
        let rows = answer.body["embeddings"].as_array();
        let rows = rows.ok_or_else(|| self.model.client.unusable("an answer without vectors"))?;
        let vectors = rows.iter().map(|row| crate::embedding::numbers(&row["values"])).collect();
        Ok(Vectors { vectors, tokens: 0 })
    }

    fn client(&self) -> &Client {
        &self.model.client
    }
}
