//! Terminal output: colors, tables and texts that fit the terminal, progress bars, and JSON.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use treering_core::text::preview;
use unicode_width::UnicodeWidthStr;

pub(super) use screen::Screened;
pub(super) use table::{Column, TextTable};

mod screen;
mod table;

/// Standard output for text: screened, and without styles if it is not a terminal.
pub(super) fn stdout() -> Screened<impl Write> {
    Screened::new(anstream::stdout().lock())
}

/// Standard error for text, like [`stdout`].
fn stderr() -> Screened<impl Write> {
    Screened::new(anstream::stderr().lock())
}

/// The styles of the program, stripped when the output is not a terminal.
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const USER: Style = AnsiColor::Cyan.on_default().bold();
pub(super) const ASSISTANT: Style = AnsiColor::Green.on_default().bold();
pub(super) const TOOL: Style = AnsiColor::Yellow.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const MATCH: Style = AnsiColor::Yellow.on_default().bold();
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(super) const WARNING: Style = AnsiColor::Yellow.on_default().bold();

/// Prints results, as text or as JSON.
pub(super) struct Output {
    pub(super) json: bool,
}

impl Output {
    pub(super) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a value as JSON, or calls `human` to print it as text.
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
        human(&mut stdout())
    }

    /// Prints an error and an optional hint on standard error.
    pub(super) fn error(&self, message: &str, hint: Option<&str>) {
        let mut err = stderr();
        let written = if self.json {
            writeln!(err, "{}", serde_json::json!({ "error": message, "hint": hint }))
        } else {
            write_error(&mut err, message, hint)
        };
        // Standard error is closed: no channel is left to report that.
        drop(written);
    }

    /// Prints a warning on standard error; the command continues.
    pub(super) fn warn(&self, message: &str) {
        let mut err = stderr();
        let written = match self.json {
            true => writeln!(err, "{}", serde_json::json!({ "warning": message })),
            false => write_labeled(&mut err, WARNING, "warning:", message),
        };
        drop(written);
    }

    /// Prints a remark on standard error, apart from the result.
    pub(super) fn remark(&self, message: &str) {
        let mut err = stderr();
        let written = match self.json {
            true => writeln!(err, "{}", serde_json::json!({ "note": message })),
            false => write_wrapped(&mut err, "", stderr_columns(), message, Some(DIM)),
        };
        drop(written);
    }

    /// A progress bar for `total` steps, hidden with `--json` or without a terminal.
    pub(super) fn progress(&self, total: u64, message: &'static str) -> ProgressBar {
        self.bar(Some(total), message, "{msg:>12} {wide_bar:.green/dim} {pos}/{len} {eta}")
    }

    /// A count of steps whose total is not known, hidden like [`Output::progress`].
    pub(super) fn counter(&self, message: &'static str) -> ProgressBar {
        self.bar(None, message, "{msg:>12} {pos}")
    }

    fn bar(&self, total: Option<u64>, message: &'static str, template: &str) -> ProgressBar {
        let visible = !self.json && io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target).with_message(message);
        let style = ProgressStyle::with_template(template);
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

fn write_error(err: &mut impl Write, message: &str, hint: Option<&str>) -> io::Result<()> {
    write_labeled(err, BAD, "error:", message)?;
    hint.map_or(Ok(()), |hint| write_labeled(err, BOLD, "hint:", hint))
}

/// Writes a message after its label. Further lines align with the message.
fn write_labeled(err: &mut impl Write, style: Style, label: &str, text: &str) -> io::Result<()> {
    let indent = " ".repeat(label.len() + 1);
    for (index, line) in wrapped(text, stderr_columns(), indent.len()).iter().enumerate() {
        match index {
            0 => writeln!(err, "{} {line}", paint(style, label))?,
            _ => writeln!(err, "{indent}{line}")?,
        }
    }
    Ok(())
}

fn stderr_columns() -> Option<usize> {
    io::stderr().is_terminal().then(width)
}

/// Prints a text between words at the terminal's width, with an indent. A pipe gets whole lines.
pub(super) fn print_text(out: &mut dyn Write, indent: &str, text: &str) -> io::Result<()> {
    write_wrapped(out, indent, columns(), text, None)
}

/// Prints a dimmed text, like [`print_text`].
pub(super) fn print_dim(out: &mut dyn Write, indent: &str, text: &str) -> io::Result<()> {
    write_wrapped(out, indent, columns(), text, Some(DIM))
}

fn columns() -> Option<usize> {
    io::stdout().is_terminal().then(width)
}

fn write_wrapped(
    out: &mut dyn Write,
    indent: &str,
    columns: Option<usize>,
    text: &str,
    style: Option<Style>,
) -> io::Result<()> {
    for line in wrapped(text, columns, indent.width()) {
        match style {
            Some(style) if !line.is_empty() => writeln!(out, "{indent}{}", paint(style, line))?,
            _ => writeln!(out, "{}", format!("{indent}{line}").trim_end())?,
        }
    }
    Ok(())
}

/// The lines of a text for a width, or its own lines without a width. Words are never broken.
fn wrapped(text: &str, columns: Option<usize>, indent: usize) -> Vec<String> {
    if text.is_empty() {
        return vec![String::new()];
    }
    let Some(columns) = columns else { return text.lines().map(str::to_owned).collect() };
    let options = textwrap::Options::new(columns.saturating_sub(indent).max(20))
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::wrap(text, options).into_iter().map(std::borrow::Cow::into_owned).collect()
}

/// Wraps a text in a style.
pub(super) fn paint(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The width of the terminal, or 100 columns without one.
pub(super) fn width() -> usize {
    terminal_columns().unwrap_or(100).clamp(40, 160)
}

fn terminal_columns() -> Option<usize> {
    let terminal_size::Width(columns) = terminal_size::terminal_size()?.0;
    Some(usize::from(columns))
}

/// The maximum width of a stored name, such as an author's, in a line with other text.
pub(super) const MAX_NAME: usize = 60;

/// Joins a text into one line and cuts it to a display width, at a word if one is near.
pub(super) fn fit(text: &str, width: usize) -> String {
    let line = preview(text, usize::MAX);
    if line.width() <= width {
        return line;
    }
    let cut = start_of(&line, width.saturating_sub(1));
    let kept = match cut.rfind(' ') {
        Some(space) if cut[..space].width() * 3 >= width * 2 => &cut[..space],
        _ => cut,
    };
    format!("{}…", kept.trim_end())
}

/// Cuts the middle out of a name. Use it only beside an id that can be copied.
pub(super) fn fit_middle(name: &str, width: usize) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let head = start_of(name, width.saturating_sub(1).div_ceil(2));
    let max_width = width.saturating_sub(1 + head.width());
    let tail =
        name.char_indices().map(|(at, _)| &name[at..]).find(|tail| tail.width() <= max_width);
    format!("{head}…{}", tail.unwrap_or_default())
}

/// The longest start of a text that fits a display width.
fn start_of(text: &str, width: usize) -> &str {
    let char_ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    let last = char_ends.take_while(|end| text[..*end].width() <= width).last();
    &text[..last.unwrap_or(0)]
}

/// Pads a text to a display width.
pub(super) fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A path with the user's home folder as `~`.
pub(super) fn short_path(path: &str) -> String {
    let below_home = |home: PathBuf| {
        let rest = Path::new(path).strip_prefix(home).ok()?;
        Some(Path::new("~").join(rest).display().to_string())
    };
    std::env::home_dir().and_then(below_home).unwrap_or_else(|| path.to_owned())
}

/// Formats a number with thousands separators: `12,345`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number with its noun: `1 turn`, `2 turns`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let number_text = grouped(number);
    match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        _ if number == 1 => format!("{number_text} {noun}"),
        Some(stem) => format!("{number_text} {stem}ies"),
        None => format!("{number_text} {noun}s"),
    }
}

/// Formats a number of bytes: `3.4 MiB`.
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
    fn numbers_are_formatted_for_people() {
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
        assert_eq!(fit("the harbor office", 15), "the harbor…");
        assert_eq!(fit("潮汐潮汐", 5), "潮汐…");
        assert_eq!(pad("潮", 4), "潮  ");
        assert_eq!(fit_middle("which-port-does-staging-use", 13), "which-…ng-use");
        assert_eq!(fit_middle("tidewatch", 13), "tidewatch");
    }

    #[test]
    fn texts_wrap_between_words() {
        let lines = |text: &str| wrapped(text, Some(24), 0);
        assert_eq!(lines("the gauge drifted in the night"), ["the gauge drifted in the", "night"]);
        assert_eq!(lines("https://example.org/a-long-path-of-its-own").len(), 1);
        assert_eq!(wrapped("one\n\ntwo", None, 0), ["one", "", "two"]);
        assert_eq!(
            (wrapped("", None, 0), wrapped("", Some(24), 0)),
            (vec![String::new()], vec![String::new()])
        );
    }
}
