//! Reads the ledger: the cost of calls to models, and the recent requests to each provider.

use treering_core::Timestamp;
use treering_core::ports::{Ledger, SpendFilter, StoreResult};
use treering_core::quota::QuotaUsage;
use treering_core::spend::{Money, SpendAmount};

use super::GraphView;

impl Ledger for GraphView<'_> {
    fn spent(&self, filter: &SpendFilter) -> StoreResult<Vec<(String, SpendAmount)>> {
        let session = filter.conversation.map_or("", |_| "AND s.sessionId = $session");
        let day = filter.day.map_or("", |_| "AND s.day = $day");
        let statement = self.statement(format!(
            "MATCH (s:TreeringSpend) WHERE s.tenant = $tenant {session} {day}
            RETURN s.model AS model, sum(s.calls), sum(s.tokensIn), sum(s.tokensOut),
                sum(s.nanodollars), sum(s.unpriced) ORDER BY model"
        ));
        let statement = statement.with("session", filter.conversation).with("day", filter.day);
        self.query(statement, |row| {
            let model = row.take()?;
            let spent = SpendAmount {
                calls: row.take()?,
                tokens_in: row.take()?,
                tokens_out: row.take()?,
                money: Money(row.take()?),
                unpriced: row.take()?,
            };
            Ok((model, spent))
        })
    }

    fn requests_since(&self, provider: &str, since: Timestamp) -> StoreResult<Vec<QuotaUsage>> {
        let statement = self.statement(
            "MATCH (r:TreeringRequest) WHERE r.provider = $provider AND r.at >= $since
            RETURN r.at, r.calls, r.tokens ORDER BY r.at",
        );
        self.query(statement.with("provider", provider).with("since", since), |row| {
            Ok(QuotaUsage { at: row.take()?, calls: row.take()?, tokens: row.take()? })
        })
    }
}
