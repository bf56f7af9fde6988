//! What models bring: tokenizers today, behind the ports of `treering-core`.

pub mod tokenizer;

pub use tokenizer::Bpe;
