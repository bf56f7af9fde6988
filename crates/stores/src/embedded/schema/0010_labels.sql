-- Labels of conversations, one value for each name.
CREATE TABLE labels (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    value        TEXT    NOT NULL,
    checksum     BLOB    NOT NULL,
    UNIQUE (tenant, conversation, name),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;
CREATE INDEX labels_value ON labels (tenant, name, value);

-- Searches leave archived conversations out. Only their rows are in the index, so that an append
-- to another conversation does not touch it.
CREATE INDEX conversations_archived ON conversations (tenant, id) WHERE state = 2;
