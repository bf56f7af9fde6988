//! Importers: read the transcripts of other programs as conversations.
//!
//! Each format has its own module, which converts a source to [`ImportedConversation`]s and
//! counts the records it skips. No importer touches a store. The same source always yields the
//! same ids, so importing it twice, or a part of it and then the whole, results in the same
//! store.

mod blocks;
mod branches;
mod chatgpt;
mod claude_ai;
mod claude_code;
mod codex;
mod console;
mod copilot;
mod cursor;
mod detect;
mod gemini_cli;
mod haystack;
pub mod jsonl;
mod locomo;
mod longmemeval;
mod markdown;
mod openai;
mod opencode;
mod swe_agent;
mod text;
mod transcript;
mod treering;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use treering_core::{
    ContentHash, Entry, EntryKind, ExternalId, Json, Labels, NewConversation, Role, ThreadName,
    Timestamp,
};

pub use detect::detect;
pub(crate) use openai::entries_of as entries_of_openai;
pub use transcript::{PartOutcome, TranscriptReader};

/// A source format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Treering's own export.
    Treering,
    /// Claude Code session transcripts.
    ClaudeCode,
    /// Codex rollouts.
    Codex,
    /// Conversations of a ChatGPT data export.
    ChatGpt,
    /// Conversations of a Claude.ai data export.
    ClaudeAi,
    /// Messages in the format of the OpenAI API.
    OpenAi,
    /// SWE-agent trajectories.
    SweAgent,
    /// Haystacks: benchmark conversations with questions.
    Haystack,
    /// The LoCoMo data set.
    Locomo,
    /// The LongMemEval data set.
    LongMemEval,
    /// Markdown transcripts.
    Markdown,
    /// Gemini CLI sessions.
    GeminiCli,
    /// Chat sessions of Copilot in VS Code.
    Copilot,
    /// Sessions that `opencode export` writes.
    OpenCode,
    /// Transcripts of Cursor's agent.
    Cursor,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 15] = [
        Self::Treering,
        Self::ClaudeCode,
        Self::Codex,
        Self::ChatGpt,
        Self::ClaudeAi,
        Self::OpenAi,
        Self::SweAgent,
        Self::Haystack,
        Self::Locomo,
        Self::LongMemEval,
        Self::Markdown,
        Self::GeminiCli,
        Self::Copilot,
        Self::OpenCode,
        Self::Cursor,
    ];

    /// The name in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Treering => "treering",
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::ChatGpt => "chatgpt",
            Self::ClaudeAi => "claude-ai",
            Self::OpenAi => "openai",
            Self::SweAgent => "swe-agent",
            Self::Haystack => "haystack",
            Self::Locomo => "locomo",
            Self::LongMemEval => "longmemeval",
            Self::Markdown => "markdown",
            Self::GeminiCli => "gemini-cli",
            Self::Copilot => "copilot",
            Self::OpenCode => "opencode",
            Self::Cursor => "cursor",
        }
    }

    /// Reads a source of this format into the sink.
    pub fn read(self, source: &SourceFile, sink: &mut Sink<'_>) -> Result<(), ImportError> {
        match self {
            Self::Treering => treering::read(source, sink),
            Self::ClaudeCode => claude_code::read(source, sink),
            Self::Codex => codex::read(source, sink),
            Self::ChatGpt => chatgpt::read(source, sink),
            Self::ClaudeAi => claude_ai::read(source, sink),
            Self::OpenAi => openai::read(source, sink),
            Self::SweAgent => swe_agent::read(source, sink),
            Self::Haystack => haystack::read(source, sink),
            Self::Locomo => locomo::read(source, sink),
            Self::LongMemEval => longmemeval::read(source, sink),
            Self::Markdown => markdown::read(source, sink),
            Self::GeminiCli => gemini_cli::read(source, sink),
            Self::Copilot => copilot::read(source, sink),
            Self::OpenCode => opencode::read(source, sink),
            Self::Cursor => cursor::read(source, sink),
        }
    }
}

/// A source file and its content.
#[derive(Debug)]
pub struct SourceFile {
    /// The path, used in messages and, in some formats, as identity.
    pub path: PathBuf,
    /// The content.
    pub text: String,
    /// The modification time, used for entries without a timestamp.
    pub modified: Timestamp,
}

impl SourceFile {
    /// The non-empty lines, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, trim_line(line)))
            .filter(|(_, line)| !line.is_empty())
    }
}

/// A line without the padding of damaged or foreign files.
fn trim_line(line: &str) -> &str {
    line.trim_matches(['\0', ' ', '\t', '\r', '\n'])
}

/// The reason why a source could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub String);

impl From<serde_json::Error> for ImportError {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("its JSON does not match the format: {error}"))
    }
}

impl From<treering_core::Invalid> for ImportError {
    fn from(error: treering_core::Invalid) -> Self {
        Self(error.to_string())
    }
}

/// The identity of a conversation when its source is imported again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// The conversation and its entries have ids that are unique within the conversation.
    Named,
    /// Like `Named`, with entry ids that are globally unique.
    NamedEverywhere,
    /// The conversation has an id; its entries are identified by position.
    ByPosition,
    /// Like `ByPosition`, but hooks may have captured part of the conversation with ids.
    ByPrompt,
    /// The conversation has no id and is identified by its content.
    ByContent,
}

/// A conversation read from a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedConversation {
    /// The metadata of the conversation.
    pub conversation: NewConversation,
    /// The kind of identity.
    pub identity: Identity,
    /// The entries, in source order.
    pub entries: Vec<Entry>,
}

impl ImportedConversation {
    /// An empty conversation with the id `name` at its source, labeled with the source.
    pub fn named(format: Format, name: &str) -> Self {
        let external_id = Some(external(&format!("{}:{name}", format.as_str())));
        let labels = Labels::of_source(format.as_str()).unwrap_or_default();
        let conversation = NewConversation { external_id, labels, ..NewConversation::default() };
        Self { conversation, identity: Identity::Named, entries: Vec::new() }
    }

    /// A complete conversation without an id, identified by its first message that is not a
    /// system message. Returns `None` if there is none.
    pub fn unnamed(format: Format, entries: Vec<Entry>) -> Option<Self> {
        let is_said = |entry: &&Entry| matches!(&entry.kind, EntryKind::Message(message) if message.role != Role::System);
        let mut first = entries.iter().find(is_said)?.clone();
        // The id must not tell anything about a private passage.
        first.leave_out_private();
        let EntryKind::Message(first) = first.kind else { return None };
        let first = first.hash();
        Some(Self {
            identity: Identity::ByContent,
            entries,
            ..Self::named(format, &first.to_string())
        })
    }

    /// Appends an entry to the main thread.
    pub fn push(&mut self, kind: EntryKind) {
        self.entries.push(kind.into());
    }

    /// The latest timestamp of the entries.
    #[must_use]
    pub fn last_moment(&self) -> Option<Timestamp> {
        self.entries.iter().filter_map(Entry::at).max()
    }
}

/// Receives conversations from an importer and counts skipped records.
pub struct Sink<'a> {
    found: &'a mut dyn FnMut(ImportedConversation) -> Result<(), ImportError>,
    skipped: BTreeMap<String, u64>,
}

impl<'a> Sink<'a> {
    /// A sink that passes conversations to `found`.
    pub fn new(found: &'a mut dyn FnMut(ImportedConversation) -> Result<(), ImportError>) -> Self {
        Self { found, skipped: BTreeMap::new() }
    }

    /// Passes on a conversation. Skips an empty one.
    pub fn emit(&mut self, found: ImportedConversation) -> Result<(), ImportError> {
        if found.entries.is_empty() {
            self.skip("conversations without messages");
            return Ok(());
        }
        self.emit_even_if_empty(found)
    }

    /// Passes on a conversation, even an empty one.
    pub fn emit_even_if_empty(&mut self, found: ImportedConversation) -> Result<(), ImportError> {
        (self.found)(found)
    }

    /// Passes on a conversation identified by its content. Skips `None`.
    pub fn emit_unnamed(&mut self, found: Option<ImportedConversation>) -> Result<(), ImportError> {
        if let Some(found) = found {
            return self.emit(found);
        }
        self.skip("conversations that have not started yet");
        Ok(())
    }

    /// Counts a skipped record under a reason.
    pub fn skip(&mut self, reason: impl Into<String>) {
        *self.skipped.entry(reason.into()).or_default() += 1;
    }

    /// The number of skipped records by reason.
    #[must_use]
    pub fn into_skipped(self) -> BTreeMap<String, u64> {
        self.skipped
    }
}

/// Converts a source id to an external id. Hashes an id that is too long.
fn external(name: &str) -> ExternalId {
    let usable = name.replace('\0', "");
    ExternalId::new(usable.clone()).unwrap_or_else(|_| {
        let hash = ContentHash::of_fields(&[usable.as_bytes()]).to_string();
        ExternalId::new(hash).unwrap_or_else(|_| unreachable!("a hash is a valid external id"))
    })
}

/// Converts a source name to a thread name.
fn thread(name: &str) -> ThreadName {
    ThreadName::new(treering_core::text::preview(name, 90)).unwrap_or_default()
}

/// Parses arguments from a string that holds JSON, or wraps other text as a JSON string.
fn args_of(text: &str) -> Json {
    if text.trim().is_empty() {
        return args_of("{}");
    }
    Json::new(text).unwrap_or_else(|_| Json::string(text))
}

/// External ids for tool calls of a source that may reuse call ids. A reused id gets a numeric
/// suffix, and results belong to its latest use.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
struct CallIds(HashMap<String, u32>);

impl CallIds {
    fn call(&mut self, id: &str) -> ExternalId {
        let uses = self.0.entry(id.to_owned()).or_default();
        *uses += 1;
        Self::name(id, *uses)
    }

    fn result(&self, id: &str) -> ExternalId {
        Self::name(id, self.0.get(id).copied().unwrap_or(1))
    }

    fn name(id: &str, uses: u32) -> ExternalId {
        if uses < 2 { external(id) } else { external(&format!("{id}~{uses}")) }
    }
}

/// The file name without folder and extension.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Decodes a raw JSON string. Also returns the raw JSON if the text cannot represent it exactly.
pub(crate) fn raw_string(raw: &serde_json::value::RawValue) -> Option<(String, Option<Json>)> {
    text::string(raw).map(|text| (text.text, text.original))
}
