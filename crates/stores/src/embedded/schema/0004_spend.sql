-- What calls to models cost, added up by day, conversation and model. `conversation` is its id, empty for calls that
-- were for none; `unpriced` counts the calls whose price was not known.

CREATE TABLE spend (
    tenant       TEXT    NOT NULL,
    day          INTEGER NOT NULL,
    conversation BLOB    NOT NULL,
    model        TEXT    NOT NULL,
    calls        INTEGER NOT NULL,
    tokens_in    INTEGER NOT NULL,
    tokens_out   INTEGER NOT NULL,
    nanodollars  INTEGER NOT NULL,
    unpriced     INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, conversation, model)
) STRICT, WITHOUT ROWID;

CREATE INDEX spend_conversation ON spend (tenant, conversation);

-- What a node says that occurs in nothing it covers, as JSON.
ALTER TABLE nodes ADD COLUMN invented TEXT NOT NULL DEFAULT '[]';
