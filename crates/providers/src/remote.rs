//! Remote models by the interface their provider speaks.

use std::sync::Arc;

use treering_core::{ChatModel, Embedder, ProviderError};

use crate::anthropic::Anthropic;
use crate::chat::RemoteChat;
use crate::embedding::RemoteEmbedder;
use crate::gemini::{self, Gemini};
use crate::http::Client;
use crate::ollama::Ollama;
use crate::openai::OpenAi;

/// How a provider is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiProtocol {
    /// OpenAI.
    OpenAi,
    /// As OpenAI is, or was: llama.cpp, vLLM, LM Studio and others.
    Compatible,
    /// Anthropic's messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's own interface.
    Ollama,
}

/// Embedding models whose vectors have a length that everybody knows.
const KNOWN_DIMS: [(&str, usize); 9] = [
    ("text-embedding-3-small", 1536),
    ("text-embedding-3-large", 3072),
    ("text-embedding-ada-002", 1536),
    ("gemini-embedding-001", gemini::DIMS),
    ("gemini-embedding-2", gemini::DIMS),
    ("nomic-embed-text", 768),
    ("mxbai-embed-large", 1024),
    ("all-minilm", 384),
    ("bge-m3", 1024),
];

/// A chat model of a provider.
#[must_use]
pub fn chat(wire: ApiProtocol, client: Client, model: &str) -> Arc<dyn ChatModel> {
    match wire {
        ApiProtocol::OpenAi => Arc::new(RemoteChat::new(client, model, OpenAi::ITSELF)),
        ApiProtocol::Compatible => Arc::new(RemoteChat::new(client, model, OpenAi::COMPATIBLE)),
        ApiProtocol::Anthropic => Arc::new(RemoteChat::new(client, model, Anthropic)),
        ApiProtocol::Gemini => Arc::new(RemoteChat::new(client, model, Gemini)),
        ApiProtocol::Ollama => Arc::new(RemoteChat::new(client, model, Ollama)),
    }
}

/// An embedding model of a provider, its vectors shortened to so many numbers where that is asked for.
pub fn embedder(
    wire: ApiProtocol,
    client: Client,
    model: &str,
    dims: Option<usize>,
) -> Result<Arc<dyn Embedder>, ProviderError> {
    let plain = model.split(':').next().unwrap_or(model);
    let usual = KNOWN_DIMS.iter().find(|(name, _)| *name == plain).map(|(_, dims)| *dims);
    Ok(match wire {
        ApiProtocol::OpenAi => {
            Arc::new(RemoteEmbedder::new(client, model, OpenAi::ITSELF, dims, usual))
        }
        ApiProtocol::Compatible => {
            Arc::new(RemoteEmbedder::new(client, model, OpenAi::COMPATIBLE, dims, usual))
        }
        ApiProtocol::Gemini => Arc::new(RemoteEmbedder::new(client, model, Gemini, dims, usual)),
        ApiProtocol::Ollama => Arc::new(RemoteEmbedder::new(client, model, Ollama, dims, usual)),
        ApiProtocol::Anthropic => {
            return Err(ProviderError::permanent("Anthropic has no embedding models"));
        }
    })
}
