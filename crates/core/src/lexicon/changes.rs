//! Verbs that report a change of state: somebody who moved to Lyon lives in Lyon now.

use super::{Stems, TermId};

/// The terms of the words that report a change of what a folded word describes, in each language.
/// Only the listed forms count: "living" is also a room.
pub(crate) fn changes_of(word: &str) -> Vec<TermId> {
    let stems = Stems::default();
    let changes = CHANGES.iter().find(|(states, _)| states.contains(&word));
    let changes = changes.map_or(&[][..], |(_, changes)| changes);
    changes.iter().flat_map(|change| stems.of(change)).collect()
}

/// Words for a state, and words that report its change, folded.
const CHANGES: [(&[&str], &[&str]); 6] = [
    (&["live", "lives", "reside", "resides"], &["move", "relocate"]),
    (&["work", "works", "job", "jobs"], &["hire", "join", "quit"]),
    (&["use", "uses"], &["switch", "migrate"]),
    (&["habite", "habites", "habitez", "habitons"], &["demenage", "installe"]),
    (&["travaille", "travailles", "travaillez", "travaillons"], &["embauche", "rejoint"]),
    (&["utilise", "utilises", "utilisez", "utilisons"], &["migre", "remplace"]),
];
