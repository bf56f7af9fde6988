//! Word weights: the function words and the very common words of English and French.

use crate::sentence;

/// The weight of a lower-case word, from 0 (grammar) to 1 (content).
#[must_use]
pub fn word_weight(word: &str) -> f32 {
    let stem = word.split(['\'', '’']).next().unwrap_or(word);
    let elided = stem.chars().count() <= 2 && stem.len() < word.len();
    let word = if elided { word[stem.len()..].trim_start_matches(['\'', '’']) } else { stem };
    if word.chars().nth(1).is_none() && word.bytes().all(|b| b.is_ascii_lowercase())
        || is_function_word(word)
    {
        0.0
    } else if COMMON.binary_search(&word).is_ok() {
        0.35
    } else {
        1.0
    }
}

/// The weight of a name or an identifier, relative to another word.
const FACT_WEIGHT: f32 = 3.0;

/// The words of a text that say something, each with its stem and its weight. Facts weigh most:
/// words with letters and a digit or an underscore, and words that are capitalized within a
/// sentence. A bare number says little without the words around it.
pub fn weighted_terms(text: &str) -> impl Iterator<Item = (String, f32)> {
    sentence::words(text).filter_map(move |word| {
        let lower = word.to_lowercase();
        let weight = if is_fact(text, word) { FACT_WEIGHT } else { word_weight(&lower) };
        (weight > 0.0 && word_weight(&lower) > 0.0).then(|| (sentence::stem(&lower), weight))
    })
}

/// Whether a word of a text is a fact. `word` is a slice of `text`.
fn is_fact(text: &str, word: &str) -> bool {
    if !word.contains(char::is_alphabetic) {
        return false;
    }
    if word.contains('_') || word.bytes().any(|b| b.is_ascii_digit()) {
        return true;
    }
    let start = word.as_ptr().addr() - text.as_ptr().addr();
    let before = text[..start].trim_end_matches(['"', '“', '«', '(', '\'', ' ', '*', '`']);
    let opens =
        before.is_empty() || before.ends_with(['.', '!', '?', ':', '…', '-', '–', '—', '\n']);
    word.starts_with(char::is_uppercase) && !opens
}

/// Whether a lower-case word only has a grammatical function.
#[must_use]
pub(crate) fn is_function_word(word: &str) -> bool {
    FUNCTION_WORDS.binary_search(&word).is_ok()
}

/// Function words, greetings and interjections, in byte order.
#[rustfmt::skip]
const FUNCTION_WORDS: [&str; 414] = [
    "a", "about", "above", "actually", "after", "again", "against", "ain", "all", "almost", "along",
    "already", "also", "although", "always", "am", "among", "an", "and", "another", "any", "anybody",
    "anyone", "anything", "anyway", "are", "aren", "around", "as", "at", "au", "aucun", "aucune", "aussi",
    "autre", "autres", "aux", "avait", "avant", "avec", "avez", "avoir", "avons", "away", "back", "be",
    "because", "been", "before", "being", "below", "between", "bien", "bon", "bonjour", "both", "but", "by",
    "c", "can", "cannot", "cant", "car", "ce", "ceci", "cela", "celle", "celui", "ces", "cet", "cette",
    "ceux", "chaque", "chez", "ci", "comme", "comment", "could", "couldn", "d", "dans", "de", "depuis",
    "des", "deux", "did", "didn", "do", "does", "doesn", "doing", "doit", "don", "donc", "done", "dont",
    "down", "du", "during", "déjà", "each", "either", "elle", "elles", "else", "en", "encore", "enough",
    "entre", "est", "et", "etc", "eu", "eux", "even", "ever", "every", "everybody", "everyone",
    "everything", "faire", "fait", "faut", "few", "fois", "for", "from", "furent", "further", "gonna",
    "gotta", "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "hein", "hello", "her", "here",
    "hers", "herself", "hey", "hi", "him", "himself", "his", "how", "however", "i", "if", "il", "ils", "in",
    "indeed", "instead", "into", "is", "isn", "it", "its", "itself", "j", "je", "jusqu", "just", "kind",
    "kinda", "l", "la", "le", "least", "les", "less", "let", "leur", "leurs", "like", "ll", "lui", "là",
    "m", "ma", "mais", "many", "may", "maybe", "me", "merci", "mes", "might", "mine", "moi", "moins", "mon",
    "more", "most", "much", "must", "my", "myself", "même", "mêmes", "n", "ne", "near", "need", "needn",
    "neither", "never", "ni", "no", "nobody", "non", "none", "nor", "nos", "not", "nothing", "notre",
    "nous", "now", "of", "off", "oh", "ok", "okay", "on", "once", "one", "only", "ont", "onto", "or",
    "other", "others", "otherwise", "ou", "ought", "oui", "our", "ours", "ourselves", "out", "over", "own",
    "où", "par", "parce", "pas", "perhaps", "peu", "peut", "peux", "please", "plus", "plutôt", "pour",
    "pourquoi", "pouvez", "probably", "puis", "qu", "quand", "que", "quel", "quelle", "quelles", "quelque",
    "quelques", "quels", "qui", "quite", "quoi", "rather", "re", "really", "right", "sa", "salut", "same",
    "sans", "sera", "ses", "shall", "she", "should", "shouldn", "si", "since", "so", "soit", "some",
    "somebody", "someone", "something", "sometimes", "somewhat", "son", "sont", "soon", "sous", "still",
    "such", "suis", "sur", "t", "ta", "tant", "te", "tes", "than", "thank", "thanks", "that", "the",
    "their", "theirs", "them", "themselves", "then", "there", "therefore", "these", "they", "this", "those",
    "though", "through", "thus", "till", "to", "toi", "ton", "too", "toujours", "tous", "tout", "toute",
    "toutes", "toward", "towards", "trop", "très", "tu", "um", "un", "under", "une", "unless", "until",
    "up", "upon", "us", "va", "vais", "ve", "vers", "very", "via", "voici", "voilà", "vont", "vos", "votre",
    "vous", "vraiment", "was", "wasn", "we", "well", "were", "weren", "what", "whatever", "when",
    "whenever", "where", "wherever", "whether", "which", "while", "who", "whoever", "whole", "whom",
    "whose", "why", "will", "with", "within", "without", "won", "would", "wouldn", "wow", "y", "yeah",
    "yep", "yes", "yet", "you", "your", "yours", "yourself", "yourselves", "ça", "étaient", "était",
    "étant", "être",
];

/// Words that are common in any conversation, in byte order.
#[rustfmt::skip]
const COMMON: [&str; 348] = [
    "able", "accord", "ago", "agree", "aime", "ait", "aller", "alors", "amazing", "ans", "answer", "après",
    "arrive", "ask", "asked", "asking", "assez", "attends", "aujourd", "aurait", "awesome", "bad", "beau",
    "beaucoup", "beautiful", "become", "best", "better", "big", "bit", "bonne", "bring", "call", "called",
    "came", "care", "certain", "change", "check", "chose", "choses", "clair", "come", "comes", "coming",
    "comprends", "cool", "cours", "course", "crois", "day", "days", "definitely", "demain", "dernier",
    "dernière", "devrait", "different", "dire", "dis", "dit", "dois", "easy", "end", "exactly", "excited",
    "exciting", "fais", "faisait", "far", "façon", "feel", "feeling", "feels", "felt", "fera", "ferai",
    "find", "fine", "first", "found", "fun", "gave", "genre", "get", "gets", "getting", "give", "given",
    "gives", "giving", "glad", "go", "goes", "going", "gone", "good", "got", "grand", "great", "guess",
    "guy", "guys", "happen", "happened", "happening", "happy", "hard", "hear", "heard", "help", "helped",
    "helping", "helps", "hier", "hope", "hoping", "hour", "hours", "hui", "idea", "idée", "image", "images",
    "important", "interesting", "jour", "jours", "juste", "keep", "keeps", "kept", "knew", "know",
    "knowing", "known", "knows", "last", "late", "later", "left", "life", "little", "live", "lol", "long",
    "longer", "look", "looked", "looking", "looks", "lot", "lots", "love", "loved", "loves", "made", "make",
    "makes", "making", "mal", "man", "matter", "mean", "means", "mettre", "mieux", "mind", "minute",
    "minutes", "mis", "mois", "moment", "monde", "month", "months", "morning", "name", "new", "next",
    "nice", "night", "nouveau", "nouvelle", "number", "often", "old", "open", "parfait", "parler", "part",
    "passe", "past", "pense", "penser", "people", "person", "petit", "petite", "photo", "photos", "pic",
    "pics", "picture", "pictures", "place", "plan", "planning", "plans", "point", "possible", "pouvoir",
    "premier", "première", "prend", "prendre", "presque", "pretty", "problem", "problème", "prochain",
    "prochaine", "propose", "put", "quelqu", "question", "quick", "quickly", "ready", "real", "reason",
    "recently", "rien", "run", "said", "sais", "savoir", "saw", "say", "saying", "says", "second", "see",
    "seeing", "seem", "seems", "seen", "semaine", "send", "serait", "set", "show", "simple", "small",
    "soir", "sorry", "sort", "sorte", "sound", "sounds", "special", "start", "started", "stay", "step",
    "stop", "story", "stuff", "super", "supposed", "sure", "surtout", "sûr", "take", "taken", "takes",
    "taking", "talk", "talking", "tell", "telling", "temps", "thing", "things", "think", "thinking",
    "thought", "three", "time", "times", "today", "together", "told", "tomorrow", "tonight", "took",
    "totally", "train", "tried", "trois", "truc", "true", "try", "trying", "turn", "two", "understand",
    "use", "used", "using", "usually", "vas", "veut", "veux", "vient", "voir", "vois", "voudrais", "vrai",
    "wait", "wanna", "want", "wanted", "wanting", "wants", "watch", "way", "week", "weekend", "welcome",
    "went", "wish", "wonder", "wonderful", "word", "work", "worked", "working", "works", "world", "worry",
    "worth", "write", "wrong", "year", "years", "yesterday", "young",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order_and_apart() {
        assert!(FUNCTION_WORDS.is_sorted());
        assert!(COMMON.is_sorted());
        assert!(!COMMON.iter().any(|word| is_function_word(word)));
    }

    #[test]
    fn weights() {
        for (word, expected) in [
            ("the", 0.0),
            ("l'heure", 1.0),
            ("it's", 0.0),
            ("thing", 0.35),
            ("harbour", 1.0),
            ("x", 0.0),
            ("7", 1.0),
        ] {
            assert!((word_weight(word) - expected).abs() < f32::EPSILON, "{word}");
        }
    }
}
