-- Renames the tables of version 7 to make room for those of version 8. Drops their indexes,
-- whose names version 8 uses again.

DROP INDEX IF EXISTS conversations_id;
DROP INDEX IF EXISTS conversations_slug;
DROP INDEX IF EXISTS conversations_external;
DROP INDEX IF EXISTS conversations_recent;
DROP INDEX IF EXISTS conversations_cwd;
DROP INDEX IF EXISTS messages_external;
DROP INDEX IF EXISTS tool_calls_place;
DROP INDEX IF EXISTS tool_calls_external;
DROP INDEX IF EXISTS nodes_place;
DROP INDEX IF EXISTS nodes_id;
DROP INDEX IF EXISTS nodes_parent;
DROP INDEX IF EXISTS jobs_height;
DROP INDEX IF EXISTS jobs_place;
DROP INDEX IF EXISTS vector_models_name;
DROP INDEX IF EXISTS vectors_hash;
DROP INDEX IF EXISTS spend_conversation;

ALTER TABLE conversations RENAME TO old_conversations;
ALTER TABLE messages RENAME TO old_messages;
ALTER TABLE tool_calls RENAME TO old_tool_calls;
ALTER TABLE nodes RENAME TO old_nodes;
ALTER TABLE jobs RENAME TO old_jobs;
ALTER TABLE log RENAME TO old_log;
ALTER TABLE places RENAME TO old_places;
ALTER TABLE vectors RENAME TO old_vectors;
ALTER TABLE vector_models RENAME TO old_vector_models;
ALTER TABLE vector_indexes RENAME TO old_vector_indexes;
ALTER TABLE spend RENAME TO old_spend;
ALTER TABLE taken RENAME TO old_taken;
