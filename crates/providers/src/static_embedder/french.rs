//! French words, each with the English words of the nearest meaning.
//!
//! The table is used in place, without copying. `tools/distil/french.py` writes this layout,
//! little-endian:
//!
//! | part | size |
//! |---|---|
//! | `TRFRENCH`, version 1, words, English words for each, slots, length of the texts | 8 + 5 × 4 |
//! | slots: a word's number plus one, or zero | slots × 2 |
//! | end offset of each word | words × 4 |
//! | the English words, as rows of the table of word pieces | words × 4 × 2 |
//! | concatenated words, folded | length of the texts |

use super::texts::{TableHeader, Texts};
use crate::wordpiece::PieceHash;

/// English words for each French word.
const WIDTH: usize = 4;

/// French words and their English neighbors.
#[derive(Debug)]
pub(super) struct FrenchWords {
    texts: Texts,
    neighbors: &'static [[u8; WIDTH * 2]],
}

impl FrenchWords {
    /// Parses the asset. In a constant, a malformed asset is a compile error.
    pub(super) const fn read(bytes: &'static [u8]) -> Self {
        let (header, bytes) = TableHeader::read(bytes, b"TRFRENCH");
        assert!(header.width == WIDTH, "wrong number of English words");
        let (slots, bytes) = bytes.split_at(header.slots * 2);
        let (ends, bytes) = bytes.split_at(header.rows * 4);
        let (neighbors, texts) = bytes.split_at(header.rows * WIDTH * 2);
        assert!(texts.len() == header.texts_length, "truncated table");
        Self { texts: Texts::new(slots, ends, texts), neighbors: neighbors.as_chunks().0 }
    }

    /// The rows of the English words that are nearest to a folded French word. Empty for an
    /// unknown word and for a word with the same spelling in English.
    pub(super) fn neighbors(&self, word: &str) -> Option<[u16; WIDTH]> {
        let hash = word.bytes().fold(PieceHash::EMPTY, PieceHash::with);
        let row = self.texts.find(hash, word.as_bytes())?;
        let (rows, _) = self.neighbors[usize::from(row)].as_chunks::<2>();
        let mut neighbors = [0; WIDTH];
        neighbors.iter_mut().zip(rows).for_each(|(to, row)| *to = u16::from_le_bytes(*row));
        Some(neighbors)
    }
}
