//! Claude Code console output, saved as text. `>` marks prompts, `⏺` marks answers and tool
//! calls, and `⎿` marks results.

mod furniture;

use furniture::Boxed;
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
    let mut console = Console { at, entries: Vec::new(), block: ConsoleBlock::None, in_box: false };
    let lines: Vec<&str> = text.lines().collect();
    let mut number = 0;
    while let Some(line) = lines.get(number) {
        let rest = &lines[number + 1..];
        let height = if line.starts_with('╭') { box_height(rest) } else { None };
        match height {
            Some(height) => {
                console.screen_box(&rest[..height], sink);
                number += height + 2;
            }
            None => {
                console.line(line, answer(line).is_some() && has_result(rest), sink);
                number += 1;
            }
        }
    }
    console.finish();
    console.entries
}

/// The number of lines inside a box that begins at the left edge of the screen.
fn box_height(rest: &[&str]) -> Option<usize> {
    let height = rest.iter().take_while(|line| line.starts_with('│')).count();
    rest.get(height).is_some_and(|line| line.starts_with('╰')).then_some(height)
}

/// Whether a result comes before the next prompt or answer.
fn has_result(rest: &[&str]) -> bool {
    let starts = |line: &str| prompt(line).is_some() || answer(line).is_some();
    let mut block = rest.iter().take_while(|line| !starts(line));
    block.any(|line| is_result(line))
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

/// Tools that may have no result, because the user stopped them.
const TOOLS: [&str; 12] = [
    "Bash", "Create", "Edit", "Fetch", "Glob", "Grep", "List", "Read", "Search", "Task", "Update",
    "Write",
];

/// The outcome of a plan: "User approved Claude's plan".
fn verdict(text: &str) -> Option<&str> {
    let text = text.trim().trim_end_matches(':');
    matches!(text, "User approved Claude's plan" | "User rejected Claude's plan").then_some(text)
}

/// Adds a line to a text, without the indent of the console.
fn add(text: &mut String, line: &str) {
    text.push('\n');
    text.push_str(line.strip_prefix("  ").unwrap_or(line));
}

fn is_at_edge(line: &str) -> bool {
    line.starts_with(|c: char| !c.is_whitespace())
}

fn is_command(prompt: &str) -> bool {
    let command = prompt.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    command.is_some_and(|word| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_:".contains(c)))
}

/// Whether a prompt is a slash command or was written by the program itself.
fn is_inserted(prompt: &str) -> bool {
    is_command(prompt)
        || prompt.starts_with("This session is being continued from a previous conversation")
}

enum ConsoleBlock {
    None,
    Prompt(String),
    /// Program output that belongs to no tool call, such as the output of a command.
    Note(String),
    Answer(String),
    /// A plan that the assistant presented, with or without a result mark.
    Plan(String),
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
    /// Whether the lines are inside an indented box.
    in_box: bool,
}

impl Console {
    fn line(&mut self, line: &str, result_follows: bool, sink: &mut Sink<'_>) {
        if let Some(text) = prompt(line) {
            self.open(ConsoleBlock::Prompt(text.to_owned()));
            return;
        }
        let uncosted = furniture::without_cost(line).filter(|_| answer(line).is_some());
        if uncosted.is_some() {
            sink.skip(furniture::COST);
        }
        let line = uncosted.unwrap_or(line);
        if let Some(text) = answer(line) {
            self.answer(text, result_follows);
        } else if line.starts_with("✻ Thinking") {
            self.open(ConsoleBlock::Thinking(String::new()));
        } else if let Some(reason) = furniture::reason(line).filter(|_| !self.is_output(line)) {
            sink.skip(reason);
        } else if line.starts_with("Total cost:") && furniture::is_cost(line) {
            // The account of a session is its last word.
            self.open(ConsoleBlock::None);
            sink.skip(furniture::COST);
        } else if is_result(line) && !matches!(self.block, ConsoleBlock::Call { .. }) {
            self.note(line, sink);
        } else {
            self.grow(line, sink);
        }
    }

    fn answer(&mut self, text: &str, result_follows: bool) {
        if let Some(verdict) = verdict(text) {
            self.open(ConsoleBlock::Note(verdict.to_owned()));
            self.open(ConsoleBlock::Plan(String::new()));
            return;
        }
        self.open(match call(text) {
            Some((name, args)) if result_follows || TOOLS.contains(&name) => ConsoleBlock::Call {
                name: name.to_owned(),
                args: args.to_owned(),
                results: Vec::new(),
            },
            _ => ConsoleBlock::Answer(text.to_owned()),
        });
    }

    /// A result mark that follows no tool call.
    fn note(&mut self, line: &str, sink: &mut Sink<'_>) {
        let unhinted = furniture::without_hint(line);
        let line = unhinted.as_deref().unwrap_or(line);
        let text = line.split_once('⎿').map_or("", |(_, text)| text.trim());
        if furniture::is_cost(text) {
            sink.skip(furniture::COST);
        } else if text.eq_ignore_ascii_case("(no content)") {
            sink.skip(furniture::EMPTY);
        } else if let Some(verdict) = verdict(text) {
            self.open(ConsoleBlock::Note(verdict.to_owned()));
            self.open(ConsoleBlock::Plan(String::new()));
        } else if let ConsoleBlock::Note(body) | ConsoleBlock::Plan(body) = &mut self.block {
            body.push('\n');
            body.push_str(text);
        } else {
            self.open(ConsoleBlock::Note(text.to_owned()));
        }
    }

    /// A box at the left edge: the banner of the program, or the field where the user types.
    fn screen_box(&mut self, lines: &[&str], sink: &mut Sink<'_>) {
        let inner: Vec<&str> = lines
            .iter()
            .map(|line| match furniture::unboxed(line, true) {
                Boxed::Inside(text) => text,
                _ => "",
            })
            .collect();
        sink.skip(furniture::FRAME);
        sink.skip(furniture::FRAME);
        if inner.iter().any(|line| line.contains("Welcome to ") || line.contains("cwd: ")) {
            self.open(ConsoleBlock::None);
            inner.iter().for_each(|_| sink.skip(furniture::FRAME));
        } else if let Some(typed) = inner.first().and_then(|line| prompt(line)) {
            let text = [&[typed], &inner[1..]].concat().join("\n");
            self.open(ConsoleBlock::Prompt(text.trim().to_owned()));
        } else {
            inner.iter().for_each(|line| self.grow(line, sink));
        }
    }

    /// Whether a line was printed by a tool, which is kept as it is. Output is indented.
    fn is_output(&self, line: &str) -> bool {
        let has_begun = match &self.block {
            ConsoleBlock::Call { results, .. } => !results.is_empty(),
            _ => false,
        };
        has_begun && line.starts_with("     ")
    }

    fn grow(&mut self, line: &str, sink: &mut Sink<'_>) {
        let unhinted = match self.block {
            ConsoleBlock::Prompt(_) => None,
            _ => furniture::without_hint(line),
        };
        let line = unhinted.as_deref().unwrap_or(line);
        match &mut self.block {
            ConsoleBlock::None if line.trim().is_empty() => {}
            ConsoleBlock::None if furniture::is_cost(line) => sink.skip(furniture::COST),
            ConsoleBlock::None if self.entries.is_empty() => {
                sink.skip("lines before the first prompt");
            }
            ConsoleBlock::None | ConsoleBlock::Note(_) if furniture::is_shell(line) => {
                sink.skip("shell prompts");
            }
            // The program indents its output, so a person wrote what begins at the left edge.
            ConsoleBlock::None | ConsoleBlock::Note(_) if is_at_edge(line) => {
                self.open(ConsoleBlock::Prompt(line.to_owned()));
            }
            ConsoleBlock::Prompt(text) if is_command(text) && is_at_edge(line) => {
                self.open(ConsoleBlock::Prompt(line.to_owned()));
            }
            ConsoleBlock::None => sink.skip("lines between sessions"),
            ConsoleBlock::Prompt(text) if is_command(text) && furniture::is_cost(line) => {
                sink.skip(furniture::COST);
            }
            ConsoleBlock::Prompt(text) | ConsoleBlock::Thinking(text) => add(text, line),
            ConsoleBlock::Note(text) | ConsoleBlock::Answer(text) | ConsoleBlock::Plan(text) => {
                let framed = furniture::unboxed(line, self.in_box);
                match framed {
                    Boxed::Top | Boxed::Bottom => {
                        self.in_box = framed == Boxed::Top;
                        sink.skip(furniture::FRAME);
                    }
                    Boxed::Inside(inner) => add(text, inner),
                    Boxed::Outside if furniture::is_cost(line) => sink.skip(furniture::COST),
                    Boxed::Outside => add(text, line),
                }
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
        self.in_box = false;
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
            ConsoleBlock::Answer(text) | ConsoleBlock::Plan(text) => {
                message(Role::Assistant, &text, self.at)
            }
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
                let outcome = (!results.is_empty()).then(|| ToolResult {
                    result: Json::string(&result),
                    success: Some(success),
                    duration_ms: None,
                });
                let args = args.trim_end_matches('…').trim_end_matches(')');
                let args = if args.is_empty() { args_of("{}") } else { Json::string(args) };
                let call = NewToolCall { name, args, outcome, at: self.at, external_id: None };
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
    if let Some(args) = text.strip_prefix("Web Search(") {
        return Some(("Web Search", args));
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
