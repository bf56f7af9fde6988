//! The authors that a question names.

use treering_core::Question;
use treering_core::lexicon::words;

use super::filter::Filter;
use super::index::ItemIndex;

/// The first names of the authors in scope, and the authors that the query names; none if it
/// names all of them.
pub(super) fn authors(
    index: &ItemIndex,
    question: &Question,
    filter: &Filter,
) -> (Vec<String>, Vec<u16>) {
    let mut authors_in_scope: Vec<u16> = match (&filter.past, &filter.conversations) {
        (Some(past), _) => past.authors.clone(),
        (None, None) => (0..index.authors.len() as u16).collect(),
        (None, Some(conversations)) => {
            conversations.entries(index).flat_map(|entry| entry.authors.iter().copied()).collect()
        }
    };
    authors_in_scope.sort_unstable();
    authors_in_scope.dedup();
    let (mut names, mut named_authors) = (Vec::new(), Vec::new());
    for author in authors_in_scope {
        let Some(name) = index.authors.get(usize::from(author)) else { continue };
        if matches!(name.to_lowercase().as_str(), "user" | "assistant" | "system" | "tool") {
            continue;
        }
        let Some(first) = words(name).into_iter().next() else { continue };
        if question.words.contains(&first) {
            named_authors.push(author);
        }
        names.push(first);
    }
    if named_authors.len() == names.len() {
        named_authors.clear();
    }
    (names, named_authors)
}
