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
    /// Maximum number of hits of each level, from level 0; the last number holds for the levels
    /// above. For `take = "search"`.
    #[serde(default)]
    pub quotas: Vec<u32>,
    /// Only nodes that no higher node covers.
    #[serde(default)]
    pub uncovered: bool,
    /// Take nodes whole, even if another section covers some of their messages. Other sections
    /// may cover their messages too.
    #[serde(default)]
    pub overlap: bool,
    /// Include the lists of nodes: files, code, names, numbers, dates.
    #[serde(default)]
    pub details: bool,
    /// Only if at least this many tokens remain after the latest messages.
    pub when_left: Option<u32>,
    /// Only if fewer than this many tokens remain after the latest messages; no later section
    /// then follows.
    pub unless_left: Option<u32>,
    /// The order in which sections claim tokens, lowest first; 0 by default for the latest
    /// messages, 1 for other sections. Sections of one rank follow the order of the profile.
    pub rank: Option<u8>,
    /// The style of the section's blocks.
    #[serde(default)]
    pub style: BlockStyle,
}

/// The style of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockStyle {
    /// Messages by position and speaker, nodes by the messages that they cover.
    #[default]
    #[serde(alias = "record")]
    Plain,
    /// Turns with the labels `User`, `Assistant` and `Tools`, nodes by level, with their lists;
    /// matches with their relevance.
    #[serde(alias = "labelled")]
    Labeled,
    /// Like `Labeled`, but nodes are introduced as the summary of the previous conversation.
    Previous,
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
    /// Messages and nodes of any level that match the question.
    Search,
    /// The messages that no node covers yet.
    #[serde(alias = "unsummarised")]
    Unsummarized,
}

impl SectionSource {
    const ALL: [(&'static str, Self); 8] = [
        ("cut", Self::Cut),
        ("recall", Self::Recall),
        ("recent", Self::Recent),
        ("frontier", Self::Frontier),
        ("level", Self::Level),
        ("nodes", Self::Nodes),
        ("search", Self::Search),
        ("unsummarized", Self::Unsummarized),
    ];

    /// The name used in every interface.
    #[must_use]
    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(_, take)| *take == self).map_or("cut", |(word, _)| word)
    }

    /// Whether the content depends on the question.
    #[must_use]
    pub const fn is_volatile(self) -> bool {
        matches!(self, Self::Recall | Self::Nodes | Self::Search)
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
            quotas: Vec::new(),
            uncovered: false,
            overlap: false,
            details: false,
            when_left: None,
            unless_left: None,
            rank: None,
            style: BlockStyle::Plain,
        }
    }

    fn titled(self, heading: &str) -> Self {
        Self { heading: Some(heading.to_owned()), ..self }
    }

    fn at(level: u8) -> Self {
        Self { level: Some(level), ..Self::new(SectionSource::Level) }
    }

    fn labeled(take: SectionSource) -> Self {
        Self { style: BlockStyle::Labeled, ..Self::new(take) }
    }

    /// The order in which the section claims tokens.
    pub(super) fn claim_rank(&self) -> u8 {
        self.rank.unwrap_or(u8::from(self.take != SectionSource::Recent))
    }

    /// The finest detail level for nodes.
    pub(super) const fn max_detail(&self) -> DetailLevel {
        if self.details { DetailLevel::Details } else { DetailLevel::Text }
    }
}

impl Profile {
    /// The names of the built-in profiles.
    pub const NAMES: [&'static str; 7] =
        ["cut", "enriched", "tiered", "frontier", "semantic", "code-review", "documentation"];

    /// A built-in profile. `recent` is the number of tokens reserved for the latest messages,
    /// in profiles that limit them by tokens.
    #[must_use]
    pub fn named(name: &str, recent: u32) -> Option<Self> {
        let sections = match name {
            "cut" => cut(recent),
            "enriched" => enriched(),
            "tiered" => tiered(recent),
            "frontier" => frontier(),
            "semantic" => semantic(),
            "code-review" => code_review(),
            "documentation" => documentation(),
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
            if !section.quotas.is_empty() && section.take != SectionSource::Search {
                return refuse(format!(
                    "section {number} takes {take}; `quotas` are for take = \"search\""
                ));
            }
            if section.style != BlockStyle::Plain && section.messages.is_some() {
                return refuse(format!(
                    "section {number} shows whole turns; limit them by `turns`, not `messages`"
                ));
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

fn cut(recent: u32) -> Vec<Section> {
    vec![
        Section { tokens: Some(recent), ..Section::new(SectionSource::Cut) }
            .titled("The conversation so far"),
        Section::new(SectionSource::Recall).titled("Earlier messages about the question"),
    ]
}

/// The share of the budget for the latest messages at most, so that the rest of a context has
/// room even if they are long.
const RECENT: Option<f32> = Some(0.5);

fn enriched() -> Vec<Section> {
    let labeled = Section::labeled;
    let level_1 = Section { level: Some(1), ..labeled(SectionSource::Level) };
    vec![
        Section {
            turns: Some(3),
            chars: Some(5000),
            share: RECENT,
            ..labeled(SectionSource::Recent)
        }
        .titled("Recent Conversation (Raw)"),
        // The shares leave room for the sections that follow.
        Section { limit: Some(5), share: Some(0.4), ..labeled(SectionSource::Recall) }
            .titled("Relevant Past Context (Semantic Search - Turns)"),
        Section { limit: Some(5), share: Some(0.5), ..labeled(SectionSource::Nodes) }
            .titled("Relevant Past Context (Semantic Search - Summaries)"),
        Section { limit: Some(10), uncovered: true, overlap: true, ..level_1 }
            .titled("Recent Level 1 Summaries (Not Yet Summarized to Level 2)"),
    ]
}

fn tiered(recent: u32) -> Vec<Section> {
    const LIMITED: u32 = 2000;
    let session = Section { limit: Some(1), overlap: true, ..Section::at(3) }.titled("Overview");
    vec![
        Section { unless_left: Some(LIMITED), ..session.clone() },
        Section { when_left: Some(LIMITED), rank: Some(2), ..session },
        Section { when_left: Some(LIMITED), share: Some(0.6), ..Section::at(2) }
            .titled("Recent summaries"),
        Section { rank: Some(3), ..Section::at(1) }.titled("Latest summaries"),
        rest_of_history(4),
        Section { tokens: Some(recent), share: RECENT, ..Section::new(SectionSource::Recent) }
            .titled("Recent messages"),
    ]
}

fn frontier() -> Vec<Section> {
    vec![
        Section { style: BlockStyle::Previous, ..Section::new(SectionSource::Frontier) },
        Section { turns: Some(3), share: RECENT, ..Section::labeled(SectionSource::Recent) }
            .titled("Latest turns"),
    ]
}

fn semantic() -> Vec<Section> {
    let quotas = vec![10, 5, 3, 1];
    vec![
        Section { quotas, ..Section::labeled(SectionSource::Search) }
            .titled("Relevant Past Context (Semantic Search)"),
    ]
}

fn code_review() -> Vec<Section> {
    vec![
        Section { details: true, rank: Some(2), ..Section::at(1) }
            .titled("Earlier conversation in detail"),
        Section::new(SectionSource::Unsummarized).titled("Not summarized yet"),
        Section { messages: Some(10), share: RECENT, ..Section::new(SectionSource::Recent) }
            .titled("Latest messages"),
    ]
}

fn documentation() -> Vec<Section> {
    vec![
        Section { limit: Some(1), overlap: true, ..Section::at(3) }.titled("Overview"),
        Section::at(2).titled("Recent summaries"),
        rest_of_history(2),
        Section { messages: Some(5), share: RECENT, ..Section::new(SectionSource::Recent) }
            .titled("Latest messages"),
    ]
}

/// The part of the history that no other section covers, so that nothing is lost while tokens
/// are left.
fn rest_of_history(rank: u8) -> Section {
    Section { rank: Some(rank), ..Section::new(SectionSource::Frontier) }
        .titled("Not in these summaries yet")
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
        check(vec![Section { quotas: vec![1], ..Section::new(SectionSource::Nodes) }], "quotas");
        let labeled = Section::labeled(SectionSource::Recent);
        check(vec![Section { messages: Some(1), ..labeled }], "turns");
        check(
            vec![Section::new(SectionSource::Cut), Section::new(SectionSource::Cut)],
            "more than once",
        );
    }
}
