//! Markdown transcripts: speakers as headings, in bold, or at the start of a line, SpecStory
//! files, and Claude Code console output.

use treering_core::{
    Entry, EntryKind, Json, NewMessage, NewToolCall, Role, Timestamp, TitleSource, ToolResult,
};

use super::console;
use super::{Format, ImportError, ImportedConversation, Sink, SourceFile};

/// The notation that marks speakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `## User`
    Heading(usize),
    /// `**User:** …`
    Bold,
    /// `User: …`
    Plain,
    /// `_**User (time)**_`
    SpecStory,
}

/// A line that starts a new speaker.
#[derive(Debug, PartialEq, Eq)]
struct Marker<'a> {
    style: Style,
    role: Role,
    name: &'a str,
    at: Option<Timestamp>,
    rest: &'a str,
}

/// Whether a text looks like a transcript: it has a user and an assistant.
pub(super) fn is_transcript(text: &str) -> bool {
    console::is_console(text) || style_of(text).is_some()
}

pub(super) fn read(source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
    let front = FrontMatter::of(&source.text);
    let at = front.date.unwrap_or(source.modified);
    let entries = if console::is_console(&source.text) {
        console::read(&source.text, at, sink)
    } else if let Some(style) = style_of(&source.text) {
        speakers(&source.text, style, at, sink)
    } else {
        return Err(ImportError(
            "it has no speakers; mark them as `## User`, `**User:**` or `User:`, and include at \
             least one answer"
                .into(),
        ));
    };
    let entries = entries.into_iter().map(Entry::from).collect();
    let mut imported = ImportedConversation::unnamed(Format::Markdown, entries);
    if let Some(imported) = &mut imported {
        imported.conversation.title = front.title;
        imported.conversation.title_source = TitleSource::Source;
        imported.conversation.cwd = console::cwd(&source.text);
    }
    sink.emit_unnamed(imported)
}

/// The metadata before the first speaker.
struct FrontMatter {
    title: Option<String>,
    date: Option<Timestamp>,
}

impl FrontMatter {
    fn of(text: &str) -> Self {
        let mut front = Self { title: None, date: None };
        let mut lines = text.lines();
        let mut heading = None;
        if text.starts_with("---") {
            lines.next();
            for line in lines.by_ref().take_while(|line| line.trim() != "---") {
                let Some((key, value)) = line.split_once(':') else { continue };
                let value = value.trim().trim_matches(['"', '\'']);
                match key.trim() {
                    "title" if !value.is_empty() => front.title = Some(value.to_owned()),
                    "date" | "created" | "created_at" => front.date = value.parse().ok(),
                    _ => {}
                }
            }
        }
        for line in lines.take_while(|line| marker(line).is_none()) {
            if let Some(title) = line.strip_prefix("# ") {
                heading = heading.or(Some(title.trim()));
            }
        }
        // A heading that is only a date is not a title.
        let dated = heading.and_then(|heading| heading.parse().ok());
        front.date = front.date.or(dated);
        front.title = front.title.or(heading.filter(|_| dated.is_none()).map(str::to_owned));
        front
    }
}

/// The first style that marks both a user and an assistant.
fn style_of(text: &str) -> Option<Style> {
    let mut markers: Vec<(Style, Role)> = Vec::new();
    for (line, _) in outside_fences(text).filter(|(_, fenced)| !fenced) {
        let found = marker(line).map(|marker| (marker.style, marker.role));
        markers.extend(found.filter(|found| !markers.contains(found)));
    }
    let has_both_speakers = |style: Style| {
        let has = |role: Role| markers.contains(&(style, role));
        has(Role::User) && has(Role::Assistant)
    };
    markers.iter().map(|(style, _)| *style).find(|style| has_both_speakers(*style))
}

/// The lines, and whether each is inside a fenced block or a `<details>` element.
fn outside_fences(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let mut fence: Option<String> = None;
    let mut folded = false;
    text.lines().map(move |line| {
        let trimmed = line.trim_start();
        let fence_mark: String = trimmed.chars().take_while(|c| matches!(c, '`' | '~')).collect();
        let is_fence = fence_mark.len() >= 3 && line.len() - trimmed.len() < 4;
        match &fence {
            Some(open) => {
                if is_fence
                    && fence_mark.starts_with(open.as_str())
                    && trimmed[fence_mark.len()..].trim().is_empty()
                {
                    fence = None;
                }
                (line, true)
            }
            None if is_fence => {
                fence = Some(fence_mark);
                (line, true)
            }
            None => {
                let before = folded;
                if line.contains("<details") {
                    folded = true;
                }
                if line.contains("</details>") {
                    folded = false;
                }
                (line, before || folded)
            }
        }
    })
}

fn marker(line: &str) -> Option<Marker<'_>> {
    if let Some(inner) = line.trim().strip_prefix("_**").and_then(|rest| rest.strip_suffix("**_")) {
        return speaker(inner, "", Style::SpecStory);
    }
    if line.starts_with('#') {
        let level = line.bytes().take_while(|b| *b == b'#').count();
        let title = line[level..].strip_prefix(' ')?;
        return speaker(title.trim_end_matches(':'), "", Style::Heading(level));
    }
    if let Some(rest) = line.strip_prefix("**") {
        let (name, rest) = rest.split_once("**")?;
        if let Some(name) = name.strip_suffix(':') {
            return speaker(name, rest.trim_start(), Style::Bold);
        }
        // `**User**:` or `**User** _(time)_:`
        let (extra, rest) = rest.split_once(':').map_or(("", rest), |(extra, rest)| {
            // A colon may be part of the time.
            match rest.split_once("_:") {
                Some((more, rest)) => {
                    (&line[name.len() + 4..name.len() + 4 + extra.len() + 1 + more.len()], rest)
                }
                None => (extra, rest),
            }
        });
        let time = time_in(extra);
        let marker = speaker(name, rest.trim_start(), Style::Bold)?;
        return (time.is_some() || extra.trim().is_empty())
            .then_some(Marker { at: time, ..marker });
    }
    let (name, rest) = line.split_once(':')?;
    let known = !name.starts_with(' ') && role_of(name).is_some();
    known.then(|| speaker(name, rest.trim_start(), Style::Plain)).flatten()
}

/// Parses a speaker's name, followed by a time in parentheses or the name of a tool.
fn speaker<'a>(name: &'a str, rest: &'a str, style: Style) -> Option<Marker<'a>> {
    let name = name.trim().trim_start_matches(|c: char| !c.is_alphanumeric()).trim_end();
    let (full, extra) = name.find(['(', '—']).map_or((name, ""), |at| name.split_at(at));
    // `Agent - sidechain`, `Tool: search`
    let (role_name, detail) =
        full.split_once(" - ").or_else(|| full.split_once(':')).unwrap_or((full, ""));
    let role = role_of(role_name)?;
    let name = if role == Role::Tool { detail.trim() } else { role_name.trim() };
    Some(Marker { style, role, name, at: time_in(extra), rest })
}

fn role_of(name: &str) -> Option<Role> {
    let name = name.trim().to_ascii_lowercase();
    match name.as_str() {
        "user" | "human" | "you" | "me" | "prompt" => Some(Role::User),
        "assistant" | "ai" | "claude" | "chatgpt" | "gpt" | "model" | "bot" | "agent"
        | "response" | "codex" | "gemini" | "copilot" => Some(Role::Assistant),
        "system" => Some(Role::System),
        "tool" | "tool result" | "tool call" | "tool output" | "tool use" => Some(Role::Tool),
        _ => None,
    }
}

/// Finds a timestamp in a text.
fn time_in(text: &str) -> Option<Timestamp> {
    let words: Vec<&str> =
        text.split(['(', ')', ' ', '_', ',']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find_map(|pair| format!("{}T{}", pair[0], pair[1]).parse().ok());
    pair.or_else(|| words.iter().find_map(|word| word.parse().ok()))
}

fn speakers(text: &str, style: Style, start: Timestamp, sink: &mut Sink<'_>) -> Vec<EntryKind> {
    let mut entries = Vec::new();
    let mut current: Option<(Role, String, Option<Timestamp>)> = None;
    let mut body = String::new();
    let mut clock = start;
    let mut finish = |speaker: &mut Option<(Role, String, Option<Timestamp>)>,
                      body: &mut String| {
        let text = std::mem::take(body);
        let Some((role, name, at)) = speaker.take() else {
            if !text.trim().is_empty() {
                sink.skip("lines before the first speaker");
            }
            return;
        };
        clock = at.unwrap_or(clock);
        let text = text.trim();
        let text = if style == Style::SpecStory {
            specstory(text, clock, &mut entries)
        } else {
            text.trim_end_matches("\n---").trim_end().to_owned()
        };
        if !text.is_empty() {
            let mut message = NewMessage::new(role, text, clock);
            message.author =
                ((role == Role::Tool && !name.is_empty()) || is_name(&name)).then_some(name);
            entries.push(EntryKind::Message(message));
        }
    };
    for (line, fenced) in outside_fences(text) {
        match marker(line).filter(|marker| !fenced && marker.style == style) {
            Some(marker) => {
                finish(&mut current, &mut body);
                current = Some((marker.role, marker.name.to_owned(), marker.at));
                body = format!("{}\n", marker.rest);
            }
            None => {
                body.push_str(line);
                body.push('\n');
            }
        }
    }
    finish(&mut current, &mut body);
    entries
}

/// Whether a speaker's label is a name and not just a role.
fn is_name(word: &str) -> bool {
    const NAMES: [&str; 6] = ["claude", "chatgpt", "gpt", "codex", "gemini", "copilot"];
    NAMES.contains(&word.to_ascii_lowercase().as_str())
}

/// Extracts SpecStory's folded blocks: thinking as message parts, tool uses as tool calls.
/// Returns the remaining text.
fn specstory(text: &str, at: Timestamp, entries: &mut Vec<EntryKind>) -> String {
    let text = text.trim_end_matches("\n---").trim();
    let text = without_blocks(text, "<think>", "</think>", |block| {
        let mut message = NewMessage::new(Role::Assistant, "", at);
        message.parts = Some(Json::string(block));
        entries.push(EntryKind::Message(message));
    });
    let text = without_blocks(&text, "<tool-use", "</tool-use>", |block| {
        let name = block.split("data-tool-name=\"").nth(1).and_then(|rest| rest.split('"').next());
        let result = block.split_once("</summary>").map_or("", |(_, result)| result);
        let outcome = ToolResult {
            result: Json::string(result.trim().trim_end_matches("</details>").trim()),
            success: None,
            duration_ms: None,
        };
        entries.push(EntryKind::ToolCall(NewToolCall {
            name: name.unwrap_or("tool").to_owned(),
            args: super::args_of("{}"),
            outcome: Some(outcome),
            at,
            external_id: None,
        }));
    });
    text.trim().to_owned()
}

/// Calls `take` for each part of a text between two marks, and returns the rest of the text.
fn without_blocks(text: &str, open: &str, close: &str, mut take: impl FnMut(&str)) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, block)) = rest.split_once(open)
        && let Some((block, after)) = block.split_once(close)
    {
        kept.push_str(before);
        take(block);
        rest = after.trim_start();
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time is that of one pass, however many blocks there are.
    #[test]
    fn blocks_are_taken_out_in_one_pass() {
        let text = format!("a {}b <think>c", "<think>x</think> ".repeat(200_000));
        let mut blocks = 0;
        let kept = without_blocks(&text, "<think>", "</think>", |block| {
            assert_eq!(block, "x");
            blocks += 1;
        });
        assert_eq!((kept.as_str(), blocks), ("a b <think>c", 200_000));
        let one_speaker = "User: x\n".repeat(200_000);
        assert_eq!(style_of(&one_speaker), None);
        assert_eq!(style_of(&format!("{one_speaker}AI: y")), Some(Style::Plain));
    }

    #[test]
    fn markers_are_distinguished_from_text() {
        let check = |line: &str, expected: Option<(Role, &str)>| {
            assert_eq!(marker(line).map(|marker| (marker.role, marker.rest)), expected, "{line}");
        };
        check("## User", Some((Role::User, "")));
        check("### 🤖 Assistant (2026-01-18 20:16)", Some((Role::Assistant, "")));
        check("## Users of the tool", None);
        check("**User:** hello", Some((Role::User, "hello")));
        check("**User**: hello", Some((Role::User, "hello")));
        check("**User** _(2026-02-02 07:40)_: hi", Some((Role::User, "hi")));
        check("**Note:** hello", None);
        check("- **User:** hello", None);
        check("Human: hi: there", Some((Role::User, "hi: there")));
        check("Reason: none", None);
        check("_**Agent (model 2026-03-14 09:20:15Z)**_", Some((Role::Assistant, "")));
        let at = marker("**User** _(2026-02-02 07:40)_:").unwrap().at.unwrap();
        assert_eq!(at.to_minute(), "2026-02-02 07:40");
    }
}
