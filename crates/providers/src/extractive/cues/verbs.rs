//! Verbs and idioms by what they say about a commitment.

/// Verbs of feelings, states and good intentions, which nobody can tick off.
#[rustfmt::skip]
pub(super) const VAGUE: &[&str] = &[
    "admit", "be", "become", "believe", "benefit", "blame", "celebrate", "cherish", "come", "continue",
    "browse", "bet", "consider", "cry", "decide", "die", "disagree", "dream", "encourage", "end", "enjoy", "excuse", "expect", "fail", "feel", "fight",
    "forget", "get", "give", "go", "grow", "guess", "happen", "have", "help", "hope", "imagine", "improve",
    "inspire", "keep", "know", "learn", "let", "like", "live", "look", "lose", "love", "make", "mean",
    "miss", "need", "never", "note", "own", "proceed", "promise", "push", "rather", "reach", "realize",
    "regret", "remain", "remember", "repeat", "rest", "run", "say", "show", "speak", "see", "sit", "sleep", "stand", "stay", "stick",
    "stop", "succeed", "support", "talk", "tell", "think", "trust", "turn", "understand", "wait", "want", "win", "wonder", "work",
];
/// Verbs that tell what the speaker is doing at the moment: "let's check".
#[rustfmt::skip]
pub(super) const NARRATED: &[&str] = &[
    "address", "analyze", "apply", "ask", "assume", "begin", "break", "calculate", "change", "check", "clarify",
    "commit", "compare", "compute", "consider", "define", "discuss", "dive", "dig", "examine", "exercise",
    "explore", "figure", "find", "finish", "hear", "implement", "install", "inspect", "investigate", "list",
    "move", "navigate", "open", "outline", "pause", "play", "practice", "read", "recap", "review", "search",
    "simplify", "solve", "spread", "start", "submit", "summarize", "take", "talk", "test", "think", "tackle",
    "try", "update", "verify", "view", "write",
];
/// Verbs that start an instruction.
#[rustfmt::skip]
pub(super) const IMPERATIVES: &[&str] = &[
    "add", "adopt", "apply", "archive", "ask", "attach", "book", "bring", "build", "buy", "call", "change",
    "check", "clean", "collect", "compare", "confirm", "contact", "convert", "copy", "create", "delete",
    "describe", "document", "draft", "drop", "email", "explain", "finish", "fix", "format", "get", "implement",
    "install", "investigate", "merge", "move", "order", "organize", "pay", "pick", "prepare", "print", "put",
    "remove", "rename", "replace", "report", "reserve", "review", "revise", "rewrite", "schedule", "send",
    "set", "ship", "sort", "submit", "summarize", "update", "verify", "write",
];
/// Past participles of things that are done to something.
#[rustfmt::skip]
pub(super) const DONE: &[&str] = &[
    "added", "adjusted", "archived", "changed", "checked", "cleaned", "corrected", "created", "deleted",
    "documented", "finished", "fixed", "installed", "merged", "moved", "paid", "removed", "renamed",
    "repaired", "replaced", "reported", "reverted", "reviewed", "rewritten", "sent", "signed", "tested",
    "updated",
];
pub(super) const ADVERBS: &[&str] = &[
    "also",
    "definitely",
    "just",
    "really",
    "still",
    "then",
    "probably",
    "certainly",
    "surely",
    "now",
    "first",
    "only",
    "always",
    "all",
    "both",
    "simply",
    "soon",
    "later",
    "next",
    "quickly",
];
#[rustfmt::skip]
pub(super) const TIMES: &[&str] = &[
    "tomorrow", "tonight", "today", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday",
    "sunday", "weekend", "morning", "afternoon", "evening", "week", "month", "noon", "deadline", "later",
];

/// Words that begin a noun: "going to the fair" has no verb after "to".
pub(super) const DETERMINERS: &[&str] = &[
    "a", "an", "the", "my", "our", "your", "his", "her", "their", "this", "that", "these", "it",
    "you",
];

/// Objects of "take" that are not a choice.
#[rustfmt::skip]
pub(super) const NOT_TAKEN: &[&str] = &[
    "you", "him", "her", "them", "me", "care", "advantage", "part", "place", "note", "notes", "breaks", "action",
    "time", "some", "pictures", "off", "over", "down", "on", "out", "up", "into", "look", "break", "walk", "class",
    "trip", "picture", "photo", "nap", "shower", "while", "shot", "consideration", "tips", "few",
];
/// Objects of "make" that are not a task.
#[rustfmt::skip]
pub(super) const NOT_MADE: &[&str] = &[
    "difference", "choice", "decision", "work", "progress", "memories", "change", "happen", "most", "sense",
    "sure", "impact",
];
/// Polite formulas after "please".
#[rustfmt::skip]
pub(super) const POLITE: &[&str] = &[
    "let", "feel", "note", "find", "see", "do", "proceed", "continue", "go", "respond", "excuse", "wait", "give",
];
/// Words before "decided" that say it was not the speaker, or not decided.
#[rustfmt::skip]
pub(super) const UNDECIDED: &[&str] = &[
    "not", "never", "you", "your", "what", "if", "was", "were", "had", "when", "how", "to", "until", "that",
];

/// The base form of a verb, as far as its ending tells.
pub(super) fn base(verb: &str) -> String {
    let Some(stem) = verb.strip_suffix("ing").filter(|stem| stem.len() > 1) else {
        return verb.to_owned();
    };
    let mut last = stem.chars().rev();
    let doubled = last.next() == last.next() && !stem.ends_with(['l', 's']);
    if doubled { stem[..stem.len() - 1].to_owned() } else { stem.to_owned() }
}

pub(super) fn is_one_of(verb: &str, list: &[&str]) -> bool {
    let base = base(verb);
    let with_e = format!("{base}e");
    list.contains(&verb) || list.contains(&base.as_str()) || list.contains(&with_e.as_str())
}
