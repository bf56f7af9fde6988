//! Clauses: a sentence as short runs of lower-case words, with contractions expanded, so that
//! rules can look at the subject and the verb of each.

/// One clause of a sentence.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// Its words without leading fillers.
    pub(super) words: Vec<String>,
    /// Whether it states a condition or is hedged with "maybe".
    pub(super) is_tentative: bool,
    /// Whether it says why, when or what for: "since …", "to find …".
    pub(super) is_dependent: bool,
}

impl Clause {
    /// The words as slices, for pattern matching.
    pub(super) fn slices(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }
}

/// Words that may begin a clause without changing what it commits to.
#[rustfmt::skip]
const FILLERS: &[&str] = &[
    "yeah", "yes", "yep", "yup", "ok", "okay", "well", "so", "and", "but", "also", "then", "now", "first",
    "next", "plus", "oh", "anyway", "actually", "honestly", "definitely", "sure", "alright", "right", "btw",
    "finally", "instead", "therefore", "great", "good", "thanks", "seriously", "though", "just", "agreed",
    "fact", "case", "course", "oui", "non", "bon", "alors", "donc", "et", "mais", "puis", "ensuite", "enfin",
    "finalement", "ah", "eh", "bien", "d'accord",
];
/// Phrases that only frame a statement.
const FRAMES: &[&[&str]] = &[
    &["i", "think"],
    &["i", "guess"],
    &["i", "believe"],
    &["i", "suppose"],
    &["i", "feel", "like"],
    &["by", "the", "way"],
    &["first", "of", "all"],
    &["looks", "like"],
    &["je", "pense", "que"],
    &["je", "crois", "que"],
    &["du", "coup"],
    &["en", "fait"],
];
const TENTATIVE: &[&str] = &[
    "if",
    "unless",
    "whenever",
    "maybe",
    "perhaps",
    "whether",
    "suppose",
    "si",
    "s'il",
    "s'ils",
    "quand",
    "peut-être",
    "lorsque",
    "hopefully",
];
const DEPENDENT: &[&str] = &[
    "because", "since", "as", "while", "although", "when", "where", "which", "who", "that", "to",
    "before", "after", "until", "parce", "puisque",
];
/// Words after which a conjunction begins a new clause.
const SUBJECTS: &[&str] = &[
    "i", "we", "you", "they", "he", "she", "it", "let's", "let", "please", "do", "je", "on",
    "nous", "tu", "vous", "il", "elle", "ils", "elles", "can", "then",
];

/// Splits a sentence into its clauses.
pub(super) fn clauses(text: &str) -> Vec<Clause> {
    let mut found = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let tokens: Vec<&str> = text.split_whitespace().collect();
    for (place, token) in tokens.iter().enumerate() {
        let bare = token.trim_matches(|c: char| !c.is_alphanumeric() && !"$#'’".contains(c));
        let lower = bare.to_lowercase().replace('’', "'");
        let next = tokens.get(place + 1).map(|next| expanded(&plain(next)));
        let joins = matches!(lower.as_str(), "and" | "but" | "so" | "et" | "mais" | "donc");
        let starts = joins
            && next.is_some_and(|next| {
                next.first().is_some_and(|word| SUBJECTS.contains(&word.as_str()))
            });
        if starts || token.starts_with(['(', '"', '“', '«']) || lower.is_empty() && is_dash(token)
        {
            finish(&mut words, &mut found);
        }
        words.extend(expanded(&lower));
        if token.ends_with([',', ';', ':', '.', '!', '?', ')', '…']) {
            finish(&mut words, &mut found);
        }
    }
    finish(&mut words, &mut found);
    found
}

fn plain(token: &str) -> String {
    let bare = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’');
    bare.to_lowercase().replace('’', "'")
}

fn is_dash(token: &str) -> bool {
    token.chars().all(|c| "-–—/|".contains(c))
}

fn finish(words: &mut Vec<String>, found: &mut Vec<Clause>) {
    let mut words = std::mem::take(words);
    let mut is_tentative = false;
    loop {
        let Some(first) = words.first() else { return };
        let framed = FRAMES.iter().find(|frame| {
            words.len() > frame.len() && frame.iter().zip(&words).all(|(a, b)| a == b)
        });
        if let Some(frame) = framed {
            words.drain(..frame.len());
        } else if words.len() > 1 && is_filler(&words) {
            words.remove(0);
        } else {
            is_tentative |= TENTATIVE.contains(&first.as_str())
                || first == "in" && words.get(1).is_some_and(|w| w == "case");
            break;
        }
    }
    let hedged = words.iter().take(4).any(|word| {
        matches!(word.as_str(), "maybe" | "perhaps" | "might" | "could" | "hopefully" | "peut-être")
    });
    let is_dependent = words.first().is_some_and(|word| DEPENDENT.contains(&word.as_str()));
    found.push(Clause { words, is_tentative: is_tentative || hedged, is_dependent });
}

/// Whether the first word is a filler. "In" and the like are fillers only in fixed phrases.
fn is_filler(words: &[String]) -> bool {
    let at = |place: usize| words.get(place).map_or("", String::as_str);
    match words[0].as_str() {
        "in" => matches!((at(1), at(2)), ("that", "case") | ("fact", _)),
        "that" => at(1) == "case",
        "of" => at(1) == "course",
        "all" => at(1) == "right",
        word => FILLERS.contains(&word),
    }
}

/// A word with its contraction expanded: "i'll" is "i will".
fn expanded(word: &str) -> Vec<String> {
    let pair = |one: &str, other: &str| vec![one.to_owned(), other.to_owned()];
    match word {
        "" => Vec::new(),
        "gonna" => pair("gonna", "to"),
        "gotta" => pair("got", "to"),
        "wanna" => pair("want", "to"),
        "lemme" => pair("let", "me"),
        "won't" => pair("will", "not"),
        "can't" | "cannot" => pair("can", "not"),
        "let's" => vec![word.to_owned()],
        _ => {
            for (ending, verb) in [
                ("'ll", "will"),
                ("'m", "am"),
                ("'re", "are"),
                ("'ve", "have"),
                ("'d", "would"),
                ("n't", "not"),
            ] {
                if let Some(stem) = word.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
                    return pair(stem, verb);
                }
            }
            vec![word.to_owned()]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let found: Vec<String> =
            clauses(text).iter().map(|clause| clause.words.join(" ")).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn sentences_fall_into_clauses() {
        check("Yeah Ana, I'll sell the boat.", &["ana", "i will sell the boat"]);
        check(
            "The gauge is old, so we're gonna replace it",
            &["the gauge is old", "we are gonna to replace it"],
        );
        check("Bring the keys and the map.", &["bring the keys and the map"]);
        check("Du coup, on garde la bouée.", &["du coup", "on garde la bouée"]);
    }

    #[test]
    fn conditions_and_reasons_are_marked() {
        let first = |text: &str| clauses(text).remove(0);
        assert!(first("If it rains, we will stay.").is_tentative);
        assert!(first("Maybe we could sell it.").is_tentative);
        assert!(first("I might paint the hull.").is_tentative);
        assert!(first("Since the hull leaks, we stay.").is_dependent);
        assert!(!first("We will stay.").is_tentative);
    }
}
