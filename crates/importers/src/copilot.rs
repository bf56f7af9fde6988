//! Chat sessions of Copilot in VS Code: one JSON object, or a log of changes to it, one per line.

use serde_json::Value;
use treering_core::{
    EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource, ToolResult,
};

use super::{Format, ImportError, ImportedConversation, Sink, SourceFile, external, stem, text};

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let session = match serde_json::from_str::<Value>(&source.text) {
        Ok(session) if session.get("requests").is_some() => session,
        _ => replay(source, sink)?,
    };
    let requests = session["requests"].as_array().map(Vec::as_slice).unwrap_or_default();
    // An exported chat has no id; its first request identifies it.
    let id = [&session["sessionId"], &session["requests"][0]["requestId"]];
    let id =
        id.into_iter().find_map(Value::as_str).map_or_else(|| stem(&source.path), str::to_owned);
    let mut imported = ImportedConversation::named(Format::Copilot, &id);
    imported.conversation.title =
        session["customTitle"].as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned);
    imported.conversation.title_source = TitleSource::Source;
    let mut at = time(&session["creationDate"]).unwrap_or(source.modified);
    for (number, request) in requests.iter().enumerate() {
        at = time(&request["timestamp"]).unwrap_or(at);
        let id = request["requestId"].as_str();
        let id = id.map_or_else(|| format!("request-{number}"), str::to_owned);
        let is_last = number + 1 == requests.len();
        let is_over = !is_last || !request["result"].is_null() || request["isCanceled"] == true;
        turn(request, &id, at, is_over, &mut imported, sink);
    }
    sink.emit(imported)
}

/// Milliseconds since 1970.
fn time(value: &Value) -> Option<Timestamp> {
    Timestamp::from_seconds(value.as_f64()? / 1000.0)
}

/// Replays a log: the initial state, then changes of values, ends of lists and deletions.
fn replay(source: &SourceFile, sink: &mut Sink<'_>) -> Result<Value, ImportError> {
    let mut state = Value::Null;
    let mut position = text::LinePosition::default();
    for record in text::records::<Value>(source, &mut position, sink)?.records {
        let (number, mut change) = (record.number, record.value);
        let path = change["k"].as_array().cloned().unwrap_or_default();
        match change["kind"].as_u64() {
            Some(0) => state = change["v"].take(),
            Some(1) => {
                if let Some(place) = place(&mut state, &path) {
                    *place = change["v"].take();
                }
            }
            Some(2) => {
                let Some(place) = place(&mut state, &path) else { continue };
                let mut list = place.take().as_array_mut().map(std::mem::take).unwrap_or_default();
                if let Some(end) = change["i"].as_u64() {
                    list.truncate(usize::try_from(end).unwrap_or(usize::MAX));
                }
                list.extend(change["v"].as_array_mut().map(std::mem::take).unwrap_or_default());
                *place = Value::Array(list);
            }
            Some(3) => {
                if let Some(place) = place(&mut state, &path) {
                    *place = Value::Null;
                }
            }
            _ => return Err(ImportError(format!("line {number}: the kind of change is unknown"))),
        }
    }
    Ok(state)
}

/// The value at a path, created in an object if it does not exist.
fn place<'a>(state: &'a mut Value, path: &[Value]) -> Option<&'a mut Value> {
    path.iter().try_fold(state, |value, key| match (value, key) {
        (Value::Array(list), Value::Number(index)) => {
            list.get_mut(usize::try_from(index.as_u64()?).ok()?)
        }
        (Value::Object(object), Value::String(key)) => {
            Some(object.entry(key.clone()).or_insert(Value::Null))
        }
        _ => None,
    })
}

/// A request and its response: the prompt, the tool calls and the answer.
fn turn(
    request: &Value,
    id: &str,
    at: Timestamp,
    is_over: bool,
    imported: &mut ImportedConversation,
    sink: &mut Sink<'_>,
) {
    let prompt = request["message"]["text"].as_str().or_else(|| request["message"].as_str());
    match prompt.filter(|prompt| !prompt.is_empty()) {
        Some(prompt) => {
            let mut message = NewMessage::new(Role::User, prompt, at);
            let variables = &request["variableData"]["variables"];
            let has_files = variables.as_array().is_some_and(|files| !files.is_empty());
            message.parts = has_files.then(|| json(&request["variableData"]));
            message.external_id = Some(external(id));
            imported.push(EntryKind::Message(message));
        }
        None => sink.skip("empty messages"),
    }
    if !is_over {
        return sink.skip("answers that are not finished");
    }
    let mut answer = String::new();
    let mut thinking = Vec::new();
    for (number, part) in request["response"].as_array().into_iter().flatten().enumerate() {
        match part["kind"].as_str() {
            None | Some("markdownContent") => {
                let texts = [&part["value"], &part["content"]["value"], part];
                answer += texts.into_iter().find_map(Value::as_str).unwrap_or_default();
            }
            Some("inlineReference") => answer += &reference(&part["inlineReference"], part),
            Some("thinking") => thinking.push(part.clone()),
            Some("toolInvocationSerialized" | "toolInvocation") => {
                imported.push(tool_call(part, &format!("{id}/{number}"), at));
            }
            Some(other) => sink.skip(format!("{other} parts")),
        }
    }
    if !answer.trim().is_empty() || !thinking.is_empty() {
        let mut message = NewMessage::new(Role::Assistant, answer.trim(), at);
        message.parts = (!thinking.is_empty()).then(|| json(&Value::Array(thinking)));
        message.external_id = Some(external(&format!("{id}/answer")));
        imported.push(EntryKind::Message(message));
        imported.push(EntryKind::TurnEnd);
    }
}

/// The name of a file or symbol in the text.
fn reference(reference: &Value, part: &Value) -> String {
    let path =
        [&reference["path"], &reference["uri"]["path"], &reference["location"]["uri"]["path"]];
    let path = path.into_iter().find_map(Value::as_str).unwrap_or_default();
    let name = [&part["name"], &reference["name"]].into_iter().find_map(Value::as_str);
    format!("`{}`", name.unwrap_or_else(|| path.rsplit('/').next().unwrap_or_default()))
}

fn tool_call(part: &Value, id: &str, at: Timestamp) -> EntryKind {
    let words = |value: &Value| {
        let text = value["value"].as_str().or_else(|| value.as_str());
        text.map(str::to_owned)
    };
    let details = &part["resultDetails"];
    let input =
        [&details["input"], &part["toolSpecificData"]["rawInput"], &part["toolSpecificData"]];
    let input = input.into_iter().find(|input| !input.is_null());
    let message = words(&part["invocationMessage"]).unwrap_or_default();
    let args = input.cloned().unwrap_or_else(|| serde_json::json!({ "message": message }));
    let result = [&details["output"], details].into_iter().find(|result| !result.is_null());
    let result =
        result.map(json).or_else(|| words(&part["pastTenseMessage"]).map(|it| Json::string(&it)));
    let is_complete = part["isComplete"] != false;
    let outcome = result.filter(|_| is_complete).map(|result| ToolResult {
        result,
        success: details["isError"].as_bool().map(|failed| !failed),
        duration_ms: None,
    });
    let id = part["toolCallId"].as_str().unwrap_or(id);
    EntryKind::ToolCall(NewToolCall {
        name: part["toolId"].as_str().unwrap_or("tool").to_owned(),
        args: json(&args),
        outcome,
        at,
        external_id: Some(external(id)),
    })
}

fn json(value: &Value) -> Json {
    Json::new(&value.to_string()).unwrap_or_else(|_| Json::null())
}
