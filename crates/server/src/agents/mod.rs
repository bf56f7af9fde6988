//! Agents: the programs that talk to models, how Treering is made known to each of them, and what their hooks
//! hand over. Reads and plans; the command line asks and writes.

mod edit;
mod hook;
mod spool;

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

pub use edit::{Edit, EditError};
pub use hook::{HookCapture, capture, reply};
pub use spool::{Spool, store};

/// An agent that Treering can be made known to.
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
    /// Claude Desktop; it has no hooks, so nothing is captured
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
    /// What the person has to do so that hooks run, where that is more than starting the agent anew.
    #[must_use]
    pub const fn post_install_note(self) -> Option<&'static str> {
        match self {
            Self::Codex => Some(
                "Codex runs these hooks only when you have reviewed and trusted them: type /hooks in Codex",
            ),
            _ => None,
        }
    }
}

/// The command line that an agent starts Treering with.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// What comes before the command, such as `--home`.
    pub options: Vec<String>,
}

impl Program {
    fn args(&self, command: &[&str]) -> Vec<String> {
        self.options.iter().cloned().chain(command.iter().map(|it| (*it).to_owned())).collect()
    }

    /// One line for a shell.
    fn line(&self, command: &[&str]) -> String {
        let path = self.path.display().to_string();
        let words = std::iter::once(path).chain(self.args(command));
        words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" ")
    }
}

/// A word as shells take it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Where the files of a person's agents are.
#[derive(Debug, Clone)]
pub struct AgentPaths {
    /// The person's home folder.
    pub home: PathBuf,
    /// The folder for settings of programs, where that is not as usual.
    pub config: Option<PathBuf>,
    /// The folder of Claude Code, where that is not as usual.
    pub claude: Option<PathBuf>,
    /// The folder of Codex, where that is not as usual.
    pub codex: Option<PathBuf>,
}

/// What belongs into a file.
#[derive(Debug, Clone)]
pub struct FileChange {
    /// The file.
    pub path: PathBuf,
    /// What belongs into it.
    pub edits: Vec<Edit>,
}

impl FileChange {
    /// The text with all of it in.
    pub fn put_in(&self, text: &str) -> Result<String, EditError> {
        self.edits.iter().try_fold(text.to_owned(), |text, edit| edit.apply(&text))
    }

    /// The text without any of it; the same text where nothing of it is in.
    pub fn take_out(&self, text: &str) -> Result<String, EditError> {
        self.edits.iter().try_fold(text.to_owned(), |text, edit| edit.revert(&text))
    }
}

/// What belongs into which files so that an agent knows Treering.
#[must_use]
pub fn changes(agent: CodingAgent, places: &AgentPaths, program: &Program) -> Vec<FileChange> {
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
            // Usually one file lies in the folder, the other beside it; a folder that is named holds both.
            let folder = places.claude.clone().unwrap_or_else(|| places.home.join(".claude"));
            let state = places.claude.as_ref().unwrap_or(&places.home).join(".claude.json");
            let events = ["UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"];
            vec![
                change(state, vec![known(with_type(server, "stdio"))]),
                change(folder.join("settings.json"), hooks(&events, &nested(30))),
            ]
        }
        CodingAgent::Codex => {
            let folder = places.codex.clone().unwrap_or_else(|| places.home.join(".codex"));
            let table = Edit::Table {
                name: ["mcp_servers".into(), "treering".into()],
                command: program.path.display().to_string(),
                args: program.args(&["mcp"]),
            };
            let mut edits = hooks(&["UserPromptSubmit", "Stop", "PreCompact"], &nested(30));
            // Codex gives this one no longer, and warns at each start where more is asked for.
            edits.extend(hooks(&["SessionEnd"], &nested(3)));
            vec![
                change(folder.join("config.toml"), vec![table]),
                change(folder.join("hooks.json"), edits),
            ]
        }
        CodingAgent::Cursor => {
            let mut edits = vec![Edit::Default { key: "version".into(), value: json!(1) }];
            // The two for tools are called for shells and MCP servers as well; `stop` and `sessionEnd` hand over nothing
            // that was said.
            let events =
                ["beforeSubmitPrompt", "afterAgentResponse", "postToolUse", "postToolUseFailure"];
            edits.extend(hooks(&events, &json!({ "command": line })));
            vec![
                change(places.home.join(".cursor/mcp.json"), vec![known(server)]),
                change(places.home.join(".cursor/hooks.json"), edits),
            ]
        }
        CodingAgent::OpenCode => {
            let folder = places
                .config
                .clone()
                .unwrap_or_else(|| places.home.join(".config"))
                .join("opencode");
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
        CodingAgent::ClaudeDesktop => vec![change(desktop(places), vec![known(server)])],
    }
}

/// The first of these files that is there, or the first of them.
fn existing(folder: &Path, names: &[&str]) -> PathBuf {
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| folder.join(names[0]))
}

fn with_type(mut server: Value, kind: &str) -> Value {
    server["type"] = kind.into();
    server
}

fn desktop(places: &AgentPaths) -> PathBuf {
    let folder = match std::env::consts::OS {
        "macos" => places.home.join("Library/Application Support"),
        "windows" => places.home.join("AppData/Roaming"),
        _ => places.config.clone().unwrap_or_else(|| places.home.join(".config")),
    };
    folder.join("Claude/claude_desktop_config.json")
}

/// The plugin of OpenCode, which has no hooks that run commands.
fn plugin(program: &Program) -> String {
    let words: Vec<String> = std::iter::once(program.path.display().to_string())
        .chain(program.args(&["hook", "opencode"]))
        .collect();
    include_str!("opencode.js")
        .replace("[\"treering\", \"hook\", \"opencode\"]", &json!(words).to_string())
}
