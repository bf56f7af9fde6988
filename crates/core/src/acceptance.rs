//! Acceptance: decides whether a summary may be kept. It checks facts, sizes and signs of model
//! failure; it never judges style.

use std::collections::{HashMap, HashSet};

use crate::facts::Facts;
use crate::node::NodeContent;
use crate::prompt;
use crate::sentence;
use crate::text;

/// The minimum share of a summary's facts that must occur in the covered content.
pub const MIN_GROUNDED: f32 = 0.7;

/// The minimum share of the covered content's facts that a summary with its lists must keep.
pub(crate) const MIN_RETAINED: f32 = 0.1;

/// The retained share is checked only if the covered content has at least this many facts.
const MIN_FACTS_FOR_RETENTION: usize = 10;

/// How well the facts of a summary and of the covered content agree. The shares describe the text
/// that a reader gets, not the lists beside it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fidelity {
    /// Share of the text's facts that occur in the covered content.
    pub grounded: f32,
    /// Share of the covered content's facts that the text keeps.
    pub retained: f32,
    /// The facts of the text and of the lists that do not occur in the covered content.
    pub invented: Vec<String>,
}

/// The reason why a summary is rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SummaryRejection {
    /// It contains no text.
    #[error("the summary is empty")]
    Empty,
    /// It is longer than the covered content.
    #[error("the summary has {chars} characters, but its source has only {source_chars}")]
    TooLong {
        /// The length of the summary, in characters.
        chars: u32,
        /// The length of the covered content, in characters.
        source_chars: u64,
    },
    /// Too many of its facts do not occur in the covered content.
    #[error("only {:.0}% of the facts in the summary occur in its source; invented: {}", share * 100.0, invented.join(", "))]
    Ungrounded {
        /// The grounded share.
        share: f32,
        /// The facts that do not occur in the covered content.
        invented: Vec<String>,
    },
    /// It keeps too few of the covered content's facts.
    #[error("the summary keeps only {:.0}% of the {facts} facts in its source", share * 100.0)]
    Hollow {
        /// The retained share.
        share: f32,
        /// The number of facts in the covered content.
        facts: usize,
    },
    /// It repeats itself.
    #[error("the summary repeats itself: {phrase:?}")]
    Repetition {
        /// The repeated phrase.
        phrase: String,
    },
    /// The model declined instead of writing a summary.
    #[error("the model declined: {words:?}")]
    Refusal {
        /// The beginning of the refusal.
        words: String,
    },
    /// It echoes the prompt instead of summarizing.
    #[error("the summary repeats its instructions: {words:?}")]
    Echo {
        /// The echoed words.
        words: String,
    },
}

/// Compares a summary with the covered content. A share of no facts is 1.
#[must_use]
pub fn fidelity(content: &NodeContent, source: &Facts) -> Fidelity {
    let text = Facts::of(&prompt::without_headings(&content.overview));
    let invented = compare(&Facts::of_content(content), source).invented;
    Fidelity { invented, ..compare(&text, source) }
}

fn compare(summary: &Facts, source: &Facts) -> Fidelity {
    let share =
        |part: usize, total: usize| if total == 0 { 1.0 } else { part as f32 / total as f32 };
    let (known, invented) = source.partition_known(summary);
    let (kept, _) = summary.partition_known(source);
    Fidelity {
        grounded: share(known.len(), summary.len()),
        retained: share(kept.len(), source.len()),
        invented: invented.into_iter().map(str::to_owned).collect(),
    }
}

/// Accepts a summary, or returns the reason for rejecting it.
pub fn accept(
    content: &NodeContent,
    source: &Facts,
    source_chars: u64,
) -> Result<Fidelity, SummaryRejection> {
    let overview = content.overview.trim();
    if !overview.chars().any(char::is_alphanumeric) {
        return Err(SummaryRejection::Empty);
    }
    check_refusal_and_echo(overview)?;
    let chars = text::chars(overview);
    // A speaker's label and one sentence may be longer than a very short input.
    if u64::from(chars) > source_chars.saturating_add(80).max(source_chars * 11 / 10) {
        return Err(SummaryRejection::TooLong { chars, source_chars });
    }
    if let Some(phrase) = repeated(overview) {
        return Err(SummaryRejection::Repetition { phrase });
    }
    let whole = compare(&Facts::of_content(content), source);
    if whole.grounded < MIN_GROUNDED && whole.invented.len() > 1 {
        return Err(SummaryRejection::Ungrounded {
            share: whole.grounded,
            invented: whole.invented,
        });
    }
    if whole.retained < MIN_RETAINED && source.len() >= MIN_FACTS_FOR_RETENTION {
        return Err(SummaryRejection::Hollow { share: whole.retained, facts: source.len() });
    }
    Ok(fidelity(content, source))
}

/// Phrases that start a model's refusal.
const REFUSALS: [&str; 16] = [
    "i'm sorry, but i can",
    "i'm sorry, i can",
    "i am sorry, but i can",
    "sorry, but i can",
    "i cannot assist",
    "i can't assist",
    "i cannot help with",
    "i can't help with",
    "i cannot summarize",
    "i cannot summarise",
    "i'm unable to",
    "i am unable to",
    "as an ai",
    "as a language model",
    "je suis désolé, mais je ne peux",
    "en tant qu'ia",
];

/// Phrases that occur only in prompts.
const INSTRUCTIONS: [&str; 9] = [
    "<conversation",
    "</conversation",
    "{{",
    "you are a summar",
    "your task is to summar",
    "here is the json",
    "return only json",
    "respond with json",
    "insert summary here",
];

fn check_refusal_and_echo(overview: &str) -> Result<(), SummaryRejection> {
    let head: String =
        overview.chars().take(400).collect::<String>().to_lowercase().replace('’', "'");
    if let Some(words) = REFUSALS.iter().find(|words| head.starts_with(*words)) {
        return Err(SummaryRejection::Refusal { words: (*words).to_owned() });
    }
    let lines = head.lines().map(str::trim_start);
    let starts = |words: &str| lines.clone().any(|line| line.starts_with(words));
    if let Some(words) = INSTRUCTIONS.iter().find(|words| starts(words)) {
        return Err(SummaryRejection::Echo { words: (*words).to_owned() });
    }
    Ok(())
}

/// Number of words in a row that no summary shares with its instructions by chance.
const ECHOED_WORDS: usize = 8;

/// Rejects a summary that copies a run of words from its instructions. The headings that the
/// instructions ask for do not count.
pub fn check_copied_instructions(
    content: &NodeContent,
    instructions: &[String],
) -> Result<(), SummaryRejection> {
    let runs = |text: &str| {
        let text = prompt::without_headings(text).to_lowercase();
        let words: Vec<String> = sentence::words(&text).map(str::to_owned).collect();
        words.windows(ECHOED_WORDS).map(<[String]>::to_vec).collect::<Vec<_>>()
    };
    let known: HashSet<Vec<String>> = instructions.iter().flat_map(|text| runs(text)).collect();
    let lists =
        [&content.key_findings, &content.decisions, &content.action_items, &content.unresolved];
    let texts = lists.into_iter().flatten().chain([&content.overview]);
    match texts.flat_map(|text| runs(text)).find(|run| known.contains(run)) {
        Some(run) => Err(SummaryRejection::Echo { words: run.join(" ") }),
        None => Ok(()),
    }
}

/// A run of six words that occurs at least four times and makes up more than a third of the
/// text.
fn repeated(overview: &str) -> Option<String> {
    let words: Vec<&str> = sentence::words(overview).collect();
    if words.len() < 24 {
        return None;
    }
    let mut seen: HashMap<&[&str], usize> = HashMap::new();
    for run in words.windows(6) {
        let count = seen.entry(run).or_default();
        *count += 1;
        if *count >= 4 && *count * 6 * 3 > words.len() {
            return Some(run.join(" "));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(overview: &str, source: &str) -> Result<Fidelity, SummaryRejection> {
        let content = NodeContent { overview: overview.into(), ..NodeContent::default() };
        accept(&content, &Facts::of(source), u64::from(text::chars(source)))
    }

    const SOURCE: &str = "Ana put the gauge of Kerzavel into src/tide.rs on 9 December 2025. It reads every 20 minutes, \
        keeps 3.5 GB and calls predict_height() before it writes to the ledger of the harbour office in town.";

    #[test]
    fn a_faithful_summary_is_taken() {
        let fidelity =
            check("Ana put the gauge into src/tide.rs; it reads every 20 min.", SOURCE).unwrap();
        assert!((fidelity.grounded - 1.0).abs() < f32::EPSILON);
        assert!(fidelity.retained > 0.3 && fidelity.retained < 1.0, "{fidelity:?}");
        assert_eq!(
            check("Rien à signaler.", "Rien à dire, vraiment.").unwrap().invented,
            Vec::<String>::new()
        );
    }

    #[test]
    fn reasons_have_names() {
        assert_eq!(check(" … ", SOURCE), Err(SummaryRejection::Empty));
        let wrong = check("Then Bob put src/lake.rs into Paris on 3 May 2024 for 17 days.", SOURCE);
        assert!(
            matches!(wrong, Err(SummaryRejection::Ungrounded { share, .. }) if share < 0.1),
            "{wrong:?}"
        );
        assert!(matches!(check(&SOURCE.repeat(2), SOURCE), Err(SummaryRejection::TooLong { .. })));
        assert!(matches!(
            check("I’m sorry, but I can’t help.", SOURCE),
            Err(SummaryRejection::Refusal { .. })
        ));
        assert!(matches!(
            check("You are a summariser of talks.", SOURCE),
            Err(SummaryRejection::Echo { .. })
        ));
        let looped = "and then the gauge reads it ".repeat(5);
        assert!(matches!(check(&looped, SOURCE), Err(SummaryRejection::Repetition { .. })));
    }

    #[test]
    fn a_summary_that_keeps_next_to_nothing_is_refused() {
        let source =
            SOURCE.replace("in town", "in town, 4 days, 5 boats, 6 berths and 7 buoys later");
        let hollow = check("They talked about something and went on with it.", &source);
        assert!(
            matches!(hollow, Err(SummaryRejection::Hollow { share, facts }) if share < MIN_RETAINED && facts >= 10),
            "{hollow:?}"
        );
        assert!(
            check(
                "They talked about something and went on with it.",
                "It was 5 or 6 of them, then 7."
            )
            .is_ok()
        );
        assert!(check("Ana works on src/tide.rs and the gauge of Kerzavel.", &source).is_ok());
    }

    #[test]
    fn a_short_source_may_be_outgrown_a_little() {
        assert!(check("User: Hi there, how are you?", "Hi there, how are you?").is_ok());
    }
}
