//! The engine: capture, background work, search and context assembly behind one façade.
//!
//! [`Engine`] is the whole library. It connects the ports of `treering-core` to its decisions. It
//! never builds an adapter, and every write goes through one commit of the store.

mod agent;
mod amend;
mod caller_summary;
mod cancellation;
mod circuit_breaker;
mod clock;
mod context;
mod cwd;
mod embed;
mod engine;
mod error;
mod events;
mod export;
mod find;
mod forget;
mod free_slug;
mod gate;
mod gate_log;
mod history;
mod ingest;
mod kill_points;
mod labels;
mod leases;
mod maintenance;
mod measures;
mod notes;
mod on_demand;
mod orphaned_vectors;
mod overlay;
mod pacing;
mod project;
mod recall;
mod regenerate;
mod rehearsal;
mod reindex;
mod repair;
mod search;
mod spend_meter;
mod summarize;
mod summary_input;
mod top;
mod tree;
mod tree_outline;
mod tree_planner;
mod turn_embedding;
mod update;
mod verify;
mod worker;

pub use agent::{Agent, AgentOptions, Reply};
pub use amend::{AmendReport, Amendment};
pub use caller_summary::{NewSummary, SummaryParents};
pub use cancellation::Cancellation;
pub use clock::SystemClock;
pub use context::{
    Context, ContextChange, ContextItem, ContextRequest, ContextScope, ContextSection,
    ScopeContextRequest,
};
pub use cwd::normalize_cwd;
pub use embed::EmbedTextOptions;
pub use engine::{Engine, EngineParts, ListedConversation, SearchOptions, Stats, WorkOptions};
pub use error::{Error, Result};
pub use events::{Event, FeedCursors};
pub use forget::{Forget, ForgetPreview, ForgetReport, ForgetSample};
pub use gate::GateWait;
pub use history::{TurnItem, WholeTurn};
pub use ingest::{AppendReport, AppendTarget, EntryBatch, ReplayDetection};
pub use kill_points::KillPoint;
pub use measures::{Durations, Measures};
pub use notes::{NewNote, Note, NoteChange};
pub use on_demand::TurnSummary;
pub use pacing::UpdateLimits;
pub use recall::RecallOptions;
pub use reindex::{ReindexProgress, ReindexReport};
pub use repair::RepairReport;
pub use search::{Exclusion, Hit, HitItem, Query, SearchOutcome, Snippet};
pub use spend_meter::{SpendLimits, SpendMeter, SpendStatus};
pub use tree::{TreeStats, TreeView};
pub use tree_outline::OutlineLine;
pub use treering_core::NewConversation;
pub use turn_embedding::TurnEmbedding;
pub use update::{Estimate, PlannedUpdate, Update, UpdateStrategy};
pub use verify::{IntegrityProblem, Verification};
pub use worker::{JobOutcome, JobScope, WorkStats, Worker, WorkerHandle};
