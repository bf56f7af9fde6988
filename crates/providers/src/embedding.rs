//! Remote embedders for every dialect: batching, validation and normalization of vectors.

use std::sync::OnceLock;

use treering_core::chat::Usage;
use treering_core::spend::Unmetered;
use treering_core::{Embedder, Meter, ProviderError};

use treering_core::text::token_upper_bound;

use crate::dialect::{ApiRequest, EmbeddingDialect};
use crate::http::{Client, HttpCall};
use crate::model::{Fields, RemoteModel};

/// A remote model as an embedder.
pub(crate) struct RemoteEmbedder<D> {
    model: RemoteModel,
    dialect: D,
    name: String,
    /// Requested dimensions, if they differ from the model's default.
    requested_dims: Option<usize>,
    dims: OnceLock<usize>,
}

impl<D: EmbeddingDialect> RemoteEmbedder<D> {
    /// Creates an embedder. If neither `requested_dims` nor `default_dims` gives the dimensions, the first call
    /// determines them. Requested dimensions become part of the name, because vectors of
    /// different lengths must not be compared.
    pub(crate) fn new(
        client: Client,
        model: &str,
        dialect: D,
        requested_dims: Option<usize>,
        default_dims: Option<usize>,
    ) -> Self {
        let model = RemoteModel::new(client, model);
        let requested_dims = requested_dims.filter(|dims| Some(*dims) != default_dims);
        let name = match requested_dims {
            Some(requested_dims) => format!("{}@{requested_dims}", model.name),
            None => model.name.clone(),
        };
        let dims = OnceLock::new();
        if let Some(known) = requested_dims.or(default_dims) {
            let _ = dims.set(known);
        }
        Self { model, dialect, name, requested_dims, dims }
    }

    fn call(&self, texts: &[&str], fields: &Fields) -> HttpCall {
        let ApiRequest { path, body } =
            self.dialect.post(&self.model.id, texts, self.requested_dims, fields);
        let headers = self.dialect.headers(self.model.client.endpoint().key.as_ref());
        HttpCall { path, headers, body }
    }

    /// Embeds texts that fit into one call, and settles the call with the meter.
    fn embed_some(
        &self,
        texts: &[&str],
        meter: &dyn Meter,
    ) -> Result<Vec<Vec<f32>>, ProviderError> {
        let max_tokens = texts.iter().map(|text| token_upper_bound(text) + 16).sum();
        let reservation = meter.reserve_usage(&self.name, Usage::for_call(max_tokens, 0))?;
        let answer = self.model.send(D::OPTIONAL, |fields| self.call(texts, fields));
        let answer = answer.inspect_err(|error| {
            let mut call = error.call.as_deref().cloned().unwrap_or_default();
            if call.is_charged {
                call.usage = Usage::for_call(rough_tokens(texts), 0);
            }
            meter.settle(reservation.clone(), call.usage, &call.redacted);
        })?;
        let vectors = self.dialect.vectors(&answer.body);
        // Not every server reports its usage.
        let tokens = match vectors {
            Some((_, tokens)) if tokens > 0 => tokens,
            _ => rough_tokens(texts),
        };
        meter.settle(reservation, Usage::for_call(tokens, 0), &answer.redacted);
        self.check(texts, vectors.map(|(vectors, _)| vectors))
    }

    /// Normalizes the vectors after checking that there is a usable one for each text.
    fn check(
        &self,
        texts: &[&str],
        vectors: Option<Vec<Vec<f32>>>,
    ) -> Result<Vec<Vec<f32>>, ProviderError> {
        let client = &self.model.client;
        let mut vectors = vectors.ok_or_else(|| client.unusable("an answer without vectors"))?;
        if vectors.len() != texts.len() {
            return Err(client.unusable(&format!(
                "{} vectors for {} texts",
                vectors.len(),
                texts.len()
            )));
        }
        for vector in &mut vectors {
            let dims = *self.dims.get_or_init(|| vector.len());
            if vector.is_empty() {
                return Err(client.unusable("an empty vector"));
            }
            if vector.len() != dims {
                let reason = format!("a vector with {} dimensions instead of {dims}", vector.len());
                return Err(ProviderError::permanent(client.unusable(&reason).reason));
            }
            if !normalize(vector) {
                return Err(client.unusable("a vector of length zero"));
            }
        }
        Ok(vectors)
    }
}

/// Estimates the tokens of texts.
fn rough_tokens(texts: &[&str]) -> u64 {
    texts.iter().map(|text| text.len() as u64).sum::<u64>().div_ceil(4)
}

/// Scales a vector to unit length. Returns `false` if it has no finite, positive length.
fn normalize(vector: &mut [f32]) -> bool {
    let length = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    let is_usable = length.is_finite() && length > 0.0;
    if is_usable {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    is_usable
}

impl<D: EmbeddingDialect> Embedder for RemoteEmbedder<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> usize {
        self.dims.get().copied().unwrap_or(0)
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.embed_metered(texts, &Unmetered)
    }

    fn embed_metered(
        &self,
        texts: &[&str],
        meter: &dyn Meter,
    ) -> Result<Vec<Vec<f32>>, ProviderError> {
        let says_something = |text: &&str| text.chars().any(|c| !c.is_whitespace());
        let nonempty: Vec<&str> = texts.iter().copied().filter(says_something).collect();
        let mut vectors = Vec::with_capacity(nonempty.len());
        for some in nonempty.chunks(D::MAX_TEXTS) {
            vectors.extend(self.embed_some(some, meter)?);
        }
        if vectors.len() < texts.len() && self.dims.get().is_none() {
            // The dimensions of the zero vector are unknown until the model has embedded some
            // text.
            self.embed_some(&["dimensions"], meter)?;
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
