//! Sentences and words: splits a text into quotable segments, and segments into words and
//! stems. Handles English, French, Chinese and Japanese punctuation, Markdown and code blocks.
//! Never fails, and never drops text other than white space and markers.

/// The kind of a text segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// A sentence in running text.
    Prose,
    /// A sentence in a list item.
    Item,
    /// A heading, or a line that only introduces the next one.
    Heading,
    /// A code block or a log, as one segment.
    Code,
}

/// A segment of a text: a sentence, a heading or a code block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSegment<'a> {
    /// The kind.
    pub kind: SegmentKind,
    /// The text without the line's marker; may contain line breaks.
    pub text: &'a str,
}

/// Splits a text into its segments, in order.
#[must_use]
pub fn split(text: &str) -> Vec<TextSegment<'_>> {
    let mut pieces = Vec::new();
    let mut paragraph: Option<(usize, usize, SegmentKind)> = None;
    let mut fence: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            close(text, &mut paragraph, &mut pieces);
            match fence.take() {
                Some(from) => code(&text[from..start], &mut pieces),
                None if trimmed.len() > 3 && trimmed[3..].contains(&trimmed[..3]) => {
                    code(trimmed, &mut pieces);
                }
                None => fence = Some(at),
            }
            continue;
        }
        if fence.is_some() {
            continue;
        }
        let (kind, content) = classify(trimmed);
        // A line that starts in lower case continues the previous sentence.
        let goes_on = kind == SegmentKind::Prose && content.starts_with(char::is_lowercase);
        if let Some((_, end, _)) = paragraph.as_mut().filter(|_| goes_on) {
            *end = at;
            continue;
        }
        close(text, &mut paragraph, &mut pieces);
        match kind {
            _ if content.is_empty() => {}
            SegmentKind::Heading | SegmentKind::Code => {
                pieces.push(TextSegment { kind, text: content });
            }
            SegmentKind::Prose | SegmentKind::Item => {
                let offset = line.find(content).unwrap_or(0);
                paragraph = Some((start + offset, at, kind));
            }
        }
    }
    close(text, &mut paragraph, &mut pieces);
    if let Some(from) = fence {
        code(&text[from..], &mut pieces);
    }
    pieces
}

fn code<'a>(text: &'a str, pieces: &mut Vec<TextSegment<'a>>) {
    let text = text.trim_matches(['`', '~', '\n', '\r', ' ']);
    if !text.is_empty() {
        pieces.push(TextSegment { kind: SegmentKind::Code, text });
    }
}

fn close<'a>(
    text: &'a str,
    paragraph: &mut Option<(usize, usize, SegmentKind)>,
    pieces: &mut Vec<TextSegment<'a>>,
) {
    if let Some((start, end, kind)) = paragraph.take() {
        sentences(&text[start..end], |sentence| pieces.push(TextSegment { kind, text: sentence }));
    }
}

/// The kind of a line, and its content without the marker.
fn classify(line: &str) -> (SegmentKind, &str) {
    let unquoted = line.trim_start_matches(['>', ' ']);
    if unquoted.is_empty() || unquoted.chars().all(|c| "-=*_#|:+ ".contains(c)) {
        return (SegmentKind::Prose, "");
    }
    let heading = unquoted.trim_start_matches('#');
    if heading.len() < unquoted.len() && heading.starts_with(' ') {
        return (SegmentKind::Heading, heading.trim());
    }
    for marker in ["- [ ] ", "- [x] ", "- ", "* ", "+ ", "• ", "– ", "— "] {
        if let Some(item) = unquoted.strip_prefix(marker) {
            return (SegmentKind::Item, item.trim());
        }
    }
    let digits = unquoted.bytes().take_while(u8::is_ascii_digit).count();
    if (1..=3).contains(&digits) {
        let rest = &unquoted[digits..];
        if let Some(item) = rest.strip_prefix(". ").or_else(|| rest.strip_prefix(") ")) {
            return (SegmentKind::Item, item.trim());
        }
    }
    let announces = unquoted.ends_with(':') && unquoted.split_whitespace().nth(6).is_none();
    let is_bold = unquoted.len() > 4 && unquoted.starts_with("**") && unquoted.ends_with("**");
    if announces || is_bold {
        return (SegmentKind::Heading, unquoted.trim_matches(['*', ':', ' ']));
    }
    (if looks_like_code(unquoted) { SegmentKind::Code } else { SegmentKind::Prose }, unquoted)
}

/// Whether a line is code, a diff or a log rather than prose.
fn looks_like_code(line: &str) -> bool {
    let ends_like_code = line.ends_with([';', '{', '}', '\\', '$']) && !line.contains(". ");
    let numbered = line.split_once(':').is_some_and(|(number, rest)| {
        !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
            && !rest.starts_with(|c: char| c.is_ascii_digit())
    });
    let bracketed = line.starts_with('[') && line.ends_with(']');
    let begins_like_code =
        ["$ ", "+++ ", "@@ ", "diff ", "import ", "#include", "</", "<?", "Traceback ", "File \""]
            .iter()
            .any(|start| line.starts_with(start));
    if ends_like_code || begins_like_code || numbered || bracketed {
        return true;
    }
    let (mut letters, mut signs) = (0_usize, 0_usize);
    for c in line.chars().take(200) {
        letters += usize::from(c.is_alphabetic() || c == ' ');
        signs += usize::from(c.is_ascii_punctuation() && !".,!?'\"-:()#*`/".contains(c));
    }
    signs >= 4 && signs * 5 > letters
}

/// Words after which a full stop does not end a sentence.
const ABBREVIATIONS: [&str; 48] = [
    "mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "eg", "ie", "cf",
    "al", "fig", "no", "nr", "approx", "inc", "ltd", "co", "corp", "dept", "est", "min", "max",
    "p", "pp", "vol", "ch", "sec", "p.ex", "ex", "mme", "mlle", "mm", "env", "art", "av", "n",
    "resp", "a.m", "p.m", "u.s", "u.k", "ph.d",
];

/// Calls `found` with each sentence of a paragraph.
fn sentences<'a>(text: &'a str, mut found: impl FnMut(&'a str)) {
    let mut start = 0;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '｡' | '؟' | '।') {
            continue;
        }
        let mut end = at + c.len_utf8();
        let is_full_width = matches!(c, '。' | '！' | '？' | '｡');
        let mut last = c;
        while let Some(&(next, punctuation)) = chars.peek() {
            if !matches!(
                punctuation,
                '.' | '!'
                    | '?'
                    | '…'
                    | '"'
                    | '\''
                    | ')'
                    | ']'
                    | '»'
                    | '”'
                    | '’'
                    | '」'
                    | '』'
                    | '*'
            ) {
                break;
            }
            last = if matches!(punctuation, '!' | '?') { punctuation } else { last };
            end = next + punctuation.len_utf8();
            chars.next();
        }
        let rest = &text[end..];
        let spaced = rest.is_empty() || rest.starts_with(char::is_whitespace);
        if !(is_full_width || spaced) {
            continue;
        }
        if matches!(last, '.' | '…') && !stops(&text[start..at], rest.trim_start(), end - at > 1)
        {
            continue;
        }
        emit(&text[start..end], &mut found);
        start = end;
    }
    emit(&text[start..], &mut found);
}

fn emit<'a>(sentence: &'a str, found: &mut impl FnMut(&'a str)) {
    let sentence = sentence.trim();
    if sentence.chars().any(char::is_alphanumeric) {
        found(sentence);
    }
}

/// Whether a full stop between `before` and `after` ends a sentence.
fn stops(before: &str, after: &str, several: bool) -> bool {
    if after.is_empty() {
        return true;
    }
    if after.starts_with(|c: char| c.is_lowercase() || c == ',' || c == ';') {
        return false;
    }
    if several {
        return true;
    }
    let word = before.rsplit([' ', '\n', '(', '\t', '\u{a0}']).next().unwrap_or_default();
    if word.len() <= 1 && word.chars().all(|c| c.is_ascii_uppercase()) && word != "I" {
        return word.is_empty();
    }
    let lower = word.to_lowercase();
    if !ABBREVIATIONS.contains(&lower.as_str()) {
        return true;
    }
    let ends_anyway =
        matches!(lower.as_str(), "etc" | "no" | "min" | "max" | "co" | "a.m" | "p.m" | "ex" | "av");
    ends_anyway && after.starts_with(char::is_uppercase)
}

/// The words of a text: runs of letters and digits with inner joiners, and single Chinese or
/// Japanese characters.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let first = rest.chars().next()?;
        let end = if is_ideograph(first) { first.len_utf8() } else { word_end(rest) };
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

fn word_end(text: &str) -> usize {
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let joins = matches!(c, '\'' | '’' | '_' | '-')
            && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric() && !is_ideograph(*next));
        if !(joins || c.is_alphanumeric() && !is_ideograph(c)) {
            return at;
        }
    }
    text.len()
}

/// Whether a character is a word of its own.
#[must_use]
pub(crate) const fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{2fa1f}')
}

/// A simple stem for comparison: lower case, without the most common English and French
/// endings. Forms of one word mostly share a stem, which need not be a word.
#[must_use]
pub fn stem(word: &str) -> String {
    let mut stem = word.to_lowercase();
    if stem.contains(['\'', '’']) {
        stem = unelided(&stem).to_owned();
    }
    if !stem.is_ascii() {
        stem = stem.chars().map(without_accent).collect();
    }
    if stem.bytes().any(|b| !b.is_ascii_lowercase()) {
        return stem;
    }
    for (ending, kept, min_stem) in ENDINGS {
        if stem.len() >= ending.len() + min_stem && stem.ends_with(ending) {
            stem.truncate(stem.len() - ending.len());
            stem.push_str(kept);
            break;
        }
    }
    let bytes = stem.as_bytes();
    let doubled = bytes.len() > 3 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
    let shortened = doubled && !matches!(bytes[bytes.len() - 1], b'l' | b's' | b'z' | b'e' | b'o');
    if shortened || stem.len() > 3 && stem.ends_with('e') {
        stem.pop();
    }
    stem
}

/// Endings, their replacements, and the minimum length of the rest.
const ENDINGS: [(&str, &str, usize); 22] = [
    ("ations", "at", 3),
    ("ation", "at", 3),
    ("ements", "", 4),
    ("ement", "", 4),
    ("ments", "ment", 3),
    ("ingly", "", 3),
    ("edly", "", 3),
    ("ings", "", 3),
    ("ing", "", 3),
    ("iers", "i", 3),
    ("ies", "i", 2),
    ("ied", "i", 2),
    ("sses", "ss", 2),
    ("ions", "ion", 3),
    ("aux", "al", 2),
    ("ees", "", 4),
    ("ed", "", 3),
    ("er", "", 4),
    ("ly", "", 4),
    ("es", "e", 3),
    ("y", "i", 2),
    ("s", "", 3),
];

/// The word without an elided part before or after an apostrophe: `l'heure`, `Yann's`.
fn unelided(word: &str) -> &str {
    let mut parts = word.splitn(2, ['\'', '’']);
    let (before, after) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if before.chars().count() <= 2 && after.chars().count() > 2 { after } else { before }
}

/// A letter without its accent, for French.
const fn without_accent(c: char) -> char {
    match c {
        'à' | 'â' | 'ä' | 'á' | 'ã' => 'a',
        'é' | 'è' | 'ê' | 'ë' => 'e',
        'î' | 'ï' | 'í' => 'i',
        'ô' | 'ö' | 'ó' => 'o',
        'ù' | 'û' | 'ü' | 'ú' => 'u',
        'ç' => 'c',
        'ñ' => 'n',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<&str> = split(text).into_iter().map(|piece| piece.text).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn sentences_end_where_people_end_them() {
        check("One. Two! Three? Four", &["One.", "Two!", "Three?", "Four"]);
        check("Mr. Le Goff paid 3.5 GB. Fine.", &["Mr. Le Goff paid 3.5 GB.", "Fine."]);
        check(
            "Use e.g. Rust. See src/main.rs. Done.",
            &["Use e.g. Rust.", "See src/main.rs.", "Done."],
        );
        check("Wait... what? Well... Yes.", &["Wait... what?", "Well...", "Yes."]);
        check(
            "On y va ! Quand ? Demain, p. ex. à 9 h.",
            &["On y va !", "Quand ?", "Demain, p. ex. à 9 h."],
        );
        check("See https://a.b/c.d?e=f. Ok.", &["See https://a.b/c.d?e=f.", "Ok."]);
        check("今日は。元気ですか？はい！", &["今日は。", "元気ですか？", "はい！"]);
        check(
            "He said \"stop.\" Then J. Smith left.",
            &["He said \"stop.\"", "Then J. Smith left."],
        );
        check("Apples, etc. The rest is fine.", &["Apples, etc.", "The rest is fine."]);
        check("", &[]);
        check(" \n\n ... \n---\n", &[]);
    }

    #[test]
    fn lines_have_kinds() {
        let text = "# Plan\nWe do this\nand that.\n- one\n- [ ] two. Three.\n1. four\n```rust\nfn a() {}\n```\nNext steps:\nlet x = 1;";
        let kinds: Vec<(SegmentKind, &str)> =
            split(text).into_iter().map(|piece| (piece.kind, piece.text)).collect();
        assert_eq!(
            kinds,
            [
                (SegmentKind::Heading, "Plan"),
                (SegmentKind::Prose, "We do this\nand that."),
                (SegmentKind::Item, "one"),
                (SegmentKind::Item, "two."),
                (SegmentKind::Item, "Three."),
                (SegmentKind::Item, "four"),
                (SegmentKind::Code, "fn a() {}"),
                (SegmentKind::Heading, "Next steps"),
                (SegmentKind::Code, "let x = 1;"),
            ]
        );
    }

    #[test]
    fn words_and_stems() {
        let found: Vec<&str> = words("L'heure, it's snake_case 3.5 中文 ok—fine").collect();
        assert_eq!(found, ["L'heure", "it's", "snake_case", "3", "5", "中", "文", "ok", "fine"]);
        for forms in [
            ["plans", "planned", "planning"],
            ["boats", "boat", "Boat's"],
            ["décidé", "décidés", "décide"],
        ] {
            assert_eq!(stem(forms[0]), stem(forms[1]), "{forms:?}");
            assert_eq!(stem(forms[1]), stem(forms[2]), "{forms:?}");
        }
        assert_eq!(stem("running"), "run");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_without_loss_of_words(text in "[\\PC\n]{0,200}") {
            for piece in split(&text) {
                proptest::prop_assert!(text.contains(piece.text));
                for word in words(piece.text) {
                    let _ = stem(word);
                }
            }
        }
    }
}
