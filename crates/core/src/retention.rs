//! Retention: rules that say when a conversation is too old to keep.

use std::str::FromStr;

use crate::conversation::Conversation;
use crate::error::Invalid;
use crate::parameters::duration;
use crate::time::Timestamp;

/// A rule such as `365d`, for every conversation, or `cursor 30d`, for those of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetentionRule {
    /// Only conversations of this source: the first part of their key, such as `claude-code`.
    pub source: Option<String>,
    /// The time after their last activity at which they are forgotten, in milliseconds.
    pub max_age_ms: u64,
}

impl RetentionRule {
    /// Whether the rule says that a conversation is forgotten.
    #[must_use]
    pub fn expires(&self, conversation: &Conversation, now: Timestamp) -> bool {
        let key = conversation.external_id.as_ref().map_or("", |id| id.as_str());
        let source = key.split([':', '/']).next().unwrap_or_default();
        let is_of_source = self.source.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(source));
        let age = now.as_micros().saturating_sub(conversation.last_activity.as_micros());
        let max_age = i64::try_from(self.max_age_ms.saturating_mul(1000)).unwrap_or(i64::MAX);
        is_of_source && age > max_age
    }
}

impl FromStr for RetentionRule {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (source, age) = match text.trim().split_once(char::is_whitespace) {
            Some((source, age)) if !source.starts_with(|c: char| c.is_ascii_digit()) => {
                (Some(source.to_owned()), age.trim())
            }
            _ => (None, text.trim()),
        };
        let max_age_ms = duration(age).ok().flatten().filter(|ms| *ms > 0).ok_or_else(|| {
            let reason =
                "expected an age such as 365d, or a source and an age such as `cursor 30d`";
            Invalid::new(format!("retention rule {text:?}"), reason)
        })?;
        Ok(Self { source, max_age_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_an_age_with_or_without_a_source() {
        let day = 86_400_000;
        let rule = |source: Option<&str>, days: u64| RetentionRule {
            source: source.map(str::to_owned),
            max_age_ms: days * day,
        };
        for (text, expected) in [
            ("365d", rule(None, 365)),
            (" 2 d ", rule(None, 2)),
            ("cursor 30d", rule(Some("cursor"), 30)),
            ("claude-code  1 d", rule(Some("claude-code"), 1)),
        ] {
            assert_eq!(text.parse::<RetentionRule>().unwrap(), expected, "{text}");
        }
        for text in ["", "cursor", "0d", "30", "off", "cursor off"] {
            let error = text.parse::<RetentionRule>().unwrap_err().to_string();
            assert!(error.contains("365d"), "{text}: {error}");
        }
    }
}
