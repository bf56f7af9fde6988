//! Labels: free metadata of a conversation, as `name=value`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::text::preview;

/// The label that names the program a conversation comes from. Importers and hooks set it.
pub const SOURCE_LABEL: &str = "source";

/// Maximum number of labels of a conversation.
pub const MAX_LABELS: usize = 64;

const MAX_NAME_CHARS: usize = 64;
const MAX_VALUE_CHARS: usize = 200;

/// A name and its value, such as `user=42`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label {
    name: String,
    value: String,
}

impl Label {
    /// Validates a name and its value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Result<Self, Invalid> {
        let (name, value) = (name.into(), value.into());
        let is_word = |c: char| !c.is_whitespace() && !c.is_control() && c != '=' && c != ',';
        let invalid = |reason: &str| {
            Err(Invalid::new(
                format!("label {:?}", preview(&format!("{name}={value}"), 60)),
                reason,
            ))
        };
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(is_word) {
            return invalid("a name has 1 to 64 characters, without spaces, '=' and ','");
        }
        if value.trim().is_empty()
            || value.chars().count() > MAX_VALUE_CHARS
            || value.chars().any(char::is_control)
        {
            return invalid("a value has 1 to 200 characters on one line");
        }
        Ok(Self { name, value })
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Label {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text.split_once('=') {
            Some((name, value)) => Self::new(name.trim(), value.trim()),
            None => Err(Invalid::new(
                format!("label {:?}", preview(text, 60)),
                "expected name=value, like user=42",
            )),
        }
    }
}

/// The labels of a conversation: one value for each name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>")]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// No labels.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The label that names a source.
    pub fn of_source(source: &str) -> Result<Self, Invalid> {
        let mut labels = Self::new();
        labels.set(Label::new(SOURCE_LABEL, source)?)?;
        Ok(labels)
    }

    /// Parses labels such as `user=42`. Refuses a name that occurs twice.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, Invalid> {
        let mut labels = Self::new();
        for text in texts {
            let label: Label = text.parse()?;
            if let Some(value) = labels.get(label.name()) {
                let reason = format!("the name has the value {value:?} already");
                return Err(Invalid::new(format!("label {label}"), reason));
            }
            labels.set(label)?;
        }
        Ok(labels)
    }

    /// Sets a label and replaces the value that its name had.
    pub fn set(&mut self, label: Label) -> Result<(), Invalid> {
        if self.0.len() >= MAX_LABELS && !self.0.contains_key(&label.name) {
            return Err(Invalid::new(
                format!("label {label}"),
                format!("a conversation has at most {MAX_LABELS} labels; remove one first"),
            ));
        }
        self.0.insert(label.name, label.value);
        Ok(())
    }

    /// Removes a label, and returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Sets the labels whose names have no value yet.
    pub fn set_missing(&mut self, others: &Self) {
        for (name, value) in &others.0 {
            if self.0.len() < MAX_LABELS {
                self.0.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The program that the conversation comes from.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.get(SOURCE_LABEL)
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The labels as a list, ordered by name.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Label> {
        let label = |(name, value): (&str, &str)| Label { name: name.into(), value: value.into() };
        self.iter().map(label).collect()
    }

    /// Whether there is no label.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<BTreeMap<String, String>> for Labels {
    type Error = Invalid;
    fn try_from(pairs: BTreeMap<String, String>) -> Result<Self, Invalid> {
        let mut labels = Self::new();
        pairs.into_iter().try_for_each(|(name, value)| labels.set(Label::new(name, value)?))?;
        Ok(labels)
    }
}

/// `source=codex, user=42`.
impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_parsed_and_invalid_ones_refused() {
        let labels = Labels::parse(["user=42", "note=a = b", "source = codex"]).unwrap();
        assert_eq!(labels.to_string(), "note=a = b, source=codex, user=42");
        assert_eq!((labels.source(), labels.get("nothing")), (Some("codex"), None));
        for text in ["user", "=42", "user=", "us er=1", "user=a\nb", "a,b=1"] {
            assert!(text.parse::<Label>().is_err(), "{text:?}");
        }
        let twice = Labels::parse(["user=1", "user=2"]).unwrap_err();
        assert!(twice.to_string().contains("\"1\" already"), "{twice}");
        assert!(
            Label::new("n".repeat(65), "v").is_err() && Label::new("n", "v".repeat(201)).is_err()
        );
        let json = serde_json::to_string(&labels).unwrap();
        assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
        assert!(serde_json::from_str::<Labels>(r#"{"a b":"c"}"#).is_err());
    }

    #[test]
    fn a_conversation_has_a_limited_number_of_labels() {
        let mut labels = Labels::new();
        for number in 0..MAX_LABELS {
            labels.set(Label::new(format!("n{number}"), "v").unwrap()).unwrap();
        }
        assert!(labels.set(Label::new("more", "v").unwrap()).is_err());
        labels.set(Label::new("n0", "w").unwrap()).unwrap();
        assert!(labels.remove("n1") && !labels.remove("n1"));
        labels.set_missing(&Labels::parse(["n0=x", "n1=y", "n99=z"]).unwrap());
        assert_eq!(
            (labels.get("n0"), labels.get("n1"), labels.get("n99")),
            (Some("w"), Some("y"), None)
        );
    }
}
