//! What the domain needs from models and from the system: tokens, summaries, answers, vectors, the time.

use crate::chat::{ChatReply, ChatRequest, Usage};
use crate::error::ProviderError;
use crate::node::NodeContent;
use crate::redact::Redactions;
use crate::spend::Reservation;
use crate::summary_request::SummaryRequest;
use crate::time::Timestamp;

/// Counts tokens as a family of models does.
pub trait Tokenizer: Send + Sync {
    /// Its name, e.g. `o200k`.
    fn name(&self) -> &str;

    /// How many tokens the text has.
    fn count(&self, text: &str) -> u32;

    /// Whether the tokens of blocks that end with a line add up to those of all of them together.
    fn adds_up(&self) -> bool;
}

/// Writes what a node says.
pub trait Summarizer: Send + Sync {
    /// Its name, e.g. `extractive`; kept with every node it writes.
    fn name(&self) -> &str;

    /// Whether it lies beyond this machine, so that work is handed to it in small batches.
    fn is_remote(&self) -> bool;

    /// Writes a node from its brief. The same brief gives the same content where the
    /// summariser is deterministic.
    fn summarize(&self, brief: &SummaryRequest) -> Result<NodeContent, ProviderError>;

    /// The same; every call to a model is asked for and accounted.
    fn summarize_metered(
        &self,
        brief: &SummaryRequest,
        _: &dyn Meter,
    ) -> Result<NodeContent, ProviderError> {
        self.summarize(brief)
    }
}

/// Says whether a call to a model may be made, and keeps account of what it took.
pub trait Meter: Send + Sync {
    /// Books the most that a call can take, or says why it may not be made.
    fn reserve_usage(&self, model: &str, most: Usage) -> Result<Reservation, ProviderError>;

    /// Puts what a call took in the place of what was booked for it, and notes what was taken out of it before it left
    /// the machine.
    fn settle(&self, booking: Reservation, took: Usage, redacted: &Redactions);
}

/// Talks.
pub trait ChatModel: Send + Sync {
    /// Its provider and model, e.g. `openai/gpt-6-luna`.
    fn name(&self) -> &str;

    /// Whether it lies beyond this process, so that an answer takes a while.
    fn is_remote(&self) -> bool;

    /// The whole answer.
    fn complete(&self, request: &ChatRequest) -> Result<ChatReply, ProviderError>;

    /// The answer piece by piece, and whole at the end. A stream that breaks off is an error, whatever
    /// was heard of it.
    fn stream(
        &self,
        request: &ChatRequest,
        hear: &mut dyn FnMut(&str),
    ) -> Result<ChatReply, ProviderError>;
}

/// Gives texts their vectors.
pub trait Embedder: Send + Sync {
    /// The model's name. Vectors of different names must not be compared.
    fn name(&self) -> &str;

    /// How many numbers a vector has; 0 where only the first vector will tell. Nobody is asked for it.
    fn dims(&self) -> usize;

    /// Whether it lies beyond this machine.
    fn is_remote(&self) -> bool;

    /// Whether a vector costs less to make than to keep: then none is kept.
    fn is_instant(&self) -> bool {
        false
    }

    /// The vectors of texts, in their order: each of length one, or zeros where a text says
    /// nothing.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError>;

    /// The same; every call to a model is asked for and accounted.
    fn embed_metered(&self, texts: &[&str], _: &dyn Meter) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.embed(texts)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// What time it is.
    fn now(&self) -> Timestamp;
}
