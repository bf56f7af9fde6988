//! Copies the cost of model calls, by day, conversation and model.

use treering_core::ports::{SpendFilter, StoreResult};
use treering_core::spend::{Charge, SpendAmount, day_of};
use treering_core::{ConversationId, Timestamp, Write};

use super::{TenantCopy, for_each_conversation};

const DAY_MICROS: i64 = 86_400_000_000;
/// How far from the conversations a call is looked for, in days.
const MAX_DAYS: i64 = 4000;

impl TenantCopy<'_> {
    /// Charges the target with the difference, so that a continued copy charges nothing twice.
    pub(super) fn spend(&mut self) -> StoreResult<()> {
        if self.source()?.ledger().spent(&SpendFilter::default())?.is_empty() {
            return Ok(());
        }
        let mut owners: Vec<ConversationId> = Vec::new();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        let source = self.source()?;
        for_each_conversation(&*source, |it| {
            (first, last) = (first.min(day_of(it.started_at)), last.max(day_of(it.last_activity)));
            let filter = SpendFilter { conversation: Some(it.id), day: None };
            if !source.ledger().spent(&filter)?.is_empty() {
                owners.push(it.id);
            }
            Ok(())
        })?;
        drop(source);
        // A call may be made long before or after the messages, so the days are searched from the
        // middle outwards until the sum is complete.
        let mut rest = self.source()?.ledger().spent(&SpendFilter::default())?;
        let middle = if first <= last { first.midpoint(last) } else { 0 };
        for distance in 0..=MAX_DAYS {
            let days = [middle - distance, middle + distance];
            for day in &days[usize::from(distance == 0)..] {
                if rest.iter().all(|(_, spent)| *spent == SpendAmount::default()) {
                    return Ok(());
                }
                subtract(&mut rest, &self.spend_of_day(*day, &owners)?);
            }
        }
        Ok(())
    }

    /// Copies what is missing of one day, and returns what the source spent on it.
    fn spend_of_day(
        &mut self,
        day: i64,
        owners: &[ConversationId],
    ) -> StoreResult<Vec<(String, SpendAmount)>> {
        let of_day = SpendFilter { conversation: None, day: Some(day) };
        let of_source = self.source()?.ledger().spent(&of_day)?;
        let mut rest = of_source.clone();
        let mut rest_of_target = self.target()?.ledger().spent(&of_day)?;
        if rest == rest_of_target {
            return Ok(of_source);
        }
        let mut writes = Vec::new();
        for id in owners {
            let filter = SpendFilter { conversation: Some(*id), day: Some(day) };
            let spent = self.source()?.ledger().spent(&filter)?;
            let copied = self.target()?.ledger().spent(&filter)?;
            subtract(&mut rest, &spent);
            subtract(&mut rest_of_target, &copied);
            writes.extend(charges(day, Some(*id), &spent, &copied));
        }
        writes.extend(charges(day, None, &rest, &rest_of_target));
        self.commit(writes)?;
        Ok(of_source)
    }
}

fn amount_of(spent: &[(String, SpendAmount)], model: &str) -> SpendAmount {
    spent.iter().find(|(name, _)| name == model).map(|(_, spent)| *spent).unwrap_or_default()
}

fn subtract(from: &mut [(String, SpendAmount)], spent: &[(String, SpendAmount)]) {
    for (model, rest) in from {
        *rest = *rest - amount_of(spent, model);
    }
}

/// The charges that are missing in the target.
fn charges(
    day: i64,
    conversation: Option<ConversationId>,
    spent: &[(String, SpendAmount)],
    copied: &[(String, SpendAmount)],
) -> Vec<Write> {
    let at = Timestamp::from_micros(day.saturating_mul(DAY_MICROS));
    let missing = spent.iter().map(|(model, spent)| (model, *spent - amount_of(copied, model)));
    missing
        .filter(|(_, spent)| *spent != SpendAmount::default())
        .map(|(model, spent)| {
            Write::AddSpend(Charge { at, conversation, model: model.clone(), spent })
        })
        .collect()
}
