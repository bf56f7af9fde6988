//! The tally: what blocks cost in tokens. Counting is slow beside everything else a context
//! takes, and the same blocks come again turn after turn; so counts are remembered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use treering_core::{ContentHash, Tokenizer};

/// The most counts that are remembered.
const MOST: usize = 1 << 16;

/// Counts tokens, and remembers what it has counted.
pub(crate) struct Tally {
    tokenizer: Arc<dyn Tokenizer>,
    counts: Mutex<HashMap<ContentHash, u32>>,
}

impl Tally {
    pub(crate) fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { tokenizer, counts: Mutex::default() }
    }

    /// How many tokens a block has.
    pub(crate) fn count(&self, block: &str) -> u32 {
        let hash = ContentHash::of_fields(&[block.as_bytes()]);
        let known = self.counts.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).copied();
        known.unwrap_or_else(|| {
            let count = self.tokenizer.count(block);
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            if counts.len() >= MOST {
                counts.clear();
            }
            counts.insert(hash, count);
            count
        })
    }
}
