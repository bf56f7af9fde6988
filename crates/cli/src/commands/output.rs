//! How things look: colours where a terminal shows them, tables that fit it, JSON for programs.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use treering_core::text::preview;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The colours of the program. They are stripped where the output is not a terminal.
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const USER: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const ASSISTANT: Style = AnsiColor::Green.on_default().bold();
pub(super) const TOOL: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const MATCH: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Where a command shows what it has to show.
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a value as JSON, or lets `human` print it.
    pub(super) fn show<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.json {
            let mut out = io::stdout().lock();
            serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
            return writeln!(out);
        }
        let mut out = anstream::stdout().lock();
        human(&mut out)
    }

    /// Prints what went wrong and what to do next, on standard error.
    pub(super) fn error(&self, what: &str, hint: Option<&str>) {
        let mut err = anstream::stderr().lock();
        let written = if self.json {
            writeln!(err, "{}", serde_json::json!({ "error": what, "hint": hint }))
        } else {
            write_error(&mut err, what, hint)
        };
        // Nothing is left to say it to.
        drop(written);
    }

    /// Prints what may be wrong though the command goes on, on standard error.
    pub(super) fn warn(&self, what: &str) {
        let mut err = anstream::stderr().lock();
        let written = match self.json {
            true => writeln!(err, "{}", serde_json::json!({ "warning": what })),
            false => writeln!(err, "{} {what}", paint(WARNING, "warning:")),
        };
        drop(written);
    }

    /// Prints something to know beside the result, on standard error.
    pub(super) fn note(&self, what: &str) {
        let mut err = anstream::stderr().lock();
        let written = match self.json {
            true => writeln!(err, "{}", serde_json::json!({ "note": what })),
            false => writeln!(err, "{}", paint(DIM, what)),
        };
        drop(written);
    }

    /// A bar for work with `total` steps; invisible where nobody watches.
    pub(super) fn progress(&self, total: u64, what: &'static str) -> ProgressBar {
        let visible = !self.json && io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what);
        let style =
            ProgressStyle::with_template("{msg:>12} {wide_bar:.green/dim} {pos}/{len} {eta}");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

fn write_error(err: &mut impl Write, what: &str, hint: Option<&str>) -> io::Result<()> {
    writeln!(err, "{} {what}", paint(BAD, "error:"))?;
    match hint {
        Some(hint) => writeln!(err, "{} {hint}", paint(BOLD, "what to do:")),
        None => Ok(()),
    }
}

/// A text in a style.
pub(super) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// How wide the terminal is; a page where there is none.
pub(super) fn width() -> usize {
    terminal_columns().unwrap_or(100).clamp(40, 160)
}

fn terminal_columns() -> Option<usize> {
    let terminal_size::Width(columns) = terminal_size::terminal_size()?.0;
    Some(usize::from(columns))
}

/// Cuts a text to a width on the screen.
pub(super) fn fit(text: &str, width: usize) -> String {
    let line = preview(text, usize::MAX);
    if line.width() <= width {
        return line;
    }
    let mut used = 0;
    let mut cut = String::new();
    for c in line.chars() {
        let wide = c.width().unwrap_or(0);
        if used + wide + 1 > width {
            break;
        }
        used += wide;
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// Fills a text to a width on the screen.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// `12,345`
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 turn`, `2 turns`
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// `3.4 MiB`
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(count(1, "turn"), "1 turn");
        assert_eq!(count(1200, "turn"), "1,200 turns");
        assert_eq!(size(512), "512 B");
        assert_eq!(size(3_565_158), "3.4 MiB");
    }

    #[test]
    fn texts_fit_their_column() {
        assert_eq!(fit("a b\nc", 10), "a b c");
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("潮汐潮汐", 5), "潮汐…");
        assert_eq!(pad("潮", 4), "潮  ");
    }
}
