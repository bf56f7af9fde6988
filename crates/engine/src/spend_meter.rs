//! The purse: accounts the calls to models in the store, where every process sees them, and says when another has its
//! turn: caps and the quotas of providers hold for all processes together.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use treering_core::chat::Usage;
use treering_core::commit::{JobEvent, JobEventKind};
use treering_core::ports::{Reader, SpendFilter, StoreResult};
use treering_core::quota::{self, Quota};
use treering_core::redact::Redactions;
use treering_core::spend::{
    self, Account, CapReached, Caps, Charge, Prices, Reservation, SpendAmount,
};
use treering_core::{
    CommitScope, ContentHash, ConversationId, JobId, Meter, ProviderError, StoreError, Timestamp,
    Write,
};

use crate::engine::Engine;
use crate::error::{Error, Result};

/// What may be spent and asked for, and what things cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SpendLimits {
    /// The caps.
    pub caps: Caps,
    /// The prices.
    pub prices: Prices,
    /// How much may be asked of providers in a minute, by their names.
    pub quotas: BTreeMap<String, Quota>,
}

/// What was spent, and whether a cap is reached.
#[derive(Debug, Clone, PartialEq)]
pub struct SpendStatus {
    /// The account.
    pub account: Account,
    /// The cap that is reached.
    pub reached: Option<CapReached>,
}

impl Engine {
    /// The account for calls that are for a conversation, or for none.
    #[must_use]
    pub fn spend_meter(&self, conversation: Option<ConversationId>) -> SpendMeter {
        SpendMeter { memory: self.clone(), conversation, usage: Mutex::default() }
    }

    /// What was spent by the tenant, for a conversation and today, and whether a cap is reached.
    pub fn spend(&self, conversation: Option<ConversationId>) -> Result<SpendStatus> {
        let account = self.account(&*self.reader()?, conversation)?;
        Ok(SpendStatus { account, reached: spend::reached_cap(&self.spending().caps, &account) })
    }

    /// What each model has cost.
    pub fn spend_by_model(&self, filter: &SpendFilter) -> Result<Vec<(String, SpendAmount)>> {
        Ok(self.reader()?.ledger().spent(filter)?)
    }

    /// When a call has its turn, or why it may not be made: a cap is reached, or the quota of its provider used up.
    fn next_call_slot(
        &self,
        reader: &dyn Reader,
        charge: &Charge,
    ) -> StoreResult<std::result::Result<Timestamp, ProviderError>> {
        let spending = self.spending();
        if spending.caps.are_set() {
            let account = self.account(reader, charge.conversation)?;
            if let Some(reached) = spend::reached_cap(&spending.caps, &account) {
                return Ok(Err(reached.to_error()));
            }
        }
        let provider = charge.provider();
        let Some(quota) = spending.quotas.get(provider) else { return Ok(Ok(charge.at)) };
        let taken = reader.ledger().requests_since(provider, quota::matters_since(charge.at))?;
        let turn = quota::next_slot(*quota, &taken, charge.spent.tokens(), charge.at);
        Ok(turn.map_err(|error| ProviderError {
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

/// Pays for the calls that one piece of work makes, and knows what they came to.
pub struct SpendMeter {
    memory: Engine,
    conversation: Option<ConversationId>,
    usage: Mutex<(SpendAmount, Redactions)>,
}

impl SpendMeter {
    /// What the log says about the calls that were made; nothing where there was none.
    #[must_use]
    pub fn note(&self) -> String {
        let (spent, redacted) = &*self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = if spent.calls == 0 { String::new() } else { format!("; {spent}") };
        match redacted.is_empty() {
            true => calls,
            false => format!("{calls}; redacted before it left: {redacted}"),
        }
    }

    /// Logs that a model was asked, where it was, what that took, and what was taken out before it left.
    pub(crate) fn log(&self, asked: &str) -> Result<()> {
        let (note, now, conversation) = (self.note(), self.memory.clock().now(), self.conversation);
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
            text: format!("{asked}{note}"),
            took_ms: None,
        };
        let plan = Box::new(move |_: &dyn Reader| Ok(vec![Write::AddJobEvent(line.clone())]));
        Ok(self.memory.store().commit(self.memory.tenant_scope(), plan)?)
    }

    /// The same, but only where something was taken out: questions and the change of a model are no work that is logged.
    /// What cannot be logged holds nobody up.
    pub(crate) fn log_redactions(&self, asked: &str) {
        let took_out = !self.usage.lock().unwrap_or_else(PoisonError::into_inner).1.is_empty();
        if took_out {
            drop(self.log(asked));
        }
    }

    /// Calls to one provider are booked one after the other.
    fn scope(&self, charge: &Charge) -> CommitScope {
        CommitScope::Provider(self.memory.tenant().clone(), charge.provider().to_owned())
    }

    fn charge(&self, charge: Charge) -> Result<()> {
        let scope = self.scope(&charge);
        let plan = Box::new(move |_: &dyn Reader| Ok(vec![Write::AddSpend(charge.clone())]));
        Ok(self.memory.store().commit(scope, plan)?)
    }

    /// Books in one commit with the look at the account, so that of several at once each sees the others. Says when the
    /// call has its turn.
    fn reserve_slot(&self, charge: &Charge) -> std::result::Result<Timestamp, ProviderError> {
        let (memory, booked) = (self.memory.clone(), charge.clone());
        let decided = self.memory.commit_with(self.scope(charge), move |reader| {
            let turn = memory.next_call_slot(reader, &booked)?;
            let write = |at: &Timestamp| Write::AddSpend(Charge { at: *at, ..booked.clone() });
            let writes = turn.iter().map(write).collect();
            Ok((writes, turn))
        });
        let turn = match decided {
            // What can only be read is asked all the same; nothing can be written down.
            Err(Error::Store(StoreError::ReadOnly { .. })) => {
                let reader = self.memory.reader();
                reader
                    .and_then(|reader| self.memory.next_call_slot(&*reader, charge))
                    .map_err(Error::from)
            }
            other => other,
        };
        turn.unwrap_or_else(|error| {
            Err(ProviderError::transient(format!("the call could not be accounted: {error}")))
        })
    }
}

impl Meter for SpendMeter {
    /// Comes back when the call has its turn under the quota of its provider.
    fn reserve_usage(
        &self,
        model: &str,
        most: Usage,
    ) -> std::result::Result<Reservation, ProviderError> {
        let (spending, now) = (self.memory.spending(), self.memory.clock().now());
        let (conversation, spent) = (self.conversation, SpendAmount::default());
        let mut charge = Charge { at: now, conversation, model: model.to_owned(), spent };
        if spending.caps.are_set() || spending.quotas.contains_key(charge.provider()) {
            charge.spent = SpendAmount::of(most, spending.prices.find(model));
            charge.at = self.reserve_slot(&charge)?;
            thread::sleep(Duration::from_millis(quota::wait_ms(charge.at, now)));
        }
        Ok(Reservation(charge))
    }

    /// Where the store fails, what was booked stays: rather too much is accounted than too little.
    fn settle(&self, Reservation(booked): Reservation, took: Usage, redacted: &Redactions) {
        let spent = SpendAmount::of(took, self.memory.spending().prices.find(&booked.model));
        {
            let mut taken = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
            taken.0 += spent;
            taken.1.add(redacted);
        }
        let difference = spent - booked.spent;
        if difference != SpendAmount::default() {
            drop(self.charge(Charge { spent: difference, ..booked }));
        }
    }
}
