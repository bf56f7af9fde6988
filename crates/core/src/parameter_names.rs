//! Other names of the policy parameters: those of the source documents, in camelCase or
//! snake_case.

use crate::error::Invalid;

/// How a value is converted to the unit of the parameter.
#[derive(Clone, Copy)]
enum AliasUnit {
    AsIs,
    /// Milliseconds, to a duration.
    Millis,
    /// Seconds, to a duration.
    Seconds,
    /// The share that is removed, to the share that is kept.
    ShareRemoved,
}

/// Each other name, the parameter, and the unit of its value.
const ALIASES: &[(&str, &str, AliasUnit)] = &[
    ("flush_after_ms", "flush_after", AliasUnit::Millis),
    ("l1_message_threshold", "messages", AliasUnit::AsIs),
    ("l1_token_threshold", "tokens", AliasUnit::AsIs),
    ("l1_time_threshold", "age", AliasUnit::Seconds),
    ("l1_strategy", "strategy@1", AliasUnit::AsIs),
    ("l2_strategy", "strategy@2", AliasUnit::AsIs),
    ("l3_strategy", "strategy@3", AliasUnit::AsIs),
    ("l1_target_compression_ratio", "length@1", AliasUnit::ShareRemoved),
    ("l2_target_compression_ratio", "length@2", AliasUnit::ShareRemoved),
    ("l3_target_compression_ratio", "length@3", AliasUnit::ShareRemoved),
    ("l2_summary_threshold", "group_children@2", AliasUnit::AsIs),
    ("l3_summary_threshold", "group_children@3", AliasUnit::AsIs),
    ("l2_token_threshold", "group_tokens@2", AliasUnit::AsIs),
    ("l3_token_threshold", "group_tokens@3", AliasUnit::AsIs),
    ("l2_message_threshold", "group_messages@2", AliasUnit::AsIs),
    ("l3_message_threshold", "group_messages@3", AliasUnit::AsIs),
    ("regenerate_summaries_on_edit", "regenerate_on_edit", AliasUnit::AsIs),
    ("enable_semantic_deduplication", "deduplicate", AliasUnit::AsIs),
    ("l1_threshold", "chars", AliasUnit::AsIs),
    ("l1_turns_min", "min_turns", AliasUnit::AsIs),
    ("l2_threshold", "group_limit", AliasUnit::AsIs),
    ("l2_summaries_min", "min_children", AliasUnit::AsIs),
    ("max_turns_before_summarize", "turns", AliasUnit::AsIs),
    ("max_chars_before_summarize_summaries", "group_chars", AliasUnit::AsIs),
];

/// The parameter that a name stands for, and its value in the parameter's unit.
pub(crate) fn canonical(name: &str, value: &str) -> Result<(String, String), Invalid> {
    let name = snake_case(name.trim());
    let Some((_, parameter, unit)) = ALIASES.iter().find(|(alias, ..)| *alias == name) else {
        return Ok((name, value.trim().to_owned()));
    };
    let refuse = || Invalid::new(format!("policy parameter {name}={value:?}"), "expected a number");
    let value = value.trim();
    let value = match unit {
        AliasUnit::AsIs => value.to_owned(),
        AliasUnit::Millis => format!("{} ms", value.parse::<u64>().map_err(|_| refuse())?),
        AliasUnit::Seconds => format!("{} s", value.parse::<u64>().map_err(|_| refuse())?),
        AliasUnit::ShareRemoved => {
            let removed: f64 = value.parse().map_err(|_| refuse())?;
            // Six digits are more than any share needs, and hide the rounding of 1 − 0.7.
            format!("{:.6}", 1.0 - removed)
        }
    };
    Ok(((*parameter).to_owned(), value))
}

/// Every name that is not the parameter's own.
pub fn parameter_aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALIASES.iter().map(|(alias, parameter, _)| (*alias, *parameter))
}

/// A name in snake_case: `windowChars` becomes `window_chars`.
#[must_use]
pub fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for c in name.chars() {
        if c.is_ascii_uppercase() && !snake.is_empty() && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.push(c.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Assignment;

    #[test]
    fn names_of_the_source_documents_set_the_parameter() {
        for (alias, value, expected) in [
            ("windowChars", "4000", "window_chars=4000"),
            ("groupChars@3", "20000", "group_chars@3=20000"),
            ("flushAfterMs", "60000", "flush_after=60000 ms"),
            ("l1TimeThreshold", "3600", "age=3600 s"),
            ("l3_message_threshold", "500", "group_messages@3=500"),
            ("l2TargetCompressionRatio", "0.7", "length@2=0.300000"),
            ("enableSemanticDeduplication", "false", "deduplicate=false"),
        ] {
            let assignment = Assignment::new(alias, value).unwrap();
            assert_eq!(assignment.to_string(), expected, "{alias}");
        }
        assert!(Assignment::new("windowChar", "1").is_err());
        assert!(Assignment::new("flushAfterMs", "soon").is_err());
    }

    #[test]
    fn every_alias_names_a_parameter() {
        for (alias, parameter) in parameter_aliases() {
            let name = parameter.split('@').next().unwrap_or_default();
            assert!(
                crate::parameters::PARAMETERS.iter().any(|(known, _)| *known == name),
                "{alias}"
            );
        }
    }
}
