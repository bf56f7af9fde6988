//! Writes the ledger: the cost of calls to models, and the requests to each provider.

use rusqlite::params;
use treering_core::spend::{Charge, day_of};

use super::{Commit, Result};

/// How long requests are kept, in microseconds: longer than the period of any quota.
const REQUESTS_KEPT: i64 = 120_000_000;

impl Commit<'_> {
    pub(super) fn add_spend(&mut self, charge: &Charge) -> Result<()> {
        let sql =
            "INSERT INTO spend (tenant, day, conversation, model, calls, tokens_in, tokens_out, nanodollars,
                unpriced)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
            ON CONFLICT (tenant, day, conversation, model) DO UPDATE SET calls = calls + ?5,
                tokens_in = tokens_in + ?6, tokens_out = tokens_out + ?7, nanodollars = nanodollars + ?8,
                unpriced = unpriced + ?9";
        let Charge { at, conversation, model, spent } = charge;
        let conversation = conversation.as_ref().map_or(&[][..], |id| id.as_bytes());
        self.execute(
            sql,
            params![
                self.tenant,
                day_of(*at),
                conversation,
                model,
                spent.calls,
                spent.tokens_in,
                spent.tokens_out,
                spent.money.0,
                spent.unpriced,
            ],
        )?;
        self.add_request(charge)
    }

    /// Counts a call against its provider's quota. A refund does not undo the request.
    fn add_request(&mut self, charge: &Charge) -> Result<()> {
        let add = "INSERT INTO requests (provider, at, calls, tokens) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (provider, at) DO UPDATE SET calls = calls + ?3, tokens = tokens + ?4";
        let (provider, at) = (charge.provider(), charge.at.as_micros());
        self.execute(add, params![provider, at, charge.spent.calls.max(0), charge.spent.tokens()])?;
        let old = "DELETE FROM requests WHERE provider = ?1 AND at < ?2";
        self.execute(old, params![provider, at.saturating_sub(REQUESTS_KEPT)])?;
        Ok(())
    }
}
