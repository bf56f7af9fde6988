-- Amendments. `edited_at` is the time of the last edit. `wrong_at` is the time at which the message was marked as wrong,
-- and `correction` the text that stands in its place.
ALTER TABLE messages ADD COLUMN edited_at INTEGER;
ALTER TABLE messages ADD COLUMN wrong_at INTEGER;
ALTER TABLE messages ADD COLUMN correction TEXT;

-- The earlier content of edited messages, and when it was replaced.
CREATE TABLE versions (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    idx          INTEGER NOT NULL,
    replaced_at  INTEGER NOT NULL,
    text         TEXT    NOT NULL,
    parts        TEXT,
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;
CREATE INDEX versions_message ON versions (tenant, conversation, idx);

-- Increases with every amendment.
ALTER TABLE tenants ADD COLUMN amendments INTEGER NOT NULL DEFAULT 0;
