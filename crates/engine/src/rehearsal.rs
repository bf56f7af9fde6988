//! The rehearsal of an update: runs its jobs, and those that follow from them, on an overlay of
//! the store. It plans with the code of a real run and writes nothing.

use std::sync::Mutex;

use treering_core::acceptance::Fidelity;
use treering_core::{
    Job, JobKind, JobState, Level, Node, NodeContent, NodeSpec, Policy, Provenance, SummaryLength,
    SummaryRequest, Timestamp, Write,
};

use crate::engine::Engine;
use crate::error::Result;
use crate::overlay::Overlay;
use crate::summarize::{WrittenSummary, summarize};
use crate::summary_input::{LongMessageCache, SummaryInput};
use crate::tree_planner::TreePlanner;
use crate::update::Estimate;

/// Rehearses the queued jobs of an overlay.
pub(crate) struct Rehearsal<'a> {
    pub(crate) engine: &'a Engine,
    /// The policy of the conversation, without the overrides of the update.
    pub(crate) policy: &'a Policy,
    pub(crate) now: Timestamp,
    /// Only jobs of this level run.
    pub(crate) only: Option<Level>,
    pub(crate) long: LongMessageCache,
}

impl Rehearsal<'_> {
    /// Runs every queued job and all that follow. A local summarizer writes the real summaries,
    /// so the result is exact. A remote one is not called: its summaries have the target length.
    pub(crate) fn run(&self, overlay: &mut Overlay<'_>) -> Result<Estimate> {
        let mut estimate =
            Estimate { exact: !self.engine.summarizer().is_remote(), ..Estimate::default() };
        loop {
            // As in a real run, a job waits for those of lower levels, although they do not run.
            let next = overlay.queue().find(|job| job.state != JobState::Dead);
            let Some(job) = next.filter(|job| self.runs(job)).cloned() else { break };
            let JobKind::Summarize(task) = &job.kind else { break };
            let mut writes = vec![Write::RemoveJob(job.clone())];
            if let Some((mut node, tokens_in)) = self.write(overlay, &job, task)? {
                estimate.count(task.level, tokens_in, u64::from(node.tokens));
                writes.extend(self.finish(overlay, &job, &mut node)?);
            }
            overlay.apply(writes);
        }
        Ok(estimate)
    }

    fn runs(&self, job: &Job) -> bool {
        self.only.is_none_or(|level| job.kind.height() == level.number())
    }

    /// The node of a job and its input tokens; `None` if its input no longer exists.
    fn write(
        &self,
        overlay: &Overlay<'_>,
        job: &Job,
        task: &NodeSpec,
    ) -> Result<Option<(Node, u64)>> {
        let key = self.engine.key(job.conversation);
        let Some(input) = SummaryInput::read(overlay, &key, task, &self.long)? else {
            return Ok(None);
        };
        let tokens_in = input.tokens();
        if self.engine.summarizer().is_remote() {
            let chars = kept_chars(&input.request);
            let overview = "x".repeat(chars);
            let content = NodeContent { overview, ..NodeContent::default() };
            let fidelity = Fidelity { grounded: 1.0, retained: 1.0, invented: Vec::new() };
            let by = self.engine.summarizer_name().to_owned();
            let provenance = Provenance { by, at: self.now, took_ms: 0 };
            let tokens = u32::try_from(chars / 4).unwrap_or(u32::MAX);
            return Ok(Some((
                input.into_node(task, content, tokens, fidelity, provenance),
                tokens_in,
            )));
        }
        let written = summarize(self.engine, job, &input, &Mutex::new(()));
        let Ok(WrittenSummary { content, fidelity, by, .. }) = written else { return Ok(None) };
        let tokens = self.engine.count_tokens(&content.overview);
        let provenance = Provenance { by, at: self.now, took_ms: 0 };
        Ok(Some((input.into_node(task, content, tokens, fidelity, provenance), tokens_in)))
    }

    /// A finished node and the writes that follow from it.
    fn finish(&self, overlay: &Overlay<'_>, job: &Job, node: &mut Node) -> Result<Vec<Write>> {
        let mut conversation = overlay.conversation.clone();
        let key = self.engine.key(conversation.id);
        let (policy, now) = (self.policy, self.now);
        let planner = TreePlanner { reader: overlay, key: &key, policy, overrides: &[], now };
        let mut writes = planner.plan_parent(&mut conversation, node)?;
        writes.push(Write::PutNode(job.conversation, Box::new(node.clone())));
        planner.plan_top_after(&mut conversation, job, Some(node), &mut writes)?;
        writes.push(Write::PutConversation(conversation));
        Ok(writes)
    }
}

/// Number of characters that a summary is expected to have.
pub(crate) fn kept_chars(request: &SummaryRequest) -> usize {
    const SENTENCE: u64 = 90;
    let sentences = match request.length {
        SummaryLength::Sentences(_, max_sentences) => u64::from(max_sentences),
        SummaryLength::Keep(_) | SummaryLength::Tokens(..) => 0,
    };
    let chars = request.target_chars();
    chars.unwrap_or_else(|| (sentences * SENTENCE).min(request.chars())) as usize
}
