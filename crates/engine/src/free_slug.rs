//! Chooses a slug that no other conversation of the tenant has.

use treering_core::ports::StoreResult;
use treering_core::{ConversationId, Reader};

/// Whether a slug is `base` followed by a number.
pub(crate) fn is_numbered(slug: &str, base: &str) -> bool {
    let number = slug.strip_prefix(base).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// The requested slug if it is free, otherwise the base with a number, otherwise with the id.
pub(crate) fn free_slug(
    reader: &dyn Reader,
    requested: &str,
    base: &str,
    id: ConversationId,
) -> StoreResult<String> {
    let numbered = (2..10).map(|number| format!("{base}-{number}"));
    for slug in std::iter::once(requested.to_owned()).chain(numbered) {
        if reader.conversation_by_slug(&slug)?.is_none_or(|owner| owner.id == id) {
            return Ok(slug);
        }
    }
    Ok(format!("{base}-{}", id.short()))
}
