-- Vectors of models that are not instant, by what they are vectors of, and which model's search goes by. All of it can
-- be dropped and made again from messages, tool calls and nodes. A vector is its numbers, four bytes each, lowest first.

CREATE TABLE vector_models (
    pk     INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    model  TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX vector_models_name ON vector_models (tenant, model);

-- No `pk` is ever used twice: whoever follows the vectors sees every one.
CREATE TABLE vectors (
    pk     INTEGER PRIMARY KEY AUTOINCREMENT,
    model  INTEGER NOT NULL,
    hash   BLOB    NOT NULL,
    vector BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX vectors_hash ON vectors (model, hash);

-- The model in use, and the one that is to follow with how far its vectors are.
CREATE TABLE vector_indexes (
    tenant        TEXT PRIMARY KEY,
    model         TEXT NOT NULL,
    next_model    TEXT,
    next_messages INTEGER NOT NULL,
    next_calls    INTEGER NOT NULL,
    next_nodes    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
