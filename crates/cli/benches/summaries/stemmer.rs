//! The Porter stemmer (1980) with the two changes of its author's later version, as the common
//! ROUGE implementation uses it.

/// The stem of a lowercase word.
pub(crate) fn stem(word: &str) -> String {
    if word.len() <= 2 || !word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
        return word.to_owned();
    }
    let mut word = Word(word.as_bytes().to_vec());
    word.plurals();
    word.past();
    word.last_y();
    word.replace(&DOUBLE_SUFFIXES);
    word.replace(&SUFFIXES);
    word.drop_suffix();
    word.tidy();
    String::from_utf8(word.0).unwrap_or_default()
}

struct Word(Vec<u8>);

const DOUBLE_SUFFIXES: [(&str, &str); 22] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("fulli", "ful"),
    ("logi", "log"),
];

const SUFFIXES: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const DROPPED: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou",
    "ism", "ate", "iti", "ous", "ive", "ize",
];

impl Word {
    fn ends_with(&self, suffix: &str) -> bool {
        self.0.ends_with(suffix.as_bytes())
    }

    fn cut(&mut self, bytes: usize) {
        self.0.truncate(self.0.len() - bytes);
    }

    fn is_consonant(&self, at: usize) -> bool {
        match self.0[at] {
            b'a' | b'e' | b'i' | b'o' | b'u' => false,
            b'y' => at == 0 || !self.is_consonant(at - 1),
            _ => true,
        }
    }

    /// The number of vowel-consonant transitions in the first `end` letters.
    fn measure(&self, end: usize) -> usize {
        (1..end).filter(|at| self.is_consonant(*at) && !self.is_consonant(at - 1)).count()
    }

    fn has_vowel(&self, end: usize) -> bool {
        (0..end).any(|at| !self.is_consonant(at))
    }

    fn ends_double(&self) -> bool {
        let size = self.0.len();
        size >= 2 && self.0[size - 1] == self.0[size - 2] && self.is_consonant(size - 1)
    }

    /// Consonant, vowel, consonant that is not w, x or y.
    fn ends_short(&self, end: usize) -> bool {
        if end == 2 {
            return !self.is_consonant(0) && self.is_consonant(1);
        }
        end >= 3
            && self.is_consonant(end - 3)
            && !self.is_consonant(end - 2)
            && self.is_consonant(end - 1)
            && !b"wxy".contains(&self.0[end - 1])
    }

    fn plurals(&mut self) {
        if self.ends_with("ies") && self.0.len() == 4 {
            self.cut(1);
        } else if self.ends_with("sses") || self.ends_with("ies") {
            self.cut(2);
        } else if self.ends_with("s") && !self.ends_with("ss") {
            self.cut(1);
        }
    }

    fn past(&mut self) {
        if self.ends_with("ied") {
            let short = self.0.len() == 4;
            self.cut(if short { 1 } else { 2 });
            return;
        }
        if self.ends_with("eed") {
            if self.measure(self.0.len() - 3) > 0 {
                self.cut(1);
            }
            return;
        }
        let suffix = ["ed", "ing"].into_iter().find(|suffix| self.ends_with(suffix));
        let Some(suffix) = suffix.filter(|suffix| self.has_vowel(self.0.len() - suffix.len()))
        else {
            return;
        };
        self.cut(suffix.len());
        if self.ends_with("at") || self.ends_with("bl") || self.ends_with("iz") {
            self.0.push(b'e');
        } else if self.ends_double()
            && !(self.ends_with("l") || self.ends_with("s") || self.ends_with("z"))
        {
            self.cut(1);
        } else if self.measure(self.0.len()) == 1 && self.ends_short(self.0.len()) {
            self.0.push(b'e');
        }
    }

    fn last_y(&mut self) {
        let size = self.0.len();
        if self.ends_with("y") && size > 2 && self.is_consonant(size - 2) {
            self.0[size - 1] = b'i';
        }
    }

    fn replace(&mut self, suffixes: &[(&str, &str)]) {
        // Only the longest matching suffix is considered, even if it cannot be removed.
        let fitting = suffixes
            .iter()
            .filter(|(suffix, _)| self.ends_with(suffix))
            .max_by_key(|(suffix, _)| suffix.len());
        let Some((suffix, other)) = fitting else { return };
        // The l of "logi" counts as part of the stem.
        let kept = self.0.len() - suffix.len() + usize::from(*suffix == "logi");
        if self.measure(kept) > 0 {
            self.cut(suffix.len());
            self.0.extend_from_slice(other.as_bytes());
        }
    }

    fn drop_suffix(&mut self) {
        let fitting = DROPPED
            .iter()
            .filter(|suffix| self.ends_with(suffix))
            .max_by_key(|suffix| suffix.len());
        let Some(suffix) = fitting else { return };
        let end = self.0.len() - suffix.len();
        let allowed = *suffix != "ion" || end > 0 && b"st".contains(&self.0[end - 1]);
        if allowed && self.measure(end) > 1 {
            self.cut(suffix.len());
        }
    }

    fn tidy(&mut self) {
        let size = self.0.len();
        if self.ends_with("e") {
            let measure = self.measure(size - 1);
            if measure > 1 || measure == 1 && !self.ends_short(size - 1) {
                self.cut(1);
            }
        }
        if self.ends_with("ll") && self.measure(self.0.len() - 1) > 1 {
            self.cut(1);
        }
    }
}
