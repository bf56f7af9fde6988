//! Verbs that report a change of state: somebody who moved to Lyon lives in Lyon now.

use super::{Stems, TermId};

/// The terms of the words that report a change of what a folded word describes, in each language.
pub(crate) fn changes_of(word: &str) -> Vec<TermId> {
    let stems = Stems::default();
    let ids = stems.of(word);
    let is_same = |(state, _): &&(&str, &[&str])| {
        stems.of(state).iter().zip(&ids).any(|(state, id)| state == id)
    };
    let changes = CHANGES.iter().find(is_same).map_or(&[][..], |(_, changes)| changes);
    changes.iter().flat_map(|change| stems.of(change)).collect()
}

/// Words for a state, and words that report its change, folded.
const CHANGES: [(&str, &[&str]); 8] = [
    ("live", &["move", "relocate"]),
    ("reside", &["move", "relocate"]),
    ("work", &["hire", "join", "quit"]),
    ("job", &["hire", "join", "quit"]),
    ("use", &["switch", "migrate"]),
    ("habite", &["demenage", "installe"]),
    ("travaille", &["embauche", "rejoint"]),
    ("utilise", &["migre", "remplace"]),
];
