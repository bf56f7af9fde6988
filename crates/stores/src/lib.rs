//! Stores behind the port of `treering-core`. Each lives in a folder of its own and passes the
//! contract suite of the test kit; none leaks its engine through the port.

pub mod embedded;

pub use embedded::{BackupContents, EmbeddedStore, Sync};
