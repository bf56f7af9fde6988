//! Coding agents: the settings that connect each of them to Treering, and the content that their
//! hooks capture. Plans changes to settings files; the command line confirms and writes them.

mod edit;
mod heartbeat;
mod hook;
mod pauses;
mod plugin;
mod recall;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use edit::{Edit, EditError, OwnEntries};
pub use heartbeat::{
    AgentHealth, AgentHistory, Deletion, HookFailure, HookProblem, LaggingTranscript, check,
    deletion, history, note_installed, transcript_folder, transcripts,
};
pub use hook::{capture, reply};
pub use pauses::{PauseError, pause, read_pauses, resume};
pub use plugin::{PluginFile, plugin_files};
pub use recall::{RecallRequest, RecallTrigger};
pub use treering::capture::{HookCapture, ReplayReport, Spool, TranscriptRef};

/// The events of Claude Code and Codex that are captured or answered.
const TURN_EVENTS: [&str; 5] =
    ["SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"];

/// The events of Cursor that are captured or, like `sessionStart`, answered. The tool events also
/// fire for shell commands and MCP tools; `stop` ends a turn, and `sessionEnd` would add nothing to
/// it.
const CURSOR_EVENTS: [&str; 6] = [
    "sessionStart",
    "beforeSubmitPrompt",
    "afterAgentResponse",
    "postToolUse",
    "postToolUseFailure",
    "stop",
];

/// An agent that Treering can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum CodingAgent {
    /// Claude Code
    ClaudeCode,
    /// Cursor
    Cursor,
    /// Codex
    Codex,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// Claude Desktop; has no hooks, so nothing is captured
    ClaudeDesktop,
    /// Gemini CLI; tools only
    GeminiCli,
    /// VS Code with Copilot; tools only
    #[value(name = "vscode")]
    VsCode,
    /// Windsurf; tools only
    Windsurf,
    /// Zed; tools only
    Zed,
}

impl fmt::Display for CodingAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::ClaudeDesktop => "claude-desktop",
            Self::GeminiCli => "gemini-cli",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Zed => "zed",
        })
    }
}

impl CodingAgent {
    /// Every agent.
    pub const ALL: [Self; 9] = [
        Self::ClaudeCode,
        Self::Cursor,
        Self::Codex,
        Self::OpenCode,
        Self::ClaudeDesktop,
        Self::GeminiCli,
        Self::VsCode,
        Self::Windsurf,
        Self::Zed,
    ];

    /// Whether the agent has left files in the user's home.
    #[must_use]
    pub fn is_there(self, paths: &AgentPaths) -> bool {
        let home = &paths.home;
        match self {
            Self::ClaudeCode => paths.claude().is_dir() || home.join(".claude.json").exists(),
            Self::Cursor => home.join(".cursor").is_dir(),
            Self::Codex => paths.codex().is_dir(),
            Self::OpenCode => paths.config().join("opencode").is_dir(),
            Self::ClaudeDesktop => paths.applications().join("Claude").is_dir(),
            Self::GeminiCli => home.join(".gemini").is_dir(),
            Self::VsCode => paths.applications().join("Code/User").is_dir(),
            Self::Windsurf => home.join(".codeium/windsurf").is_dir(),
            Self::Zed => paths.config().join("zed").is_dir(),
        }
    }

    /// An extra step the user must take before hooks run, besides restarting the agent.
    #[must_use]
    pub const fn post_install_note(self) -> Option<&'static str> {
        match self {
            Self::Codex => Some(
                "Codex runs these hooks only after you review and trust them: type /hooks in Codex",
            ),
            _ => None,
        }
    }
}

/// The command line that starts Treering.
#[derive(Debug, Clone)]
pub struct Program {
    /// The path of the executable.
    pub path: PathBuf,
    /// Global options that precede the subcommand, such as `--home`.
    pub options: Vec<String>,
}

impl Program {
    fn args(&self, command: &[&str]) -> Vec<String> {
        self.options.iter().cloned().chain(command.iter().map(|it| (*it).to_owned())).collect()
    }

    /// The command line, quoted for a shell.
    fn line(&self, command: &[&str]) -> String {
        let path = quoted(&self.path.display().to_string());
        format!("{path} {}", self.line_without_path(command))
    }

    /// The options and the command, quoted for a shell.
    fn line_without_path(&self, command: &[&str]) -> String {
        self.args(command).iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Quotes a word for a POSIX shell if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// The folders that hold the settings of a user's agents.
#[derive(Debug, Clone)]
pub struct AgentPaths {
    /// The user's home folder.
    pub home: PathBuf,
    /// The configuration folder, if not the default.
    pub config: Option<PathBuf>,
    /// The Claude Code folder, if not the default.
    pub claude: Option<PathBuf>,
    /// The Codex folder, if not the default.
    pub codex: Option<PathBuf>,
}

impl AgentPaths {
    /// The Claude Code folder.
    #[must_use]
    pub fn claude(&self) -> PathBuf {
        self.claude.clone().unwrap_or_else(|| self.home.join(".claude"))
    }

    /// The configuration folder.
    fn config(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.home.join(".config"))
    }

    /// The folder where desktop programs keep their settings.
    fn applications(&self) -> PathBuf {
        match std::env::consts::OS {
            "macos" => self.home.join("Library/Application Support"),
            "windows" => self.home.join("AppData/Roaming"),
            _ => self.config(),
        }
    }

    /// The Codex folder.
    #[must_use]
    pub fn codex(&self) -> PathBuf {
        self.codex.clone().unwrap_or_else(|| self.home.join(".codex"))
    }
}

/// The edits to one file.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// The path of the file.
    pub path: PathBuf,
    /// The edits, in order.
    pub edits: Vec<Edit>,
}

impl FileChange {
    /// Returns the text with all edits applied.
    pub fn apply(&self, text: &str, own: OwnEntries) -> Result<String, EditError> {
        self.edits.iter().try_fold(text.to_owned(), |text, edit| edit.apply_with(&text, own))
    }

    /// The entries for Treering in a text that a person made, and that `apply` keeps.
    #[must_use]
    pub fn own_entries(&self, text: &str) -> Vec<String> {
        self.edits.iter().filter_map(|edit| edit.own_entry(text)).collect()
    }

    /// Returns the text with all edits reverted, unchanged if none of them is in it.
    pub fn revert(&self, text: &str) -> Result<String, EditError> {
        self.edits.iter().try_fold(text.to_owned(), |text, edit| edit.revert(&text))
    }
}

/// The changes that connect an agent to Treering.
#[must_use]
pub fn changes(agent: CodingAgent, paths: &AgentPaths, program: &Program) -> Vec<FileChange> {
    let change = |path: PathBuf, edits: Vec<Edit>| FileChange { path, edits };
    let server =
        json!({ "command": program.path.display().to_string(), "args": program.args(&["mcp"]) });
    let known = |server: Value| Edit::Entry {
        at: vec!["mcpServers".into()],
        key: "treering".into(),
        value: server,
    };
    let hooks = || hook_entries(agent, program).into_iter().map(hook_edit).collect::<Vec<_>>();
    match agent {
        CodingAgent::ClaudeCode => {
            // By default one file is in the folder and the other beside it; a configured folder
            // holds both.
            let folder = paths.claude();
            let state = paths.claude.as_ref().unwrap_or(&paths.home).join(".claude.json");
            vec![
                change(state, vec![known(with_type(server, "stdio"))]),
                change(folder.join("settings.json"), hooks()),
            ]
        }
        CodingAgent::Codex => {
            let folder = paths.codex();
            let table = Edit::Table {
                name: ["mcp_servers".into(), "treering".into()],
                command: program.path.display().to_string(),
                args: program.args(&["mcp"]),
            };
            vec![
                change(folder.join("config.toml"), vec![table]),
                change(folder.join("hooks.json"), hooks()),
            ]
        }
        CodingAgent::Cursor => {
            let mut edits = vec![Edit::Default { key: "version".into(), value: json!(1) }];
            edits.extend(hooks());
            vec![
                change(paths.home.join(".cursor/mcp.json"), vec![known(server)]),
                change(paths.home.join(".cursor/hooks.json"), edits),
            ]
        }
        CodingAgent::OpenCode => {
            let folder = paths.config().join("opencode");
            let command: Vec<String> = std::iter::once(program.path.display().to_string())
                .chain(program.args(&["mcp"]))
                .collect();
            let value = json!({ "type": "local", "command": command, "enabled": true });
            let entry = Edit::Entry { at: vec!["mcp".into()], key: "treering".into(), value };
            vec![
                change(existing(&folder, &["opencode.json", "opencode.jsonc"]), vec![entry]),
                change(folder.join("plugins/treering.js"), vec![Edit::Whole(plugin(program))]),
            ]
        }
        CodingAgent::ClaudeDesktop
        | CodingAgent::GeminiCli
        | CodingAgent::VsCode
        | CodingAgent::Windsurf
        | CodingAgent::Zed => vec![tools_only(agent, paths, server)],
    }
}

/// The hooks of an agent that runs commands: the events, and the entry for each.
fn hook_entries(agent: CodingAgent, program: &Program) -> Vec<(&'static str, Value)> {
    let line = program.line(&["hook", &agent.to_string()]);
    let nested = |event| {
        // Codex limits this hook to 3 seconds and warns at each start about a longer timeout.
        let seconds = if (agent, event) == (CodingAgent::Codex, "SessionEnd") { 3 } else { 30 };
        json!({ "hooks": [{ "type": "command", "command": line, "timeout": seconds }] })
    };
    match agent {
        CodingAgent::ClaudeCode | CodingAgent::Codex => {
            TURN_EVENTS.iter().map(|event| (*event, nested(*event))).collect()
        }
        CodingAgent::Cursor => {
            CURSOR_EVENTS.iter().map(|event| (*event, json!({ "command": line }))).collect()
        }
        _ => Vec::new(),
    }
}

/// The edit that adds a hook to an event.
fn hook_edit((event, value): (&str, Value)) -> Edit {
    Edit::Item { at: vec!["hooks".into(), event.into()], value }
}

/// The change for an agent without hooks: the MCP server.
fn tools_only(agent: CodingAgent, paths: &AgentPaths, server: Value) -> FileChange {
    let (path, list, value) = match agent {
        CodingAgent::VsCode => {
            let path = paths.applications().join("Code/User/mcp.json");
            (path, "servers", with_type(server, "stdio"))
        }
        CodingAgent::Zed => (paths.config().join("zed/settings.json"), "context_servers", server),
        CodingAgent::GeminiCli => (paths.home.join(".gemini/settings.json"), "mcpServers", server),
        CodingAgent::Windsurf => {
            (paths.home.join(".codeium/windsurf/mcp_config.json"), "mcpServers", server)
        }
        _ => {
            let path = paths.applications().join("Claude/claude_desktop_config.json");
            (path, "mcpServers", server)
        }
    };
    let entry = Edit::Entry { at: vec![list.into()], key: "treering".into(), value };
    FileChange { path, edits: vec![entry] }
}

/// The first of these files that exists, or else the first name.
fn existing(folder: &Path, names: &[&str]) -> PathBuf {
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| folder.join(names[0]))
}

fn with_type(mut server: Value, kind: &str) -> Value {
    server["type"] = kind.into();
    server
}

/// The OpenCode plugin. OpenCode has no hooks that run commands.
fn plugin(program: &Program) -> String {
    let words: Vec<String> = std::iter::once(program.path.display().to_string())
        .chain(program.args(&["hook", "opencode"]))
        .collect();
    include_str!("opencode.js")
        .replace("[\"treering\", \"hook\", \"opencode\"]", &json!(words).to_string())
}
