//! Tokens: runs of non-space characters, without the punctuation around them.

/// A token of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct FactToken<'a> {
    /// The text without the punctuation around it.
    pub(super) core: &'a str,
    /// The byte offset of `core` in the text.
    pub(super) at: usize,
    /// Whether it starts a sentence, a line or a quotation.
    pub(super) opens_sentence: bool,
    /// Whether punctuation separates it from the next token.
    pub(super) is_followed_by_punctuation: bool,
    /// Whether it ends a sentence.
    pub(super) ends_sentence: bool,
    /// Whether it is inside backticks.
    pub(super) quoted: bool,
    /// Whether its end is truncated.
    pub(super) is_cut: bool,
}

/// Properties of a token's bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TokenShape {
    pub(super) has_digit: bool,
    pub(super) has_upper: bool,
    pub(super) has_slash: bool,
    pub(super) has_dot: bool,
    pub(super) has_joint: bool,
    pub(super) may_be_date: bool,
}

impl FactToken<'_> {
    pub(super) fn shape(&self) -> TokenShape {
        let mut shape = TokenShape::default();
        for byte in self.core.bytes() {
            match byte {
                b'0'..=b'9' => shape.has_digit = true,
                b'A'..=b'Z' => shape.has_upper = true,
                b'/' | b'\\' => shape.has_slash = true,
                b'.' => shape.has_dot = true,
                b'_' | b'(' | b':' | b'-' => shape.has_joint = true,
                _ => {}
            }
        }
        shape.may_be_date = self.core.len() <= 12 && super::dates::month(self.core).is_some();
        shape
    }
}

const OPENING: [char; 16] =
    ['"', '\'', '(', '[', '{', '<', '*', '`', '«', '“', '‘', '|', '「', '（', '¿', '¡'];
const CLOSING: [char; 24] = [
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '`', '»', '”', '’', '|',
    '」', '。', '、', '，', '！', '？',
];

/// The tokens of a text, in order.
pub(super) fn tokens(text: &str) -> impl Iterator<Item = FactToken<'_>> {
    let mut opens_sentence = true;
    text.split_inclusive('\n').flat_map(of_line).map(move |(raw, begins_line)| {
        let (head, core, tail) = split_punctuation(raw);
        let ends_sentence = tail.contains(['.', '!', '?', ':', '…', '。', '！', '？']);
        let is_cut = tail.contains('…') || core.ends_with('…');
        let token = FactToken {
            core,
            at: core.as_ptr().addr() - text.as_ptr().addr(),
            opens_sentence: opens_sentence
                || begins_line
                || head.contains(['"', '“', '«', '(', '[']),
            is_followed_by_punctuation: !tail.is_empty(),
            ends_sentence,
            quoted: head.ends_with('`') && tail.starts_with('`'),
            is_cut,
        };
        opens_sentence = ends_sentence || core.is_empty() && opens_sentence;
        token
    })
}

/// The tokens of a line, each with a flag: whether no earlier token has a letter or digit.
fn of_line(line: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut first = true;
    line.split_whitespace().map(move |token| {
        let is_first = first;
        first = first && !token.chars().any(char::is_alphanumeric);
        (token, is_first)
    })
}

/// Splits a token into its opening punctuation, its core and its closing punctuation.
fn split_punctuation(raw: &str) -> (&str, &str, &str) {
    let is_plain = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    if is_plain(raw.as_bytes().first()) && is_plain(raw.as_bytes().last()) {
        return (&raw[..0], raw, &raw[raw.len()..]);
    }
    let from = raw.len() - raw.trim_start_matches(OPENING).len();
    let (head, rest) = raw.split_at(from);
    let mut core = rest.trim_end_matches(CLOSING);
    if core.is_empty() {
        return (head, &rest[..0], rest);
    }
    // A function call keeps its parentheses.
    if rest[core.len()..].starts_with(')') && core.ends_with('(') {
        core = &rest[..=core.len()];
    }
    (head, core, &rest[core.len()..])
}

/// The runs of letters, digits and underscores of a text, which form its vocabulary.
pub(super) fn runs(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|run| !run.is_empty())
}

/// A case-insensitive hash of a run.
pub(super) fn hash(run: &str) -> u64 {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    if run.is_ascii() {
        return run.bytes().fold(START, |hash, byte| mix(hash, byte.to_ascii_lowercase()));
    }
    let lower = run.chars().flat_map(char::to_lowercase);
    let mut buffer = [0; 4];
    lower.fold(START, |hash, c| c.encode_utf8(&mut buffer).bytes().fold(hash, mix))
}
