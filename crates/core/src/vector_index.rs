//! The vector index of a tenant: which model's vectors search goes by, and how far those of the
//! next model are. The old ones serve until the new ones are complete; then one commit cuts over.

use crate::hash::ContentHash;
use crate::ports::Cursor;

/// Vectors, each with what it is the vector of.
pub type ContentVectors = Vec<(ContentHash, Vec<f32>)>;

/// Which model's vectors search goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorIndex {
    /// The model in use.
    pub model: String,
    /// The model that is to follow it.
    pub next: Option<Rebuild>,
}

/// A new index on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuild {
    /// Its model.
    pub model: String,
    /// Everything before this position of the change feed has its vectors.
    pub done: Cursor,
}

impl VectorIndex {
    /// An index that is complete as it is.
    #[must_use]
    pub fn of(model: &str) -> Self {
        Self { model: model.to_owned(), next: None }
    }

    /// The index on its way to another model. What was begun for that model goes on, what was
    /// begun for yet another is given up, and nothing is to be done for the model in use.
    #[must_use]
    pub fn towards(self, model: &str) -> Self {
        let next = match self.next {
            _ if self.model == model => None,
            Some(begun) if begun.model == model => Some(begun),
            _ => Some(Rebuild { model: model.to_owned(), done: Cursor::start() }),
        };
        Self { next, ..self }
    }

    /// The index further on its way; as it is where it is no longer on the way to that model.
    #[must_use]
    pub fn advanced(mut self, model: &str, done: Cursor) -> Self {
        if let Some(next) = self.next.as_mut().filter(|next| next.model == model) {
            next.done = done;
        }
        self
    }

    /// The index after the cut-over.
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
        let index = VectorIndex::of("a").towards("b");
        let done: Cursor = "7".parse().unwrap();
        let index = index.advanced("b", done.clone()).advanced("c", Cursor::start());
        assert_eq!(index.next, Some(Rebuild { model: "b".into(), done }));
        assert_eq!(index.clone().towards("b"), index, "what was begun goes on");
        assert_eq!(index.clone().towards("a"), VectorIndex::of("a"), "back again");
        let other = index.clone().towards("c");
        assert_eq!(other.next.map(|next| next.done), Some(Cursor::start()), "given up for another");
        assert_eq!(index.cut_over(), VectorIndex::of("b"));
        assert_eq!(VectorIndex::of("a").cut_over(), VectorIndex::of("a"));
    }
}
