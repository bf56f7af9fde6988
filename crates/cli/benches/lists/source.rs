//! Reads the turns of the data sets, which stay outside the repository.

use std::path::Path;

use serde_json::Value;
use treering_core::sentence::{self, SegmentKind};
use treering_core::{MessagePassage, Passage, Role, Timestamp};

/// Number of sentences of the same turn, and of each of the next two, that follow as context.
const CONTEXT_SENTENCES: usize = 3;

/// One message of a data set.
#[derive(Debug)]
pub(crate) struct SourceTurn {
    pub(crate) id: String,
    pub(crate) role: Role,
    pub(crate) author: Option<String>,
    pub(crate) text: String,
}

/// The turns of a file, by the form of its name.
pub(crate) fn turns(path: &Path) -> Option<Vec<SourceTurn>> {
    let text = std::fs::read_to_string(path).ok()?;
    match path.extension()?.to_str()? {
        "json" => haystack(&text),
        "jsonl" => Some(text.lines().filter_map(dialogue).flatten().collect()),
        "traj" => trajectory(&text),
        "md" => Some(console(&text)),
        _ => None,
    }
}

fn haystack(text: &str) -> Option<Vec<SourceTurn>> {
    let file: Value = serde_json::from_str(text).ok()?;
    let turn = |turn: &Value| {
        let author = turn["author"].as_str().filter(|author| author.parse::<Role>().is_err());
        Some(SourceTurn {
            id: turn["id"].as_str()?.to_owned(),
            role: turn["role"].as_str()?.parse().ok()?,
            author: author.map(str::to_owned),
            text: turn["text"].as_str()?.to_owned(),
        })
    };
    file["turns"].as_array()?.iter().map(turn).collect()
}

fn dialogue(line: &str) -> Option<Vec<SourceTurn>> {
    let entry: Value = serde_json::from_str(line).ok()?;
    let name = entry["fname"].as_str()?;
    let turn = |(number, line): (usize, &str)| {
        let (author, text) = line.split_once(": ")?;
        Some(SourceTurn {
            id: format!("{name}:{number}"),
            role: Role::User,
            author: Some(author.to_owned()),
            text: text.to_owned(),
        })
    };
    entry["dialogue"].as_str()?.lines().enumerate().map(turn).collect()
}

fn trajectory(text: &str) -> Option<Vec<SourceTurn>> {
    let file: Value = serde_json::from_str(text).ok()?;
    let turn = |(number, entry): (usize, &Value)| {
        Some(SourceTurn {
            id: number.to_string(),
            role: entry["role"].as_str()?.parse().ok()?,
            author: None,
            text: entry["content"].as_str()?.to_owned(),
        })
    };
    Some(file["history"].as_array()?.iter().enumerate().filter_map(turn).collect())
}

/// The paragraphs of a console log, by the number of their first line. Wrapped lines are joined.
fn console(text: &str) -> Vec<SourceTurn> {
    let mut turns: Vec<SourceTurn> = Vec::new();
    let mut role = Role::System;
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        let marked = ["> ", "⏺ "].iter().find_map(|mark| line.strip_prefix(mark));
        match line.chars().next() {
            Some('>') => role = Role::User,
            Some('⏺') => role = Role::Assistant,
            Some('✻') => role = Role::System,
            _ if line.trim_start().starts_with('⎿') => role = Role::Tool,
            _ => {}
        }
        let body = marked.unwrap_or_else(|| line.trim());
        let is_item = body.starts_with(|c: char| "-•☐☒".contains(c) || c.is_ascii_digit());
        let last = turns.last_mut().filter(|_| is_open && marked.is_none() && !is_item);
        match last {
            _ if body.is_empty() => is_open = false,
            Some(turn) => {
                turn.text.push(' ');
                turn.text.push_str(body);
            }
            None => {
                let text = body.to_owned();
                turns.push(SourceTurn { id: (number + 1).to_string(), role, author: None, text });
                is_open = true;
            }
        }
    }
    turns.retain(|turn| matches!(turn.role, Role::User | Role::Assistant));
    turns
}

/// The sentences and headings of a turn.
pub(crate) fn sentences(text: &str) -> Vec<&str> {
    let parts = sentence::split(text).into_iter();
    parts.filter(|part| part.kind != SegmentKind::Code).map(|part| part.text).collect()
}

/// A short hash that identifies a sentence within its turn.
pub(crate) fn short_hash(text: &str) -> String {
    blake3::hash(text.trim().as_bytes()).to_hex()[..8].to_owned()
}

/// A sentence and the sentences after it, which may answer it.
pub(crate) fn passages(turns: &[SourceTurn], turn: usize, sentence: usize) -> Vec<Passage> {
    let window = turns.iter().skip(turn).take(3).enumerate();
    let passage = |(place, turn): (usize, &SourceTurn)| {
        let (from, most) =
            if place == 0 { (sentence, CONTEXT_SENTENCES + 1) } else { (0, CONTEXT_SENTENCES) };
        let kept: Vec<&str> = sentences(&turn.text).into_iter().skip(from).take(most).collect();
        Passage::Message(MessagePassage {
            role: turn.role,
            author: turn.author.clone(),
            at: Timestamp::from_micros(0),
            text: kept.join("\n"),
        })
    };
    window.map(passage).collect()
}
