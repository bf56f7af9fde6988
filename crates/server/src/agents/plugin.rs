//! The plugin folder: a marketplace with one plugin for Claude Code, Codex and Cursor. The plugin
//! has the hooks that `install` writes, the MCP server and a skill. It runs `treering` from the
//! search path, so that it can be shared.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::{CodingAgent, Program, hook_entries};

/// The name of the plugin and of its marketplace.
const NAME: &str = "treering";
const DESCRIPTION: &str =
    "Long-term memory: captures every conversation, and recalls what was said, done and decided.";
/// The folder of the plugin in the marketplace. Codex does not find a plugin at its root.
const FOLDER: &str = "./plugins/treering";

/// The agents that have plugins.
const AGENTS: [CodingAgent; 3] = [CodingAgent::ClaudeCode, CodingAgent::Codex, CodingAgent::Cursor];

/// A file of the plugin folder.
#[derive(Debug, Clone)]
pub struct PluginFile {
    /// The path in the folder.
    pub path: PathBuf,
    /// The content.
    pub text: String,
}

/// The files of the plugin folder.
#[must_use]
pub fn plugin_files() -> Vec<PluginFile> {
    let program = Program { path: NAME.into(), options: Vec::new() };
    let server = json!({ "mcpServers": { NAME: { "command": NAME, "args": ["mcp"] } } });
    let (readme, skill) = (include_str!("plugin_readme.md"), include_str!("skill.md"));
    let mut files = vec![
        in_plugin(".mcp.json", pretty(&server)),
        in_plugin("README.md", readme.to_owned()),
        in_plugin("skills/memory/SKILL.md", skill.to_owned()),
    ];
    for agent in AGENTS {
        let (marketplace, manifest) = match agent {
            CodingAgent::Codex => (".agents/plugins/marketplace.json", ".codex-plugin"),
            CodingAgent::Cursor => (".cursor-plugin/marketplace.json", ".cursor-plugin"),
            _ => (".claude-plugin/marketplace.json", ".claude-plugin"),
        };
        let hooks = format!("hooks/{agent}.json");
        files.push(PluginFile { path: marketplace.into(), text: pretty(&marketplace_of(agent)) });
        let manifest = format!("{manifest}/plugin.json");
        files.push(in_plugin(&manifest, pretty(&manifest_of(agent, &hooks))));
        files.push(in_plugin(&hooks, pretty(&hooks_of(agent, &program))));
    }
    files
}

fn in_plugin(path: &str, text: String) -> PluginFile {
    PluginFile { path: PathBuf::from("plugins").join(NAME).join(path), text }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// The catalog that lists the plugin.
fn marketplace_of(agent: CodingAgent) -> Value {
    match agent {
        CodingAgent::Codex => json!({
            "name": NAME,
            "interface": { "displayName": "Treering" },
            "plugins": [{
                "name": NAME,
                "source": { "source": "local", "path": FOLDER },
                "policy": { "installation": "AVAILABLE", "authentication": "ON_INSTALL" },
                "category": "Productivity",
            }],
        }),
        _ => json!({
            "name": NAME,
            "owner": { "name": "Treering" },
            "metadata": { "description": "The Treering plugin" },
            "plugins": [{ "name": NAME, "source": FOLDER, "description": DESCRIPTION }],
        }),
    }
}

/// The manifest of the plugin.
fn manifest_of(agent: CodingAgent, hooks: &str) -> Value {
    let mut manifest = json!({
        "name": NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "description": DESCRIPTION,
        "author": { "name": "Treering" },
        "license": env!("CARGO_PKG_LICENSE"),
        "keywords": ["memory", "recall", "mcp"],
        "hooks": format!("./{hooks}"),
        "mcpServers": "./.mcp.json",
        "skills": "./skills/",
    });
    if agent == CodingAgent::Codex {
        manifest["interface"] = json!({
            "displayName": "Treering",
            "shortDescription": "Long-term memory for your agent",
            "longDescription": DESCRIPTION,
            "developerName": "Treering",
            "category": "Productivity",
            "capabilities": ["Read", "Write"],
        });
    }
    manifest
}

/// The hooks, in the form of the agent's own settings.
fn hooks_of(agent: CodingAgent, program: &Program) -> Value {
    let mut events = Map::new();
    for (event, hook) in hook_entries(agent, program) {
        events.insert(event.to_owned(), json!([hook]));
    }
    match agent {
        CodingAgent::Cursor => json!({ "version": 1, "hooks": events }),
        _ => json!({ "hooks": events }),
    }
}
