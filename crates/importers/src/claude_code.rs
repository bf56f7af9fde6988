//! Claude Code session transcripts: one JSON record per line, appended during the session.
//!
//! Prompts, answers and tool calls become messages and tool calls. Text that the program inserts
//! (reminders, commands, summaries of compacted history) becomes system messages. Sub-agents and
//! abandoned branches become threads.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use treering_core::{
    Entry, EntryKind, ExternalId, ForkPoint, NewMessage, NewToolCall, Role, ThreadName, Timestamp,
    TitleSource,
};

use super::blocks::{self, TranscriptBlock};
use super::{
    Format, Identity, ImportError, ImportedConversation, PartOutcome, Sink, SourceFile, external,
    stem, text, thread,
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
    stop_reason: Option<String>,
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    ClaudeCodeReader::default().read(source, sink).map(drop)
}

/// Reads a transcript in parts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ClaudeCodeReader {
    pub(super) position: text::LinePosition,
    /// The sessions of the file. Usually one; more if records were copied from another session.
    sessions: BTreeMap<String, TranscriptSession>,
    title: SessionTitle,
}

impl ClaudeCodeReader {
    pub(super) fn read(
        &mut self,
        source: &SourceFile,
        sink: &mut Sink<'_>,
    ) -> Result<PartOutcome, ImportError> {
        let parsed = text::records::<TranscriptRecord<'_>>(source, &mut self.position, sink)?;
        let mut order: Vec<String> = Vec::new();
        for text::NumberedRecord { value: record, .. } in parsed.records {
            self.title.take(&record);
            let id = record.session_id.clone().unwrap_or_else(|| stem(&source.path));
            if !order.contains(&id) {
                order.push(id.clone());
            }
            self.sessions.entry(id).or_default().record(&record, source.modified, sink);
        }
        if self.sessions.values().any(|session| session.lacks_parent) {
            return Ok(PartOutcome::NeedsWhole);
        }
        // Sessions without entries exist only because of records without a session id.
        let with_entries = self.sessions.iter().filter(|(_, session)| session.has_entries);
        let with_entries: Vec<String> = with_entries.map(|(id, _)| id.clone()).collect();
        let only = match with_entries.as_slice() {
            [] => None,
            [only] => Some(only),
            // A title does not say which of them it belongs to.
            _ => {
                self.title.emit();
                None
            }
        };
        // A title may come without an entry.
        if let Some(only) = only.filter(|only| !order.contains(only)) {
            order.push(only.clone());
        }
        for id in order {
            let Some(session) = self.sessions.get_mut(&id).filter(|session| session.has_entries)
            else {
                continue;
            };
            let mut imported = ImportedConversation::named(Format::ClaudeCode, &id);
            imported.identity = Identity::NamedEverywhere;
            imported.conversation.cwd = session.cwd.take();
            imported.conversation.title_source = TitleSource::Source;
            imported.conversation.title = only.and_then(|_| self.title.emit());
            imported.entries = std::mem::take(&mut session.entries);
            if !imported.entries.is_empty() || imported.conversation.title.is_some() {
                sink.emit_even_if_empty(imported)?;
            }
        }
        Ok(PartOutcome::Read(parsed.consumed))
    }

    /// Whether the reader was stored while a title waited for the first entry. The text of the title
    /// was not stored.
    pub(super) const fn lacks_title(&self) -> bool {
        self.title.is_pending && self.title.text.is_none()
    }

    pub(super) fn compact(&self) -> Self {
        let mut compact = self.clone();
        compact.sessions.values_mut().for_each(TranscriptSession::compact);
        compact
    }
}

/// The title of a session: given by a person, generated by a model, or from a summary.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct SessionTitle {
    source: ClaudeTitleSource,
    /// The title, until it is emitted. Checkpoints have no text of a conversation.
    #[serde(skip)]
    text: Option<String>,
    /// Whether there is a title that was not emitted.
    #[serde(default)]
    is_pending: bool,
}

/// The source of a title. A later one takes precedence over an earlier one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum ClaudeTitleSource {
    #[default]
    None,
    Summary,
    Model,
    Person,
}

impl SessionTitle {
    fn take(&mut self, record: &TranscriptRecord<'_>) {
        for (source, title) in [
            (ClaudeTitleSource::Summary, &record.summary),
            (ClaudeTitleSource::Model, &record.ai_title),
            (ClaudeTitleSource::Person, &record.custom_title),
        ] {
            let title = title.as_deref().map(str::trim).filter(|title| !title.is_empty());
            if let Some(title) = title.filter(|_| source >= self.source) {
                *self = Self { source, text: Some(title.to_owned()), is_pending: true };
            }
        }
    }

    fn emit(&mut self) -> Option<String> {
        self.is_pending = false;
        self.text.take()
    }
}

/// The thread of a record, and the latest message at or before it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RecordPosition {
    #[serde(default, skip_serializing_if = "ThreadName::is_main")]
    thread: ThreadName,
    /// `None` if no message comes before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    message: Option<ExternalId>,
}

impl RecordPosition {
    fn fork_point(&self) -> ForkPoint {
        self.message.clone().map_or(ForkPoint::Start, ForkPoint::External)
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct TranscriptSession {
    #[serde(skip)]
    cwd: Option<String>,
    #[serde(skip)]
    entries: Vec<Entry>,
    has_entries: bool,
    positions: BTreeMap<String, RecordPosition>,
    /// Records that already have a prompt as child.
    prompted: BTreeSet<String>,
    /// The records since the latest prompt.
    recent: Vec<String>,
    /// The records of the turn before: a prompt may arrive before the results of its tools.
    previous: Vec<String>,
    /// The latest record of each thread.
    tips: BTreeMap<ThreadName, String>,
    /// The latest record outside sub-agents, where a new sub-agent forks.
    latest: Option<String>,
    agents: BTreeSet<ThreadName>,
    sidechains: u32,
    /// Whether the positions of older records were dropped.
    is_compact: bool,
    /// Whether a record followed one whose position was dropped.
    #[serde(skip)]
    lacks_parent: bool,
}

impl TranscriptSession {
    /// Drops the positions of records that hardly ever get another child: all but the records of
    /// the latest turns, the latest ones of each thread, and those that a prompt followed, to which
    /// a user may go back.
    fn compact(&mut self) {
        let latest_turns: BTreeSet<&String> =
            [&self.recent, &self.previous].into_iter().flatten().collect();
        let tips: BTreeSet<&String> = self.tips.values().chain(&self.latest).collect();
        let before = self.positions.len();
        let prompted = &self.prompted;
        self.positions.retain(|uuid, _| {
            latest_turns.contains(uuid) || tips.contains(uuid) || prompted.contains(uuid)
        });
        self.is_compact |= self.positions.len() < before;
    }

    fn push(&mut self, entry: Entry) {
        self.has_entries = true;
        self.entries.push(entry);
    }

    fn record(&mut self, record: &TranscriptRecord<'_>, modified: Timestamp, sink: &mut Sink<'_>) {
        if self.cwd.is_none() {
            self.cwd.clone_from(&record.cwd);
        }
        let at = record.timestamp.as_deref().and_then(|at| at.parse().ok()).unwrap_or(modified);
        match record.kind.as_str() {
            "user" | "assistant" => self.message(record, at, sink),
            "system" if record.subtype.as_deref() == Some("local_command") => {
                let thread = self.thread_of(record, false);
                let body = record.content.and_then(text::string);
                self.push_message(record, &thread, Role::System, body.unwrap_or_default(), at);
            }
            "attachment" => self.attachment(record, at, sink),
            "summary" | "custom-title" | "ai-title" => {}
            "system" => {
                self.thread_of(record, false);
                sink.skip(format!(
                    "system records: {}",
                    record.subtype.as_deref().unwrap_or("other")
                ));
            }
            "" => sink.skip("records without a type"),
            other => {
                self.thread_of(record, false);
                sink.skip(format!("{other} records"));
            }
        }
    }

    fn message(&mut self, record: &TranscriptRecord<'_>, at: Timestamp, sink: &mut Sink<'_>) {
        let Some(message) = &record.message else { return sink.skip("records without a message") };
        let Some(content) = message.content else { return sink.skip("messages without content") };
        let blocks = blocks::blocks(content);
        let body = blocks::message_content(content, &blocks);
        let answers = blocks.iter().any(|block| block.kind == "tool_result");
        let inserted = record.is_meta
            || record.is_compact_summary
            || is_inserted(&body.text)
            || message.model.as_deref() == Some("<synthetic>");
        let role = match (record.kind.as_str(), inserted) {
            (_, true) => Role::System,
            ("assistant", _) => Role::Assistant,
            _ => Role::User,
        };
        let prompt = role == Role::User && !answers;
        let has_text = !body.text.is_empty();
        let thread = self.thread_of(record, prompt);
        if body.text.is_empty() && body.parts.is_none() {
            if blocks.iter().any(TranscriptBlock::is_empty_thinking) {
                sink.skip("thinking blocks that contain only a signature");
            }
        } else {
            let text = text::DecodedText { text: body.text, original: body.parts };
            self.push_message(record, &thread, role, text, at);
        }
        for block in &blocks {
            self.tool(block, record, &thread, at);
        }
        // The records of one answer share its stop reason; its text is the last of them.
        let ends_turn = message.stop_reason.as_deref() == Some("end_turn") && has_text;
        if role == Role::Assistant && ends_turn && !record.is_sidechain {
            self.push(Entry::turn_end(thread));
        }
    }

    fn push_message(
        &mut self,
        record: &TranscriptRecord<'_>,
        thread: &ThreadName,
        role: Role,
        body: text::DecodedText,
        at: Timestamp,
    ) {
        let mut message = NewMessage::new(role, body.text, at);
        message.parts = body.original;
        if let Some(uuid) = &record.uuid {
            let id = external(uuid);
            let position = RecordPosition { thread: thread.clone(), message: Some(id.clone()) };
            self.positions.insert(uuid.clone(), position);
            message.external_id = Some(id);
        }
        self.push(Entry::message(thread.clone(), message));
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
        self.push(Entry { thread: thread.clone(), kind });
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
                let thread = self.thread_of(record, false);
                self.push_message(
                    record,
                    &thread,
                    Role::User,
                    text::DecodedText { text: prompt, original: None },
                    at,
                );
            }
            _ => {
                self.thread_of(record, false);
                sink.skip("attachment records");
            }
        }
    }

    /// Determines the thread of a record: that of its parent, unless the record is a second
    /// prompt after the same parent or starts a sub-agent.
    fn thread_of(&mut self, record: &TranscriptRecord<'_>, prompt: bool) -> ThreadName {
        let parent = record.parent_uuid.as_ref().or(record.logical_parent_uuid.as_ref());
        let parent_position = parent.and_then(|parent| self.positions.get(parent).cloned());
        self.lacks_parent |= self.is_compact && parent.is_some() && parent_position.is_none();
        let is_in_main = parent_position.as_ref().is_none_or(|found| found.thread.is_main());
        let start = RecordPosition { thread: ThreadName::main(), message: None };
        let mut position = parent_position.unwrap_or(start);
        let of_agent = record.is_sidechain || record.agent_id.is_some();
        if of_agent && is_in_main {
            position = RecordPosition { thread: self.agent_thread(record), message: None };
        } else if prompt
            && let Some(parent) = parent
            && !self.prompted.insert(parent.clone())
        {
            let branch: String = record.uuid.iter().flat_map(|uuid| uuid.chars()).take(8).collect();
            let branch = thread(&format!("branch-{branch}"));
            let after = position.fork_point();
            let kind = EntryKind::Fork { parent: position.thread, after };
            self.push(Entry { thread: branch.clone(), kind });
            position = RecordPosition { thread: branch, message: None };
        }
        let name = position.thread.clone();
        if prompt && !of_agent {
            self.previous = std::mem::take(&mut self.recent);
        }
        if let Some(uuid) = &record.uuid {
            self.positions.insert(uuid.clone(), position);
            self.recent.push(uuid.clone());
            self.tips.insert(name.clone(), uuid.clone());
            if !of_agent {
                self.latest = Some(uuid.clone());
            }
        }
        name
    }

    /// The thread of a sub-agent, which forks from the latest record outside sub-agents.
    fn agent_thread(&mut self, record: &TranscriptRecord<'_>) -> ThreadName {
        let name = match &record.agent_id {
            Some(agent) => thread(&format!("agent-{agent}")),
            None => {
                self.sidechains += 1;
                thread(&format!("agent-{}", self.sidechains))
            }
        };
        let position_left = self.latest.as_ref().and_then(|latest| self.positions.get(latest));
        if let Some(left) = position_left.cloned()
            && self.agents.insert(name.clone())
        {
            let kind = EntryKind::Fork { after: left.fork_point(), parent: left.thread };
            self.push(Entry { thread: name.clone(), kind });
        }
        name
    }
}

/// Whether a user message was written by the program itself.
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

/// The duration of a tool call, if recorded.
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
