-- The tree: nodes, the jobs that grow it, and the log of their work. All of it can be dropped and grown again
-- from the messages. Numbers of kinds, states and events are those of codes.rs; `task`, `content`, `work` and
-- `growth` are JSON.

ALTER TABLE conversations ADD COLUMN policy TEXT NOT NULL DEFAULT '[]';
ALTER TABLE conversations ADD COLUMN growth TEXT NOT NULL DEFAULT '[0,[],[],[],[]]';

-- A node that is written anew gets a new `pk`, and no `pk` is ever used twice: whoever follows the nodes sees
-- every change.
CREATE TABLE nodes (
    pk           INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL,
    level        INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL,
    id           TEXT    NOT NULL,
    parent       INTEGER,
    dirty        INTEGER NOT NULL,
    range_start  INTEGER NOT NULL,
    range_end    INTEGER NOT NULL,
    first_idx    INTEGER NOT NULL,
    until_idx    INTEGER NOT NULL,
    messages     INTEGER NOT NULL,
    turns        INTEGER NOT NULL,
    raw_chars    INTEGER NOT NULL,
    raw_tokens   INTEGER NOT NULL,
    source_chars INTEGER NOT NULL,
    made_by      TEXT    NOT NULL,
    made_at      INTEGER NOT NULL,
    took_ms      INTEGER NOT NULL,
    chars        INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    grounded     REAL    NOT NULL,
    retained     REAL    NOT NULL,
    task         TEXT    NOT NULL,
    content      TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX nodes_place ON nodes (conversation, level, ordinal);
CREATE UNIQUE INDEX nodes_id ON nodes (id, conversation);
CREATE INDEX nodes_parent ON nodes (conversation, level, parent);

-- `moment` is when a waiting job may run, or when the lease of a running one ends.
CREATE TABLE jobs (
    pk           INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    id           BLOB    NOT NULL,
    kind         INTEGER NOT NULL,
    height       INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    moment       INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    planned_at   INTEGER NOT NULL,
    worker       TEXT,
    error        TEXT,
    work         TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX jobs_id ON jobs (conversation, id);
CREATE INDEX jobs_height ON jobs (height);
CREATE INDEX jobs_conversation ON jobs (conversation, height);

-- No index: the log is bounded, and written far more often than read.
CREATE TABLE log (
    pk           INTEGER PRIMARY KEY,
    at           INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    job          BLOB    NOT NULL,
    event        INTEGER NOT NULL,
    took_ms      INTEGER,
    text         TEXT    NOT NULL
) STRICT;
