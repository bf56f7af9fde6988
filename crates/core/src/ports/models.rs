//! The ports to models and to the system: tokenizer, summarizer, chat model, embedder, meter,
//! clock.

use crate::chat::{ChatReply, ChatRequest, Usage};
use crate::error::ProviderError;
use crate::node::NodeContent;
use crate::redact::Redactions;
use crate::spend::Reservation;
use crate::summary_request::SummaryRequest;
use crate::time::Timestamp;

/// Counts tokens the way a family of models does.
pub trait Tokenizer: Send + Sync {
    /// The tokenizer's name, e.g. `o200k`.
    fn name(&self) -> &str;

    /// The number of tokens in the text.
    fn count(&self, text: &str) -> u32;

    /// Whether token counts are additive over blocks that end with a newline.
    fn adds_up(&self) -> bool;
}

/// Writes the content of a node.
pub trait Summarizer: Send + Sync {
    /// The summarizer's name, e.g. `extractive`; stored with every node it writes.
    fn name(&self) -> &str;

    /// Whether it runs on another machine. Remote work is leased in small batches.
    fn is_remote(&self) -> bool;

    /// Writes a node from its request. A deterministic summarizer returns the same content for
    /// the same request.
    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError>;

    /// Like [`Summarizer::summarize`], but reserves and settles every model call with the
    /// meter.
    fn summarize_metered(
        &self,
        request: &SummaryRequest,
        _: &dyn Meter,
    ) -> Result<NodeContent, ProviderError> {
        self.summarize(request)
    }
}

/// Authorizes calls to models and records their usage.
pub trait Meter: Send + Sync {
    /// Reserves the maximum that a call can use, or returns the reason why the call is not
    /// allowed.
    fn reserve_usage(&self, model: &str, max_usage: Usage) -> Result<Reservation, ProviderError>;

    /// Replaces a reservation with the actual usage, and records the redactions made before the
    /// request left the machine.
    fn settle(&self, reservation: Reservation, usage: Usage, redacted: &Redactions);
}

/// A chat model.
pub trait ChatModel: Send + Sync {
    /// Provider and model, e.g. `openai/gpt-6-luna`.
    fn name(&self) -> &str;

    /// Whether it runs outside this process, so that a reply takes noticeable time.
    fn is_remote(&self) -> bool;

    /// Returns the complete reply.
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError>;

    /// Streams the reply to `on_text` and returns it complete at the end. A stream that breaks off
    /// is an error, even if part of the reply arrived.
    fn stream(
        &self,
        request: &ChatRequest,
        on_text: &mut dyn FnMut(&str),
    ) -> Result<ChatReply, ProviderError>;
}

/// Computes the embeddings of texts.
pub trait Embedder: Send + Sync {
    /// The model's name. Vectors of different models must not be compared.
    fn name(&self) -> &str;

    /// The number of dimensions; 0 if it is unknown before the first vector. Never calls the
    /// model.
    fn dims(&self) -> usize;

    /// Whether it runs on another machine.
    fn is_remote(&self) -> bool;

    /// Whether computing a vector is cheaper than storing it; such vectors are never stored.
    fn is_instant(&self) -> bool {
        false
    }

    /// The vectors of the texts, in order. Each has length one, or is all zeros for a text
    /// without content.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError>;

    /// Like [`Embedder::embed`], but reserves and settles every model call with the meter.
    fn embed_metered(&self, texts: &[&str], _: &dyn Meter) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.embed(texts)
    }
}

/// The source of the current time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}
