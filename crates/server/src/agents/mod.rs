//! Coding agents: the settings that connect each of them to Treering, and the content that their
//! hooks capture. Plans changes to settings files; the command line confirms and writes them.

mod edit;
mod hook;
mod spool;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use edit::{Edit, EditError};
pub use hook::{HookCapture, capture, reply};
pub use spool::{Spool, store};

/// The events of Cursor that are captured. The tool events also fire for shell commands and MCP
/// tools; `stop` ends a turn, and `sessionEnd` would add nothing to it.
const CURSOR_EVENTS: [&str; 5] =
    ["beforeSubmitPrompt", "afterAgentResponse", "postToolUse", "postToolUseFailure", "stop"];

/// An agent that Treering can connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
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
}

impl fmt::Display for CodingAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::ClaudeDesktop => "claude-desktop",
        })
    }
}

impl CodingAgent {
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
        let path = self.path.display().to_string();
        let words = std::iter::once(path).chain(self.args(command));
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
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
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        self.edits.iter().try_fold(text.to_owned(), |text, edit| edit.apply(&text))
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
    let line = program.line(&["hook", &agent.to_string()]);
    let hooks = |events: &[&str], hook: &Value| {
        let edit = |event: &&str| Edit::Item {
            at: vec!["hooks".into(), (*event).into()],
            value: hook.clone(),
        };
        events.iter().map(edit).collect::<Vec<_>>()
    };
    let nested = |seconds: u64| json!({ "hooks": [{ "type": "command", "command": line, "timeout": seconds }] });
    match agent {
        CodingAgent::ClaudeCode => {
            // By default one file is in the folder and the other beside it; a configured folder
            // holds both.
            let folder = paths.claude.clone().unwrap_or_else(|| paths.home.join(".claude"));
            let state = paths.claude.as_ref().unwrap_or(&paths.home).join(".claude.json");
            let events = ["UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"];
            vec![
                change(state, vec![known(with_type(server, "stdio"))]),
                change(folder.join("settings.json"), hooks(&events, &nested(30))),
            ]
        }
        CodingAgent::Codex => {
            let folder = paths.codex.clone().unwrap_or_else(|| paths.home.join(".codex"));
            let table = Edit::Table {
                name: ["mcp_servers".into(), "treering".into()],
                command: program.path.display().to_string(),
                args: program.args(&["mcp"]),
            };
            let mut edits = hooks(&["UserPromptSubmit", "Stop", "PreCompact"], &nested(30));
            // Codex limits this hook to 3 seconds and warns at each start about a longer timeout.
            edits.extend(hooks(&["SessionEnd"], &nested(3)));
            vec![
                change(folder.join("config.toml"), vec![table]),
                change(folder.join("hooks.json"), edits),
            ]
        }
        CodingAgent::Cursor => {
            let mut edits = vec![Edit::Default { key: "version".into(), value: json!(1) }];
            edits.extend(hooks(&CURSOR_EVENTS, &json!({ "command": line })));
            vec![
                change(paths.home.join(".cursor/mcp.json"), vec![known(server)]),
                change(paths.home.join(".cursor/hooks.json"), edits),
            ]
        }
        CodingAgent::OpenCode => {
            let folder =
                paths.config.clone().unwrap_or_else(|| paths.home.join(".config")).join("opencode");
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
        CodingAgent::ClaudeDesktop => vec![change(desktop(paths), vec![known(server)])],
    }
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

fn desktop(paths: &AgentPaths) -> PathBuf {
    let folder = match std::env::consts::OS {
        "macos" => paths.home.join("Library/Application Support"),
        "windows" => paths.home.join("AppData/Roaming"),
        _ => paths.config.clone().unwrap_or_else(|| paths.home.join(".config")),
    };
    folder.join("Claude/claude_desktop_config.json")
}

/// The OpenCode plugin. OpenCode has no hooks that run commands.
fn plugin(program: &Program) -> String {
    let words: Vec<String> = std::iter::once(program.path.display().to_string())
        .chain(program.args(&["hook", "opencode"]))
        .collect();
    include_str!("opencode.js")
        .replace("[\"treering\", \"hook\", \"opencode\"]", &json!(words).to_string())
}
