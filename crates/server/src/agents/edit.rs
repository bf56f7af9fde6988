//! Edits to the settings files of other programs. An edit preserves everything else in the file,
//! including comments, and can be reverted. Works on strings; performs no I/O.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table, value};

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

/// The reason why a file cannot be edited.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

impl Edit {
    /// Returns the text with this edit applied.
    pub fn apply(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Whole(content) => Ok(content.clone()),
            Self::Table { name, command, args } => {
                let mut document = toml(text)?;
                let mut table = Table::new();
                table["command"] = value(command);
                table["args"] = value(args.iter().collect::<Array>());
                let parent = document.entry(&name[0]).or_insert_with(|| {
                    let mut parent = Table::new();
                    parent.set_implicit(true);
                    Item::Table(parent)
                });
                let parent = parent
                    .as_table_like_mut()
                    .ok_or_else(|| unexpected_type(&name[0], "a table"))?;
                match parent.get_mut(&name[1]).and_then(Item::as_table_like_mut) {
                    // The table may hold other keys that the user has set.
                    Some(existing) => {
                        for (key, item) in table {
                            existing.insert(&key, item);
                        }
                    }
                    None => drop(parent.insert(&name[1], Item::Table(table))),
                }
                Ok(document.to_string())
            }
            Self::Entry { at, key, value } => json(text, |root| {
                let object = open_object(&root, at)?;
                match object.get(key) {
                    Some(existing)
                        if existing.value().and_then(|it| it.to_serde_value()).as_ref()
                            == Some(value) => {}
                    Some(existing) => existing.set_value(input(value)),
                    None => drop(object.append(key, input(value))),
                }
                Ok(())
            }),
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
                    match existing == *value {
                        true if !is_present => is_present = true,
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
                let Some(parent) = parent.filter(|parent| parent.contains_key(&name[1])) else {
                    return Ok(text.to_owned());
                };
                parent.remove(&name[1]);
                if parent.is_empty() {
                    document.remove(&name[0]);
                }
                Ok(document.to_string())
            }
            Self::Entry { at, key, .. } => json(text, |root| {
                prune(&root, at, &|object| {
                    object.get(key).map(|existing| existing.remove()).is_some()
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

/// Whether an element runs the same Treering command, perhaps from another install path.
fn is_older(existing: &Value, new: &Value) -> bool {
    let (Some(existing), Some(new)) = (command_of(existing), command_of(new)) else { return false };
    let tail = |line: &str| line.find(" hook ").map(|at| line[at..].trim().to_owned());
    existing.contains("treering") && tail(&existing).is_some() && tail(&existing) == tail(&new)
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
            value: json!({ "command": "/bin/treering" }),
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
