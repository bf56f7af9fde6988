//! The heartbeat of capture: compares an agent's own transcripts with the store, and checks that
//! its hooks are there. Changes nothing.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use treering::capture::{CaptureError, CheckpointFolder, HOOK_FAILURE, TranscriptLag};
use treering::importers::Format;
use treering::private_file;
use treering_core::Timestamp;
use treering_engine::Engine;

use super::{AgentPaths, CodingAgent, FileChange, Program, TranscriptRef, changes};

/// The number of days after which Claude Code deletes transcripts, unless its settings say
/// otherwise.
const CLEANUP_DAYS: u64 = 30;

/// The state of an agent's capture.
#[derive(Debug, Serialize)]
pub struct AgentHealth {
    /// The agent.
    pub agent: String,
    /// The number of its transcripts on disk.
    pub transcripts: usize,
    /// The number of transcripts that are older than the hooks and were not imported.
    pub not_imported: usize,
    /// The time of the latest captured entry.
    pub captured_until: Option<Timestamp>,
    /// Transcripts with missing turns.
    pub behind: Vec<LaggingTranscript>,
    /// The problems of the hooks.
    pub problems: Vec<HookProblem>,
}

impl AgentHealth {
    /// Whether capture works and has missed nothing.
    #[must_use]
    pub const fn is_healthy(&self) -> bool {
        self.behind.is_empty() && self.problems.is_empty()
    }
}

/// A transcript with missing turns.
#[derive(Debug, Serialize)]
pub struct LaggingTranscript {
    /// The transcript.
    pub path: PathBuf,
    /// The number of turns that are missing.
    pub turns: u32,
    /// The time of the latest captured entry; `None` if nothing was captured.
    pub captured_until: Option<Timestamp>,
}

/// A reason why hooks do not capture.
#[derive(Debug, Serialize)]
pub struct HookProblem {
    /// The problem.
    pub found: String,
    /// Advice for the user.
    pub fix: String,
}

/// The latest failure of a hook.
#[derive(Debug, Serialize, Deserialize)]
pub struct HookFailure {
    /// When it failed.
    pub at: Timestamp,
    /// The reason.
    pub error: String,
}

impl HookFailure {
    fn path(home: &Path, agent: CodingAgent) -> PathBuf {
        home.join(CheckpointFolder::NAME).join(format!("{agent}.{HOOK_FAILURE}"))
    }

    /// Records the result of a hook: a failure until the next success.
    pub fn record(home: &Path, agent: CodingAgent, failure: Option<&Self>) {
        let path = Self::path(home, agent);
        // There is no other place to report it.
        match failure {
            None => drop(fs::remove_file(path)),
            // Without a home, nothing was captured yet, and nothing is compared.
            Some(_) if !home.is_dir() => {}
            Some(failure) => drop(
                private_file::create_folder(&home.join(CheckpointFolder::NAME))
                    .and_then(|()| fs::write(path, serde_json::to_vec(failure)?)),
            ),
        }
    }

    fn load(home: &Path, agent: CodingAgent) -> Option<Self> {
        serde_json::from_slice(&fs::read(Self::path(home, agent)).ok()?).ok()
    }
}

/// The transcripts that an agent has on disk.
#[must_use]
pub fn transcripts(agent: CodingAgent, paths: &AgentPaths) -> Vec<TranscriptRef> {
    let Some((format, folder)) = transcript_folder(agent, paths) else { return Vec::new() };
    let files = files_below(folder, |path| has_ending(path, &["jsonl"]));
    files.into_iter().map(|path| TranscriptRef { format, path }).collect()
}

/// The files below a folder that meet a condition, sorted.
fn files_below(folder: PathBuf, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && is_wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension().is_some_and(|it| endings.iter().any(|ending| it == *ending))
}

/// The history that an agent without growing transcripts has on disk.
#[derive(Debug)]
pub struct AgentHistory {
    /// The format of the files.
    pub format: Format,
    /// The folders that hold nothing else, or a pattern for them.
    pub folders: PathBuf,
    /// The files.
    pub files: Vec<PathBuf>,
}

/// The history of an agent, if `import` can read it.
#[must_use]
pub fn history(agent: CodingAgent, paths: &AgentPaths) -> Option<AgentHistory> {
    let (format, root, inner) = match agent {
        CodingAgent::Cursor => {
            (Format::Cursor, paths.home.join(".cursor/projects"), "agent-transcripts")
        }
        CodingAgent::GeminiCli => (Format::GeminiCli, paths.home.join(".gemini/tmp"), "chats"),
        CodingAgent::VsCode => {
            let root = paths.applications().join("Code/User/workspaceStorage");
            (Format::Copilot, root, "chatSessions")
        }
        _ => return None,
    };
    let is_inside = |path: &Path| path.components().any(|part| part.as_os_str() == inner);
    let files = files_below(root.clone(), |path| {
        has_ending(path, &["json", "jsonl"]) && path.strip_prefix(&root).is_ok_and(is_inside)
    });
    Some(AgentHistory { format, folders: root.join("*").join(inner), files })
}

/// The folder of an agent's transcripts, if it has one that grows.
#[must_use]
pub fn transcript_folder(agent: CodingAgent, paths: &AgentPaths) -> Option<(Format, PathBuf)> {
    match agent {
        CodingAgent::ClaudeCode => Some((Format::ClaudeCode, paths.claude().join("projects"))),
        CodingAgent::Codex => Some((Format::Codex, paths.codex().join("sessions"))),
        _ => None,
    }
}

/// The transcripts that Claude Code will delete although they are not stored.
#[derive(Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The number of days after which it deletes a transcript.
    pub days: u64,
    /// The number of transcripts that are not stored completely.
    pub transcripts: usize,
    /// When the first of them is deleted.
    pub first: Option<Timestamp>,
}

/// Finds out which transcripts of Claude Code would be lost.
#[must_use]
pub fn deletion(paths: &AgentPaths, checkpoints: &CheckpointFolder) -> Deletion {
    let settings = fs::read_to_string(paths.claude().join("settings.json")).unwrap_or_default();
    let days = super::edit::value_of(&settings, "cleanupPeriodDays")
        .and_then(|days| days.as_u64())
        .unwrap_or(CLEANUP_DAYS);
    let is_stored = |transcript: &TranscriptRef| {
        let bytes = fs::metadata(&transcript.path).map_or(0, |file| file.len());
        let checkpoint = checkpoints.load(transcript.format, &transcript.path);
        checkpoint.is_some_and(|checkpoint| checkpoint.offset >= bytes)
    };
    let unstored: Vec<TranscriptRef> = transcripts(CodingAgent::ClaudeCode, paths)
        .into_iter()
        .filter(|transcript| !is_stored(transcript))
        .collect();
    let micros = i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(24 * 60 * 60 * 1_000_000);
    let oldest = unstored.iter().map(|transcript| modified(&transcript.path)).min();
    let first = oldest.map(|oldest| oldest.plus_micros(micros));
    Deletion { days, transcripts: unstored.len(), first }
}

fn modified(path: &Path) -> Timestamp {
    treering::import::modified(path)
}

/// The file that remembers when the hooks of an agent were installed.
fn installed_path(home: &Path, agent: CodingAgent) -> PathBuf {
    home.join(CheckpointFolder::NAME).join(format!("{agent}.installed"))
}

/// Remembers that the hooks were installed or removed now. Transcripts that grow from now on must
/// be captured.
pub fn note_installed(home: &Path, agent: CodingAgent, is_installed: bool) -> std::io::Result<()> {
    let path = installed_path(home, agent);
    match is_installed {
        true if path.exists() => Ok(()),
        true => {
            let folder = private_file::create_folder(&home.join(CheckpointFolder::NAME));
            folder.and_then(|()| fs::write(path, ""))
        }
        false if path.exists() => fs::remove_file(path),
        false => Ok(()),
    }
}

/// Compares an agent with the store; `None` if its hooks do not capture into this home. Hooks that
/// were installed and are gone are a problem.
pub fn check(
    agent: CodingAgent,
    paths: &AgentPaths,
    program: &Program,
    home: &Path,
    engine: &Engine,
) -> Result<Option<AgentHealth>, CaptureError> {
    let hooks = HookSearch::of(agent, paths, program);
    if !hooks.is_connected() {
        let was_connected = installed_path(home, agent).exists() && agent.is_there(paths);
        if !was_connected || hooks.is_elsewhere || hooks.missing.is_empty() {
            return Ok(None);
        }
    }
    let mut problems = hooks.problems(agent, paths);
    problems.extend(HookFailure::load(home, agent).map(|failure| HookProblem {
        found: format!("the latest hook failed at {}: {}", failure.at.to_minute(), failure.error),
        fix: "fix this; the next hook captures what is missing".into(),
    }));
    let checkpoints = CheckpointFolder::new(home, engine.tenant());
    let installed = installed_path(home, agent);
    let installed = installed.exists().then(|| modified(&installed));
    let transcripts = transcripts(agent, paths);
    let mut health = AgentHealth {
        agent: agent.to_string(),
        transcripts: transcripts.len(),
        not_imported: 0,
        captured_until: None,
        behind: Vec::new(),
        problems,
    };
    for TranscriptRef { format, path } in transcripts {
        let lag = match checkpoints.lag(engine, format, &path)? {
            Some(lag) => lag,
            None if installed.is_none_or(|installed| modified(&path) < installed) => {
                health.not_imported += 1;
                continue;
            }
            None => checkpoints.whole_lag(format, &path)?,
        };
        health.captured_until = health.captured_until.max(lag.captured_until);
        if lag.is_behind() {
            let TranscriptLag { prompts: turns, captured_until, .. } = lag;
            health.behind.push(LaggingTranscript { path, turns, captured_until });
        }
    }
    Ok(Some(health))
}

/// The hooks that run this program for this home, and those that are missing.
struct HookSearch {
    found: Vec<FoundHook>,
    /// The events without a hook.
    missing: Vec<String>,
    /// Whether the agent has hooks that run this program, perhaps for another home.
    is_elsewhere: bool,
}

/// A hook in an agent's settings.
struct FoundHook {
    file: PathBuf,
    event: String,
    /// The program that it runs.
    program: String,
    /// Its position in the list of the event.
    position: usize,
}

impl HookSearch {
    fn of(agent: CodingAgent, paths: &AgentPaths, program: &Program) -> Self {
        let mut search = Self { found: Vec::new(), missing: Vec::new(), is_elsewhere: false };
        let arguments = program.line_without_path(&["hook", &agent.to_string()]);
        for FileChange { path, edits } in changes(agent, paths, program) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            for edit in edits {
                let hook = edit.hook_in(&text, &arguments);
                let Some(event) = edit.event() else { continue };
                let names = [format!("hook {agent}"), format!("\"hook\",\"{agent}\"")];
                search.is_elsewhere |= names.iter().any(|name| text.contains(name));
                match hook {
                    Some((position, program)) => search.found.push(FoundHook {
                        file: path.clone(),
                        event: event.to_owned(),
                        program,
                        position,
                    }),
                    None => search.missing.push(event.to_owned()),
                }
            }
        }
        search
    }

    const fn is_connected(&self) -> bool {
        !self.found.is_empty()
    }

    fn problems(&self, agent: CodingAgent, paths: &AgentPaths) -> Vec<HookProblem> {
        let install = format!("run `treering install {agent}`");
        let mut problems = Vec::new();
        if !self.is_connected() {
            let fix = format!("{install}, or `treering uninstall {agent}` if you do not want them");
            problems.push(HookProblem { found: "its settings have no hooks any more".into(), fix });
        } else if !self.missing.is_empty() {
            let found = format!("hooks are missing for {}", self.missing.join(", "));
            problems.push(HookProblem { found, fix: install.clone() });
        }
        let gone = |hook: &&FoundHook| {
            Path::new(&hook.program).is_absolute() && !Path::new(&hook.program).exists()
        };
        if let Some(hook) = self.found.iter().find(gone) {
            let found = format!("the hooks run {}, which does not exist", hook.program);
            problems.push(HookProblem { found, fix: install });
        }
        if agent == CodingAgent::Codex && self.found.iter().any(|hook| !is_trusted(hook, paths)) {
            problems.push(HookProblem {
                found: "Codex does not run the hooks until you trust them".into(),
                fix: "type /hooks in Codex, and review and trust the Treering hooks".into(),
            });
        }
        problems
    }
}

/// Whether Codex has recorded that the user trusts a hook. It names a hook by its file, event and
/// position.
fn is_trusted(hook: &FoundHook, paths: &AgentPaths) -> bool {
    let config = fs::read_to_string(paths.codex().join("config.toml")).unwrap_or_default();
    let Ok(config) = config.parse::<toml_edit::DocumentMut>() else { return false };
    let Some(states) = config.get("hooks").and_then(|hooks| hooks.get("state")) else {
        return false;
    };
    let file = hook.file.file_name().unwrap_or_default().to_string_lossy();
    let ending = format!("{file}:{}:{}:0", snake_case(&hook.event), hook.position);
    let mut names = states.as_table_like().into_iter().flat_map(|states| states.iter());
    names.any(|(name, state)| name.ends_with(&ending) && state.get("trusted_hash").is_some())
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (index, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && index > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_named_as_in_the_settings_of_codex() {
        assert_eq!(snake_case("UserPromptSubmit"), "user_prompt_submit");
        assert_eq!(snake_case("Stop"), "stop");
    }
}
