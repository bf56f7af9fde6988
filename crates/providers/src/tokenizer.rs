//! Byte-pair tokenizers of the OpenAI families. Their vocabularies are part of the binary.

use std::cell::RefCell;

use treering_core::Tokenizer;

/// A byte-pair tokenizer. Its first use in a process builds the tables; later uses share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bpe {
    /// GPT-4o and later. The default: close enough to other families for budgeting.
    #[default]
    O200k,
    /// GPT-4 and GPT-3.5.
    Cl100k,
}

impl Bpe {
    fn tokenizer(self) -> &'static bpe_openai::Tokenizer {
        match self {
            Self::O200k => bpe_openai::o200k_base(),
            Self::Cl100k => bpe_openai::cl100k_base(),
        }
    }
}

impl Tokenizer for Bpe {
    fn name(&self) -> &str {
        match self {
            Self::O200k => "o200k",
            Self::Cl100k => "cl100k",
        }
    }

    fn count(&self, text: &str) -> u32 {
        thread_local! {
            static WORDS: RefCell<[Words; 2]> = RefCell::default();
        }
        let tokenizer = self.tokenizer();
        // Every family treats a plain word as one piece, so it needs no pre-tokenization.
        let slow = |text: &str| match is_plain(text.as_bytes()) {
            true => tokenizer.bpe.count(text.as_bytes()),
            false => tokenizer.count(text),
        };
        let count = WORDS
            .with_borrow_mut(|words| words[usize::from(*self == Self::Cl100k)].count(text, slow));
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn adds_up(&self) -> bool {
        true
    }
}

/// The longest word that is cached, in bytes.
const LONGEST: usize = 14;

/// A direct-mapped cache of token counts. An entry packs the word's bytes, its length and its
/// token count, so that one comparison identifies the word.
struct Words(Vec<u128>);

/// The bit offset of the token count in an entry.
const TOKENS: u32 = 120;

impl Default for Words {
    fn default() -> Self {
        Self(vec![0; 1 << SLOT_BITS])
    }
}

/// Binary logarithm of the number of slots.
const SLOT_BITS: u32 = 13;

impl Words {
    /// Counts word by word. No token of these families crosses a boundary of `word_end`, so the
    /// counts of the words add up, and most words repeat.
    fn count(&mut self, text: &str, slow: impl Fn(&str) -> usize) -> usize {
        let bytes = text.as_bytes();
        let mut total = 0;
        // Start of the run of uncached words, which are counted together.
        let mut unknown = 0;
        let mut start = 0;
        while start < bytes.len() {
            let end = word_end(bytes, start);
            if end - start <= LONGEST {
                let word = entry(bytes, start, end);
                let known = &mut self.0[slot(word)];
                if *known & !(0xff << TOKENS) != word {
                    *known = word | (slow(&text[start..end]) as u128) << TOKENS;
                }
                total += (*known >> TOKENS) as usize;
                if unknown < start {
                    total += slow(&text[unknown..start]);
                }
                unknown = end;
            }
            start = end;
        }
        if unknown < bytes.len() {
            total += slow(&text[unknown..]);
        }
        total
    }
}

/// The cache entry of a short word, without its token count.
fn entry(bytes: &[u8], start: usize, end: usize) -> u128 {
    let size = end - start;
    let word = match bytes[start..].first_chunk::<16>() {
        Some(chunk) => u128::from_le_bytes(*chunk) & ((1 << (8 * size)) - 1),
        None => {
            let mut chunk = [0; 16];
            chunk[..size].copy_from_slice(&bytes[start..end]);
            u128::from_le_bytes(chunk)
        }
    };
    word | (size as u128) << (8 * LONGEST)
}

/// The slot of an entry.
fn slot(entry: u128) -> usize {
    let (low, high) = (entry as u64, (entry >> 64) as u64);
    let mixed = (low ^ high.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (64 - SLOT_BITS)) as usize
}

/// The character class of each byte.
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let ascii = byte as u8;
        kinds[byte] = if ascii == b' ' {
            SPACE
        } else if ascii.is_ascii_alphabetic() {
            LETTER
        } else if ascii == b'\'' {
            APOSTROPHE
        } else if ascii.is_ascii_punctuation() {
            MARK
        } else if ascii.is_ascii_digit() {
            DIGIT
        } else {
            OTHER
        };
        byte += 1;
    }
    kinds
};

const OTHER: u8 = 0;
const SPACE: u8 = 1;
const LETTER: u8 = 2;
const DIGIT: u8 = 3;
const APOSTROPHE: u8 = 4;
const MARK: u8 = 5;

/// End of the word that starts at `start`: before a space that follows an ASCII character other
/// than white space, or before a punctuation mark that follows an ASCII letter. An apostrophe
/// may be part of a word. There is no boundary after a non-ASCII character, because it might be
/// white space or a letter.
fn word_end(bytes: &[u8], start: usize) -> usize {
    // Fast path: no word ends between two letters.
    let mut from = start + 1;
    while let Some(next) = bytes[from..].first_chunk() {
        let letters = letters(u64::from_le_bytes(*next));
        from += letters;
        if letters < 8 {
            break;
        }
    }
    let mut before = KINDS[usize::from(bytes[from - 1])];
    for (at, byte) in bytes.iter().enumerate().skip(from) {
        let kind = KINDS[usize::from(*byte)];
        if (kind == SPACE && before > SPACE) || (kind == MARK && before == LETTER) {
            return at;
        }
        before = kind;
    }
    bytes.len()
}

/// Number of ASCII letters at the start of eight bytes, lowest byte first. All bytes are tested
/// in parallel.
const fn letters(bytes: u64) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // No sum carries into the next byte, because all bytes are below 0x80 here.
    let small = (bytes | (0x20 * EACH)) & !HIGH;
    let from_a = small + (0x80 - b'a' as u64) * EACH;
    let beyond_z = small + (0x80 - b'z' as u64 - 1) * EACH;
    let others = !(from_a & !beyond_z & !bytes) & HIGH;
    others.trailing_zeros() as usize / 8
}

/// Whether a word is lowercase letters, optionally after a space and a capital.
fn is_plain(word: &[u8]) -> bool {
    let word = word.strip_prefix(b" ").unwrap_or(word);
    let rest = match word.first() {
        Some(first) if first.is_ascii_uppercase() => &word[1..],
        _ => word,
    };
    !rest.is_empty() && rest.iter().all(u8::is_ascii_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_as_the_families_do() {
        assert_eq!(Bpe::O200k.count("hello world"), 2);
        assert_eq!(Bpe::Cl100k.count("hello world"), 2);
        assert_eq!(Bpe::O200k.count(""), 0);
        assert!(Bpe::O200k.count("été 🌊 潮汐\0") > 3);
    }

    #[test]
    fn letters_are_recognized() {
        for byte in u8::MIN..=u8::MAX {
            for slot in 0..8 {
                let mut bytes = *b"aZmAzyQb";
                bytes[slot] = byte;
                let expected = if byte.is_ascii_alphabetic() { 8 } else { slot };
                assert_eq!(letters(u64::from_le_bytes(bytes)), expected, "{byte:#x} at {slot}");
            }
        }
    }

    proptest! {
        #[test]
        fn counting_word_by_word_changes_nothing(
            text in "([a-zA-Z']{1,8}|[ \n\r\t]{1,4}|[0-9]{1,5}|[-.,;:!?/_(){}<>\"']{1,4}|\\PC{1,3}|[\u{85}\u{a0}\u{2009}]){0,60}"
        ) {
            for bpe in [Bpe::O200k, Bpe::Cl100k] {
                prop_assert_eq!(bpe.count(&text) as usize, bpe.tokenizer().count(&text), "{:?}", text);
            }
        }
    }
}
