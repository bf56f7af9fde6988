//! The policy: every threshold that decides when windows and groups seal, and the style of
//! their summaries.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::hash::ContentHash;
use crate::node::Level;
use crate::parameters::Assignment;
use crate::summary_request::Strategy;

/// Whether size or silence seals a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealPolicy {
    /// Size only.
    Chars,
    /// Silence only.
    Time,
    /// Size or silence, whichever comes first.
    Hybrid,
}

/// The thresholds that seal the open window of a thread. A threshold of `None` never fires.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPolicy {
    /// The target size of a window, in characters.
    pub window_chars: Option<u32>,
    /// The tolerance around the target size, as a share of it.
    pub wiggle: f32,
    /// The minimum size for a window that silence seals. Size alone seals none below
    /// `window_chars` less the wiggle.
    pub min_flush_chars: u32,
    /// The length of a silence that seals a window.
    pub flush_after_ms: Option<u64>,
    /// The number of characters of the previous window that the summarizer sees before the next
    /// one.
    pub overlap_chars: u32,
    /// Whether size, silence or both seal a window.
    pub seal_policy: SealPolicy,
    /// Seal only after a turn that an assistant answered. Turns without an answer stay with the
    /// next one, so that no question is separated from its answer.
    pub ensure_assistant: bool,
    /// Seal at this many messages.
    pub messages: Option<u32>,
    /// Seal at this many tokens.
    pub tokens: Option<u32>,
    /// Seal when the window has been open this long.
    pub age_ms: Option<u64>,
    /// Seal at this many turns, including the recent turns that stay out of the window.
    pub turns: Option<u32>,
    /// Seal at this many characters, however long the last answer is.
    pub chars: Option<u32>,
    /// Minimum number of turns in a window.
    pub min_turns: u32,
    /// Number of latest turns that stay out of every window.
    pub keep_recent_turns: u32,
}

/// The thresholds that seal the last group of a level. A threshold of `None` never fires.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPolicy {
    /// The target size of a group's children, in characters.
    pub group_chars: Option<u32>,
    /// The tolerance around the target size, as a share of it.
    pub wiggle: f32,
    /// Seal at this many children.
    pub children: Option<u32>,
    /// Seal when the children have this many tokens.
    pub tokens: Option<u32>,
    /// Seal when the children cover this many messages.
    pub messages: Option<u32>,
    /// Seal when the children have this many characters, however long the last one is.
    pub chars: Option<u32>,
    /// Seal when the covered messages have more than this many characters.
    pub raw_chars: Option<u32>,
    /// Minimum number of children in a group.
    pub min_children: u32,
}

/// The target length of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SummaryLength {
    /// The share of the input to keep.
    Keep(f32),
    /// A range of sentences.
    Sentences(u8, u8),
    /// A range of tokens.
    Tokens(u32, u32),
}

impl fmt::Display for SummaryLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(ratio) => write!(f, "{ratio}"),
            Self::Sentences(min, max) => write!(f, "{min}-{max} sentences"),
            Self::Tokens(min, max) => write!(f, "{min}-{max} tokens"),
        }
    }
}

impl FromStr for SummaryLength {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                format!("length {text:?}"),
                "a length is a share of the source, such as 0.5, or a range such as \"3-4 sentences\" or \"200-400 tokens\"",
            )
        };
        if let Some(range) = text.strip_suffix("sentences") {
            let (min, max) = range_of(range).ok_or_else(refuse)?;
            return Ok(Self::Sentences(min, max));
        }
        if let Some(range) = text.strip_suffix("tokens") {
            let (min, max) = range_of(range).ok_or_else(refuse)?;
            return Ok(Self::Tokens(min, max));
        }
        match text.trim().parse::<f32>() {
            Ok(share) if share > 0.0 && share <= 1.0 => Ok(Self::Keep(share)),
            _ => Err(refuse()),
        }
    }
}

/// A range such as `3-4`, from 1 up.
fn range_of<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Option<(T, T)> {
    let (min, max) = text.trim().split_once('-')?;
    let (min, max): (T, T) = (min.trim().parse().ok()?, max.trim().parse().ok()?);
    (T::from(0) < min && min <= max).then_some((min, max))
}

/// The style of a node's summary. Part of the node's identity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryStyle {
    /// The writing strategy.
    pub strategy: Strategy,
    /// The target length.
    pub length: SummaryLength,
    /// Whether near-identical points of different children appear only once.
    pub deduplicate: bool,
    /// The number of characters of the previous window repeated at the start.
    pub overlap_chars: u32,
    /// The version of the prompt.
    pub prompt: ContentHash,
}

/// Every threshold of a conversation. Levels above the last entry of a list use the last entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Whether windows and groups seal. While it is false, messages are captured and found by
    /// search, and only callers add nodes.
    pub enabled: bool,
    /// Whether an edit of a message regenerates the nodes that cover it at once. Otherwise they are stale
    /// until an update.
    pub regenerate_on_edit: bool,
    /// The window policy, for level 1.
    pub window: WindowPolicy,
    /// The group policies, for levels 2, 3, …
    pub groups: Vec<GroupPolicy>,
    /// The summary lengths of levels 1, 2, 3, …
    pub lengths: Vec<SummaryLength>,
    /// The strategies of levels 1, 2, 3, …
    pub strategies: Vec<Strategy>,
    /// The length of the top, the summary of a whole closed conversation.
    pub top_length: SummaryLength,
    /// Whether near-identical points of different children appear only once.
    pub deduplicate: bool,
    /// The versions of prompts that override the built-in ones.
    pub prompts: BTreeMap<Strategy, ContentHash>,
}

/// Named policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Windows by size and silence; the default.
    Window,
    /// Windows by number of messages, tokens and age.
    Triggers,
    /// Windows of five turns; the last two turns stay raw.
    Turns,
    /// Windows by size alone, with at least three turns.
    Chars,
    /// One summary per turn.
    PerTurn,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 5] =
        [Self::Window, Self::Triggers, Self::Turns, Self::Chars, Self::PerTurn];

    /// The name used in every interface.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Triggers => "triggers",
            Self::Turns => "turns",
            Self::Chars => "chars",
            Self::PerTurn => "per-turn",
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = Invalid;
    fn from_str(word: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == word).ok_or_else(|| {
            let words = Self::ALL.map(Self::as_str).join(", ");
            Invalid::new(format!("preset {word:?}"), format!("a preset is one of {words}"))
        })
    }
}

/// A window policy without a threshold, as the base of the presets.
const NEVER: WindowPolicy = WindowPolicy {
    window_chars: None,
    wiggle: 0.2,
    min_flush_chars: 0,
    flush_after_ms: None,
    overlap_chars: 0,
    seal_policy: SealPolicy::Chars,
    ensure_assistant: true,
    messages: None,
    tokens: None,
    age_ms: None,
    turns: None,
    chars: None,
    min_turns: 0,
    keep_recent_turns: 0,
};

/// A group policy with a size threshold only.
const fn groups_of(chars: u32) -> GroupPolicy {
    GroupPolicy {
        group_chars: Some(chars),
        wiggle: 0.2,
        children: None,
        tokens: None,
        messages: None,
        chars: None,
        raw_chars: None,
        min_children: 2,
    }
}

/// A group policy with count thresholds only.
const fn groups_at(children: u32, tokens: u32, messages: u32) -> GroupPolicy {
    GroupPolicy {
        group_chars: None,
        children: Some(children),
        tokens: Some(tokens),
        messages: Some(messages),
        ..groups_of(0)
    }
}

impl From<Preset> for Policy {
    fn from(preset: Preset) -> Self {
        let base = Self {
            enabled: true,
            regenerate_on_edit: false,
            window: NEVER,
            groups: vec![groups_of(10_000)],
            lengths: vec![SummaryLength::Keep(0.5), SummaryLength::Keep(0.10)],
            strategies: vec![Strategy::Detailed, Strategy::Thematic, Strategy::Executive],
            top_length: SummaryLength::Tokens(200, 400),
            deduplicate: true,
            prompts: BTreeMap::new(),
        };
        match preset {
            Preset::Window => Self {
                window: WindowPolicy {
                    window_chars: Some(6000),
                    min_flush_chars: 3000,
                    flush_after_ms: Some(20 * 60 * 1000),
                    seal_policy: SealPolicy::Hybrid,
                    ..NEVER
                },
                ..base
            },
            Preset::Triggers => Self {
                window: WindowPolicy {
                    messages: Some(10),
                    tokens: Some(2000),
                    age_ms: Some(60 * 60 * 1000),
                    ..NEVER
                },
                groups: vec![groups_at(5, 4000, 100), groups_at(3, 6000, 500)],
                lengths: vec![
                    SummaryLength::Keep(0.5),
                    SummaryLength::Keep(0.3),
                    SummaryLength::Keep(0.2),
                ],
                ..base
            },
            Preset::Turns => Self {
                window: WindowPolicy { turns: Some(5), keep_recent_turns: 2, ..NEVER },
                lengths: vec![SummaryLength::Sentences(3, 4)],
                ..base
            },
            Preset::Chars => Self {
                window: WindowPolicy { chars: Some(8000), min_turns: 3, ..NEVER },
                groups: vec![GroupPolicy {
                    group_chars: None,
                    chars: Some(15_000),
                    ..groups_of(0)
                }],
                ..base
            },
            Preset::PerTurn => Self {
                window: WindowPolicy { turns: Some(1), ensure_assistant: false, ..NEVER },
                // The history is the same at every level, so that its length alone would
                // make groups of two above level 2.
                groups: vec![
                    GroupPolicy {
                        group_chars: None,
                        raw_chars: Some(5000),
                        min_children: 4,
                        ..groups_of(0)
                    },
                    groups_of(10_000),
                ],
                lengths: vec![SummaryLength::Sentences(3, 4)],
                ..base
            },
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Preset::Window.into()
    }
}

impl Policy {
    /// Chooses between lengths that are fractions of the source and lengths in sentences. Lengths
    /// of the chosen kind stay as they are.
    pub(crate) fn set_ratio_only(&mut self, ratio_only: bool) {
        let is_ratio = |length: &SummaryLength| matches!(length, SummaryLength::Keep(_));
        if self.lengths.iter().all(|length| is_ratio(length) == ratio_only) {
            return;
        }
        self.lengths = match ratio_only {
            true => Self::default().lengths,
            false => vec![SummaryLength::Sentences(3, 4)],
        };
    }

    /// Refuses a policy under which windows or groups could never seal, or would seal
    /// incorrectly.
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let refuse =
            |subject: &str, reason: &str| Err(Invalid::new(format!("policy: {subject}"), reason));
        let window = &self.window;
        let by_time = matches!(window.seal_policy, SealPolicy::Time | SealPolicy::Hybrid);
        let by_size = matches!(window.seal_policy, SealPolicy::Chars | SealPolicy::Hybrid);
        let seals = (by_size && window.window_chars.is_some())
            || (by_time && window.flush_after_ms.is_some())
            || window.messages.or(window.tokens).or(window.turns).or(window.chars).is_some()
            || window.age_ms.is_some();
        if !seals {
            return refuse("no threshold seals a window", "set window_chars or another threshold");
        }
        if window.window_chars.is_some_and(|chars| chars < 200) {
            return refuse("window_chars", "must be at least 200");
        }
        if [window.messages, window.tokens, window.turns, window.chars].contains(&Some(0)) {
            return refuse("a threshold of 0", "thresholds start at 1; disable one with \"off\"");
        }
        if window.turns.is_some_and(|turns| turns <= window.keep_recent_turns) {
            return refuse("keep_recent_turns", "must be less than turns, or no window ever seals");
        }
        if window.overlap_chars > 400 {
            return refuse("overlap_chars", "must be at most 400");
        }
        if window.window_chars.is_some_and(|chars| window.min_flush_chars > chars) {
            return refuse("min_flush_chars", "must not exceed window_chars");
        }
        let wiggles = self.groups.iter().map(|group| group.wiggle).chain([window.wiggle]);
        if wiggles.into_iter().any(|wiggle| !(0.0..=0.5).contains(&wiggle)) {
            return refuse("wiggle", "must be from 0 to 0.5");
        }
        if self.groups.is_empty() || self.lengths.is_empty() {
            return refuse("no rule above level 1", "give at least one group rule and one length");
        }
        if self.strategies.is_empty() {
            return refuse("no strategy", "give at least one");
        }
        for group in &self.groups {
            if group.min_children < 2 {
                return refuse("min_children", "must be at least 2");
            }
            let seals = [
                group.group_chars,
                group.children,
                group.tokens,
                group.messages,
                group.chars,
                group.raw_chars,
            ];
            if seals.iter().all(Option::is_none) {
                return refuse(
                    "no threshold seals a group",
                    "set group_chars or another threshold",
                );
            }
        }
        Ok(())
    }

    /// The policy with the overrides of an update. Overrides that are no longer valid, because
    /// the policy has changed since, have no effect.
    #[must_use]
    pub fn overridden(&self, overrides: &[Assignment]) -> Cow<'_, Self> {
        match overrides {
            [] => Cow::Borrowed(self),
            overrides => self.with(overrides).map_or(Cow::Borrowed(self), Cow::Owned),
        }
    }

    /// The rule that seals windows. No window seals while the tree is turned off.
    pub(crate) const fn window_rule(&self) -> &WindowPolicy {
        if self.enabled { &self.window } else { &NEVER }
    }

    /// The group policy for nodes of `level` (2 or higher).
    #[must_use]
    pub fn group(&self, level: Level) -> Option<&GroupPolicy> {
        let index = usize::from(level.number()).checked_sub(2)?;
        self.groups.get(index).or_else(|| self.groups.last())
    }

    /// The summary style of nodes at `level`.
    #[must_use]
    pub fn style(&self, level: Level) -> SummaryStyle {
        let index = usize::from(level.number()) - 1;
        let strategy = self.strategies.get(index).or(self.strategies.last());
        let length = self.lengths.get(index).or(self.lengths.last());
        let overlap_chars = if level == Level::FIRST { self.window.overlap_chars } else { 0 };
        self.style_of(strategy, length, overlap_chars)
    }

    /// The summary style of the top, whatever its level: the strategy of the highest levels.
    #[must_use]
    pub fn top_style(&self) -> SummaryStyle {
        self.style_of(self.strategies.last(), Some(&self.top_length), 0)
    }

    fn style_of(
        &self,
        strategy: Option<&Strategy>,
        length: Option<&SummaryLength>,
        overlap_chars: u32,
    ) -> SummaryStyle {
        let strategy = *strategy.unwrap_or(&Strategy::Detailed);
        SummaryStyle {
            strategy,
            length: *length.unwrap_or(&SummaryLength::Keep(0.5)),
            deduplicate: self.deduplicate,
            overlap_chars,
            prompt: self
                .prompts
                .get(&strategy)
                .copied()
                .unwrap_or_else(|| crate::prompt::version(strategy)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_bad_policies_say_why() {
        for preset in Preset::ALL {
            assert_eq!(Policy::from(preset).validate(), Ok(()), "{}", preset.as_str());
        }
        let check = |change: fn(&mut Policy), subject: &str| {
            let mut policy = Policy::default();
            change(&mut policy);
            assert!(policy.validate().unwrap_err().to_string().contains(subject));
        };
        check(|p| p.window.window_chars = Some(10), "window_chars");
        check(|p| p.window.overlap_chars = 500, "overlap_chars");
        check(|p| p.window.min_flush_chars = 7000, "min_flush_chars");
        check(|p| p.window.wiggle = f32::NAN, "wiggle");
        check(|p| p.groups[0].min_children = 1, "min_children");
        check(|p| p.groups[0].group_chars = None, "seals a group");
        check(|p| p.window = NEVER, "seals a window");
    }

    #[test]
    fn presets_have_the_thresholds_of_their_documents() {
        let chars = Policy::from(Preset::Chars);
        let second = chars.group(Level::new(2).unwrap()).unwrap();
        assert_eq!((chars.window.chars, chars.window.min_turns), (Some(8000), 3));
        assert_eq!((second.chars, second.group_chars), (Some(15_000), None));
        assert_eq!(second.min_children, 2);
        let turns = Policy::from(Preset::Turns);
        assert_eq!((turns.window.turns, turns.window.keep_recent_turns), (Some(5), 2));
        let triggers = Policy::from(Preset::Triggers).window;
        assert_eq!((triggers.messages, triggers.tokens), (Some(10), Some(2000)));
        assert_eq!(triggers.age_ms, Some(3_600_000));
    }

    #[test]
    fn levels_above_the_last_rule_follow_it() {
        let policy = Policy::from(Preset::Triggers);
        let at = |number| policy.group(Level::new(number).unwrap()).unwrap().children;
        assert_eq!((at(2), at(3), at(9)), (Some(5), Some(3), Some(3)));
        assert!(policy.group(Level::FIRST).is_none());
    }
}
