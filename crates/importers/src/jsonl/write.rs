//! Writes the lines of an export.

use serde_json::value::RawValue;
use treering_core::{
    Conversation, ExportItem, Json, Message, MessageVersion, Thread, ThreadName, TombstoneSet,
    ToolCall,
};

use super::{
    ConversationLine, HeaderLine, MessageLine, NullField, ThreadLine, ToolCallLine, TurnEndLine,
    VERSION, VersionLine,
};

/// The first line of an export, with the tombstones of what was forgotten.
pub fn header(of: &TombstoneSet) -> Result<String, serde_json::Error> {
    let hex = |salt: &Vec<u8>| salt.iter().map(|byte| format!("{byte:02x}")).collect();
    serde_json::to_string(&HeaderLine {
        kind: "treering".into(),
        version: VERSION,
        tombstone_salts: of.salts.iter().map(hex).collect(),
        tombstones: of.hashes.clone(),
    })
}

/// Serializes an export item as a line.
pub fn line(item: ExportItem<'_>) -> Result<String, serde_json::Error> {
    match item {
        ExportItem::Conversation(conversation) => conversation_line(conversation),
        ExportItem::Thread(thread) => thread_line(thread),
        ExportItem::Message(message) => message_line(message),
        ExportItem::ToolCall(call) => tool_call_line(call),
        ExportItem::TurnEnd(thread) => serde_json::to_string(&TurnEndLine {
            kind: "turn_end".into(),
            thread: unless_main(thread),
        }),
    }
}

fn conversation_line(it: &Conversation) -> Result<String, serde_json::Error> {
    serde_json::to_string(&ConversationLine {
        kind: "conversation".into(),
        id: Some(it.id.to_string()),
        slug: Some(it.slug.clone()),
        title: it.title.clone(),
        title_source: Some(it.title_source.as_str().into()),
        participants: it.participants.clone(),
        cwd: it.cwd.clone(),
        project_path: it.project_path.clone(),
        started_at: Some(it.started_at.to_string()),
        state: Some(it.state.as_str().into()),
        external_id: it.external_id.as_ref().map(ToString::to_string),
        labels: it.labels.clone(),
        policy: it.policy.clone(),
    })
}

fn thread_line(thread: &Thread) -> Result<String, serde_json::Error> {
    let fork = thread.fork.as_ref();
    serde_json::to_string(&ThreadLine {
        kind: "thread".into(),
        name: thread.name.to_string(),
        parent: fork.map(|fork| fork.parent.to_string()),
        fork_idx: fork.and_then(|fork| fork.after).map(|idx| idx.0),
    })
}

fn message_line(message: &Message) -> Result<String, serde_json::Error> {
    let body = &message.body;
    let text = serde_json::value::to_raw_value(&body.text)?;
    let mut null_fields = Vec::new();
    let parts = raw(body.parts.as_ref(), NullField::Parts, &mut null_fields)?;
    serde_json::to_string(&MessageLine {
        kind: "message".into(),
        idx: Some(message.idx.0),
        thread: unless_main(&message.thread),
        role: body.role.as_str().into(),
        author: body.author.clone(),
        text: &text,
        parts: parts.as_deref(),
        null_fields,
        at: Some(body.at.to_string()),
        external_id: body.external_id.as_ref().map(ToString::to_string),
        forgotten: body.forgotten,
        edited_at: body.edited_at.map(|at| at.to_string()),
        wrong_at: body.correction.as_ref().map(|it| it.at.to_string()),
        correction: body.correction.as_ref().and_then(|it| it.text.clone()),
        history: body.history.iter().map(version_line).collect::<Result<_, _>>()?,
    })
}

fn version_line(version: &MessageVersion) -> Result<VersionLine, serde_json::Error> {
    let mut null_fields = Vec::new();
    Ok(VersionLine {
        replaced_at: version.replaced_at.to_string(),
        text: version.text.clone(),
        parts: raw(version.parts.as_ref(), NullField::Parts, &mut null_fields)?,
        null_fields,
        wrong_at: version.correction.as_ref().map(|it| it.at.to_string()),
        correction: version.correction.as_ref().and_then(|it| it.text.clone()),
    })
}

fn tool_call_line(it: &ToolCall) -> Result<String, serde_json::Error> {
    let outcome = it.call.outcome.as_ref();
    let mut null_fields = Vec::new();
    let args = raw(Some(&it.call.args), NullField::Args, &mut null_fields)?;
    let result = raw(outcome.map(|outcome| &outcome.result), NullField::Result, &mut null_fields)?;
    serde_json::to_string(&ToolCallLine {
        kind: "tool_call".into(),
        thread: unless_main(&it.thread),
        name: it.call.name.clone(),
        args: args.as_deref(),
        result: result.as_deref(),
        null_fields,
        success: outcome.and_then(|outcome| outcome.success),
        duration_ms: outcome.and_then(|outcome| outcome.duration_ms),
        at: Some(it.call.at.to_string()),
        external_id: it.call.external_id.as_ref().map(ToString::to_string),
    })
}

/// The raw JSON of a field for a line. Lists a null in `null_fields` instead.
fn raw(
    json: Option<&Json>,
    field: NullField,
    nulls: &mut Vec<NullField>,
) -> Result<Option<Box<RawValue>>, serde_json::Error> {
    match json {
        Some(json) if json.as_str() == "null" => nulls.push(field),
        Some(json) => return RawValue::from_string(json.as_str().to_owned()).map(Some),
        None => {}
    }
    Ok(None)
}

fn unless_main(thread: &ThreadName) -> Option<String> {
    (!thread.is_main()).then(|| thread.to_string())
}
