//! Byte-pair tokenizers of the OpenAI families, with their vocabularies in the binary.

use std::cell::RefCell;

use treering_core::Tokenizer;

/// A byte-pair tokenizer. The first use in a process builds its tables; later ones share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bpe {
    /// GPT-4o and later; the default, close enough to other families to budget by.
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
        // A plain word is one piece to every family, and need not be searched for pieces.
        let slow = |text: &str| match is_plain(text.as_bytes()) {
            true => tokenizer.bpe.count(text.as_bytes()),
            false => tokenizer.count(text),
        };
        let count =
            WORDS.with_borrow_mut(|words| words[usize::from(*self == Self::Cl100k)].count(text, slow));
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn adds_up(&self) -> bool {
        true
    }
}

/// The longest word that is remembered.
const LONGEST: usize = 14;

/// Words that were counted before, each in the one place its hash gives it.
struct Words(Vec<Word>);

#[derive(Clone, Copy, Default)]
struct Word {
    size: u8,
    tokens: u8,
    bytes: [u8; LONGEST],
}

impl Default for Words {
    fn default() -> Self {
        Self(vec![Word::default(); 8192])
    }
}

impl Words {
    /// Counts word by word. No token of these families reaches over the places where `word_end`
    /// ends a word, so that words can be counted apart; and people use the same words again and
    /// again.
    fn count(&mut self, text: &str, slow: impl Fn(&str) -> usize) -> usize {
        let bytes = text.as_bytes();
        let mut total = 0;
        // Words that are not remembered wait here to be counted together.
        let mut unknown = 0;
        let mut start = 0;
        while start < bytes.len() {
            let end = word_end(bytes, start);
            let word = &bytes[start..end];
            if word.len() <= LONGEST {
                let place = self.place(word);
                let known = &mut self.0[place];
                if usize::from(known.size) != word.len() || known.bytes[..word.len()] != *word {
                    known.size = word.len() as u8;
                    known.bytes[..word.len()].copy_from_slice(word);
                    known.tokens = slow(&text[start..end]) as u8;
                }
                total += usize::from(known.tokens);
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

    fn place(&self, word: &[u8]) -> usize {
        let hash = word.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32) as usize % self.0.len()
    }
}

/// Where the word that starts at `start` ends: before a space that follows an ASCII character
/// other than white space, or before a punctuation mark that follows an ASCII letter. (An
/// apostrophe may be part of a word; and what follows other characters is left together, since
/// they might be white space or letters too.)
fn word_end(bytes: &[u8], start: usize) -> usize {
    let ends = |at: usize| {
        let (before, here) = (bytes[at - 1], bytes[at]);
        (here == b' ' && before.is_ascii_graphic())
            || (before.is_ascii_alphabetic() && here.is_ascii_punctuation() && here != b'\'')
    };
    (start + 1..bytes.len()).find(|at| ends(*at)).unwrap_or(bytes.len())
}

/// Lower-case letters, perhaps behind a capital and a space.
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
