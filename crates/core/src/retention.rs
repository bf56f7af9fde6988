//! Retention: rules that say when a conversation is too old to keep.

use std::str::FromStr;

use crate::conversation::Conversation;
use crate::error::Invalid;
use crate::label::Label;
use crate::parameters::duration;
use crate::time::Timestamp;

/// A rule such as `365d`, `cursor 30d` or `user=42 7d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionRule {
    /// The conversations that the rule applies to.
    pub scope: RetentionScope,
    /// The time after their last activity at which they are forgotten, in milliseconds.
    pub max_age_ms: u64,
}

/// The conversations that a retention rule applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionScope {
    /// All conversations.
    All,
    /// Conversations from a source, such as `claude-code`: the label `source` or, without it, the first part
    /// of the key.
    Source(String),
    /// Those with a label.
    Label(Label),
}

impl RetentionScope {
    fn contains(&self, conversation: &Conversation) -> bool {
        match self {
            Self::All => true,
            Self::Source(source) => source.eq_ignore_ascii_case(source_of(conversation)),
            Self::Label(label) => conversation.labels.get(label.name()) == Some(label.value()),
        }
    }
}

fn source_of(conversation: &Conversation) -> &str {
    let key = conversation.external_id.as_ref().map_or("", |id| id.as_str());
    let of_key = key.split([':', '/']).next().unwrap_or_default();
    conversation.labels.source().unwrap_or(of_key)
}

impl RetentionRule {
    /// Whether the rule says that a conversation is forgotten.
    #[must_use]
    pub fn expires(&self, conversation: &Conversation, now: Timestamp) -> bool {
        let age = now.as_micros().saturating_sub(conversation.last_activity.as_micros());
        let max_age = i64::try_from(self.max_age_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
        self.scope.contains(conversation) && age > max_age
    }
}

impl FromStr for RetentionRule {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = || {
            let reason = "expected an age such as 365d, after a source such as `cursor 30d`, or \
                          after a label such as `user=42 30d`";
            Invalid::new(format!("retention rule {text:?}"), reason)
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        // The unit may stand apart from its number.
        let is_unit = |word: &&str| word.chars().all(char::is_alphabetic);
        let age_words = if words.last().is_some_and(is_unit) { 2 } else { 1 };
        let (scope, age) = words.split_at(words.len().saturating_sub(age_words));
        let age = duration(&age.concat()).ok().flatten();
        let max_age_ms = age.filter(|ms| *ms > 0).ok_or_else(invalid)?;
        let scope = match scope {
            [] => RetentionScope::All,
            [source] if !source.contains('=') => RetentionScope::Source((*source).to_owned()),
            label => RetentionScope::Label(label.join(" ").parse().map_err(|_| invalid())?),
        };
        Ok(Self { scope, max_age_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_an_age_with_or_without_a_scope() {
        let source = |name: &str| RetentionScope::Source(name.into());
        let label = |text: &str| RetentionScope::Label(text.parse().unwrap());
        for (text, scope, days) in [
            ("365d", RetentionScope::All, 365),
            (" 2 d ", RetentionScope::All, 2),
            ("cursor 30d", source("cursor"), 30),
            ("claude-code  1 d", source("claude-code"), 1),
            ("user=42 7d", label("user=42"), 7),
            ("team=red crew 7 d", label("team=red crew"), 7),
        ] {
            let rule = RetentionRule { scope, max_age_ms: days * 86_400_000 };
            assert_eq!(text.parse::<RetentionRule>().unwrap(), rule, "{text}");
        }
        for text in ["", "cursor", "0d", "30", "off", "cursor off", "user=42", "two words 7d"] {
            let error = text.parse::<RetentionRule>().unwrap_err().to_string();
            assert!(error.contains("365d") && error.contains("user=42 30d"), "{text}: {error}");
        }
    }
}
