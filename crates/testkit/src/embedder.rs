//! An embedder whose vectors are worth keeping, that fails on demand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use treering_core::{Embedder, ProviderError};

/// Gives each text the bag of its words. The same text gives the same vector.
#[derive(Debug, Default)]
pub struct BagOfWordsEmbedder {
    name: String,
    failures: Mutex<VecDeque<ProviderError>>,
    calls: Mutex<Vec<usize>>,
    /// Texts that hold this word are refused for good.
    refused: Option<String>,
}

impl BagOfWordsEmbedder {
    /// How many numbers its vectors have.
    pub const DIMS: usize = 96;

    /// An embedder of this name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Fails with these errors first, one a call.
    #[must_use]
    pub fn failing(self, failures: impl IntoIterator<Item = ProviderError>) -> Self {
        Self { failures: Mutex::new(failures.into_iter().collect()), ..self }
    }

    /// Refuses texts that hold this word.
    #[must_use]
    pub fn refusing(self, word: &str) -> Self {
        Self { refused: Some(word.to_owned()), ..self }
    }

    /// How many texts it was given at each call.
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
