//! The engine: what happens around a conversation, behind one façade.
//!
//! [`Memory`] is the whole library. It joins the ports of `treering-core` to its decisions; it
//! builds no adapter itself, and every write goes through one commit of the store.

mod clock;
mod cwd;
mod error;
mod ingest;
mod memory;
mod record;
mod verify;

pub use clock::SystemClock;
pub use cwd::normalise_cwd;
pub use error::{Error, Result};
pub use ingest::{Appended, Incoming, Matching, NewConversation, Target};
pub use memory::{Memory, Session, Stats, Step, WholeTurn};
pub use record::Recorded;
pub use verify::{Problem, Verification};
