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
    pub fn estimated_tokens(&self) -> u64 {
        let chars: u64 =
            self.messages.iter().map(|message| u64::from(crate::text::chars(&message.text))).sum();
        chars.div_ceil(4)
    }

    /// The most that a call can take: more tokens than any tokenizer makes of the text, and as many as the answer may
    /// have.
    #[must_use]
    pub fn max_usage(&self) -> Usage {
        let schema = self.schema.as_ref().map(|schema| schema.json.as_str());
        let texts = self.messages.iter().map(|message| message.text.as_str()).chain(schema);
        let marks = 16 * (self.messages.len() as u64 + 1);
        let answer = u64::from(self.max_tokens.unwrap_or(MOST_ANSWER));
        Usage::for_call(texts.map(crate::text::token_upper_bound).sum::<u64>() + marks, answer)
    }
}

/// The tokens that an answer is thought to have at the most, where nobody sets a bound.
const MOST_ANSWER: u32 = 8192;

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
    pub finish_reason: FinishReason,
    /// What it cost.
    pub usage: Usage,
    /// What was taken out of the request before it left.
    pub redacted: Redactions,
}

/// Why an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FinishReason {
    /// The model had said everything.
    #[default]
    Complete,
    /// It came to the most tokens it may use.
    Truncated,
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
