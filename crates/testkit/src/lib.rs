//! What tests share. Development only: no crate depends on it outside its tests.

pub mod clock;
pub mod contract;
pub mod contract_follow;
pub mod contract_jobs;
pub mod contract_spend;
pub mod contract_tree;
pub mod contract_writers;
pub mod embedder;
pub mod fault_server;
pub mod generate;
pub mod parts;
pub mod summarizer;

pub use clock::FakeClock;
pub use embedder::Bags;
pub use summarizer::Heads;
