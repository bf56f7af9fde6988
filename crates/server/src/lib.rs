//! Treering as a service: a JSON API over HTTP, an MCP server, and the capture hooks of coding
//! agents.
//!
//! Each interface parses its own wire types and calls the same functions in [`service`].

pub mod access_tokens;
pub mod agents;
pub mod context_view;
pub mod http;
pub mod local_time;
pub mod mcp;
pub mod service;
pub mod views;
