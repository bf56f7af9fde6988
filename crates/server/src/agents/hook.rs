//! Converts the input of agent hooks to something that can be stored: a transcript for the
//! importers, or entries for `append`. Both carry the ids of their source, so that storing them
//! twice adds nothing.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use treering_core::ContentHash;

use super::CodingAgent;

/// The content captured by one hook call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookCapture {
    /// A complete transcript.
    Transcript {
        /// The format name, as in `treering import --format`.
        format: String,
        /// The path of the transcript file.
        name: PathBuf,
        /// The content of the file.
        text: String,
    },
    /// The body of a `POST /v1/append` request.
    Entries(Value),
}

impl HookCapture {
    /// A hash that identifies the capture. Later states of one transcript share it.
    #[must_use]
    pub fn identity(&self) -> ContentHash {
        match self {
            Self::Transcript { format, name, .. } => {
                ContentHash::of_fields(&[format.as_bytes(), name.as_os_str().as_encoded_bytes()])
            }
            Self::Entries(request) => ContentHash::of_fields(&[request.to_string().as_bytes()]),
        }
    }
}

/// Parses the input of a hook. Returns `None` if there is nothing to store.
pub fn capture(agent: CodingAgent, input: &str) -> Result<Option<HookCapture>, String> {
    let input: Value =
        serde_json::from_str(input).map_err(|error| format!("the input is not JSON: {error}"))?;
    match agent {
        CodingAgent::ClaudeCode | CodingAgent::Codex => transcript(agent, &input),
        CodingAgent::Cursor => Ok(cursor(&input)),
        CodingAgent::OpenCode => Ok(opencode(&input)),
        CodingAgent::ClaudeDesktop => Err("claude-desktop has no hooks".into()),
    }
}

/// The reply that the agent expects on stdout before it continues.
#[must_use]
pub fn reply(agent: CodingAgent, input: &str) -> Option<&'static str> {
    let input: Value = serde_json::from_str(input).ok()?;
    (agent == CodingAgent::Cursor && input["hook_event_name"] == "beforeSubmitPrompt")
        .then_some("{\"continue\":true}")
}

fn transcript(agent: CodingAgent, input: &Value) -> Result<Option<HookCapture>, String> {
    let Some(path) = input["transcript_path"].as_str() else { return Ok(None) };
    let path = Path::new(path);
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        // A session without messages has no transcript yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let name = path.to_path_buf();
    Ok(Some(HookCapture::Transcript { format: agent.to_string(), name, text }))
}

/// The mark that ends the latest turn.
fn turn_end() -> Value {
    json!({ "type": "turn_end" })
}

/// A prompt, an answer, a tool call, or the end of the turn.
fn cursor(input: &Value) -> Option<HookCapture> {
    let conversation = input["conversation_id"].as_str()?;
    let turn = input["generation_id"].as_str().unwrap_or_default();
    let entry = match input["tool_name"].as_str() {
        Some(name) => cursor_tool_call(name, turn, input),
        None if input["hook_event_name"] == "stop" => turn_end(),
        None => cursor_message(turn, input)?,
    };
    Some(HookCapture::Entries(json!({
        "key": format!("cursor/{conversation}"),
        "cwd": input["workspace_roots"][0].as_str(),
        "entries": [entry],
    })))
}

fn cursor_message(turn: &str, input: &Value) -> Option<Value> {
    let (role, text) = match (input["prompt"].as_str(), input["text"].as_str()) {
        (Some(prompt), _) => ("user", prompt),
        (None, Some(text)) => ("assistant", text),
        (None, None) => return None,
    };
    let text_hash = ContentHash::of_fields(&[text.as_bytes()]);
    let external_id = format!("cursor/{turn}/{role}/{text_hash}");
    Some(json!({ "type": "message", "role": role, "text": text, "external_id": external_id }))
}

fn cursor_tool_call(name: &str, turn: &str, input: &Value) -> Value {
    let result = if input["tool_output"].is_null() {
        &input["error_message"]
    } else {
        &input["tool_output"]
    };
    let id = input["tool_use_id"].as_str().map_or_else(
        || {
            ContentHash::of_fields(&[name.as_bytes(), input["tool_input"].to_string().as_bytes()])
                .to_string()
        },
        str::to_owned,
    );
    // Cursor reports fractional milliseconds.
    let duration_ms = input["duration"].as_f64().map(|duration| duration.round() as u64);
    json!({ "type": "tool_call", "name": name, "args": input["tool_input"], "result": result,
        "success": input["hook_event_name"] == "postToolUse", "duration_ms": duration_ms,
        "external_id": format!("cursor/{turn}/tool/{id}") })
}

/// The messages of a session with their parts, in the format of OpenCode 1 or OpenCode 2.
fn opencode(input: &Value) -> Option<HookCapture> {
    let session = &input["session"];
    let mut entries: Vec<Value> =
        input["messages"].as_array()?.iter().flat_map(opencode_entries).collect();
    // After a compaction the turn goes on.
    let is_answer = |last: &Value| last["role"] == "assistant";
    if input["ended"] == true && entries.last().is_some_and(is_answer) {
        entries.push(turn_end());
    }
    let key = format!("opencode/{}", session["id"].as_str()?);
    let folders = [&session["directory"], &session["location"]["directory"], &input["directory"]];
    let cwd = folders.into_iter().find_map(Value::as_str);
    let request =
        json!({ "key": key, "title": session["title"].as_str(), "cwd": cwd, "entries": entries });
    (!entries.is_empty()).then_some(HookCapture::Entries(request))
}

fn opencode_entries(message: &Value) -> Vec<Value> {
    // OpenCode 2 has no `info`, and its tool call ids are unique only within a message. Messages
    // of any other type have no speaker.
    let (info, role, parts, scope) = match &message["info"] {
        Value::Null => (message, &message["type"], &message["content"], message["id"].as_str()),
        info => (info, &info["role"], &message["parts"], None),
    };
    let Some(id) = info["id"].as_str() else { return Vec::new() };
    let Some(role) = role.as_str().filter(|role| ["user", "assistant"].contains(role)) else {
        return Vec::new();
    };
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    let at = info["time"]["created"]
        .as_f64()
        .and_then(|ms| Some(treering_core::Timestamp::from_seconds(ms / 1000.0)?.to_string()));
    let mut entries = Vec::new();
    for part in parts.iter().filter(|part| part["type"] == "tool" && is_over(&part["state"])) {
        let Some(part_id) = part["id"].as_str() else { continue };
        let name = if part["tool"].is_null() { &part["name"] } else { &part["tool"] };
        let scope = scope.map(|scope| format!("{scope}/")).unwrap_or_default();
        entries.push(json!({ "type": "tool_call", "name": name, "args": part["state"]["input"],
            "result": opencode_result(&part["state"]), "success": part["state"]["status"] == "completed", "at": at,
            "external_id": format!("opencode/{scope}{part_id}") }));
    }
    let text = message["text"].as_str().map_or_else(|| texts(parts), str::to_owned);
    if !text.is_empty() {
        entries.push(json!({ "type": "message", "role": role, "text": text, "at": at,
            "external_id": format!("opencode/{id}") }));
    }
    entries
}

fn opencode_result(state: &Value) -> Value {
    let (error, output) = (&state["error"], &state["output"]);
    match state["content"].as_array() {
        _ if error["message"].is_string() => error["message"].clone(),
        _ if !error.is_null() => error.clone(),
        Some(content) => texts(content).into(),
        None => output.clone(),
    }
}

/// Joins the text parts.
fn texts(parts: &[Value]) -> String {
    let texts =
        parts.iter().filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}

fn is_over(state: &Value) -> bool {
    state["status"] == "completed" || state["status"] == "error"
}
