//! SWE-agent trajectories: the message history, with actions as tool calls.

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{Entry, EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, ToolResult};

use super::openai::content;
use super::text::{self, DecodedText};
use super::{CallIds, Format, ImportError, ImportedConversation, Sink, SourceFile, args_of};

#[derive(Deserialize)]
struct Trajectory<'a> {
    #[serde(borrow, default)]
    history: Vec<HistoryItem<'a>>,
    #[serde(borrow, default)]
    trajectory: Vec<TrajectoryStep<'a>>,
}

#[derive(Deserialize)]
struct HistoryItem<'a> {
    role: String,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    message_type: Option<String>,
    thought: Option<String>,
    action: Option<String>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<TrajectoryCall<'a>>>,
    tool_call_ids: Option<Vec<String>>,
    #[serde(default)]
    is_demo: Option<bool>,
}

#[derive(Deserialize)]
struct TrajectoryCall<'a> {
    id: Option<String>,
    #[serde(borrow)]
    function: TrajectoryFunction<'a>,
}

#[derive(Deserialize)]
struct TrajectoryFunction<'a> {
    name: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct TrajectoryStep<'a> {
    action: Option<String>,
    #[serde(borrow, default)]
    observation: Option<&'a RawValue>,
    thought: Option<String>,
    execution_time: Option<f64>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let run: Trajectory<'_> = text::parse(&source.text)?;
    let mut reader = SweAgentReader {
        at: source.modified,
        ids: CallIds::default(),
        open: None,
        calls: 0,
        entries: Vec::new(),
    };
    for entry in &run.history {
        if entry.is_demo.unwrap_or(false) || entry.message_type.as_deref() == Some("demonstration")
        {
            sink.skip("demonstrations of other runs");
            continue;
        }
        reader.entry(entry);
    }
    if run.history.is_empty() {
        run.trajectory.iter().for_each(|step| reader.step(step));
    } else if let (Some(last), Some(entry)) = (run.trajectory.last(), run.history.last())
        && entry.action == last.action
    {
        // The observation of the last action is often only in the trajectory.
        reader.observe(last.observation, last.execution_time);
    }
    sink.emit_unnamed(ImportedConversation::unnamed(Format::SweAgent, reader.entries))
}

struct SweAgentReader {
    at: Timestamp,
    ids: CallIds,
    /// The call that the next observation belongs to.
    open: Option<String>,
    calls: u32,
    entries: Vec<Entry>,
}

impl SweAgentReader {
    fn entry(&mut self, entry: &HistoryItem<'_>) {
        match entry.role.as_str() {
            "assistant" => self.answer(entry),
            "tool" => {
                let call_id = entry.tool_call_ids.as_ref().and_then(|ids| ids.first()).cloned();
                self.open = call_id.or_else(|| self.open.take());
                self.observe(entry.content, None);
            }
            "user" if self.open.is_some() => self.observe(entry.content, None),
            role => {
                let role = if role == "system" { Role::System } else { Role::User };
                self.push_message(role, entry.content.map(content).unwrap_or_default());
            }
        }
    }

    fn answer(&mut self, entry: &HistoryItem<'_>) {
        let mut body = entry.content.map(content).unwrap_or_default();
        let has_action = entry.action.is_some() || entry.tool_calls.is_some();
        if let Some(thought) =
            entry.thought.as_ref().filter(|thought| has_action && !thought.is_empty())
        {
            // The content repeats the thought followed by the action, which becomes a tool call.
            if *thought != body.text {
                body.original = body.original.or_else(|| Some(Json::string(&body.text)));
                body.text.clone_from(thought);
            }
        }
        self.push_message(Role::Assistant, body);
        let calls = entry.tool_calls.as_deref().unwrap_or_default();
        for call in calls {
            let args = match call.function.arguments {
                Some(raw) => {
                    text::string(raw).map_or_else(|| Json::from_raw(raw), |t| args_of(&t.text))
                }
                None => args_of("{}"),
            };
            self.call(&call.function.name, args, call.id.clone());
        }
        if calls.is_empty()
            && let Some(action) = entry.action.as_deref().filter(|action| !action.trim().is_empty())
        {
            self.action(action);
        }
    }

    fn step(&mut self, step: &TrajectoryStep<'_>) {
        let text = step.thought.clone().unwrap_or_default();
        self.push_message(Role::Assistant, DecodedText { text, original: None });
        self.action(step.action.as_deref().unwrap_or_default());
        self.observe(step.observation, step.execution_time);
    }

    /// An action in the agent's shell. Its first word is the tool name.
    fn action(&mut self, action: &str) {
        let name = action.split_whitespace().next().unwrap_or("action");
        let args = serde_json::json!({ "action": action }).to_string();
        self.call(name, args_of(&args), None);
    }

    fn call(&mut self, name: &str, args: Json, id: Option<String>) {
        self.calls += 1;
        let id = id.unwrap_or_else(|| format!("step-{}", self.calls));
        let external_id = Some(self.ids.call(&id));
        self.open = Some(id);
        let call =
            NewToolCall { name: name.to_owned(), args, outcome: None, at: self.at, external_id };
        self.entries.push(EntryKind::ToolCall(call).into());
    }

    fn observe(&mut self, observation: Option<&RawValue>, seconds: Option<f64>) {
        let (Some(id), Some(raw)) = (self.open.take(), observation) else { return };
        let duration_ms =
            seconds.filter(|s| s.is_finite() && *s >= 0.0).map(|s| (s * 1000.0) as u64);
        let outcome = ToolResult { result: Json::from_raw(raw), success: None, duration_ms };
        let kind = EntryKind::ToolResult { call: self.ids.result(&id), outcome, at: self.at };
        self.entries.push(kind.into());
    }

    fn push_message(&mut self, role: Role, body: DecodedText) {
        if body.text.is_empty() && body.original.is_none() {
            return;
        }
        let mut message = NewMessage::new(role, body.text, self.at);
        message.parts = body.original;
        self.entries.push(EntryKind::Message(message).into());
    }
}
