//! What models bring: tokenizers and the bundled embedder, behind the ports of `treering-core`.

pub mod static_embedder;
pub mod tokenizer;

pub use static_embedder::StaticEmbedder;
pub use tokenizer::Bpe;
