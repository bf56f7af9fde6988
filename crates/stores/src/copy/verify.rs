//! Compares a tenant of two stores, item by item.

use treering_core::ports::{JobFilter, NodeFilter, Span, StoreResult};
use treering_core::{Conversation, Invalid, MessageIdx, Reader, Store, TenantId, TurnNo};

use super::{COPIED_TOMBSTONES, PAGE, for_each_conversation};

/// Fails with the first difference.
pub(super) fn compare(from: &dyn Store, to: &dyn Store, tenant: &TenantId) -> StoreResult<()> {
    let mut conversations = 0;
    for_each_conversation(&*from.reader(tenant)?, |it| {
        conversations += 1;
        // Readers are short-lived, so that a network store keeps no transaction open.
        compare_conversation(&*from.reader(tenant)?, &*to.reader(tenant)?, it)
    })?;
    let (source, target) = (from.reader(tenant)?, to.reader(tenant)?);
    let mut copied = 0;
    for_each_conversation(&*target, |_| {
        copied += 1;
        Ok(())
    })?;
    let subject = || format!("copy of tenant {tenant}");
    same(&conversations, &copied, subject, "the number of conversations")?;
    same(&source.totals()?, &target.totals()?, subject, "the totals")?;
    let sorted = |reader: &dyn Reader| -> StoreResult<_> {
        let mut hashes = reader.audit().tombstones()?.hashes;
        hashes.sort_unstable();
        Ok(hashes)
    };
    same(&sorted(&*source)?, &sorted(&*target)?, subject, "the tombstones")?;
    let records = |reader: &dyn Reader| -> StoreResult<_> {
        let mut records = reader.audit().records("", usize::MAX)?;
        records.retain(|record| record.id != COPIED_TOMBSTONES);
        Ok(records)
    };
    same(&records(&*source)?, &records(&*target)?, subject, "the audit")
}

fn compare_conversation(
    source: &dyn Reader,
    target: &dyn Reader,
    it: &Conversation,
) -> StoreResult<()> {
    let subject = || format!("copy of conversation {}", it.slug);
    same(&Some(it.clone()), &target.conversation(it.id)?, subject, "the conversation")?;
    let mut next = MessageIdx(0);
    loop {
        let span = Span::starting(next, PAGE);
        let messages = source.messages(it.id, span)?;
        same(&messages, &target.messages(it.id, span)?, subject, "the messages")?;
        let Some(last) = messages.last() else { break };
        next = MessageIdx(last.idx.0 + 1);
    }
    let all = Span::starting(MessageIdx(0), usize::MAX);
    let (a, b) = (source.versions(it.id, all)?, target.versions(it.id, all)?);
    same(&a, &b, subject, "the earlier versions of messages")?;
    let all = Span::starting(TurnNo(0), usize::MAX);
    let (a, b) = (source.tool_calls(it.id, all)?, target.tool_calls(it.id, all)?);
    same(&a, &b, subject, "the tool calls")?;
    let all = NodeFilter::default();
    same(&source.nodes(it.id, &all)?, &target.nodes(it.id, &all)?, subject, "the nodes")?;
    let all = JobFilter::of(it.id);
    same(&source.jobs(&all)?, &target.jobs(&all)?, subject, "the jobs")
}

fn same<T: PartialEq>(
    source: &T,
    target: &T,
    subject: impl Fn() -> String,
    what: &str,
) -> StoreResult<()> {
    if source == target {
        return Ok(());
    }
    let reason = format!(
        "{what} of the target differ from the source; make sure that nothing writes to either \
         store, and copy again to an empty store"
    );
    Err(Invalid::new(subject(), reason).into())
}
