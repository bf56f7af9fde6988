//! What models bring, behind the ports of `treering-core`: tokenizers, the summariser that needs
//! no model, and the bundled embedder.

pub mod extractive;
pub mod static_embedder;
pub mod tokenizer;
mod wordpiece;

pub use extractive::Extractive;
pub use static_embedder::StaticEmbedder;
pub use tokenizer::Bpe;
