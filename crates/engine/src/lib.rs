//! The engine: what happens around a conversation, behind one façade.
//!
//! [`Memory`] is the whole library. It joins the ports of `treering-core` to its decisions; it
//! builds no adapter itself, and every write goes through one commit of the store.

mod agent;
mod clock;
mod context;
mod cwd;
mod draw;
mod embed;
mod error;
mod export;
mod faults;
mod find;
mod gate;
mod grow;
mod ingest;
mod leases;
mod maintenance;
mod material;
mod memory;
mod news;
mod purse;
mod reindex;
mod repair;
mod rests;
mod search;
mod summarise;
mod tree;
mod update;
mod verify;
mod verify_tree;
mod worker;

pub use agent::{Agent, AgentSettings, Reply};
pub use clock::SystemClock;
pub use context::{Change, Context, ContextItem, ContextRequest, ContextSection};
pub use cwd::normalise_cwd;
pub use draw::Branch;
pub use error::{Error, Result};
pub use faults::Fault;
pub use gate::Passage;
pub use ingest::{Appended, Incoming, Matching, Target};
pub use memory::{Memory, Parts, SearchSettings, Session, Stats, Step, WholeTurn, WorkSettings};
pub use news::{FeedEnds, News};
pub use purse::{Purse, SpendSettings, SpendStatus};
pub use reindex::{Reindexed, Reindexing};
pub use repair::Repaired;
pub use search::{Answer, Found, Hit, Query, Snippet};
pub use tree::{TreeStats, TreeView};
pub use treering_core::NewConversation;
pub use update::{Estimate, Scale, Update, Updated};
pub use verify::{Problem, Verification};
pub use worker::{Ran, Scope, Worked, Worker, WorkerHandle};
