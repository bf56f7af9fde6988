//! Worth: how much more a statement is worth to a reader than a plain one, before it is known
//! what else the summary says.

use treering_core::Role;
use treering_core::sentence::SegmentKind;

use super::cues::SpeechAct;
use super::unit::{SourceDocument, Unit, refers_back};

/// Parameters of the selection. They are the same for every kind of text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    /// The share of its value that a term keeps once it is covered.
    pub(super) again: f32,
    /// The share of its gain that a unit keeps for each unit of its message that is selected, so
    /// that one long message does not fill the summary.
    pub(super) same: f32,
    /// Fixed cost of a unit, in characters.
    pub(super) fixed: f32,
    /// Minimum sum of a unit's term weights.
    pub(super) least: f32,
    /// Number of content words of a complete statement.
    pub(super) complete: usize,
    /// Factor of a sentence in which speakers talk about themselves and not about the listener.
    pub(super) own: f32,
    /// Factor of a sentence that only talks about the listener.
    pub(super) address: f32,
    /// Factor of a sentence that says when something happens.
    pub(super) dated: f32,
    /// Factor of what somebody wants.
    pub(super) wanted: f32,
    /// Factor of the first sentence of a reply to a question.
    pub(super) reply: f32,
    /// Factor of a sentence that refers to something outside the source.
    pub(super) dangling: f32,
    /// Bonus of the first unit of a conversation.
    pub(super) lead: f32,
    /// Exponential decay of that bonus per unit.
    pub(super) fade: f32,
}

pub(super) const WEIGHTS: Weights = Weights {
    again: 0.4,
    same: 0.8,
    fixed: 20.0,
    least: 1.0,
    complete: 8,
    own: 1.5,
    address: 0.6,
    dated: 1.5,
    wanted: 1.2,
    reply: 1.5,
    dangling: 0.5,
    lead: 1.0,
    fade: 0.5,
};

/// The factor of a unit that does not depend on the selected units.
pub(super) fn worth(document: &SourceDocument, unit: &Unit, index: usize) -> f32 {
    if let Some(worth) = unit.worth {
        // The longer the period, the more a decision outlives the details around it.
        return if unit.act == SpeechAct::Decision { 1.5 * worth } else { worth };
    }
    if unit.act == SpeechAct::Courtesy
        || unit.needs.is_none() && content(document, unit) < WEIGHTS.least
    {
        return 0.0;
    }
    let act = match unit.act {
        SpeechAct::Statement => 1.0,
        SpeechAct::Finding => 1.1,
        SpeechAct::Decision => 1.5,
        SpeechAct::Action => 1.2,
        SpeechAct::Open => 1.2,
        SpeechAct::Question if unit.unanswered => 0.9,
        SpeechAct::Question => 0.4,
        SpeechAct::Courtesy => 0.0,
    };
    let announces = if unit.text.ends_with(':') { 0.4 } else { 1.0 };
    let kind = match unit.kind {
        SegmentKind::Code if unit.is_note => 0.5,
        SegmentKind::Code => 0.15,
        SegmentKind::Heading => 0.3,
        SegmentKind::Prose | SegmentKind::Item => 1.0,
    };
    let role = match unit.speaker.map(|speaker| document.speakers[speaker].role) {
        Some(Role::Tool) => 0.4,
        Some(Role::System) => 0.3,
        _ => 1.0,
    };
    let person = match person(&unit.text) {
        Some(Person::Speaker) if unit.act != SpeechAct::Question => WEIGHTS.own,
        Some(Person::Listener) if unit.act == SpeechAct::Statement => WEIGHTS.address,
        _ => 1.0,
    };
    // Without the sentence that it refers to, it cannot stand alone.
    let refers =
        if unit.needs.is_none() && refers_back(&unit.text) { WEIGHTS.dangling } else { 1.0 };
    let reply = if unit.is_reply { WEIGHTS.reply } else { 1.0 };
    let dated = if unit.is_dated { WEIGHTS.dated } else { 1.0 };
    let wanted = if unit.is_wanted { WEIGHTS.wanted } else { 1.0 };
    let lead = WEIGHTS.lead * (-WEIGHTS.fade * index as f32).exp();
    act * announces * kind * role * person * refers * dated * wanted * reply * (1.0 + lead)
}

/// The factor of units that share a line: a line with few words is incomplete, unless it states
/// a decision. The points of a child have it in their worth.
pub(super) fn completeness<'a>(units: impl IntoIterator<Item = &'a Unit>) -> f32 {
    let words = |unit: &Unit| match unit.worth.is_some() || unit.act == SpeechAct::Decision {
        true => WEIGHTS.complete,
        false => unit.terms.len(),
    };
    let words: usize = units.into_iter().map(words).sum();
    words.min(WEIGHTS.complete) as f32 / WEIGHTS.complete as f32
}

/// The sum of a unit's term weights.
fn content(document: &SourceDocument, unit: &Unit) -> f32 {
    unit.terms.iter().map(|term| document.terms[*term as usize].weight).sum()
}

/// The person that a sentence is about.
#[derive(Debug, PartialEq)]
enum Person {
    Speaker,
    Listener,
}

/// The person that a sentence names with a pronoun, in English or French; `None` if it names
/// both.
fn person(text: &str) -> Option<Person> {
    let words = || text.split(|c: char| !c.is_alphabetic());
    let is_speaker = |word: &str| {
        matches!(
            word,
            "I" | "my"
                | "My"
                | "me"
                | "we"
                | "We"
                | "our"
                | "Our"
                | "us"
                | "je"
                | "Je"
                | "j"
                | "J"
                | "mon"
                | "Mon"
                | "ma"
                | "Ma"
                | "mes"
                | "Mes"
                | "moi"
                | "nous"
                | "Nous"
                | "notre"
                | "nos"
                | "on"
                | "On"
        )
    };
    let is_listener = |word: &str| {
        matches!(
            word,
            "you"
                | "You"
                | "your"
                | "Your"
                | "yours"
                | "tu"
                | "Tu"
                | "ton"
                | "ta"
                | "tes"
                | "toi"
                | "vous"
                | "Vous"
                | "votre"
                | "Votre"
                | "vos"
        )
    };
    match (words().any(is_speaker), words().any(is_listener)) {
        (true, false) => Some(Person::Speaker),
        (false, true) => Some(Person::Listener),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_about_their_speaker_or_their_listener() {
        for (text, expected) in [
            ("I sold the boat.", Some(Person::Speaker)),
            ("It's been hard for me lately.", Some(Person::Speaker)),
            ("I would love to see your boat.", None),
            ("Mes deux gauges sont en panne.", Some(Person::Speaker)),
            ("Your boat looks great!", Some(Person::Listener)),
            ("Vous avez un beau port.", Some(Person::Listener)),
            ("The boat is red.", None),
        ] {
            assert_eq!(person(text), expected, "{text}");
        }
    }
}
