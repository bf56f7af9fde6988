//! A deterministic embedder with meaningful vectors that fails on demand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use treering_core::{Embedder, ProviderError};

/// Embeds a text as its bag of words. The same text always gives the same vector.
#[derive(Debug, Default)]
pub struct BagOfWordsEmbedder {
    name: String,
    failures: Mutex<VecDeque<ProviderError>>,
    calls: Mutex<Vec<usize>>,
    /// Texts that contain this word are rejected permanently.
    refused: Option<String>,
}

impl BagOfWordsEmbedder {
    /// Dimensions of a vector.
    pub const DIMS: usize = 96;

    /// Creates an embedder with this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Makes the first calls fail with these errors, one per call.
    #[must_use]
    pub fn failing(self, failures: impl IntoIterator<Item = ProviderError>) -> Self {
        Self { failures: Mutex::new(failures.into_iter().collect()), ..self }
    }

    /// Rejects texts that contain this word.
    #[must_use]
    pub fn refusing(self, word: &str) -> Self {
        Self { refused: Some(word.to_owned()), ..self }
    }

    /// Number of texts in each call so far.
    pub fn calls(&self) -> Vec<usize> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Embedder for BagOfWordsEmbedder {
    fn name(&self) -> &str {
        &self.name
    }

    fn dims(&self) -> usize {
        Self::DIMS
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(texts.len());
        if let Some(error) =
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        {
            return Err(error);
        }
        if let Some(word) = &self.refused
            && texts.iter().any(|text| text.contains(word.as_str()))
        {
            return Err(ProviderError::permanent(format!("a text with {word:?} is refused")));
        }
        Ok(texts.iter().map(|text| bag(text)).collect())
    }
}

fn bag(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0_f32; BagOfWordsEmbedder::DIMS];
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let hash = word.bytes().fold(7_usize, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(byte.to_ascii_lowercase()))
        });
        vector[hash % BagOfWordsEmbedder::DIMS] += 1.0;
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-9);
    vector.iter().map(|x| x / norm).collect()
}
