//! The pure domain of Treering: types and decisions.
//!
//! Every function takes values and returns values; a decision returns a plan and its reason.
//! Nothing in this crate reads a clock, a file, the environment or the network, and nothing is
//! asynchronous. The `tidy` test in the test kit enforces this.

pub mod acceptance;
pub mod capture;
pub mod chat;
pub mod commit;
pub mod conversation;
pub mod entry;
pub mod error;
pub mod excerpt;
pub mod export;
pub mod facts;
pub mod fusion;
pub mod gate;
pub mod grouping;
pub mod hash;
pub mod ids;
pub mod job;
pub mod json;
pub mod lexicon;
pub mod message;
mod new_turn;
pub mod node;
pub mod packing;
pub mod parameters;
pub mod policy;
pub mod ports;
pub mod prompt;
pub mod question;
pub mod quota;
pub mod receipt;
pub mod redact;
pub mod sentence;
pub mod slug;
pub mod spend;
pub mod summary_request;
pub mod text;
pub mod time;
pub mod time_expressions;
pub mod tool;
pub mod tree_state;
pub mod update_trace;
pub mod vector_index;
pub mod windowing;
pub mod word_weights;

pub use capture::{Entry, EntryKind, ForkPoint};
pub use commit::Write;
pub use conversation::{Conversation, ConversationState, NewConversation, Thread, TitleSource};
pub use error::{FailedCall, Invalid, ProviderError, RetryAdvice, StoreError};
pub use export::ExportItem;
pub use hash::ContentHash;
pub use ids::{
    ConversationId, ConversationKey, ExternalId, MessageIdx, TenantId, ThreadName, TurnNo,
};
pub use job::{Job, JobId, JobKind, JobState};
pub use json::Json;
pub use message::{Message, NewMessage, Role, Turn};
pub use new_turn::{MessageText, NewTurn};
pub use node::{Coverage, Level, Node, NodeContent, NodeId, NodeSpec};
pub use policy::{Policy, Preset};
pub use ports::{
    ChatModel, Clock, CommitScope, Embedder, Meter, Reader, Store, Summarizer, Tokenizer,
};
pub use time::Timestamp;
pub use tool::{NewToolCall, ToolCall, ToolResult};
