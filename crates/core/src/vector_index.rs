//! The vector index of a tenant: the model whose vectors search uses, and the progress of a
//! rebuild for another model. The old vectors serve until the new ones are complete; then one
//! commit switches over.

use crate::hash::ContentHash;
use crate::ports::Cursor;

/// Vectors with the hashes of their contents.
pub type ContentVectors = Vec<(ContentHash, Vec<f32>)>;

/// The model whose vectors search uses, and the rebuild in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorIndex {
    /// The model in use.
    pub model: String,
    /// The rebuild for the next model, if any.
    pub next: Option<IndexRebuild>,
}

/// The progress of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRebuild {
    /// The new model.
    pub model: String,
    /// The position in the change feed up to which vectors exist.
    pub done: Cursor,
}

impl VectorIndex {
    /// An index without a rebuild.
    #[must_use]
    pub fn of(model: &str) -> Self {
        Self { model: model.to_owned(), next: None }
    }

    /// The index with a rebuild for another model. A rebuild for the same model continues, a
    /// rebuild for a different one is dropped, and the current model needs none.
    #[must_use]
    pub fn rebuilding_for(self, model: &str) -> Self {
        let next = match self.next {
            _ if self.model == model => None,
            Some(rebuild) if rebuild.model == model => Some(rebuild),
            _ => Some(IndexRebuild { model: model.to_owned(), done: Cursor::start() }),
        };
        Self { next, ..self }
    }

    /// The index with the rebuild's progress; unchanged if the rebuild is no longer for this
    /// model.
    #[must_use]
    pub fn advanced(mut self, model: &str, done: Cursor) -> Self {
        if let Some(next) = self.next.as_mut().filter(|next| next.model == model) {
            next.done = done;
        }
        self
    }

    /// The index after switching to the new model.
    #[must_use]
    pub fn cut_over(self) -> Self {
        match self.next {
            Some(next) => Self { model: next.model, next: None },
            None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_goes_from_one_model_to_the_next() {
        let index = VectorIndex::of("a").rebuilding_for("b");
        let done: Cursor = "7".parse().unwrap();
        let index = index.advanced("b", done.clone()).advanced("c", Cursor::start());
        assert_eq!(index.next, Some(IndexRebuild { model: "b".into(), done }));
        assert_eq!(
            index.clone().rebuilding_for("b"),
            index,
            "a rebuild for the same model continues"
        );
        assert_eq!(index.clone().rebuilding_for("a"), VectorIndex::of("a"), "no rebuild");
        let other = index.clone().rebuilding_for("c");
        assert_eq!(other.next.map(|next| next.done), Some(Cursor::start()), "the rebuild restarts");
        assert_eq!(index.cut_over(), VectorIndex::of("b"));
        assert_eq!(VectorIndex::of("a").cut_over(), VectorIndex::of("a"));
    }
}
