//! Reads the ledger: the cost of calls to models, and the recent requests to each provider.

use std::ops::Deref;

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use treering_core::Timestamp;
use treering_core::ports::{Ledger, SpendFilter, StoreResult};
use treering_core::quota::QuotaUsage;
use treering_core::spend::{Money, SpendAmount};

use super::{TenantView, timestamp};

impl<C: Deref<Target = Connection>> Ledger for TenantView<'_, C> {
    fn requests_since(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<QuotaUsage>> {
        let sql =
            "SELECT at, calls, tokens FROM requests WHERE provider = ?1 AND at >= ?2 ORDER BY at";
        self.query_all(sql, params![provider, since.as_micros()], |row| {
            Ok(QuotaUsage { at: timestamp(row, 0)?, calls: row.get(1)?, tokens: row.get(2)? })
        })
    }

    fn spent(&self, filter: &SpendFilter) -> StoreResult<Vec<(String, SpendAmount)>> {
        let mut sql =
            "SELECT model, sum(calls), sum(tokens_in), sum(tokens_out), sum(nanodollars), sum(unpriced)
            FROM spend WHERE tenant = ?"
                .to_owned();
        let mut params: Vec<Value> = vec![self.tenant.into()];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND conversation = ?");
            params.push(id.as_bytes().to_vec().into());
        }
        if let Some(day) = filter.day {
            sql.push_str(" AND day = ?");
            params.push(day.into());
        }
        sql.push_str(" GROUP BY model ORDER BY model");
        self.query_all(&sql, params_from_iter(params), |row| {
            let spent = SpendAmount {
                calls: row.get(1)?,
                tokens_in: row.get(2)?,
                tokens_out: row.get(3)?,
                money: Money(row.get(4)?),
                unpriced: row.get(5)?,
            };
            Ok((row.get(0)?, spent))
        })
    }
}
