-- Ground truth: conversations, threads, turns, messages, tool calls.
-- Times are microseconds since 1970 UTC. Numbers of roles and states are those of codes.rs.

CREATE TABLE conversations (
    pk            INTEGER PRIMARY KEY,
    tenant        TEXT    NOT NULL,
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
    tokens        INTEGER NOT NULL
) STRICT;

CREATE UNIQUE INDEX conversations_id ON conversations (tenant, id);
CREATE UNIQUE INDEX conversations_slug ON conversations (tenant, slug);
CREATE UNIQUE INDEX conversations_external ON conversations (tenant, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX conversations_recent ON conversations (tenant, last_activity DESC, id);
CREATE INDEX conversations_cwd ON conversations (tenant, cwd) WHERE cwd IS NOT NULL;

CREATE TABLE threads (
    conversation INTEGER NOT NULL REFERENCES conversations (pk),
    no           INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    parent       INTEGER,
    fork_after   INTEGER,
    PRIMARY KEY (conversation, no),
    UNIQUE (conversation, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    conversation INTEGER NOT NULL REFERENCES conversations (pk),
    no           INTEGER NOT NULL,
    thread       INTEGER NOT NULL,
    first_idx    INTEGER NOT NULL,
    until_idx    INTEGER NOT NULL,
    messages     INTEGER NOT NULL,
    tool_calls   INTEGER NOT NULL,
    answered     INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,
    ended_at     INTEGER NOT NULL,
    PRIMARY KEY (conversation, no)
) STRICT, WITHOUT ROWID;

CREATE INDEX turns_thread ON turns (conversation, thread);

-- `seq` is the order of arrival over the whole store: what follows the store follows it.
CREATE TABLE messages (
    seq          INTEGER PRIMARY KEY AUTOINCREMENT,
    conversation INTEGER NOT NULL REFERENCES conversations (pk),
    idx          INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    thread       INTEGER NOT NULL,
    role         INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    chars        INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    hash         BLOB    NOT NULL,
    author       TEXT,
    external_id  TEXT,
    text         TEXT    NOT NULL,
    parts        TEXT
) STRICT;

CREATE UNIQUE INDEX messages_idx ON messages (conversation, idx);
CREATE UNIQUE INDEX messages_external ON messages (external_id, conversation) WHERE external_id IS NOT NULL;

CREATE TABLE tool_calls (
    pk           INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL REFERENCES conversations (pk),
    turn         INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    before_idx   INTEGER NOT NULL,
    at           INTEGER NOT NULL,
    success      INTEGER,
    duration_ms  INTEGER,
    name         TEXT    NOT NULL,
    external_id  TEXT,
    args         TEXT    NOT NULL,
    result       TEXT
) STRICT;

CREATE UNIQUE INDEX tool_calls_place ON tool_calls (conversation, turn, place);
CREATE UNIQUE INDEX tool_calls_external ON tool_calls (external_id, conversation) WHERE external_id IS NOT NULL;
