//! Selects the tokenizer: a bundled one, or one from a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use treering_core::{ProviderError, Tokenizer};
use treering_providers::Bpe;

/// The choice of a tokenizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenizerOption {
    /// A tokenizer that is part of the program.
    Bundled(Bpe),
    /// The `tokenizer.json` of a model, relative to the memory's folder. Requires the feature
    /// `tokenizers`.
    File(PathBuf),
}

impl Default for TokenizerOption {
    fn default() -> Self {
        Self::Bundled(Bpe::default())
    }
}

impl std::str::FromStr for TokenizerOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "o200k" => Ok(Self::Bundled(Bpe::O200k)),
            "cl100k" => Ok(Self::Bundled(Bpe::Cl100k)),
            path if path.ends_with(".json") => Ok(Self::File(path.into())),
            _ => Err(format!(
                "there is no tokenizer {text:?}; choose o200k, cl100k, or the path of a model's tokenizer.json"
            )),
        }
    }
}

/// Creates the configured tokenizer.
pub(crate) fn tokenizer(
    home: &Path,
    option: &TokenizerOption,
) -> Result<Arc<dyn Tokenizer>, ProviderError> {
    match option {
        TokenizerOption::Bundled(bpe) => Ok(Arc::new(*bpe)),
        TokenizerOption::File(path) => from_file(&home.join(path)),
    }
}

#[cfg(feature = "tokenizers")]
fn from_file(path: &Path) -> Result<Arc<dyn Tokenizer>, ProviderError> {
    Ok(Arc::new(treering_providers::FileTokenizer::open(path)?))
}

#[cfg(not(feature = "tokenizers"))]
fn from_file(path: &Path) -> Result<Arc<dyn Tokenizer>, ProviderError> {
    Err(ProviderError::permanent(format!(
        "cannot use {}: this program was built without support for tokenizer files; install it \
         with `cargo install --path crates/cli --features tokenizers`, or set \
         `tokens.tokenizer = \"o200k\"`",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_is_a_name_or_a_path() {
        assert_eq!("cl100k".parse(), Ok(TokenizerOption::Bundled(Bpe::Cl100k)));
        assert_eq!(
            "llama/tokenizer.json".parse(),
            Ok(TokenizerOption::File("llama/tokenizer.json".into()))
        );
        let refused = "llama".parse::<TokenizerOption>().unwrap_err();
        assert!(refused.contains("llama") && refused.contains("tokenizer.json"), "{refused}");
        let option = TokenizerOption::File("nowhere/tokenizer.json".into());
        let error = tokenizer(Path::new("home"), &option).err().unwrap().to_string();
        let expected =
            if cfg!(feature = "tokenizers") { "cannot be read" } else { "--features tokenizers" };
        assert!(error.contains("home/nowhere") && error.contains(expected), "{error}");
    }
}
