//! Tokenizers of any family, read from the `tokenizer.json` that ships with a model.

use std::path::Path;

use tokenizers::Tokenizer as Vocabulary;
use treering_core::{ProviderError, Tokenizer};

/// Counts tokens like the model that the `tokenizer.json` belongs to.
pub struct FileTokenizer {
    name: String,
    vocabulary: Vocabulary,
}

impl FileTokenizer {
    /// Reads a `tokenizer.json`.
    pub fn open(path: &Path) -> Result<Self, ProviderError> {
        let unreadable = |reason: String| {
            ProviderError::permanent(format!(
                "{} cannot be read as a model's tokenizer.json: {reason}; correct `tokens.tokenizer`, \
                 or set it to `o200k`, which needs no file",
                path.display()
            ))
        };
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let mut vocabulary =
            Vocabulary::from_bytes(bytes).map_err(|error| unreadable(error.to_string()))?;
        // Some files truncate to the length that the model was trained on; count the rest as
        // well.
        vocabulary.with_truncation(None).map_err(|error| unreadable(error.to_string()))?;
        vocabulary.with_padding(None);
        Ok(Self { name: name_of(path), vocabulary })
    }
}

/// The tokenizer's name: the file stem, or the folder's name if the file is `tokenizer.json`.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).filter(|_| stem == "tokenizer");
    folder.unwrap_or(stem).to_string_lossy().into_owned()
}

impl Tokenizer for FileTokenizer {
    fn name(&self) -> &str {
        &self.name
    }

    /// Counts the tokens of a text. If the vocabulary cannot encode it, counts bytes, an upper
    /// bound.
    fn count(&self, text: &str) -> u32 {
        let tokens =
            self.vocabulary.encode_fast(text, false).map_or(text.len(), |encoded| encoded.len());
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }

    fn adds_up(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokenizers::models::bpe::{BPE, BpeTrainerBuilder};
    use tokenizers::models::wordpiece::WordPiece;
    use tokenizers::pre_tokenizers::byte_level::ByteLevel;
    use tokenizers::{TokenizerBuilder, TruncationParams};

    #[test]
    fn a_byte_pair_file_counts_as_its_vocabulary_does() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tiny").join("tokenizer.json");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let mut trained = TokenizerBuilder::<
            BPE,
            tokenizers::NormalizerWrapper,
            ByteLevel,
            ByteLevel,
            ByteLevel,
        >::new()
        .with_model(BPE::default())
        .with_pre_tokenizer(Some(ByteLevel::default()))
        .with_decoder(Some(ByteLevel::default()))
        .build()
        .unwrap();
        let mut trainer = BpeTrainerBuilder::new()
            .show_progress(false)
            .vocab_size(300)
            .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
            .build();
        trained
            .train(&mut trainer, ["the tide is high, the tide is low"].repeat(20).into_iter())
            .unwrap();
        trained
            .with_truncation(Some(TruncationParams {
                max_length: 4,
                ..TruncationParams::default()
            }))
            .unwrap();
        trained.save(&path, false).unwrap();

        let read = FileTokenizer::open(&path).unwrap();
        assert_eq!(read.name(), "tiny");
        assert_eq!(read.count(""), 0);
        let words = " the tide is high, the tide is low";
        assert!(read.count(words) <= 9, "known words are single tokens: {}", read.count(words));
        assert_eq!(read.count(&words.repeat(50)), 50 * read.count(words), "nothing is truncated");
        assert_eq!(read.count(" 潮汐"), 7, "unknown text counts its bytes");
    }

    #[test]
    fn a_text_that_has_no_tokens_counts_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words.json");
        // This vocabulary has no token for unknown words.
        tokenizers::Tokenizer::new(WordPiece::default()).save(&path, false).unwrap();
        let read = FileTokenizer::open(&path).unwrap();
        assert_eq!((read.name(), read.count("tide")), ("words", 4));
    }

    #[test]
    fn a_file_that_is_not_a_tokenizer_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        let missing = FileTokenizer::open(&path).err().unwrap().to_string();
        assert!(missing.contains("tokenizer.json") && missing.contains("o200k"), "{missing}");
        std::fs::write(&path, "{\"version\": \"1.0\"}").unwrap();
        let broken = FileTokenizer::open(&path).err().unwrap().to_string();
        assert!(broken.contains("cannot be read"), "{broken}");
    }
}
