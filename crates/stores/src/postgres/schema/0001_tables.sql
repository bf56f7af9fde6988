-- The tables of the PostgreSQL store. The tenant is the first column of every key and index, so that the tables can be
-- distributed by it. Times are microseconds since the Unix epoch. The codes of roles, states, kinds and events are in codes.rs.
-- Numbers are `bigint` throughout, so that every parameter has the same type.

-- One row. `xid_offset` is added to the ids of transactions: it keeps sequence numbers rising after the tables were moved to
-- another server, whose ids are lower. `system` identifies the server that the offset was computed for.
CREATE TABLE store (
    id         bigint PRIMARY KEY CHECK (id = 1),
    xid_offset bigint NOT NULL DEFAULT 0,
    system     text   NOT NULL DEFAULT ''
);
INSERT INTO store (id) VALUES (1);

-- `version` changes with every commit that is serialized against the whole tenant, `revision` increases with every audit record
-- and amendment.
CREATE TABLE tenants (
    tenant   text COLLATE "C" PRIMARY KEY,
    version  bigint NOT NULL DEFAULT 0,
    revision bigint NOT NULL DEFAULT 0
);

-- `version` changes with every commit that writes to the conversation. `participants`, `threads`, `policy` and `tree_state` are
-- JSON; a label is the text `name=value`.
CREATE TABLE conversations (
    tenant        text COLLATE "C" NOT NULL,
    id            bytea  NOT NULL,
    version       bigint NOT NULL,
    slug          text COLLATE "C" NOT NULL,
    title         text,
    title_source  bigint NOT NULL,
    participants  text   NOT NULL,
    cwd           text COLLATE "C",
    project_path  text COLLATE "C",
    started_at    bigint NOT NULL,
    last_activity bigint NOT NULL,
    state         bigint NOT NULL,
    external_id   text COLLATE "C",
    messages      bigint NOT NULL,
    turns         bigint NOT NULL,
    tool_calls    bigint NOT NULL,
    chars         bigint NOT NULL,
    tokens        bigint NOT NULL,
    threads       text   NOT NULL,
    policy        text   NOT NULL,
    tree_state    text   NOT NULL,
    labels        text[] COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id),
    UNIQUE (tenant, slug),
    UNIQUE (tenant, external_id)
) WITH (fillfactor = 80);
CREATE INDEX conversations_recent ON conversations (tenant, last_activity DESC, id);
CREATE INDEX conversations_cwd ON conversations (tenant, cwd) WHERE cwd IS NOT NULL;
CREATE INDEX conversations_archived ON conversations (tenant, id) WHERE state = 2;

-- `seq` is the sequence number of the row's last write in the change feed of its tenant. `turns` is the number of turns in the
-- conversation including this message. A placeholder is `forgotten`: its text, author and parts were erased.
CREATE TABLE messages (
    tenant       text COLLATE "C" NOT NULL,
    conversation bytea   NOT NULL,
    idx          bigint  NOT NULL,
    seq          bigint  NOT NULL,
    turn         bigint  NOT NULL,
    turns        bigint  NOT NULL,
    thread       text    NOT NULL,
    role         bigint  NOT NULL,
    at           bigint  NOT NULL,
    chars        bigint  NOT NULL,
    tokens       bigint  NOT NULL,
    hash         bytea   NOT NULL,
    author       text,
    external_id  text COLLATE "C",
    text         text    NOT NULL,
    parts        text,
    forgotten    boolean NOT NULL,
    edited_at    bigint,
    wrong_at     bigint,
    correction   text,
    PRIMARY KEY (tenant, conversation, idx)
);
CREATE UNIQUE INDEX messages_seq ON messages (tenant, seq);
CREATE INDEX messages_turn ON messages (tenant, conversation, turn);
CREATE UNIQUE INDEX messages_external ON messages (tenant, external_id, conversation) WHERE external_id IS NOT NULL;
CREATE INDEX messages_forgotten ON messages (tenant, conversation, idx) WHERE forgotten;

CREATE TABLE tool_calls (
    tenant       text COLLATE "C" NOT NULL,
    conversation bytea  NOT NULL,
    turn         bigint NOT NULL,
    position     bigint NOT NULL,
    seq          bigint NOT NULL,
    thread       text   NOT NULL,
    before_idx   bigint NOT NULL,
    at           bigint NOT NULL,
    success      boolean,
    duration_ms  bigint,
    name         text   NOT NULL,
    external_id  text COLLATE "C",
    args         text   NOT NULL,
    result       text,
    PRIMARY KEY (tenant, conversation, turn, position)
);
CREATE UNIQUE INDEX tool_calls_seq ON tool_calls (tenant, seq);
CREATE UNIQUE INDEX tool_calls_external ON tool_calls (tenant, external_id, conversation) WHERE external_id IS NOT NULL;

-- The earlier content of edited messages, in the order of `seq`.
CREATE TABLE versions (
    tenant       text COLLATE "C" NOT NULL,
    conversation bytea  NOT NULL,
    idx          bigint NOT NULL,
    seq          bigint NOT NULL,
    replaced_at  bigint NOT NULL,
    text         text   NOT NULL,
    parts        text,
    wrong_at     bigint,
    correction   text,
    PRIMARY KEY (tenant, conversation, idx, seq)
);

-- `spec`, `content` and `invented` are JSON.
CREATE TABLE nodes (
    tenant       text COLLATE "C" NOT NULL,
    conversation bytea   NOT NULL,
    level        bigint  NOT NULL,
    ordinal      bigint  NOT NULL,
    seq          bigint  NOT NULL,
    id           text COLLATE "C" NOT NULL,
    parent       bigint,
    dirty        boolean NOT NULL,
    range_start  bigint  NOT NULL,
    range_end    bigint  NOT NULL,
    first_idx    bigint  NOT NULL,
    until_idx    bigint  NOT NULL,
    messages     bigint  NOT NULL,
    turns        bigint  NOT NULL,
    raw_chars    bigint  NOT NULL,
    raw_tokens   bigint  NOT NULL,
    source_chars bigint  NOT NULL,
    made_by      text    NOT NULL,
    made_at      bigint  NOT NULL,
    took_ms      bigint  NOT NULL,
    chars        bigint  NOT NULL,
    tokens       bigint  NOT NULL,
    grounded     double precision NOT NULL,
    retained     double precision NOT NULL,
    spec         text    NOT NULL,
    content      text    NOT NULL,
    invented     text    NOT NULL,
    PRIMARY KEY (tenant, conversation, level, ordinal),
    UNIQUE (tenant, id, conversation)
);
CREATE UNIQUE INDEX nodes_seq ON nodes (tenant, seq);
CREATE INDEX nodes_parent ON nodes (tenant, conversation, level, parent);

-- `height` is 0 for turns and the level for nodes; `position` is the number of the turn or node. `due_at` is the earliest start of
-- a waiting job, or the end of a lease. `work` is JSON. `seq` gives the order of planning.
CREATE TABLE jobs (
    tenant       text COLLATE "C" NOT NULL,
    conversation bytea  NOT NULL,
    height       bigint NOT NULL,
    position     bigint NOT NULL,
    id           bytea  NOT NULL,
    seq          bigint NOT NULL,
    kind         bigint NOT NULL,
    state        bigint NOT NULL,
    due_at       bigint NOT NULL,
    failures     bigint NOT NULL,
    planned_at   bigint NOT NULL,
    worker       text,
    error        text,
    work         text   NOT NULL,
    PRIMARY KEY (tenant, conversation, height, position, id)
) WITH (fillfactor = 70);
CREATE INDEX jobs_order ON jobs (tenant, height, seq);

-- `conversation` is NULL for events that concern none.
CREATE TABLE job_events (
    tenant       text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    conversation bytea,
    at           bigint NOT NULL,
    job          bytea  NOT NULL,
    event        bigint NOT NULL,
    took_ms      bigint,
    text         text   NOT NULL,
    PRIMARY KEY (tenant, seq)
);

-- Removed conversations, for readers of the change feed.
CREATE TABLE removals (
    tenant       text COLLATE "C" NOT NULL,
    seq          bigint NOT NULL,
    conversation bytea  NOT NULL,
    PRIMARY KEY (tenant, seq)
);

-- Embeddings by the hash of their content, for models that are not instant. A vector is a sequence of little-endian 32-bit floats.
CREATE TABLE vectors (
    tenant text COLLATE "C" NOT NULL,
    model  text COLLATE "C" NOT NULL,
    hash   bytea  NOT NULL,
    seq    bigint NOT NULL,
    vector bytea  NOT NULL,
    PRIMARY KEY (tenant, model, hash)
);
CREATE UNIQUE INDEX vectors_seq ON vectors (tenant, seq);

-- The model in use and, during a rebuild, the next model and the cursor up to which everything has been embedded with it.
CREATE TABLE vector_indexes (
    tenant      text COLLATE "C" PRIMARY KEY,
    model       text NOT NULL,
    next_model  text,
    next_cursor text NOT NULL
);

-- The cost of calls to models by day, conversation and model. `conversation` is empty for none; `unpriced` counts calls without a
-- known price.
CREATE TABLE spend (
    tenant       text COLLATE "C" NOT NULL,
    day          bigint NOT NULL,
    conversation bytea  NOT NULL,
    model        text COLLATE "C" NOT NULL,
    calls        bigint NOT NULL,
    tokens_in    bigint NOT NULL,
    tokens_out   bigint NOT NULL,
    nanodollars  bigint NOT NULL,
    unpriced     bigint NOT NULL,
    PRIMARY KEY (tenant, day, conversation, model)
);
CREATE INDEX spend_conversation ON spend (tenant, conversation);

-- Recent requests to each provider. Quotas apply to all tenants together, so there is no tenant.
CREATE TABLE requests (
    provider text COLLATE "C" NOT NULL,
    at       bigint NOT NULL,
    calls    bigint NOT NULL,
    tokens   bigint NOT NULL,
    PRIMARY KEY (provider, at)
);

-- The append-only audit. `record` is JSON without content. `is_scrubbed` is false while the bytes may still be in the files.
CREATE TABLE audit (
    tenant      text COLLATE "C" NOT NULL,
    id          text COLLATE "C" NOT NULL,
    seq         bigint  NOT NULL,
    record      text    NOT NULL,
    is_scrubbed boolean NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- Salted hashes of forgotten ids, and the audit record that they belong to.
CREATE TABLE tombstones (
    tenant text COLLATE "C" NOT NULL,
    hash   bytea NOT NULL,
    audit  text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, hash)
);
CREATE INDEX tombstones_audit ON tombstones (tenant, audit);

-- The salts of a tenant's tombstones, its own and those that came with the tombstones of another store.
CREATE TABLE salts (
    tenant text COLLATE "C" NOT NULL,
    salt   bytea  NOT NULL,
    seq    bigint NOT NULL,
    PRIMARY KEY (tenant, salt)
);
