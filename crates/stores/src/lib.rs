//! Implementations of the `Store` port of `treering-core`. Each lives in its own folder and
//! passes the contract suite of the test kit. None exposes its storage engine through the port.

mod codes;
pub mod embedded;
mod planning;
#[cfg(feature = "postgres")]
pub mod postgres;
mod row_codec;

pub use embedded::{BackupContents, EmbeddedStore, IndexFolder, Sync};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresOptions, PostgresStore};
