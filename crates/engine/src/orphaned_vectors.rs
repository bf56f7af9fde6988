//! Vectors that belong to no message, tool call, turn or node any more.

use std::borrow::Cow;
use std::collections::HashSet;

use treering_core::ports::{Change, ChangeFilter, Cursor, StoreResult};
use treering_core::{ContentHash, Reader, Write};

use crate::embed::texts_to_embed;
use crate::engine::Engine;
use crate::error::Result;
use crate::search::text_to_embed;
use crate::turn_embedding::turn_texts;

/// Vectors without a message, tool call, turn or node, by model. Replaced content leaves its vector
/// behind, to be reused if the same content returns, as after a rebuild of the tree.
pub(crate) fn orphaned_vectors(
    engine: &Engine,
    reader: &dyn Reader,
) -> StoreResult<Vec<(String, Vec<ContentHash>)>> {
    let index = engine.active_vector_index(reader)?;
    let models = std::iter::once(index.model).chain(index.next.map(|next| next.model));
    let mut orphaned = Vec::new();
    for model in models {
        let mut contents: HashSet<ContentHash> = HashSet::new();
        let vectors = ChangeFilter { vectors_of: Some(&model), ..ChangeFilter::default() };
        for_each_page(reader, &vectors, |changes| {
            contents.extend(changes.iter().filter_map(|change| match change {
                Change::Vector(hash, _) => Some(*hash),
                _ => None,
            }));
            Ok(())
        })?;
        if contents.is_empty() {
            continue;
        }
        let max_chars = engine.embed_text_options().max_chars;
        for_each_page(reader, &ChangeFilter::content(), |changes| {
            let texts: Vec<Cow<'_, str>> = changes.iter().map(text_to_embed).collect();
            remove_owned(&mut contents, texts.iter().map(AsRef::as_ref), max_chars);
            Ok(())
        })?;
        for_each_page(reader, &ChangeFilter::content(), |changes| {
            if !contents.is_empty() {
                let texts = turn_texts(reader, changes)?;
                remove_owned(&mut contents, texts.iter().map(String::as_str), max_chars);
            }
            Ok(())
        })?;
        if !contents.is_empty() {
            orphaned.push((model, contents.into_iter().collect()));
        }
    }
    Ok(orphaned)
}

/// Removes orphaned vectors, and returns their number.
pub(crate) fn remove_orphaned_vectors(engine: &Engine) -> Result<usize> {
    if orphaned_vectors(engine, &*engine.reader()?)?.is_empty() {
        return Ok(0);
    }
    let owner = engine.clone();
    engine.commit_with(engine.tenant_scope(), move |reader| {
        let orphaned = orphaned_vectors(&owner, reader)?;
        let number = orphaned.iter().map(|(_, contents)| contents.len()).sum();
        let writes =
            orphaned.into_iter().map(|(model, contents)| Write::RemoveVectors(model, contents));
        Ok((writes.collect(), number))
    })
}

/// Removes the vectors of texts from those without an owner.
fn remove_owned<'a>(
    contents: &mut HashSet<ContentHash>,
    texts: impl Iterator<Item = &'a str>,
    max_chars: usize,
) {
    for (hash, _) in texts_to_embed(texts, max_chars) {
        contents.remove(&hash);
    }
}

/// Reads the change feed from its start, page by page.
fn for_each_page(
    reader: &dyn Reader,
    filter: &ChangeFilter<'_>,
    mut take: impl FnMut(&[Change]) -> StoreResult<()>,
) -> StoreResult<()> {
    const PAGE: usize = 1000;
    let mut after = Cursor::start();
    loop {
        let page = reader.changes(&after, filter, PAGE)?;
        take(&page.items)?;
        if page.is_last {
            return Ok(());
        }
        after = page.cursor;
    }
}
