//! Reported speech: rewrites a speaker's first-person statement in the third person. It
//! rewrites a sentence only if every changed word is certain; otherwise the sentence stays a
//! quotation.

/// Rewrites a statement in the third person: "I've sold my boat" by Ana becomes "Ana has sold
/// Ana's boat". Returns `None` if the sentence says "you" and there is no unique `hearer`.
pub(super) fn report(sentence: &str, speaker: &str, hearer: Option<&str>) -> Option<String> {
    if sentence.contains(['?', '"', '“', '”', '«', '`']) {
        return None;
    }
    let words: Vec<&str> = sentence.split(' ').filter(|word| !word.is_empty()).collect();
    let first = words.iter().position(|word| is_first_person(word))?;
    if first > NEAREST {
        return None;
    }
    let mut turn =
        Rewriter { words: &words, speaker, hearer, output: Vec::with_capacity(words.len() + 4) };
    let mut at = 0;
    while at < words.len() {
        at += turn.word(at)?;
    }
    let mut sentence = turn.output.join(" ");
    if let Some(initial) = sentence.chars().next().filter(|c| c.is_lowercase()) {
        sentence.replace_range(..initial.len_utf8(), &initial.to_uppercase().to_string());
    }
    Some(sentence)
}

/// Rewrites a yes-no question: "Do you sell your boat?" by Ana to Juno becomes "Ana asks
/// whether Juno sells Juno's boat."
pub(super) fn report_question(
    sentence: &str,
    speaker: &str,
    hearer: Option<&str>,
) -> Option<String> {
    let asked = sentence.strip_suffix('?')?.trim_end();
    if asked.contains(['?', '"', '“', '”', '«', '`', '.', '!']) {
        return None;
    }
    let words: Vec<&str> = asked.split(' ').filter(|word| !word.is_empty()).collect();
    let (opening, subject) = (words.first()?.to_lowercase(), *words.get(1)?);
    let (name, own) = match subject {
        "I" => (speaker, true),
        "you" => (hearer?, false),
        _ => return None,
    };
    let mut turn =
        Rewriter { words: &words, speaker, hearer, output: Vec::with_capacity(words.len() + 3) };
    turn.output.push(format!("{speaker} asks whether {name}"));
    let mut at = 2;
    match opening.as_str() {
        "do" => {
            while words.get(at).is_some_and(|word| is_adverb(word)) {
                turn.output.push(words[at].to_owned());
                at += 1;
            }
            turn.output.push(third_person(words.get(at)?)?);
            at += 1;
        }
        "am" if own => turn.output.push("is".to_owned()),
        "are" if !own => turn.output.push("is".to_owned()),
        "have" => turn.output.push("has".to_owned()),
        "can" | "could" | "would" | "will" | "should" | "may" | "must" => turn.output.push(opening),
        _ => return None,
    }
    while at < words.len() {
        at += turn.word(at)?;
    }
    Some(format!("{}.", turn.output.join(" ")))
}

/// Whether an English sentence addresses its hearer.
pub(super) fn addresses(sentence: &str) -> bool {
    sentence
        .split([' ', '\'', '’', ',', '.', '!', '?'])
        .any(|word| matches!(word, "you" | "You" | "your" | "Your" | "yours" | "yourself"))
}

/// Maximum number of words before the speaker's name, so that readers see early who speaks.
const NEAREST: usize = 7;

fn is_first_person(word: &str) -> bool {
    let (core, _) = bare(word);
    let head = core.split(['\'', '’']).next().unwrap_or(core);
    head == "I" || matches!(core, "my" | "My")
}

/// Splits a word from the punctuation after it.
fn bare(word: &str) -> (&str, &str) {
    word.split_at(word.trim_end_matches(['.', ',', '!', ';', ':', ')', '…']).len())
}

struct Rewriter<'a> {
    words: &'a [&'a str],
    speaker: &'a str,
    hearer: Option<&'a str>,
    output: Vec<String>,
}

impl Rewriter<'_> {
    /// Rewrites the word at `at`, and returns the number of words consumed.
    fn word(&mut self, at: usize) -> Option<usize> {
        let (core, tail) = bare(self.words[at]);
        let (head, contraction) = core.split_once(['\'', '’']).unwrap_or((core, ""));
        match head.to_lowercase().as_str() {
            "i" if head == "I" => return self.subject(at, self.speaker, contraction, tail, true),
            "you" => {
                let hearer = self.hearer?;
                return self.subject(at, hearer, contraction, tail, false);
            }
            "my" | "mine" => self.output.push(format!("{}'s{tail}", self.speaker)),
            "me" => self.output.push(format!("{}{tail}", self.speaker)),
            "your" | "yours" => self.output.push(format!("{}'s{tail}", self.hearer?)),
            "myself" | "yourself" | "we" | "us" | "our" | "ours" | "let" => return None,
            _ => self.output.push(self.words[at].to_owned()),
        }
        Some(1)
    }

    /// Rewrites a subject and the verb after it.
    fn subject(
        &mut self,
        at: usize,
        name: &str,
        contraction: &str,
        tail: &str,
        sure: bool,
    ) -> Option<usize> {
        let before = at.checked_sub(1).map(|before| bare(self.words[before]).0.to_lowercase());
        if before
            .as_deref()
            .is_some_and(|word| third_of_auxiliary(word).is_some() && !is_past_auxiliary(word))
        {
            return None;
        }
        if !contraction.is_empty() {
            let verb = contracted(contraction)?;
            self.output.push(format!("{name} {verb}{tail}"));
            return Some(1);
        }
        self.output.push(format!("{name}{tail}"));
        if !tail.is_empty() {
            return (!sure).then_some(1);
        }
        let mut next = at + 1;
        while let Some(adverb) = self.words.get(next).filter(|word| is_adverb(word)) {
            self.output.push((*adverb).to_owned());
            next += 1;
        }
        let Some(word) = self.words.get(next) else { return Some(next - at) };
        let (verb, after) = bare(word);
        let verb_form = if sure { third_person(verb)? } else { third_of_hearer(verb)? };
        self.output.push(format!("{verb_form}{after}"));
        Some(next + 1 - at)
    }
}

fn is_past_auxiliary(word: &str) -> bool {
    matches!(word, "had" | "did" | "was")
}

fn contracted(ending: &str) -> Option<&'static str> {
    Some(match ending.to_ascii_lowercase().as_str() {
        "m" | "re" => "is",
        "ve" => "has",
        "ll" => "will",
        "d" => "would",
        _ => return None,
    })
}

/// Auxiliaries in the first or second person, and in the third.
const AUXILIARIES: [(&str, &str); 32] = [
    ("am", "is"),
    ("are", "is"),
    ("was", "was"),
    ("were", "was"),
    ("have", "has"),
    ("had", "had"),
    ("do", "does"),
    ("did", "did"),
    ("don't", "doesn't"),
    ("didn't", "didn't"),
    ("haven't", "hasn't"),
    ("hadn't", "hadn't"),
    ("wasn't", "wasn't"),
    ("aren't", "isn't"),
    ("weren't", "wasn't"),
    ("will", "will"),
    ("won't", "won't"),
    ("would", "would"),
    ("wouldn't", "wouldn't"),
    ("can", "can"),
    ("can't", "can't"),
    ("cannot", "cannot"),
    ("could", "could"),
    ("couldn't", "couldn't"),
    ("should", "should"),
    ("shouldn't", "shouldn't"),
    ("must", "must"),
    ("may", "may"),
    ("might", "might"),
    ("shall", "shall"),
    ("gotta", "has to"),
    ("wanna", "wants to"),
];

fn third_of_auxiliary(word: &str) -> Option<&'static str> {
    let plain = word.replace('’', "'");
    AUXILIARIES.iter().find(|(first, _)| *first == plain).map(|(_, third)| *third)
}

/// Irregular past forms.
const PAST: [&str; 75] = [
    "ate",
    "became",
    "began",
    "bought",
    "broke",
    "brought",
    "built",
    "came",
    "caught",
    "chose",
    "cut",
    "drank",
    "drew",
    "drove",
    "fell",
    "felt",
    "fought",
    "found",
    "forgot",
    "gave",
    "got",
    "grew",
    "heard",
    "held",
    "hit",
    "hurt",
    "kept",
    "knew",
    "learnt",
    "led",
    "left",
    "lost",
    "made",
    "meant",
    "met",
    "paid",
    "put",
    "quit",
    "ran",
    "read",
    "rode",
    "rose",
    "said",
    "sang",
    "sat",
    "saw",
    "sent",
    "set",
    "showed",
    "shot",
    "shut",
    "slept",
    "sold",
    "spent",
    "spoke",
    "stood",
    "stole",
    "stuck",
    "swam",
    "taught",
    "thought",
    "threw",
    "told",
    "took",
    "understood",
    "went",
    "woke",
    "won",
    "wore",
    "wrote",
    "used",
    "swore",
    "flew",
    "spread",
    "let",
];

/// The third person of a verb after `I`, if its form determines it.
fn third_person(verb: &str) -> Option<String> {
    if let Some(third) = third_of_auxiliary(&verb.to_lowercase()) {
        return Some(third.to_owned());
    }
    if verb.len() < 2 || !verb.bytes().all(|b| b.is_ascii_lowercase()) || NO_VERBS.contains(&verb) {
        return None;
    }
    if PAST.contains(&verb)
        || verb.ends_with("ed") && !matches!(verb, "need" | "feed" | "speed" | "bleed")
    {
        return Some(verb.to_owned());
    }
    let vowel_before_y =
        || verb.as_bytes().iter().nth_back(1).is_some_and(|b| b"aeiou".contains(b));
    Some(if ["s", "sh", "ch", "x", "z", "o"].iter().any(|ending| verb.ends_with(ending)) {
        format!("{verb}es")
    } else if verb.ends_with('y') && !vowel_before_y() {
        format!("{}ies", &verb[..verb.len() - 1])
    } else {
        format!("{verb}s")
    })
}

/// Words that can follow a subject but are not its verb.
const NO_VERBS: [&str; 16] = [
    "and", "or", "but", "to", "in", "on", "at", "with", "for", "of", "as", "if", "too", "that",
    "who", "both",
];

/// Words that can only be verbs after `you`.
const VERBS: [&str; 36] = [
    "ask",
    "believe",
    "call",
    "come",
    "do",
    "feel",
    "find",
    "get",
    "give",
    "go",
    "have",
    "hear",
    "help",
    "know",
    "like",
    "live",
    "look",
    "love",
    "make",
    "mean",
    "need",
    "prefer",
    "say",
    "see",
    "seem",
    "send",
    "take",
    "tell",
    "think",
    "try",
    "understand",
    "use",
    "want",
    "work",
    "wish",
    "agree",
];

/// The third person of the word after `you`: a verb is inflected, some other words stay
/// unchanged.
fn third_of_hearer(word: &str) -> Option<String> {
    let lower = word.to_lowercase();
    if let Some(third) = third_of_auxiliary(&lower) {
        return Some(third.to_owned());
    }
    if VERBS.contains(&lower.as_str()) {
        return third_person(&lower);
    }
    let after_object = [
        "a", "an", "the", "to", "in", "on", "at", "with", "for", "of", "about", "some", "any",
        "and", "or", "but", "too", "so", "that", "this", "how", "what", "when", "if", "again",
        "later", "tomorrow", "today", "soon", "there", "up", "out", "back", "around", "by", "from",
        "all", "more", "as", "then", "better", "very",
    ];
    let past = PAST.contains(&lower.as_str()) || lower.ends_with("ed") && lower.len() > 4;
    (after_object.contains(&lower.as_str()) || past).then(|| word.to_owned())
}

fn is_adverb(word: &str) -> bool {
    const ADVERBS: [&str; 18] = [
        "just",
        "also",
        "always",
        "never",
        "still",
        "already",
        "often",
        "even",
        "only",
        "sometimes",
        "now",
        "ever",
        "then",
        "almost",
        "soon",
        "once",
        "kinda",
        "honestly",
    ];
    ADVERBS.contains(&word)
        || word.len() > 4
            && word.ends_with("ly")
            && !matches!(word, "reply" | "apply" | "rely" | "supply")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sentence: &str, expected: Option<&str>) {
        assert_eq!(report(sentence, "Ana", Some("Juno")).as_deref(), expected, "{sentence:?}");
    }

    #[test]
    fn statements_about_oneself_are_reported() {
        check("I've been having trouble lately.", Some("Ana has been having trouble lately."));
        check(
            "I am going to send you to a doctor.",
            Some("Ana is going to send Juno to a doctor."),
        );
        check(
            "I just need my boat back, and I'll pay.",
            Some("Ana just needs Ana's boat back, and Ana will pay."),
        );
        check("I think you should try it.", Some("Ana thinks Juno should try it."));
        check(
            "Last week I went there with my kids.",
            Some("Last week Ana went there with Ana's kids."),
        );
        check("My kids love it.", Some("Ana's kids love it."));
        check("I really don't worry.", Some("Ana really doesn't worry."));
    }

    #[test]
    fn yes_no_questions_are_reported() {
        for (sentence, expected) in [
            (
                "Do you really sell your boat?",
                Some("Ana asks whether Juno really sells Juno's boat."),
            ),
            ("Can I use it?", Some("Ana asks whether Ana can use it.")),
            ("Are you sure of it?", Some("Ana asks whether Juno is sure of it.")),
            ("Did you go?", None),
            ("What do you want?", None),
        ] {
            assert_eq!(
                report_question(sentence, "Ana", Some("Juno")).as_deref(),
                expected,
                "{sentence:?}"
            );
        }
    }

    #[test]
    fn ambiguous_sentences_stay_quotations() {
        check("Should I go?", None);
        check("So am I.", None);
        check("The tide is high.", None);
        check("I told her \"I am late\".", None);
        check("I like how you crochet.", None);
        check("I think we should go.", None);
        check("I, for one, agree.", None);
        assert_eq!(report("I need you to go.", "Ana", None), None);
    }
}
