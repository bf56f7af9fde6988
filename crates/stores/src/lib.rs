//! Implementations of the `Store` port of `treering-core`. Each lives in its own folder and
//! passes the contract suite of the test kit. None exposes its storage engine through the port.

mod codes;
mod copy;
pub mod embedded;
#[cfg(feature = "neo4j")]
pub mod neo4j;
mod planning;
#[cfg(feature = "postgres")]
pub mod postgres;
mod row_codec;

pub use copy::{CopyReport, copy, move_tenant};
pub use embedded::{BackupContents, EmbeddedStore, IndexFolder, Sync};
#[cfg(feature = "neo4j")]
pub use neo4j::{Neo4jAddress, Neo4jCredentials, Neo4jStore};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
