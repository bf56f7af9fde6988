//! What models bring, behind the ports of `treering-core`: tokenizers, the summariser that needs
//! no model, the bundled embedder and, with the feature `encoder`, a sentence encoder.

#[cfg(feature = "encoder")]
pub mod encoder;
pub mod extractive;
pub mod static_embedder;
pub mod tokenizer;
mod wordpiece;

#[cfg(feature = "encoder")]
pub use encoder::Encoder;
pub use extractive::Extractive;
pub use static_embedder::StaticEmbedder;
pub use tokenizer::Bpe;

/// The name of the encoder's model, known also to a program without it.
pub const ENCODER_NAME: &str = "all-MiniLM-L6-v2";
