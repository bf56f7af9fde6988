//! Pauses of live capture. What is said during a pause is not captured, even if a transcript that
//! contains it is read later.

use std::collections::HashSet;

use crate::entry::{Entry, EntryKind};
use crate::ids::ExternalId;
use crate::time::Timestamp;

/// A period without capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// The start, inclusive.
    pub from: Timestamp,
    /// The end, exclusive; `None` until capture is resumed.
    pub until: Option<Timestamp>,
}

impl Pause {
    /// Whether a time is in the pause.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// Removes entries from pauses, and results of removed calls.
#[must_use]
pub fn without_pauses(mut entries: Vec<Entry>, pauses: &[Pause]) -> Vec<Entry> {
    if pauses.is_empty() {
        return entries;
    }
    let is_paused = |at: Timestamp| pauses.iter().any(|pause| pause.contains(at));
    let mut calls: HashSet<ExternalId> = HashSet::new();
    entries.retain(|entry| match &entry.kind {
        EntryKind::Message(message) => !is_paused(message.at),
        EntryKind::ToolCall(call) => {
            let is_left_out = is_paused(call.at);
            calls.extend(call.external_id.clone().filter(|_| is_left_out));
            !is_left_out
        }
        EntryKind::ToolResult { call, at, .. } => !is_paused(*at) && !calls.contains(call),
        EntryKind::Fork { .. } | EntryKind::TurnEnd => true,
    });
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::message::{NewMessage, Role};
    use crate::tool::{NewToolCall, ToolResult};

    #[test]
    fn entries_of_a_pause_are_left_out_with_their_results() {
        let at = Timestamp::from_micros;
        let message =
            |time| Entry::from(EntryKind::Message(NewMessage::new(Role::User, "x", at(time))));
        let id = ExternalId::new("call").unwrap();
        let call = EntryKind::ToolCall(NewToolCall {
            name: "read".into(),
            args: Json::null(),
            outcome: None,
            at: at(19),
            external_id: Some(id.clone()),
        });
        let outcome = ToolResult { result: Json::null(), success: None, duration_ms: None };
        let result = EntryKind::ToolResult { call: id, outcome, at: at(25) };
        let all = vec![message(9), message(10), call.into(), message(20), result.into()];
        let pauses =
            [Pause { from: at(10), until: Some(at(20)) }, Pause { from: at(30), until: None }];
        let times = |entries: &[Entry]| entries.iter().map(Entry::at).collect::<Vec<_>>();
        let kept = without_pauses(all.clone(), &pauses);
        assert_eq!(times(&kept), [Some(at(9)), Some(at(20))]);
        assert_eq!(without_pauses(all.clone(), &[]), all);
        assert!(without_pauses(vec![message(30), message(99)], &pauses).is_empty());
    }
}
