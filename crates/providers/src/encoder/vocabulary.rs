//! The encoder's vocabulary: `vocab.txt`, one word piece per line, numbered from zero.

use std::collections::HashMap;

use crate::wordpiece::{PieceHash, PieceLookup, WordPiece};

/// Word pieces and their ids.
#[derive(Debug)]
pub(super) struct Vocabulary {
    numbers: HashMap<Box<[u8]>, u16>,
    start: u16,
    end: u16,
    unknown: u16,
}

impl Vocabulary {
    /// Parses the file; `None` if it is not a vocabulary.
    pub(super) fn read(text: &str) -> Option<Self> {
        let pieces = text.lines().enumerate();
        let numbered = |(number, piece): (usize, &str)| {
            Some((piece.as_bytes().into(), u16::try_from(number).ok()?))
        };
        let numbers = pieces.map(numbered).collect::<Option<HashMap<Box<[u8]>, u16>>>()?;
        let special_token = |name: &str| numbers.get(name.as_bytes()).copied();
        let (start, end, unknown) =
            (special_token("[CLS]")?, special_token("[SEP]")?, special_token("[UNK]")?);
        Some(Self { numbers, start, end, unknown })
    }

    /// The ids of a text's pieces between the start and end markers, at most `max_tokens` in total.
    /// Empty if the text has no piece.
    pub(super) fn numbers(&self, text: &str, max_tokens: usize) -> Vec<u16> {
        let mut numbers = vec![self.start];
        let mut cutter = WordPiece::new(self);
        // Word by word, to stop early in a long text.
        for word in text.split([' ', '\t', '\n', '\r']) {
            cutter.each_piece(word, |piece| numbers.push(piece.unwrap_or(self.unknown)));
            if numbers.len() >= max_tokens {
                break;
            }
        }
        if numbers.len() == 1 {
            return Vec::new();
        }
        numbers.truncate(max_tokens - 1);
        numbers.push(self.end);
        numbers
    }
}

impl PieceLookup for Vocabulary {
    fn find(&self, _: PieceHash, text: &[u8]) -> Option<u16> {
        self.numbers.get(text).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECES: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nring\n##s\nof\na\ntree\n.\n";

    #[test]
    fn pieces_stand_between_marks() {
        let vocabulary = Vocabulary::read(PIECES).unwrap();
        let check = |text: &str, numbers: &[u16]| {
            assert_eq!(vocabulary.numbers(text, 8), numbers, "{text:?}");
        };
        check("Rings of a tree.", &[2, 4, 5, 6, 7, 8, 9, 3]);
        check("rings of\ta\n tree. Rings", &[2, 4, 5, 6, 7, 8, 9, 3]);
        check("the tree", &[2, 1, 8, 3]);
        check("", &[]);
        check(" \n\u{200b}", &[]);
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        assert!(Vocabulary::read("ring\ntree\n").is_none());
        assert!(Vocabulary::read(&format!("{PIECES}{}", "x\n".repeat(70_000))).is_none());
    }
}
