//! Reads transcripts that agents append to, in parts. Reading a file in parts gives the same
//! entries as reading it whole.

use serde::{Deserialize, Serialize};

use super::claude_code::ClaudeCodeReader;
use super::codex::CodexReader;
use super::{Format, ImportError, Sink, SourceFile};

/// Reads a growing transcript. It can be stored between two parts; what is stored holds ids and
/// counts, and no text of the conversation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TranscriptReader {
    /// Reads a session of Claude Code.
    ClaudeCode(ClaudeCodeReader),
    /// Reads a rollout of Codex.
    Codex(CodexReader),
}

/// The result of reading a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOutcome {
    /// The part was read up to this byte, where an incomplete last line begins.
    Read(usize),
    /// The part refers to something that an earlier part held and the reader did not keep.
    /// Nothing was emitted; read the file from its start.
    NeedsWhole,
}

impl TranscriptReader {
    /// A reader at the start of a file, if files of this format grow.
    #[must_use]
    pub fn new(format: Format) -> Option<Self> {
        match format {
            Format::ClaudeCode => Some(Self::ClaudeCode(ClaudeCodeReader::default())),
            Format::Codex => Some(Self::Codex(CodexReader::default())),
            _ => None,
        }
    }

    /// Skips damaged lines from now on, because the file is captured while it grows.
    #[must_use]
    pub const fn live(mut self) -> Self {
        match &mut self {
            Self::ClaudeCode(reader) => reader.position.is_live = true,
            Self::Codex(reader) => reader.position.is_live = true,
        }
        self
    }

    /// Reads the next part of the file, which ends at the end of a line or of the file.
    pub fn read(
        &mut self,
        part: &SourceFile,
        sink: &mut Sink<'_>,
    ) -> Result<PartOutcome, ImportError> {
        match self {
            Self::ClaudeCode(reader) => reader.read(part, sink),
            Self::Codex(reader) => reader.read(part, sink),
        }
    }

    /// Whether the file must be read from its start, because the reader was stored before the first
    /// entry and without the title that came before it.
    #[must_use]
    pub const fn lacks_title(&self) -> bool {
        match self {
            Self::ClaudeCode(reader) => reader.lacks_title(),
            Self::Codex(_) => false,
        }
    }

    /// A copy to store: without the records that later parts hardly ever refer to.
    #[must_use]
    pub fn compact(&self) -> Self {
        match self {
            Self::ClaudeCode(reader) => Self::ClaudeCode(reader.compact()),
            Self::Codex(reader) => Self::Codex(reader.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    use treering_core::{Entry, Timestamp};

    use super::*;
    use crate::ImportedConversation;

    type Conversations = BTreeMap<String, (Vec<Entry>, Option<String>)>;

    /// Reads parts one after the other, with a stored reader between them. Starts again if the
    /// reader needs the whole file.
    fn read(format: Format, parts: &[&str]) -> (Conversations, u32) {
        let mut all = Conversations::new();
        let mut restarts = 0;
        let mut reader = TranscriptReader::new(format).unwrap().live();
        let (mut begin, mut end) = (0, 0);
        let text = parts.concat();
        for part in parts {
            end += part.len();
            if reader.lacks_title() {
                restarts += 1;
                reader = TranscriptReader::new(format).unwrap().live();
                begin = 0;
            }
            loop {
                let source = SourceFile {
                    path: "session.jsonl".into(),
                    text: text[begin..end].to_owned(),
                    modified: Timestamp::from_micros(0),
                };
                let mut found = Vec::new();
                let mut take = |conversation: ImportedConversation| {
                    found.push(conversation);
                    Ok(())
                };
                match reader.read(&source, &mut Sink::new(&mut take)).unwrap() {
                    PartOutcome::Read(consumed) => begin += consumed,
                    PartOutcome::NeedsWhole => {
                        restarts += 1;
                        all.clear();
                        reader = TranscriptReader::new(format).unwrap().live();
                        begin = 0;
                        continue;
                    }
                }
                for conversation in found {
                    let id = conversation.conversation.external_id.unwrap().to_string();
                    let (entries, title) = all.entry(id).or_default();
                    entries.extend(conversation.entries);
                    *title = conversation.conversation.title.or(title.take());
                }
                break;
            }
            let stored = serde_json::to_string(&reader.compact()).unwrap();
            reader = serde_json::from_str(&stored).unwrap();
        }
        (all, restarts)
    }

    /// Checks that every cut in two, and a cut at every line, give what the whole file gives.
    /// Returns how often the reader had to start again.
    fn check(format: Format, text: &str) -> u32 {
        let (whole, _) = read(format, &[text]);
        assert!(!whole.is_empty());
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (by_line, mut restarts) = read(format, &lines);
        assert_eq!(by_line, whole, "by line");
        for at in (1..text.len()).step_by(3).filter(|at| text.is_char_boundary(*at)) {
            let (cut, again) = read(format, &[&text[..at], &text[at..]]);
            assert_eq!(cut, whole, "cut at byte {at}");
            restarts += again;
        }
        restarts
    }

    fn record(uuid: &str, parent: &str, kind: &str, rest: &str) -> String {
        let parent = if parent.is_empty() { "null".into() } else { format!("\"{parent}\"") };
        format!(
            r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","timestamp":"2026-01-01T00:00:00Z",{rest}}}"#
        )
    }

    fn said(uuid: &str, parent: &str, kind: &str, text: &str) -> String {
        record(uuid, parent, kind, &format!(r#""message":{{"content":"{text}"}}"#))
    }

    #[test]
    fn a_session_of_claude_code_can_be_read_in_parts() {
        let agent = r#""isSidechain":true,"agentId":"x1","message":{"content":"Look."}"#;
        let call =
            r#""message":{"content":[{"type":"tool_use","id":"t1","name":"Read","input":{}}]}"#;
        let result =
            r#""message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"é"}]}"#;
        let end =
            r#""message":{"content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn"}"#;
        let lines = [
            r#"{"type":"summary","summary":"Old title","leafUuid":"x"}"#.to_owned(),
            said("u1", "", "user", "First."),
            record("a1", "u1", "assistant", call),
            record("a2", "a1", "assistant", &call.replace("t1", "t2")),
            record("r1", "a1", "user", result),
            record("r2", "a2", "user", &result.replace("t1", "t2")),
            record("g1", "", "user", agent),
            record("g2", "g1", "assistant", agent),
            record("a3", "r2", "assistant", end),
            r#"{"type":"ai-title","aiTitle":"New title","sessionId":"s"}"#.to_owned(),
            said("u2", "a3", "user", "Second."),
            record("a4", "u2", "assistant", end),
            said("u3", "a3", "user", "Second, otherwise."),
            record("a5", "u3", "assistant", end),
            said("u4", "a5", "user", "Third."),
            record("p1", "u4", "progress", r#""data":1"#),
            record("a6", "p1", "assistant", end),
            r#"{"type":"summary","summary":"Late title","leafUuid":"x"}"#.to_owned(),
        ];
        let text = lines.join("\n") + "\n";
        let (_, untitled) = text.split_once('\n').unwrap();
        assert_eq!(check(Format::ClaudeCode, untitled), 0, "nothing is read twice");
        assert!(check(Format::ClaudeCode, &text) > 0, "a title before the first entry is not kept");
        let (_, title) = &read(Format::ClaudeCode, &[&text]).0["claude-code:s"];
        assert_eq!(title.as_deref(), Some("New title"));

        let mut back = text;
        for turn in 5..9 {
            let (before, user) = (format!("a{}", turn + 1), format!("u{turn}"));
            let answer = format!("a{}", turn + 2);
            writeln!(back, "{}", said(&user, &before, "user", "More.")).unwrap();
            writeln!(back, "{}", record(&answer, &user, "assistant", end)).unwrap();
        }
        // A record that follows the middle of an old turn.
        writeln!(back, "{}", said("u99", "r1", "user", "Go back.")).unwrap();
        assert!(check(Format::ClaudeCode, &back) > 0, "the position of r1 is not kept");
    }

    #[test]
    fn a_rollout_of_codex_can_be_read_in_parts() {
        let line = |kind: &str, payload: &str| {
            format!(r#"{{"timestamp":"2026-01-01T00:00:00Z","type":"{kind}","payload":{payload}}}"#)
        };
        let message = |role: &str, text: &str| {
            line(
                "response_item",
                &format!(
                    r#"{{"type":"message","role":"{role}","content":[{{"type":"text","text":"{text}"}}]}}"#
                ),
            )
        };
        let call = r#"{"type":"function_call","name":"sh","arguments":"{}","call_id":"c"}"#;
        let output = r#"{"type":"function_call_output","call_id":"c","output":"ok"}"#;
        let lines = [
            line("session_meta", r#"{"id":"r1","cwd":"/w"}"#),
            message("user", "First."),
            line("response_item", call),
            line("response_item", output),
            String::new(),
            line("response_item", call),
            line("response_item", output),
            line("event_msg", r#"{"type":"agent_message","message":"One."}"#),
            message("assistant", "Ünd?"),
            line("event_msg", r#"{"type":"task_complete"}"#),
            message("user", "Second."),
        ];
        assert_eq!(check(Format::Codex, &lines.join("\n")), 0, "nothing is read twice");
        let events = [
            line("session_meta", r#"{"id":"r1","cwd":"/w"}"#),
            line("event_msg", r#"{"type":"user_message","message":"First."}"#),
            message("user", "First."),
        ];
        assert!(check(Format::Codex, &events.join("\n")) > 0, "the event repeats the message");
    }

    #[test]
    fn a_damaged_line_does_not_stop_live_capture() {
        let text = [
            said("u1", "", "user", "First."),
            "{\"type\":\"user\",\"mess".to_owned() + &said("u2", "u1", "user", "Torn."),
            said("u3", "u1", "assistant", "Third."),
        ];
        let (found, _) = read(Format::ClaudeCode, &[&(text.join("\n") + "\n")]);
        assert_eq!(found["claude-code:s"].0.len(), 2);
    }
}
