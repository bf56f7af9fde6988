//! The spend meter: records model calls in the store, where every process sees them, and
//! schedules them. Caps and provider quotas therefore hold for all processes together.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use treering_core::chat::Usage;
use treering_core::ports::{SpendFilter, StoreResult};
use treering_core::quota::{self, Quota};
use treering_core::spend::{
    self, Account, CapReached, Caps, Charge, Prices, Reservation, SpendAmount,
};
use treering_core::{
    CommitScope, ContentHash, ConversationId, JobEvent, JobEventKind, JobId, Meter, ProviderError,
    Reader, Redactions, StoreError, Timestamp, Write,
};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// Spending limits, quotas and prices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpendLimits {
    /// The caps.
    pub caps: Caps,
    /// The prices.
    pub prices: Prices,
    /// The quota per minute of each provider, by name.
    pub quotas: BTreeMap<String, Quota>,
}

/// The amount spent, and whether a cap is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct SpendStatus {
    /// The account.
    pub account: Account,
    /// The cap that is reached.
    pub cap_reached: Option<CapReached>,
}

impl Engine {
    /// A meter for calls on behalf of a conversation, or of none.
    #[must_use]
    pub fn spend_meter(&self, conversation: Option<ConversationId>) -> SpendMeter {
        SpendMeter { engine: self.clone(), conversation, usage: Mutex::default() }
    }

    /// The amounts spent by the tenant, for a conversation and today, and whether a cap is
    /// reached.
    pub fn spend(&self, conversation: Option<ConversationId>) -> Result<SpendStatus> {
        let account = self.account(&*self.reader()?, conversation)?;
        Ok(SpendStatus {
            account,
            cap_reached: spend::reached_cap(&self.spending().caps, &account),
        })
    }

    /// The amount spent on each model.
    pub fn spend_by_model(&self, filter: &SpendFilter) -> Result<Vec<(String, SpendAmount)>> {
        Ok(self.reader()?.ledger().spent(filter)?)
    }

    /// The time at which a call may be made, or an error if a cap is reached or the provider's
    /// quota is exhausted.
    fn next_call_slot(
        &self,
        reader: &dyn Reader,
        charge: &Charge,
    ) -> StoreResult<std::result::Result<Timestamp, ProviderError>> {
        let spending = self.spending();
        if spending.caps.are_set() {
            let account = self.account(reader, charge.conversation)?;
            if let Some(cap_reached) = spend::reached_cap(&spending.caps, &account) {
                return Ok(Err(cap_reached.to_error()));
            }
        }
        let provider = charge.provider();
        let Some(quota) = spending.quotas.get(provider) else { return Ok(Ok(charge.at)) };
        let usage = reader.ledger().requests_since(provider, quota::period_start(charge.at))?;
        let slot = quota::next_slot(*quota, &usage, charge.spent.tokens(), charge.at);
        Ok(slot.map_err(|error| ProviderError {
            reason: format!("{provider}: {}", error.reason),
            ..error
        }))
    }

    fn account(
        &self,
        reader: &dyn Reader,
        conversation: Option<ConversationId>,
    ) -> StoreResult<Account> {
        let sum = |filter: SpendFilter| -> StoreResult<SpendAmount> {
            let spent = reader.ledger().spent(&filter)?;
            Ok(spent.into_iter().fold(SpendAmount::default(), |sum, (_, spent)| sum + spent))
        };
        let day = spend::day_of(self.clock().now());
        Ok(Account {
            tenant: sum(SpendFilter::default())?,
            conversation: match conversation {
                Some(_) => sum(SpendFilter { conversation, day: None })?,
                None => SpendAmount::default(),
            },
            day: sum(SpendFilter { conversation: None, day: Some(day) })?,
        })
    }
}

/// Records the calls of one piece of work and sums their usage.
pub struct SpendMeter {
    engine: Engine,
    conversation: Option<ConversationId>,
    usage: Mutex<(SpendAmount, Redactions)>,
}

impl SpendMeter {
    /// A note about the calls for the job event; empty if there was none.
    #[must_use]
    pub fn note(&self) -> String {
        let (spent, redacted) = &*self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = if spent.calls == 0 { String::new() } else { format!("; {spent}") };
        match redacted.is_empty() {
            true => calls,
            false => format!("{calls}; redacted before sending: {redacted}"),
        }
    }

    /// Records an event about the calls: their usage and the redactions. Does nothing without
    /// calls.
    pub(crate) fn log(&self, request_text: &str) -> Result<()> {
        let (note, now, conversation) = (self.note(), self.engine.clock().now(), self.conversation);
        if note.is_empty() {
            return Ok(());
        }
        let micros = now.as_micros().to_le_bytes();
        let of = conversation.as_ref().map_or(&[][..], |id| id.as_bytes());
        let line = JobEvent {
            at: now,
            conversation,
            job: JobId(ContentHash::of_fields(&[b"ask", of, &micros])),
            kind: JobEventKind::Ask,
            text: format!("{request_text}{note}"),
            took_ms: None,
        };
        let plan = Box::new(move |_: &dyn Reader| Ok(vec![Write::AddJobEvent(line.clone())]));
        Ok(self.engine.store().commit(self.engine.tenant_scope(), plan)?)
    }

    /// Like [`Self::log`], but only if something was redacted, since queries and reindexing are
    /// not logged otherwise. A failure to log is ignored.
    pub(crate) fn log_redactions(&self, request_text: &str) {
        let took_out = !self.usage.lock().unwrap_or_else(PoisonError::into_inner).1.is_empty();
        if took_out {
            drop(self.log(request_text));
        }
    }

    /// The commit scope, which serializes the records of calls to one provider.
    fn scope(&self, charge: &Charge) -> CommitScope {
        CommitScope::Provider(self.engine.tenant().clone(), charge.provider().to_owned())
    }

    fn charge(&self, charge: Charge) -> Result<()> {
        let scope = self.scope(&charge);
        let plan = Box::new(move |_: &dyn Reader| Ok(vec![Write::AddSpend(charge.clone())]));
        Ok(self.engine.store().commit(scope, plan)?)
    }

    /// Checks the account and reserves the amount in one commit, so that concurrent calls see
    /// each other. Returns the time at which the call may be made.
    fn reserve_slot(&self, charge: &Charge) -> std::result::Result<Timestamp, ProviderError> {
        let (engine, reserved) = (self.engine.clone(), charge.clone());
        let decided = self.engine.commit_with(self.scope(charge), move |reader| {
            let slot = engine.next_call_slot(reader, &reserved)?;
            let write = |at: &Timestamp| Write::AddSpend(Charge { at: *at, ..reserved.clone() });
            let writes = slot.iter().map(write).collect();
            Ok((writes, slot))
        });
        let slot = match decided {
            // A read-only store still allows calls, but cannot record them.
            Err(Error::Store(StoreError::ReadOnly { .. })) => {
                let reader = self.engine.reader();
                reader
                    .and_then(|reader| self.engine.next_call_slot(&*reader, charge))
                    .map_err(Error::from)
            }
            other => other,
        };
        slot.unwrap_or_else(|error| {
            Err(ProviderError::transient(format!(
                "the call could not be recorded in the ledger: {error}"
            )))
        })
    }
}

impl Meter for SpendMeter {
    /// Blocks until the provider's quota allows the call.
    fn reserve_usage(
        &self,
        model: &str,
        max_usage: Usage,
    ) -> std::result::Result<Reservation, ProviderError> {
        let (spending, now) = (self.engine.spending(), self.engine.clock().now());
        let (conversation, spent) = (self.conversation, SpendAmount::default());
        let mut charge = Charge { at: now, conversation, model: model.to_owned(), spent };
        if spending.caps.are_set() || spending.quotas.contains_key(charge.provider()) {
            charge.spent = SpendAmount::of(max_usage, spending.prices.find(model));
            charge.at = self.reserve_slot(&charge)?;
            thread::sleep(Duration::from_millis(quota::wait_ms(charge.at, now)));
        }
        Ok(Reservation(charge))
    }

    /// If the store fails, the reservation stays: the account may show too much, never too
    /// little.
    fn settle(&self, Reservation(reserved): Reservation, used: Usage, redacted: &Redactions) {
        let spent = SpendAmount::of(used, self.engine.spending().prices.find(&reserved.model));
        {
            let mut usage = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            usage.0 += spent;
            usage.1.add(redacted);
        }
        let difference = spent - reserved.spent;
        if difference != SpendAmount::default() {
            drop(self.charge(Charge { spent: difference, ..reserved }));
        }
    }
}
