//! Measures contexts: how much of the evidence for a question a context of a given budget holds,
//! and whether it holds the answer. The same run measures two simple baselines: the latest turns
//! that fit and the best hits that fit.

use std::time::{Duration, Instant};

use treering::Bpe;
use treering_core::packing::DetailLevel;
use treering_core::sentence::split;
use treering_core::{Conversation, Message, Tokenizer as _};
use treering_engine::{ContextRequest, HitItem};

use super::EvalError;
use super::data::EvalQuestion;
use treering::Engine;

/// Maximum number of words of an answer that is matched verbatim.
const ANSWER_WORDS: usize = 6;
/// Minimum number of words of a sentence that counts as quoted.
const QUOTED_WORDS: usize = 4;

/// A method of building a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContextMethod {
    /// The default profile.
    Cut,
    /// The latest turns that fit.
    Latest,
    /// The best hits that fit.
    Hits,
}

impl ContextMethod {
    /// Every method.
    pub(crate) const ALL: [Self; 3] = [Self::Cut, Self::Latest, Self::Hits];

    /// The name in reports.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Latest => "latest turns that fit",
            Self::Hits => "best hits that fit",
        }
    }
}

/// A running sum and its number of values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mean(f64, u32);

impl Mean {
    fn add(&mut self, value: f64) {
        *self = Self(self.0 + value, self.1 + 1);
    }

    /// The mean in percent.
    #[must_use]
    pub(crate) fn mean(&self) -> f64 {
        100.0 * self.0 / f64::from(self.1.max(1))
    }

    /// The number of values.
    #[must_use]
    pub(crate) const fn count(&self) -> u32 {
        self.1
    }
}

/// The figures of one method.
#[derive(Debug, Default)]
pub(crate) struct ContextSums {
    /// Share of the evidence that the context holds verbatim.
    pub(crate) gold_raw: Mean,
    /// Share of the evidence that the context holds verbatim or quotes in a summary.
    pub(crate) gold_any: Mean,
    /// Share of the questions whose answer the context holds verbatim.
    pub(crate) answer: Mean,
    /// Share of the history that the context covers, at any level of detail.
    pub(crate) cover: Mean,
    /// Share of the budget that is used.
    pub(crate) filled: Mean,
    times: Vec<Duration>,
}

impl ContextSums {
    /// The median time to build a context, in microseconds.
    #[must_use]
    pub(crate) fn median_us(&self) -> u64 {
        let mut times = self.times.clone();
        times.sort_unstable();
        times
            .get(times.len() / 2)
            .map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The figures of every method for one budget.
#[derive(Debug)]
pub(crate) struct EvalContexts {
    /// Maximum number of tokens in a context.
    pub(crate) budget: u32,
    sums: [ContextSums; 3],
}

/// A context with the data that the figures need.
#[derive(Default)]
struct MeasuredContext {
    text: String,
    tokens: u32,
    /// Positions of the messages that are included verbatim.
    raw: Vec<u32>,
    /// Ranges of messages that are covered by other text, with that text.
    covered: Vec<(u32, u32, String)>,
}

impl EvalContexts {
    /// No measurements yet.
    #[must_use]
    pub(crate) fn new(budget: u32) -> Self {
        Self { budget, sums: Default::default() }
    }

    /// The figures of one method.
    #[must_use]
    pub(crate) const fn of(&self, method: ContextMethod) -> &ContextSums {
        &self.sums[method as usize]
    }

    /// Builds a context for a question with each method. Returns the text of the cut.
    pub(super) fn ask(
        &mut self,
        engine: &Engine,
        conversation: &Conversation,
        messages: &[Message],
        question: &EvalQuestion,
    ) -> Result<String, EvalError> {
        let mut text = String::new();
        for method in ContextMethod::ALL {
            let started = Instant::now();
            let context = match method {
                ContextMethod::Cut => self.cut(engine, conversation, question)?,
                ContextMethod::Latest => self.fitting(messages.iter().rev(), true),
                ContextMethod::Hits => {
                    let hits = engine.search(&question.query(conversation.id))?.hits;
                    let found = hits.iter().filter_map(|hit| match &hit.item {
                        HitItem::Message(message) => Some(&**message),
                        HitItem::ToolCall(_) | HitItem::Node(_) => None,
                    });
                    self.fitting(found, false)
                }
            };
            self.count(method, &context, messages, question, started.elapsed());
            if method == ContextMethod::Cut {
                text = context.text;
            }
        }
        Ok(text)
    }

    fn cut(
        &self,
        engine: &Engine,
        conversation: &Conversation,
        question: &EvalQuestion,
    ) -> Result<MeasuredContext, EvalError> {
        let mut request = ContextRequest::new(conversation.id);
        request.query = Some(question.text.clone());
        request.budget = self.budget;
        let context = engine.context(&request)?;
        let mut measured = MeasuredContext {
            text: context.markdown(),
            tokens: context.receipt.tokens,
            ..MeasuredContext::default()
        };
        let blocks = context.sections.iter().flat_map(|section| &section.items);
        for (item, block) in context.receipt.items.iter().zip(blocks) {
            match (item.level, item.detail) {
                (0, DetailLevel::Text) => measured.raw.push(item.from),
                _ => measured.covered.push((item.from, item.until, norm(&block.block))),
            }
        }
        Ok(measured)
    }

    /// Packs messages in order while they fit. The first one that does not fit ends the context
    /// if `stop_when_full` is set, and is skipped otherwise.
    fn fitting<'m>(
        &self,
        messages: impl Iterator<Item = &'m Message>,
        stop_when_full: bool,
    ) -> MeasuredContext {
        let mut context = MeasuredContext::default();
        for message in messages {
            let author = message.body.author.as_deref().unwrap_or(message.body.role.as_str());
            // The same metadata as the cut gives for a recalled message, for a fair comparison.
            let day = &message.body.at.to_minute()[..10];
            let line = format!("#{} · {day} · {author}: {}\n", message.idx.0, message.body.text);
            let tokens = Bpe::O200k.count(&line);
            if context.tokens + tokens > self.budget {
                if stop_when_full {
                    break;
                }
                continue;
            }
            context.tokens += tokens;
            context.text.push_str(&line);
            context.raw.push(message.idx.0);
        }
        context
    }

    fn count(
        &mut self,
        method: ContextMethod,
        context: &MeasuredContext,
        messages: &[Message],
        question: &EvalQuestion,
        elapsed: Duration,
    ) {
        let sums = &mut self.sums[method as usize];
        sums.times.push(elapsed);
        sums.filled.add(f64::from(context.tokens) / f64::from(self.budget.max(1)));
        let is_covered = |idx: u32| {
            context.raw.contains(&idx)
                || context.covered.iter().any(|(from, until, _)| (*from..*until).contains(&idx))
        };
        let covered = messages.iter().filter(|message| is_covered(message.idx.0)).count();
        sums.cover.add(covered as f64 / messages.len().max(1) as f64);
        let mut gold: Vec<&Message> = messages
            .iter()
            .filter(|message| {
                let id = message.body.external_id.as_ref();
                id.is_some_and(|id| question.gold_turns.iter().any(|gold| gold == id.as_str()))
            })
            .collect();
        gold.dedup_by_key(|message| message.idx);
        if !gold.is_empty() {
            let raw = gold.iter().filter(|message| context.raw.contains(&message.idx.0)).count();
            let verbatim_or_quoted = gold
                .iter()
                .filter(|message| context.raw.contains(&message.idx.0) || context.quotes(message));
            sums.gold_raw.add(raw as f64 / gold.len() as f64);
            sums.gold_any.add(verbatim_or_quoted.count() as f64 / gold.len() as f64);
        }
        let answer = norm(&question.answer);
        if (1..=ANSWER_WORDS).contains(&answer.split_whitespace().count()) {
            let has_answer = format!(" {} ", norm(&context.text)).contains(&format!(" {answer} "));
            sums.answer.add(f64::from(u8::from(has_answer)));
        }
    }
}

impl MeasuredContext {
    /// Whether a text that covers the message quotes one of its sentences.
    fn quotes(&self, message: &Message) -> bool {
        let idx = message.idx.0;
        let over = self.covered.iter().filter(|(from, until, _)| (*from..*until).contains(&idx));
        let over: Vec<&String> = over.map(|(_, _, text)| text).collect();
        split(&message.body.text).iter().any(|piece| {
            let sentence = norm(piece.text);
            let long = sentence.split_whitespace().count() >= QUOTED_WORDS;
            long && over.iter().any(|text| text.contains(&sentence))
        })
    }
}

/// Lowercase words and numbers, as the data sets' own scorer normalizes them.
fn norm(text: &str) -> String {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
