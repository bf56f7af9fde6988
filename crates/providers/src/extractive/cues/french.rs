//! Commitments in French.

use treering_core::word_weight;

use super::commitments::Commitment;

/// Verbs of choice, as "on" and "nous" use them and in the infinitive.
#[rustfmt::skip]
const CHOICES: &[&str] = &[
    "prend", "prenons", "prendre", "garde", "gardons", "garder", "utilise", "utilisons", "utiliser",
    "choisit", "choisissons", "choisir", "retient", "retenons", "retenir", "adopte", "adoptons",
    "adopter", "abandonne", "abandonnons", "abandonner",
];
/// Verbs that choose only with "sur" or "à".
const CHOICES_OF: &[&str] =
    &["part", "partons", "partir", "reste", "restons", "rester", "passe", "passons", "passer"];
const CHOSEN: &[&str] = &["décidé", "choisi", "opté", "convenu", "tranché", "retenu"];
#[rustfmt::skip]
const VAGUE: &[&str] = &[
    "être", "avoir", "voir", "continuer", "rester", "croire", "penser", "dire", "aimer", "savoir",
    "pouvoir", "vouloir", "aller", "essayer", "dormir", "profiter", "espérer", "devenir",
];

/// The commitment of a clause.
pub(super) fn commitment(words: &[&str]) -> Option<Commitment> {
    let decided = match words {
        ["on" | "nous", rest @ ..] if chooses(rest) => true,
        ["on", "va", rest @ ..] | ["nous", "allons", rest @ ..] if chooses(rest) => true,
        ["je" | "j'ai" | "on" | "nous" | "ils" | "elles" | "il" | "elle", rest @ ..] => {
            let at = rest.iter().take(4).position(|word| CHOSEN.contains(word));
            let own = words[0] == "j'ai"
                || rest.iter().take(3).any(|word| matches!(*word, "a" | "avons" | "ont"));
            at.is_some_and(|at| own && !rest[..at].contains(&"pas") && has_content(&rest[at + 1..]))
        }
        ["c'est", "décidé", ..] | ["d'accord", "pour", _, ..] | ["désormais", _, ..] => true,
        [verb, ..] if verb.ends_with("ons") => chooses(words),
        _ => false,
    };
    if decided { Some(Commitment::Decision) } else { action(words) }
}

fn action(words: &[&str]) -> Option<Commitment> {
    let rest = match words {
        ["je" | "j'", "vais" | "dois" | "compte", rest @ ..]
        | ["on", "va" | "doit", rest @ ..]
        | ["nous", "allons" | "devons", rest @ ..]
        | ["il", "faut" | "faudra" | "faudrait", rest @ ..]
        | ["il", "reste", "à", rest @ ..]
        | ["pense" | "penser" | "pensez", "à", rest @ ..]
        | ["n'oublie" | "n'oubliez", "pas", rest @ ..]
        | ["rappelle-moi" | "merci", "de", rest @ ..] => rest,
        ["je", "m'en", "occupe" | "occuperai", ..] => return Some(Commitment::Action),
        _ => future(words)?,
    };
    let rest = match rest {
        ["que", _, more @ ..] => more,
        ["de" | "d'" | "à", more @ ..] => more,
        other => other,
    };
    let verb = rest.first()?;
    (!VAGUE.contains(verb) && has_content(&rest[1..])).then_some(Commitment::Action)
}

/// The words from a verb in the first person of the future on: "j'appellerai …".
fn future<'a, 'b>(words: &'a [&'b str]) -> Option<&'a [&'b str]> {
    let from = match words {
        ["je", object, ..]
            if matches!(*object, "te" | "vous" | "le" | "la" | "les" | "lui" | "leur") =>
        {
            2
        }
        ["je", ..] => 1,
        [word, ..] if word.starts_with("j'") => 0,
        _ => return None,
    };
    let verb = words.get(from)?;
    let is_future =
        verb.ends_with("rai") && !matches!(*verb, "serai" | "j'aurai" | "aurai" | "vrai");
    is_future.then(|| &words[from..])
}

fn chooses(words: &[&str]) -> bool {
    match words {
        [verb, rest @ ..] if CHOICES.contains(verb) => has_content(rest),
        [verb, "sur" | "à", rest @ ..] if CHOICES_OF.contains(verb) => has_content(rest),
        _ => false,
    }
}

fn has_content(words: &[&str]) -> bool {
    words.iter().any(|word| word_weight(word) > 0.3)
}
