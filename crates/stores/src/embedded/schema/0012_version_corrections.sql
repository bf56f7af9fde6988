-- The correction that an earlier version of a message had: when it was marked as wrong, and the text that stood in its place.
ALTER TABLE versions ADD COLUMN wrong_at INTEGER;
ALTER TABLE versions ADD COLUMN correction TEXT;
