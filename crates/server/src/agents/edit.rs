//! Edits to the settings files of other programs. An edit preserves everything else in the file,
//! including comments, and can be reverted. Works on strings; performs no I/O.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, value};

/// A change to a settings file.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// A key of a JSON object.
    Entry {
        /// The path of keys to the object.
        at: Vec<String>,
        /// The key to set.
        key: String,
        /// The value to set.
        value: Value,
    },
    /// An element of a JSON array. It replaces an older hook that runs the same Treering command.
    Item {
        /// The path of keys to the array.
        at: Vec<String>,
        /// The element.
        value: Value,
    },
    /// A top-level JSON key, set only if it is missing.
    Default {
        /// The key to set.
        key: String,
        /// The default value.
        value: Value,
    },
    /// A TOML table that defines a command.
    Table {
        /// The dotted table name, as two segments.
        name: [String; 2],
        /// The path of the program.
        command: String,
        /// The program's arguments.
        args: Vec<String>,
    },
    /// The whole file.
    Whole(String),
}

/// The treatment of entries for Treering that a person made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEntries {
    /// Keep them, and skip this edit.
    Keep,
    /// Set their command, and keep their other keys.
    Merge,
}

/// The reason why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

impl Edit {
    /// Returns the text with this edit applied. Keeps entries that a person made.
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        self.apply_with(text, OwnEntries::Keep)
    }

    /// Returns the text with this edit applied.
    pub fn apply_with(&self, text: &str, own: OwnEntries) -> Result<String, EditError> {
        match self {
            Self::Whole(content) => Ok(content.clone()),
            Self::Table { name, command, args } => set_table(text, name, command, args, own),
            Self::Entry { at, key, value } => {
                json(text, |root| set_entry(&open_object(&root, at)?, key, value, own))
            }
            Self::Default { key, value } => json(text, |root| {
                if root.get(key).is_none() {
                    root.append(key, input(value));
                }
                Ok(())
            }),
            Self::Item { at, value } => json(text, |root| {
                let (last, first) =
                    at.split_last().ok_or_else(|| unexpected_type("the file", "an object"))?;
                let object = open_object(&root, first)?;
                let array = object
                    .array_value_or_create(last)
                    .ok_or_else(|| unexpected_type(last, "a list"))?;
                let mut is_present = false;
                for element in array.elements() {
                    let existing = element.to_serde_value().unwrap_or_default();
                    let is_own = is_own_hook(&existing, value);
                    match existing == *value || is_own {
                        true if !is_present => is_present = true,
                        _ if is_own => {}
                        _ if existing == *value || is_older(&existing, value) => element.remove(),
                        _ => {}
                    }
                }
                if !is_present {
                    array.append(input(value));
                }
                Ok(())
            }),
        }
    }

    /// Returns the text without this edit and without containers that became empty; a reverted
    /// [`Edit::Whole`] leaves an empty text. Returns the text unchanged if the edit is not in it.
    pub fn revert(&self, text: &str) -> Result<String, EditError> {
        if text.trim().is_empty() {
            return Ok(text.to_owned());
        }
        match self {
            // The first line identifies a file that Treering wrote.
            Self::Whole(content) if content.lines().next() == text.lines().next() => {
                Ok(String::new())
            }
            Self::Whole(_) | Self::Default { .. } => Ok(text.to_owned()),
            Self::Table { name, .. } => {
                let mut document = toml(text)?;
                let parent = document.get_mut(&name[0]).and_then(Item::as_table_like_mut);
                let is_ours = |parent: &&mut dyn TableLike| {
                    let table = parent.get(&name[1]).and_then(Item::as_table_like);
                    table.is_some_and(is_our_table)
                };
                let Some(parent) = parent.filter(is_ours) else { return Ok(text.to_owned()) };
                parent.remove(&name[1]);
                if parent.is_empty() {
                    document.remove(&name[0]);
                }
                Ok(document.to_string())
            }
            Self::Entry { at, key, value } => json(text, |root| {
                prune(&root, at, &|object| {
                    let existing = object.get(key).filter(|existing| {
                        let found = existing.value().and_then(|it| it.to_serde_value());
                        found.is_some_and(|found| is_our_entry(&found, value))
                    });
                    existing.map(|existing| existing.remove()).is_some()
                });
                Ok(())
            }),
            Self::Item { at, value } => json(text, |root| {
                let Some((last, first)) = at.split_last() else { return Ok(()) };
                prune(&root, first, &|object| {
                    let Some(array) = object.array_value(last) else { return false };
                    let mut is_taken = false;
                    for element in array.elements() {
                        let existing = element.to_serde_value().unwrap_or_default();
                        if existing == *value || is_older(&existing, value) {
                            element.remove();
                            is_taken = true;
                        }
                    }
                    if is_taken
                        && array.elements().is_empty()
                        && let Some(existing) = object.get(last)
                    {
                        existing.remove();
                    }
                    is_taken
                });
                Ok(())
            }),
        }
    }
}

/// Sets the command of a table, and keeps its other keys. Keeps a table that a person made, unless
/// it may be changed.
fn set_table(
    text: &str,
    name: &[String; 2],
    command: &str,
    args: &[String],
    own: OwnEntries,
) -> Result<String, EditError> {
    let mut document = toml(text)?;
    let parent = document.entry(&name[0]).or_insert_with(|| {
        let mut parent = Table::new();
        parent.set_implicit(true);
        Item::Table(parent)
    });
    let parent = parent.as_table_like_mut().ok_or_else(|| unexpected_type(&name[0], "a table"))?;
    match parent.get_mut(&name[1]).and_then(Item::as_table_like_mut) {
        Some(existing) if own == OwnEntries::Keep && !is_our_table(existing) => {}
        Some(existing) => {
            existing.insert("command", value(command));
            existing.insert("args", value(args.iter().collect::<Array>()));
        }
        None => {
            let mut table = Table::new();
            table["command"] = value(command);
            table["args"] = value(args.iter().collect::<Array>());
            parent.insert(&name[1], Item::Table(table));
        }
    }
    Ok(document.to_string())
}

/// Sets an entry of an object. An entry that a person made is kept, or keeps its other keys.
fn set_entry(
    object: &CstObject,
    key: &str,
    value: &Value,
    own: OwnEntries,
) -> Result<(), EditError> {
    let existing = object.get(key);
    let found = existing.as_ref().and_then(|it| it.value()?.to_serde_value());
    match (existing, found) {
        (Some(_), Some(found)) if found == *value => {}
        (Some(existing), Some(found)) if is_our_entry(&found, value) => {
            existing.set_value(input(value));
        }
        (Some(_), Some(_)) if own == OwnEntries::Keep => {}
        (Some(existing), found) => {
            let mut merged = found.filter(Value::is_object).unwrap_or(json_object());
            for (key, value) in value.as_object().into_iter().flatten() {
                merged[key.as_str()] = value.clone();
            }
            existing.set_value(input(&merged));
        }
        (None, _) => drop(object.append(key, input(value))),
    }
    Ok(())
}

impl Edit {
    /// The entry for Treering that a person made, and that this edit keeps.
    pub(super) fn own_entry(&self, text: &str) -> Option<String> {
        match self {
            Self::Entry { at, key, value } => {
                let file = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
                let path: Vec<&str> = at.iter().chain([key]).map(String::as_str).collect();
                let file = file.to_serde_value()?;
                let found = path.iter().try_fold(&file, |found, key| found.get(key))?;
                (found != value && !is_our_entry(found, value)).then(|| path.join("."))
            }
            Self::Item { at, value } => {
                let file = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
                let file = file.to_serde_value()?;
                let found = at.iter().try_fold(&file, |found, key| found.get(key))?;
                let is_own = |element: &Value| is_own_hook(element, value);
                found.as_array()?.iter().any(is_own).then(|| at.join("."))
            }
            Self::Table { name, .. } => {
                let document = toml(text).ok()?;
                let table = document.get(&name[0])?.get(&name[1])?.as_table_like()?;
                (!is_our_table(table)).then(|| name.join("."))
            }
            Self::Default { .. } | Self::Whole(_) => None,
        }
    }

    /// The event of a hook; the file of a plugin.
    pub(super) fn event(&self) -> Option<&str> {
        match self {
            Self::Item { at, .. } => at.last().map(String::as_str),
            Self::Whole(_) => Some("the plugin"),
            Self::Entry { .. } | Self::Default { .. } | Self::Table { .. } => None,
        }
    }

    /// Finds the hook of this edit that ends with these arguments, installed from any path.
    /// Returns its position in the list and its program.
    pub(super) fn hook_in(&self, text: &str, arguments: &str) -> Option<(usize, String)> {
        match self {
            Self::Item { at, .. } => {
                let file = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
                let mut value = &file.to_serde_value()?;
                for key in at {
                    value = value.get(key)?;
                }
                value.as_array()?.iter().enumerate().find_map(|(position, element)| {
                    let line = command_of(element)?;
                    let program = line.strip_suffix(arguments)?.trim();
                    let program = program.trim_matches('\'').to_owned();
                    // The options before the command name another home.
                    let is_same_home = !program.contains(" --");
                    (program.contains("treering") && is_same_home).then_some((position, program))
                })
            }
            Self::Whole(content) => {
                let command = |text: &str| {
                    text.lines().find(|line| line.starts_with("const command")).map(str::to_owned)
                };
                let is_same = command(content).is_some() && command(content) == command(text);
                is_same.then(|| (0, String::new()))
            }
            Self::Entry { .. } | Self::Default { .. } | Self::Table { .. } => None,
        }
    }
}

/// The value of a top-level key of a JSON file, which may have comments.
pub(super) fn value_of(text: &str, key: &str) -> Option<Value> {
    let file = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    file.to_serde_value()?.get(key).cloned()
}

fn unexpected_type(path: &str, expected: &str) -> EditError {
    EditError(format!("{path} is not {expected}; fix the file, or add Treering manually"))
}

fn toml(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|error| EditError(format!("invalid TOML: {error}")))
}

/// Changes a JSON object and preserves its comments. An empty text counts as an empty object.
fn json(
    text: &str,
    change: impl FnOnce(CstObject) -> Result<(), EditError>,
) -> Result<String, EditError> {
    let source = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(source, &ParseOptions::default())
        .map_err(|error| EditError(format!("invalid JSON: {error}")))?;
    change(root.object_value().ok_or_else(|| unexpected_type("the file", "an object"))?)?;
    Ok(root.to_string())
}

/// Walks to the object at a path and creates missing objects.
fn open_object(root: &CstObject, at: &[String]) -> Result<CstObject, EditError> {
    at.iter().try_fold(root.clone(), |object, key| {
        object.object_value_or_create(key).ok_or_else(|| unexpected_type(key, "an object"))
    })
}

/// Applies `take` to the object at a path, removes objects on the path that became empty, and
/// returns whether `take` removed something.
fn prune(object: &CstObject, at: &[String], take: &dyn Fn(&CstObject) -> bool) -> bool {
    let Some((first, rest)) = at.split_first() else { return take(object) };
    let Some(below) = object.object_value(first) else { return false };
    let is_taken = prune(&below, rest, take);
    if is_taken
        && below.properties().is_empty()
        && let Some(existing) = object.get(first)
    {
        existing.remove();
    }
    is_taken
}

/// Whether an element runs the same Treering command, perhaps from another install path, and has
/// nothing that a person added.
fn is_older(existing: &Value, new: &Value) -> bool {
    runs_same_hook(existing, new) && has_only_keys_of(existing, new)
}

/// Whether an element runs the same Treering command, and a person made or changed it.
fn is_own_hook(existing: &Value, new: &Value) -> bool {
    runs_same_hook(existing, new) && !has_only_keys_of(existing, new)
}

fn runs_same_hook(existing: &Value, new: &Value) -> bool {
    let (Some(existing), Some(new)) = (command_of(existing), command_of(new)) else { return false };
    let tail = |line: &str| line.find(" hook ").map(|at| line[at..].trim().to_owned());
    existing.contains("treering") && tail(&existing).is_some() && tail(&existing) == tail(&new)
}

/// Whether `other` contains every key of `value`, at any depth.
fn has_only_keys_of(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => value
            .iter()
            .all(|(key, value)| other.get(key).is_some_and(|other| has_only_keys_of(value, other))),
        (Value::Array(value), Value::Array(other)) => {
            let Some(first) = other.first() else { return true };
            value.iter().all(|value| has_only_keys_of(value, first))
        }
        _ => true,
    }
}

/// Whether `install` wrote this entry for an MCP server, perhaps from another path: it runs
/// `treering … mcp` and has no other keys.
fn is_our_entry(existing: &Value, new: &Value) -> bool {
    let words = match (&existing["command"], &existing["args"]) {
        (Value::Array(words), _) => words.clone(),
        (command, Value::Array(args)) => std::iter::once(command).chain(args).cloned().collect(),
        _ => return false,
    };
    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
    has_only_keys_of(existing, new) && runs_mcp(&words)
}

fn is_our_table(table: &dyn TableLike) -> bool {
    let command = table.get("command").and_then(Item::as_str).unwrap_or_default();
    let args = table.get("args").and_then(Item::as_array);
    let args = args.into_iter().flat_map(|args| args.iter().filter_map(|arg| arg.as_str()));
    let words: Vec<&str> = std::iter::once(command).chain(args).collect();
    table.iter().all(|(key, _)| key == "command" || key == "args") && runs_mcp(&words)
}

/// Whether a command line is `treering … mcp`.
fn runs_mcp(words: &[&str]) -> bool {
    let program = words.first().map(std::path::Path::new).and_then(|path| path.file_stem());
    program.is_some_and(|name| name == "treering") && words.last() == Some(&"mcp")
}

fn json_object() -> Value {
    Value::Object(serde_json::Map::new())
}

/// The command of a hook; `None` if the hook runs several.
fn command_of(item: &Value) -> Option<String> {
    let nested =
        item["hooks"].as_array().filter(|hooks| hooks.len() == 1).map(|hooks| &hooks[0]["command"]);
    nested.unwrap_or(&item["command"]).as_str().map(str::to_owned)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(it) => CstInputValue::Bool(*it),
        Value::Number(it) => CstInputValue::Number(it.to_string()),
        Value::String(it) => CstInputValue::String(it.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(object) => CstInputValue::Object(
            object.iter().map(|(key, value)| (key.clone(), input(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry() -> Edit {
        Edit::Entry {
            at: vec!["mcpServers".into()],
            key: "treering".into(),
            value: json!({ "command": "/bin/treering", "args": ["mcp"] }),
        }
    }

    fn item(path: &str) -> Edit {
        let value = json!({ "hooks": [{ "type": "command", "command": format!("{path} hook claude-code") }] });
        Edit::Item { at: vec!["hooks".into(), "Stop".into()], value }
    }

    fn check(edit: &Edit, before: &str) -> String {
        let put = edit.apply(before).unwrap();
        assert_eq!(edit.apply(&put).unwrap(), put, "applying twice equals applying once");
        let out = edit.revert(&put).unwrap();
        let value = |text: &str| {
            CstRootNode::parse(text, &ParseOptions::default()).unwrap().to_serde_value()
        };
        assert_eq!(value(&out), value(before), "{out}");
        put
    }

    #[test]
    fn entries_are_added_and_removed_without_other_changes() {
        check(&entry(), "{}");
        check(&entry(), "{ \"theme\": \"dark\" }");
        let put = check(
            &entry(),
            "{\n  // mine\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }, // keep\n  },\n}\n",
        );
        assert!(put.contains("// mine") && put.contains("// keep"), "{put}");
    }

    #[test]
    fn hooks_are_added_beside_other_hooks() {
        check(&item("/bin/treering"), "{}");
        check(
            &item("/bin/treering"),
            "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"beep\"}]}]}}",
        );
        let moved =
            item("/new/treering").apply(&item("/old/treering").apply("{}").unwrap()).unwrap();
        assert!(moved.contains("/new/") && !moved.contains("/old/"), "{moved}");
        let foreign = "{\"hooks\":{\"Stop\":[{\"hooks\":[{\"command\":\"x hook claude-code\"}]}]}}";
        assert!(
            item("/bin/treering").apply(foreign).unwrap().contains("x hook claude-code"),
            "not ours"
        );
    }

    #[test]
    fn tables_are_added_and_removed_without_other_changes() {
        let edit = Edit::Table {
            name: ["mcp_servers".into(), "treering".into()],
            command: "/bin/treering".into(),
            args: vec!["mcp".into()],
        };
        for before in
            ["", "# mine\nmodel = \"x\"\n", "[mcp_servers.other]\ncommand = \"y\" # keep\n"]
        {
            let put = edit.apply(before).unwrap();
            assert!(put.contains("[mcp_servers.treering]\ncommand = \"/bin/treering\""), "{put}");
            assert_eq!(edit.apply(&put).unwrap(), put);
            assert_eq!(edit.revert(&put).unwrap().trim(), before.trim());
        }
    }

    #[test]
    fn reverting_an_absent_edit_changes_nothing() {
        let table =
            Edit::Table { name: ["a".into(), "b".into()], command: "c".into(), args: vec![] };
        let content = Edit::Whole("// ours\nx".into());
        for (edit, text) in [
            (&entry(), ""),
            (&entry(), "{ \"mcpServers\" : {\"x\":1,},\r\n}"),
            (&item("/bin/treering"), "{\"hooks\":{\"Stop\":[ ]}}"),
            (&table, "[ a ]\r\nc = 1\r\n"),
            (&content, "// theirs\nx"),
        ] {
            assert_eq!(edit.revert(text).unwrap(), text);
        }
        assert_eq!(content.revert("// ours\nan older one").unwrap(), "");
    }

    #[test]
    fn entries_that_a_person_made_are_kept_or_merged() {
        let server = json!({ "command": "/bin/treering", "args": ["mcp"] });
        let entry =
            Edit::Entry { at: vec!["mcpServers".into()], key: "treering".into(), value: server };
        let mine = r#"{"mcpServers":{"treering":{"command":"/my/treering","args":["mcp"],"env":{"A":"1"}}}}"#;
        assert_eq!(entry.apply(mine).unwrap(), mine);
        assert_eq!(entry.own_entry(mine).as_deref(), Some("mcpServers.treering"));
        let merged = entry.apply_with(mine, OwnEntries::Merge).unwrap();
        assert!(merged.contains("/bin/treering") && merged.contains("\"A\""), "{merged}");
        assert_eq!(entry.revert(mine).unwrap(), mine, "uninstall keeps it too");
        let other = r#"{"mcpServers":{"treering":{"url":"http://127.0.0.1:7411/mcp"}}}"#;
        assert_eq!(
            (entry.apply(other).unwrap(), entry.revert(other).unwrap()),
            (other.into(), other.into())
        );
        let moved = mine.replace(r#","env":{"A":"1"}"#, "");
        assert!(entry.apply(&moved).unwrap().contains("/bin/treering"), "written by install");
        assert_eq!(entry.own_entry(&moved), None);

        let hook = r#"{"hooks":{"Stop":[{"matcher":"x","hooks":[{"type":"command","command":"treering hook claude-code"}]}]}}"#;
        let edit = item("/bin/treering");
        assert_eq!(
            (edit.apply(hook).unwrap(), edit.revert(hook).unwrap()),
            (hook.into(), hook.into())
        );
        assert_eq!(edit.own_entry(hook).as_deref(), Some("hooks.Stop"));

        let table = Edit::Table {
            name: ["mcp_servers".into(), "treering".into()],
            command: "/bin/treering".into(),
            args: vec!["mcp".into()],
        };
        let mine = "[mcp_servers.treering]\ncommand = \"/my/treering\"\nargs = [\"mcp\"]\nenv = { A = \"1\" }\n";
        assert_eq!(
            (table.apply(mine).unwrap(), table.revert(mine).unwrap()),
            (mine.into(), mine.into())
        );
        let merged = table.apply_with(mine, OwnEntries::Merge).unwrap();
        assert!(merged.contains("/bin/treering") && merged.contains("env"), "{merged}");
    }

    #[test]
    fn a_file_of_another_shape_is_refused() {
        for (edit, text) in [
            (entry(), "[1]"),
            (entry(), "{ \"mcpServers\": 3 }"),
            (entry(), "{ nonsense"),
            (item("x"), "{\"hooks\":{\"Stop\":3}}"),
        ] {
            assert!(edit.apply(text).is_err(), "{text}");
        }
    }
}
