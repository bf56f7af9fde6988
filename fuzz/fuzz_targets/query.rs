//! Questions with their time expressions and literals, and the texts that they are compared with.
//! The first line is the question, the rest is a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treering_core::lexicon::Lexer;
use treering_core::{
    Question, Timestamp, excerpt, fence, is_question, redact, sentence, share_as_typed, slug_of,
    title_of, with_absolute_dates,
};

fuzz_target!(|data: &[u8]| {
    let input = String::from_utf8_lossy(data);
    let (asked, text) = input.split_once('\n').unwrap_or((&input, &input));
    // Dates are relative to any time, also to one before 1970.
    let micros = data.iter().fold(0_i64, |sum, byte| sum.wrapping_mul(31) + i64::from(*byte));
    for now in [1_772_440_860_000_000, micros] {
        let now = Timestamp::from_micros(now);
        let question = Question::new(asked, now);
        assert!(question.times.iter().all(|(from, until)| from <= until), "{:?}", question.times);
        let share = share_as_typed(&question.literals, text);
        assert!((0.0..=1.0).contains(&share), "{share}");
        let part = excerpt::best(text, &question, 80);
        assert!(part.chars().count() <= 80.max(text.chars().count()) + 4, "{part:?}");
        drop(with_absolute_dates(text, now));
    }
    let mut lexer = Lexer::default();
    let mut terms = Vec::new();
    lexer.each_term(text, |_, id| terms.push(id));
    for (start, end) in lexer.matches(text, &terms) {
        assert!(!text[start..end].is_empty());
    }
    for piece in sentence::split(text) {
        assert!(text.contains(piece.text));
    }
    let _ = is_question(text);
    let _ = redact(text);
    drop((slug_of(text), title_of(text)));
    for line in
        fence::quoted(text).split(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'])
    {
        assert!(line.starts_with('>'), "{line:?} is not quoted");
    }
});
