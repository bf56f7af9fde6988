//! Reads the ledger: the cost of calls to models, and the recent requests to each provider.

use treering_core::Timestamp;
use treering_core::ports::{Ledger, SpendFilter, StoreResult};
use treering_core::quota::QuotaUsage;
use treering_core::spend::{Money, SpendAmount};

use super::TenantReader;
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::{Columns, values};

impl Ledger for TenantReader<'_> {
    fn requests_since(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<QuotaUsage>> {
        let sql =
            "SELECT at, calls, tokens FROM requests WHERE provider = $1 AND at >= $2 ORDER BY at";
        self.query_all(SqlQuery::new(sql, values![provider, since]), |row| {
            Ok(QuotaUsage { at: row.time(0)?, calls: row.long(1)?, tokens: row.long(2)? })
        })
    }

    fn spent(&self, filter: &SpendFilter) -> StoreResult<Vec<(String, SpendAmount)>> {
        let sql =
            "SELECT model, sum(calls)::bigint, sum(tokens_in)::bigint, sum(tokens_out)::bigint,
                sum(nanodollars)::bigint, sum(unpriced)::bigint
            FROM spend WHERE tenant = $1 AND ($2::bytea IS NULL OR conversation = $2)
                AND ($3::bigint IS NULL OR day = $3)
            GROUP BY model ORDER BY model";
        let query =
            SqlQuery::new(sql, values![self.tenant.as_str(), filter.conversation, filter.day]);
        self.query_all(query, |row| {
            let spent = SpendAmount {
                calls: row.long(1)?,
                tokens_in: row.long(2)?,
                tokens_out: row.long(3)?,
                money: Money(row.long(4)?),
                unpriced: row.long(5)?,
            };
            Ok((row.text(0)?, spent))
        })
    }
}
