//! Cuts a long text into slices, at the ends of lines and words where it can.

use unicode_segmentation::GraphemeCursor;

/// Cuts a text into slices from start to end.
pub(super) struct Slicer<'a> {
    text: &'a str,
    /// The current position, in characters and in bytes.
    chars: u32,
    bytes: usize,
}

impl<'a> Slicer<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Self { text, chars: 0, bytes: 0 }
    }

    /// The end of a slice that starts at character `from` and has at most `max_chars` characters.
    /// Prefers the end of a line or a word near the limit, and never splits a grapheme cluster
    /// unless the cluster alone exceeds the limit.
    pub(super) fn cut(&mut self, from: u32, max_chars: u32) -> u32 {
        self.advance_to(from);
        let rest = &self.text[self.bytes..];
        let end = rest.char_indices().nth(max_chars as usize).map_or(rest.len(), |(at, _)| at);
        if end == rest.len() {
            return from.saturating_add(crate::text::chars(rest));
        }
        // Search only the last tenth of the slice for a line or word end.
        let search =
            rest.char_indices().nth((max_chars - max_chars / 10) as usize).map_or(0, |(at, _)| at);
        let slice = rest.get(search..end).unwrap_or_default();
        let after = |found: Option<usize>| found.map(|at| search + at + 1);
        let boundary = after(slice.rfind('\n')).or_else(|| after(slice.rfind(' '))).unwrap_or(end);
        let char_boundary = self.whole_character(self.bytes + boundary);
        let end = if char_boundary > self.bytes { char_boundary } else { self.bytes + end };
        from.saturating_add(crate::text::chars(&self.text[self.bytes..end])).max(from + 1)
    }

    fn advance_to(&mut self, chars: u32) {
        let rest = &self.text[self.bytes..];
        let step = chars.saturating_sub(self.chars) as usize;
        self.bytes += rest.char_indices().nth(step).map_or(rest.len(), |(at, _)| at);
        self.chars = chars;
    }

    /// The last grapheme cluster boundary at or before `at`.
    fn whole_character(&self, at: usize) -> usize {
        let mut cursor = GraphemeCursor::new(at, self.text.len(), true);
        match cursor.is_boundary(self.text, 0) {
            Ok(true) => at,
            _ => cursor.prev_boundary(self.text, 0).ok().flatten().unwrap_or(at),
        }
    }
}
