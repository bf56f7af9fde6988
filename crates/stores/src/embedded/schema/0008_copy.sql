-- Copies the rows of version 7 into the tables of version 8. Assigns new sequence numbers:
-- messages first, then tool calls, nodes, job events and vectors.

INSERT INTO tenants (name)
SELECT tenant FROM old_conversations UNION SELECT tenant FROM old_vector_models
UNION SELECT tenant FROM old_vector_indexes UNION SELECT tenant FROM old_spend
UNION SELECT tenant FROM old_log WHERE tenant IS NOT NULL;

INSERT INTO conversations
SELECT c.pk, t.pk, id, slug, title, naming, participants, cwd, project_path, started_at, last_activity, state,
    external_id, messages, turns, tool_calls, chars, tokens, threads, policy, growth,
    checksum(id, slug, title, naming, participants, cwd, project_path, state, external_id, policy)
FROM old_conversations c JOIN tenants t ON t.name = c.tenant;

INSERT INTO messages
SELECT m.seq, c.tenant, row_number() OVER (PARTITION BY c.tenant ORDER BY m.seq), m.conversation, idx, turn,
    m.turns, thread, role, at, m.chars, m.tokens, hash,
    checksum(idx, turn, m.turns, thread, role, at, m.chars, m.tokens, hash, author, m.external_id),
    author, m.external_id, text, parts
FROM old_messages m JOIN conversations c ON c.pk = m.conversation;
UPDATE tenants SET seq = seq + (SELECT count(*) FROM messages x WHERE x.tenant = tenants.pk);

INSERT INTO tool_calls
SELECT t.pk, c.tenant, o.seq + row_number() OVER (PARTITION BY c.tenant ORDER BY t.pk),
    t.conversation, turn, place, thread, before_idx, at, success, duration_ms,
    checksum(turn, place, thread, before_idx, at, success, duration_ms, t.name, t.external_id, args, result),
    t.name, t.external_id, args, result
FROM old_tool_calls t JOIN conversations c ON c.pk = t.conversation JOIN tenants o ON o.pk = c.tenant;
UPDATE tenants SET seq = seq + (SELECT count(*) FROM tool_calls x WHERE x.tenant = tenants.pk);

INSERT INTO nodes
SELECT n.pk, c.tenant, o.seq + row_number() OVER (PARTITION BY c.tenant ORDER BY n.pk),
    n.conversation, level, ordinal, n.id, parent, dirty, range_start, range_end, first_idx, until_idx, n.messages,
    n.turns, raw_chars, raw_tokens, source_chars, made_by, made_at, took_ms, n.chars, n.tokens, grounded, retained,
    checksum(level, ordinal, n.id, range_start, range_end, first_idx, until_idx, n.messages, n.turns, raw_chars,
        raw_tokens, source_chars, made_by, made_at, took_ms, n.chars, n.tokens, grounded, retained, task, content,
        invented),
    task, content, invented
FROM old_nodes n JOIN conversations c ON c.pk = n.conversation JOIN tenants o ON o.pk = c.tenant;
UPDATE tenants SET seq = seq + (SELECT count(*) FROM nodes x WHERE x.tenant = tenants.pk);

INSERT INTO jobs
SELECT j.pk, c.tenant, conversation, height, place, j.id, kind, j.state, moment, failures, planned_at, worker, error,
    work
FROM old_jobs j JOIN conversations c ON c.pk = j.conversation;

INSERT INTO log
SELECT l.pk, tenant, o.seq + row_number() OVER (PARTITION BY tenant ORDER BY l.pk),
    conversation, at, job, event, took_ms, text
FROM (
    SELECT l.pk, coalesce(c.tenant, t.pk) AS tenant, c.pk AS conversation, at, job, event, took_ms, text
    FROM old_log l LEFT JOIN conversations c ON c.pk = l.conversation LEFT JOIN tenants t ON t.name = l.tenant
) l JOIN tenants o ON o.pk = l.tenant;
UPDATE tenants SET seq = seq + (SELECT count(*) FROM log x WHERE x.tenant = tenants.pk);

INSERT INTO vector_models SELECT m.pk, t.pk, model FROM old_vector_models m JOIN tenants t ON t.name = m.tenant;

INSERT INTO vectors
SELECT v.pk, m.tenant, o.seq + row_number() OVER (PARTITION BY m.tenant ORDER BY v.pk),
    v.model, hash, vector
FROM old_vectors v JOIN vector_models m ON m.pk = v.model JOIN tenants o ON o.pk = m.tenant;
UPDATE tenants SET seq = seq + (SELECT count(*) FROM vectors x WHERE x.tenant = tenants.pk);

-- A rebuild of the vector index that was in progress starts over.
INSERT INTO vector_indexes
SELECT t.pk, model, next_model, 0 FROM old_vector_indexes i JOIN tenants t ON t.name = i.tenant;

INSERT INTO spend
SELECT t.pk, day, conversation, model, calls, tokens_in, tokens_out, nanodollars, unpriced
FROM old_spend s JOIN tenants t ON t.name = s.tenant;

INSERT INTO requests SELECT provider, at, calls, tokens FROM old_taken;

DROP TABLE old_conversations;
DROP TABLE old_messages;
DROP TABLE old_tool_calls;
DROP TABLE old_nodes;
DROP TABLE old_jobs;
DROP TABLE old_log;
DROP TABLE old_places;
DROP TABLE old_vectors;
DROP TABLE old_vector_models;
DROP TABLE old_vector_indexes;
DROP TABLE old_spend;
DROP TABLE old_taken;
