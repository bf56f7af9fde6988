//! The policy: every threshold that decides when windows and groups seal.

use crate::error::Invalid;

/// What makes a window seal by size or by silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealPolicy {
    /// Size only.
    Chars,
    /// Silence only.
    Time,
    /// Whichever comes first.
    Hybrid,
}

/// When the open window of a thread seals. A threshold that is absent never fires.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPolicy {
    /// The size a window aims at.
    pub window_chars: Option<u32>,
    /// How far a size may be off its aim, as a share of it.
    pub wiggle: f32,
    /// The least size that a silence may seal.
    pub min_flush_chars: u32,
    /// How long a silence must be to seal.
    pub flush_after_ms: Option<u64>,
    /// How much of the window before is repeated at the head of the next.
    pub overlap_chars: u32,
    /// Whether size, silence or both seal.
    pub seal_policy: SealPolicy,
    /// Seal only after an assistant message, so that no duo is cut.
    pub ensure_assistant: bool,
    /// Seal at so many messages.
    pub messages: Option<u32>,
    /// Seal at so many tokens.
    pub tokens: Option<u32>,
    /// Seal when the window has been open for so long.
    pub age_ms: Option<u64>,
    /// Seal at so many turns.
    pub turns: Option<u32>,
    /// Never seal with fewer turns.
    pub min_turns: u32,
    /// The latest turns that stay out of every window.
    pub keep_recent_turns: u32,
}

/// When the last group of a level seals. A threshold that is absent never fires.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupPolicy {
    /// The size of its children that a group aims at.
    pub group_chars: Option<u32>,
    /// How far a size may be off its aim, as a share of it.
    pub wiggle: f32,
    /// Seal at so many children.
    pub children: Option<u32>,
    /// Seal when the children have so many tokens.
    pub tokens: Option<u32>,
    /// Seal when the children cover so many messages.
    pub messages: Option<u32>,
    /// Seal when the covered messages have so many characters.
    pub raw_chars: Option<u32>,
    /// Never seal with fewer children.
    pub min_children: u32,
}

/// How long a summary should be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Length {
    /// This share of what it covers is kept.
    Keep(f32),
    /// So many sentences.
    Sentences(u8, u8),
}

/// Every threshold of a conversation. Levels above the last one listed follow the last one.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// Level 1.
    pub window: WindowPolicy,
    /// Levels 2, 3, …
    pub groups: Vec<GroupPolicy>,
    /// Lengths of the summaries of levels 1, 2, 3, …
    pub lengths: Vec<Length>,
}

/// The policies of the source documents, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Windows by size and silence; the default.
    Window,
    /// Counts of messages, tokens and time.
    Triggers,
    /// Five turns, the last two kept raw.
    Turns,
    /// Size alone, with at least three turns.
    Chars,
    /// A summary for every turn.
    PerTurn,
}

impl Preset {
    /// Every preset.
    pub const ALL: [Self; 5] = [Self::Window, Self::Triggers, Self::Turns, Self::Chars, Self::PerTurn];

    /// The word for it in every interface.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Triggers => "triggers",
            Self::Turns => "turns",
            Self::Chars => "chars",
            Self::PerTurn => "per-turn",
        }
    }
}

/// A window that nothing seals; the presets say what does.
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
    min_turns: 0,
    keep_recent_turns: 0,
};

/// Groups by size alone.
const fn groups_of(chars: u32) -> GroupPolicy {
    GroupPolicy {
        group_chars: Some(chars),
        wiggle: 0.2,
        children: None,
        tokens: None,
        messages: None,
        raw_chars: None,
        min_children: 2,
    }
}

/// Groups by counts alone.
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
        let detailed_then_tenth = vec![Length::Keep(0.5), Length::Keep(0.10)];
        match preset {
            Preset::Window => Self {
                window: WindowPolicy {
                    window_chars: Some(6000),
                    min_flush_chars: 3000,
                    flush_after_ms: Some(20 * 60 * 1000),
                    seal_policy: SealPolicy::Hybrid,
                    ..NEVER
                },
                groups: vec![groups_of(10_000)],
                lengths: detailed_then_tenth,
            },
            Preset::Triggers => Self {
                window: WindowPolicy {
                    messages: Some(10),
                    tokens: Some(2000),
                    age_ms: Some(60 * 60 * 1000),
                    ..NEVER
                },
                groups: vec![groups_at(5, 4000, 100), groups_at(3, 6000, 500)],
                lengths: vec![Length::Keep(0.5), Length::Keep(0.3), Length::Keep(0.2)],
            },
            Preset::Turns => Self {
                window: WindowPolicy { turns: Some(5), keep_recent_turns: 2, ..NEVER },
                groups: vec![groups_of(10_000)],
                lengths: vec![Length::Sentences(3, 4)],
            },
            Preset::Chars => Self {
                window: WindowPolicy { window_chars: Some(8000), wiggle: 0.0, min_turns: 3, ..NEVER },
                groups: vec![GroupPolicy { wiggle: 0.0, ..groups_of(15_000) }],
                lengths: detailed_then_tenth,
            },
            Preset::PerTurn => Self {
                window: WindowPolicy { turns: Some(1), ..NEVER },
                groups: vec![GroupPolicy { group_chars: None, raw_chars: Some(5000), ..groups_of(0) }],
                lengths: vec![Length::Sentences(3, 4)],
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
    /// Refuses a policy under which windows or groups could never seal, or seal wrongly.
    pub fn validate(&self) -> Result<(), Invalid> {
        let refuse = |what: &str, why: &str| Err(Invalid::new(format!("policy: {what}"), why));
        let window = &self.window;
        let by_time = matches!(window.seal_policy, SealPolicy::Time | SealPolicy::Hybrid);
        let seals = window.window_chars.is_some()
            || (by_time && window.flush_after_ms.is_some())
            || window.messages.or(window.tokens).or(window.turns).is_some()
            || window.age_ms.is_some();
        if !seals {
            return refuse("no threshold seals a window", "set window_chars or another threshold");
        }
        if window.window_chars.is_some_and(|chars| chars < 200) {
            return refuse("window_chars", "a window holds at least 200 characters");
        }
        if window.overlap_chars > 400 {
            return refuse("overlap_chars", "at most 400 characters are repeated");
        }
        if window.window_chars.is_some_and(|chars| window.min_flush_chars > chars) {
            return refuse("min_flush_chars", "must not exceed window_chars");
        }
        let wiggles = self.groups.iter().map(|group| group.wiggle).chain([window.wiggle]);
        if wiggles.into_iter().any(|wiggle| !(0.0..=0.5).contains(&wiggle)) {
            return refuse("wiggle", "a share from 0 to 0.5");
        }
        if self.groups.is_empty() || self.lengths.is_empty() {
            return refuse("no rule above level 1", "give at least one group rule and one length");
        }
        for group in &self.groups {
            if group.min_children < 2 {
                return refuse("min_children", "a group has at least 2 children");
            }
            let seals = [group.group_chars, group.children, group.tokens, group.messages, group.raw_chars];
            if seals.iter().all(Option::is_none) {
                return refuse("no threshold seals a group", "set group_chars or another threshold");
            }
        }
        Ok(())
    }

    /// The rule for groups whose node will be of `level` (2 or higher).
    #[must_use]
    pub fn group(&self, level: crate::node::Level) -> Option<&GroupPolicy> {
        let place = usize::from(level.number()).checked_sub(2)?;
        self.groups.get(place).or_else(|| self.groups.last())
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
        let check = |change: fn(&mut Policy), what: &str| {
            let mut policy = Policy::default();
            change(&mut policy);
            assert!(policy.validate().unwrap_err().to_string().contains(what));
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
    fn levels_above_the_last_rule_follow_it() {
        let policy = Policy::from(Preset::Triggers);
        let at = |number| policy.group(crate::node::Level::new(number).unwrap()).unwrap().children;
        assert_eq!((at(2), at(3), at(9)), (Some(5), Some(3), Some(3)));
        assert!(policy.group(crate::node::Level::FIRST).is_none());
    }
}
