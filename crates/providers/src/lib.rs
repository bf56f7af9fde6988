//! What models bring, behind the ports of `treering-core`: tokenizers, and the summariser that
//! needs no model.

pub mod extractive;
pub mod tokenizer;

pub use extractive::Extractive;
pub use tokenizer::Bpe;
