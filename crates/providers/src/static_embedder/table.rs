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

use crate::wordpiece::{PieceHash, PieceLookup};

/// Dimensions of a vector.
pub(super) const DIMS: usize = 256;

const MAGIC: &[u8] = b"TRSTATIC";
const VERSION: u32 = 1;

/// Word pieces and their vectors.
#[derive(Debug)]
pub(super) struct Table {
    slots: &'static [[u8; 2]],
    word_ends: &'static [[u8; 4]],
    scales: &'static [[u8; 4]],
    texts: &'static [u8],
    rows: &'static [[u8; DIMS]],
}

impl Table {
    /// Parses the asset. In a constant, a malformed asset is a compile error.
    pub(super) const fn read(bytes: &'static [u8]) -> Self {
        let (magic, bytes) = bytes.split_at(MAGIC.len());
        let mut at = 0;
        while at < MAGIC.len() {
            assert!(magic[at] == MAGIC[at], "not a table of word pieces");
            at += 1;
        }
        let (head, bytes) = bytes.split_at(20);
        let (head, _) = head.as_chunks::<4>();
        assert!(u32::from_le_bytes(head[0]) == VERSION, "unsupported version");
        assert!(u32::from_le_bytes(head[2]) as usize == DIMS, "wrong number of dimensions");
        let rows = u32::from_le_bytes(head[1]) as usize;
        let slots = u32::from_le_bytes(head[3]) as usize;
        assert!(slots.is_power_of_two() && slots > rows, "no free slot");
        let (slots, bytes) = bytes.split_at(slots * 2);
        let (word_ends, bytes) = bytes.split_at(rows * 4);
        let (scales, bytes) = bytes.split_at(rows * 4);
        let (texts, bytes) = bytes.split_at(u32::from_le_bytes(head[4]) as usize);
        assert!(bytes.len() == rows * DIMS, "truncated table");
        Self {
            slots: slots.as_chunks().0,
            word_ends: word_ends.as_chunks().0,
            scales: scales.as_chunks().0,
            texts,
            rows: bytes.as_chunks().0,
        }
    }

    /// Adds a row to a sum.
    pub(super) fn add(&self, row: u16, sum: &mut [f32; DIMS]) {
        let scale = f32::from_le_bytes(self.scales[usize::from(row)]);
        for (x, byte) in sum.iter_mut().zip(&self.rows[usize::from(row)]) {
            *x += scale * f32::from(*byte as i8);
        }
    }

    fn text(&self, row: u16) -> &[u8] {
        let end = |row: usize| u32::from_le_bytes(self.word_ends[row]) as usize;
        let row = usize::from(row);
        &self.texts[if row == 0 { 0 } else { end(row - 1) }..end(row)]
    }
}

impl PieceLookup for Table {
    fn find(&self, hash: PieceHash, text: &[u8]) -> Option<u16> {
        let mask = self.slots.len() - 1;
        let mut slot = hash.slot() & mask;
        loop {
            let row = u16::from_le_bytes(self.slots[slot]).checked_sub(1)?;
            if self.text(row) == text {
                return Some(row);
            }
            slot = (slot + 1) & mask;
        }
    }
}
