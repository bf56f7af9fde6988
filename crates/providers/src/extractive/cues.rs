//! Cues: English and French phrases that mark decisions, action items, findings, open questions
//! and courtesies.

/// The speech act of a sentence, judged by its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpeechAct {
    /// States a fact.
    Statement,
    /// Reports a finding.
    Finding,
    /// Decides something.
    Decision,
    /// Commits somebody to an action.
    Action,
    /// Asks a question.
    Question,
    /// States that something is unresolved.
    Open,
    /// Greets, thanks or agrees.
    Courtesy,
}

const DECISIONS: [&str; 42] = [
    "let's go with",
    "let's use",
    "let's keep",
    "let's stick",
    "let's do",
    "let us go with",
    "we decided",
    "i decided",
    "decided to",
    "decision:",
    "decided:",
    "we'll use",
    "we will use",
    "we'll go",
    "we'll keep",
    "we agreed",
    "agreed to",
    "we chose",
    "i chose",
    "going with",
    "settled on",
    "we're using",
    "from now on",
    "the plan is",
    "i've decided",
    "made up my mind",
    "on part sur",
    "on prend",
    "on garde",
    "on utilise",
    "on choisit",
    "décidé",
    "décision",
    "c'est décidé",
    "nous avons choisi",
    "j'ai choisi",
    "on va utiliser",
    "on retient",
    "convenu",
    "d'accord pour",
    "on reste sur",
    "tranché",
];

const ACTIONS: [&str; 46] = [
    "i'll ",
    "i will ",
    "i’ll ",
    "we'll need",
    "we need to",
    "you need to",
    "i need to",
    "need to ",
    "todo",
    "to do:",
    "next step",
    "next steps",
    "action:",
    "remember to",
    "don't forget",
    "i'm going to ",
    "we should ",
    "i'm gonna",
    "plan to",
    "planning to",
    "follow up",
    "by tomorrow",
    "by friday",
    "will send",
    "will call",
    "will write",
    "remind me to",
    "il faut",
    "il faudra",
    "il faudrait",
    "je vais ",
    "on va ",
    "nous allons",
    "à faire",
    "prochaine étape",
    "je dois",
    "on doit",
    "il reste à",
    "pense à",
    "penser à",
    "n'oublie",
    "rappelle",
    "je m'en occupe",
    "je ferai",
    "merci de ",
    "peux-tu",
];

const FINDINGS: [&str; 44] = [
    "turns out",
    "it turned out",
    "found that",
    "found out",
    "i found",
    "we found",
    "the problem is",
    "the problem was",
    "the cause",
    "root cause",
    "because",
    "the reason",
    "that's why",
    "which means",
    "the issue",
    "the bug",
    "fixed",
    "works now",
    "it works",
    "passes",
    "passed",
    "fails",
    "failed",
    "failing",
    "error",
    "measured",
    "the result",
    "results",
    "confirmed",
    "discovered",
    "noticed",
    "learned",
    "realized",
    "realised",
    "shows that",
    "il s'avère",
    "le problème",
    "la cause",
    "parce que",
    "corrigé",
    "ça marche",
    "trouvé",
    "résultat",
    "mesuré",
];

const OPEN: [&str; 30] = [
    "open question",
    "still open",
    "still unclear",
    "not sure yet",
    "tbd",
    "to be decided",
    "to be determined",
    "undecided",
    "remains to",
    "we'll see",
    "don't know yet",
    "do not know yet",
    "no idea why",
    "not yet known",
    "needs an answer",
    "haven't decided",
    "not decided",
    "unresolved",
    "pending",
    "question ouverte",
    "reste à voir",
    "à voir",
    "à décider",
    "pas encore décidé",
    "on ne sait pas",
    "je ne sais pas encore",
    "à trancher",
    "en suspens",
    "pas encore clair",
    "unanswered",
];

const UNSURE: [&str; 18] = [
    "i don't know",
    "i do not know",
    "not sure",
    "no idea",
    "let me check",
    "i'll check",
    "will check",
    "i'll look",
    "i'll ask",
    "later",
    "je ne sais pas",
    "je sais pas",
    "aucune idée",
    "je vérifie",
    "je vais voir",
    "pas sûr",
    "plus tard",
    "je demanderai",
];

const COURTESIES: [&str; 44] = [
    "hi",
    "hello",
    "hey",
    "good morning",
    "good evening",
    "good night",
    "bye",
    "goodbye",
    "see you",
    "take care",
    "thanks",
    "thank you",
    "you're welcome",
    "no problem",
    "sure",
    "ok",
    "okay",
    "great",
    "awesome",
    "sounds good",
    "sounds great",
    "nice to",
    "good to see",
    "how are you",
    "how have you been",
    "what's up",
    "long time no see",
    "have a good",
    "have a great",
    "talk to you",
    "wow",
    "congrats",
    "congratulations",
    "good luck",
    "you too",
    "bonjour",
    "salut",
    "bonsoir",
    "merci",
    "de rien",
    "à bientôt",
    "au revoir",
    "bonne journée",
    "ça va",
];

/// Classifies a sentence. `text` is one cleaned line.
pub(super) fn classify(text: &str, content_words: usize) -> SpeechAct {
    let lower = &Lower::of(text);
    let asks =
        lower.text.trim_end_matches(['"', ')', '*', ' ', '!', '»']).ends_with(['?', '？', '؟']);
    if content_words <= 4
        && starts_with_any(&lower.text, &COURTESIES)
        && content_words <= 2 + usize::from(asks)
    {
        return SpeechAct::Courtesy;
    }
    if asks {
        return SpeechAct::Question;
    }
    if has_any(lower, &OPEN) {
        return SpeechAct::Open;
    }
    if has_any(lower, &DECISIONS) {
        return SpeechAct::Decision;
    }
    if content_words >= 2 && has_any(lower, &ACTIONS) {
        return SpeechAct::Action;
    }
    if content_words >= 2 && has_any(lower, &FINDINGS) {
        return SpeechAct::Finding;
    }
    SpeechAct::Statement
}

/// Whether a sentence reports a finding or an outcome.
pub(super) fn is_finding(text: &str) -> bool {
    has_any(&Lower::of(text), &FINDINGS)
}

/// Whether a reply leaves the question open.
pub(super) fn leaves_open(text: &str) -> bool {
    has_any(&Lower::of(text), &UNSURE)
}

/// A lowercase text with a Bloom filter of its byte pairs, which rules out most phrases.
struct Lower {
    text: String,
    pairs: [u64; 16],
}

impl Lower {
    fn of(text: &str) -> Self {
        let text = text.to_lowercase().replace('’', "'");
        let mut pairs = [0; 16];
        for pair in text.as_bytes().windows(2) {
            let (word, bit) = place(pair);
            pairs[word] |= bit;
        }
        Self { text, pairs }
    }

    fn may_have(&self, phrase: &str) -> bool {
        phrase.as_bytes().windows(2).take(5).all(|pair| {
            let (word, bit) = place(pair);
            self.pairs[word] & bit != 0
        })
    }
}

/// The position of a byte pair in the filter.
fn place(pair: &[u8]) -> (usize, u64) {
    let hash = usize::from(pair[0]) * 31 + usize::from(pair[1]) * 7;
    (hash / 64 % 16, 1 << (hash % 64))
}

/// Whether a text contains one of the phrases at the start of a word.
fn has_any(lower: &Lower, phrases: &[&str]) -> bool {
    let text = &lower.text;
    phrases.iter().filter(|phrase| lower.may_have(phrase)).any(|phrase| {
        text.match_indices(phrase).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + phrase.len()..].chars().next();
            let begins = before.is_none_or(|c| !c.is_alphanumeric());
            begins && (phrase.ends_with([' ', ':']) || after.is_none_or(|c| !c.is_alphanumeric()))
        })
    })
}

fn starts_with_any(lower: &str, phrases: &[&str]) -> bool {
    phrases.iter().any(|phrase| {
        lower.strip_prefix(phrase).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

/// Words that open a sentence without adding meaning.
const OPENERS: [&str; 44] = [
    "well",
    "oh",
    "ah",
    "um",
    "uh",
    "hmm",
    "ok",
    "okay",
    "yeah",
    "yep",
    "yes",
    "so",
    "hey",
    "hi",
    "hello",
    "wow",
    "right",
    "sure",
    "anyway",
    "actually",
    "honestly",
    "basically",
    "you know",
    "i see",
    "of course",
    "by the way",
    "no worries",
    "thanks",
    "alright",
    "great",
    "cool",
    "good",
    "bon",
    "ben",
    "bah",
    "alors",
    "donc",
    "oui",
    "ouais",
    "eh bien",
    "d'accord",
    "du coup",
    "en fait",
    "voilà",
];

/// Removes empty openers from a sentence.
pub(super) fn without_opener(text: &str) -> &str {
    let mut rest = text;
    for _ in 0..3 {
        let Some(cut) = opener(rest) else { break };
        rest = cut;
    }
    rest
}

fn opener(text: &str) -> Option<&str> {
    let end = text.find([',', '!', '.', '…'])?;
    if end > 12 || !OPENERS.contains(&text[..end].to_lowercase().as_str()) {
        return None;
    }
    let rest = text[end..].trim_start_matches([',', '!', '.', '…']);
    let cut = rest.trim_start();
    (cut.len() < rest.len() && cut.chars().filter(|c| c.is_alphabetic()).nth(7).is_some())
        .then_some(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speech_acts_are_recognized() {
        for (text, expected) in [
            ("Let's go with SQLite for the ledger.", SpeechAct::Decision),
            ("On part sur SQLite pour le registre.", SpeechAct::Decision),
            ("I'll call Yann tomorrow.", SpeechAct::Action),
            ("Il faut prévenir Yann avant midi.", SpeechAct::Action),
            ("Turns out the gauge drifts by 4 cm.", SpeechAct::Finding),
            ("Le problème vient du capteur.", SpeechAct::Finding),
            ("Which port does it use?", SpeechAct::Question),
            ("Quel port utilise-t-on ?", SpeechAct::Question),
            ("The sill height is still open.", SpeechAct::Open),
            ("The boat is red.", SpeechAct::Statement),
            ("今日は良い天気です。", SpeechAct::Statement),
        ] {
            assert_eq!(classify(text, 5), expected, "{text}");
        }
        assert_eq!(classify("Hey Caroline!", 1), SpeechAct::Courtesy);
        assert_eq!(classify("Merci beaucoup !", 0), SpeechAct::Courtesy);
    }

    #[test]
    fn openers_go_where_something_is_left() {
        assert_eq!(without_opener("Well, yeah, I sold the boat."), "I sold the boat.");
        assert_eq!(without_opener("Du coup, on part demain matin."), "on part demain matin.");
        assert_eq!(without_opener("Oh, no."), "Oh, no.");
        assert_eq!(without_opener("Actually it works fine."), "Actually it works fine.");
    }
}
