//! What programs see: the JSON of the command line's `--json`, of HTTP and of MCP, each declared once
//! here, made from what the engine answers. Nothing here decides or reads settings.

mod append;
mod conversation;
mod event;
mod search;
mod spend;
mod stats;
mod tree;
mod work;

pub use append::AppendedView;
pub use conversation::{ConversationPage, ConversationView, StepView, ThreadView, TurnView};
pub use event::EventView;
pub use event::{conversation_of, kind_of};
pub use search::{FoundView, HitView, SignalView};
pub use spend::{ModelView, SpendView, SpentView};
pub use stats::{
    ConversationStatsView, DOLLARS_PER_MILLION_TOKENS, LevelView, StatsView, StoreView,
    TreeStatsView,
};
pub use tree::{CoversView, ExpandView, LineView, NodeView, UpdateView};
pub use work::Slugs;
pub use work::{JobView, LogView, OperationView, StatusView};
