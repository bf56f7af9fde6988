//! Converts the input of agent hooks to something that can be stored: transcripts for live
//! capture, or entries for `append`. Both carry the ids of their source, so that storing them
//! twice adds nothing.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use treering::capture::{HookCapture, TranscriptRef};
use treering::importers::Format;
use treering_core::{ContentHash, Json, SOURCE_LABEL, Timestamp, json_without_private};

use super::CodingAgent;

/// Parses the input of a hook that was called at `now`. Returns `None` if there is nothing to
/// store. Private passages are left out here already, because entries may be written to the spool.
pub fn capture(
    agent: CodingAgent,
    input: &str,
    now: Timestamp,
) -> Result<Option<HookCapture>, String> {
    let input = Json::new(input).map_err(|error| format!("the input is not JSON: {error}"))?;
    let input = json_without_private(&input).0.to_value();
    let entries = match agent {
        CodingAgent::ClaudeCode => return Ok(transcripts(Format::ClaudeCode, &input)),
        CodingAgent::Codex => return Ok(transcripts(Format::Codex, &input)),
        CodingAgent::Cursor => cursor(&input),
        CodingAgent::OpenCode => opencode(&input),
        other => return Err(format!("{other} has no hooks that Treering uses")),
    };
    Ok(entries.map(|request| HookCapture::Entries(timed(request, now))))
}

/// Gives the time of capture to entries without one, because they may be stored later.
fn timed(mut request: Value, now: Timestamp) -> Value {
    for entry in request["entries"].as_array_mut().into_iter().flatten() {
        if entry["type"] != "turn_end" && entry["at"].is_null() {
            entry["at"] = now.to_string().into();
        }
    }
    request
}

/// The reply that the agent expects on stdout before it continues.
#[must_use]
pub fn reply(agent: CodingAgent, input: &str) -> Option<&'static str> {
    let input: Value = serde_json::from_str(input).ok()?;
    (agent == CodingAgent::Cursor && input["hook_event_name"] == "beforeSubmitPrompt")
        .then_some("{\"continue\":true}")
}

/// The transcript of the session, and those of its sub-agents. A session without messages has no
/// transcript yet.
fn transcripts(format: Format, input: &Value) -> Option<HookCapture> {
    let path = Path::new(input["transcript_path"].as_str()?);
    let agents = path.with_extension("").join("subagents");
    let agents = std::fs::read_dir(agents).into_iter().flatten().flatten().map(|it| it.path());
    let is_transcript = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "jsonl");
    let paths = std::iter::once(path.to_path_buf()).chain(agents.filter(is_transcript));
    let transcripts = paths.map(|path| TranscriptRef { format, path }).collect();
    let ended = input["session_id"].as_str().filter(|_| input["hook_event_name"] == "SessionEnd");
    let ended = ended.map(|session| format!("{}:{session}", format.as_str()));
    Some(HookCapture::Transcripts { transcripts, ended })
}

/// The mark that ends the latest turn.
fn turn_end() -> Value {
    json!({ "type": "turn_end" })
}

/// A prompt, an answer, a tool call, or the end of the turn.
fn cursor(input: &Value) -> Option<Value> {
    let conversation = input["conversation_id"].as_str()?;
    let turn = input["generation_id"].as_str().unwrap_or_default();
    let entry = match input["tool_name"].as_str() {
        Some(name) => cursor_tool_call(name, turn, input),
        None if input["hook_event_name"] == "stop" => turn_end(),
        None => cursor_message(turn, input)?,
    };
    Some(json!({
        "key": format!("cursor/{conversation}"),
        "cwd": input["workspace_roots"][0].as_str(),
        "labels": { SOURCE_LABEL: CodingAgent::Cursor.to_string() },
        "entries": [entry],
    }))
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
fn opencode(input: &Value) -> Option<Value> {
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
    let labels = json!({ SOURCE_LABEL: CodingAgent::OpenCode.to_string() });
    let request = json!({ "key": key, "title": session["title"].as_str(), "cwd": cwd,
        "labels": labels, "entries": entries });
    (!entries.is_empty()).then_some(request)
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
