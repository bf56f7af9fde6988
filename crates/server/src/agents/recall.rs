//! Recall: hooks give an agent a context when a session starts, resumes or was compacted.

use serde_json::{Value, json};

use super::CodingAgent;

/// The event that triggers a recall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecallTrigger {
    /// A session starts, resumes or was cleared.
    Start,
    /// The agent's context was compacted.
    Compaction,
    /// The user sent this prompt.
    Prompt(String),
}

/// A hook call that may be answered with a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallRequest {
    /// The agent.
    pub agent: CodingAgent,
    /// The trigger.
    pub trigger: RecallTrigger,
    /// The folder that the agent works in.
    pub folder: String,
    /// The key of the calling session.
    pub key: Option<String>,
}

impl RecallRequest {
    /// Reads the input of a hook; `None` if the event triggers no recall.
    #[must_use]
    pub fn of(agent: CodingAgent, input: &str) -> Option<Self> {
        let input: Value = serde_json::from_str(input).ok()?;
        let event = input["hook_event_name"].as_str()?;
        let trigger = match (agent, event) {
            (CodingAgent::ClaudeCode | CodingAgent::Codex, "SessionStart") => {
                match input["source"].as_str() {
                    Some("compact") => RecallTrigger::Compaction,
                    _ => RecallTrigger::Start,
                }
            }
            (CodingAgent::Cursor | CodingAgent::OpenCode, "sessionStart") => RecallTrigger::Start,
            (CodingAgent::OpenCode, "sessionCompacted") => RecallTrigger::Compaction,
            // Cursor's prompt hook cannot add context.
            (CodingAgent::ClaudeCode | CodingAgent::Codex, "UserPromptSubmit") => {
                RecallTrigger::Prompt(input["prompt"].as_str()?.to_owned())
            }
            _ => return None,
        };
        let folder = input["cwd"].as_str().or_else(|| input["workspace_roots"][0].as_str())?;
        let session = input["session_id"].as_str().or_else(|| input["conversation_id"].as_str());
        let key = session.map(|session| match agent {
            CodingAgent::ClaudeCode | CodingAgent::Codex => format!("{agent}:{session}"),
            _ => format!("{agent}/{session}"),
        });
        Some(Self { agent, trigger, folder: folder.to_owned(), key })
    }

    /// The hook's output, in the form that the agent reads.
    #[must_use]
    pub fn reply(&self, text: &str) -> String {
        match self.agent {
            CodingAgent::ClaudeCode | CodingAgent::Codex => {
                let event = match self.trigger {
                    RecallTrigger::Prompt(_) => "UserPromptSubmit",
                    RecallTrigger::Start | RecallTrigger::Compaction => "SessionStart",
                };
                let output = json!({ "hookEventName": event, "additionalContext": text });
                json!({ "hookSpecificOutput": output }).to_string()
            }
            _ => json!({ "additional_context": text }).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(agent: CodingAgent, input: &Value) -> Option<(RecallTrigger, String, Option<String>)> {
        let request = RecallRequest::of(agent, &input.to_string())?;
        Some((request.trigger, request.folder, request.key))
    }

    #[test]
    fn sessions_that_start_or_were_compacted_trigger_a_recall() {
        let claude = |event: &str, source: &str| {
            json!({ "hook_event_name": event, "source": source, "cwd": "/srv/shop",
                "session_id": "s1", "transcript_path": "/t.jsonl" })
        };
        for source in ["startup", "resume", "clear"] {
            let found = of(CodingAgent::ClaudeCode, &claude("SessionStart", source));
            let folder = "/srv/shop".to_owned();
            assert_eq!(
                found,
                Some((RecallTrigger::Start, folder, Some("claude-code:s1".into()))),
                "{source}"
            );
        }
        let compacted = of(CodingAgent::Codex, &claude("SessionStart", "compact"));
        assert_eq!(compacted.map(|it| it.0), Some(RecallTrigger::Compaction));
        assert_eq!(of(CodingAgent::ClaudeCode, &claude("Stop", "")), None);
        let cursor = json!({ "hook_event_name": "sessionStart", "conversation_id": "c",
            "workspace_roots": ["/srv/shop"] });
        let (trigger, _, key) = of(CodingAgent::Cursor, &cursor).unwrap();
        assert_eq!((trigger, key.as_deref()), (RecallTrigger::Start, Some("cursor/c")));
        assert_eq!(of(CodingAgent::ClaudeDesktop, &cursor), None);
        assert_eq!(RecallRequest::of(CodingAgent::Cursor, "no JSON"), None);
    }

    #[test]
    fn each_agent_gets_the_form_that_it_reads() {
        let request =
            |agent, trigger| RecallRequest { agent, trigger, folder: "/srv".into(), key: None };
        let parsed = |reply: String| serde_json::from_str::<Value>(&reply).unwrap();
        let claude = parsed(request(CodingAgent::ClaudeCode, RecallTrigger::Start).reply("a\nb"));
        assert_eq!(claude["hookSpecificOutput"]["additionalContext"], "a\nb");
        assert_eq!(claude["hookSpecificOutput"]["hookEventName"], "SessionStart");
        let prompt = RecallTrigger::Prompt("x".into());
        let prompt = parsed(request(CodingAgent::Codex, prompt).reply("a"));
        assert_eq!(prompt["hookSpecificOutput"]["hookEventName"], "UserPromptSubmit");
        let cursor = parsed(request(CodingAgent::Cursor, RecallTrigger::Start).reply("a"));
        assert_eq!(cursor["additional_context"], "a");
    }
}
