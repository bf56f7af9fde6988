//! Writes the ledger: the cost of calls to models, and the requests to each provider.

use treering_core::spend::{Charge, day_of};

use super::StatementBuilder;

/// How long requests are kept, in microseconds: longer than the period of any quota.
const REQUESTS_KEPT: i64 = 120_000_000;

impl StatementBuilder<'_> {
    pub(super) fn add_spend(&mut self, charge: &Charge) {
        let Charge { at, conversation, model, spent } = charge;
        let session = conversation.map(|id| id.to_string()).unwrap_or_default();
        let add = self
            .statement(
                "MERGE (s:TreeringSpend {tenant: $tenant, day: $day, sessionId: $session,
                    model: $model})
                SET s.calls = coalesce(s.calls, 0) + $calls,
                    s.tokensIn = coalesce(s.tokensIn, 0) + $in,
                    s.tokensOut = coalesce(s.tokensOut, 0) + $out,
                    s.nanodollars = coalesce(s.nanodollars, 0) + $money,
                    s.unpriced = coalesce(s.unpriced, 0) + $unpriced",
            )
            .with("day", day_of(*at))
            .with("session", session)
            .with("model", model)
            .with("calls", spent.calls)
            .with("in", spent.tokens_in)
            .with("out", spent.tokens_out)
            .with("money", spent.money.0)
            .with("unpriced", spent.unpriced);
        // All tenants share the requests, so the lock of the provider guards them. A refund does
        // not undo the request.
        let request = self
            .statement(
                "MERGE (p:TreeringProvider {name: $provider}) SET p:TreeringProvider
                WITH p MERGE (r:TreeringRequest {provider: $provider, at: $at})
                SET r.calls = coalesce(r.calls, 0) + $calls,
                    r.tokens = coalesce(r.tokens, 0) + $tokens
                WITH p MATCH (old:TreeringRequest) WHERE old.provider = $provider AND old.at < $old
                DELETE old",
            )
            .with("provider", charge.provider())
            .with("at", *at)
            .with("calls", spent.calls.max(0))
            .with("tokens", spent.tokens())
            .with("old", at.plus_micros(-REQUESTS_KEPT));
        self.statements.extend([add, request]);
    }
}
