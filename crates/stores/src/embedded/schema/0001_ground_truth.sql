-- Ground truth: conversations, messages, tool calls.
-- Times are microseconds since 1970 UTC. Numbers of roles, states and namings are those of codes.rs.

-- `threads` is JSON: see threads.rs. It changes with every turn, like the counts beside it, so that a
-- turn costs one row here and one for each message.
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
    tokens        INTEGER NOT NULL,
    threads       TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX conversations_id ON conversations (tenant, id);
CREATE UNIQUE INDEX conversations_slug ON conversations (tenant, slug);
CREATE UNIQUE INDEX conversations_external ON conversations (tenant, external_id) WHERE external_id IS NOT NULL;
CREATE INDEX conversations_recent ON conversations (tenant, last_activity DESC, id);
CREATE INDEX conversations_cwd ON conversations (tenant, cwd) WHERE cwd IS NOT NULL;

-- `seq` is the order of arrival over the whole store: rows are added at its end, whatever conversation
-- they belong to, so that a commit touches few pages. `turns` is how many turns the conversation had once
-- the message was there; it never falls, so that a turn is found by halving.
CREATE TABLE messages (
    seq          INTEGER PRIMARY KEY,
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
    author       TEXT,
    external_id  TEXT,
    text         TEXT    NOT NULL,
    parts        TEXT
) STRICT;

CREATE UNIQUE INDEX messages_idx ON messages (conversation, idx);
CREATE UNIQUE INDEX messages_external ON messages (external_id, conversation) WHERE external_id IS NOT NULL;

CREATE TABLE tool_calls (
    pk           INTEGER PRIMARY KEY,
    conversation INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    place        INTEGER NOT NULL,
    thread       INTEGER NOT NULL,
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
