//! Byte-pair tokenizers of the OpenAI families, with their vocabularies in the binary.

use treering_core::Tokenizer;

/// A byte-pair tokenizer. The first use in a process builds its tables; later ones share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bpe {
    /// GPT-4o and later; the default, close enough to other families to budget by.
    #[default]
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
}

impl Tokenizer for Bpe {
    fn name(&self) -> &'static str {
        match self {
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
        }
    }

    fn count(&self, text: &str) -> u32 {
        let tokenizer = match self {
            Self::O200k => bpe_openai::o200k_base(),
            Self::Cl100k => bpe_openai::cl100k_base(),
        };
        u32::try_from(tokenizer.count(text)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_as_the_families_do() {
        assert_eq!(Bpe::O200k.count("hello world"), 2);
        assert_eq!(Bpe::Cl100k.count("hello world"), 2);
        assert_eq!(Bpe::O200k.count(""), 0);
        assert!(Bpe::O200k.count("été 🌊 潮汐\0") > 3);
    }
}
