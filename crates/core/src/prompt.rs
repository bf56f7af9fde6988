//! Prompts: one file per strategy, versioned by the hash of its text.

use crate::hash::ContentHash;
use crate::summary_request::Strategy;

/// The prompt of a strategy.
#[must_use]
pub const fn text(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Detailed => include_str!("../prompts/detailed.md"),
        Strategy::Concise => include_str!("../prompts/concise.md"),
        Strategy::Thematic => include_str!("../prompts/thematic.md"),
        Strategy::Chronological => include_str!("../prompts/chronological.md"),
        Strategy::Executive => include_str!("../prompts/executive.md"),
        Strategy::Technical => include_str!("../prompts/technical.md"),
    }
}

/// The version of a strategy's prompt.
#[must_use]
pub fn version(strategy: Strategy) -> ContentHash {
    version_of(text(strategy))
}

/// The version of a prompt text.
#[must_use]
pub fn version_of(text: &str) -> ContentHash {
    ContentHash::of_fields(&[text.as_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_strategy_has_a_prompt_of_its_own() {
        let mut versions: Vec<ContentHash> = Strategy::ALL.map(version).to_vec();
        versions.sort();
        versions.dedup();
        assert_eq!(versions.len(), Strategy::ALL.len());
        for strategy in Strategy::ALL {
            assert!(text(strategy).contains("Use only information from the source"), "{strategy}");
        }
    }
}
