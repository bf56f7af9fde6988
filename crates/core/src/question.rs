//! Analysis of a question: its terms, the person it refers to, and the times it names.

use std::borrow::Cow;

use crate::lexicon::{
    self, TermId, fold, is_conversation_word, is_first_person, is_question_opener, terms,
};
use crate::literals::{Literal, literals};
use crate::time::Timestamp;

/// An analyzed question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The text.
    pub text: String,
    /// The text, without an idiom whose words mean something else.
    pub plain: String,
    /// Whether it asks something, and is not a list of keywords.
    pub is_question: bool,
    /// The distinct terms, in order, including the names of authors.
    pub terms: Vec<QuestionTerm>,
    /// The words, folded.
    pub words: Vec<String>,
    /// The parts that count as they were typed.
    pub literals: Vec<Literal>,
    /// Whether the asker refers to themselves, so that the user's messages rank higher.
    pub first_person: bool,
    /// Whether it asks about the assistant's answers.
    pub about_answers: bool,
    /// Whether it asks about the past.
    pub about_past: bool,
    /// Whether it asks about the present, so that a later statement supersedes an earlier one.
    pub about_present: bool,
    /// The time ranges that it names.
    pub times: Vec<(Timestamp, Timestamp)>,
}

/// A term of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionTerm {
    /// The term.
    pub id: TermId,
    /// The word, folded.
    pub word: String,
    /// Other terms that count like this one: "moved" tells where somebody lives now.
    pub alternatives: Vec<TermId>,
    /// Whether the word mainly phrases the question.
    pub is_question_word: bool,
}

impl QuestionTerm {
    /// The share of its IDF that the term counts.
    #[must_use]
    pub const fn share(&self) -> f32 {
        const ASKING: f32 = 0.1;
        if self.is_question_word { ASKING } else { 1.0 }
    }

    /// The term and its alternatives.
    pub fn ids(&self) -> impl Iterator<Item = TermId> + '_ {
        std::iter::once(self.id).chain(self.alternatives.iter().copied())
    }
}

impl Question {
    /// Analyzes a question. Relative times ("last month") refer to `now`.
    #[must_use]
    pub fn new(text: &str, now: Timestamp) -> Self {
        let plain = without_idiom(text);
        let words = lexicon::words(&plain);
        let times = crate::time_expressions::spans(&fold(text), now);
        let is_question = is_question(text)
            || words
                .first()
                .is_some_and(|word| is_question_opener(word) || is_conversation_word(word));
        let first_person = words.iter().any(|word| is_first_person(word));
        let about_present = times.is_empty() && is_about_present(&words, first_person);
        let mut distinct: Vec<QuestionTerm> = Vec::new();
        for term in terms(&plain) {
            if !distinct.iter().any(|other| other.id == term.id) {
                let changes =
                    if about_present { lexicon::changes_of(&term.word) } else { Vec::new() };
                distinct.push(QuestionTerm {
                    id: term.id,
                    alternatives: changes,
                    is_question_word: is_question && is_conversation_word(&term.word),
                    word: term.word,
                });
            }
        }
        Self {
            text: text.to_owned(),
            plain: plain.into_owned(),
            is_question,
            literals: literals(text, is_question, !times.is_empty()),
            first_person,
            about_answers: is_about_answers(&words),
            about_past: has_one(&words, &ABOUT_PAST),
            about_present,
            times,
            terms: distinct,
            words,
        }
    }
}

/// A question in plain words: who asks what Nate does for a living asks for his job, not for his
/// living room.
fn without_idiom(text: &str) -> Cow<'_, str> {
    const IDIOM: &str = "for a living";
    match text.contains(IDIOM) {
        true => Cow::Owned(text.replace(IDIOM, "as a job")),
        false => Cow::Borrowed(text),
    }
}

const ABOUT_PAST: [&str; 6] = ["did", "have", "was", "were", "had", "has"];

const NOW: [&str; 8] =
    ["now", "currently", "current", "latest", "nowadays", "maintenant", "actuellement", "actuel"];
const PRESENT: [&str; 10] = ["do", "does", "is", "are", "am", "have", "has", "est", "suis", "ai"];
const PAST: [&str; 14] = [
    "did",
    "was",
    "were",
    "had",
    "when",
    "ago",
    "before",
    "previous",
    "previously",
    "first",
    "originally",
    "quand",
    "avant",
    "etait",
];

fn has_one(words: &[String], of: &[&str]) -> bool {
    words.iter().any(|word| of.contains(&word.as_str()))
}

/// Whether a question names the present, or asks in the present about the asker.
fn is_about_present(words: &[String], first_person: bool) -> bool {
    has_one(words, &NOW) || (first_person && has_one(words, &PRESENT) && !has_one(words, &PAST))
}

/// Verbs that describe an assistant's answers.
const SAID: [&str; 18] = [
    "mentioned",
    "recommended",
    "recommend",
    "suggested",
    "suggest",
    "told",
    "said",
    "gave",
    "provided",
    "explained",
    "advised",
    "referring",
    "listed",
    "shared",
    "described",
    "were",
    "had",
    "wrote",
];
const SAYING: [&str; 11] = [
    "suggestion",
    "suggestions",
    "advice",
    "recommendation",
    "recommendations",
    "answer",
    "answers",
    "explanation",
    "explanations",
    "response",
    "reply",
];
const FRENCH_HAVE: [&str; 4] = ["as", "avez", "avais", "aviez"];

/// Matches "you said", "did you", "your advice", "tu m'as", with at most one word between.
fn is_about_answers(words: &[String]) -> bool {
    let next = |index: usize, verbs: &[&str]| {
        words[index + 1..].iter().take(2).any(|word| verbs.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(index, word)| match word.as_str() {
        "did" => words.get(index + 1).is_some_and(|word| word == "you"),
        "you" => next(index, &SAID),
        "your" => next(index, &SAYING),
        "tu" | "vous" => next(index, &FRENCH_HAVE),
        _ => false,
    })
}

/// Whether a text states a general preference or rule.
#[must_use]
pub fn is_standing_instruction(folded: &str) -> bool {
    const PREFERENCE_PHRASES: [&str; 10] = [
        "always",
        "never",
        "i prefer",
        "i'd prefer",
        "from now on",
        "when i ask",
        "whenever i",
        "toujours",
        "jamais",
        "je prefere",
    ];
    PREFERENCE_PHRASES.iter().any(|phrase| {
        folded.match_indices(phrase).any(|(at, _)| {
            let is_boundary = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
            is_boundary(folded[..at].chars().next_back())
                && is_boundary(folded[at + phrase.len()..].chars().next())
        })
    })
}

/// Whether a text ends with a question.
#[must_use]
pub fn is_question(text: &str) -> bool {
    text.trim_end().chars().rev().take(120).any(|c| matches!(c, '?' | '？' | '؟'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: &str) -> Question {
        Question::new(text, "2026-03-15T12:00:00Z".parse().unwrap())
    }

    #[test]
    fn questions_about_the_asker_and_the_assistant_are_recognized() {
        for (text, first, answers) in [
            ("Which port do I use for staging?", true, false),
            ("What did you recommend for the sill?", false, true),
            ("What was your last advice about my boat?", true, true),
            ("Qu'est-ce que tu m'as conseillé ?", false, true),
            ("When did Yann call?", false, false),
            ("Où est mon bateau ?", true, false),
        ] {
            let parsed = question(text);
            assert_eq!((parsed.first_person, parsed.about_answers), (first, answers), "{text}");
        }
    }

    #[test]
    fn terms_are_distinct_and_question_words_are_marked() {
        let keywords = question("shopping list");
        assert!(keywords.terms.iter().all(|term| term.share() == 1.0));
        let parsed = question("List the boats and the boat that was mentioned");
        let terms: Vec<(&str, bool)> =
            parsed.terms.iter().map(|t| (t.word.as_str(), t.is_question_word)).collect();
        assert_eq!(terms, [("list", true), ("boats", false), ("mentioned", true)]);
    }

    #[test]
    fn questions_about_the_present_are_recognized() {
        for (text, expected) in [
            ("Where do I live now?", true),
            ("Where do I live?", true),
            ("Where did I live?", false),
            ("What is Ana's current job?", true),
            ("Which boats does Ana like?", false),
            ("Where do I live since 3 May 2024?", false),
            ("Où est-ce que j'habite maintenant ?", true),
        ] {
            assert_eq!(question(text).about_present, expected, "{text}");
        }
        let move_id = question("move").terms[0].id;
        let asks =
            |text: &str| question(text).terms.iter().any(|t| t.ids().any(|id| id == move_id));
        assert!(asks("Where do I live now?") && !asks("Where did I live?"));
        assert!(!asks("Is my living room too dry?"));
    }

    #[test]
    fn an_idiom_counts_as_what_it_means() {
        let asked = question("What does Nate do for a living?");
        assert_eq!(asked.text, "What does Nate do for a living?");
        let words: Vec<&str> = asked.terms.iter().map(|term| term.word.as_str()).collect();
        assert_eq!(words, ["nate", "job"]);
        assert_eq!(question("a living room").plain, "a living room");
    }

    #[test]
    fn wishes_and_questions() {
        assert!(is_standing_instruction("please always answer in french"));
        assert!(!is_standing_instruction("nevertheless we go"));
        assert!(is_question("Is it? Yes."));
        assert!(!is_question("It is."));
    }
}
