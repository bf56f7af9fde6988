//! The bundled embedder: a vector for every word piece, with the binary, and their mean for a text.
//!
//! It was distilled from a sentence encoder by `tools/distil`. It reads no file, needs no key and never
//! fails; what it cannot do is tell the order of words.

mod table;

use crate::wordpiece::WordPiece;
use table::{DIMS, Table};

static TABLE: Table = Table::read(include_bytes!("../../assets/static-minilm-256.bin"));

/// Embeds text as the mean of the vectors of its word pieces. Costs nothing to make, and a few
/// microseconds for each text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticEmbedder;

impl StaticEmbedder {
    /// The model's name. Vectors of different names must not be compared.
    pub const NAME: &str = "static-minilm-256";

    /// The embedder; its table is part of the program.
    pub fn new() -> Self {
        Self
    }

    /// How many numbers a vector has.
    pub fn dims(&self) -> usize {
        DIMS
    }

    /// A vector of length one; or of zeros, where the text has no word piece that is known.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = [0.0_f32; DIMS];
        WordPiece::new(&TABLE).each_piece(text, |piece| {
            if let Some(piece) = piece {
                TABLE.add(piece, &mut sum);
            }
        });
        let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm > 0.0 {
            for x in &mut sum {
                *x /= norm;
            }
        }
        sum.to_vec()
    }
}

impl treering_core::Embedder for StaticEmbedder {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, treering_core::ProviderError> {
        Ok(texts.iter().map(|text| Self::embed(self, text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let embedder = StaticEmbedder::new();
        embedder.embed(a).iter().zip(embedder.embed(b)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn what_is_alike_is_near() {
        let near = cosine("The cat sat on the mat.", "A kitten lay on the rug.");
        let far = cosine("The cat sat on the mat.", "Quarterly revenue rose by nine percent.");
        assert!(near > far + 0.2, "{near} against {far}");
    }

    #[test]
    fn case_accents_and_white_space_change_nothing() {
        assert!(cosine("Été à Évry", "  ete\u{a0}A\tevry\n") > 0.9999);
    }

    #[test]
    fn nothing_gives_zeros() {
        let embedder = StaticEmbedder::new();
        for text in ["", " \n\t", "\u{200b}\0\u{fffd}"] {
            assert_eq!(embedder.embed(text), vec![0.0; embedder.dims()]);
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_vector(text in any::<String>()) {
            let embedder = StaticEmbedder::new();
            let vector = embedder.embed(&text);
            prop_assert_eq!(&vector, &embedder.embed(&text));
            prop_assert_eq!(vector.len(), embedder.dims());
            let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
            prop_assert!(norm == 0.0 || (norm - 1.0).abs() < 1e-5, "{}", norm);
        }
    }
}
