//! The bundled embedder: the embedding of a text is the mean of its word pieces' vectors, which
//! are part of the binary.
//!
//! It was distilled from a sentence encoder by `tools/distil`. It reads no file, needs no key
//! and never fails. It ignores word order.
//!
//! The encoder knows English. In a French text, a French word counts as the mean of the English
//! words that are nearest in meaning, so that both languages share one space.

mod french;
mod table;
mod texts;

use treering_core::lexicon::french_words;

use crate::wordpiece::WordPiece;
use french::FrenchWords;
use table::{DIMS, Table};

static TABLE: Table = Table::read(include_bytes!("../../assets/static-minilm-256.bin"));
static FRENCH: FrenchWords = FrenchWords::read(include_bytes!("../../assets/french-words.bin"));

/// Embeds text as the mean of its word pieces' vectors. Creating one is free; a text takes a
/// few microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaticEmbedder;

impl StaticEmbedder {
    /// The model's name. Vectors of different models must not be compared.
    pub const NAME: &str = "static-minilm-256";

    /// Creates the embedder.
    pub fn new() -> Self {
        Self
    }

    /// Dimensions of a vector.
    pub fn dims(&self) -> usize {
        DIMS
    }

    /// Embeds a text as a unit vector, or as zeros if the text has no known word piece.
    pub fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = [0.0_f32; DIMS];
        match french_words(text) {
            Some(words) => words.iter().for_each(|word| add_french(word, &mut sum)),
            None => add_pieces(text, &mut sum),
        }
        let norm = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm > 0.0 {
            for x in &mut sum {
                *x /= norm;
            }
        }
        sum.to_vec()
    }
}

fn add_pieces(text: &str, sum: &mut [f32; DIMS]) {
    WordPiece::new(&TABLE).each_piece(text, |piece| {
        if let Some(piece) = piece {
            TABLE.add(piece, 1.0, sum);
        }
    });
}

fn add_french(word: &str, sum: &mut [f32; DIMS]) {
    let Some(neighbors) = FRENCH.neighbors(word) else { return add_pieces(word, sum) };
    let share = 1.0 / neighbors.len() as f32;
    neighbors.into_iter().for_each(|row| TABLE.add(row, share, sum));
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
    fn similar_sentences_have_similar_embeddings() {
        let similar = cosine("The cat sat on the mat.", "A kitten lay on the rug.");
        let unrelated =
            cosine("The cat sat on the mat.", "Quarterly revenue rose by nine percent.");
        assert!(similar > unrelated + 0.2, "{similar} against {unrelated}");
    }

    #[test]
    fn french_and_english_share_a_space() {
        let question = "Quels légumes poussent dans le jardin ?";
        let similar = cosine(question, "Je cultive des tomates derrière la maison.");
        let translated = cosine(question, "We grow tomatoes in the garden.");
        for unrelated in ["Le juge a rejeté la demande.", "The judge rejected the request."] {
            let unrelated = cosine(question, unrelated);
            assert!(similar > unrelated + 0.2, "{similar} against {unrelated}");
            assert!(translated > unrelated + 0.2, "{translated} against {unrelated}");
        }
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
