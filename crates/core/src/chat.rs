//! What a chat model is asked and what it answers, in plain values: no provider's words.

use crate::json::Json;
use crate::message::Role;
use crate::redact::Redactions;

/// What a chat model is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatRequest {
    /// What was said so far, the question last.
    pub messages: Vec<ChatMessage>,
    /// The form of the answer, where it is to be JSON.
    pub schema: Option<Schema>,
    /// The most tokens of the answer.
    pub max_tokens: Option<u32>,
    /// How freely words are chosen, from 0 up.
    pub temperature: Option<f32>,
}

impl ChatRequest {
    /// A request for free text.
    #[must_use]
    pub const fn new(messages: Vec<ChatMessage>) -> Self {
        Self { messages, schema: None, max_tokens: None, temperature: None }
    }

    /// About how many tokens it has, before anybody counts: four characters each.
    #[must_use]
    pub fn rough_tokens(&self) -> u64 {
        let chars: u64 =
            self.messages.iter().map(|message| u64::from(crate::text::chars(&message.text))).sum();
        chars.div_ceil(4)
    }
}

/// One message of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// The text.
    pub text: String,
}

impl ChatMessage {
    /// What somebody says.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Self { role, text: text.into() }
    }
}

/// A JSON schema with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    /// Letters, digits and underscores.
    pub name: String,
    /// The schema itself.
    pub json: Json,
}

/// What a chat model answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChatReply {
    /// The text.
    pub text: String,
    /// Why it ends there.
    pub end: End,
    /// What it cost.
    pub usage: Usage,
    /// What was taken out of the request before it left.
    pub redacted: Redactions,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum End {
    /// The model had said everything.
    #[default]
    Complete,
    /// It came to the most tokens it may use.
    Cut,
    /// It declined, or a filter stopped it.
    Declined,
}

/// The tokens of a call, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Calls that were made.
    pub calls: u32,
    /// Tokens that were read.
    pub tokens_in: u64,
    /// Tokens that were written.
    pub tokens_out: u64,
}

impl Usage {
    /// One call.
    #[must_use]
    pub const fn of_call(tokens_in: u64, tokens_out: u64) -> Self {
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
