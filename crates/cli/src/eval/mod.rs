//! Measures retrieval on data sets: how well search ranks the evidence for each question. The
//! figures are defined as in the data sets' own scorer.

mod answerability;
mod context;
mod data;
mod metrics;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use treering_core::fusion::MIN_SCORE;
use treering_core::ports::{JobFilter, Span};
use treering_core::{ConversationId, MessageIdx};
use treering_engine::{Error, Hit, HitItem, JobScope, Query, Worker};

use treering::import::{ImportOptions, Importer};
use treering::{Engine, Options};

use answerability::best_score;

pub(crate) use answerability::Answerability;
pub(crate) use context::{ContextMethod, EvalContexts};
pub(crate) use data::{DatasetError, EvalQuestion, Haystack, read};
pub(crate) use metrics::{MetricSums, RankedUnit};

/// The number of turns ranked for each question.
pub(crate) const RANKED: usize = 100;

/// A question and its ranking.
#[derive(Debug, Clone)]
pub(crate) struct QuestionResult {
    /// The question's id.
    pub(crate) id: String,
    /// Ids of the ranked turns, best first.
    pub(crate) turns: Vec<String>,
    /// The score of the best hit.
    pub(crate) score: f32,
    /// The context built for the question, if contexts are measured.
    pub(crate) context: Option<String>,
}

/// Measurements over one or more haystacks.
#[derive(Debug, Default)]
pub(crate) struct EvalResult {
    /// Metrics by ranked unit and category; `ALL` covers every category.
    pub(crate) figures: BTreeMap<(RankedUnit, String), MetricSums>,
    /// Every question and its ranking.
    pub(crate) answered: Vec<QuestionResult>,
    /// Every question asked of a history that cannot answer it, with its best score.
    pub(crate) unanswered: Vec<(String, f32)>,
    /// The search time of each question.
    pub(crate) times: Vec<Duration>,
    /// The number of turns searched.
    pub(crate) turns: usize,
    /// The number of nodes in the trees over them.
    pub(crate) nodes: u64,
    /// The figures of the contexts, if they are measured.
    pub(crate) contexts: Option<EvalContexts>,
    /// The figures of questions with and without an answer, if they are measured.
    pub(crate) answerability: Option<Answerability>,
}

impl EvalResult {
    /// The given percentile of the search time; `quantile` is between 0 and 1.
    #[must_use]
    pub(crate) fn percentile(&self, quantile: f64) -> Duration {
        let mut times = self.times.clone();
        times.sort_unstable();
        let index = (times.len().saturating_sub(1)) as f64 * quantile;
        times.get(index as usize).copied().unwrap_or_default()
    }
}

/// Imports the haystacks of a file into an empty home, builds their trees and asks their
/// questions, and those that they cannot answer.
pub(crate) fn measure(
    path: &Path,
    text: &str,
    unanswerable: &[EvalQuestion],
    home: &Path,
    options: &Options,
    measured: &mut EvalResult,
    mut progress: impl FnMut(),
) -> Result<(), EvalError> {
    let haystacks = read(text)?;
    let engine = treering::open_engine_with(home, options.clone())?;
    let runner = Importer { engine: &engine, options: ImportOptions::default() };
    let name =
        path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let report = runner.text(&name, text.to_owned())?;
    if let Some(error) = report.error {
        return Err(EvalError::Import(error));
    }
    Worker::new(engine.clone())?.run(&JobScope::default(), &|_, _| {})?;
    if let Some(job) = engine.jobs(&JobFilter::all(1))?.pop() {
        return Err(EvalError::Unfinished(job.error.unwrap_or_else(|| job.kind.to_string())));
    }
    measured.nodes += engine.verify(|_| ())?.nodes;
    for haystack in &haystacks {
        ask(&engine, haystack, unanswerable, measured, &mut progress)?;
    }
    Ok(())
}

impl data::EvalQuestion {
    /// The query for turns of the question's conversation. The ranking does not depend on the
    /// minimum score, which is applied later.
    fn query(&self, conversation: ConversationId) -> Query {
        Query {
            text: self.text.clone(),
            conversations: vec![conversation],
            levels: vec![0],
            limit: RANKED,
            min_score: Some(0.0),
            ..Query::default()
        }
    }
}

fn ask(
    engine: &Engine,
    haystack: &Haystack,
    unanswerable: &[EvalQuestion],
    measured: &mut EvalResult,
    progress: &mut dyn FnMut(),
) -> Result<(), EvalError> {
    let sessions =
        engine.listed_conversations(&treering_core::ports::ConversationFilter::all(usize::MAX))?;
    let titled = sessions.into_iter().map(|session| session.conversation);
    let conversation =
        titled.into_iter().find(|it| it.title.as_deref() == Some(haystack.title.as_str()));
    let conversation = conversation.ok_or_else(|| EvalError::Missing(haystack.title.clone()))?;
    let messages = engine.messages(conversation.id, Span::starting(MessageIdx(0), usize::MAX))?;
    measured.turns += messages.len();
    let session_of: HashMap<&str, &str> =
        haystack.turns.iter().map(|(turn, session)| (turn.as_str(), session.as_str())).collect();
    for question in &haystack.questions {
        let query = question.query(conversation.id);
        let started = Instant::now();
        let answer = engine.search(&query)?;
        let elapsed = started.elapsed();
        if let Some(reason) = answer.lexical_only_reason {
            return Err(EvalError::Unfinished(reason));
        }
        let is_evidence =
            |hit: &Hit| turn_id(hit).is_some_and(|id| question.gold_turns.contains(&id));
        if let Some(answerability) = &mut measured.answerability {
            let first: Vec<bool> = answer.hits.iter().take(10).map(is_evidence).collect();
            answerability.add_answerable(&answer.hits, &first);
        }
        let score = best_score(&answer.hits);
        let is_returned = |hit: &&Hit| hit.score >= MIN_SCORE;
        let turns: Vec<String> =
            answer.hits.iter().filter(is_returned).filter_map(turn_id).collect();
        measured.count(question, &turns, &session_of);
        measured.times.push(elapsed);
        let context = match &mut measured.contexts {
            Some(contexts) => Some(contexts.ask(engine, &conversation, &messages, question)?),
            None => None,
        };
        measured.answered.push(QuestionResult { id: question.id.clone(), turns, score, context });
        progress();
    }
    for question in unanswerable {
        let hits = engine.search(&question.query(conversation.id))?.hits;
        if let Some(answerability) = &mut measured.answerability {
            answerability.add_unanswerable(&hits);
        }
        measured.unanswered.push((question.id.clone(), best_score(&hits)));
        progress();
    }
    Ok(())
}

/// The id of a turn in its data set.
fn turn_id(hit: &Hit) -> Option<String> {
    match &hit.item {
        HitItem::Message(message) => message.body.external_id.as_ref().map(ToString::to_string),
        HitItem::ToolCall(_) | HitItem::Node(_) => None,
    }
}

impl EvalResult {
    fn count(
        &mut self,
        question: &data::EvalQuestion,
        turns: &[String],
        session_of: &HashMap<&str, &str>,
    ) {
        let turns: Vec<&str> = turns.iter().map(String::as_str).collect();
        let mut sessions: Vec<&str> = Vec::new();
        for session in turns.iter().filter_map(|turn| session_of.get(turn)) {
            if !sessions.contains(session) {
                sessions.push(session);
            }
        }
        let levels = [
            (RankedUnit::Turn, turns, &question.gold_turns),
            (RankedUnit::Session, sessions, &question.gold_sessions),
        ];
        for (level, ranked, gold) in levels {
            if gold.is_empty() {
                continue;
            }
            for category in ["ALL", &question.category] {
                self.figures.entry((level, category.to_owned())).or_default().add(&ranked, gold);
            }
        }
    }
}

/// An error that ends a measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EvalError {
    /// The file is not in a known format.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The engine failed.
    #[error(transparent)]
    Memory(#[from] Error),
    /// The file could not be imported.
    #[error("cannot import the file: {0}")]
    Import(String),
    /// The file could not be read.
    #[error(transparent)]
    Unreadable(#[from] treering::importers::ImportError),
    /// A model failed. MetricSums from a fallback would measure something else.
    #[error("a model failed: {0}")]
    Unfinished(String),
    /// The imported conversation is not in the store.
    #[error("the conversation {0:?} was not imported")]
    Missing(String),
}
