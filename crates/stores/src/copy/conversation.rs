//! Copies one conversation with its messages, tool calls, nodes and jobs.

use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{
    Conversation, ConversationId, Invalid, MessageIdx, Reader, StoreError, TurnNo, Write,
};

use super::{PAGE, TenantCopy};

impl TenantCopy<'_> {
    pub(super) fn conversation(&mut self, it: &Conversation) -> StoreResult<()> {
        let copied = self.target()?.conversation(it.id)?;
        match copied {
            None => self.commit_to(it, vec![Write::PutConversation(it.clone())])?,
            Some(copied) if copied == *it => {}
            Some(_) => return Err(changed(it)),
        }
        self.messages(it)?;
        self.tool_calls(it)?;
        self.tree(it)?;
        self.report.conversations += 1;
        Ok(())
    }

    /// Copies the messages from the first one that the target does not have, with their earlier
    /// versions in the same commit.
    fn messages(&mut self, it: &Conversation) -> StoreResult<()> {
        let mut next = first_missing_message(&*self.target()?, it.id)?;
        self.report.messages += u64::from(next.0);
        loop {
            let source = self.source()?;
            let messages = source.messages(it.id, Span::starting(next, PAGE))?;
            let Some(last) = messages.last() else { return Ok(()) };
            let end = MessageIdx(last.idx.0 + 1);
            let versions = source.versions(it.id, Span::between(next, end))?;
            drop(source);
            (next, self.report.messages) = (end, self.report.messages + messages.len() as u64);
            let writes = messages.into_iter().map(|message| Write::AddMessage(it.id, message));
            let versions = versions.chunk_by(|a, b| a.0 == b.0).map(|of_one| {
                let versions = of_one.iter().map(|(_, version)| version.clone()).collect();
                Write::AddVersions(it.id, of_one[0].0, versions)
            });
            self.commit_to(it, writes.chain(versions).collect())?;
        }
    }

    fn tool_calls(&mut self, it: &Conversation) -> StoreResult<()> {
        let all = Span::starting(TurnNo(0), usize::MAX);
        let mut calls = self.source()?.tool_calls(it.id, all)?;
        self.report.tool_calls += calls.len() as u64;
        let copied = self.target()?.tool_calls(it.id, all)?.len();
        // They are copied in order, so the target has the first of them.
        calls.drain(..copied.min(calls.len()));
        for page in calls.chunks(PAGE) {
            let writes = page.iter().map(|call| Write::AddToolCall(it.id, call.clone()));
            self.commit_to(it, writes.collect())?;
        }
        Ok(())
    }

    /// Copies nodes and jobs. Those that the target has stay as they are.
    fn tree(&mut self, it: &Conversation) -> StoreResult<()> {
        let nodes = self.source()?.nodes(it.id, &NodeFilter::default())?;
        self.report.nodes += nodes.len() as u64;
        let copied = self.target()?.nodes(it.id, &NodeFilter::default())?;
        let is_copied = |place| copied.iter().any(|node| (node.level(), node.ordinal()) == place);
        let missing = nodes.into_iter().filter(|node| !is_copied((node.level(), node.ordinal())));
        let writes: Vec<Write> =
            missing.map(|node| Write::PutNode(it.id, Box::new(node))).collect();
        for page in writes.chunks(PAGE) {
            self.commit_to(it, page.to_vec())?;
        }
        let jobs = self.source()?.jobs(&JobFilter::of(it.id))?;
        self.report.jobs += jobs.len() as u64;
        self.commit_to(it, jobs.into_iter().map(Write::AddJob).collect())
    }
}

/// The first position without a message. Positions have no gaps.
fn first_missing_message(reader: &dyn Reader, id: ConversationId) -> StoreResult<MessageIdx> {
    let has = |idx: u32| -> StoreResult<bool> {
        Ok(!reader.messages(id, Span::starting(MessageIdx(idx), 1))?.is_empty())
    };
    let mut end = 1;
    while has(end - 1)? {
        end = u32::saturating_mul(end, 2);
    }
    let (mut low, mut high) = (0, end - 1);
    while low < high {
        let middle = low.midpoint(high);
        if has(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(MessageIdx(low))
}

fn changed(it: &Conversation) -> StoreError {
    let reason = "the target has another state of it; copy to an empty store, or continue a copy \
        only while nothing else writes to either store";
    Invalid::new(format!("conversation {}", it.slug), reason).into()
}
