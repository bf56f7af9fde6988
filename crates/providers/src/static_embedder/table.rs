//! The bundled table of word pieces: a hash table of texts, with a quantized vector each.
//!
//! The table is used in place, without copying. `tools/distil/distil.py` writes this layout,
//! little-endian:
//!
//! | part | size |
//! |---|---|
//! | `TRSTATIC`, version 1, rows, dims, slots, length of the texts | 8 + 5 × 4 |
//! | slots: a row's number plus one, or zero | slots × 2 |
//! | end offset of each piece's text | rows × 4 |
//! | scale of each row | rows × 4 |
//! | concatenated texts of the pieces | length of the texts |
//! | rows | rows × dims |

use super::texts::{TableHeader, Texts};
use crate::wordpiece::{PieceHash, PieceLookup};

/// Dimensions of a vector.
pub(super) const DIMS: usize = 256;

/// Word pieces and their vectors.
#[derive(Debug)]
pub(super) struct Table {
    texts: Texts,
    scales: &'static [[u8; 4]],
    rows: &'static [[u8; DIMS]],
}

impl Table {
    /// Parses the asset. In a constant, a malformed asset is a compile error.
    pub(super) const fn read(bytes: &'static [u8]) -> Self {
        let (header, bytes) = TableHeader::read(bytes, b"TRSTATIC");
        assert!(header.width == DIMS, "wrong number of dimensions");
        let (slots, bytes) = bytes.split_at(header.slots * 2);
        let (ends, bytes) = bytes.split_at(header.rows * 4);
        let (scales, bytes) = bytes.split_at(header.rows * 4);
        let (texts, bytes) = bytes.split_at(header.texts_length);
        assert!(bytes.len() == header.rows * DIMS, "truncated table");
        Self {
            texts: Texts::new(slots, ends, texts),
            scales: scales.as_chunks().0,
            rows: bytes.as_chunks().0,
        }
    }

    /// Adds a share of a row to a sum.
    pub(super) fn add(&self, row: u16, share: f32, sum: &mut [f32; DIMS]) {
        let scale = share * f32::from_le_bytes(self.scales[usize::from(row)]);
        for (x, byte) in sum.iter_mut().zip(&self.rows[usize::from(row)]) {
            *x += scale * f32::from(*byte as i8);
        }
    }
}

impl PieceLookup for Table {
    fn find(&self, hash: PieceHash, text: &[u8]) -> Option<u16> {
        self.texts.find(hash, text)
    }
}
