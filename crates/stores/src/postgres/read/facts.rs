//! The reads that nearly every plan of a commit begins with: the conversation, whether anything of the tenant was forgotten, and its vector index.
//! It is read in one flight with the versions that the commit verifies.

use tokio_postgres::Row;
use treering_core::{Conversation, ConversationId, TenantId, VectorIndex};

use super::conversations::{COLUMNS, conversation};
use super::feed::vector_index;
use super::{SeenVersions, decode};
use crate::postgres::connection::SqlQuery;
use crate::postgres::error::Outcome;
use crate::postgres::value::{Columns, values};

/// The state of a tenant and one of its conversations at one moment.
pub(super) struct PlanFacts {
    pub(super) versions: SeenVersions,
    pub(super) conversation: Option<Conversation>,
    pub(super) has_tombstones: bool,
    pub(super) vector_index: Option<VectorIndex>,
}

impl PlanFacts {
    /// The number of statements of [`Self::queries`].
    pub(super) const QUERIES: usize = 4;

    pub(super) fn queries(tenant: &TenantId, id: ConversationId) -> [SqlQuery; Self::QUERIES] {
        let row = format!("SELECT {COLUMNS} FROM conversations WHERE tenant = $1 AND id = $2");
        let tombstones = "SELECT EXISTS (SELECT FROM tombstones WHERE tenant = $1)";
        let index = "SELECT model, next_model, next_cursor FROM vector_indexes WHERE tenant = $1";
        [
            SeenVersions::query(tenant, id),
            SqlQuery::new(row, values![tenant.as_str(), id]),
            SqlQuery::new(tombstones, values![tenant.as_str()]),
            SqlQuery::new(index, values![tenant.as_str()]),
        ]
    }

    pub(super) fn of(mut rows: Vec<Vec<Row>>) -> Outcome<Self> {
        let index = decode(rows.pop(), vector_index)?.pop();
        let has_tombstones = decode(rows.pop(), |row| row.flag(0))?.pop().unwrap_or(false);
        let conversation = decode(rows.pop(), conversation)?.pop();
        let versions = SeenVersions::of(&rows)?;
        Ok(Self { versions, conversation, has_tombstones, vector_index: index })
    }
}
