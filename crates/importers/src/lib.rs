//! Importers: from the transcripts that other programs leave behind to conversations.
//!
//! Each format has a file of its own that turns a source into [`Found`] conversations and says
//! what it passed over. None of them touches a store. The same source always gives the same identities, so that
//! importing twice, or a part and then the whole, gives the same store.

mod blocks;
mod branches;
mod chatgpt;
mod claude_ai;
mod claude_code;
mod codex;
mod console;
mod detect;
mod haystack;
pub mod jsonl;
mod locomo;
mod longmemeval;
mod markdown;
mod openai;
mod swe_agent;
mod text;
mod treering;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use treering_core::{
    ContentHash, Entry, EntryKind, ExternalId, Json, NewConversation, Role, ThreadName, Timestamp,
};

pub use detect::detect;
pub(crate) use openai::entries_of as entries_of_openai;

/// A kind of source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Treering's own export.
    Treering,
    /// Session transcripts of Claude Code.
    ClaudeCode,
    /// Rollouts of Codex.
    Codex,
    /// The conversations of a ChatGPT data export.
    ChatGpt,
    /// The conversations of a Claude.ai data export.
    ClaudeAi,
    /// Messages as the OpenAI API takes them.
    OpenAi,
    /// Trajectories of SWE-agent.
    SweAgent,
    /// Haystacks: turns with questions about them.
    Haystack,
    /// The LoCoMo data set.
    Locomo,
    /// The LongMemEval data set.
    LongMemEval,
    /// Transcripts in Markdown.
    Markdown,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
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
    ];

    /// The word for it in every interface.
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
        }
    }

    /// Reads a source of this format.
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
        }
    }
}

/// A file that was read.
#[derive(Debug)]
pub struct SourceFile {
    /// Where it is; for messages and, in some formats, for the identity.
    pub path: PathBuf,
    /// What is in it.
    pub text: String,
    /// When it was last changed: the time of what has no other.
    pub modified: Timestamp,
}

impl SourceFile {
    /// The lines with something on them, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line.trim_matches(['\0', ' ', '\t', '\r'])))
            .filter(|(_, line)| !line.is_empty())
    }
}

/// Why a source could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ImportError(pub String);

impl From<serde_json::Error> for ImportError {
    fn from(error: serde_json::Error) -> Self {
        Self(format!("it is not the JSON it should be: {error}"))
    }
}

impl From<treering_core::Invalid> for ImportError {
    fn from(error: treering_core::Invalid) -> Self {
        Self(error.to_string())
    }
}

/// How a conversation is recognised when its source is read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// It has a name of its own, and so has everything in it.
    Named,
    /// The same, and the names in it are used nowhere else.
    NamedEverywhere,
    /// It has a name, and what is in it is told apart by position.
    ByPosition,
    /// It has no name: it is known by what it says.
    ByContent,
}

/// A conversation in a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedConversation {
    /// What is known about it.
    pub about: NewConversation,
    /// How it is recognised.
    pub identity: Identity,
    /// Its entries, in the order of the source.
    pub entries: Vec<Entry>,
}

impl ImportedConversation {
    /// A conversation with a name of its own at its source.
    pub fn named(format: Format, name: &str) -> Self {
        let external_id = Some(external(&format!("{}:{name}", format.as_str())));
        let about = NewConversation { external_id, ..NewConversation::default() };
        Self { about, identity: Identity::Named, entries: Vec::new() }
    }

    /// A conversation without a name, once all of it is there: it is known by the first thing
    /// that was said in it. Nothing where nobody has spoken yet.
    pub fn unnamed(format: Format, entries: Vec<Entry>) -> Option<Self> {
        let first = entries.iter().find_map(|entry| match &entry.kind {
            EntryKind::Message(said) if said.role != Role::System => Some(said.hash()),
            _ => None,
        })?;
        Some(Self {
            identity: Identity::ByContent,
            entries,
            ..Self::named(format, &first.to_string())
        })
    }

    /// Adds something to the main thread.
    pub fn push(&mut self, kind: EntryKind) {
        self.entries.push(kind.into());
    }

    /// The latest moment in it.
    #[must_use]
    pub fn last_moment(&self) -> Option<Timestamp> {
        self.entries.iter().filter_map(Entry::at).max()
    }
}

/// Takes what an importer finds, and what it passes over.
pub struct Sink<'a> {
    found: &'a mut dyn FnMut(ImportedConversation) -> Result<(), ImportError>,
    skipped: BTreeMap<String, u64>,
}

impl<'a> Sink<'a> {
    /// A sink that hands conversations on.
    pub fn new(found: &'a mut dyn FnMut(ImportedConversation) -> Result<(), ImportError>) -> Self {
        Self { found, skipped: BTreeMap::new() }
    }

    /// Hands a conversation on; one without anything in it is passed over.
    pub fn emit(&mut self, found: ImportedConversation) -> Result<(), ImportError> {
        if found.entries.is_empty() {
            self.skip("conversations without messages");
            return Ok(());
        }
        self.emit_even_if_empty(found)
    }

    /// Hands a conversation on, also one without anything in it.
    pub fn emit_even_if_empty(&mut self, found: ImportedConversation) -> Result<(), ImportError> {
        (self.found)(found)
    }

    /// Hands on a conversation that is known by what it says.
    pub fn emit_unnamed(&mut self, found: Option<ImportedConversation>) -> Result<(), ImportError> {
        if let Some(found) = found {
            return self.emit(found);
        }
        self.skip("conversations in which nobody has spoken yet");
        Ok(())
    }

    /// Notes that something was passed over, and why.
    pub fn skip(&mut self, why: impl Into<String>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }

    /// What was passed over, by reason.
    #[must_use]
    pub fn into_skipped(self) -> BTreeMap<String, u64> {
        self.skipped
    }
}

/// An external id from a name of the source; a name that is too long stands by its hash.
fn external(name: &str) -> ExternalId {
    let usable = name.replace('\0', "");
    ExternalId::new(usable.clone()).unwrap_or_else(|_| {
        let hash = ContentHash::of_fields(&[usable.as_bytes()]).to_string();
        ExternalId::new(hash).unwrap_or_else(|_| unreachable!("a hash is a valid external id"))
    })
}

/// A thread name from a name of the source.
fn thread(name: &str) -> ThreadName {
    ThreadName::new(treering_core::text::preview(name, 90)).unwrap_or_default()
}

/// Arguments that came as JSON inside a string, or as text that is not JSON at all.
fn args_of(text: &str) -> Json {
    if text.trim().is_empty() {
        return args_of("{}");
    }
    Json::new(text).unwrap_or_else(|_| Json::string(text))
}

/// External ids for tool calls whose source may use an id again for another call: the second
/// use gets a number, and results go to the latest.
#[derive(Default)]
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

/// The name of a file without its folder and ending.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The text of a raw JSON string, and the JSON itself where the text cannot hold it exactly.
pub(crate) fn raw_string(raw: &serde_json::value::RawValue) -> Option<(String, Option<Json>)> {
    text::string(raw).map(|text| (text.text, text.original))
}
