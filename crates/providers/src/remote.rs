//! Creates remote models for each API protocol.

use std::sync::Arc;

use treering_core::{ChatModel, Embedder, ProviderError};

use crate::anthropic::Anthropic;
use crate::chat::RemoteChat;
use crate::embedding::RemoteEmbedder;
use crate::gemini::{self, Gemini};
use crate::http::Client;
use crate::ollama::Ollama;
use crate::openai::OpenAi;

/// The API that a provider offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiProtocol {
    /// OpenAI.
    OpenAi,
    /// OpenAI-compatible servers: llama.cpp, vLLM, LM Studio and others.
    Compatible,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// Ollama's native API.
    Ollama,
}

/// Default dimensions of well-known embedding models.
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

/// Creates a chat model of a provider.
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

/// Creates an embedding model of a provider. `dims` requests shorter vectors than the model's
/// default. Fails if the provider has no embedding models.
pub fn embedder(
    wire: ApiProtocol,
    client: Client,
    model: &str,
    dims: Option<usize>,
) -> Result<Arc<dyn Embedder>, ProviderError> {
    let base_name = model.split(':').next().unwrap_or(model);
    let default_dims =
        KNOWN_DIMS.iter().find(|(name, _)| *name == base_name).map(|(_, dims)| *dims);
    Ok(match wire {
        ApiProtocol::OpenAi => {
            Arc::new(RemoteEmbedder::new(client, model, OpenAi::ITSELF, dims, default_dims))
        }
        ApiProtocol::Compatible => {
            Arc::new(RemoteEmbedder::new(client, model, OpenAi::COMPATIBLE, dims, default_dims))
        }
        ApiProtocol::Gemini => {
            Arc::new(RemoteEmbedder::new(client, model, Gemini, dims, default_dims))
        }
        ApiProtocol::Ollama => {
            Arc::new(RemoteEmbedder::new(client, model, Ollama, dims, default_dims))
        }
        ApiProtocol::Anthropic => {
            return Err(ProviderError::permanent("Anthropic has no embedding models"));
        }
    })
}
