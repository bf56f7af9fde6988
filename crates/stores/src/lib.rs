//! Implementations of the `Store` port of `treering-core`. Each lives in its own folder and
//! passes the contract suite of the test kit. None exposes its storage engine through the port.

pub mod embedded;

pub use embedded::{BackupContents, EmbeddedStore, IndexFolder, Sync};
