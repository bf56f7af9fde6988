//! Writes vectors and the state of the vector index.

use treering_core::{ContentHash, ConversationId, EmbeddedItem, VectorIndex};

use super::StatementBuilder;
use crate::neo4j::bolt::BoltValue;
use crate::neo4j::read::sequence_number;
use crate::neo4j::values::map;

impl StatementBuilder<'_> {
    pub(super) fn put_vectors(&mut self, model: &str, vectors: &[(ContentHash, Vec<f32>)]) {
        let mut rows = Vec::new();
        for (hash, vector) in vectors {
            rows.push(map([
                ("hash", (*hash).into()),
                ("seq", self.next_seq().into()),
                ("vector", vector.clone().into()),
            ]));
        }
        let query = "UNWIND $rows AS row
            MERGE (v:TreeringVector {tenant: $tenant, model: $model, hash: row.hash})
            ON CREATE SET v.seq = row.seq, v.vector = row.vector";
        let statement = self.statement(query).with("model", model);
        self.statements.push(statement.with("rows", BoltValue::List(rows)));
    }

    /// The embedding of a turn or node is the stored vector of its text.
    pub(super) fn set_embeddings(
        &mut self,
        id: ConversationId,
        model: &str,
        items: &[(EmbeddedItem, ContentHash)],
    ) {
        let (mut turns, mut nodes) = (Vec::new(), Vec::new());
        for (item, hash) in items {
            let hash = ("hash", (*hash).into());
            match item {
                EmbeddedItem::Turn(turn) => turns.push(map([("turn", turn.0.into()), hash])),
                EmbeddedItem::Node(level, ordinal) => nodes.push(map([
                    ("level", level.number().into()),
                    ("ordinal", (*ordinal).into()),
                    hash,
                ])),
            }
        }
        let turn = "n:ConversationTurn {tenant: $tenant, sessionId: $session, turnIndex: row.turn}";
        let node = "n:ConversationSummary {tenant: $tenant, sessionId: $session,
            level: row.level, ordinal: row.ordinal}";
        for (pattern, rows) in [(turn, turns), (node, nodes)] {
            if rows.is_empty() {
                continue;
            }
            let query = format!(
                "UNWIND $rows AS row MATCH ({pattern})
                MATCH (v:TreeringVector {{tenant: $tenant, model: $model, hash: row.hash}})
                SET n.embedding = v.vector, n.embedding_hash = row.hash"
            );
            self.run(id, query, [("rows", BoltValue::List(rows)), ("model", model.into())]);
        }
    }

    pub(super) fn drop_vectors(&mut self, model: &str) {
        let query =
            "MATCH (v:TreeringVector) WHERE v.tenant = $tenant AND v.model = $model DELETE v";
        let statement = self.statement(query).with("model", model);
        self.statements.push(statement);
    }

    pub(super) fn remove_vectors(&mut self, model: &str, contents: &[ContentHash]) {
        let query = "UNWIND $hashes AS hash
            MATCH (v:TreeringVector {tenant: $tenant, model: $model, hash: hash}) DELETE v";
        let statement = self.statement(query).with("model", model);
        self.statements.push(statement.with("hashes", contents.to_vec()));
    }

    pub(super) fn put_vector_index(&mut self, index: &VectorIndex) {
        let next = index.next.as_ref();
        // Only this store returns the cursor of a rebuild.
        let done = next.and_then(|next| sequence_number(&next.done).ok());
        let query = "MATCH (x:TreeringTenant {name: $tenant})
            SET x.vectorModel = $model, x.nextVectorModel = $next, x.nextVectorSeq = $done";
        let statement = self.statement(query).with("model", &index.model);
        let statement = statement.with("next", next.map(|next| &next.model));
        self.statements.push(statement.with("done", done));
    }
}
