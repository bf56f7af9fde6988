//! Children: the points of the nodes below, read as the units of a higher level. A line that quotes
//! several sentences is split again, so that a short summary can take the one that matters.

use treering_core::sentence::{self, SegmentKind};
use treering_core::{NodeContent, NodePassage, Point, Role};

use super::cues::{self, SpeechAct};
use super::unit::{SourceDocument, Speaker, Unit, refers_back};
use super::worth::WEIGHTS;

impl SourceDocument {
    /// Reads the points of a child.
    pub(super) fn read_points(&mut self, child: &NodePassage, passage: usize) {
        let from = self.units.len();
        let is_one_day = child.range_start.day() == child.range_end.day();
        let mut points = child.content.points();
        points.sort_by_key(Point::order);
        // Only the lines of the extractive summarizer are known to begin with their speaker.
        let is_labeled = !child.content.ranking.is_empty()
            && points.iter().all(|point| label(point.text).is_some());
        for (line, point) in points.iter().enumerate() {
            let day = match point.day {
                Some(day) => Some(day.to_owned()),
                None => is_one_day.then(|| self.day(child.range_start)).flatten(),
            };
            let first = self.units.len();
            match is_labeled.then(|| quoted_sentences(point.text)).flatten() {
                Some((name, sentences)) => {
                    self.read_sentences(point, passage, name, &sentences);
                }
                None => self.read_line(point, passage),
            }
            for unit in &mut self.units[first..] {
                (unit.line, unit.day) = (line, day.clone());
            }
        }
        self.mark(&child.content, from);
    }

    /// Reads a point as a whole.
    fn read_line(&mut self, point: &Point<'_>, passage: usize) {
        let name = label(point.text).map(|(name, _)| name.to_owned());
        self.names.extend(name);
        let mut unit = Unit::new(passage, None, point.text.to_owned(), SegmentKind::Item);
        unit.terms = self.terms_of(point.text);
        unit.worth = Some(point.worth as f32 / 100.0);
        self.push(unit);
    }

    /// Reads the sentences of a point.
    fn read_sentences(
        &mut self,
        point: &Point<'_>,
        passage: usize,
        name: &str,
        sentences: &[&str],
    ) {
        let speaker = Speaker { name: name.to_owned(), role: Role::User, is_named: true };
        let speaker = self.speaker_index(speaker);
        let words = self.terms_of(point.text).len().clamp(1, WEIGHTS.complete) as f32;
        let mut before = None;
        for said in sentences {
            let mut unit = Unit::new(passage, Some(speaker), (*said).to_owned(), SegmentKind::Item);
            unit.terms = self.terms_of(said);
            // A part of a point says less than the whole.
            let share = unit.terms.len().min(WEIGHTS.complete) as f32 / words;
            unit.worth = Some(point.worth as f32 / 100.0 * share.min(1.0));
            unit.needs = before.filter(|_| refers_back(said));
            before = Some(self.push(unit));
        }
    }

    /// Sets the speech acts of a child's units, which are those after `from`, from the child's
    /// lists.
    fn mark(&mut self, content: &NodeContent, from: usize) {
        let marks = [
            (&content.key_findings, SpeechAct::Finding),
            (&content.unresolved, SpeechAct::Open),
            (&content.action_items, SpeechAct::Action),
            (&content.decisions, SpeechAct::Decision),
        ];
        let speakers = &self.speakers;
        for unit in &mut self.units[from..] {
            let name = unit.speaker.map(|speaker| speakers[speaker].name.as_str());
            let is_item = |item: &String| match (name, label(item)) {
                (Some(name), Some((speaker, said))) => name == speaker && unit.text == said,
                _ => unit.text.ends_with(item.as_str()),
            };
            for (list, act) in marks {
                if list.iter().any(is_item) {
                    unit.act = act;
                    unit.unanswered |= act == SpeechAct::Open;
                }
            }
            let (name, said) = match name {
                Some(name) => (name, unit.text.as_str()),
                None => label(&unit.text).unwrap_or(("", &unit.text)),
            };
            unit.is_wanted = cues::is_wanted(name, said, unit.act);
        }
    }
}

/// The speaker and the sentences of a line such as `Ana: I sold the boat. It was old.` `None` if
/// others speak in it too: an answer stays with its question.
fn quoted_sentences(line: &str) -> Option<(&str, Vec<&str>)> {
    let (name, said) = label(line)?;
    let sentences: Vec<&str> = sentence::split(said).iter().map(|segment| segment.text).collect();
    let is_dialogue = sentences.iter().any(|sentence| label(sentence).is_some());
    (!is_dialogue && !sentences.is_empty()).then_some((name, sentences))
}

/// The label before a quotation, and the quotation: `Ana: …`.
fn label(text: &str) -> Option<(&str, &str)> {
    let (label, said) = text.split_once(": ")?;
    let name = label.rsplit(", ").next().unwrap_or(label);
    let is_name =
        name.split(' ').count() <= 3 && name.starts_with(|c: char| c.is_uppercase() || c == '#');
    is_name.then_some((name, said))
}
