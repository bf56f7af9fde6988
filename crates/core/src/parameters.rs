//! Policy parameters by name. Configuration, conversations and calls all use the same syntax:
//! `window_chars=4000`, `group_chars@3=20000`, `preset=turns`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::node::Level;
use crate::parameter_names;
use crate::policy::{GroupPolicy, Policy, Preset, SealPolicy};
use crate::policy_in_force::level_of;

/// The parameters and their descriptions. A name may carry a level: `length@2`.
pub const PARAMETERS: &[(&str, &str)] = &[
    (
        "enabled",
        "Summarize (`true` or `false`). With `false`, messages are stored and found, but no window or group seals; with `true` again, the next message or `treering update` catches up.",
    ),
    (
        "regenerate_on_edit",
        "Regenerate the summaries that cover a message at once when it is edited (`true` or `false`). With `false`, they are stale until `treering update`.",
    ),
    ("window_chars", "Target size of a window, in characters. A longer message is split."),
    (
        "wiggle",
        "Tolerance around the target size of a window or group, as a fraction of it (0 to 0.5).",
    ),
    ("min_flush_chars", "Minimum size, in characters, at which a window seals after a silence."),
    ("flush_after", "Length of the silence that seals a window, such as `20 min`."),
    (
        "overlap_chars",
        "Number of characters of the previous window that the summarizer sees before the next one, at most 400.",
    ),
    (
        "seal_policy",
        "What seals a window: its size (`chars`), a silence (`time`), or either (`hybrid`).",
    ),
    (
        "ensure_assistant",
        "Seal a window only after a turn that the assistant answered (`true` or `false`).",
    ),
    ("messages", "Maximum number of messages in a window."),
    ("tokens", "Number of tokens at which a window seals."),
    ("age", "Maximum age of an open window, such as `1 h`."),
    ("turns", "Maximum number of turns in a window."),
    ("chars", "Number of characters at which a window seals, even if the last answer exceeds it."),
    ("min_turns", "Minimum number of turns in a window."),
    ("keep_recent_turns", "Number of latest turns that stay out of every window."),
    ("group_chars", "Target size of a group: the total length of its children, in characters."),
    ("group_children", "Maximum number of children in a group."),
    ("group_tokens", "Number of tokens in its children at which a group seals."),
    ("group_messages", "Number of covered messages at which a group seals."),
    (
        "group_limit",
        "Number of characters in its children at which a group seals, even if the last child exceeds it.",
    ),
    ("raw_chars", "Number of characters in the covered messages above which a group seals."),
    ("min_children", "Minimum number of children in a group (2 or more)."),
    (
        "length",
        "Length of a summary: the fraction of its source, such as `0.5`, or `3-4 sentences`, or `200-400 tokens`.",
    ),
    (
        "top_length",
        "Length of the summary of a whole closed conversation, in the same forms; `200-400 tokens` by default.",
    ),
    (
        "strategy",
        "Style of a summary: `detailed`, `concise`, `thematic`, `chronological`, `executive` or `technical`.",
    ),
    (
        "ratio_only",
        "Whether lengths are fractions of the source (`true`: 0.5 at level 1 and 0.1 above, unless `length` sets others) or 3 to 4 sentences (`false`).",
    ),
    (
        "deduplicate",
        "State near-identical points of different children only once (`true` or `false`).",
    ),
];

/// The parameters that only windows have.
const WINDOW_PARAMETERS: [&str; 13] = [
    "window_chars",
    "min_flush_chars",
    "flush_after",
    "overlap_chars",
    "seal_policy",
    "ensure_assistant",
    "messages",
    "tokens",
    "age",
    "turns",
    "chars",
    "min_turns",
    "keep_recent_turns",
];

/// An assignment of a value to a parameter, at one level or at every level it applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Assignment {
    name: String,
    level: Option<Level>,
    value: String,
}

impl Assignment {
    /// Assigns a value to a parameter, whose name may carry a level.
    pub(crate) fn new(parameter: &str, value: &str) -> Result<Self, Invalid> {
        let (parameter, value) = &parameter_names::canonical(parameter, value)?;
        let refuse =
            |reason: String| Invalid::new(format!("policy parameter {parameter:?}"), reason);
        let (name, level) = match parameter.trim().split_once('@') {
            None => (parameter.trim(), None),
            Some((name, level)) => {
                let level = level.parse().ok().and_then(Level::new);
                (
                    name,
                    Some(
                        level
                            .ok_or_else(|| refuse("a level is a whole number from 1 up".into()))?,
                    ),
                )
            }
        };
        if name != "preset" && !PARAMETERS.iter().any(|(known, _)| *known == name) {
            let known: Vec<&str> = PARAMETERS.iter().map(|(known, _)| *known).collect();
            return Err(refuse(format!(
                "there is no such parameter; the parameters are preset, {}",
                known.join(", ")
            )));
        }
        let assignment = Self { name: name.to_owned(), level, value: value.trim().to_owned() };
        // Apply it once, so that an invalid value is refused here and not where it is used.
        assignment.apply(&mut Policy::default())?;
        Ok(assignment)
    }

    /// The preset that it chooses, if it does.
    pub(crate) fn preset(&self) -> Option<Preset> {
        if self.name == "preset" { self.value.parse().ok() } else { None }
    }

    /// Whether it sets a parameter, whose name may carry a level.
    pub(crate) fn sets(&self, parameter: &str) -> bool {
        let base = parameter.split('@').next().unwrap_or_default();
        let level = level_of(parameter);
        self.preset().is_some()
            || (self.name == base
                && (self.level.is_none() || level.is_none() || self.level == level))
    }

    /// Whether it concerns level 1 only, so that it has no effect above.
    #[must_use]
    pub fn is_of_level_one(&self) -> bool {
        WINDOW_PARAMETERS.contains(&self.name.as_str()) || self.level == Some(Level::FIRST)
    }

    pub(crate) fn apply(&self, policy: &mut Policy) -> Result<(), Invalid> {
        let value = self.value.as_str();
        let name = match self.level {
            Some(level) => format!("{}@{level}", self.name),
            None => self.name.clone(),
        };
        let refuse = |invalid: Invalid| {
            Invalid::new(format!("policy parameter {name}={value:?}"), invalid.reason)
        };
        let level = self.level;
        match self.name.as_str() {
            "preset" => {
                let preset = Policy::from(value.parse::<Preset>().map_err(refuse)?);
                // Prompts come from the configuration, and a preset does not turn the tree on.
                let (prompts, enabled) = (std::mem::take(&mut policy.prompts), policy.enabled);
                *policy = Policy { prompts, enabled, ..preset };
            }
            "wiggle" => return self.set_wiggle(policy).map_err(refuse),
            "length" => {
                let length = value.parse().map_err(refuse)?;
                set_at(&mut policy.lengths, level, 1, length);
            }
            "top_length" => match level {
                None => policy.top_length = value.parse().map_err(refuse)?,
                Some(_) => return Err(refuse(Invalid::new("", "it has no level"))),
            },
            "strategy" => {
                let strategy = value.parse().map_err(refuse)?;
                set_at(&mut policy.strategies, level, 1, strategy);
            }
            "enabled" => policy.enabled = flag(value).map_err(refuse)?,
            "regenerate_on_edit" => {
                policy.regenerate_on_edit = flag(value).map_err(refuse)?;
            }
            "deduplicate" => policy.deduplicate = flag(value).map_err(refuse)?,
            "ratio_only" => policy.set_ratio_only(flag(value).map_err(refuse)?),
            _ => {
                if !self.set_in_window(policy).map_err(refuse)? {
                    return self.set_in_groups(policy).map_err(refuse);
                }
                if level.is_some_and(|level| level != Level::FIRST) {
                    return Err(refuse(Invalid::new("", "it applies to level 1 only")));
                }
            }
        }
        Ok(())
    }

    fn set_wiggle(&self, policy: &mut Policy) -> Result<(), Invalid> {
        let wiggle = number::<f32>(&self.value)?;
        if self.level.is_none_or(|level| level == Level::FIRST) {
            policy.window.wiggle = wiggle;
        }
        if self.level != Some(Level::FIRST) {
            each_group(policy, self.level, |group| group.wiggle = wiggle);
        }
        Ok(())
    }

    /// Sets a window parameter. Returns `false` if the name is not one.
    fn set_in_window(&self, policy: &mut Policy) -> Result<bool, Invalid> {
        let (window, value) = (&mut policy.window, self.value.as_str());
        match self.name.as_str() {
            "window_chars" => window.window_chars = limit(value)?,
            "min_flush_chars" => window.min_flush_chars = number(value)?,
            "flush_after" => window.flush_after_ms = duration(value)?,
            "overlap_chars" => window.overlap_chars = number(value)?,
            "seal_policy" => window.seal_policy = value.parse()?,
            "ensure_assistant" => window.ensure_assistant = flag(value)?,
            "messages" => window.messages = limit(value)?,
            "tokens" => window.tokens = limit(value)?,
            "age" => window.age_ms = duration(value)?,
            "turns" => window.turns = limit(value)?,
            "chars" => window.chars = limit(value)?,
            "min_turns" => window.min_turns = number(value)?,
            "keep_recent_turns" => window.keep_recent_turns = number(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_in_groups(&self, policy: &mut Policy) -> Result<(), Invalid> {
        if self.level == Some(Level::FIRST) {
            return Err(Invalid::new("", "it applies to groups only, from level 2 up"));
        }
        let value = limit(&self.value)?;
        let set: fn(&mut GroupPolicy, Option<u32>) = match self.name.as_str() {
            "group_chars" => |group, value| group.group_chars = value,
            "group_children" => |group, value| group.children = value,
            "group_tokens" => |group, value| group.tokens = value,
            "group_messages" => |group, value| group.messages = value,
            "group_limit" => |group, value| group.chars = value,
            "raw_chars" => |group, value| group.raw_chars = value,
            _ => |group, value| group.min_children = value.unwrap_or(2),
        };
        each_group(policy, self.level, |group| set(group, value));
        Ok(())
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Some(level) => write!(f, "{}@{level}={}", self.name, self.value),
            None => write!(f, "{}={}", self.name, self.value),
        }
    }
}

impl FromStr for Assignment {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Invalid::new(
                format!("policy {text:?}"),
                "expected NAME=VALUE, such as window_chars=4000",
            )
        })?;
        Self::new(name, value)
    }
}

impl TryFrom<String> for Assignment {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Assignment> for String {
    fn from(assignment: Assignment) -> Self {
        assignment.to_string()
    }
}

impl Policy {
    /// This policy with the assignments applied in order. Refuses a policy that is not valid.
    pub fn with(&self, assignments: &[Assignment]) -> Result<Self, Invalid> {
        let mut policy = self.clone();
        // Presets come first, because a preset replaces the whole policy.
        let is_preset = |assignment: &&Assignment| assignment.name == "preset";
        assignments.iter().filter(is_preset).try_for_each(|preset| preset.apply(&mut policy))?;
        let others = assignments.iter().filter(|assignment| !is_preset(assignment));
        others.into_iter().try_for_each(|assignment| assignment.apply(&mut policy))?;
        policy.validate()?;
        Ok(policy)
    }
}

impl FromStr for SealPolicy {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        match word {
            "chars" => Ok(Self::Chars),
            "time" => Ok(Self::Time),
            "hybrid" => Ok(Self::Hybrid),
            _ => Err(Invalid::new("", "expected chars, time or hybrid")),
        }
    }
}

fn set_at<T: Clone>(values: &mut Vec<T>, level: Option<Level>, first: u8, value: T) {
    let Some(level) = level else {
        values.fill(value);
        return;
    };
    let index = usize::from(level.number().saturating_sub(first));
    if let Some(last) = values.last().cloned()
        && values.len() <= index
    {
        values.resize(index + 1, last);
    }
    values[index] = value;
}

fn each_group(policy: &mut Policy, level: Option<Level>, change: impl Fn(&mut GroupPolicy)) {
    match level {
        None => policy.groups.iter_mut().for_each(change),
        Some(level) => {
            let Some(mut group) = policy.group(level).cloned() else { return };
            change(&mut group);
            set_at(&mut policy.groups, Some(level), 2, group);
        }
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|_| Invalid::new("", "expected a number"))
}

fn limit(text: &str) -> Result<Option<u32>, Invalid> {
    if text == "off" {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Invalid::new("", "expected a whole number, or off"))
}

fn flag(text: &str) -> Result<bool, Invalid> {
    text.parse().map_err(|_| Invalid::new("", "expected true or false"))
}

/// Parses `20 min`, `1h`, `90 s` or `1500 ms` into milliseconds; `off` is `None`.
pub fn duration(text: &str) -> Result<Option<u64>, Invalid> {
    if text == "off" {
        return Ok(None);
    }
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic()).trim_end();
    let unit = match text[digits.len()..].trim() {
        "ms" => 1,
        "s" => 1000,
        "min" | "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => {
            return Err(Invalid::new(
                "",
                "expected a duration such as 20 min, 1 h or 90 s, or off",
            ));
        }
    };
    let count: u64 =
        digits.parse().map_err(|_| Invalid::new("", "expected a duration such as 20 min"))?;
    Ok(Some(count.saturating_mul(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(assignments: &[&str]) -> Result<Policy, Invalid> {
        let parsed = assignments.iter().map(|text| text.parse()).collect::<Result<Vec<_>, _>>()?;
        Policy::default().with(&parsed)
    }

    #[test]
    fn parameters_are_set_by_name() {
        let policy = with(&[
            "window_chars=4000",
            "flush_after=5 min",
            "group_chars@3=20000",
            "length@1=0.3",
        ])
        .unwrap();
        assert_eq!(policy.window.window_chars, Some(4000));
        assert_eq!(policy.window.flush_after_ms, Some(300_000));
        let chars: Vec<_> = policy.groups.iter().map(|group| group.group_chars).collect();
        assert_eq!(chars, [Some(10_000), Some(20_000)]);
        assert_eq!(
            policy.lengths.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["0.3", "0.1"]
        );
        let policy = with(&["turns=8", "preset=turns", "wiggle=0.1"]).unwrap();
        assert_eq!((policy.window.turns, policy.window.keep_recent_turns), (Some(8), 2));
        assert!(
            (policy.groups[0].wiggle - 0.1).abs() < 1e-6
                && (policy.window.wiggle - 0.1).abs() < 1e-6
        );
    }

    #[test]
    fn invalid_assignments_are_refused_with_the_reason() {
        for (assignments, reason) in [
            (&["windowchars=1"][..], "no such parameter"),
            (&["window_chars"], "NAME=VALUE"),
            (&["window_chars=many"], "whole number"),
            (&["flush_after=20"], "duration"),
            (&["length=2"], "share"),
            (&["length=4-3 sentences"], "sentences"),
            (&["top_length=400-200 tokens"], "tokens"),
            (&["top_length@3=0.1"], "no level"),
            (&["strategy=funny"], "one of"),
            (&["group_chars@1=5"], "level 2"),
            (&["messages@2=5"], "level 1"),
            (&["preset=best"], "one of"),
            (&["window_chars@0=5"], "number from 1"),
            (&["window_chars=off", "seal_policy=chars"], "seals a window"),
            (&["preset=turns", "keep_recent_turns=5"], "less than turns"),
        ] {
            let error = with(assignments).unwrap_err().to_string();
            assert!(error.contains(reason), "{assignments:?}: {error}");
        }
    }

    #[test]
    fn every_parameter_can_be_set_and_is_written_as_it_was_read() {
        for (name, _) in PARAMETERS {
            let value = match *name {
                "seal_policy" => "time",
                "enabled" | "regenerate_on_edit" | "ensure_assistant" | "deduplicate"
                | "ratio_only" => "false",
                "flush_after" | "age" => "2 h",
                "wiggle" => "0.25",
                "length" => "2-5 sentences",
                "top_length" => "100-300 tokens",
                "strategy" => "concise",
                _ => "3",
            };
            let text = format!("{name}={value}");
            assert_eq!(text.parse::<Assignment>().unwrap().to_string(), text);
        }
    }
}
