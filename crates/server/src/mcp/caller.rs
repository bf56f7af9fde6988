//! The calling session. Some agents name it in the request; searches then exclude its captured
//! conversation.

use serde_json::Value;

/// The metadata that Codex adds to each call.
const CODEX: &str = "x-codex-turn-metadata";

/// The key of the session that a request comes from, if its metadata says so.
pub(super) fn session_of(meta: &serde_json::Map<String, Value>) -> Option<String> {
    let turn = meta.get(CODEX)?;
    let id = turn["thread_id"].as_str().or_else(|| turn["session_id"].as_str())?;
    Some(format!("codex:{id}"))
}

/// The key of the Claude Code session with this id.
#[must_use]
pub fn claude_code_session(id: &str) -> String {
    format!("claude-code:{id}")
}
