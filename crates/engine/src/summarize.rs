//! Requests a summary from the summarizer, and from its fallback if the result is unusable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::result::Result;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use treering_core::acceptance::{self, Fidelity};
use treering_core::{
    ConversationId, Job, NodeContent, Provenance, ProviderError, Summarizer, SummaryRequest,
};

use crate::engine::Engine;
use crate::spend_meter::SpendMeter;
use crate::summary_input::SummaryInput;

/// A summary with its fidelity, its author and a note for the job event.
pub(crate) struct WrittenSummary {
    pub(crate) content: NodeContent,
    pub(crate) fidelity: Fidelity,
    pub(crate) by: String,
    pub(crate) note: String,
}

/// Returns the summarizer's output if it is usable. If it is not, if a cap forbids the call, or
/// if the last attempt fails, the fallback writes instead. The fallback only quotes, so its
/// output needs no acceptance check.
///
/// Fallbacks run one at a time: they use local CPU, and many are needed at once when a provider
/// fails. They must not slow down interactive requests.
pub(crate) fn summarize(
    engine: &Engine,
    job: &Job,
    material: &SummaryInput,
    turn: &Mutex<()>,
) -> Result<WrittenSummary, ProviderError> {
    let started = Instant::now();
    let written = summarize_or_fall_back(engine, job, material, turn)?;
    let level = material.request.level.number();
    engine.measure(|measures| {
        measures.summarize.entry(level).or_default().add(started.elapsed());
    });
    Ok(written)
}

fn summarize_or_fall_back(
    engine: &Engine,
    job: &Job,
    material: &SummaryInput,
    turn: &Mutex<()>,
) -> Result<WrittenSummary, ProviderError> {
    if material.request.passages.is_empty() {
        return Ok(empty_summary(engine));
    }
    let (conversation, retry) = (Some(job.conversation), engine.work().retry);
    let meter = engine.spend_meter(conversation);
    match attempt(engine, &material.request, material.source.chars, &meter) {
        Ok(written) => Ok(written),
        Err((error, false)) if !job.would_give_up(&error, &retry) => {
            let reason = format!("{}{}", error.reason, meter.note());
            Err(ProviderError { reason, ..error })
        }
        Err((error, _)) => fall_back(engine, &material.request, &meter, error, turn),
    }
}

/// The summary of messages that were all forgotten: nothing, without a call.
fn empty_summary(engine: &Engine) -> WrittenSummary {
    let fidelity = Fidelity { grounded: 1.0, retained: 1.0, invented: Vec::new() };
    let (by, note) =
        (engine.summarizer().name().to_owned(), "; all of it was forgotten".to_owned());
    WrittenSummary { content: NodeContent::default(), fidelity, by, note }
}

/// Writes a summary without a job, so that a failure is not retried later but uses the fallback.
pub(crate) fn summarize_now(
    engine: &Engine,
    conversation: Option<ConversationId>,
    request: &SummaryRequest,
    turn: &Mutex<()>,
) -> Result<WrittenSummary, ProviderError> {
    let meter = engine.spend_meter(conversation);
    attempt(engine, request, request.chars(), &meter)
        .or_else(|(error, _)| fall_back(engine, request, &meter, error, turn))
}

/// Calls the summarizer. The error says whether there was an answer, which is not usable.
fn attempt(
    engine: &Engine,
    request: &SummaryRequest,
    source_chars: u64,
    meter: &SpendMeter,
) -> Result<WrittenSummary, (ProviderError, bool)> {
    let summarizer = engine.summarizer();
    let ask = || guarded(summarizer, request, meter);
    let content =
        engine.with_circuit_breaker(summarizer.name(), ask).map_err(|error| (error, false))?;
    match acceptance::accept(&content, request.facts(), source_chars) {
        Ok(fidelity) => {
            let (by, note) = (summarizer.name().to_owned(), meter.note());
            Ok(WrittenSummary { content, fidelity, by, note })
        }
        Err(unusable) => Err((ProviderError::transient(unusable.to_string()), true)),
    }
}

fn fall_back(
    engine: &Engine,
    request: &SummaryRequest,
    meter: &SpendMeter,
    error: ProviderError,
    turn: &Mutex<()>,
) -> Result<WrittenSummary, ProviderError> {
    let Some(fallback) = engine.fallback() else { return Err(error) };
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let content = guarded(fallback, request, meter)?;
    let fidelity = acceptance::fidelity(&content, request.facts());
    let by = Provenance::fallback_label(fallback.name(), engine.summarizer().name());
    Ok(WrittenSummary { content, fidelity, by, note: format!("; {error}{}", meter.note()) })
}

/// Calls a summarizer. A panic counts as a failure and affects nothing else.
fn guarded(
    summarizer: &dyn Summarizer,
    request: &SummaryRequest,
    meter: &SpendMeter,
) -> Result<NodeContent, ProviderError> {
    let result = catch_unwind(AssertUnwindSafe(|| summarizer.summarize_metered(request, meter)));
    result.unwrap_or_else(|_| {
        Err(ProviderError::permanent(format!("the summarizer {:?} panicked", summarizer.name())))
    })
}
