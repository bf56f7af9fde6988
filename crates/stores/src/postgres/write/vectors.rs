//! Writes vectors and the state of the vector index.

use treering_core::{ContentHash, VectorIndex};

use super::CommitWriter;
use crate::postgres::value::{blobs, values};

impl CommitWriter {
    pub(super) fn put_vectors(&mut self, model: &str, vectors: &[(ContentHash, Vec<f32>)]) {
        let sql = "INSERT INTO vectors (tenant, model, hash, seq, vector) VALUES ($1, $2, $3, seq($4), $5)
            ON CONFLICT (tenant, model, hash) DO NOTHING";
        for (hash, vector) in vectors {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            let number = self.number();
            self.push(sql, values![model, hash.as_bytes(), number, bytes]);
        }
    }

    pub(super) fn drop_vectors(&mut self, model: &str) {
        self.push("DELETE FROM vectors WHERE tenant = $1 AND model = $2", values![model]);
    }

    pub(super) fn remove_vectors(&mut self, model: &str, contents: &[ContentHash]) {
        let sql = "DELETE FROM vectors WHERE tenant = $1 AND model = $2 AND hash = ANY ($3)";
        let hashes = blobs(contents.iter().map(|hash| &hash.as_bytes()[..]));
        self.push(sql, values![model, hashes]);
    }

    pub(super) fn put_vector_index(&mut self, index: &VectorIndex) {
        let sql = "INSERT INTO vector_indexes (tenant, model, next_model, next_cursor) VALUES ($1, $2, $3, $4)
            ON CONFLICT (tenant) DO UPDATE SET model = $2, next_model = $3, next_cursor = $4";
        let next = index.next.as_ref();
        let done = next.map_or("", |next| next.done.as_str());
        let values = values![index.model.as_str(), next.map(|next| next.model.as_str()), done];
        self.push(sql, values);
    }
}
