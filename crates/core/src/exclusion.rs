//! Exclusions from capture: folders whose conversations are not stored, and patterns whose
//! matches are left out.

use std::ops::Range;

use crate::entry::{Entry, EntryKind};
use crate::folder::is_at_or_below;
use crate::json::Json;
use crate::tool::{NewToolCall, ToolResult};

/// Replaces excluded text.
const MARKER: &str = "[excluded]";

/// The folders and patterns that are excluded from capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureExclusions {
    /// Conversations in these folders, and below them, are not stored. The paths are normalized.
    pub folders: Vec<String>,
    /// Words and file names that match one of these patterns are left out. `*` stands for any
    /// characters and `?` for one; case does not matter.
    pub patterns: Vec<String>,
}

impl CaptureExclusions {
    /// Whether a conversation with this working directory and project path is excluded.
    #[must_use]
    pub fn exclude_folder(&self, cwd: Option<&str>, project_path: Option<&str>) -> bool {
        let is_excluded = |path: &str| self.folders.iter().any(|it| is_at_or_below(path, it));
        cwd.is_some_and(is_excluded) || project_path.is_some_and(is_excluded)
    }

    /// Leaves out what matches a pattern, and returns the number of matches. A tool call with a
    /// match in its arguments, such as the name of a file that it reads, also loses its result.
    pub fn apply(&self, entry: &mut Entry) -> u32 {
        if self.patterns.is_empty() {
            return 0;
        }
        match &mut entry.kind {
            EntryKind::Message(message) => {
                let mut count = 0;
                message.for_each_content(|text, parts| {
                    let of_parts = parts.map_or(0, |parts| self.clean_json(parts));
                    count += self.clean(text).max(of_parts);
                });
                count
            }
            EntryKind::ToolCall(call) => self.clean_call(call),
            EntryKind::ToolResult { outcome, .. } => self.clean_json(&mut outcome.result),
            EntryKind::Fork { .. } | EntryKind::TurnEnd => 0,
        }
    }

    fn clean_call(&self, call: &mut NewToolCall) -> u32 {
        let matches = self.clean_json(&mut call.args);
        if matches == 0 {
            return call.outcome.as_mut().map_or(0, |it| self.clean_json(&mut it.result));
        }
        // The call counts as finished, so that a result that arrives later is not stored.
        let (success, duration_ms) =
            call.outcome.as_ref().map_or((None, None), |it| (it.success, it.duration_ms));
        call.outcome = Some(ToolResult { result: Json::string(MARKER), success, duration_ms });
        matches
    }

    /// Leaves out the words of a text that match a pattern, and returns their number.
    pub fn clean(&self, text: &mut String) -> u32 {
        let matches = self.matches(text);
        for range in matches.iter().rev() {
            text.replace_range(range.clone(), MARKER);
        }
        u32::try_from(matches.len()).unwrap_or(u32::MAX)
    }

    fn clean_json(&self, json: &mut Json) -> u32 {
        let mut count = 0;
        let cleaned = json.with_strings(|text| {
            let mut text = text.to_owned();
            let matches = self.clean(&mut text);
            count += matches;
            (matches > 0).then_some(text)
        });
        if let Some(cleaned) = cleaned {
            *json = cleaned;
        }
        count
    }

    /// The words of a text that match a pattern, whole or by the last part of their path.
    fn matches(&self, text: &str) -> Vec<Range<usize>> {
        let is_separator = |c: char| c.is_whitespace() || "\"'`()[]{}<>,;|".contains(c);
        let mut found = Vec::new();
        for word in text.split(is_separator) {
            let word = word.trim_end_matches(['.', ':', '!', '?']);
            let name = word.rsplit(['/', '\\', '=']).next().unwrap_or(word);
            let is_match = |it: &String| is_like(word, it) || is_like(name, it);
            if !word.is_empty() && self.patterns.iter().any(is_match) {
                let start = word.as_ptr() as usize - text.as_ptr() as usize;
                found.push(start..start + word.len());
            }
        }
        found
    }
}

/// Whether a text matches a pattern as a whole, ignoring case.
fn is_like(text: &str, pattern: &str) -> bool {
    let text: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let pattern: Vec<char> = pattern.chars().flat_map(char::to_lowercase).collect();
    // For each prefix of the text, whether the pattern so far matches it.
    let mut row: Vec<bool> = (0..=text.len()).map(|length| length == 0).collect();
    for sign in pattern {
        let mut next = vec![sign == '*' && row[0]; text.len() + 1];
        for (at, letter) in text.iter().enumerate() {
            next[at + 1] = match sign {
                '*' => next[at] || row[at + 1],
                '?' => row[at],
                sign => row[at] && sign == *letter,
            };
        }
        row = next;
    }
    row[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{NewMessage, Role};
    use crate::time::Timestamp;

    fn exclusions(patterns: &[&str]) -> CaptureExclusions {
        CaptureExclusions {
            folders: vec!["/work/secret".into()],
            patterns: patterns.iter().map(ToString::to_string).collect(),
        }
    }

    fn check(patterns: &[&str], text: &str, kept: &str) {
        let at = Timestamp::from_micros(0);
        let mut entry: Entry = EntryKind::Message(NewMessage::new(Role::User, text, at)).into();
        exclusions(patterns).apply(&mut entry);
        let EntryKind::Message(message) = entry.kind else { panic!("it stays a message") };
        assert_eq!(message.text, kept, "{patterns:?}");
    }

    #[test]
    fn words_and_file_names_are_left_out() {
        check(&[], "see ACME-12", "see ACME-12");
        check(&["acme-*"], "see (ACME-12), or ACME.", "see ([excluded]), or ACME.");
        check(&[".env"], "cat /srv/app/.env: done", "cat [excluded]: done");
        check(&["*.pem"], "key=/a/b.pem b.pemx", "[excluded] b.pemx");
        check(&["b?d"], "bad bd béd", "[excluded] bd [excluded]");
        check(&["*"], "all gone", "[excluded] [excluded]");
    }

    #[test]
    fn a_call_that_names_an_excluded_file_loses_its_result() {
        let outcome = ToolResult::of_parts(Some(Json::string("KEY=1")), Some(true), None);
        let call = |args: &str| NewToolCall {
            name: "read".into(),
            args: Json::new(args).unwrap(),
            outcome: outcome.clone(),
            at: Timestamp::from_micros(0),
            external_id: None,
        };
        let mut named = Entry::from(EntryKind::ToolCall(call(r#"{"path":"/app/.env","n":1.0}"#)));
        assert_eq!(exclusions(&[".env"]).apply(&mut named), 1);
        let EntryKind::ToolCall(named) = named.kind else { panic!("it stays a call") };
        assert_eq!(named.args.as_str(), r#"{"path":"[excluded]","n":1.0}"#);
        assert_eq!(named.outcome.unwrap().result, Json::string(MARKER));
        let mut other = Entry::from(EntryKind::ToolCall(call(r#"{"path":"/app/x"}"#)));
        assert_eq!(exclusions(&[".env"]).apply(&mut other), 0);
    }

    #[test]
    fn folders_are_excluded_with_everything_below_them() {
        let excluded = exclusions(&[]);
        assert!(excluded.exclude_folder(Some("/work/secret/x"), None));
        assert!(excluded.exclude_folder(Some("/other"), Some("/work/secret")));
        assert!(!excluded.exclude_folder(Some("/work/secrets"), None));
        assert!(!excluded.exclude_folder(None, None));
    }
}
