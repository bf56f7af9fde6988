//! Settings of retention.

use confique::Config;
use treering_core::{Invalid, RetentionRule};

/// Forgetting by age.
#[derive(Debug, Config)]
#[config(layer_attr(serde(deny_unknown_fields)))]
pub struct RetentionSettings {
    /// Retention rules: an age (`365d`), optionally after a source (`cursor 30d`) or a label
    /// (`user=42 30d`); separated by commas in the environment. Conversations
    /// without activity for longer are forgotten: by `treering retain`, and every hour by `treering
    /// serve`, `treering mcp` and `treering work --watch`.
    #[config(env = "TREERING_RETENTION_RULES", default = [],
        parse_env = confique::env::parse::list_by_comma, validate = are_rules)]
    pub rules: Vec<String>,
}

impl RetentionSettings {
    /// The rules.
    pub fn parsed(&self) -> Result<Vec<RetentionRule>, Invalid> {
        self.rules.iter().map(|rule| rule.parse()).collect()
    }
}

fn are_rules(rules: &impl AsRef<[String]>) -> Result<(), String> {
    let checked = rules.as_ref().iter().try_for_each(|it| it.parse::<RetentionRule>().map(drop));
    checked.map_err(|error| error.to_string())
}
