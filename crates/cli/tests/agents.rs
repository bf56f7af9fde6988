//! `treering install`, `uninstall` and `hook` on configuration files that hold other settings
//! too.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::home::run_with_input;
use serde_json::{Value, json};

const AGENTS: [&str; 9] = [
    "claude-code",
    "cursor",
    "codex",
    "opencode",
    "claude-desktop",
    "gemini-cli",
    "vscode",
    "windsurf",
    "zed",
];

/// A user's home folder, with Treering's home inside it.
struct UserHome(tempfile::TempDir);

impl UserHome {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn home(&self) -> &Path {
        self.0.path()
    }

    fn memory(&self) -> PathBuf {
        self.home().join("memory")
    }

    fn command(&self, args: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_treering")), args)
    }

    fn command_of(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.home()).env("TREERING_HOME", self.memory()).args(args);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().unwrap()
    }

    fn ok(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        let output = self.run(&args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a hook, which never fails. Returns its reply to the agent and its note to the user.
    fn hook(&self, agent: &str, input: &str) -> (String, String) {
        self.hook_with(&[], agent, input)
    }

    fn hook_with(&self, options: &[&str], agent: &str, input: &str) -> (String, String) {
        let mut command = self.command(&[options, &["hook", agent]].concat());
        let Output { status, stdout, stderr } = run_with_input(&mut command, input);
        assert_eq!(status.code(), Some(0), "{agent}: {}", String::from_utf8_lossy(&stderr));
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.home().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.home().join(path)).unwrap()
    }

    /// Every file outside Treering's home.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let (mut files, mut folders) = (BTreeMap::new(), vec![self.home().to_path_buf()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true if path == self.memory() => {}
                    true => folders.push(path),
                    false => drop(files.insert(path.clone(), fs::read_to_string(path).unwrap())),
                }
            }
        }
        files
    }

    fn spool(&self) -> usize {
        fs::read_dir(self.memory().join("spool")).map_or(0, Iterator::count)
    }
}

/// A user who already has settings, with comments, in every file.
fn with_existing_settings() -> UserHome {
    let person = UserHome::new();
    let servers = "{\n  // mine\n  \"mcpServers\": { \"other\": { \"command\": \"x\" } },\n  \"theme\": \"dark\"\n}\n";
    for path in [".claude.json", ".cursor/mcp.json", ".config/Claude/claude_desktop_config.json"] {
        person.put(path, servers);
    }
    let beep = "{\n  \"hooks\": {\n    \"Stop\": [{ \"hooks\": [{ \"type\": \"command\", \"command\": \"beep\" }] }]\n  }\n}\n";
    person.put(".claude/settings.json", beep);
    person.put(".codex/hooks.json", beep);
    person.put(
        ".codex/config.toml",
        "# mine\nmodel = \"o5\"\n\n[mcp_servers.other]\ncommand = \"x\"\n",
    );
    person.put(
        ".cursor/hooks.json",
        "{ \"version\": 1, \"hooks\": { \"stop\": [{ \"command\": \"beep\" }] } }",
    );
    person.put(".config/opencode/opencode.jsonc", "{\n  \"mcp\": {}, // none yet\n}\n");
    person
}

#[test]
fn uninstall_restores_files_byte_for_byte() {
    for person in [UserHome::new(), with_existing_settings()] {
        let before = person.files();
        for agent in AGENTS {
            person.ok(&["install", agent, "--yes"]);
            let once = person.files();
            assert!(
                person
                    .ok(&["install", agent, "--yes"])
                    .as_array()
                    .unwrap()
                    .iter()
                    .all(|file| file["action"] == "unchanged")
            );
            assert_eq!(person.files(), once, "{agent}: put in twice is put in once");
        }
        assert_ne!(person.files(), before);
        let plugin = person.read(".config/opencode/plugins/treering.js");
        let command =
            json!([env!("CARGO_BIN_EXE_treering"), "--home", person.memory(), "hook", "opencode"]);
        assert!(plugin.contains(&command.to_string()), "{plugin}");
        for agent in AGENTS {
            person.ok(&["uninstall", agent, "--yes"]);
        }
        assert_eq!(person.files(), before, "as if Treering had never been there");
    }
}

#[test]
fn a_plugin_has_the_hooks_of_install_the_server_and_the_skill() {
    let person = UserHome::new();
    person.ok(&["install", "claude-code", "--yes"]);
    person.ok(&["install", "codex", "--yes"]);
    person.ok(&["install", "cursor", "--yes"]);
    let folder = person.home().join("plugin");
    let written = person.ok(&["plugin", folder.to_str().unwrap()]);
    let read = |path: &str| -> Value { serde_json::from_str(&person.read(path)).unwrap() };
    for (marketplace, manifest, installed, agent) in [
        (".claude-plugin", ".claude-plugin", ".claude/settings.json", "claude-code"),
        (".agents/plugins", ".codex-plugin", ".codex/hooks.json", "codex"),
        (".cursor-plugin", ".cursor-plugin", ".cursor/hooks.json", "cursor"),
    ] {
        let listed = read(&format!("plugin/{marketplace}/marketplace.json"))["plugins"][0].clone();
        let source = listed["source"].as_str().or_else(|| listed["source"]["path"].as_str());
        let plugin = format!("plugin/{}", source.unwrap().strip_prefix("./").unwrap());
        let manifest = read(&format!("{plugin}/{manifest}/plugin.json"));
        assert_eq!(manifest["name"], listed["name"]);
        let part = |name: &str| {
            let path = manifest[name].as_str().unwrap().strip_prefix("./").unwrap();
            format!("{plugin}/{path}")
        };
        let command = format!("--home {} hook {agent}", person.memory().display());
        let own = person.read(installed).replace(env!("CARGO_BIN_EXE_treering"), "treering");
        let own: Value =
            serde_json::from_str(&own.replace(&command, &format!("hook {agent}"))).unwrap();
        assert_eq!(read(&part("hooks"))["hooks"], own["hooks"], "{agent}");
        let server = &read(&part("mcpServers"))["mcpServers"]["treering"];
        assert_eq!(*server, json!({ "command": "treering", "args": ["mcp"] }));
        let skill = person.read(&format!("{}memory/SKILL.md", part("skills")));
        let (head, body) = skill.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
        assert!(head.contains("name: memory\ndescription: "), "{head}");
        assert!(body.contains("When to search") && body.contains("When to drill"), "{body}");
    }
    assert_eq!(person.ok(&["plugin", folder.to_str().unwrap()]), written, "it can be renewed");
    let refused = person.run(&["plugin", person.home().to_str().unwrap()]);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && errors.contains("choose a new folder"), "{errors}");
}

#[test]
fn uninstall_keeps_later_changes() {
    let person = with_existing_settings();
    person.ok(&["install", "claude-code", "--yes"]);
    person.ok(&["install", "codex", "--yes"]);
    let backup = person.read(".claude/settings.json.treering.bak");
    assert!(backup.contains("beep") && !backup.contains("treering"));
    let settings = person.read(".claude/settings.json");
    for event in ["UserPromptSubmit", "Stop", "PreCompact", "SessionEnd"] {
        assert!(settings.contains(event), "{settings}");
    }
    person.put(".claude/settings.json", &settings.replace("beep", "boop"));
    let toml =
        format!("{}\n[mcp_servers.third]\ncommand = \"z\"\n", person.read(".codex/config.toml"));
    person.put(".codex/config.toml", &toml);
    person.ok(&["uninstall", "claude-code", "--yes"]);
    person.ok(&["uninstall", "codex", "--yes"]);
    let settings: Value = serde_json::from_str(&person.read(".claude/settings.json")).unwrap();
    assert_eq!(
        settings,
        json!({ "hooks": { "Stop": [{ "hooks": [{ "type": "command", "command": "boop" }] }] } })
    );
    let toml = person.read(".codex/config.toml");
    assert!(
        toml.contains("# mine") && toml.contains("third") && !toml.contains("treering"),
        "{toml}"
    );
}

#[test]
fn uninstall_from_another_path_restores_files_byte_for_byte() {
    let other_folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let moved = other_folder.path().join("treering");
    fs::hard_link(env!("CARGO_BIN_EXE_treering"), &moved).unwrap();
    for person in [UserHome::new(), with_existing_settings()] {
        let before = person.files();
        for agent in AGENTS {
            let installed =
                person.command_of(&moved, &["install", agent, "--yes"]).output().unwrap();
            assert!(installed.status.success(), "{agent}");
            person.ok(&["uninstall", agent, "--yes"]);
        }
        assert_eq!(person.files(), before);
    }
}

#[test]
fn the_backup_holds_the_last_state_without_treering() {
    let person = UserHome::new();
    let backup = person.home().join(".cursor/hooks.json.treering.bak");
    let first = "{ \"version\": 1, \"hooks\": { \"stop\": [{ \"command\": \"beep\" }] } }";
    person.put(".cursor/hooks.json", first);
    person.ok(&["install", "cursor", "--yes"]);
    assert_eq!(fs::read_to_string(&backup).unwrap(), first);
    // The user removes Treering by hand and changes another setting.
    let second = first.replace("beep", "boop  ");
    person.put(".cursor/hooks.json", &second);
    person.ok(&["install", "cursor", "--yes"]);
    assert_eq!(fs::read_to_string(&backup).unwrap(), second);
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert_eq!((person.read(".cursor/hooks.json"), backup.exists()), (second.clone(), false));

    person.ok(&["install", "cursor", "--yes"]);
    let changed = person.read(".cursor/hooks.json").replace("boop", "bop");
    person.put(".cursor/hooks.json", &changed);
    person.ok(&["install", "cursor", "--yes"]);
    assert_eq!(fs::read_to_string(&backup).unwrap(), second, "Treering was in already");
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert!(person.read(".cursor/hooks.json").contains("bop") && !backup.exists());

    // The file is deleted and installed again: Treering creates it, and uninstalling deletes it.
    person.ok(&["install", "cursor", "--yes"]);
    fs::remove_file(person.home().join(".cursor/hooks.json")).unwrap();
    person.ok(&["install", "cursor", "--yes"]);
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert!(!person.home().join(".cursor/hooks.json").exists() && !backup.exists());

    person.put(".cursor/mcp.json", "{}\n");
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert_eq!(person.read(".cursor/mcp.json"), "{}\n", "not made by Treering");
}

#[cfg(unix)]
#[test]
fn install_preserves_file_permissions() {
    use std::os::unix::fs::PermissionsExt as _;
    let person = with_existing_settings();
    let mode =
        |path: &str| fs::metadata(person.home().join(path)).unwrap().permissions().mode() & 0o777;
    for (settings, rights) in [(".claude/settings.json", 0o600), (".claude.json", 0o664)] {
        let path = person.home().join(settings);
        fs::set_permissions(&path, fs::Permissions::from_mode(rights)).unwrap();
    }
    // The temporary file of an interrupted run.
    person.put(".claude/settings.json.treering.new", "half");
    person.ok(&["install", "claude-code", "--yes"]);
    assert_eq!(
        (mode(".claude/settings.json"), mode(".claude/settings.json.treering.bak")),
        (0o600, 0o600)
    );
    assert_eq!((mode(".claude.json"), mode(".claude.json.treering.bak")), (0o664, 0o664));
    person.ok(&["uninstall", "claude-code", "--yes"]);
    assert_eq!((mode(".claude/settings.json"), mode(".claude.json")), (0o600, 0o664));
}

#[test]
fn configured_agent_folders_are_used() {
    let person = with_existing_settings();
    let before = person.files();
    for (agent, variable, files) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", [".claude.json", "settings.json"]),
        ("codex", "CODEX_HOME", ["config.toml", "hooks.json"]),
        ("opencode", "XDG_CONFIG_HOME", ["opencode/opencode.json", "opencode/plugins/treering.js"]),
    ] {
        let config_folder = tempfile::tempdir().unwrap();
        let run = |verb| {
            let mut command = person.command(&[verb, agent, "--yes"]);
            assert!(
                command.env(variable, config_folder.path()).output().unwrap().status.success(),
                "{agent}"
            );
        };
        run("install");
        for file in files {
            let text = fs::read_to_string(config_folder.path().join(file)).unwrap();
            assert!(text.contains("treering"), "{agent}: {file}");
        }
        assert_eq!(person.files(), before, "{agent}");
        run("uninstall");
        assert!(files.iter().all(|file| !config_folder.path().join(file).exists()), "{agent}");
    }
}

#[test]
fn install_codex_explains_that_hooks_need_trust() {
    let person = with_existing_settings();
    let stderr_of = |args: &[&str]| String::from_utf8(person.run(args).stderr).unwrap();
    assert!(stderr_of(&["install", "codex", "--yes"]).contains("/hooks"));
    assert!(!stderr_of(&["uninstall", "codex", "--yes"]).contains("/hooks"));
    assert!(!stderr_of(&["install", "claude-code", "--yes"]).contains("/hooks"));
    person.ok(&["install", "codex", "--yes"]);
    let hooks: Value = serde_json::from_str(&person.read(".codex/hooks.json")).unwrap();
    for (event, seconds) in
        [("UserPromptSubmit", 30), ("Stop", 30), ("PreCompact", 30), ("SessionEnd", 3)]
    {
        let our_hook = hooks["hooks"][event].as_array().unwrap().last().unwrap();
        assert_eq!(our_hook["hooks"][0]["timeout"], seconds, "{hooks}");
    }
}

#[test]
fn entries_made_by_hand_are_kept_or_merged() {
    let person = UserHome::new();
    let mine = "{\n  \"mcpServers\": { \"treering\": { \"command\": \"treering\", \"args\": [\"mcp\"], \"env\": { \"A\": \"1\" } } }\n}\n";
    person.put(".cursor/mcp.json", mine);
    let shown = String::from_utf8(person.run(&["install", "cursor", "--dry-run"]).stdout).unwrap();
    assert!(shown.contains("you made mcpServers.treering by hand"), "{shown}");
    person.ok(&["install", "cursor", "--yes"]);
    assert_eq!(person.read(".cursor/mcp.json"), mine);
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert_eq!(person.read(".cursor/mcp.json"), mine, "nor is it removed");

    person.ok(&["install", "cursor", "--yes", "--merge"]);
    let merged: Value = serde_json::from_str(&person.read(".cursor/mcp.json")).unwrap();
    let server = &merged["mcpServers"]["treering"];
    assert_eq!(
        (&server["env"]["A"], &server["command"]),
        (&json!("1"), &json!(env!("CARGO_BIN_EXE_treering")))
    );
    assert_eq!(person.read(".cursor/mcp.json.treering.bak"), mine);
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert_eq!(person.read(".cursor/mcp.json"), mine);
}

#[test]
fn several_files_change_together_or_not_at_all() {
    let person = with_existing_settings();
    let before = person.files();
    // The second file of this agent cannot be written: its place is a folder.
    fs::create_dir_all(person.home().join(".claude/settings.json.treering.new/x")).unwrap();
    let failed = person.run(&["install", "claude-code", "--yes"]);
    assert!(!failed.status.success());
    let error = String::from_utf8(failed.stderr).unwrap();
    assert!(error.contains("settings.json"), "{error}");
    fs::remove_dir_all(person.home().join(".claude/settings.json.treering.new")).unwrap();
    let mut after = person.files();
    after.retain(|path, _| !path.to_string_lossy().ends_with(".treering.bak"));
    assert_eq!(after, before);
}

#[cfg(unix)]
#[test]
fn odd_files_are_edited_as_they_are() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let person = UserHome::new();
    // A link whose target does not exist yet, as dotfile managers make them.
    fs::create_dir_all(person.home().join("dotfiles")).unwrap();
    fs::create_dir_all(person.home().join(".cursor")).unwrap();
    let link = person.home().join(".cursor/mcp.json");
    symlink("../dotfiles/mcp.json", &link).unwrap();
    person.put(".cursor/hooks.json", "\u{feff}{ \"version\": 1 }");
    person.ok(&["install", "cursor", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(person.read("dotfiles/mcp.json").contains("treering"));
    assert!(person.read(".cursor/hooks.json").starts_with("\u{feff}{"));
    person.ok(&["uninstall", "cursor", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(person.read(".cursor/hooks.json"), "\u{feff}{ \"version\": 1 }");

    let hooks = person.home().join(".cursor/hooks.json");
    fs::set_permissions(&hooks, fs::Permissions::from_mode(0o444)).unwrap();
    let refused = person.run(&["install", "cursor", "--yes"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && error.contains("read-only"), "{error}");
    assert!(!person.home().join("dotfiles/mcp.json").exists(), "nothing else was changed");
}

#[test]
fn install_without_a_name_finds_the_agents() {
    let person = UserHome::new();
    let nothing = person.run(&["install", "--yes"]);
    assert!(!nothing.status.success());
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("claude-code"));
    person.put(".claude/settings.json", "{}");
    person.put(".config/zed/settings.json", "// mine\n{}");
    let views = person.ok(&["install", "--yes"]);
    let mut agents: Vec<&str> =
        views.as_array().unwrap().iter().map(|view| view["agent"].as_str().unwrap()).collect();
    agents.dedup();
    assert_eq!(agents, ["claude-code", "zed"]);
    assert!(person.read(".config/zed/settings.json").contains("context_servers"));
    person.ok(&["uninstall", "--yes"]);
    assert_eq!(person.read(".config/zed/settings.json"), "// mine\n{}");
    assert_eq!(person.read(".claude/settings.json"), "{}");
}

#[test]
fn nothing_changes_without_confirmation() {
    let person = with_existing_settings();
    let before = person.files();
    let diff = person.run(&["install", "claude-code", "--dry-run"]);
    let diff = String::from_utf8(diff.stdout).unwrap();
    assert!(
        diff.contains("settings.json") && diff.contains("+") && diff.contains("hook claude-code"),
        "{diff}"
    );
    let refused = person.run(&["install", "claude-code"]);
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--yes")
    );
    person.put(".cursor/mcp.json", "{ broken");
    let broken = person.run(&["install", "cursor", "--yes"]);
    assert!(String::from_utf8_lossy(&broken.stderr).contains("mcp.json: invalid JSON"));
    person.put(".cursor/mcp.json", &before[&person.home().join(".cursor/mcp.json")]);
    assert_eq!(person.files(), before);
}

fn transcript(agent: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import").join(agent);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files[0].clone()
}

#[test]
fn growing_transcripts_are_captured_without_duplicates() {
    for agent in ["claude-code", "codex"] {
        let person = UserHome::new();
        let transcript_text = fs::read_to_string(transcript(agent)).unwrap();
        let path = person.home().join(transcript(agent).file_name().unwrap());
        let input =
            json!({ "session_id": "s", "transcript_path": path, "cwd": "/", "hook_event_name": "Stop" })
                .to_string();
        assert_eq!(
            person.hook(agent, &input),
            (String::new(), String::new()),
            "a session without a transcript yet"
        );
        let half = transcript_text[..transcript_text.len() / 2].rfind('\n').unwrap();
        for text in [&transcript_text[..=half], &transcript_text, &transcript_text] {
            fs::write(&path, text).unwrap();
            assert_eq!(
                person.hook(agent, &input),
                (String::new(), String::new()),
                "nothing is said to the agent"
            );
        }
        let captured = person.ok(&["stats"]);
        let imported = UserHome::new();
        imported.ok(&["import", path.to_str().unwrap()]);
        for count in ["conversations", "messages", "tool_calls"] {
            assert_eq!(captured[count], imported.ok(&["stats"])[count], "{agent}: {count}");
        }
        assert_eq!(person.ok(&["verify"])["clean"], true);
    }
}

#[test]
fn failed_captures_are_spooled_and_stored_once() {
    let person = UserHome::new();
    fs::create_dir_all(person.memory()).unwrap();
    let store = person.memory().join("treering.db");
    fs::write(
        &store,
        "this is no store, and long enough to be seen as one that is damaged".repeat(20),
    )
    .unwrap();
    let claude = json!({ "transcript_path": transcript("claude-code") }).to_string();
    let cursor = |name: &str, text: &str| {
        json!({ "hook_event_name": name, "conversation_id": "c1", "generation_id": "g1", "workspace_roots": ["/w"],
            if name.starts_with("before") { "prompt" } else { "text" }: text })
        .to_string()
    };
    person.hook("claude-code", &claude);
    person.hook("claude-code", &claude);
    let (reply, _) = person.hook("cursor", &cursor("beforeSubmitPrompt", "Which port?"));
    assert_eq!(reply.trim(), "{\"continue\":true}", "the agent goes on");
    person.hook("cursor", &cursor("afterAgentResponse", "7410."));
    assert_eq!(person.spool(), 3, "a transcript once, however often");
    #[cfg(unix)]
    for entry in fs::read_dir(person.memory().join("spool")).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &entry.unwrap().metadata().unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600, "as private as the store");
    }

    fs::remove_file(&store).unwrap();
    let sessions = person.ok(&["sessions"])["conversations"].clone();
    assert_eq!((sessions.as_array().unwrap().len(), person.spool()), (2, 0));
    let port = sessions.as_array().unwrap().iter().find(|it| it["slug"] == "which-port").unwrap();
    assert_eq!((&port["messages"], &port["cwd"]), (&json!(2), &json!("/w")));
    let before = person.ok(&["stats"])["messages"].clone();
    person.hook("claude-code", &claude);
    person.hook("cursor", &cursor("beforeSubmitPrompt", "Which port?"));
    assert_eq!(
        person.ok(&["stats"])["messages"],
        before,
        "replayed and captured again, it is there once"
    );
    assert_eq!(person.ok(&["verify"])["clean"], true);
}

#[test]
fn spooled_captures_are_stored_for_their_own_tenant() {
    let person = UserHome::new();
    let store = person.memory().join("treering.db");
    let settings = person.memory().join("treering.toml");
    let prompt = |text: &str| {
        json!({ "hook_event_name": "beforeSubmitPrompt", "conversation_id": text, "generation_id": "g", "prompt": text })
            .to_string()
    };
    let stored_texts = |options: &[&str]| -> Vec<String> {
        let sessions = person.ok(&[options, &["sessions"]].concat());
        let slugs = sessions["conversations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["slug"].as_str().unwrap().to_owned());
        let mut slugs: Vec<String> = slugs.collect();
        slugs.sort();
        slugs
    };
    person.put("memory/treering.db", &"no store".repeat(200));
    person.hook("cursor", &prompt("mine"));
    // The layout that versions without tenants in the spool left behind.
    let spooled: Vec<PathBuf> = fs::read_dir(person.memory().join("spool"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert!(spooled.len() == 1 && spooled[0].is_file(), "{spooled:?}");
    for tenant in ["ana", "..", "bob"] {
        person.hook_with(
            &["--tenant", tenant],
            "cursor",
            &prompt(&format!("of {}", tenant.replace("..", "dots"))),
        );
    }
    fs::write(&settings, "tenant = ").unwrap();
    person.hook("cursor", &prompt("unsettled"));
    person.hook_with(&["--tenant", "ana"], "cursor", &prompt("also ana"));
    fs::remove_file(&store).unwrap();

    fs::write(&settings, "tenant = \"cleo\"").unwrap();
    assert_eq!(stored_texts(&["--tenant", "ana"]), ["also-ana", "of-ana"]);
    assert_eq!(stored_texts(&[]), ["unsettled"], "the tenant that the settings name");
    assert_eq!(stored_texts(&["--tenant", "default"]), ["mine"]);
    assert_eq!(stored_texts(&["--tenant", ".."]), ["of-dots"]);
    assert_eq!(stored_texts(&["--tenant", "bob"]), ["of-bob"]);
}

#[test]
fn cursor_turns_are_captured_with_tool_calls() {
    let person = UserHome::new();
    let event = |name: &str, more: Value| {
        let mut input = json!({ "hook_event_name": name, "conversation_id": "c1", "generation_id": "g1",
            "workspace_roots": ["/w"] });
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input.to_string()
    };
    let shell = json!({ "tool_name": "Shell", "tool_use_id": "t1", "tool_input": { "command": "grep beforeSubmitPrompt" },
        "tool_output": "{\"exitCode\":0,\"stdout\":\"port = 7410\"}", "cwd": "/w", "duration": 11.738 });
    let read = json!({ "tool_name": "Read", "tool_use_id": "t2", "tool_input": { "path": "host" },
        "error_message": "no such file", "failure_type": "error", "duration": 3, "is_interrupt": false });
    for _ in 0..2 {
        person.hook("cursor", &event("beforeSubmitPrompt", json!({ "prompt": "Which port?" })));
        let printed = person.hook("cursor", &event("postToolUse", shell.clone()));
        assert_eq!(printed, (String::new(), String::new()), "nothing is said to the agent");
        person.hook("cursor", &event("postToolUseFailure", read.clone()));
        person.hook("cursor", &event("afterAgentResponse", json!({ "text": "7410." })));
        person.hook("cursor", &event("stop", json!({ "status": "completed", "loop_count": 0 })));
    }
    let stats = person.ok(&["stats"]);
    assert_eq!((&stats["messages"], &stats["tool_calls"]), (&json!(2), &json!(2)));
    let steps = person.ok(&["show", "which-port"])["turns"][0]["steps"].clone();
    let calls: Vec<&Value> =
        steps.as_array().unwrap().iter().filter(|it| !it["args"].is_null()).collect();
    assert_eq!(
        (&calls[0]["name"], &calls[0]["success"]),
        (&json!("Shell"), &json!(true)),
        "{steps}"
    );
    assert!(calls[0]["result"].as_str().unwrap().contains("port = 7410"), "{steps}");
    assert_eq!(
        (&calls[0]["duration_ms"], &calls[1]["duration_ms"]),
        (&json!(12), &json!(3)),
        "{steps}"
    );
    assert_eq!(
        (&calls[1]["result"], &calls[1]["success"]),
        (&json!("no such file"), &json!(false)),
        "{steps}"
    );

    person.ok(&["install", "cursor", "--yes"]);
    let hooks: Value = serde_json::from_str(&person.read(".cursor/hooks.json")).unwrap();
    for event in
        ["beforeSubmitPrompt", "afterAgentResponse", "postToolUse", "postToolUseFailure", "stop"]
    {
        assert!(
            hooks["hooks"][event][0]["command"].as_str().unwrap().ends_with("hook cursor"),
            "{hooks}"
        );
    }
}

#[test]
fn the_end_of_a_turn_is_captured() {
    let person = UserHome::new();
    fs::create_dir_all(person.memory()).unwrap();
    fs::write(person.memory().join("treering.toml"), "[tree]\npreset = \"per-turn\"\n").unwrap();
    let nodes = |person: &UserHome, name: &str| {
        person.ok(&["work"]);
        person.ok(&["show", name, "--nodes"])["nodes"].as_array().unwrap().len()
    };
    let cursor = |event: &str, field: &str, text: &str| {
        json!({ "hook_event_name": event, "conversation_id": "c1", "generation_id": "g1",
            "workspace_roots": ["/w"], field: text })
        .to_string()
    };
    person.hook("cursor", &cursor("beforeSubmitPrompt", "prompt", "Which port does it use?"));
    person.hook("cursor", &cursor("afterAgentResponse", "text", "Port 7410, since March."));
    let name = person.ok(&["sessions"])["conversations"][0]["slug"].as_str().unwrap().to_owned();
    assert_eq!(nodes(&person, &name), 0, "the turn may go on");
    person.hook("cursor", &cursor("stop", "status", "completed"));
    assert_eq!(nodes(&person, &name), 1);

    let time = json!({ "created": 1_760_000_000_000_u64 });
    let session = |ended: bool| {
        json!({ "ended": ended, "session": { "id": "ses_1", "title": "Ports" }, "messages": [
            { "id": "msg_1", "type": "user", "text": "Which port does it use?", "time": time },
            { "id": "msg_2", "type": "assistant", "time": time,
              "content": [{ "type": "text", "text": "Port 7410, since March." }] },
        ] })
        .to_string()
    };
    person.hook("opencode", &session(false));
    assert_eq!(nodes(&person, "ports"), 0, "a compaction does not end the turn");
    person.hook("opencode", &session(true));
    assert_eq!(nodes(&person, "ports"), 1);
}

#[test]
fn opencode_sessions_are_captured_with_tool_calls() {
    let person = UserHome::new();
    let text = |id: &str, role: &str, text: &str| {
        json!({ "info": { "id": id, "role": role, "time": { "created": 1_760_000_000_000_u64 } },
            "parts": [{ "id": format!("{id}p"), "type": "text", "text": text }] })
    };
    let mut answer = text("m2", "assistant", "7410.");
    answer["parts"].as_array_mut().unwrap().insert(
        0,
        json!({ "id": "t1", "type": "tool", "tool": "grep",
            "state": { "status": "completed", "input": { "q": "port" }, "output": "port = 7410" } }),
    );
    let input = |messages: &[&Value]| {
        json!({ "directory": "/w", "session": { "id": "ses1", "title": "Ports" }, "messages": messages })
            .to_string()
    };
    let question = text("m1", "user", "Which port?");
    person.hook("opencode", &input(&[&question]));
    person.hook("opencode", &input(&[&question, &answer]));
    person.hook("opencode", &input(&[&question, &answer]));
    let stats = person.ok(&["stats"]);
    assert_eq!((&stats["messages"], &stats["tool_calls"]), (&json!(2), &json!(1)));
    let conversation = person.ok(&["show", "ports"]);
    assert_eq!(conversation["turns"][0]["steps"][1]["result"], "port = 7410", "{conversation}");
}

#[test]
fn opencode_2_sessions_are_captured_with_tool_calls() {
    let person = UserHome::new();
    let time = json!({ "created": 1_760_000_000_000_u64 });
    let tool = |state: Value| json!({ "type": "tool", "id": "call_0", "name": "grep", "state": state, "time": time });
    let found = tool(json!({ "status": "completed", "input": { "q": "port" },
        "content": [{ "type": "text", "text": "port = 7410" }, { "type": "file", "uri": "x", "mime": "y" }] }));
    let failed = tool(json!({ "status": "error", "input": { "q": "host" },
        "error": { "type": "unknown", "message": "no such file" } }));
    let running = tool(json!({ "status": "running", "input": {}, "metadata": {} }));
    let messages = json!([
        { "id": "msg_1", "type": "user", "text": "Which port?", "time": time },
        { "id": "msg_2", "type": "system", "text": "The date is another.", "time": time },
        { "id": "msg_3", "type": "assistant", "time": time,
          "content": [{ "type": "reasoning", "text": "hm" }, found, { "type": "text", "text": "7410." }] },
        { "id": "msg_4", "type": "assistant", "time": time, "content": [failed, { "type": "text", "text": "No host." }] },
        { "id": "msg_5", "type": "assistant", "time": time, "content": [running] },
        { "id": "msg_6", "type": "idle", "outcome": "succeeded", "time": time },
    ]);
    let session = json!({ "id": "ses_1", "title": "Ports", "location": { "directory": "/w" } });
    let input = json!({ "session": session, "messages": messages }).to_string();
    person.hook("opencode", &input);
    person.hook("opencode", &input);
    let stats = person.ok(&["stats"]);
    assert_eq!((&stats["messages"], &stats["tool_calls"]), (&json!(3), &json!(2)));
    let steps = person.ok(&["show", "ports"])["turns"][0]["steps"].clone();
    let results: Vec<&str> =
        steps.as_array().unwrap().iter().filter_map(|it| it["result"].as_str()).collect();
    assert_eq!(results, ["port = 7410", "no such file"], "{steps}");
    assert_eq!(person.ok(&["sessions"])["conversations"][0]["cwd"], "/w");
}

#[test]
fn long_opencode_sessions_are_captured_completely() {
    let person = UserHome::new();
    let messages: Vec<Value> = (0..1001)
        .map(|n| json!({ "id": format!("msg_{n}"), "type": "user", "text": format!("Line {n}") }))
        .collect();
    let input = json!({ "session": { "id": "ses_1" }, "messages": messages }).to_string();
    assert_eq!(person.hook("opencode", &input), (String::new(), String::new()));
    assert_eq!(person.ok(&["stats"])["messages"], 1001);
}

#[test]
fn a_hook_never_fails_the_agent() {
    let person = UserHome::new();
    for agent in AGENTS {
        let (stdout, stderr) = person.hook(agent, "not json");
        assert!(
            stdout.is_empty() && stderr.contains("did not capture"),
            "{agent}: {stdout} {stderr}"
        );
        person.hook(agent, "{}");
    }
    person.put("memory", "a file where the folder should be");
    person
        .hook("claude-code", &json!({ "transcript_path": transcript("claude-code") }).to_string());
}

/// Agents without hooks, or with hooks that capture what is said from now on, have histories on disk.
#[test]
fn the_histories_on_disk_are_offered() {
    let person = UserHome::new();
    let fixture = |path: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/import");
        fs::read_to_string(folder.join(path)).unwrap()
    };
    let session = "session-2026-02-03T09-15-5b1e77aa.json";
    for (agent, file, text, other) in [
        (
            "cursor",
            ".cursor/projects/p/agent-transcripts/c/439110c7-f2a6-484a-bfa2-b1b10d6b8703.jsonl",
            fixture("cursor/439110c7-f2a6-484a-bfa2-b1b10d6b8703.jsonl"),
            ".cursor/projects/p/state.json",
        ),
        (
            "gemini-cli",
            &*format!(".gemini/tmp/h/chats/{session}"),
            fixture(&format!("gemini-cli/{session}")),
            ".gemini/tmp/h/logs.json",
        ),
        (
            "vscode",
            ".config/Code/User/workspaceStorage/w/chatSessions/0c4d1f0e-51a1-4e02-9a07-6f7f4c0a1b11.json",
            fixture("copilot/0c4d1f0e-51a1-4e02-9a07-6f7f4c0a1b11.json"),
            ".config/Code/User/workspaceStorage/w/workspace.json",
        ),
    ] {
        person.put(file, &text);
        person.put(other, "[]");
        let note = |args: &[&str]| String::from_utf8(person.run(args).stderr).unwrap();
        let offer = note(&["install", agent, "--yes"]);
        assert!(offer.contains(&format!("{agent} has 1 transcript")), "{offer}");
        assert!(offer.contains("treering import"), "{offer}");
        let imported = person.run(&["install", agent, "--yes", "--import"]);
        let report = String::from_utf8_lossy(&imported.stdout).into_owned();
        assert!(imported.status.success() && report.contains("1 conversation new"), "{report}");
        let again = note(&["install", agent, "--yes"]);
        assert!(!again.contains("transcript"), "{again}");
    }
}
