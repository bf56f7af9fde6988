//! A deterministic summarizer that keeps the beginning of every passage and fails on demand.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use treering_core::{
    NodeContent, Passage, ProviderError, Summarizer, SummaryLength, SummaryRequest,
};

/// Keeps a prefix of each passage, in proportion to the requested length. The same request
/// always gives the same content.
#[derive(Debug, Default)]
pub struct PrefixSummarizer {
    failures: Mutex<VecDeque<ProviderError>>,
    calls: Mutex<u32>,
}

impl PrefixSummarizer {
    /// Creates a summarizer whose first calls fail with these errors, one per call.
    #[must_use]
    pub fn failing(failures: impl IntoIterator<Item = ProviderError>) -> Self {
        Self { failures: Mutex::new(failures.into_iter().collect()), calls: Mutex::default() }
    }

    /// Number of calls so far.
    pub fn calls(&self) -> u32 {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Summarizer for PrefixSummarizer {
    fn name(&self) -> &str {
        "heads"
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn summarize(&self, request: &SummaryRequest) -> Result<NodeContent, ProviderError> {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        if let Some(error) =
            self.failures.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        {
            return Err(error);
        }
        let chars = request.chars().max(1) as f64;
        let fraction = match request.length {
            SummaryLength::Keep(fraction) => f64::from(fraction),
            SummaryLength::Sentences(_, max_sentences) => f64::from(max_sentences) * 50.0 / chars,
            SummaryLength::Tokens(..) => request.target_chars().unwrap_or(0) as f64 / chars,
        };
        let head = |text: &str| -> String {
            let chars = (text.chars().count() as f64 * fraction).ceil() as usize;
            text.chars().take(chars).collect()
        };
        let heads = request.passages.iter().filter_map(|passage| match passage {
            Passage::Message(message) => Some(head(&message.text)),
            Passage::Node(child) => Some(head(&child.content.overview)),
            Passage::Tool(_) => None,
        });
        Ok(NodeContent { overview: heads.collect::<Vec<_>>().join(" "), ..NodeContent::default() })
    }
}
