//! Writes vectors and the state of the vector index.

use rusqlite::params;
use treering_core::{ContentHash, VectorIndex};

use super::{Commit, Result};
use crate::embedded::read::sequence_number;

impl Commit<'_> {
    pub(super) fn put_vectors(
        &mut self,
        model: &str,
        vectors: &[(ContentHash, Vec<f32>)],
    ) -> Result<()> {
        let add =
            "INSERT INTO vector_models (tenant, model) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        self.execute(add, params![self.tenant, model])?;
        let find = "SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2";
        let params = params![self.tenant, model];
        let pk: i64 = self.connection.prepare_cached(find)?.query_row(params, |row| row.get(0))?;
        let insert =
            "INSERT INTO vectors (tenant, seq, model, hash, vector) VALUES (?1, ?2, ?3, ?4, ?5)
            ON CONFLICT (tenant, model, hash) DO NOTHING";
        for (hash, vector) in vectors {
            let bytes: Vec<u8> = vector.iter().flat_map(|number| number.to_le_bytes()).collect();
            let seq = self.next_seq();
            self.execute(insert, params![self.tenant, seq, pk, hash.as_bytes(), bytes])?;
        }
        Ok(())
    }

    pub(super) fn drop_vectors(&mut self, model: &str) -> Result<()> {
        let which = "(SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2)";
        for sql in [
            &format!("DELETE FROM vectors WHERE tenant = ?1 AND model = {which}"),
            "DELETE FROM vector_models WHERE tenant = ?1 AND model = ?2",
        ] {
            self.execute(sql, params![self.tenant, model])?;
        }
        Ok(())
    }

    pub(super) fn remove_vectors(&mut self, model: &str, contents: &[ContentHash]) -> Result<()> {
        let sql = "DELETE FROM vectors WHERE tenant = ?1 AND hash = ?3
            AND model = (SELECT pk FROM vector_models WHERE tenant = ?1 AND model = ?2)";
        for hash in contents {
            self.execute(sql, params![self.tenant, model, hash.as_bytes()])?;
        }
        Ok(())
    }

    pub(super) fn put_vector_index(&mut self, index: &VectorIndex) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO vector_indexes (tenant, model, next_model, next_seq)
            VALUES (?1, ?2, ?3, ?4)";
        let next = index.next.as_ref();
        let done = next.map_or(Ok(0), |next| sequence_number(&next.done));
        let done =
            done.map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        self.execute(sql, params![self.tenant, index.model, next.map(|next| &next.model), done])?;
        Ok(())
    }
}
