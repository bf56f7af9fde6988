//! Requests to chat models and their replies, as plain values without provider-specific terms.

use crate::json::Json;
use crate::message::Role;
use crate::redact::Redactions;

/// A request to a chat model.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// The conversation, with the question last.
    pub messages: Vec<ChatMessage>,
    /// The JSON schema of the reply, for structured output.
    pub schema: Option<Schema>,
    /// Maximum number of tokens in the reply.
    pub max_tokens: Option<u32>,
    /// The sampling temperature, from 0 up.
    pub temperature: Option<f32>,
}

impl ChatRequest {
    /// A request for a plain-text reply.
    #[must_use]
    pub const fn new(messages: Vec<ChatMessage>) -> Self {
        Self { messages, schema: None, max_tokens: None, temperature: None }
    }

    /// A rough token count: four characters per token.
    #[must_use]
    pub fn estimated_tokens(&self) -> u64 {
        let chars: u64 =
            self.messages.iter().map(|message| u64::from(crate::text::chars(&message.text))).sum();
        chars.div_ceil(4)
    }

    /// An upper bound on the usage of the call: at least as many input tokens as any tokenizer
    /// counts, and the maximum reply.
    #[must_use]
    pub(crate) fn max_usage(&self) -> Usage {
        let schema = self.schema.as_ref().map(|schema| schema.json.as_str());
        let texts = self.messages.iter().map(|message| message.text.as_str()).chain(schema);
        let framing_tokens = 16 * (self.messages.len() as u64 + 1);
        let answer = u64::from(self.max_tokens.unwrap_or(DEFAULT_MAX_REPLY_TOKENS));
        Usage::for_call(
            texts.map(crate::text::token_upper_bound).sum::<u64>() + framing_tokens,
            answer,
        )
    }
}

/// Assumed maximum length of a reply, in tokens, if the request sets no limit.
const DEFAULT_MAX_REPLY_TOKENS: u32 = 8192;

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// The speaker's role.
    pub role: Role,
    /// The text.
    pub text: String,
}

impl ChatMessage {
    /// A message with this role and text.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into() }
    }
}

/// A named JSON schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// The name, made of letters, digits and underscores.
    pub name: String,
    /// The schema.
    pub json: Json,
}

/// The reply of a chat model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatReply {
    /// The text.
    pub text: String,
    /// The reason why the reply ends.
    pub finish_reason: FinishReason,
    /// The tokens used.
    pub usage: Usage,
    /// The redactions made before the request left the machine.
    pub redacted: Redactions,
}

/// The reason why a reply ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinishReason {
    /// The model finished.
    #[default]
    Complete,
    /// The reply reached the token limit.
    Truncated,
    /// The model declined, or a filter stopped it.
    Declined,
}

/// The token usage of one or more calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Number of calls.
    pub calls: u32,
    /// Input tokens.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
}

impl Usage {
    /// The usage of one call.
    #[must_use]
    pub const fn for_call(tokens_in: u64, tokens_out: u64) -> Self {
        Self { calls: 1, tokens_in, tokens_out }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.tokens_in += other.tokens_in;
        self.tokens_out += other.tokens_out;
    }
}
