//! What tests share. Development only: no crate depends on it outside its tests.

pub mod clock;
pub mod contract;
pub mod contract_jobs;
pub mod contract_tree;
pub mod generate;
pub mod summarizer;

pub use clock::FakeClock;
pub use summarizer::Heads;
