//! The pure domain of Treering: types and decisions.
//!
//! Every function takes values and returns values; a decision returns a plan and its reason.
//! Nothing in this crate reads a clock, a file, the environment or the network, and nothing is
//! asynchronous. The `tidy` test in the test kit enforces this.
//!
//! The API has three parts:
//!
//! - The domain types are at the crate root: ids, messages, nodes, jobs, policies, errors.
//! - [`ports`] has the traits that adapters implement. The main ones are at the root too.
//! - A module is public if its names need its context, as in `excerpt::head`. Decisions:
//!   [`capture`], [`windowing`], [`grouping`], [`packing`], [`fusion`], [`acceptance`],
//!   [`quota`], [`spend`]. Text: [`text`], [`sentence`], [`lexicon`], [`excerpt`], [`facts`],
//!   [`embedding_text`], [`fence`].
//!   Language models: [`chat`], [`prompt`].

pub mod acceptance;
pub mod capture;
pub mod chat;
pub mod embedding_text;
pub mod excerpt;
pub mod facts;
pub mod fence;
pub mod fusion;
pub mod grouping;
pub mod lexicon;
pub mod packing;
pub mod ports;
pub mod prompt;
pub mod quota;
pub mod sentence;
pub mod spend;
pub mod text;
pub mod windowing;

mod audit;
mod commit;
mod conversation;
mod coverage;
mod entry;
mod error;
mod exclusion;
mod export;
mod folder;
mod forget;
mod gate;
mod hash;
mod ids;
mod job;
mod json;
mod label;
mod literals;
mod mask;
mod message;
mod new_turn;
mod node;
mod node_hash;
mod parameter_names;
mod parameters;
mod pause;
mod points;
mod policy;
mod policy_in_force;
mod private;
mod question;
mod receipt;
mod redact;
mod relative_dates;
mod retention;
mod slug;
mod summary_request;
mod supersession;
mod time;
mod time_expressions;
mod tool;
mod top;
mod tree_state;
mod update_trace;
mod vector_index;
mod word_weights;

pub use audit::{AuditRecord, AuditedConversation, AuditedNode, ErasedCounts};
pub use capture::EntryOutcome;
pub use commit::{EmbeddedItem, JobEvent, JobEventKind, Write};
pub use conversation::{
    Conversation, ConversationKind, ConversationState, ConversationTotals, Fork, NewConversation,
    Thread, TitleSource, pin_label,
};
pub use entry::{Entry, EntryKind, ForkPoint};
pub use error::{FailedCall, Invalid, ProviderError, RetryAdvice, StoreError};
pub use exclusion::CaptureExclusions;
pub use export::ExportItem;
pub use folder::{is_at_or_below, paths_below};
pub use forget::{
    ForgetTarget, ItemSelection, NodePlace, OVERLAP_LOOK_BACK, RemovedNode, Tombstone,
    TombstoneSet, nodes_to_regenerate,
};
pub use gate::{GateOperation, GateStatus};
pub use hash::ContentHash;
pub use ids::{
    ConversationId, ConversationKey, ExternalId, MessageIdx, TenantId, ThreadName, TurnNo,
};
pub use job::{BatchSizes, Job, JobId, JobKind, JobState, LEASE_MS, RetryPolicy};
pub use json::Json;
pub use label::{Label, Labels, MAX_LABELS, SOURCE_LABEL};
pub use literals::{Literal, share_as_typed};
pub use message::{Correction, Message, MessageVersion, NewMessage, Role, Turn};
pub use new_turn::{MessageText, NewTurn};
pub use node::{
    Coverage, CoveredSession, Level, Node, NodeContent, NodeId, NodeSpec, NodeState, Provenance,
    SealCause, Slice, SourceTotals, TextPosition, ToolUse, Window,
};
pub use node_hash::{hash_of_caller_node, hash_of_nodes, hash_of_window};
pub use parameter_names::{parameter_aliases, snake_case};
pub use parameters::{Assignment, PARAMETERS, duration as parse_duration_ms};
pub use pause::{Pause, without_pauses};
pub use points::{Point, RankedLine};
pub use policy::{
    GroupPolicy, Policy, Preset, SealPolicy, SummaryLength, SummaryStyle, WindowPolicy,
};
pub use policy_in_force::{ParameterInForce, ParameterOrigin, parameters_in_force};
pub use ports::{
    ChatModel, Clock, CommitScope, Embedder, Meter, Reader, Store, Summarizer, Tokenizer,
};
pub use private::{json_without_private, lines_without_private, without_private};
pub use question::{Question, QuestionTerm, is_question, is_standing_instruction};
pub use receipt::{GateOutcome, Receipt, ReceiptItem, ReceiptSession, ReusablePrefix};
pub use redact::{Redactions, redact};
pub use relative_dates::with_absolute_dates;
pub use retention::{RetentionRule, RetentionScope};
pub use slug::{as_slug, slug_of, suggest_slugs, title_of};
pub use summary_request::{
    MessagePassage, NodePassage, Passage, SessionInfo, Strategy, SummaryRequest, ToolPassage,
};
pub use supersession::{COMPARED, Statement, superseded};
pub use time::Timestamp;
pub use tool::{NewToolCall, ToolCall, ToolResult};
pub use top::{plan_top, sort_roots};
pub use tree_state::TreeState;
pub use update_trace::events_of_update;
pub use vector_index::{ContentVectors, IndexRebuild, VectorIndex};
pub use word_weights::{weighted_terms, word_weight};
