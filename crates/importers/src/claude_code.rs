//! Session transcripts of Claude Code: one JSON record a line, appended as the session goes on.
//!
//! Prompts, answers and tool calls become messages and tool calls; what the program put in
//! itself (reminders, commands, summaries of compacted history) is kept as system messages.
//! Sub-agents and abandoned branches become threads.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use treering_core::{
    Entry, EntryKind, ForkPoint, NewMessage, NewToolCall, Role, ThreadName, Timestamp, TitleSource,
};

use super::blocks::{self, TranscriptBlock};
use super::{
    Format, Identity, ImportError, ImportedConversation, Sink, SourceFile, external, stem, text,
    thread,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptRecord<'a> {
    #[serde(rename = "type", default)]
    kind: String,
    subtype: Option<String>,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    logical_parent_uuid: Option<String>,
    session_id: Option<String>,
    agent_id: Option<String>,
    timestamp: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_meta: bool,
    #[serde(default)]
    is_compact_summary: bool,
    #[serde(borrow)]
    message: Option<ClaudeCodeMessage<'a>>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    attachment: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_use_result: Option<&'a RawValue>,
    summary: Option<String>,
    custom_title: Option<String>,
    ai_title: Option<String>,
}

#[derive(Deserialize)]
struct ClaudeCodeMessage<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    model: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let mut sessions = TranscriptSessions { order: Vec::new(), by_id: HashMap::new() };
    let mut titles = Titles::default();
    for text::NumberedRecord { value: record, .. } in
        text::records::<TranscriptRecord<'_>>(source, sink)?
    {
        titles.take(&record);
        let id = record.session_id.clone().unwrap_or_else(|| stem(&source.path));
        sessions.of(&id).record(&record, source.modified, sink);
    }
    // Records without a session make none of their own.
    sessions.by_id.retain(|_, session| !session.entries.is_empty());
    let only = sessions.by_id.len() == 1;
    for id in sessions.order {
        let Some(session) = sessions.by_id.remove(&id) else { continue };
        let mut found = ImportedConversation::named(Format::ClaudeCode, &id);
        found.identity = Identity::NamedEverywhere;
        found.about.cwd = session.cwd;
        found.about.naming = TitleSource::Source;
        found.about.title = if only { titles.best() } else { None };
        found.entries = session.entries;
        sink.emit(found)?;
    }
    Ok(())
}

/// The titles a session was given: a person's, a model's, a summary.
#[derive(Default)]
struct Titles {
    custom: Option<String>,
    model: Option<String>,
    summary: Option<String>,
}

impl Titles {
    fn take(&mut self, record: &TranscriptRecord<'_>) {
        let newer = |slot: &mut Option<String>, title: &Option<String>| {
            if let Some(title) = title.as_ref().filter(|title| !title.trim().is_empty()) {
                *slot = Some(title.trim().to_owned());
            }
        };
        newer(&mut self.custom, &record.custom_title);
        newer(&mut self.model, &record.ai_title);
        newer(&mut self.summary, &record.summary);
    }

    fn best(&self) -> Option<String> {
        self.custom.as_ref().or(self.model.as_ref()).or(self.summary.as_ref()).cloned()
    }
}

/// The sessions of a file: mostly one, more where records were copied from another.
struct TranscriptSessions {
    order: Vec<String>,
    by_id: HashMap<String, TranscriptSession>,
}

impl TranscriptSessions {
    fn of(&mut self, id: &str) -> &mut TranscriptSession {
        if !self.by_id.contains_key(id) {
            self.order.push(id.to_owned());
        }
        self.by_id.entry(id.to_owned()).or_default()
    }
}

#[derive(Default)]
struct TranscriptSession {
    cwd: Option<String>,
    entries: Vec<Entry>,
    /// The thread of each record, and the latest message at or above it.
    places: HashMap<String, (ThreadName, ForkPoint)>,
    /// Records that a prompt already follows.
    prompted: HashSet<String>,
    /// The latest record that is no sub-agent's: what a sub-agent leaves.
    latest: Option<String>,
    agents: HashSet<ThreadName>,
    sidechains: u32,
}

impl TranscriptSession {
    fn record(&mut self, record: &TranscriptRecord<'_>, modified: Timestamp, sink: &mut Sink<'_>) {
        if self.cwd.is_none() {
            self.cwd.clone_from(&record.cwd);
        }
        let at = record.timestamp.as_deref().and_then(|at| at.parse().ok()).unwrap_or(modified);
        match record.kind.as_str() {
            "user" | "assistant" => self.message(record, at, sink),
            "system" if record.subtype.as_deref() == Some("local_command") => {
                let thread = self.place(record, false);
                let said = record.content.and_then(text::string);
                self.say(record, &thread, Role::System, said.unwrap_or_default(), at);
            }
            "attachment" => self.attachment(record, at, sink),
            "summary" | "custom-title" | "ai-title" => {}
            "system" => {
                self.place(record, false);
                sink.skip(format!(
                    "system records: {}",
                    record.subtype.as_deref().unwrap_or("other")
                ));
            }
            "" => sink.skip("records without a type"),
            other => {
                self.place(record, false);
                sink.skip(format!("{other} records"));
            }
        }
    }

    fn message(&mut self, record: &TranscriptRecord<'_>, at: Timestamp, sink: &mut Sink<'_>) {
        let Some(message) = &record.message else { return sink.skip("records without a message") };
        let Some(content) = message.content else { return sink.skip("messages without content") };
        let blocks = blocks::blocks(content);
        let said = blocks::message_content(content, &blocks);
        let answers = blocks.iter().any(|block| block.kind == "tool_result");
        let inserted = record.is_meta
            || record.is_compact_summary
            || is_inserted(&said.text)
            || message.model.as_deref() == Some("<synthetic>");
        let role = match (record.kind.as_str(), inserted) {
            (_, true) => Role::System,
            ("assistant", _) => Role::Assistant,
            _ => Role::User,
        };
        let prompt = role == Role::User && !answers;
        let thread = self.place(record, prompt);
        if said.text.is_empty() && said.parts.is_none() {
            if blocks.iter().any(TranscriptBlock::is_empty_thinking) {
                sink.skip("thinking of which only the signature was kept");
            }
        } else {
            let text = text::DecodedText { text: said.text, original: said.parts };
            self.say(record, &thread, role, text, at);
        }
        for block in &blocks {
            self.tool(block, record, &thread, at);
        }
    }

    fn say(
        &mut self,
        record: &TranscriptRecord<'_>,
        thread: &ThreadName,
        role: Role,
        said: text::DecodedText,
        at: Timestamp,
    ) {
        let mut message = NewMessage::new(role, said.text, at);
        message.parts = said.original;
        if let Some(uuid) = &record.uuid {
            let id = external(uuid);
            self.places.insert(uuid.clone(), (thread.clone(), ForkPoint::External(id.clone())));
            message.external_id = Some(id);
        }
        self.entries.push(Entry::message(thread.clone(), message));
    }

    fn tool(
        &mut self,
        block: &TranscriptBlock<'_>,
        record: &TranscriptRecord<'_>,
        thread: &ThreadName,
        at: Timestamp,
    ) {
        let kind = match block.kind.as_str() {
            "tool_use" => EntryKind::ToolCall(NewToolCall {
                name: block.name.clone().unwrap_or_else(|| "tool".into()),
                args: block.args(),
                outcome: None,
                at,
                external_id: block.id.as_deref().map(external),
            }),
            "tool_result" => {
                let Some(id) = &block.tool_use_id else { return };
                EntryKind::ToolResult {
                    call: external(id),
                    outcome: block.outcome(duration(record)),
                    at,
                }
            }
            _ => return,
        };
        self.entries.push(Entry { thread: thread.clone(), kind });
    }

    /// A prompt that was queued while the program was busy.
    fn attachment(&mut self, record: &TranscriptRecord<'_>, at: Timestamp, sink: &mut Sink<'_>) {
        #[derive(Deserialize)]
        struct Attachment {
            #[serde(rename = "type", default)]
            kind: String,
            prompt: Option<String>,
        }
        let attachment =
            record.attachment.and_then(|raw| text::parse::<Attachment>(raw.get()).ok());
        let queued = attachment.filter(|attachment| attachment.kind == "queued_command");
        match queued.and_then(|queued| queued.prompt) {
            Some(prompt) if !is_inserted(&prompt) => {
                let thread = self.place(record, false);
                self.say(
                    record,
                    &thread,
                    Role::User,
                    text::DecodedText { text: prompt, original: None },
                    at,
                );
            }
            _ => {
                self.place(record, false);
                sink.skip("attachment records");
            }
        }
    }

    /// The thread a record belongs to: its parent's, unless a second prompt follows the same
    /// record, or a sub-agent begins.
    fn place(&mut self, record: &TranscriptRecord<'_>, prompt: bool) -> ThreadName {
        let parent = record.parent_uuid.as_ref().or(record.logical_parent_uuid.as_ref());
        let above = parent.and_then(|parent| self.places.get(parent).cloned());
        let (mut name, mut last) = above.clone().unwrap_or((ThreadName::main(), ForkPoint::Start));
        let of_agent = record.is_sidechain || record.agent_id.is_some();
        if of_agent && above.is_none_or(|(name, _)| name.is_main()) {
            name = match &record.agent_id {
                Some(agent) => thread(&format!("agent-{agent}")),
                None => {
                    self.sidechains += 1;
                    thread(&format!("agent-{}", self.sidechains))
                }
            };
            let left = self.latest.as_ref().and_then(|latest| self.places.get(latest).cloned());
            if let Some((parent, after)) = left.filter(|_| self.agents.insert(name.clone())) {
                self.entries
                    .push(Entry { thread: name.clone(), kind: EntryKind::Fork { parent, after } });
            }
            last = ForkPoint::Start;
        } else if prompt
            && let Some(parent) = parent
            && !self.prompted.insert(parent.clone())
        {
            let branch: String = record.uuid.iter().flat_map(|uuid| uuid.chars()).take(8).collect();
            let branch = thread(&format!("branch-{branch}"));
            let kind = EntryKind::Fork { parent: name, after: last };
            self.entries.push(Entry { thread: branch.clone(), kind });
            name = branch;
            last = ForkPoint::Start;
        }
        if let Some(uuid) = &record.uuid {
            self.places.insert(uuid.clone(), (name.clone(), last));
            if !of_agent {
                self.latest = Some(uuid.clone());
            }
        }
        name
    }
}

/// What the program wrote in the user's name.
fn is_inserted(text: &str) -> bool {
    const OPENINGS: [&str; 12] = [
        "<command-name>",
        "<command-message>",
        "<local-command-stdout>",
        "<local-command-stderr>",
        "<local-command-caveat>",
        "<bash-stdout>",
        "<bash-stderr>",
        "<task-notification>",
        "<teammate-message",
        "<system-reminder>",
        "Caveat: The messages below",
        "[Request interrupted by user",
    ];
    let text = text.trim_start();
    OPENINGS.iter().any(|opening| text.starts_with(opening))
}

/// How long a tool took, where the record says so.
fn duration(record: &TranscriptRecord<'_>) -> Option<u64> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Timed {
        #[serde(alias = "totalDurationMs")]
        duration_ms: Option<f64>,
    }
    let timed: Timed = text::parse(record.tool_use_result?.get()).ok()?;
    timed.duration_ms.filter(|ms| ms.is_finite() && *ms >= 0.0).map(|ms| ms as u64)
}
