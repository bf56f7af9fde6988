//! The filter between stored text and a terminal.

use std::io::{self, Write};

use treering_core::text::is_hidden_control;

/// The escape sequences of the program's own styles. Every other one is stored text.
const STYLES: [&str; 7] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// Writes text to a terminal. Control characters become `�`, so that no stored text moves the
/// cursor, sets the title or writes to the clipboard. Characters that hide or reorder text are
/// dropped.
pub(in crate::commands) struct Screened<W> {
    out: W,
    /// The start of a character or of an escape sequence.
    pending: Vec<u8>,
}

impl<W: Write> Screened<W> {
    pub(in crate::commands) const fn new(out: W) -> Self {
        Self { out, pending: Vec::new() }
    }
}

impl<W: Write> Write for Screened<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend(bytes);
        let complete = match std::str::from_utf8(&self.pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(complete);
        let text = String::from_utf8_lossy(&self.pending);
        let (screened, used) = screen(&text);
        self.out.write_all(screened.as_bytes())?;
        self.pending = [&text.as_bytes()[used..], &rest].concat();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The screened text, and the length of the text before the start of a style at its end.
fn screen(text: &str) -> (String, usize) {
    let mut screened = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\x1b' {
            if let Some(style) = STYLES.iter().find(|style| rest.starts_with(**style)) {
                screened.push_str(style);
                rest = &rest[style.len()..];
                continue;
            }
            if STYLES.iter().any(|style| style.starts_with(rest)) {
                break;
            }
        }
        match c {
            '\n' | '\t' => screened.push(c),
            '\r' => {}
            _ if c.is_control() => screened.push('\u{fffd}'),
            _ if is_hidden_control(c) => {}
            _ => screened.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    (screened, text.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::super::{ASSISTANT, BAD, BOLD, DIM, GOOD, MATCH, TOOL, USER, WARNING, paint};
    use super::*;

    fn screened(pieces: &[&[u8]]) -> String {
        let mut out = Screened::new(Vec::new());
        pieces.iter().for_each(|piece| out.write_all(piece).unwrap());
        String::from_utf8(out.out).unwrap()
    }

    #[test]
    fn the_styles_of_the_program_pass() {
        for style in [BOLD, DIM, USER, ASSISTANT, TOOL, BAD, MATCH, GOOD, WARNING] {
            let painted = paint(style, "tide");
            let bytes: Vec<&[u8]> = painted.as_bytes().chunks(1).collect();
            assert_eq!(
                (screened(&[painted.as_bytes()]), screened(&bytes)),
                (painted.clone(), painted)
            );
        }
    }

    #[test]
    fn stored_sequences_do_not() {
        let clipboard = "a\x1b]52;c;ZXZpbA==\x07b";
        assert_eq!(screened(&[clipboard.as_bytes()]), "a�]52;c;ZXZpbA==�b");
        assert_eq!(screened(&[b"\x1b[2J\x1b[8mx\x1b[?1049h"]), "�[2J�[8mx�[?1049h");
        assert_eq!(screened(&["\u{9b}2J\u{9d}0;title\u{9c}".as_bytes()]), "�2J�0;title�");
        assert_eq!(screened(&["a\u{202e}b\u{2066}c\u{e0041}\u{e007f}d".as_bytes()]), "abcd");
        assert_eq!(screened(&[b"one\r\ntwo\tthree\rfour\n"]), "one\ntwo\tthreefour\n");
        assert_eq!(screened(&[b"caf\xc3", b"\xa9 \x1b", b"]0;x"]), "café �]0;x");
        assert_eq!(screened(&[b"\xff\xfe."]), "��.");
    }
}
