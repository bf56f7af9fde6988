//! The hashes that node ids are made of: what a node covers and how it is written.

use crate::hash::ContentHash;
use crate::ids::{ConversationId, ThreadName};
use crate::node::{Coverage, Level, NodeContent, NodeId, Slice};
use crate::policy::SummaryStyle;
use crate::tool::ToolCall;

/// The hash of a window's content and summary style. A result that a tool call receives later
/// changes it.
#[must_use]
pub fn hash_of_window(
    conversation: ConversationId,
    thread: &ThreadName,
    slices: impl Iterator<Item = (ContentHash, Slice)>,
    calls: &[ToolCall],
    style: &SummaryStyle,
) -> ContentHash {
    let mut fields: Vec<Vec<u8>> = vec![
        b"window".to_vec(),
        conversation.as_bytes().to_vec(),
        thread.as_str().as_bytes().to_vec(),
    ];
    fields.push(style_key(style));
    for (hash, slice) in slices {
        // The position distinguishes identical messages.
        let numbers = [slice.idx.0, slice.from, slice.until].map(u32::to_le_bytes).concat();
        fields.push([hash.as_bytes().as_slice(), &numbers].concat());
    }
    for call in calls {
        let numbers = [call.turn.0, call.order].map(u32::to_le_bytes).concat();
        fields.extend([b"call".to_vec(), numbers]);
        fields.push(call.call.name.as_bytes().to_vec());
        fields.push(call.call.args.as_str().as_bytes().to_vec());
        if let Some(outcome) = &call.call.outcome {
            fields.push(outcome.result.as_str().as_bytes().to_vec());
            fields.push(outcome.success.map(u8::from).into_iter().collect());
        }
    }
    hash_of(&fields)
}

/// The hash of the children and the summary style of a group, of the top or of sessions.
#[must_use]
pub fn hash_of_nodes(
    conversation: ConversationId,
    level: Level,
    covers: &Coverage,
    style: &SummaryStyle,
) -> ContentHash {
    let kind: &[u8] = if let Coverage::Whole(_) = covers { b"whole" } else { b"group" };
    let mut fields: Vec<Vec<u8>> = vec![
        kind.to_vec(),
        conversation.as_bytes().to_vec(),
        vec![level.number()],
        style_key(style),
    ];
    fields.extend(covers.nodes().iter().map(|child| child.as_str().as_bytes().to_vec()));
    for session in covers.sessions() {
        let (id, content) = (session.conversation.as_bytes(), session.content.as_bytes());
        fields.push([id.as_slice(), content.as_slice()].concat());
    }
    hash_of(&fields)
}

/// The hash of a node whose content a caller wrote. `planned` is the id that the node would have
/// if a summarizer wrote it.
#[must_use]
pub fn hash_of_caller_node(planned: &NodeId, content: &NodeContent) -> ContentHash {
    let content = serde_json::to_vec(content).unwrap_or_default();
    ContentHash::of_fields(&[b"caller", planned.as_str().as_bytes(), &content])
}

pub(crate) fn style_key(style: &SummaryStyle) -> Vec<u8> {
    let SummaryStyle { strategy, length, deduplicate, overlap_chars, prompt } = style;
    format!("{strategy}/{length}/{deduplicate}/{overlap_chars}/{prompt}").into_bytes()
}

fn hash_of(fields: &[Vec<u8>]) -> ContentHash {
    ContentHash::of_fields(&fields.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
