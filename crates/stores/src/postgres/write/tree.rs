//! Writes nodes.

use treering_core::{ConversationId, Level, Node};

use super::{CommitWriter, json_text};
use crate::postgres::error::Outcome;
use crate::postgres::value::{integers, values};

const PUT_NODE: &str = "INSERT INTO nodes (tenant, conversation, level, ordinal, seq, id, parent, dirty, range_start, range_end,
        first_idx, until_idx, messages, turns, raw_chars, raw_tokens, source_chars, made_by, made_at, took_ms, chars, tokens,
        grounded, retained, spec, content, invented)
    VALUES ($1, $2, $3, $4, seq($5), $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
        $24, $25, $26, $27)
    ON CONFLICT (tenant, conversation, level, ordinal) DO UPDATE SET seq = excluded.seq, id = excluded.id,
        parent = excluded.parent, dirty = excluded.dirty, range_start = excluded.range_start, range_end = excluded.range_end,
        first_idx = excluded.first_idx, until_idx = excluded.until_idx, messages = excluded.messages, turns = excluded.turns,
        raw_chars = excluded.raw_chars, raw_tokens = excluded.raw_tokens, source_chars = excluded.source_chars,
        made_by = excluded.made_by, made_at = excluded.made_at, took_ms = excluded.took_ms, chars = excluded.chars,
        tokens = excluded.tokens, grounded = excluded.grounded, retained = excluded.retained, spec = excluded.spec,
        content = excluded.content, invented = excluded.invented";

impl CommitWriter {
    pub(super) fn put_node(&mut self, id: ConversationId, node: &Node) -> Outcome<()> {
        let (number, source) = (self.number(), &node.source);
        let values = values![
            node.level().number(),
            node.ordinal(),
            number,
            node.id.as_str(),
            node.parent,
            node.dirty,
            node.range_start,
            node.range_end,
            source.from,
            source.until,
            source.messages,
            source.turns,
            source.raw_chars,
            source.raw_tokens,
            source.chars,
            node.provenance.by.as_str(),
            node.provenance.at,
            node.provenance.took_ms,
            node.chars,
            node.tokens,
            f64::from(node.grounded),
            f64::from(node.retained),
            json_text(&node.spec)?,
            json_text(&node.content)?,
            json_text(&node.invented)?,
        ];
        self.push_for(id, PUT_NODE, values);
        Ok(())
    }

    pub(super) fn set_parent(
        &mut self,
        id: ConversationId,
        level: Level,
        ordinals: &[u32],
        parent: Option<u32>,
    ) {
        let sql = "UPDATE nodes SET parent = $5
            WHERE tenant = $1 AND conversation = $2 AND level = $3 AND ordinal = ANY ($4)";
        let ordinals = integers(ordinals.iter().copied());
        self.push_for(id, sql, values![level.number(), ordinals, parent]);
    }

    pub(super) fn mark_dirty(&mut self, id: ConversationId, level: Level, ordinals: &[u32]) {
        let sql = "UPDATE nodes SET dirty = true
            WHERE tenant = $1 AND conversation = $2 AND level = $3 AND ordinal = ANY ($4)";
        let ordinals = integers(ordinals.iter().copied());
        self.push_for(id, sql, values![level.number(), ordinals]);
    }

    pub(super) fn remove_nodes(&mut self, id: ConversationId, level: Level, ordinals: &[u32]) {
        let sql = "DELETE FROM nodes
            WHERE tenant = $1 AND conversation = $2 AND level = $3 AND ordinal = ANY ($4)";
        let ordinals = integers(ordinals.iter().copied());
        self.push_for(id, sql, values![level.number(), ordinals]);
    }

    pub(super) fn drop_tree(&mut self, id: ConversationId, level: Level) {
        for sql in [
            "DELETE FROM nodes WHERE tenant = $1 AND conversation = $2 AND level >= $3",
            "DELETE FROM jobs WHERE tenant = $1 AND conversation = $2 AND height >= $3",
            "UPDATE nodes SET parent = NULL WHERE tenant = $1 AND conversation = $2 AND level = $3::bigint - 1",
        ] {
            self.push_for(id, sql, values![level.number()]);
        }
    }
}
