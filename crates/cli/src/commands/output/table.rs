//! Tables without borders, at most as wide as the terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use anstyle::Style;
use unicode_width::UnicodeWidthStr as _;

use super::{DIM, paint, width};

/// Spaces between two columns.
const GAP: usize = 2;

/// The heading and the alignment of a column.
pub(in crate::commands) enum Column {
    /// A column of texts.
    Left(&'static str),
    /// A column of numbers.
    Right(&'static str),
}

/// A table. Cells that do not fit are wrapped.
pub(in crate::commands) struct TextTable {
    is_right_aligned: Vec<bool>,
    /// The heading, then the rows.
    rows: Vec<Vec<(Style, String)>>,
}

impl TextTable {
    pub(in crate::commands) fn new<const N: usize>(columns: &[Column; N]) -> Self {
        let heading = columns.iter().map(|column| match column {
            Column::Left(name) | Column::Right(name) => (DIM, (*name).to_owned()),
        });
        Self {
            is_right_aligned: columns.iter().map(|it| matches!(it, Column::Right(_))).collect(),
            rows: vec![heading.collect()],
        }
    }

    /// Adds a row of styled texts.
    pub(in crate::commands) fn row<const N: usize>(&mut self, cells: [(Style, String); N]) {
        self.rows.push(cells.into());
    }

    /// The lines of the table, the heading first.
    pub(in crate::commands) fn lines(&self) -> impl Iterator<Item = String> {
        self.lines_within(width()).into_iter()
    }

    pub(in crate::commands) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        self.lines().try_for_each(|line| writeln!(out, "{line}"))
    }

    fn lines_within(&self, width: usize) -> Vec<String> {
        let gaps = GAP * self.is_right_aligned.len().saturating_sub(1);
        let widths = column_widths(&self.natural_widths(), width.saturating_sub(gaps));
        self.rows.iter().flat_map(|row| self.lines_of(row, &widths)).collect()
    }

    fn natural_widths(&self) -> Vec<usize> {
        let column = |index: usize| self.rows.iter().map(move |row| row[index].1.width());
        (0..self.is_right_aligned.len()).map(|index| column(index).max().unwrap_or(0)).collect()
    }

    fn lines_of(&self, row: &[(Style, String)], widths: &[usize]) -> Vec<String> {
        let wrap = |((_, text), width): (&(Style, String), &usize)| -> Vec<String> {
            let options =
                textwrap::Options::new(*width).word_splitter(textwrap::WordSplitter::NoHyphenation);
            textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
        };
        let cells: Vec<Vec<String>> = row.iter().zip(widths).map(wrap).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |number: usize| {
            let mut line = String::new();
            for (index, cell) in cells.iter().enumerate() {
                let text = cell.get(number).map_or("", String::as_str);
                let padding = " ".repeat(widths[index].saturating_sub(text.width()));
                // An empty text has no style, so that the spaces before it can be trimmed.
                let text = match text {
                    "" => String::new(),
                    text => paint(row[index].0, text),
                };
                line.push_str(&match self.is_right_aligned[index] {
                    true => padding + &text,
                    false => text + &padding,
                });
                line.push_str(&" ".repeat(GAP));
            }
            line.trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }
}

/// The widths of columns that together have this many characters at most. Narrow columns keep
/// their natural width, and the others share the rest.
fn column_widths(natural: &[usize], available: usize) -> Vec<usize> {
    let mut widths: Vec<Option<usize>> = vec![None; natural.len()];
    loop {
        let open = widths.iter().filter(|width| width.is_none()).count();
        let used: usize = widths.iter().flatten().sum();
        let share = available.saturating_sub(used).checked_div(open).unwrap_or(0).max(1);
        let fits = |index: &usize| widths[*index].is_none() && natural[*index] <= share;
        let narrow: Vec<usize> = (0..natural.len()).filter(fits).collect();
        if narrow.is_empty() {
            return widths.into_iter().map(|width| width.unwrap_or(share)).collect();
        }
        narrow.into_iter().for_each(|index| widths[index] = Some(natural[index]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let plain = |text: &str| (Style::new(), text.to_owned());
        let mut table =
            TextTable::new(&[Column::Left(""), Column::Right("tokens"), Column::Left("title")]);
        table.rows[0].iter_mut().for_each(|(style, _)| *style = Style::new());
        table.row([plain("a"), plain("7"), plain("The tides of the harbour")]);
        table.row([plain("bc"), plain("1 410"), plain("")]);
        table
    }

    #[test]
    fn columns_are_aligned_and_lines_have_no_trailing_spaces() {
        let expected = ["    tokens  title", "a        7  The tides of the harbour", "bc   1 410"];
        assert_eq!(table().lines_within(80), expected);
    }

    #[test]
    fn wide_columns_are_wrapped() {
        let expected = [
            "    tokens  title",
            "a        7  The tides of",
            "            the harbour",
            "bc   1 410",
        ];
        assert_eq!(table().lines_within(25), expected);
    }

    #[test]
    fn narrow_columns_keep_their_width() {
        assert_eq!(column_widths(&[3, 40, 5, 90], 50), [3, 21, 5, 21]);
        assert_eq!(column_widths(&[3, 4], 50), [3, 4]);
        assert_eq!(column_widths(&[9, 9], 0), [1, 1]);
    }
}
