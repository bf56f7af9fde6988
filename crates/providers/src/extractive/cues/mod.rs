//! Cues: the speech act of a sentence in English and French: decisions, action items, findings,
//! open questions and courtesies.

mod clauses;
mod commitments;
mod french;
mod verbs;

use commitments::Commitment;

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

const FINDINGS: &[&str] = &[
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

/// Statements that something is not known or not decided.
#[rustfmt::skip]
const OPEN: &[&str] = &[
    "open question", "still open", "still unclear", "still undecided", "still deciding", "still figuring out",
    "not sure yet", "tbd", "to be decided", "to be determined", "undecided", "remains to be", "we'll see",
    "don't know yet", "do not know yet", "no idea why", "no idea what", "no idea how", "not yet known",
    "needs an answer", "haven't decided", "have not decided", "haven't yet decided", "hasn't decided",
    "not decided", "not yet decided", "yet to decide", "can't decide", "cannot decide", "on the fence",
    "torn between", "unresolved", "still pending", "unanswered", "i wonder why", "i wonder what",
    "i wonder how", "i wonder when", "i wonder where", "i wonder who", "i wonder whether",
    "question ouverte", "reste à voir", "à décider", "pas encore décidé", "on ne sait pas",
    "je ne sais pas encore", "à trancher", "en suspens", "je me demande",
];

/// Beginnings of replies that do not answer.
#[rustfmt::skip]
const UNSURE: &[&str] = &[
    "i don't know", "i do not know", "i really don't know", "i'm not sure", "not sure", "no idea",
    "i have no idea", "i really have no idea", "i've no idea", "i've got no idea", "i'll check and", "i will check",
    "i'll have to check", "i'll find out", "i'll get back to you", "i'll let you know", "i'll ask", "i will ask",
    "let me get back", "we'll see", "i haven't decided", "i haven't thought", "hard to say", "could you hold",
    "je ne sais pas", "je sais pas", "je n'en sais rien", "aucune idée", "je vérifie", "je vais voir", "pas sûr",
    "je ne suis pas sûr", "je demanderai", "on verra", "difficile à dire",
];

/// Marks of a decision that replaces another one.
const CHANGES: &[&str] = &[
    "go with",
    "stick with",
    "stick to",
    "go back to",
    "instead",
    "from now on",
    "no longer",
    "as agreed",
    "rather than",
];

/// Marks of work that is left for later.
#[rustfmt::skip]
const LEFT_TO_DO: &[&str] = &[
    "next step", "next steps", "next item", "next task", "next high-priority", "todo:", "to do:", "action item",
    "still need", "still needs", "still has to", "still have to", "remaining", "follow-up", "later", "tomorrow",
    "il reste à", "prochaine étape", "à faire", "demain",
];

/// Phrases with which people say what they want.
#[rustfmt::skip]
const GOALS: &[&str] = &[
    "i want", "we want", "i'd like", "we'd like", "i would like", "we would like", "i need", "we need",
    "i'm trying to", "i am trying to", "we're trying to", "we are trying to", "i'm looking for", "i am looking for",
    "we're looking for", "my goal", "our goal", "the goal", "my aim", "our aim", "the aim", "my dream", "our dream",
    "i hope to", "we hope to", "i'm hoping to", "i plan to", "we plan to", "i'm planning", "we're planning",
    "i aim to", "we aim to", "it must", "asked me", "asked us", "wants me to", "wants us to", "help me",
    "je veux", "on veut", "nous voulons", "je voudrais", "j'aimerais", "on aimerait", "j'ai besoin", "on a besoin",
    "nous avons besoin", "je cherche", "on cherche", "j'essaie", "mon but", "notre but", "le but", "l'objectif",
    "m'a demandé", "nous a demandé", "aide-moi", "aidez-moi",
];

const COURTESIES: &[&str] = &[
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
    "certainly",
    "of course",
    "absolutely",
    "definitely",
    "bonjour",
    "salut",
    "bonsoir",
    "merci",
    "de rien",
    "à bientôt",
    "au revoir",
    "bonne journée",
    "ça va",
    "bien sûr",
    "certainement",
];

/// Classifies a sentence. `text` is one cleaned line.
pub(super) fn classify(text: &str, content_words: usize) -> SpeechAct {
    let lower = &LowercaseText::of(text);
    let asks =
        lower.text.trim_end_matches(['"', ')', '*', ' ', '!', '»']).ends_with(['?', '？', '؟']);
    if content_words <= 4
        && starts_with_any(&lower.text, COURTESIES)
        && content_words <= 2 + usize::from(asks)
    {
        return SpeechAct::Courtesy;
    }
    if asks {
        return SpeechAct::Question;
    }
    if has_any(lower, OPEN) {
        return SpeechAct::Open;
    }
    match commitment(text, &lower.text) {
        Some(Commitment::Decision) => return SpeechAct::Decision,
        Some(Commitment::Action) => return SpeechAct::Action,
        None => {}
    }
    if content_words >= 2 && has_any(lower, FINDINGS) {
        return SpeechAct::Finding;
    }
    SpeechAct::Statement
}

/// Labels that name the list of a line.
const LABELS: &[(&str, Commitment)] = &[
    ("decision:", Commitment::Decision),
    ("decided:", Commitment::Decision),
    ("décision :", Commitment::Decision),
    ("décision:", Commitment::Decision),
    ("action:", Commitment::Action),
    ("action item:", Commitment::Action),
    ("next step:", Commitment::Action),
    ("todo:", Commitment::Action),
    ("to do:", Commitment::Action),
    ("[ ]", Commitment::Action),
    ("☐", Commitment::Action),
    ("à faire :", Commitment::Action),
    ("à faire:", Commitment::Action),
    ("prochaine étape :", Commitment::Action),
];

/// The commitment that a sentence makes. A line that ends with a colon only announces the next
/// one.
fn commitment(text: &str, lower: &str) -> Option<Commitment> {
    if lower.ends_with(':') {
        return None;
    }
    if let Some((label, kind)) = LABELS.iter().find(|(label, _)| lower.starts_with(label)) {
        return lower[label.len()..].contains(char::is_alphanumeric).then_some(*kind);
    }
    let clauses = clauses::clauses(text);
    let is_conditional = lower.contains("as long as")
        || clauses.iter().any(|clause| {
            clause.is_tentative
                && clause.words.first().is_some_and(|word| {
                    matches!(
                        word.as_str(),
                        "if" | "unless"
                            | "whenever"
                            | "in"
                            | "hopefully"
                            | "si"
                            | "s'il"
                            | "lorsque"
                    )
                })
        });
    let is_explained = clauses.first().is_some_and(|clause| clause.is_dependent);
    let is_wish = lower.contains("please") || lower.contains("s'il te plaît");
    let mut found = None;
    for clause in clauses.iter().filter(|clause| !clause.is_tentative && !clause.is_dependent) {
        let kind = commitments::commitment(clause, is_explained, is_wish)
            .or_else(|| french::commitment(&clause.slices()));
        match kind {
            _ if is_conditional && clause.words.iter().any(|word| word == "will") => {}
            Some(Commitment::Decision) => return kind,
            Some(Commitment::Action) if !is_conditional => found = kind,
            _ => {}
        }
    }
    found
}

/// Whether a sentence reports a finding or an outcome.
pub(super) fn is_finding(text: &str) -> bool {
    has_any(&LowercaseText::of(text), FINDINGS)
}

/// Whether a person says what they want. `speaker` is the label before the quotation: users without
/// a name also want what they ask for.
pub(super) fn is_wanted(speaker: &str, text: &str, act: SpeechAct) -> bool {
    match speaker {
        "Assistant" | "Tool" | "System" => false,
        "User" if matches!(act, SpeechAct::Question | SpeechAct::Action) => true,
        _ => act != SpeechAct::Courtesy && has_any(&LowercaseText::of(text), GOALS),
    }
}

/// Whether a reply leaves the question open.
pub(super) fn leaves_open(text: &str) -> bool {
    let lower = text.to_lowercase().replace('’', "'");
    let mut starts = lower.splitn(3, [',', '.', '!', '…']).take(2).map(str::trim_start);
    !lower.starts_with("no,") && starts.any(|start| starts_with_any(start, UNSURE))
}

/// Whether a sentence says that something is left for later.
pub(super) fn is_left_to_do(text: &str) -> bool {
    has_any(&LowercaseText::of(text), LEFT_TO_DO)
}

/// Whether a decision says more than the next step: that it was made, or that it replaces
/// another one.
pub(super) fn is_change_of_plan(text: &str) -> bool {
    let lower = LowercaseText::of(text);
    !has_any(&lower, &["let's", "we'll", "we will"]) || has_any(&lower, CHANGES)
}

/// A lowercase text with a Bloom filter of its byte pairs, which rules out most phrases.
struct LowercaseText {
    text: String,
    pairs: [u64; 16],
}

impl LowercaseText {
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
fn has_any(lower: &LowercaseText, phrases: &[&str]) -> bool {
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
const OPENERS: &[&str] = &[
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
            ("Turns out the gauge drifts by 4 cm.", SpeechAct::Finding),
            ("Le problème vient du capteur.", SpeechAct::Finding),
            ("Which port does it use?", SpeechAct::Question),
            ("Quel port utilise-t-on ?", SpeechAct::Question),
            ("The sill height is still open.", SpeechAct::Open),
            ("We haven't yet decided on a mooring.", SpeechAct::Open),
            ("I wonder why the pump stops at night.", SpeechAct::Open),
            ("I wonder if you could lend me a hand.", SpeechAct::Statement),
            ("The boat is red.", SpeechAct::Statement),
            ("今日は良い天気です。", SpeechAct::Statement),
        ] {
            assert_eq!(classify(text, 5), expected, "{text}");
        }
        assert_eq!(classify("Hey Caroline!", 1), SpeechAct::Courtesy);
        assert_eq!(classify("Merci beaucoup !", 0), SpeechAct::Courtesy);
    }

    fn check_all(expected: SpeechAct, texts: &[&str]) {
        for text in texts {
            assert_eq!(classify(text, 5), expected, "{text}");
        }
    }

    #[test]
    fn a_decision_chooses_something() {
        check_all(
            SpeechAct::Decision,
            &[
                "Let's go with SQLite for the ledger.",
                "I've decided to sell the old dinghy.",
                "The harbour board has decided to close the slipway.",
                "We settled on two moorings.",
                "Yeah, I think I'll take the blue sail.",
                "We ended up using the brass cleats.",
                "From now on every tide goes into the log.",
                "Always give heights in metres when I ask about tides.",
                "Let's meet at the slipway on Sunday.",
                "Decision: keep the old pump",
                "On part sur SQLite pour le registre.",
                "Nous avons choisi le mouillage nord.",
                "On garde la vieille bouée.",
            ],
        );
    }

    #[test]
    fn cheers_and_remarks_are_no_decisions() {
        check_all(
            SpeechAct::Statement,
            &[
                "Let's keep going!",
                "Let's keep pushing for a better harbour!",
                "Let's do it, Ana!",
                "Let's have some fun!",
                "Let's look at the gauge first:",
                "I'll keep that in mind.",
                "You chose a fine boat.",
                "My crew is kind, always there for me.",
                "If the wind drops, I'll take the blue sail.",
                "They showed what they had decided to bring.",
                "Allons voir, on part demain matin.",
            ],
        );
    }

    #[test]
    fn an_action_item_is_left_to_somebody() {
        check_all(
            SpeechAct::Action,
            &[
                "I'll call Yann tomorrow.",
                "I need to order two new fenders.",
                "Miss Lund will inspect the hull on Monday.",
                "I want you to measure the sill again.",
                "Please send the tide tables to the harbour office.",
                "Don't forget the keys of the boathouse.",
                "The broken cleat needs to be replaced.",
                "The next step is a survey of the keel.",
                "Draft a letter to my insurer.",
                "TODO: grease the winch",
                "Il faut prévenir Yann avant midi.",
                "Je dois commander deux défenses.",
                "J'appellerai le chantier lundi.",
            ],
        );
    }

    #[test]
    fn intentions_and_mentions_are_no_action_items() {
        check_all(
            SpeechAct::Statement,
            &[
                "The list in TODO.md is long.",
                "I'll keep working at it.",
                "I'm gonna make it!",
                "You have to believe in your boat.",
                "If you need anything, I'll lend you a rope.",
                "That is the pump that I need to live with.",
                "To find the depth, we need to add both figures.",
                "Don't forget to take breaks!",
                "I'll reserve the berth for you right now.",
                "Maybe I'll paint the hull.",
                "Hopefully, we will sell the dinghy.",
                "Je vais voir.",
            ],
        );
    }

    #[test]
    fn replies_that_know_nothing_leave_a_question_open() {
        for text in ["I'm not sure.", "Well, I don't know.", "I'll ask Yann.", "Aucune idée."] {
            assert!(leaves_open(text), "{text}");
        }
        for text in ["No, I don't know that port.", "Port four, but I'm not sure it is open."] {
            assert!(!leaves_open(text), "{text}");
        }
    }

    #[test]
    fn openers_go_where_something_is_left() {
        assert_eq!(without_opener("Well, yeah, I sold the boat."), "I sold the boat.");
        assert_eq!(without_opener("Du coup, on part demain matin."), "on part demain matin.");
        assert_eq!(without_opener("Oh, no."), "Oh, no.");
        assert_eq!(without_opener("Actually it works fine."), "Actually it works fine.");
    }
}
