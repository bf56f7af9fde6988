//! Commitments in English: a decision chooses something, an action item is something that
//! somebody still has to do. Both need a subject who commits, and an object.

use treering_core::word_weight;

use super::clauses::Clause;
use super::verbs::{
    ADVERBS, DETERMINERS, DONE, IMPERATIVES, NARRATED, NOT_MADE, NOT_TAKEN, POLITE, TIMES,
    UNDECIDED, VAGUE, base, is_one_of,
};

/// The kind of commitment that a clause makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commitment {
    Decision,
    Action,
}

/// The commitment of a clause. `is_explained` says that the sentence begins with a reason or a
/// purpose, so that a need in it is part of an explanation.
pub(super) fn commitment(clause: &Clause, is_explained: bool, is_wish: bool) -> Option<Commitment> {
    let words = &clause.slices()[..];
    if let Some(made) = decided(words).or_else(|| standing(words)) {
        return Some(made);
    }
    if let Some(rest) =
        words.strip_prefix(&["let's"]).or_else(|| words.strip_prefix(&["let", "us"]))
    {
        return proposal(without_adverbs(rest));
    }
    promise(words, is_explained)
        .or_else(|| directive(words, is_wish))
        .or_else(|| announced(words))
        .or_else(|| passive(words))
}

/// "we decided to …", "I've chosen …", "they agreed on …", "we ended up using …"
fn decided(words: &[&str]) -> Option<Commitment> {
    let at = words.iter().take(9).position(|word| {
        matches!(
            *word,
            "decided" | "chose" | "chosen" | "picked" | "agreed" | "settled" | "opted" | "ended"
        )
    })?;
    let (before, after) = (&words[..at], &words[at + 1..]);
    let is_stated = !before.is_empty() && !before.iter().any(|word| UNDECIDED.contains(word));
    let next = after.first().copied().unwrap_or_default();
    let has_choice = match words[at] {
        "decided" => matches!(next, "to" | "on" | "that" | "against" | "not" | "we" | "i" | "it"),
        "agreed" => matches!(next, "to" | "on" | "that"),
        "settled" => matches!(next, "on" | "for"),
        "opted" => matches!(next, "to" | "for" | "against"),
        "ended" => {
            next == "up"
                && after.get(1).is_some_and(|word| {
                    is_one_of(word, &["use", "choose", "pick", "take", "go", "keep"])
                })
        }
        "picked" => next != "up" && has_content(after),
        _ => true,
    };
    (is_stated && has_choice && has_content(after)).then_some(Commitment::Decision)
}

/// Rules for the future: "from now on …", "always … when I ask", "we're going with …".
fn standing(words: &[&str]) -> Option<Commitment> {
    let contains = |phrase: &[&str]| words.windows(phrase.len()).any(|part| part == phrase);
    if contains(&["from", "now", "on"]) {
        return has_content(words).then_some(Commitment::Decision);
    }
    let own = |word: &&str| matches!(*word, "i" | "me" | "my" | "we" | "our" | "us");
    match words {
        ["always" | "never", verb, rest @ ..]
            if is_content(verb)
                && !verb.ends_with("ing")
                && rest.iter().any(own)
                && has_content(rest) =>
        {
            Some(Commitment::Decision)
        }
        ["i" | "we", "am" | "are", "going" | "sticking", "with", rest @ ..]
        | ["i" | "we", "am" | "are", "switching", "to", rest @ ..]
        | ["i" | "we", "am" | "are", "not", "going", "to", "use", rest @ ..]
        | ["we", "will" | "do", "not", "need" | "use" | "want", rest @ ..]
        | ["the", "plan", "is", rest @ ..]
            if has_content(rest) =>
        {
            Some(Commitment::Decision)
        }
        ["it", "is", "a", "deal"] | ["i", "have", "made", "up", "my", "mind", ..] => {
            Some(Commitment::Decision)
        }
        _ => None,
    }
}

/// "let's …": a choice, a task, or only a remark about the moment.
fn proposal(words: &[&str]) -> Option<Commitment> {
    let (verb, object) = words.split_first()?;
    let is_choice = match *verb {
        "meet" | "call" | "name" | "postpone" | "skip" | "split" | "limit" | "adopt" | "drop" => {
            true
        }
        "not" => {
            !matches!(object.first().copied(), Some("forget" | "worry" | "lose" | "loose" | "rush"))
        }
        "go" => object
            .first()
            .is_some_and(|next| !matches!(*next, "over" | "through" | "on" | "ahead" | "into")),
        "do" => !matches!(object.first().copied(), Some("some" | "that" | "so" | "our" | "your")),
        "put" | "leave" => true,
        "have" => !object.iter().any(|word| matches!(*word, "fun" | "look")),
        "focus" => object.first() == Some(&"on"),
        "make" => {
            object.first() == Some(&"it")
                && object.get(1).is_some_and(|next| matches!(*next, "a" | "an"))
        }
        _ => is_choice(verb, object),
    };
    if is_choice {
        return has_content(object).then_some(Commitment::Decision);
    }
    let is_task = !is_one_of(verb, VAGUE) && !is_one_of(verb, NARRATED) && *verb != "set";
    (is_task && has_object(object)).then_some(Commitment::Action)
}

/// "I'll …", "we're going to …", "I need to …", "Miss Lund will … on Monday".
fn promise(words: &[&str], is_explained: bool) -> Option<Commitment> {
    let (is_need, rest) = match words {
        ["i" | "we", rest @ ..] => modal(without_adverbs(rest))?,
        ["will", verb, ..] if DETERMINERS.contains(verb) || matches!(*verb, "i" | "we") => {
            return None;
        }
        ["will", rest @ ..] | ["gonna", "to", rest @ ..] => (false, rest),
        ["you", "will", rest @ ..] => {
            let own = rest.iter().any(|word| matches!(*word, "me" | "us" | "my" | "our"));
            return task(rest).filter(|_| own);
        }
        ["you", "need" | "have", "to", rest @ ..] | ["you", "must", rest @ ..] => {
            return task(rest).filter(|_| has_time(rest));
        }
        ["it" | "that" | "this" | "which" | "they" | "there" | "who", ..] => return None,
        _ => {
            let at = words.iter().take(5).position(|word| *word == "will").filter(|at| *at > 0)?;
            return task(&words[at + 1..]).filter(|_| has_time(&words[at + 1..]));
        }
    };
    if is_need && is_explained {
        return None;
    }
    if let ["not", verb, object @ ..] = rest {
        return (is_choice(verb, object) && has_content(object)).then_some(Commitment::Decision);
    }
    // Nobody chooses what has to be.
    task(rest).filter(|made| !is_need || *made == Commitment::Action)
}

/// The words after a modal verb, and whether it states a need.
fn modal<'a, 'b>(words: &'a [&'b str]) -> Option<(bool, &'a [&'b str])> {
    Some(match words {
        ["will" | "shall", rest @ ..]
        | ["am" | "are", "going" | "gonna" | "planning", "to", rest @ ..]
        | ["plan" | "intend" | "promise", "to", rest @ ..] => (false, rest),
        ["still" | "really", "need" | "have", "to", rest @ ..]
        | ["need" | "have", "to", rest @ ..]
        | ["have", "got", "to", rest @ ..]
        | ["must", rest @ ..] => (true, rest),
        ["should", rest @ ..] => (false, rest),
        _ => return None,
    })
}

/// A verb with its object, after "I will" or "I need to".
fn task(words: &[&str]) -> Option<Commitment> {
    let words = without_light_verbs(words);
    let (verb, object) = words.split_first()?;
    if DETERMINERS.contains(verb) || is_at_once(object) {
        return None;
    }
    if is_choice(verb, object) {
        return (has_content(object) || *verb == "take").then_some(Commitment::Decision);
    }
    let is_concrete = match *verb {
        "get" => has_person_or_item(object),
        "make" => has_content(object) && !is_good_intention(object),
        "look" => matches!(object.first().copied(), Some("into" | "for" | "up")),
        "give" | "bring" | "let" => has_object(object) && *verb != "let",
        "go" => matches!(object.first().copied(), Some("by" | "see" | "buy" | "to")),
        "work" => object.first() == Some(&"on"),
        "take" => !object.starts_with(&["time"]) && !object.starts_with(&["part"]),
        "check" => object.first() != Some(&"on"),
        "stop" | "learn" => has_content(object),
        "do" => has_content(object) && !object.contains(&"best"),
        _ => !is_one_of(verb, VAGUE),
    };
    (is_concrete && has_object(object)).then_some(Commitment::Action)
}

/// Requests: "please send …", "I want you to …", "don't forget the …", "prepare … for me".
fn directive(words: &[&str], is_wish: bool) -> Option<Commitment> {
    let asked = match words {
        ["please", rest @ ..] => {
            let polite = rest.first().is_some_and(|verb| POLITE.contains(verb));
            return (!polite && content_count(rest.get(1..)?) >= 2).then_some(Commitment::Action);
        }
        ["i", "want" | "need", "you" | "us", "to", rest @ ..]
        | ["i", "would", "like", "you" | "us", "to", rest @ ..]
        | ["can" | "could", "you", "please", rest @ ..]
        | ["remind", "me", "to", rest @ ..]
        | ["remember", "to", rest @ ..]
        | ["do", "not", "forget", "to", rest @ ..]
        | ["make", "sure", "you", rest @ ..]
        | ["make", "sure", "that", "you", rest @ ..] => rest,
        ["do", "not", "forget", rest @ ..] => {
            let is_noun =
                !matches!(rest, ["that" | "they" | "you" | "we" | "it" | "how" | "why", ..]);
            return (is_noun && has_content(rest)).then_some(Commitment::Action);
        }
        ["check", "out", ..] => return None,
        [verb, rest @ ..] if IMPERATIVES.contains(verb) => {
            let own = rest.iter().any(|word| matches!(*word, "me" | "my" | "our" | "us"));
            return ((own || is_wish || has_time(rest)) && content_count(rest) >= 2)
                .then_some(Commitment::Action);
        }
        _ => return None,
    };
    let asked = without_adverbs(asked);
    let is_rest =
        asked.iter().take(3).any(|word| matches!(*word, "breaks" | "break" | "care" | "positive"));
    let (verb, object) = asked.split_first()?;
    (!is_rest && (!is_one_of(verb, VAGUE) || *verb == "look") && has_object(object))
        .then_some(Commitment::Action)
}

/// "the next step is …", "the next high-priority item is …"
fn announced(words: &[&str]) -> Option<Commitment> {
    let at = words.iter().position(|word| *word == "next")?;
    let noun = words[at..].iter().take(4).position(|word| {
        matches!(
            *word,
            "step" | "steps" | "item" | "items" | "task" | "tasks" | "action" | "actions"
        )
    })?;
    let rest = &words[at + noun + 1..];
    let is_named = matches!(rest.first().copied(), Some("is" | "are")) && has_content(rest);
    is_named.then_some(Commitment::Action)
}

/// "the entry must be reverted", "the form has to be signed"
fn passive(words: &[&str]) -> Option<Commitment> {
    let at = words.windows(2).position(|pair| pair[0] == "be" && DONE.contains(&pair[1]))?;
    let owed = matches!(
        &words[..at],
        [.., "should" | "must"] | [.., "needs" | "need" | "has" | "have" | "still", "to"]
    );
    owed.then_some(Commitment::Action)
}

/// Whether a verb with its object chooses something.
fn is_choice(verb: &str, object: &[&str]) -> bool {
    let next = object.first().copied().unwrap_or_default();
    let is_thing =
        matches!(next, "the" | "this" | "that" | "our" | "it" | "these" | "those" | "both");
    match base(verb).as_str() {
        "use" | "choose" | "skip" | "adopt" | "opt" | "prefer" | "us" | "choos" => true,
        "pick" => !object.contains(&"up"),
        "go" => matches!(next, "with" | "for" | "back") && !object.starts_with(&["for", "it"]),
        "stick" => matches!(next, "with" | "to"),
        "start" => next == "with",
        "stay" => matches!(next, "in" | "with" | "at" | "on"),
        "switch" => next == "to",
        "settle" => matches!(next, "on" | "for"),
        "keep" => {
            is_thing
                && !object.iter().take(3).any(|word| matches!(*word, "up") || word.ends_with("ing"))
                && !object.windows(2).any(|pair| pair == ["in", "mind"])
                && has_content(object)
        }
        "take" => !object.iter().take(3).any(|word| NOT_TAKEN.contains(word)),
        _ => false,
    }
}

/// Skips verbs that only frame another one: "try to", "be sure to", "have to", "go ahead and".
fn without_light_verbs<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let mut rest = without_adverbs(words);
    loop {
        rest = match rest {
            [
                "try" | "have" | "need" | "want" | "like" | "love" | "plan" | "aim",
                "to",
                more @ ..,
            ]
            | ["try" | "go" | "come", "and", more @ ..]
            | ["be", "sure" | "able", "to", more @ ..]
            | ["make", "sure", "to" | "i" | "we", more @ ..]
            | ["go", "ahead", "and", more @ ..]
            | ["start", "by", more @ ..] => without_adverbs(more),
            ["try" | "start" | "be" | "begin" | "go", verb, ..]
                if verb.len() > 5 && verb.ends_with("ing") =>
            {
                &rest[1..]
            }
            ["then", more @ ..] => more,
            _ => return rest,
        };
    }
}

fn without_adverbs<'a, 'b>(words: &'a [&'b str]) -> &'a [&'b str] {
    let from = words.iter().position(|word| !ADVERBS.contains(word)).unwrap_or(words.len());
    &words[from..]
}

fn is_content(word: &str) -> bool {
    word_weight(word) > 0.3 && !ADVERBS.contains(&word)
}

fn content_count(words: &[&str]) -> usize {
    words.iter().filter(|word| is_content(word)).count()
}

fn has_content(words: &[&str]) -> bool {
    words.iter().any(|word| is_content(word))
}

/// A noun, or a pronoun with something beside it: "it to you later".
fn has_object(words: &[&str]) -> bool {
    let named = words.iter().any(|word| is_content(word) && !TIMES.contains(word));
    let pronoun = matches!(
        words.first().copied(),
        Some("it" | "them" | "you" | "him" | "her" | "this" | "that")
    );
    named || pronoun && words.len() >= 2
}

fn has_person_or_item(words: &[&str]) -> bool {
    matches!(
        words.first().copied(),
        Some("you" | "him" | "her" | "them" | "it" | "my" | "the" | "a" | "some" | "our")
    ) && has_content(words)
}

/// "make it", "make progress", "make a difference"
fn is_good_intention(object: &[&str]) -> bool {
    object.iter().take(3).any(|word| NOT_MADE.contains(word))
        || object.first() == Some(&"it") && !has_time(object)
}

/// "right now", "right away": done before anybody could list it.
fn is_at_once(words: &[&str]) -> bool {
    words.windows(2).any(|pair| pair[0] == "right" && matches!(pair[1], "now" | "away"))
}

fn has_time(words: &[&str]) -> bool {
    words.iter().any(|word| {
        TIMES.contains(word) || word.strip_suffix("'s").is_some_and(|day| TIMES.contains(&day))
    })
}
