//! The items of an export.

use crate::conversation::{Conversation, Thread};
use crate::ids::ThreadName;
use crate::message::Message;
use crate::tool::ToolCall;

/// One item of an export.
#[derive(Debug, Clone, Copy)]
pub enum ExportItem<'a> {
    /// The start of a conversation; the items that follow belong to it.
    Conversation(&'a Conversation),
    /// A thread forks from another.
    Thread(&'a Thread),
    /// A message.
    Message(&'a Message),
    /// A tool call.
    ToolCall(&'a ToolCall),
    /// The latest turn of a thread ends, although its next item alone would continue it.
    TurnEnd(&'a ThreadName),
}
