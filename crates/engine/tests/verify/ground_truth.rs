//! Damage to ground truth, and to the counts derived from it.

use super::AfterRepair::{Clean, Only, Same};
use super::Damage;

pub(super) const TENANTS: &[Damage] = &[
    Damage {
        kind: "a tenant is missing: its conversation has no owner",
        plant: "INSERT INTO conversations (tenant, id, slug, naming, participants, started_at, \
                last_activity, state, messages, turns, tool_calls, chars, tokens, threads, policy, \
                growth, checksum) SELECT 99, id, slug, naming, participants, started_at, last_activity, \
                state, messages, turns, tool_calls, chars, tokens, threads, policy, growth, checksum FROM \
                conversations WHERE slug = 'quay'",
        expected: &["store: conversation quay belongs to no tenant"],
        after_repair: Same,
    },
    Damage {
        kind: "a name that no tenant can have",
        plant: "INSERT INTO tenants (name) VALUES ('No Such Name')",
        expected: &[
            "store: tenant \"No Such Name\": use 1 to 64 letters a-z, digits, '-', '_' or '.'",
            "store: cannot be read further: tenant \"No Such Name\": use 1 to 64 letters a-z, \
             digits, '-', '_' or '.'",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a counter that is behind",
        plant: "UPDATE tenants SET seq = 103 WHERE name = 'default'",
        expected: &[
            "store: conversation quay: log line 61 has sequence number 105, but the latest of its tenant \
             is 103",
        ],
        after_repair: Clean,
    },
];

/// Metadata from a person or a source cannot be rebuilt; counts, times and growth can.
pub(super) const CONVERSATIONS: &[Damage] = &[
    Damage {
        kind: "a changed title",
        plant: "UPDATE conversations SET title = 'x' WHERE slug = 'harbour'",
        expected: &["store: conversation harbour has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed slug",
        plant: "UPDATE conversations SET slug = 'y' WHERE slug = 'depot'",
        expected: &["store: conversation acme/y has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed folder",
        plant: "UPDATE conversations SET cwd = '/x' WHERE slug = 'harbour'",
        expected: &["store: conversation harbour has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed project",
        plant: "UPDATE conversations SET project_path = '/x' WHERE slug = 'harbour'",
        expected: &["store: conversation harbour has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed external id",
        plant: "UPDATE conversations SET external_id = 'x' WHERE slug = 'harbour'",
        expected: &["store: conversation harbour has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed state",
        plant: "UPDATE conversations SET state = 1 WHERE slug = 'harbour'",
        expected: &["store: conversation harbour has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed policy",
        plant: "UPDATE conversations SET policy = '[\"turns=3\"]' WHERE slug = 'quay'",
        expected: &["store: conversation quay has a corrupt record: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed label",
        plant: "INSERT INTO labels (tenant, conversation, name, value, checksum) SELECT tenant, pk, 'user', '42', \
                checksum FROM conversations WHERE slug = 'harbour'",
        expected: &["store: conversation harbour: label user is corrupt: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a label of no conversation",
        plant: "INSERT INTO labels (tenant, conversation, name, value, checksum) VALUES (1, 99, 'user', '42', x'00')",
        expected: &["store: label user belongs to no conversation of its tenant"],
        after_repair: Same,
    },
    Damage {
        kind: "a state that does not exist",
        plant: "UPDATE conversations SET state = 9 WHERE slug = 'depot'",
        expected: &[
            "store: conversation acme/depot has a corrupt record: its checksum differs",
            "store: tenant acme: cannot be read further: no such state",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "threads that cannot be read",
        plant: "UPDATE conversations SET threads = '{' WHERE slug = 'depot'",
        expected: &[
            "store: conversation acme/depot cannot be read: invalid type: map, expected a sequence at \
             line 1 column 0",
            "store: tenant acme: cannot be read further: invalid type: map, expected a sequence at line 1 \
             column 0",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "growth that cannot be read",
        plant: "UPDATE conversations SET growth = '{' WHERE slug = 'depot'",
        expected: &[
            "store: conversation acme/depot cannot be read: EOF while parsing an object \
             at line 1 column 1",
            "store: tenant acme: cannot be read further: EOF while parsing an object at \
             line 1 column 1",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "growth that is behind",
        plant: "UPDATE conversations SET growth = json_set(growth, '$[0]', 1) WHERE slug = 'depot'",
        expected: &["acme/depot: the tree covers 1 of 6 messages"],
        after_repair: Clean,
    },
    Damage {
        kind: "a count of messages that is too high",
        plant: "UPDATE conversations SET messages = messages + 1 WHERE slug = 'harbour'",
        expected: &[
            "harbour: the conversation records 15 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens",
            "harbour: the tree covers 14 of 15 messages",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a count of turns that is too low",
        plant: "UPDATE conversations SET turns = turns - 1 WHERE slug = 'depot'",
        expected: &[
            "acme/depot: the conversation records 6 messages, 2 turns, 3 tool calls, 411 chars, 120 tokens \
             but has 6 messages, 3 turns, 3 tool calls, 411 chars, 120 tokens",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a count of tool calls that is too low",
        plant: "UPDATE conversations SET tool_calls = 5 WHERE slug = 'harbour'",
        expected: &[
            "harbour: the conversation records 14 messages, 7 turns, 5 tool calls, 897 chars, 257 tokens but \
             has 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a count of tool calls that is too high: one may be lost",
        plant: "UPDATE conversations SET tool_calls = 7 WHERE slug = 'harbour'",
        expected: &[
            "harbour: the conversation records 14 messages, 7 turns, 7 tool calls, 897 chars, 257 tokens but \
             has 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "wrong sums",
        plant: "UPDATE conversations SET chars = 1, tokens = 1 WHERE slug = 'depot'",
        expected: &[
            "acme/depot: the conversation records 6 messages, 3 turns, 3 tool calls, 1 chars, 1 tokens but \
             has 6 messages, 3 turns, 3 tool calls, 411 chars, 120 tokens",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a wrong start",
        plant: "UPDATE conversations SET started_at = started_at - 60000000 WHERE slug = 'harbour'",
        expected: &[
            "harbour: the conversation records 2027-01-15T07:59:00Z to 2027-01-15T08:10:00Z \
             but lasted from 2027-01-15T08:00:00Z to 2027-01-15T08:10:00Z",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a wrong end",
        plant: "UPDATE conversations SET last_activity = last_activity + 60000000 WHERE slug = 'harbour'",
        expected: &[
            "harbour: the conversation records 2027-01-15T08:00:00Z to 2027-01-15T08:11:00Z \
             but lasted from 2027-01-15T08:00:00Z to 2027-01-15T08:10:00Z",
        ],
        after_repair: Clean,
    },
    Damage {
        kind: "a thread with another latest turn",
        plant: "UPDATE conversations SET threads = replace(threads, ',2,1,3,', ',2,0,3,') WHERE slug = \
                'harbour'",
        expected: &["harbour: thread \"main\" records a wrong latest turn"],
        after_repair: Clean,
    },
    Damage {
        kind: "a thread that forks from a message or thread that does not exist",
        plant: "UPDATE conversations SET threads = replace(threads, '\"main\",11', '\"gone\",11') WHERE \
                slug = 'harbour'",
        expected: &["harbour: thread \"idea\" forks from a message or thread that does not exist"],
        after_repair: Same,
    },
];

/// Ground truth: damage is reported and left as it is. Only missing vectors are rebuilt.
pub(super) const MESSAGES: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "UPDATE messages SET conversation = 99 WHERE external_id = 'harbour-ask-3'",
        expected: &[
            "store: message #6 belongs to no conversation of its tenant",
            "harbour: message #6 is missing",
            "harbour: the conversation records 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 13 messages, 7 turns, 6 tool calls, 824 chars, 239 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a gap",
        plant: "DELETE FROM messages WHERE external_id LIKE 'harbour-%-3'",
        expected: &[
            "harbour: messages #6 to #7 are missing",
            "harbour: the conversation records 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 12 messages, 7 turns, 6 tool calls, 756 chars, 217 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "the last one is lost",
        plant: "DELETE FROM messages WHERE conversation = 1 AND idx = 13",
        expected: &[
            "harbour: thread \"idea\" records a wrong latest turn",
            "harbour: the conversation records 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 13 messages, 7 turns, 6 tool calls, 872 chars, 247 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "changed text",
        plant: "UPDATE messages SET text = 'How deep is it?' WHERE external_id = 'harbour-ask-3'",
        expected: &[
            "harbour: message #6 was changed after it was stored: its hash differs",
            "harbour: message #6 records a wrong number of characters",
            "harbour: no vector and no job to embed turn 3",
        ],
        after_repair: Only(&[
            "harbour: message #6 was changed after it was stored: its hash differs",
            "harbour: message #6 records a wrong number of characters",
        ]),
    },
    Damage {
        kind: "a changed author",
        plant: "UPDATE messages SET author = 'x' WHERE external_id = 'harbour-ask-3'",
        expected: &[
            "store: conversation harbour: message #6 is corrupt: its checksum differs",
            "harbour: message #6 was changed after it was stored: its hash differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a changed external id",
        plant: "UPDATE messages SET external_id = 'x' WHERE external_id = 'harbour-ask-3'",
        expected: &["store: conversation harbour: message #6 is corrupt: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "a changed time",
        plant: "UPDATE messages SET at = at - 1 WHERE external_id = 'harbour-ask-3'",
        expected: &["store: conversation harbour: message #6 is corrupt: its checksum differs"],
        after_repair: Same,
    },
    Damage {
        kind: "parts that are not JSON",
        plant: "UPDATE messages SET parts = '{' WHERE external_id = 'harbour-ask-3'",
        expected: &[
            "store: conversation harbour: message #6 has parts that are not JSON",
            "harbour: cannot be read further: JSON \"{\": EOF while parsing an object at line 1 column 1",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a role that does not exist",
        plant: "UPDATE messages SET role = 9 WHERE external_id = 'depot-ask-1'",
        expected: &[
            "store: conversation acme/depot: message #2 is corrupt: its checksum differs",
            "acme/depot: cannot be read further: no such role",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a thread that does not exist",
        plant: "UPDATE messages SET thread = 7 WHERE external_id = 'depot-ask-1'",
        expected: &[
            "store: conversation acme/depot: message #2 is corrupt: its checksum differs",
            "acme/depot: cannot be read further: no such thread",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a duplicate external id, once the index is gone",
        plant: "DROP INDEX messages_external; UPDATE messages SET external_id = 'harbour-ask-2' WHERE \
                external_id = 'harbour-ask-3'",
        expected: &[
            "store: the index messages_external is missing",
            "store: conversation harbour: message #6 has the same external_id as another message",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a sequence number beyond the counter",
        plant: "UPDATE messages SET seq = 999 WHERE external_id = 'harbour-ask-3'",
        expected: &[
            "store: conversation harbour: message #6 has sequence number 999, but the latest of its \
             tenant is 105",
        ],
        after_repair: Clean,
    },
];

/// Ground truth: damage is reported and left as it is.
pub(super) const TOOL_CALLS: &[Damage] = &[
    Damage {
        kind: "an orphan",
        plant: "UPDATE tool_calls SET conversation = 99 WHERE external_id = 'harbour-call-3'",
        expected: &[
            "store: tool call 0 of turn 3 belongs to no conversation of its tenant",
            "harbour: the conversation records 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 14 messages, 7 turns, 5 tool calls, 897 chars, 257 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a gap",
        plant: "UPDATE tool_calls SET place = 1 WHERE external_id = 'harbour-call-3'",
        expected: &[
            "store: conversation harbour: tool call 1 of turn 3 is corrupt: its checksum differs",
            "harbour: turn 3 has no tool call 0",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "one is lost",
        plant: "DELETE FROM tool_calls WHERE external_id = 'harbour-call-3'",
        expected: &[
            "harbour: the conversation records 14 messages, 7 turns, 6 tool calls, 897 chars, 257 tokens but \
             has 14 messages, 7 turns, 5 tool calls, 897 chars, 257 tokens",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a changed name",
        plant: "UPDATE tool_calls SET name = 'x' WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 is corrupt: its checksum differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "changed arguments",
        plant: "UPDATE tool_calls SET args = '{}' WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 is corrupt: its checksum differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a changed result",
        plant: "UPDATE tool_calls SET result = '\"x\"' WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 is corrupt: its checksum differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "changed success",
        plant: "UPDATE tool_calls SET success = 0 WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 is corrupt: its checksum differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a changed external id",
        plant: "UPDATE tool_calls SET external_id = 'x' WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 is corrupt: its checksum differs",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "arguments that are not JSON",
        plant: "UPDATE tool_calls SET args = 'x' WHERE external_id = 'depot-call-1'",
        expected: &[
            "store: conversation acme/depot: tool call 0 of turn 1 is corrupt: its checksum differs",
            "acme/depot: cannot be read further: JSON \"x\": expected value at line 1 column 1",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a duplicate external id, once the index is gone",
        plant: "DROP INDEX tool_calls_external; UPDATE tool_calls SET external_id = 'quay-call-0' WHERE \
                external_id = 'quay-call-1'",
        expected: &[
            "store: the index tool_calls_external is missing",
            "store: conversation quay: tool call 0 of turn 1 has the same external_id as another tool call",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a sequence number of a message",
        plant: "UPDATE tool_calls SET seq = 1 WHERE external_id = 'quay-call-1'",
        expected: &[
            "store: conversation quay: tool call 0 of turn 1 has sequence number 1, which a message also \
             has",
        ],
        after_repair: Same,
    },
];

/// Charges cannot be derived from other data.
pub(super) const SPEND: &[Damage] = &[
    Damage {
        kind: "a conversation that does not exist",
        plant: "UPDATE spend SET conversation = zeroblob(16) WHERE length(conversation) > 0",
        expected: &[
            "store: tenant default: the cost of model openai/gpt-4o-mini on 2027-01-15 belongs to no \
             conversation of its tenant",
        ],
        after_repair: Same,
    },
    Damage {
        kind: "a tenant that does not exist",
        plant: "UPDATE spend SET tenant = 99 WHERE length(conversation) = 0",
        expected: &[
            "store: tenant 99: the cost of model openai/gpt-4o-mini on 2027-01-15 belongs to no tenant",
        ],
        after_repair: Same,
    },
];
