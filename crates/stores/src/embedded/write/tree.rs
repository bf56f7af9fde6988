//! Writes nodes.

use rusqlite::params;
use treering_core::{ConversationId, Level, Node};

use super::{Commit, Result, json_text};

impl Commit<'_> {
    pub(super) fn put_node(&mut self, id: ConversationId, node: &Node) -> Result<()> {
        let remove = "DELETE FROM nodes WHERE tenant = ?1 AND conversation = ?2 AND level = ?3 AND ordinal = ?4";
        let insert = "INSERT INTO nodes (tenant, seq, conversation, level, ordinal, id, parent, dirty, range_start,
                range_end, first_idx, until_idx, messages, turns, raw_chars, raw_tokens, source_chars, made_by, made_at,
                took_ms, chars, tokens, grounded, retained, task, content, invented, checksum)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21,
                ?22, ?23, ?24, ?25, ?26, ?27,
                checksum(?4, ?5, ?6, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24,
                    ?25, ?26, ?27))";
        let (conversation, seq, source) = (self.pk(id)?, self.next_seq(), &node.source);
        let (level, ordinal) = (node.level().number(), node.ordinal());
        self.execute(remove, params![self.tenant, conversation, level, ordinal])?;
        self.execute(
            insert,
            params![
                self.tenant,
                seq,
                conversation,
                level,
                ordinal,
                node.id.as_str(),
                node.parent,
                node.dirty,
                node.range_start.as_micros(),
                node.range_end.as_micros(),
                source.from,
                source.until,
                source.messages,
                source.turns,
                source.raw_chars as i64,
                source.raw_tokens as i64,
                source.chars as i64,
                node.provenance.by,
                node.provenance.at.as_micros(),
                node.provenance.took_ms as i64,
                node.chars,
                node.tokens,
                node.grounded,
                node.retained,
                json_text(&node.spec)?,
                json_text(&node.content)?,
                json_text(&node.invented)?,
            ],
        )?;
        Ok(())
    }

    pub(super) fn set_parent(
        &mut self,
        id: ConversationId,
        level: Level,
        ordinals: &[u32],
        parent: Option<u32>,
    ) -> Result<()> {
        let sql = "UPDATE nodes SET parent = ?5
            WHERE tenant = ?1 AND conversation = ?2 AND level = ?3 AND ordinal = ?4";
        let conversation = self.pk(id)?;
        for ordinal in ordinals {
            self.execute(sql, params![self.tenant, conversation, level.number(), ordinal, parent])?;
        }
        Ok(())
    }

    pub(super) fn mark_dirty(
        &mut self,
        id: ConversationId,
        level: Level,
        ordinals: &[u32],
    ) -> Result<()> {
        let sql = "UPDATE nodes SET dirty = 1
            WHERE tenant = ?1 AND conversation = ?2 AND level = ?3 AND ordinal = ?4";
        let conversation = self.pk(id)?;
        for ordinal in ordinals {
            self.execute(sql, params![self.tenant, conversation, level.number(), ordinal])?;
        }
        Ok(())
    }

    pub(super) fn drop_tree(&mut self, id: ConversationId, level: Level) -> Result<()> {
        let conversation = self.pk(id)?;
        let params = params![self.tenant, conversation, level.number()];
        for sql in [
            "DELETE FROM nodes WHERE tenant = ?1 AND conversation = ?2 AND level >= ?3",
            "DELETE FROM jobs WHERE tenant = ?1 AND conversation = ?2 AND height >= ?3",
            "UPDATE nodes SET parent = NULL WHERE tenant = ?1 AND conversation = ?2 AND level = ?3 - 1",
        ] {
            self.execute(sql, params)?;
        }
        Ok(())
    }
}
