//! Tables without borders, at most as wide as the terminal.

use std::io::{self, Write};

use anstyle::{AnsiColor, Color, Effects, Style};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, presets};

use super::{DIM, width};

/// The heading and the alignment of a column.
pub(in crate::commands) enum Column {
    /// A column of texts.
    Left(&'static str),
    /// A column of numbers.
    Right(&'static str),
}

/// A table. Cells that do not fit are wrapped.
pub(in crate::commands) struct TextTable(comfy_table::Table);

impl TextTable {
    pub(in crate::commands) fn new<const N: usize>(columns: &[Column; N]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width()).unwrap_or(u16::MAX));
        // The output stream strips styles where they are not wanted.
        table.enforce_styling();
        table.style_text_only();
        table.set_header(columns.iter().map(|column| match column {
            Column::Left(name) | Column::Right(name) => cell(DIM, name),
        }));
        for (place, column) in columns.iter().enumerate() {
            let Some(made) = table.column_mut(place) else { continue };
            made.set_padding((0, if place + 1 < N { 2 } else { 0 }));
            made.set_cell_alignment(match column {
                Column::Left(_) => CellAlignment::Left,
                Column::Right(_) => CellAlignment::Right,
            });
        }
        Self(table)
    }

    /// Adds a row of styled texts.
    pub(in crate::commands) fn row<const N: usize>(&mut self, cells: [(Style, String); N]) {
        self.0.add_row(cells.map(|(style, text)| cell(style, &text)));
    }

    /// The lines of the table, the heading first.
    pub(in crate::commands) fn lines(&self) -> impl Iterator<Item = String> {
        self.0.lines().map(|line| line.trim_end().to_owned())
    }

    pub(in crate::commands) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        self.lines().try_for_each(|line| writeln!(out, "{line}"))
    }
}

fn cell(style: Style, text: &str) -> Cell {
    let mut cell = Cell::new(text);
    if text.is_empty() {
        // A styled empty cell would keep the spaces before it from being trimmed.
        return cell;
    }
    if style.get_effects().contains(Effects::BOLD) {
        cell = cell.add_attribute(Attribute::Bold);
    }
    if style.get_effects().contains(Effects::DIMMED) {
        cell = cell.add_attribute(Attribute::Dim);
    }
    match style.get_fg_color() {
        Some(Color::Ansi(AnsiColor::Red)) => cell.fg(comfy_table::Color::DarkRed),
        Some(Color::Ansi(AnsiColor::Green)) => cell.fg(comfy_table::Color::DarkGreen),
        Some(Color::Ansi(AnsiColor::Yellow)) => cell.fg(comfy_table::Color::DarkYellow),
        Some(Color::Ansi(AnsiColor::Cyan)) => cell.fg(comfy_table::Color::DarkCyan),
        _ => cell,
    }
}
