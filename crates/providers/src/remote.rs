//! Remote models by the interface their provider speaks.

use std::sync::Arc;

use treering_core::{Chat, Embedder, ProviderError};

pub use crate::embedding::RemoteEmbedder;

use crate::anthropic::AnthropicChat;
use crate::gemini::{self, GeminiChat, GeminiEmbedding};
use crate::http::Client;
use crate::ollama::{OllamaChat, OllamaEmbedding};
use crate::openai::{OpenAiChat, OpenAiEmbedding};

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// As OpenAI is.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own interface.
    Ollama,
}

/// Embedding models whose vectors have a length that everybody knows.
const USUAL_DIMS: [(&str, usize); 8] = [
    ("text-embedding-3-small", 1536),
    ("text-embedding-3-large", 3072),
    ("text-embedding-ada-002", 1536),
    ("gemini-embedding-001", gemini::DIMS),
    ("nomic-embed-text", 768),
    ("mxbai-embed-large", 1024),
    ("all-minilm", 384),
    ("bge-m3", 1024),
];

/// A chat model of a provider.
#[must_use]
pub fn chat(wire: Wire, client: Client, model: &str) -> Arc<dyn Chat> {
    match wire {
        Wire::OpenAi => Arc::new(OpenAiChat::new(client, model)),
        Wire::Anthropic => Arc::new(AnthropicChat::new(client, model)),
        Wire::Gemini => Arc::new(GeminiChat::new(client, model)),
        Wire::Ollama => Arc::new(OllamaChat::new(client, model)),
    }
}

/// An embedding model of a provider, its vectors shortened to so many numbers where that is asked for.
pub fn embedder(
    wire: Wire,
    client: Client,
    model: &str,
    dims: Option<usize>,
) -> Result<Arc<dyn Embedder>, ProviderError> {
    let plain = model.split(':').next().unwrap_or(model);
    let usual = USUAL_DIMS.iter().find(|(name, _)| *name == plain).map(|(_, dims)| *dims);
    let asked = dims.filter(|dims| Some(*dims) != usual);
    let embedder = match wire {
        Wire::OpenAi => {
            RemoteEmbedder::new(Box::new(OpenAiEmbedding::new(client, model, asked)), asked, usual)
        }
        Wire::Gemini => {
            RemoteEmbedder::new(Box::new(GeminiEmbedding::new(client, model, asked)), asked, usual)
        }
        Wire::Ollama => {
            RemoteEmbedder::new(Box::new(OllamaEmbedding::new(client, model, asked)), asked, usual)
        }
        Wire::Anthropic => return Err(ProviderError::lasting("Anthropic has no embedding models")),
    };
    Ok(Arc::new(embedder))
}
