//! Treering as a service: HTTP with JSON, MCP, and the hooks of agents.
//!
//! Every interface parses its own wire types and calls the same functions of [`service`].

pub mod access_tokens;
pub mod agents;
pub mod context_view;
pub mod http;
pub mod mcp;
pub mod private_file;
pub mod service;
pub mod views;
