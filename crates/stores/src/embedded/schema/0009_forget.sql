-- Forgetting. `forgotten` is 1 for a placeholder, whose text, author and parts were erased.
ALTER TABLE messages ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
CREATE INDEX messages_forgotten ON messages (tenant, conversation, idx) WHERE forgotten = 1;

-- Removed conversations, for readers of the change feed. `id` is that of the conversation.
CREATE TABLE removals (
    pk     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    seq    INTEGER NOT NULL,
    id     BLOB    NOT NULL,
    UNIQUE (tenant, seq)
) STRICT;

-- The append-only audit. `record` is JSON without content.
CREATE TABLE audit (
    pk     INTEGER PRIMARY KEY,
    tenant INTEGER NOT NULL REFERENCES tenants,
    id     TEXT    NOT NULL,
    record TEXT    NOT NULL,
    UNIQUE (tenant, pk),
    UNIQUE (tenant, id)
) STRICT;

-- Salted hashes of forgotten ids, and the audit record that they belong to.
CREATE TABLE tombstones (
    tenant INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    audit  INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash),
    FOREIGN KEY (tenant, audit) REFERENCES audit (tenant, pk)
) STRICT, WITHOUT ROWID;
CREATE INDEX tombstones_audit ON tombstones (tenant, audit);

-- The salt of this store's tombstones.
CREATE TABLE salts (
    pk   INTEGER PRIMARY KEY,
    salt BLOB    NOT NULL
) STRICT;
INSERT INTO salts (salt) VALUES (randomblob(32));

-- The audit records of forgets whose bytes may still be in the files.
CREATE TABLE scrubs (
    audit INTEGER PRIMARY KEY
) STRICT;
