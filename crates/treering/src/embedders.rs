//! Creates embedders by the name of their model.

use std::path::PathBuf;
use std::sync::Arc;

use treering_core::{Embedder, ProviderError};
use treering_engine::EmbedTextOptions;
use treering_providers::{ENCODER_NAME, StaticEmbedder};

use crate::models::Models;
use crate::{Error, Result};

/// The embedders that run in this process.
pub(crate) const EMBEDDERS: [&str; 2] = [StaticEmbedder::NAME, ENCODER_NAME];

/// Options for the embedder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedOptions {
    /// The name of the model, as `PROVIDER/MODEL` if it is remote.
    pub model: String,
    /// Number of dimensions to request from a remote model; its default if absent.
    pub dimensions: Option<usize>,
    /// The folder of the encoder, relative to the memory's folder.
    pub encoder_path: PathBuf,
    /// The texts that are embedded.
    pub texts: EmbedTextOptions,
}

impl Default for EmbedOptions {
    fn default() -> Self {
        Self {
            model: StaticEmbedder::NAME.into(),
            dimensions: None,
            encoder_path: "models/all-MiniLM-L6-v2".into(),
            texts: EmbedTextOptions::default(),
        }
    }
}

/// Creates the configured embedder, local or remote.
pub(crate) fn embedder(options: &EmbedOptions, models: &Models) -> Result<Arc<dyn Embedder>> {
    match options.model.split_once('/') {
        None => embedder_named(&options.model, options),
        Some((provider, model)) => {
            models.embedder(provider, model, options.dimensions).map_err(Error::Provider)
        }
    }
}

/// Creates the local embedder whose model has this name.
pub fn embedder_named(name: &str, options: &EmbedOptions) -> Result<Arc<dyn Embedder>> {
    match name {
        StaticEmbedder::NAME => Ok(Arc::new(StaticEmbedder::new())),
        ENCODER_NAME => encoder(options).map_err(Error::Provider),
        _ => Err(Error::Provider(ProviderError::permanent(format!(
            "there is no embedder {name:?}; choose {} or {ENCODER_NAME}",
            StaticEmbedder::NAME
        )))),
    }
}

type EmbedderResult = std::result::Result<Arc<dyn Embedder>, ProviderError>;

#[cfg(feature = "encoder")]
fn encoder(options: &EmbedOptions) -> EmbedderResult {
    Ok(Arc::new(treering_providers::Encoder::open(&options.encoder_path)?))
}

#[cfg(not(feature = "encoder"))]
fn encoder(_: &EmbedOptions) -> EmbedderResult {
    Err(ProviderError::permanent(
        "this program was built without the encoder; install it with \
         `cargo install --path crates/cli --features encoder`, or set `embed.model = \"bundled\"`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_embedder_is_found_by_its_model_name() {
        let options = EmbedOptions::default();
        assert_eq!(embedder_named(&options.model, &options).unwrap().name(), options.model);
    }

    #[test]
    fn an_unavailable_embedder_explains_the_remedy() {
        let check = |name: &str, words: &[&str]| {
            let options =
                EmbedOptions { encoder_path: "nowhere".into(), ..EmbedOptions::default() };
            let error = embedder_named(name, &options).err().unwrap().to_string();
            for word in words {
                assert!(error.contains(word), "{error}");
            }
        };
        check("word2vec", &["word2vec", StaticEmbedder::NAME, ENCODER_NAME]);
        match cfg!(feature = "encoder") {
            true => {
                check(ENCODER_NAME, &["nowhere", "model.onnx is missing", "tools/encoder/make"]);
            }
            false => check(ENCODER_NAME, &["built without", "--features encoder"]),
        }
    }
}
