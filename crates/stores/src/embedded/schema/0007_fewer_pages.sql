-- What a turn writes beside itself: fewer entries of indexes, on fewer pages.

-- Jobs are found by what they work on: `place` is the number of their turn or node among those as high. Of the indexes by
-- conversation one does for all questions; another by their ids, which are hashes, would have every job write a page of its own.

ALTER TABLE jobs ADD COLUMN place INTEGER NOT NULL DEFAULT 0;

-- By kind: the turn that is to have a vector, the node that is to be written, the node that is to have a vector.
UPDATE jobs SET place = CASE kind
    WHEN 0 THEN work ->> '$'
    WHEN 1 THEN work ->> '$.ordinal'
    ELSE ifnull((SELECT ordinal FROM nodes n WHERE n.id = work ->> '$' AND n.conversation = jobs.conversation), 0)
END;

DROP INDEX jobs_id;
DROP INDEX jobs_conversation;

CREATE INDEX jobs_place ON jobs (conversation, height, place);

-- Conversations are in order by hours, and those of an hour are put in order when they are listed: a turn in the same hour as
-- the one before leaves the index alone.
ALTER TABLE conversations ADD COLUMN hour INTEGER NOT NULL DEFAULT 0;

UPDATE conversations SET hour = last_activity / 3600000000;

DROP INDEX conversations_recent;

CREATE INDEX conversations_recent ON conversations (tenant, hour DESC);

-- Runs that go to the table together are one row of it, `runs`, as they are in the conversation's own row.
CREATE TABLE rows_of_places (
    conversation INTEGER NOT NULL,
    idx          INTEGER NOT NULL,
    runs         TEXT    NOT NULL,
    PRIMARY KEY (conversation, idx)
) STRICT, WITHOUT ROWID;

INSERT INTO rows_of_places
SELECT conversation, min(idx), json_group_array(json_array(idx, seq, count) ORDER BY idx)
FROM (SELECT *, (row_number() OVER (PARTITION BY conversation ORDER BY idx) - 1) / 16 AS part FROM places)
GROUP BY conversation, part;

DROP TABLE places;

ALTER TABLE rows_of_places RENAME TO places;
