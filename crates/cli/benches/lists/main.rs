//! Measures the lists of a node: precision and recall of decisions, action items, open
//! questions, names, files and code names on labeled sentences, in two halves. The rules are
//! tuned on the first half only.
//!
//! `cargo bench --bench lists`; `-- dev` or `-- test` also prints the errors of that half.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod source;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use source::SourceTurn;
use treering_core::{
    Level, NodeContent, SessionInfo, Strategy, Summarizer, SummaryLength, SummaryRequest, sentence,
    word_weight,
};
use treering_providers::Extractive;

const LISTS: [&str; 6] =
    ["decisions", "action items", "open questions", "names", "files", "code names"];
const ACTS: [&str; 3] = ["decision", "action", "question"];
const FACTS: [char; 3] = ['E', 'F', 'C'];
/// Share of a sentence's words that an item in a list must contain to be that sentence.
const SAME_SENTENCE: f64 = 0.7;

fn main() {
    let Some(data) = data() else {
        println!("skipped: no data; set TREERING_DATA to the folder that holds the data sets");
        return;
    };
    let shown = std::env::args().nth(1).unwrap_or_default();
    let labels = labels(&data);
    println!("{:<16}{:>8}{:>12}{:>8}{:>14}", "dev", "labels", "precision", "recall", "");
    for half in ["dev", "test"] {
        let mut scores: [Score; 6] = Default::default();
        for label in labels.iter().filter(|label| label.half == half) {
            for line in judge(label, &mut scores) {
                if shown == half {
                    println!("{line}");
                }
            }
        }
        if half == "test" {
            println!("\ntest");
        }
        for (name, score) in LISTS.iter().zip(&scores) {
            println!("{name:<16}{score}");
        }
    }
}

fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let named = std::env::var_os("TREERING_DATA").map(PathBuf::from);
    named.or(Some(beside)).filter(|folder| folder.is_dir())
}

/// A labeled sentence and the lists of a window that begins with it.
struct LabeledSentence {
    half: String,
    text: String,
    acts: Vec<String>,
    facts: Option<Vec<(char, Range<usize>)>>,
    content: NodeContent,
}

#[derive(Debug, Default)]
struct Score {
    labeled: u32,
    recalled: u32,
    listed: u32,
    right: u32,
}

impl std::fmt::Display for Score {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let share = |part: u32, whole: u32| {
            if whole == 0 {
                "–".to_owned()
            } else {
                format!("{:.2}", f64::from(part) / f64::from(whole))
            }
        };
        let (precision, recall) =
            (share(self.right, self.listed), share(self.recalled, self.labeled));
        let counts = format!("{}/{} {}/{}", self.right, self.listed, self.recalled, self.labeled);
        write!(f, "{:>8}{precision:>12}{recall:>8}{counts:>16}", self.labeled)
    }
}

fn labels(data: &Path) -> Vec<LabeledSentence> {
    let mut files: HashMap<&str, Option<Vec<SourceTurn>>> = HashMap::new();
    let mut labels = Vec::new();
    for line in include_str!("labels.tsv").lines().filter(|line| !line.starts_with('#')) {
        let [file, turn, hash, half, acts, facts] =
            line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let turns = files.entry(file).or_insert_with(|| {
            let turns = source::turns(&data.join(file));
            if turns.is_none() {
                println!("skipped: {file} is not there");
            }
            turns
        });
        let Some(turns) = turns else { continue };
        let Some((place, sentence)) = find(turns, turn, hash) else {
            println!("skipped: {file} {turn} has changed");
            continue;
        };
        labels.push(LabeledSentence {
            half: half.to_owned(),
            text: source::sentences(&turns[place].text)[sentence].trim().to_owned(),
            acts: acts.split('/').filter(|act| *act != "-").map(str::to_owned).collect(),
            facts: (facts != "-").then(|| spans(facts)),
            content: summarize(turns, place, sentence),
        });
    }
    labels
}

/// The position of a labeled sentence: its turn, and its number within the turn.
fn find(turns: &[SourceTurn], id: &str, hash: &str) -> Option<(usize, usize)> {
    let place = turns.iter().position(|turn| turn.id == id)?;
    let mut sentences = source::sentences(&turns[place].text).into_iter();
    Some((place, sentences.position(|text| source::short_hash(text) == hash)?))
}

fn spans(facts: &str) -> Vec<(char, Range<usize>)> {
    let span = |fact: &str| {
        let (from, until) = fact[1..].split_once('-')?;
        Some((fact.chars().next()?, from.parse().ok()?..until.parse().ok()?))
    };
    facts.split(',').filter(|fact| *fact != "0").map(|fact| span(fact).unwrap()).collect()
}

fn summarize(turns: &[SourceTurn], turn: usize, sentence: usize) -> NodeContent {
    let request = SummaryRequest::new(
        Level::FIRST,
        Strategy::Concise,
        SummaryLength::Keep(1.0),
        true,
        source::passages(turns, turn, sentence),
        SessionInfo::default(),
    );
    Extractive.summarize(&request).unwrap()
}

/// Adds a sentence to the scores. Returns its errors, to be read.
fn judge(label: &LabeledSentence, scores: &mut [Score; 6]) -> Vec<String> {
    let (content, mut errors) = (&label.content, Vec::new());
    let lists = [&content.decisions, &content.action_items, &content.unresolved];
    let found = lists.map(|list| list.iter().any(|item| is_sentence(&label.text, item)));
    for (place, name) in ACTS.iter().enumerate().filter(|_| !label.acts.is_empty()) {
        let fits = label.acts.iter().any(|act| act == name);
        let is_first = label.acts[0] == *name;
        let recalled = ACTS
            .iter()
            .zip(found)
            .any(|(act, found)| found && label.acts.iter().any(|known| known == act));
        scores[place].labeled += u32::from(is_first);
        scores[place].recalled += u32::from(is_first && recalled);
        scores[place].listed += u32::from(found[place]);
        scores[place].right += u32::from(found[place] && fits);
        if found[place] && !fits {
            errors.push(format!("wrong {name}: {}", label.text));
        } else if is_first && !recalled {
            errors.push(format!("missed {name}: {}", label.text));
        }
    }
    let lists = [&content.entities, &content.files_mentioned, &content.identifiers];
    let Some(facts) = &label.facts else { return errors };
    for (place, kind) in FACTS.into_iter().enumerate() {
        let known: Vec<&Range<usize>> =
            facts.iter().filter(|(own, _)| *own == kind).map(|(_, span)| span).collect();
        let listed: Vec<(Range<usize>, &String)> = lists[place]
            .iter()
            .filter_map(|item| Some((occurrence(&label.text, item)?, item)))
            .collect();
        let overlap = |one: &Range<usize>, other: &Range<usize>| {
            one.start < other.end && other.start < one.end
        };
        let score = &mut scores[3 + place];
        score.labeled += known.len() as u32;
        score.listed += listed.len() as u32;
        for (span, item) in &listed {
            let fits = known.iter().any(|own| overlap(own, span));
            score.right += u32::from(fits);
            if !fits {
                errors.push(format!("wrong {} {item}: {}", LISTS[3 + place], label.text));
            }
        }
        for own in known {
            let recalled = listed.iter().any(|(span, _)| overlap(own, span));
            score.recalled += u32::from(recalled);
            if !recalled {
                let fact: String = label.text.chars().skip(own.start).take(own.len()).collect();
                errors.push(format!("missed {} {fact}: {}", LISTS[3 + place], label.text));
            }
        }
    }
    errors
}

/// Whether an item of a list is the sentence, possibly cut or in reported speech, which replaces
/// pronouns by names.
fn is_sentence(text: &str, item: &str) -> bool {
    let stems = |text: &str| {
        let words = sentence::words(text).filter(|word| word_weight(&word.to_lowercase()) > 0.0);
        words.map(sentence::stem).collect::<Vec<_>>()
    };
    let (own, listed) = (stems(text), stems(item));
    let share = |some: &[String], all: &[String]| {
        let common = some.iter().filter(|stem| all.contains(stem)).count();
        common as f64 / some.len().max(1) as f64
    };
    share(&own, &listed) >= SAME_SENTENCE && share(&listed, &own) >= SAME_SENTENCE / 2.0
}

/// The character range of an item in a text, as whole words.
fn occurrence(text: &str, item: &str) -> Option<Range<usize>> {
    let is_apart = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let at = text.match_indices(item).map(|(at, _)| at).find(|at| {
        is_apart(text[..*at].chars().next_back())
            && is_apart(text[at + item.len()..].chars().next())
    })?;
    let start = text[..at].chars().count();
    Some(start..start + item.chars().count())
}
