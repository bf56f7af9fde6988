//! Profiles: every choice that decides what goes into a context, as data that the packer
//! executes.

use serde::Deserialize;

use super::DetailLevel;
use crate::error::Invalid;

/// The content of a context, section by section. Earlier sections have priority on the budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The profile's name.
    pub name: String,
    /// The sections, in rendering order.
    pub sections: Vec<Section>,
}

/// One section of a profile.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Section {
    /// The heading, if any.
    pub heading: Option<String>,
    /// The source of the section's content.
    pub take: SectionSource,
    /// The level of the nodes; required for `take = "level"`.
    pub level: Option<u8>,
    /// Maximum number of messages.
    pub messages: Option<u32>,
    /// Maximum number of turns.
    pub turns: Option<u32>,
    /// Maximum number of nodes or hits.
    pub limit: Option<u32>,
    /// Maximum number of message characters.
    pub chars: Option<u32>,
    /// Maximum number of tokens. In a cut, the tokens reserved for the latest messages.
    pub tokens: Option<u32>,
    /// Maximum share of the remaining budget.
    pub share: Option<f32>,
    /// Only nodes that no higher node covers.
    #[serde(default)]
    pub uncovered: bool,
    /// Include the lists of nodes: files, code, names, numbers, dates.
    #[serde(default)]
    pub details: bool,
    /// Only if at least this many tokens remain.
    pub when_left: Option<u32>,
    /// Only if fewer than this many tokens remain; the section is then the last.
    pub unless_left: Option<u32>,
}

/// The source of a section's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SectionSource {
    /// The whole history: raw at the recent end, coarser with age.
    Cut,
    /// The messages that match the question, with their neighbors.
    Recall,
    /// The latest messages, verbatim.
    Recent,
    /// The highest nodes, and messages that no node covers.
    Frontier,
    /// Nodes of one level, the latest first.
    Level,
    /// Nodes of any level that match the question.
    Nodes,
}

impl SectionSource {
    const ALL: [(&'static str, Self); 6] = [
        ("cut", Self::Cut),
        ("recall", Self::Recall),
        ("recent", Self::Recent),
        ("frontier", Self::Frontier),
        ("level", Self::Level),
        ("nodes", Self::Nodes),
    ];

    /// The name used in every interface.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, take)| *take == self).map_or("cut", |(word, _)| word)
    }

    /// Whether the content depends on the question.
    #[must_use]
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::Recall | Self::Nodes)
    }
}

impl Section {
    /// A section without limits.
    #[must_use]
    pub const fn new(take: SectionSource) -> Self {
        Self {
            heading: None,
            take,
            level: None,
            messages: None,
            turns: None,
            limit: None,
            chars: None,
            tokens: None,
            share: None,
            uncovered: false,
            details: false,
            when_left: None,
            unless_left: None,
        }
    }

    fn titled(self, heading: &str) -> Self {
        Self { heading: Some(heading.to_owned()), ..self }
    }

    fn at(level: u8) -> Self {
        Self { level: Some(level), ..Self::new(SectionSource::Level) }
    }

    /// The finest detail level for nodes.
    pub(super) const fn max_detail(&self) -> DetailLevel {
        if self.details { DetailLevel::Details } else { DetailLevel::Text }
    }
}

impl Profile {
    /// The names of the built-in profiles.
    pub const NAMES: [&'static str; 6] =
        ["cut", "enriched", "tiered", "frontier", "code-review", "documentation"];

    /// A built-in profile. `recent` is the number of tokens reserved for the latest messages,
    /// in profiles that limit them by tokens.
    #[must_use]
    pub fn named(name: &str, recent: u32) -> Option<Self> {
        let latest = Section::new(SectionSource::Recent);
        let sections = match name {
            "cut" => vec![
                Section { tokens: Some(recent), ..Section::new(SectionSource::Cut) }
                    .titled("The conversation so far"),
                Section::new(SectionSource::Recall).titled("Earlier messages about the question"),
            ],
            "enriched" => vec![
                Section { turns: Some(3), chars: Some(5000), ..latest }
                    .titled("Recent Conversation (Raw)"),
                Section { limit: Some(5), ..Section::new(SectionSource::Recall) }
                    .titled("Relevant Past Context (Semantic Search - Turns)"),
                Section { limit: Some(5), ..Section::new(SectionSource::Nodes) }
                    .titled("Relevant Past Context (Semantic Search - Summaries)"),
                Section { limit: Some(10), uncovered: true, details: true, ..Section::at(1) }
                    .titled("Recent Level 1 Summaries (Not Yet Summarized to Level 2)"),
            ],
            "tiered" => vec![
                Section { tokens: Some(recent), ..latest }.titled("Recent messages"),
                Section { limit: Some(1), unless_left: Some(2000), ..Section::at(3) }
                    .titled("Overview"),
                Section { share: Some(0.6), ..Section::at(2) }.titled("Recent summaries"),
                Section { limit: Some(1), ..Section::at(3) }.titled("Overview"),
                Section { uncovered: true, ..Section::at(1) }.titled("Latest summaries"),
            ],
            "frontier" => vec![
                Section::new(SectionSource::Frontier).titled("The conversation so far"),
                Section { turns: Some(3), ..latest }.titled("Latest turns"),
            ],
            "code-review" => vec![
                Section { messages: Some(10), ..latest }.titled("Latest messages"),
                Section { details: true, ..Section::at(1) }
                    .titled("Earlier conversation in detail"),
            ],
            "documentation" => vec![
                Section { messages: Some(5), ..latest }.titled("Latest messages"),
                Section::at(2).titled("Recent summaries"),
                Section::at(3).titled("Overview"),
            ],
            _ => return None,
        };
        Some(Self { name: name.to_owned(), sections })
    }

    /// Checks that the profile can run: it has sections, and every section is complete.
    pub fn check(&self) -> Result<(), Invalid> {
        let refuse = |why: String| Err(Invalid::new(format!("profile {:?}", self.name), why));
        if self.sections.is_empty() {
            let words = SectionSource::ALL.map(|(word, _)| word).join(", ");
            return refuse(format!("it has no sections; a section takes one of {words}"));
        }
        for (number, section) in self.sections.iter().enumerate() {
            let number = number + 1;
            let take = section.take.as_str();
            match section.take {
                SectionSource::Level if section.level.is_none_or(|level| level == 0) => {
                    return refuse(format!(
                        "section {number} takes a level but does not say which; set `level` to 1 or more"
                    ));
                }
                SectionSource::Level => {}
                _ if section.level.is_some() => {
                    return refuse(format!("section {number} takes {take}, which has no `level`"));
                }
                _ => {}
            }
            if section.share.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
                return refuse(format!("section {number}: a share is more than 0 and at most 1"));
            }
            let counts_messages =
                section.messages.is_some() || section.turns.is_some() || section.chars.is_some();
            if counts_messages && section.take != SectionSource::Recent {
                return refuse(format!(
                    "section {number} takes {take}; `messages`, `turns` and `chars` are for take = \"recent\""
                ));
            }
        }
        let cuts =
            self.sections.iter().filter(|section| section.take == SectionSource::Cut).count();
        if cuts > 1 {
            return refuse("it takes the cut more than once".into());
        }
        Ok(())
    }

    /// Whether any section depends on the question.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.sections.iter().any(|section| section.take.is_volatile())
    }

    /// The section that takes the cut.
    #[must_use]
    pub fn cut(&self) -> Option<&Section> {
        self.sections.iter().find(|section| section.take == SectionSource::Cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_of_the_program_can_be_run() {
        for name in Profile::NAMES {
            let profile = Profile::named(name, 2000).unwrap();
            profile.check().unwrap();
            assert_eq!(profile.name, name);
        }
        assert_eq!(Profile::named("best", 2000), None);
    }

    #[test]
    fn a_profile_that_cannot_be_run_says_why() {
        let check = |sections: Vec<Section>, word: &str| {
            let error = Profile { name: "mine".into(), sections }.check().unwrap_err().to_string();
            assert!(error.contains("mine") && error.contains(word), "{error}");
        };
        check(vec![], "recent");
        check(vec![Section::new(SectionSource::Level)], "which");
        check(vec![Section { level: Some(1), ..Section::new(SectionSource::Recent) }], "level");
        check(vec![Section { share: Some(1.5), ..Section::new(SectionSource::Recall) }], "share");
        check(vec![Section { turns: Some(1), ..Section::new(SectionSource::Cut) }], "turns");
        check(
            vec![Section::new(SectionSource::Cut), Section::new(SectionSource::Cut)],
            "more than once",
        );
    }
}
