//! Damage to derived data and to the tables themselves.

use super::AfterRepair::{Clean, Only, Same};
use super::Damage;

pub(super) const NODES: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "UPDATE nodes SET conversation = 99 WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "store: node l1-ed88be61ff12c92f-20270115 belongs to no conversation of its tenant",
            "harbour: level 1: node 1 has neither content nor a job",
            "harbour: level 2: group 0 covers 2 nodes and has 1",
            "harbour: messages #2–#3 of main are in no window",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a gap",
        plant: "DELETE FROM nodes WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "harbour: level 1: node 1 has neither content nor a job",
            "harbour: level 2: group 0 covers 2 nodes and has 1",
            "harbour: messages #2–#3 of main are in no window",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a group is missing",
        plant: "DELETE FROM nodes WHERE conversation = 1 AND level = 2 AND ordinal = 0",
        expected: &[
            "harbour: level 2: node 0 has neither content nor a job",
            "harbour: level 2: group 0 has children but was never planned",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "the children are gone",
        plant: "DELETE FROM nodes WHERE conversation = 1 AND level = 1 AND ordinal IN (2, 3)",
        expected: &[
            "harbour: level 1: 2 nodes have neither content nor a job, the first is 2",
            "harbour: level 2: group 1 covers 2 nodes and has 0",
            "harbour: messages #4–#7 of main are in no window",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a parent that does not exist",
        plant: "UPDATE nodes SET parent = 77 WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "harbour: level 2: group 77 has children but was never planned",
            "harbour: level 2: group 0 covers 2 nodes and has 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a parent that is no number",
        plant: "UPDATE nodes SET parent = -1 WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "store: conversation harbour: node l1-ed88be61ff12c92f-20270115 cannot be read: -1 is out of \
             range",
            "harbour: cannot be read further: -1 is out of range",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "one that was never sealed",
        plant: "INSERT INTO nodes SELECT NULL, tenant, 999, conversation, level, 55, 'copy', NULL, dirty, \
                range_start, range_end, first_idx, until_idx, messages, turns, raw_chars, raw_tokens, \
                source_chars, made_by, made_at, took_ms, chars, tokens, grounded, retained, checksum, \
                task, content, invented FROM nodes WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "store: conversation harbour: node copy is corrupt: its checksum differs",
            "store: conversation harbour: node copy has sequence number 999, but the latest of its tenant \
             is 105",
            "harbour: level 2: group 0 covers 2 nodes and has 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "dirty without a job",
        plant: "UPDATE nodes SET dirty = 1 WHERE conversation = 1 AND level = 2 AND ordinal = 0",
        expected: &["harbour: level 2: number 0 is dirty and has no job"],
        after_repair: Clean,
    },
    Damage {
        kind: "changed text",
        plant: "UPDATE nodes SET content = json_set(content, '$.overview', 'x') WHERE conversation = 1 \
                AND level = 1 AND ordinal = 1",
        expected: &[
            "store: conversation harbour: node l1-ed88be61ff12c92f-20270115 is corrupt: its checksum differs",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "changed decisions",
        plant: "UPDATE nodes SET content = json_set(content, '$.decisions', json_array('x')) WHERE \
                conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "store: conversation harbour: node l1-ed88be61ff12c92f-20270115 is corrupt: its checksum differs",
            "harbour: no vector and no job to embed node l1-ed88be61ff12c92f-20270115",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "content that cannot be read",
        plant: "UPDATE nodes SET content = 'x' WHERE conversation = 1 AND level = 1 AND ordinal = 1",
        expected: &[
            "store: conversation harbour: node l1-ed88be61ff12c92f-20270115 is corrupt: its checksum differs",
            "harbour: cannot be read further: expected value at line 1 column 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a changed time",
        plant: "UPDATE nodes SET range_end = range_end + 1 WHERE conversation = 1 AND level = 2 AND \
                ordinal = 0",
        expected: &[
            "store: conversation harbour: node l2-5179c5ea960489a6-20270115 is corrupt: its checksum differs",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "changed figures",
        plant: "UPDATE nodes SET grounded = 0.5, tokens = 1 WHERE conversation = 1 AND level = 2 AND \
                ordinal = 0",
        expected: &[
            "store: conversation harbour: node l2-5179c5ea960489a6-20270115 is corrupt: its checksum differs",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a sequence number of a message",
        plant: "UPDATE nodes SET seq = 1 WHERE conversation = 1 AND level = 2 AND ordinal = 0",
        expected: &[
            "store: conversation harbour: node l2-5179c5ea960489a6-20270115 has sequence number 1, which \
             a message also has",
        ],
        after_repair: Clean,
    },
];

pub(super) const JOBS: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures, \
                planned_at, work) SELECT tenant, 99, height, place, id, kind, state, moment, failures, \
                planned_at, work FROM jobs WHERE kind = 0 AND place = 0",
        expected: &["store: job 06c7242e3247 belongs to no conversation of its tenant"],
        after_repair: Clean,
    },
    Damage {
        kind: "all are gone",
        plant: "DELETE FROM jobs",
        expected: &[
            "quay: level 1: node 0 has neither content nor a job",
            "quay: messages #0–#3 of main are in no window",
            "quay: no vector and no job to embed turn 0",
            "quay: no vector and no job to embed turn 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "the same work twice",
        plant: "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures, \
                planned_at, work) SELECT tenant, conversation, height, place, zeroblob(16), kind, state, \
                moment, failures, planned_at, work FROM jobs WHERE kind = 0 AND place = 0",
        expected: &["quay: job 000000000000 does the same as job 06c7242e3247: embed turn 0"],
        after_repair: Clean,
    },
    Damage {
        kind: "a turn that does not exist",
        plant: "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures, \
                planned_at, work) SELECT tenant, conversation, height, 99, zeroblob(16), kind, state, \
                moment, failures, planned_at, '99' FROM jobs WHERE kind = 0 AND place = 0",
        expected: &["quay: job 000000000000 has nothing to work on: embed turn 99"],
        after_repair: Clean,
    },
    Damage {
        kind: "a node that does not exist",
        plant: "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures, \
                planned_at, work) SELECT tenant, conversation, height, 99, zeroblob(16), kind, state, \
                moment, failures, planned_at, '\"l1-gone\"' FROM jobs WHERE kind = 2",
        expected: &["harbour: job 000000000000 has nothing to work on: embed node l1-gone"],
        after_repair: Clean,
    },
    Damage {
        kind: "a window that was never sealed",
        plant: "INSERT INTO jobs (tenant, conversation, height, place, id, kind, state, moment, failures, \
                planned_at, work) SELECT tenant, conversation, height, 99, zeroblob(16), kind, state, \
                moment, failures, planned_at, json_set(work, '$.ordinal', 99) FROM jobs WHERE kind = 1",
        expected: &[
            "quay: job 000000000000 has nothing to work on: summarize messages #0–#3 of 2 turns (level 1)",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "another place than its work",
        plant: "UPDATE jobs SET place = 55 WHERE kind = 0 AND place = 0",
        expected: &[
            "store: conversation quay: job 06c7242e3247 cannot be read: its payload names another place than the job",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a kind that does not exist",
        plant: "UPDATE jobs SET kind = 9 WHERE kind = 0 AND place = 0",
        expected: &[
            "store: conversation quay: job 06c7242e3247 cannot be read: no such kind of job",
            "quay: cannot be read further: no such kind of job",
        ],
        after_repair: Clean,
    },
];

pub(super) const LOG: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "UPDATE log SET conversation = 99 WHERE pk = 3",
        expected: &["store: log line 3 belongs to no conversation of its tenant"],
        after_repair: Clean,
    },
    Damage {
        kind: "an event that does not exist",
        plant: "UPDATE log SET event = 42 WHERE pk = 3",
        expected: &["store: conversation harbour: log line 3 cannot be read: no such event"],
        after_repair: Clean,
    },
    Damage {
        kind: "a sequence number of a message",
        plant: "UPDATE log SET seq = 1 WHERE pk = 3",
        expected: &[
            "store: conversation harbour: log line 3 has sequence number 1, which a message also has",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a sequence number beyond the counter",
        plant: "UPDATE log SET seq = 999 WHERE pk = 3",
        expected: &[
            "store: conversation harbour: log line 3 has sequence number 999, but the latest of its \
             tenant is 105",
        ],
        after_repair: Clean,
    },
];

pub(super) const VECTORS: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "UPDATE vectors SET model = 99 WHERE pk = 4",
        expected: &[
            "store: tenant default: vector 99daf67c2898 belongs to no model of its tenant",
            "harbour: no vector and no job to embed turn 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "one is missing",
        plant: "DELETE FROM vectors WHERE pk = 4",
        expected: &["harbour: no vector and no job to embed turn 1"],
        after_repair: Clean,
    },
    Damage {
        kind: "a broken length",
        plant: "UPDATE vectors SET vector = zeroblob(3) WHERE pk = 4",
        expected: &[
            "store: tenant default: vector 99daf67c2898 of model bags cannot be read: its length is invalid",
            "harbour: cannot be read further: a vector of invalid length",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "another number of dimensions",
        plant: "UPDATE vectors SET vector = zeroblob(8) WHERE pk = 4",
        expected: &[
            "store: tenant default: vector 99daf67c2898 of model bags has a different number of dimensions than the others",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a sequence number of a message",
        plant: "UPDATE vectors SET seq = 1 WHERE pk = 4",
        expected: &[
            "store: tenant default: vector 99daf67c2898 of model bags has sequence number 1, which a \
             message also has",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a model that is neither in use nor the next one",
        plant: "INSERT INTO vector_models (tenant, model) VALUES (1, 'old'); INSERT INTO vectors (tenant, \
                seq, model, hash, vector) VALUES (1, 106, last_insert_rowid(), zeroblob(16), \
                zeroblob(8)); UPDATE tenants SET seq = 106 WHERE pk = 1",
        expected: &[
            "store: tenant default: model old has vectors but is neither the current model nor the next one",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a model without a tenant",
        plant: "INSERT INTO vector_models (tenant, model) VALUES (99, 'old')",
        expected: &["store: model old belongs to no tenant"],
        after_repair: Clean,
    },
    Damage {
        kind: "no word of which model is in use",
        plant: "DELETE FROM vector_indexes WHERE tenant = 1",
        expected: &[
            "store: tenant default: model bags has vectors but is neither the current model nor the next one",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "an index without a tenant",
        plant: "INSERT INTO vector_indexes VALUES (99, 'old', NULL, 0)",
        expected: &["store: the vector index belongs to no tenant"],
        after_repair: Clean,
    },
    Damage {
        kind: "an index that is further than the feed",
        plant: "UPDATE vector_indexes SET next_model = 'new', next_seq = 999 WHERE tenant = 2",
        expected: &[
            "store: tenant acme: the index of model new is recorded as built up to sequence number 999, but \
             the latest is 37",
        ],
        after_repair: Clean,
    },
];

/// Damaged constraints. If a constraint is missing, `verify` looks for the rows that it excluded.
pub(super) const TABLES: &[Damage] = &[
    Damage {
        kind: "an index is missing",
        plant: "DROP INDEX nodes_parent",
        expected: &["store: the index nodes_parent is missing"],
        after_repair: Clean,
    },
    Damage {
        kind: "a trigger of other hands",
        plant: "CREATE TRIGGER other AFTER INSERT ON messages BEGIN DELETE FROM messages; END",
        expected: &["store: the trigger other does not belong to this program"],
        after_repair: Same,
    },
    Damage {
        kind: "a table is missing",
        plant: "DROP TABLE spend",
        expected: &[
            "store: the index spend_conversation is missing",
            "store: the table spend is missing",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a table without its constraints, and a duplicate in it",
        plant: "CREATE TABLE copy AS SELECT * FROM jobs; INSERT INTO copy (pk, tenant, conversation, \
                height, place, id, kind, state, moment, failures, planned_at, work) SELECT 99, tenant, \
                conversation, height, place, id, kind, state, moment, failures, planned_at, work FROM \
                jobs WHERE kind = 2; DROP TABLE jobs; CREATE TABLE jobs (pk INTEGER PRIMARY KEY, tenant \
                INTEGER NOT NULL, conversation INTEGER NOT NULL, height INTEGER NOT NULL, place INTEGER \
                NOT NULL, id BLOB NOT NULL, kind INTEGER NOT NULL, state INTEGER NOT NULL, moment INTEGER \
                NOT NULL, failures INTEGER NOT NULL, planned_at INTEGER NOT NULL, worker TEXT, error \
                TEXT, work TEXT NOT NULL); INSERT INTO jobs (pk, tenant, conversation, height, place, id, \
                kind, state, moment, failures, planned_at, work) SELECT pk, tenant, conversation, \
                height, place, id, kind, state, moment, failures, planned_at, work FROM copy; DROP TABLE \
                copy; CREATE INDEX jobs_height ON jobs (tenant, height)",
        expected: &[
            "store: the table jobs differs from the one that this version creates",
            "store: conversation harbour: job afe722687fc6 has the same height, place, id as another job",
            "harbour: job afe722687fc6 does the same as job afe722687fc6: embed node \
             l1-36073f8504ec8a44-20270115",
        ],
        after_repair: Only(&[
            "store: the table jobs differs from the one that this version creates",
        ]),
    },
];
