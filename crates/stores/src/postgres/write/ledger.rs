//! Writes the ledger: the cost of calls to models, and the requests to each provider.

use treering_core::spend::{Charge, day_of};

use super::CommitWriter;
use crate::postgres::connection::SqlQuery;
use crate::postgres::value::values;

/// How long requests are kept, in microseconds: longer than the period of any quota.
const REQUESTS_KEPT: i64 = 120_000_000;

impl CommitWriter {
    pub(super) fn add_spend(&mut self, charge: &Charge) {
        let sql = "INSERT INTO spend AS s (tenant, day, conversation, model, calls, tokens_in, tokens_out, nanodollars, unpriced)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
            ON CONFLICT (tenant, day, conversation, model) DO UPDATE SET calls = s.calls + $5,
                tokens_in = s.tokens_in + $6, tokens_out = s.tokens_out + $7, nanodollars = s.nanodollars + $8,
                unpriced = s.unpriced + $9";
        let Charge { at, conversation, model, spent } = charge;
        let conversation = conversation.as_ref().map_or(&[][..], |id| id.as_bytes());
        let values = values![
            day_of(*at),
            conversation,
            model.as_str(),
            spent.calls,
            spent.tokens_in,
            spent.tokens_out,
            spent.money.0,
            spent.unpriced,
        ];
        self.push(sql, values);
        self.add_request(charge);
    }

    /// Counts a call against its provider's quota, which all tenants share. A refund does not undo the request.
    fn add_request(&mut self, charge: &Charge) {
        let add = "INSERT INTO requests AS r (provider, at, calls, tokens) VALUES ($1, $2, $3, $4)
            ON CONFLICT (provider, at) DO UPDATE SET calls = r.calls + $3, tokens = r.tokens + $4";
        let (provider, at) = (charge.provider(), charge.at);
        let values = values![provider, at, charge.spent.calls.max(0), charge.spent.tokens()];
        self.queries.push(SqlQuery::new(add, values));
        let old = "DELETE FROM requests WHERE provider = $1 AND at < $2";
        let oldest = at.as_micros().saturating_sub(REQUESTS_KEPT);
        self.queries.push(SqlQuery::new(old, values![provider, oldest]));
    }
}
