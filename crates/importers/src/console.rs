//! Claude Code console output, saved as text. `>` marks prompts, `⏺` marks answers and tool
//! calls, and `⎿` marks results.

use treering_core::{EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, ToolResult};

use super::{Sink, args_of};

/// Whether a text is console output: it has at least one prompt and one answer.
pub(super) fn is_console(text: &str) -> bool {
    let answers = text.lines().any(|line| answer(line).is_some());
    answers && text.lines().any(|line| prompt(line).is_some())
}

/// The working directory in the banner.
pub(super) fn cwd(text: &str) -> Option<String> {
    let line =
        text.lines().take(20).find(|line| line.starts_with('│') && line.contains("cwd: "))?;
    Some(line.split_once("cwd: ")?.1.trim_end_matches([' ', '│']).to_owned())
}

pub(super) fn read(text: &str, at: Timestamp, sink: &mut Sink<'_>) -> Vec<EntryKind> {
    let mut console = Console { at, entries: Vec::new(), block: ConsoleBlock::None };
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let next = lines[number + 1..].iter().copied().find(|line| !line.trim().is_empty());
        console.line(line, next.is_some_and(is_result), sink);
    }
    console.finish();
    console.entries
}

fn prompt(line: &str) -> Option<&str> {
    let rest = line.strip_prefix('>').or_else(|| line.strip_prefix('❯'))?;
    rest.is_empty().then_some(rest).or_else(|| rest.strip_prefix([' ', '\u{a0}']))
}

fn answer(line: &str) -> Option<&str> {
    line.strip_prefix("⏺ ").or_else(|| line.strip_prefix("● "))
}

fn is_result(line: &str) -> bool {
    line.trim_start().starts_with('⎿')
}

/// Whether a line is a frame, tip or spinner and not part of the conversation.
fn is_chrome(line: &str) -> bool {
    let spinner =
        line.starts_with(['✻', '✽', '✳', '✢', '·', '✶']) && !line.starts_with("✻ Thinking");
    let compacted = line.starts_with("===") && line.contains("Previous Conversation Compacted");
    line.starts_with(['╭', '│', '╰']) || line.trim_start().starts_with('※') || spinner || compacted
}

/// Whether a prompt is a slash command or was written by the program itself.
fn is_inserted(prompt: &str) -> bool {
    let command = prompt.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    command.is_some_and(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c)))
        || prompt.starts_with("This session is being continued from a previous conversation")
}

enum ConsoleBlock {
    None,
    Prompt(String),
    /// Program output that belongs to no tool call: the output of a command, or the final cost.
    Note(String),
    Answer(String),
    Thinking(String),
    Call {
        name: String,
        args: String,
        results: Vec<String>,
    },
}

struct Console {
    at: Timestamp,
    entries: Vec<EntryKind>,
    block: ConsoleBlock,
}

impl Console {
    fn line(&mut self, line: &str, result_follows: bool, sink: &mut Sink<'_>) {
        if let Some(text) = prompt(line) {
            self.open(ConsoleBlock::Prompt(text.to_owned()));
        } else if let Some(text) = answer(line) {
            self.open(match call(text) {
                Some((name, args)) if result_follows => ConsoleBlock::Call {
                    name: name.to_owned(),
                    args: args.to_owned(),
                    results: Vec::new(),
                },
                _ => ConsoleBlock::Answer(text.to_owned()),
            });
        } else if line.starts_with("✻ Thinking") {
            self.open(ConsoleBlock::Thinking(String::new()));
        } else if is_chrome(line) {
            sink.skip("lines of the terminal's frame");
        } else if line.starts_with("Total cost:") {
            self.open(ConsoleBlock::Note(line.to_owned()));
        } else if let (ConsoleBlock::Prompt(_), true, Some((_, note))) =
            (&self.block, is_result(line), line.split_once('⎿'))
        {
            self.open(ConsoleBlock::Note(note.trim_start().to_owned()));
        } else {
            self.grow(line, sink);
        }
    }

    fn grow(&mut self, line: &str, sink: &mut Sink<'_>) {
        match &mut self.block {
            ConsoleBlock::None if line.trim().is_empty() => {}
            ConsoleBlock::None => sink.skip("lines before the first prompt"),
            ConsoleBlock::Prompt(text)
            | ConsoleBlock::Note(text)
            | ConsoleBlock::Answer(text)
            | ConsoleBlock::Thinking(text) => {
                text.push('\n');
                text.push_str(line.strip_prefix("  ").unwrap_or(line));
            }
            ConsoleBlock::Call { results, .. } if is_result(line) => {
                let (_, rest) = line.split_once('⎿').unwrap_or(("", line));
                results.push(rest.trim_start().to_owned());
            }
            ConsoleBlock::Call { args, results, .. } => match results.last_mut() {
                Some(result) => {
                    result.push('\n');
                    result.push_str(line.strip_prefix("     ").unwrap_or(line));
                }
                // A long command wraps before its result begins.
                None if !line.trim().is_empty() => {
                    args.push('\n');
                    args.push_str(line.trim());
                }
                None => {}
            },
        }
    }

    fn open(&mut self, block: ConsoleBlock) {
        self.finish();
        self.block = block;
    }

    fn finish(&mut self) {
        let message = |role, text: &str, at| {
            let text = text.trim();
            (!text.is_empty()).then(|| EntryKind::Message(NewMessage::new(role, text, at)))
        };
        let kind = match std::mem::replace(&mut self.block, ConsoleBlock::None) {
            ConsoleBlock::None => None,
            ConsoleBlock::Prompt(text) if is_inserted(&text) => {
                message(Role::System, &text, self.at)
            }
            ConsoleBlock::Prompt(text) => message(Role::User, &text, self.at),
            ConsoleBlock::Note(text) => message(Role::System, &text, self.at),
            ConsoleBlock::Answer(text) => message(Role::Assistant, &text, self.at),
            ConsoleBlock::Thinking(text) if text.trim().is_empty() => None,
            ConsoleBlock::Thinking(text) => {
                let mut thought = NewMessage::new(Role::Assistant, "", self.at);
                thought.parts = Some(Json::string(text.trim()));
                Some(EntryKind::Message(thought))
            }
            ConsoleBlock::Call { name, args, results } => {
                let result = results.join("\n").trim_end().to_owned();
                let failed = ["Error:", "Interrupted by user", "User rejected", "No ("];
                let success = !failed.iter().any(|marker| result.starts_with(marker));
                let outcome = ToolResult {
                    result: Json::string(&result),
                    success: Some(success),
                    duration_ms: None,
                };
                let args = args.trim_end_matches('…').trim_end_matches(')');
                let args = if args.is_empty() { args_of("{}") } else { Json::string(args) };
                let call = NewToolCall {
                    name,
                    args,
                    outcome: Some(outcome),
                    at: self.at,
                    external_id: None,
                };
                Some(EntryKind::ToolCall(call))
            }
        };
        self.entries.extend(kind);
    }
}

/// Parses `Bash(ls)`, `server - tool (MCP)(args)` or `Update Todos` into a name and arguments.
/// The arguments keep their closing parenthesis.
fn call(text: &str) -> Option<(&str, &str)> {
    if let Some((name, args)) = text.split_once(" (MCP)(") {
        return Some((name, args));
    }
    if let Some((name, args)) = text.split_once('(') {
        let is_tool_name = name.chars().next().is_some_and(char::is_uppercase)
            && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        return is_tool_name.then_some((name, args));
    }
    matches!(text.trim_end(), "Update Todos" | "Read Todos").then_some((text.trim_end(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_distinguished_from_prose() {
        assert_eq!(call("Bash(tree -h .)"), Some(("Bash", "tree -h .)")));
        assert_eq!(call("gauge - read (MCP)(station: 4)"), Some(("gauge - read", "station: 4)")));
        assert_eq!(call("I read the file (twice)"), None);
        assert_eq!(call("Update Todos"), Some(("Update Todos", "")));
    }
}
