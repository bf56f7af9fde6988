//! Shared test utilities. Development only: no crate depends on this one outside its tests.

pub mod clock;
pub mod contract;
#[cfg(unix)]
pub mod disk;
pub mod embedder;
pub mod fault_server;
pub mod flag;
pub mod generate;
pub mod parts;
pub mod summarizer;

pub use clock::FakeClock;
pub use embedder::BagOfWordsEmbedder;
pub use flag::SetOnDrop;
pub use summarizer::PrefixSummarizer;
