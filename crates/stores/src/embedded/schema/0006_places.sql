-- Where the messages of a conversation are: from `idx` on, `count` of them have the numbers of arrival from `seq` on. What
-- arrived together is one row; so is what arrived while nobody else wrote. The last runs of a conversation are in its own
-- row, which every turn writes anyway, as JSON: see places.rs. An index over the messages, which this replaces, would have
-- every turn write a page of it as well.

CREATE TABLE places (
    conversation INTEGER NOT NULL,
    idx          INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    count        INTEGER NOT NULL,
    PRIMARY KEY (conversation, idx)
) STRICT, WITHOUT ROWID;

-- Of two messages of a conversation the later one arrived later, so that those whose numbers keep their distance arrived one
-- after the other.
INSERT INTO places
SELECT conversation, min(idx), min(seq), count(*) FROM messages GROUP BY conversation, seq - idx;

DROP INDEX messages_idx;

ALTER TABLE conversations ADD COLUMN latest TEXT NOT NULL DEFAULT '[]';
