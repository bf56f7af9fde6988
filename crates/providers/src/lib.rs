//! Adapters that implement the model ports of `treering-core`.
//!
//! Always built: the bundled tokenizers, the extractive summarizer (which needs no model) and
//! the static embedder. The feature `encoder` adds a local sentence encoder, `remote` adds
//! models over HTTP for summaries, embeddings and chat, and `tokenizers` adds tokenizers of any
//! family. Nothing here reads settings or touches the store.

#[cfg(feature = "remote")]
mod anthropic;
#[cfg(feature = "remote")]
mod chat;
#[cfg(feature = "remote")]
mod dialect;
#[cfg(feature = "remote")]
mod embedding;
#[cfg(feature = "encoder")]
pub mod encoder;
pub mod extractive;
#[cfg(feature = "remote")]
mod gemini;
#[cfg(feature = "remote")]
pub mod http;
#[cfg(feature = "remote")]
mod model;
#[cfg(feature = "remote")]
pub mod model_summarizer;
#[cfg(feature = "remote")]
mod ollama;
#[cfg(feature = "remote")]
mod openai;
#[cfg(feature = "remote")]
pub mod remote;
pub mod static_embedder;
#[cfg(feature = "remote")]
mod stream;
pub mod tokenizer;
#[cfg(feature = "tokenizers")]
mod tokenizer_file;
mod wordpiece;

#[cfg(feature = "encoder")]
pub use encoder::Encoder;
pub use extractive::Extractive;
#[cfg(feature = "remote")]
pub use model_summarizer::ModelSummarizer;
pub use static_embedder::StaticEmbedder;
pub use tokenizer::Bpe;
#[cfg(feature = "tokenizers")]
pub use tokenizer_file::FileTokenizer;

/// Name of the encoder's model, also available in builds without the feature `encoder`.
pub const ENCODER_NAME: &str = "all-MiniLM-L6-v2";
