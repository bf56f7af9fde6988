//! Asking for a summary: the summariser first, and its stand-in where that has nothing usable to say.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::result::Result;
use std::sync::{Mutex, PoisonError};

use treering_core::acceptance::{self, Fidelity};
use treering_core::brief::Brief;
use treering_core::facts::Facts;
use treering_core::node::Making;
use treering_core::{Job, NodeContent, ProviderError, Summarizer};

use crate::material::Material;
use crate::memory::Memory;
use crate::purse::Purse;

/// A summary, how true it is, who wrote it, and what the log should say about that.
pub(crate) struct Written {
    pub(crate) content: NodeContent,
    pub(crate) fidelity: Fidelity,
    pub(crate) by: String,
    pub(crate) note: String,
}

/// What the summariser wrote, if it is usable. Where it is not, where a cap does not let it be asked, and where it
/// fails for the last time, what its stand-in quotes, which needs no acceptance: it invents nothing.
///
/// Stand-ins take turns. They work on this machine, and many are wanted at once when a provider fails; those who
/// talk meanwhile are not to be held up by that.
pub(crate) fn summarise(
    memory: &Memory,
    job: &Job,
    material: &Material,
    turn: &Mutex<()>,
) -> Result<Written, ProviderError> {
    let (summarizer, retry) = (memory.summarizer(), memory.work().retry);
    let purse = memory.purse(Some(job.conversation));
    let ask = || guarded(summarizer, &material.brief, &purse);
    let why = match memory.asking(summarizer.name(), ask) {
        Ok(content) => match acceptance::accept(&content, material.brief.facts(), material.source.chars) {
            Ok(fidelity) => {
                let (by, note) = (summarizer.name().to_owned(), purse.note());
                return Ok(Written { content, fidelity, by, note });
            }
            Err(unusable) => ProviderError::passing(unusable.to_string()),
        },
        Err(error) if job.ends_with(&error, &retry) => error,
        Err(error) => {
            let reason = format!("{}{}", error.reason, purse.note());
            return Err(ProviderError { reason, ..error });
        }
    };
    let Some(stand_in) = memory.stand_in() else { return Err(why) };
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let content = guarded(stand_in, &material.brief, &purse)?;
    let fidelity = acceptance::fidelity(&Facts::of_content(&content), material.brief.facts());
    let by = Making::stand_in(stand_in.name(), summarizer.name());
    Ok(Written { content, fidelity, by, note: format!("; {why}{}", purse.note()) })
}

/// Asks a summariser. One that panics has failed, and harms nothing else.
fn guarded(summarizer: &dyn Summarizer, brief: &Brief, purse: &Purse) -> Result<NodeContent, ProviderError> {
    let asked = catch_unwind(AssertUnwindSafe(|| summarizer.summarise_metered(brief, purse)));
    asked.unwrap_or_else(|_| {
        Err(ProviderError::lasting(format!("the summariser {:?} broke down", summarizer.name())))
    })
}
