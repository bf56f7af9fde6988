//! Splits text into word pieces as the uncased BERT models do.
//!
//! Characters are folded (no accents, no case, no control characters), words end at white
//! space, punctuation marks and ideographs stand alone, and each word is split greedily into
//! the longest known pieces from left to right. Special tokens of the model, such as `[SEP]`,
//! are ordinary text.

use unicode_normalization::char::decompose_canonical;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// Maximum length of a word, in characters. Longer words are unknown.
const MAX_WORD_CHARS: usize = 100;

/// The word pieces that a model knows.
pub(crate) trait PieceLookup {
    /// The id of the piece with this text. `hash` is the hash of the text.
    fn find(&self, hash: PieceHash, text: &[u8]) -> Option<u16>;
}

/// A tokenizer with a buffer for the current word.
pub(crate) struct WordPiece<'a, P> {
    known: &'a P,
    /// The current word after the prefix `##`, so that a continuation piece can be looked up in
    /// place.
    word: Vec<u8>,
    pieces: Vec<u16>,
}

const CONTINUED: &[u8] = b"##";

impl<'a, P: PieceLookup> WordPiece<'a, P> {
    /// Creates a tokenizer over known pieces.
    pub(crate) fn new(known: &'a P) -> Self {
        Self { known, word: CONTINUED.to_vec(), pieces: Vec::new() }
    }

    /// Calls `found` with every piece of the text, in order, and with `None` for a word that
    /// known pieces cannot cover.
    pub(crate) fn each_piece(&mut self, text: &str, mut found: impl FnMut(Option<u16>)) {
        for c in text.chars() {
            if c.is_ascii_alphanumeric() {
                self.word.push(c.to_ascii_lowercase() as u8);
            } else if is_control(c) {
                // Dropped: control characters do not separate words.
            } else if c.is_ascii() {
                self.push(c, &mut found);
            } else {
                decompose_canonical(c, |part| {
                    if part.general_category() != GeneralCategory::NonspacingMark {
                        part.to_lowercase().for_each(|c| self.push(c, &mut found));
                    }
                });
            }
        }
        self.end_word(&mut found);
    }

    fn push(&mut self, c: char, found: &mut impl FnMut(Option<u16>)) {
        if c.is_whitespace() {
            self.end_word(found);
        } else if is_punctuation(c) || is_ideograph(c) {
            self.end_word(found);
            self.append(c);
            self.end_word(found);
        } else {
            self.append(c);
        }
    }

    fn append(&mut self, c: char) {
        self.word.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    fn end_word(&mut self, found: &mut impl FnMut(Option<u16>)) {
        if self.word.len() > CONTINUED.len() {
            match self.cut() {
                true => self.pieces.iter().for_each(|piece| found(Some(*piece))),
                false => found(None),
            }
            self.word.truncate(CONTINUED.len());
        }
    }

    /// Splits the word. Returns `false` if known pieces cannot cover it.
    fn cut(&mut self) -> bool {
        const FIRST: PieceHash = PieceHash::EMPTY;
        const LATER: PieceHash = PieceHash::EMPTY.with(CONTINUED[0]).with(CONTINUED[1]);
        self.pieces.clear();
        let word = &mut self.word;
        let characters = word.iter().filter(|byte| (**byte as i8) >= -64).count();
        if characters > MAX_WORD_CHARS + CONTINUED.len() {
            return false;
        }
        let mut start = CONTINUED.len();
        while start < word.len() {
            let is_first = start == CONTINUED.len();
            let text = if is_first {
                start
            } else {
                // The bytes before `start` are done, so the prefix may overwrite them.
                word[start - CONTINUED.len()..start].copy_from_slice(CONTINUED);
                start - CONTINUED.len()
            };
            let mut hash = if is_first { FIRST } else { LATER };
            let whole_hash = word[start..].iter().fold(hash, |hash, byte| hash.with(*byte));
            let mut longest =
                self.known.find(whole_hash, &word[text..]).map(|piece| (piece, word.len()));
            if longest.is_none() {
                for end in start..word.len() {
                    hash = hash.with(word[end]);
                    if let Some(piece) = self.known.find(hash, &word[text..=end]) {
                        longest = Some((piece, end + 1));
                    }
                }
            }
            let Some((piece, end)) = longest else { return false };
            self.pieces.push(piece);
            start = end;
        }
        true
    }
}

/// Incremental hash of a piece's text (FNV-1a).
#[derive(Debug, Clone, Copy)]
pub(crate) struct PieceHash(u64);

impl PieceHash {
    /// The hash of the empty text.
    pub(crate) const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    /// Appends one byte.
    pub(crate) const fn with(self, byte: u8) -> Self {
        Self((self.0 ^ byte as u64).wrapping_mul(0x0100_0000_01b3))
    }

    /// The first slot to probe in a hash table.
    pub(crate) fn slot(self) -> usize {
        (self.0 >> 32) as usize
    }
}

fn is_control(c: char) -> bool {
    match c {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' => true,
        _ if c.is_ascii() => c.is_ascii_control(),
        _ => c.general_category_group() == GeneralCategoryGroup::Other,
    }
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation()
        || !c.is_ascii() && c.general_category_group() == GeneralCategoryGroup::Punctuation
}

fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b820..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
