//! What remote embedders share: batches, vectors of length one, and the check of what came back.

use std::sync::OnceLock;

use serde_json::Value;
use treering_core::{Embedder, ProviderError};

use crate::http::Client;

/// What a provider answered.
pub(crate) struct Vectors {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) tokens: u64,
}

/// One provider's way of embedding.
pub(crate) trait Batch: Send + Sync {
    /// Provider and model.
    fn name(&self) -> &str;
    /// The most texts of a call.
    fn most(&self) -> usize;
    /// The vectors of texts, in their order.
    fn embed(&self, texts: &[&str], rough_tokens: u64) -> Result<Vectors, ProviderError>;
    /// The client.
    fn client(&self) -> &Client;
}

/// A remote model as an embedder.
pub struct RemoteEmbedder {
    batch: Box<dyn Batch>,
    name: String,
    dims: OnceLock<usize>,
}

impl RemoteEmbedder {
    /// An embedder whose vectors have so many numbers; what they have is found out by the first call
    /// where nobody says. A number that is asked for belongs to the name: such vectors are others.
    pub(crate) fn new(batch: Box<dyn Batch>, asked: Option<usize>, usual: Option<usize>) -> Self {
        let name = match asked {
            Some(asked) if Some(asked) != usual => format!("{}@{asked}", batch.name()),
            _ => batch.name().to_owned(),
        };
        let dims = OnceLock::new();
        if let Some(known) = asked.or(usual) {
            let _ = dims.set(known);
        }
        Self { batch, name, dims }
    }

    fn embed_some(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let rough_tokens = texts.iter().map(|text| text.len() as u64).sum::<u64>().div_ceil(4);
        let Vectors { mut vectors, tokens } = self.batch.embed(texts, rough_tokens)?;
        if tokens > 0 {
            self.batch.client().settle(rough_tokens, tokens);
        }
        let unusable = |why: String| self.batch.client().unusable(&why);
        if vectors.len() != texts.len() {
            return Err(unusable(format!("{} vectors for {} texts", vectors.len(), texts.len())));
        }
        for vector in &mut vectors {
            let dims = *self.dims.get_or_init(|| vector.len());
            if vector.is_empty() {
                return Err(unusable("an empty vector".into()));
            }
            if vector.len() != dims {
                let why = format!("a vector of {} numbers, not {dims}", vector.len());
                return Err(ProviderError::lasting(unusable(why).reason));
            }
            if !normalise(vector) {
                return Err(unusable("a vector without length".into()));
            }
        }
        Ok(vectors)
    }
}

/// The numbers of an array; empty where it is none.
pub(crate) fn numbers(value: &Value) -> Vec<f32> {
    let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let numbers: Option<Vec<f32>> = items.iter().map(|item| item.as_f64().map(|x| x as f32)).collect();
    numbers.unwrap_or_default()
}

/// Brings a vector to length one, if it has any.
fn normalise(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let is_usable = length.is_finite() && length > 0.0;
    if is_usable {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    is_usable
}

impl Embedder for RemoteEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> usize {
        if self.dims.get().is_none() {
            // A call that fails leaves it open; whoever embeds next hears why.
            drop(self.embed_some(&["dimensions"]));
        }
        self.dims.get().copied().unwrap_or(0)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let says_something = |text: &&str| text.chars().any(|c| !c.is_whitespace());
        let asked: Vec<&str> = texts.iter().copied().filter(says_something).collect();
        let mut vectors = Vec::with_capacity(asked.len());
        for some in asked.chunks(self.batch.most()) {
            vectors.extend(self.embed_some(some)?);
        }
        let mut vectors = vectors.into_iter();
        let zeros = || vec![0.0; self.dims()];
        let all = texts.iter().map(|text| match says_something(text) {
            true => vectors.next().unwrap_or_default(),
            false => zeros(),
        });
        Ok(all.collect())
    }
}
