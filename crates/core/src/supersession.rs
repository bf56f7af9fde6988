//! Supersession: where two statements answer a question about the present, the later one holds.

use crate::lexicon::{Lexer, TermId, fold};
use crate::message::Role;
use crate::question::{Question, is_question};
use crate::sentence::split;
use crate::time::Timestamp;

/// Number of hits that are compared with each other.
pub const COMPARED: usize = 5;

/// The minimum time between a statement and one that supersedes it. Statements within one
/// episode belong together.
const MIN_GAP_MICROS: i64 = 20 * 60 * 1_000_000;

/// The minimum share of the question's terms in a statement.
const MIN_SHARE: f32 = 0.3;

/// How much of the older statement's share of terms the newer one needs.
const SAME_TOPIC: f32 = 0.7;

/// A message that may answer a question.
#[derive(Debug, Clone, Copy)]
pub struct Statement<'a> {
    /// Its text.
    pub text: &'a str,
    /// Its time.
    pub at: Timestamp,
    /// Its author. Only the same person can take a statement back.
    pub author: (Role, Option<&'a str>),
}

/// For each statement, best first, the position of the latest one that supersedes it.
#[must_use]
pub fn superseded(question: &Question, statements: &[Statement<'_>]) -> Vec<Option<usize>> {
    if !question.about_present {
        return vec![None; statements.len()];
    }
    let mut lexer = Lexer::default();
    let points: Vec<BestSentence> =
        statements.iter().map(|it| BestSentence::of(question, it.text, &mut lexer)).collect();
    let supersedes = |old: usize, new: usize| {
        let (a, b) = (&statements[old], &statements[new]);
        b.at.as_micros() - a.at.as_micros() > MIN_GAP_MICROS
            && a.author == b.author
            && points[new].reports_change
            && points[old].share >= MIN_SHARE
            && points[new].share >= MIN_SHARE.max(SAME_TOPIC * points[old].share)
    };
    let latest = |old: usize| {
        let newer = (0..statements.len()).filter(|new| supersedes(old, *new));
        newer.max_by_key(|new| statements[*new].at)
    };
    (0..statements.len()).map(latest).collect()
}

/// The sentence of a text that matches a question best.
struct BestSentence {
    /// The share of the question's terms that it contains.
    share: f32,
    /// Whether it says that something has changed.
    reports_change: bool,
}

impl BestSentence {
    fn of(question: &Question, text: &str, lexer: &mut Lexer) -> Self {
        let terms: Vec<_> = question.terms.iter().filter(|term| !term.is_question_word).collect();
        let mut best = Self { share: 0.0, reports_change: false };
        for sentence in split(text).into_iter().map(|segment| segment.text) {
            if is_question(sentence) {
                continue;
            }
            let mut ids: Vec<TermId> = Vec::new();
            lexer.each_term(sentence, |_, id| ids.push(id));
            let holds = |id: TermId| ids.contains(&id);
            let found = terms.iter().filter(|term| term.ids().any(holds)).count();
            let share = found as f32 / terms.len().max(1) as f32;
            if share > best.share {
                let is_change =
                    terms.iter().any(|term| term.alternatives.iter().any(|id| holds(*id)));
                best = Self { share, reports_change: is_change || reports_change(sentence) };
            }
        }
        best
    }
}

/// Whether a sentence has a word of change.
fn reports_change(sentence: &str) -> bool {
    const WORDS: [&str; 21] = [
        "now",
        "currently",
        "longer",
        "anymore",
        "instead",
        "moved",
        "switched",
        "changed",
        "recently",
        "new",
        "just",
        "replaced",
        "became",
        "maintenant",
        "desormais",
        "change",
        "nouveau",
        "nouvelle",
        "recemment",
        "actuellement",
        "finalement",
    ];
    fold(sentence).split(|c: char| !c.is_alphanumeric()).any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, statements: &[(&str, &str, Role)]) -> Vec<Option<usize>> {
        let question = Question::new(question, "2026-09-01T00:00:00Z".parse().unwrap());
        let statements: Vec<Statement<'_>> = statements
            .iter()
            .map(|(at, text, role)| Statement {
                text,
                at: at.parse().unwrap(),
                author: (*role, None),
            })
            .collect();
        superseded(&question, &statements)
    }

    #[test]
    fn the_latest_statement_supersedes_earlier_ones() {
        let paris = ("2026-01-05T10:00:00Z", "I live in Paris, near the canal.", Role::User);
        let lyon = ("2026-06-05T10:00:00Z", "We moved to Lyon. It is warm here.", Role::User);
        assert_eq!(check("Where do I live now?", &[paris, lyon]), [Some(1), None]);
        assert_eq!(check("Where did I live in January?", &[paris, lyon]), [None, None]);
        let answer = (lyon.0, lyon.1, Role::Assistant);
        assert_eq!(check("Where do I live now?", &[paris, answer]), [None, None], "another author");
        let soon = ("2026-01-05T10:10:00Z", lyon.1, Role::User);
        assert_eq!(check("Where do I live now?", &[paris, soon]), [None, None], "one session");
        let unrelated = (lyon.0, "I now have a boat.", Role::User);
        assert_eq!(check("Where do I live now?", &[paris, unrelated]), [None, None]);
        let asks = (lyon.0, "Where do I live now?", Role::User);
        assert_eq!(check("Where do I live now?", &[paris, asks]), [None, None], "no statement");
    }
}
