//! The JSON views that the command line (`--json`), HTTP and MCP share. Built from engine
//! results; no decisions, no settings.

mod amend;
mod append;
mod conversation;
mod event;
mod forget;
mod note;
mod search;
mod spend;
mod stats;
mod summary;
mod tree;
mod work;

pub use amend::{AmendView, HistoryView, VersionView};
pub use append::AppendedView;
pub use conversation::{ConversationPage, ConversationView, StepView, ThreadView, TurnView};
pub use event::EventView;
pub use event::{conversation_of, kind_of};
pub use forget::{
    AllowedReturnView, AuditList, AuditRecordView, ErasedView, ForgetEffectView, ForgetSampleView,
    ForgetView, RewrittenNodeView,
};
pub use note::{NoteList, NoteView};
pub use search::{FoundView, HitView, SameTurnView, SignalView};
pub use spend::{ModelView, SpendView, SpentView};
pub use stats::{
    CompressionView, DOLLARS_PER_MILLION_TOKENS, DurationsView, LevelView, StatsView, StoreView,
    TimesView, TreeStatsView,
};
pub use summary::{ParameterView, PolicyView, ThreadList, TurnSummaryView};
pub use tree::{
    BranchView, CoversView, ExpandView, ExpandedNodeView, LineView, NodeView, TreePage, UpdateView,
    WindowView,
};
pub use work::Slugs;
pub use work::{JobView, LogView, OperationView, StatusView};
