//! Stop words: English, French, and the words people use to ask about a conversation.

/// Whether a folded word is an English stop word.
pub(super) fn is_english(word: &str) -> bool {
    ENGLISH.binary_search(&word).is_ok()
}

/// Whether a folded word is a French stop word.
pub(super) fn is_french(word: &str) -> bool {
    FRENCH.binary_search(&word).is_ok()
}

/// Whether a folded word asks about a conversation. Such a word counts little in a question.
#[must_use]
pub(crate) fn is_conversation_word(word: &str) -> bool {
    CONVERSATION_WORDS.binary_search(&word).is_ok()
}

/// Whether a folded word opens a question.
#[must_use]
pub(crate) fn is_question_opener(word: &str) -> bool {
    QUESTION_OPENERS.binary_search(&word).is_ok()
}

/// Whether a folded word is a first-person pronoun.
#[must_use]
pub(crate) fn is_first_person(word: &str) -> bool {
    FIRST_PERSON.binary_search(&word).is_ok()
}

/// English stop words, sorted.
#[rustfmt::skip]
const ENGLISH: [&str; 147] = [
    "a", "about", "above", "after", "again", "against", "all", "am", "an", "and", "any", "are", "aren",
    "as", "at", "be", "because", "been", "before", "being", "below", "between", "both", "but", "by", "can",
    "could", "couldn", "d", "did", "didn", "do", "does", "doesn", "doing", "don", "down", "during", "each",
    "few", "for", "from", "further", "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her",
    "here", "hers", "herself", "him", "himself", "his", "how", "i", "if", "in", "into", "is", "isn", "it",
    "its", "itself", "just", "ll", "m", "me", "more", "most", "my", "myself", "no", "nor", "not", "now",
    "of", "off", "on", "once", "only", "or", "other", "our", "ours", "ourselves", "out", "over", "own",
    "re", "s", "same", "she", "should", "shouldn", "so", "some", "such", "t", "than", "that", "the",
    "their", "theirs", "them", "themselves", "then", "there", "these", "they", "this", "those", "through",
    "to", "too", "under", "until", "up", "ve", "very", "was", "wasn", "we", "were", "weren", "what",
    "when", "where", "which", "while", "who", "whom", "why", "will", "with", "won", "would", "wouldn",
    "you", "your", "yours", "yourself", "yourselves",
];

/// French stop words, sorted.
#[rustfmt::skip]
const FRENCH: [&str; 101] = [
    "a", "ai", "as", "au", "aux", "avait", "avec", "avez", "avons", "c", "ca", "ce", "cela", "ces", "cet",
    "cette", "combien", "comment", "d", "dans", "de", "des", "dont", "du", "elle", "elles", "en", "est",
    "et", "etaient", "etait", "ete", "etes", "etre", "eu", "eux", "fait", "il", "ils", "j", "je", "l",
    "la", "le", "les", "leur", "leurs", "lui", "m", "ma", "mais", "me", "meme", "mes", "moi", "mon", "n",
    "ne", "nos", "notre", "nous", "on", "ont", "ou", "par", "pas", "plus", "pour", "pourquoi", "qu",
    "quand", "que", "quel", "quelle", "quelles", "quels", "qui", "quoi", "s", "sa", "sans", "se", "ses",
    "si", "son", "sont", "suis", "sur", "t", "ta", "te", "tes", "toi", "ton", "tu", "un", "une", "vos",
    "votre", "vous", "y",
];

/// Words that ask about a conversation, sorted.
#[rustfmt::skip]
const CONVERSATION_WORDS: [&str; 72] = [
    "across", "ask", "asked", "aspect", "aspects", "bring", "brought", "chat", "chats", "chatted",
    "comprehensive", "conversation", "conversations", "decris", "describe", "different", "differents",
    "discuss", "discussed", "discussing", "discussion", "discussions", "discute", "dit", "earlier",
    "evoque", "explain", "explique", "give", "item", "items", "list", "liste", "listed", "lists",
    "mention", "mentioned", "mentioning", "mentionne", "mentions", "order", "ordre", "overview", "parle",
    "please", "previous", "previously", "provide", "provided", "question", "rappelle", "recall",
    "remember", "remind", "reminded", "resume", "said", "say", "saying", "summarise", "summarised",
    "summarize", "summarized", "summary", "talk", "talked", "talking", "tell", "throughout", "told",
    "various", "walk",
];

/// First-person pronouns, sorted.
#[rustfmt::skip]
const FIRST_PERSON: [&str; 17] = [
    "i", "j", "je", "ma", "me", "mes", "mine", "moi", "mon", "my", "myself", "nos", "notre", "nous", "our",
    "us", "we",
];

/// Words that open a question, sorted.
#[rustfmt::skip]
const QUESTION_OPENERS: [&str; 40] = [
    "am", "are", "can", "combien", "comment", "could", "did", "do", "does", "est", "had", "has",
    "have", "how", "is", "may", "ou", "pourquoi", "qu", "quand", "que", "quel", "quelle", "quelles",
    "quels", "qui", "quoi", "should", "was", "were", "what", "when", "where", "which", "who",
    "whom", "whose", "why", "will", "would",
];
