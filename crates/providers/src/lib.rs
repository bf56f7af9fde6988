//! What models bring, behind the ports of `treering-core`: tokenizers, the summariser that needs
//! no model, the bundled embedder; with the feature `encoder`, a sentence encoder; with the feature
//! `remote`, models over HTTP for summaries, vectors and chat; with the feature `tokenizers`, tokenizers of any family.

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
mod ollama;
#[cfg(feature = "remote")]
mod openai;
#[cfg(feature = "remote")]
pub mod remote;
pub mod static_embedder;
#[cfg(feature = "remote")]
mod stream;
#[cfg(feature = "remote")]
pub mod summarise;
pub mod tokenizer;
#[cfg(feature = "tokenizers")]
mod tokenizer_file;
mod wordpiece;

#[cfg(feature = "encoder")]
pub use encoder::Encoder;
pub use extractive::Extractive;
pub use static_embedder::StaticEmbedder;
#[cfg(feature = "remote")]
pub use summarise::ModelSummarizer;
pub use tokenizer::Bpe;
#[cfg(feature = "tokenizers")]
pub use tokenizer_file::FileTokenizer;

/// The name of the encoder's model, known also to a program without it.
pub const ENCODER_NAME: &str = "all-MiniLM-L6-v2";
