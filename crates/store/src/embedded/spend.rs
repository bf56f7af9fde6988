//! The account of what calls to models cost, and what the last minutes took of the quotas of providers.

use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};
use treering_core::ports::{SpendFilter, StoreResult};
use treering_core::quota::Taken;
use treering_core::spend::{Charge, Money, Spent, day_of};
use treering_core::{TenantId, Timestamp};

use super::read::{Access, View, moment};

/// How long it is known what a quota had to give, in microseconds.
const TAKEN_KEPT: i64 = 120_000_000;

pub(super) fn add(connection: &Connection, tenant: &TenantId, charge: &Charge) -> rusqlite::Result<()> {
    let sql = "INSERT INTO spend (tenant, day, conversation, model, calls, tokens_in, tokens_out, nanodollars, unpriced)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
        ON CONFLICT (tenant, day, conversation, model) DO UPDATE SET calls = calls + ?5,
            tokens_in = tokens_in + ?6, tokens_out = tokens_out + ?7, nanodollars = nanodollars + ?8,
            unpriced = unpriced + ?9";
    let Charge { at, conversation, model, spent } = charge;
    let conversation = conversation.as_ref().map_or(&[][..], |id| id.as_bytes());
    connection.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        day_of(*at),
        conversation,
        model,
        spent.calls,
        spent.tokens_in,
        spent.tokens_out,
        spent.money.0,
        spent.unpriced,
    ])?;
    add_taken(connection, charge)
}

/// Notes what a call takes of its provider's quota. A call that is taken back was made all the same.
fn add_taken(connection: &Connection, charge: &Charge) -> rusqlite::Result<()> {
    let sql = "INSERT INTO taken (provider, at, calls, tokens) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (provider, at) DO UPDATE SET calls = calls + ?3, tokens = tokens + ?4";
    let (provider, at) = (charge.provider(), charge.at.as_micros());
    let params = params![provider, at, charge.spent.calls.max(0), charge.spent.tokens()];
    connection.prepare_cached(sql)?.execute(params)?;
    let old = "DELETE FROM taken WHERE provider = ?1 AND at < ?2";
    connection.prepare_cached(old)?.execute(params![provider, at.saturating_sub(TAKEN_KEPT)])?;
    Ok(())
}

impl<C: Access> View<'_, C> {
    pub(super) fn read_taken(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<Taken>> {
        let sql = "SELECT at, calls, tokens FROM taken WHERE provider = ?1 AND at >= ?2 ORDER BY at";
        self.many(sql, params![provider, since.as_micros()], |row| {
            Ok(Taken { at: moment(row, 0)?, calls: row.get(1)?, tokens: row.get(2)? })
        })
    }

    pub(super) fn read_spent(
        &self,
        tenant: &TenantId,
        filter: &SpendFilter,
    ) -> StoreResult<Vec<(String, Spent)>> {
        let mut sql =
            "SELECT model, sum(calls), sum(tokens_in), sum(tokens_out), sum(nanodollars), sum(unpriced)
            FROM spend WHERE tenant = ?"
                .to_owned();
        let mut params: Vec<Value> = vec![tenant.as_str().to_owned().into()];
        if let Some(id) = filter.conversation {
            sql.push_str(" AND conversation = ?");
            params.push(id.as_bytes().to_vec().into());
        }
        if let Some(day) = filter.day {
            sql.push_str(" AND day = ?");
            params.push(day.into());
        }
        sql.push_str(" GROUP BY model ORDER BY model");
        self.many(&sql, params_from_iter(params), |row| {
            let spent = Spent {
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
