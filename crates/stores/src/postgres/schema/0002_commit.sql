-- What a commit runs on the server. Every error has its own SQLSTATE, which error.rs knows.

-- A sequence number: the id of the transaction, then the number of the write in it. `number` includes the store's offset.
CREATE FUNCTION seq(number bigint) RETURNS bigint LANGUAGE sql VOLATILE
    AS $$ SELECT (pg_current_xact_id()::text::bigint << 20) + number $$;

-- Begins a commit: takes its locks before it has a transaction id, so that a waiting commit does not hold back readers of the
-- change feed. Then checks that nothing has changed since the plan was made, and returns the id of the transaction.
-- `expected` are the versions of the tenant and the conversation that the plan saw, -1 for a missing row; NULL without a check.
CREATE FUNCTION begin_commit(
    the_tenant text, shared_lock bigint, exclusive_locks bigint[], the_conversation bytea, expected bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    found_tenant bigint;
    found_conversation bigint;
    one_lock bigint;
BEGIN
    IF shared_lock IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(shared_lock);
    END IF;
    FOREACH one_lock IN ARRAY exclusive_locks LOOP
        PERFORM pg_advisory_xact_lock(one_lock);
    END LOOP;
    SELECT version INTO found_tenant FROM tenants t WHERE t.tenant = the_tenant;
    IF expected IS NOT NULL THEN
        SELECT version INTO found_conversation FROM conversations c WHERE c.tenant = the_tenant AND c.id = the_conversation;
        IF coalesce(found_tenant, -1) <> expected[1] OR coalesce(found_conversation, -1) <> expected[2] THEN
            RAISE EXCEPTION 'the conversation has changed since the commit was planned' USING ERRCODE = 'TR001';
        END IF;
    END IF;
    IF found_tenant IS NULL THEN
        INSERT INTO tenants (tenant) VALUES (the_tenant) ON CONFLICT DO NOTHING;
    END IF;
    RETURN pg_current_xact_id()::text;
END $$;

-- Gives conversations a new version. Fails if one of them does not exist.
CREATE FUNCTION touch_conversations(the_tenant text, ids bytea[], number bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched bigint;
BEGIN
    UPDATE conversations c SET version = seq(number) WHERE c.tenant = the_tenant AND c.id = ANY (ids);
    GET DIAGNOSTICS touched = ROW_COUNT;
    IF touched <> cardinality(ids) THEN
        RAISE EXCEPTION 'a write names a conversation that does not exist' USING ERRCODE = 'TR002';
    END IF;
END $$;

-- Fails if an item of the conversation has one of these external ids.
CREATE FUNCTION assert_absent(the_tenant text, the_conversation bytea, ids text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM messages m WHERE m.tenant = the_tenant AND m.conversation = the_conversation AND m.external_id = ANY (ids))
        OR EXISTS (SELECT FROM tool_calls t WHERE t.tenant = the_tenant AND t.conversation = the_conversation AND t.external_id = ANY (ids))
    THEN
        RAISE EXCEPTION 'an item with this external id is stored' USING ERRCODE = 'TR001';
    END IF;
END $$;

-- Row-level security, as a second wall behind the conditions of every statement: a connection sees the rows of the tenant in
-- its setting `treering.tenant`, or of all tenants for the few statements that concern all of them.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['tenants', 'conversations', 'messages', 'tool_calls', 'versions', 'nodes', 'jobs', 'job_events',
        'removals', 'vectors', 'vector_indexes', 'spend', 'audit', 'tombstones', 'salts']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY one_tenant ON %I USING (tenant = current_setting(''treering.tenant'', true)
            OR current_setting(''treering.tenant'', true) = ''*'')', name);
    END LOOP;
END $$;
