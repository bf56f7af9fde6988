-- The complete schema of version 8. A new store is created from it; an older one is copied into
-- it by 0008_copy.sql. The tenant is the first column of every key. Times are microseconds
-- since the Unix epoch. The codes of roles, states, kinds and events are in codes.rs.
-- `checksum` covers the columns listed in checksum.rs.

CREATE TABLE tenants (
    pk   INTEGER PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE,
    -- The sequence number of the tenant's latest change.
    seq  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- `threads`, `participants`, `policy` and `growth` are JSON.
CREATE TABLE conversations (
    pk            INTEGER PRIMARY KEY,
    tenant        INTEGER NOT NULL REFERENCES tenants,
    id            BLOB    NOT NULL,
    slug          TEXT    NOT NULL,
    title         TEXT,
    naming        INTEGER NOT NULL,
    participants  TEXT    NOT NULL,
    cwd           TEXT,
    project_path  TEXT,
    started_at    INTEGER NOT NULL,
    last_activity INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    external_id   TEXT,
    messages      INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    tool_calls    INTEGER NOT NULL,
    chars         INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    threads       TEXT    NOT NULL,
    policy        TEXT    NOT NULL,
    growth        TEXT    NOT NULL,
    checksum      BLOB    NOT NULL,
    UNIQUE (tenant, pk),
    UNIQUE (tenant, id),
    UNIQUE (tenant, slug),
    UNIQUE (tenant, external_id)
) STRICT;

-- `seq` is the sequence number of the row's last write in the change feed of its tenant.
-- `turns` is the number of turns in the conversation including this message.
CREATE TABLE messages (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    idx          INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    turns        INTEGER NOT NULL,
    thread       INTEGER NOT NULL,
    role         INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    chars        INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    checksum     BLOB    NOT NULL,
    author       TEXT,
    external_id  TEXT,
    text         TEXT    NOT NULL,
    parts        TEXT,
    UNIQUE (tenant, seq),
    UNIQUE (tenant, conversation, idx),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;

CREATE TABLE tool_calls (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    thread       INTEGER NOT NULL,
    before_idx   INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    success      INTEGER,
    duration_ms  INTEGER,
    checksum     BLOB    NOT NULL,
    name         TEXT    NOT NULL,
    external_id  TEXT,
    args         TEXT    NOT NULL,
    result       TEXT,
    UNIQUE (tenant, seq),
    UNIQUE (tenant, conversation, turn, place),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;

-- `task`, `content` and `invented` are JSON.
CREATE TABLE nodes (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
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
    checksum     BLOB    NOT NULL,
    task         TEXT    NOT NULL,
    content      TEXT    NOT NULL,
    invented     TEXT    NOT NULL,
    UNIQUE (tenant, seq),
    UNIQUE (tenant, conversation, level, ordinal),
    UNIQUE (tenant, id, conversation),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;

-- `height` is 0 for turns and the level for nodes; `place` is the number of the turn or node.
-- `moment` is the earliest start of a waiting job, or the end of a lease. `work` is JSON.
CREATE TABLE jobs (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL,
    conversation INTEGER NOT NULL,
    height       INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    id           BLOB    NOT NULL,
    kind         INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    moment       INTEGER NOT NULL,
    failures     INTEGER NOT NULL,
    planned_at   INTEGER NOT NULL,
    worker       TEXT,
    error        TEXT,
    work         TEXT    NOT NULL,
    UNIQUE (tenant, conversation, height, place, id),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;

-- Job events. `conversation` is NULL for events that concern none.
CREATE TABLE log (
    pk           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL REFERENCES tenants,
    seq          INTEGER NOT NULL,
    conversation INTEGER,
    at           INTEGER NOT NULL,
    job          BLOB    NOT NULL,
    event        INTEGER NOT NULL,
    took_ms      INTEGER,
    text         TEXT    NOT NULL,
    UNIQUE (tenant, seq),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, pk)
) STRICT;

-- Embeddings by the hash of their content, for models that are not instant. A vector is a
-- sequence of little-endian 32-bit floats.
CREATE TABLE vector_models (
    pk     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    model  TEXT    NOT NULL,
    UNIQUE (tenant, pk),
    UNIQUE (tenant, model)
) STRICT;

CREATE TABLE vectors (
    pk     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    model  INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    vector BLOB    NOT NULL,
    UNIQUE (tenant, seq),
    UNIQUE (tenant, model, hash),
    FOREIGN KEY (tenant, model) REFERENCES vector_models (tenant, pk)
) STRICT;

-- The model in use and, during a rebuild, the next model and the sequence number up to which
-- everything has been embedded with it.
CREATE TABLE vector_indexes (
    tenant     INTEGER PRIMARY KEY REFERENCES tenants,
    model      TEXT    NOT NULL,
    next_model TEXT,
    next_seq   INTEGER NOT NULL
) STRICT;

-- The cost of calls to models by day, conversation and model. `conversation` is its id, or
-- empty for none; `unpriced` counts calls without a known price.
CREATE TABLE spend (
    tenant       INTEGER NOT NULL REFERENCES tenants,
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

-- Recent requests to each provider. Quotas apply to all tenants together, so there is no
-- tenant.
CREATE TABLE requests (
    provider TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    calls    INTEGER NOT NULL,
    tokens   INTEGER NOT NULL,
    PRIMARY KEY (provider, at)
) STRICT, WITHOUT ROWID;

CREATE INDEX conversations_recent ON conversations (tenant, last_activity DESC, id);
CREATE INDEX conversations_cwd ON conversations (tenant, cwd) WHERE cwd IS NOT NULL;
CREATE INDEX messages_turn ON messages (tenant, conversation, turn);
CREATE UNIQUE INDEX messages_external ON messages (tenant, external_id, conversation) WHERE external_id IS NOT NULL;
CREATE UNIQUE INDEX tool_calls_external ON tool_calls (tenant, external_id, conversation)
    WHERE external_id IS NOT NULL;
CREATE INDEX nodes_parent ON nodes (tenant, conversation, level, parent);
CREATE INDEX spend_conversation ON spend (tenant, conversation);
CREATE INDEX jobs_height ON jobs (tenant, height);
