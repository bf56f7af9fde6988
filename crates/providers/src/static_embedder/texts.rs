//! A hash table of texts, used in place, and the header of the assets that contain one.

use crate::wordpiece::PieceHash;

const VERSION: u32 = 1;

/// The header of an asset: eight bytes that name its kind, then the version, the number of rows,
/// their width, the number of slots and the length of the texts.
pub(super) struct TableHeader {
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) slots: usize,
    pub(super) texts_length: usize,
}

impl TableHeader {
    /// Parses the header, and returns the rest.
    pub(super) const fn read(bytes: &'static [u8], kind: &[u8; 8]) -> (Self, &'static [u8]) {
        let (magic, bytes) = bytes.split_at(kind.len());
        let mut at = 0;
        while at < kind.len() {
            assert!(magic[at] == kind[at], "another kind of asset");
            at += 1;
        }
        let (head, bytes) = bytes.split_at(20);
        let (head, _) = head.as_chunks::<4>();
        assert!(u32::from_le_bytes(head[0]) == VERSION, "unsupported version");
        let header = Self {
            rows: u32::from_le_bytes(head[1]) as usize,
            width: u32::from_le_bytes(head[2]) as usize,
            slots: u32::from_le_bytes(head[3]) as usize,
            texts_length: u32::from_le_bytes(head[4]) as usize,
        };
        assert!(header.slots.is_power_of_two() && header.slots > header.rows, "no free slot");
        (header, bytes)
    }
}

/// The texts of the rows of a table, found by hash.
#[derive(Debug)]
pub(super) struct Texts {
    /// A row's number plus one, or zero.
    slots: &'static [[u8; 2]],
    /// The end offset of each row's text.
    ends: &'static [[u8; 4]],
    /// All texts, concatenated.
    joined: &'static [u8],
}

impl Texts {
    pub(super) const fn new(
        slots: &'static [u8],
        ends: &'static [u8],
        joined: &'static [u8],
    ) -> Self {
        Self { slots: slots.as_chunks().0, ends: ends.as_chunks().0, joined }
    }

    /// The row of a text. `hash` is the hash of the text.
    pub(super) fn find(&self, hash: PieceHash, text: &[u8]) -> Option<u16> {
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

    fn text(&self, row: u16) -> &[u8] {
        let end = |row: usize| u32::from_le_bytes(self.ends[row]) as usize;
        let row = usize::from(row);
        &self.joined[if row == 0 { 0 } else { end(row - 1) }..end(row)]
    }
}
