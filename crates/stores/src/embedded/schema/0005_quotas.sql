-- What was asked of each provider in the last minutes, by all tenants and processes together: quotas are held against
-- it. A call that is booked for a moment to come has that moment; what it took less or more is added to the same row.

CREATE TABLE taken (
    provider TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    calls    INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    PRIMARY KEY (provider, at)
) STRICT, WITHOUT ROWID;

-- Lines about no conversation (`conversation` is 0) say whose they are.
ALTER TABLE log ADD COLUMN tenant TEXT;
