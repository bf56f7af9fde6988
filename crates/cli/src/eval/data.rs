//! Parses questions and their evidence from the formats of the data sets.

use serde::Deserialize;
use serde_json::Value;

/// A history and the questions about it.
#[derive(Debug)]
pub(crate) struct Haystack {
    /// The title of the imported conversation.
    pub(crate) title: String,
    /// The id of each turn and of its session.
    pub(crate) turns: Vec<(String, String)>,
    /// The questions.
    pub(crate) questions: Vec<EvalQuestion>,
}

/// A question and its evidence.
#[derive(Debug)]
pub(crate) struct EvalQuestion {
    /// The question's id.
    pub(crate) id: String,
    /// The question itself.
    pub(crate) text: String,
    /// The category of the question.
    pub(crate) category: String,
    /// Ids of the turns that answer it.
    pub(crate) gold_turns: Vec<String>,
    /// Ids of the sessions that answer it.
    pub(crate) gold_sessions: Vec<String>,
    /// The expected answer; empty if there is none.
    pub(crate) answer: String,
}

/// An answer as text, whatever its JSON type.
fn in_words(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// A file in none of the known formats.
#[derive(Debug, thiserror::Error)]
#[error("not a haystack, LoCoMo or LongMemEval file: {0}")]
pub(crate) struct DatasetError(String);

impl From<serde_json::Error> for DatasetError {
    fn from(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

/// Parses the haystacks of a file.
pub(crate) fn read(text: &str) -> Result<Vec<Haystack>, DatasetError> {
    let value: Value = serde_json::from_str(text)?;
    if value.get("haystack").is_some() {
        let haystack: EvalFile = serde_json::from_value(value)?;
        return Ok(vec![haystack.into()]);
    }
    let first = value.get(0).ok_or_else(|| DatasetError("expected a list of samples".into()))?;
    if first.get("sample_id").is_some() {
        let samples: Vec<Locomo> = serde_json::from_value(value)?;
        return samples.into_iter().map(TryInto::try_into).collect();
    }
    if first.get("haystack_sessions").is_some() {
        let instances: Vec<LongMemEval> = serde_json::from_value(value)?;
        return Ok(instances.into_iter().map(Into::into).collect());
    }
    Err(DatasetError("unknown sample format".into()))
}

#[derive(Deserialize)]
struct EvalFile {
    haystack: String,
    turns: Vec<EvalTurn>,
    questions: Vec<EvalFileQuestion>,
}

#[derive(Deserialize)]
struct EvalTurn {
    id: String,
    session: String,
}

#[derive(Deserialize)]
struct EvalFileQuestion {
    id: String,
    text: String,
    category: String,
    #[serde(default)]
    gold_turns: Vec<String>,
    #[serde(default)]
    gold_sessions: Vec<String>,
    #[serde(default)]
    answer: Value,
}

impl From<EvalFile> for Haystack {
    fn from(file: EvalFile) -> Self {
        let to_question = |question: EvalFileQuestion| EvalQuestion {
            id: question.id,
            text: question.text,
            category: question.category,
            gold_turns: question.gold_turns,
            gold_sessions: question.gold_sessions,
            answer: in_words(&question.answer),
        };
        Self {
            title: file.haystack,
            turns: file.turns.into_iter().map(|turn| (turn.id, turn.session)).collect(),
            questions: file.questions.into_iter().map(to_question).collect(),
        }
    }
}

#[derive(Deserialize)]
struct Locomo {
    sample_id: String,
    conversation: serde_json::Map<String, Value>,
    qa: Vec<LocomoQuestion>,
}

#[derive(Deserialize)]
struct LocomoQuestion {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: u8,
    #[serde(default)]
    answer: Value,
}

impl TryFrom<Locomo> for Haystack {
    type Error = DatasetError;
    fn try_from(sample: Locomo) -> Result<Self, DatasetError> {
        let mut turns = Vec::new();
        for (session, value) in &sample.conversation {
            for turn in value.as_array().into_iter().flatten() {
                let id = turn.get("dia_id").and_then(Value::as_str);
                let id = id.ok_or_else(|| DatasetError("a turn has no dia_id".into()))?;
                turns.push((id.to_owned(), session.clone()));
            }
        }
        let session_of = |turn: &String| {
            turns.iter().find(|(id, _)| id == turn).map(|(_, session)| session.clone())
        };
        let to_question = |(number, question): (usize, LocomoQuestion)| {
            let answer = in_words(&question.answer);
            let known = question.evidence.into_iter().filter(|turn| session_of(turn).is_some());
            let gold_turns: Vec<String> = known.collect();
            let mut gold_sessions: Vec<String> = gold_turns.iter().filter_map(session_of).collect();
            gold_sessions.sort_unstable();
            gold_sessions.dedup();
            EvalQuestion {
                id: format!("{}-q{number}", sample.sample_id),
                text: question.question,
                category: format!("category-{}", question.category),
                gold_turns,
                gold_sessions,
                answer,
            }
        };
        let questions = sample.qa.into_iter().enumerate().map(to_question).collect();
        Ok(Self { title: sample.sample_id.clone(), turns, questions })
    }
}

#[derive(Deserialize)]
struct LongMemEval {
    question_id: String,
    question_type: String,
    question: String,
    #[serde(default)]
    answer: Value,
    haystack_session_ids: Vec<String>,
    haystack_sessions: Vec<Vec<LongMemEvalTurn>>,
    answer_session_ids: Vec<String>,
}

#[derive(Deserialize)]
struct LongMemEvalTurn {
    #[serde(default)]
    has_answer: bool,
}

impl From<LongMemEval> for Haystack {
    fn from(instance: LongMemEval) -> Self {
        let (mut turns, mut gold_turns) = (Vec::new(), Vec::new());
        for (session, session_turns) in
            instance.haystack_session_ids.iter().zip(&instance.haystack_sessions)
        {
            for (number, turn) in session_turns.iter().enumerate() {
                let id = format!("{session}#{number}");
                if turn.has_answer {
                    gold_turns.push(id.clone());
                }
                turns.push((id, session.clone()));
            }
        }
        let question = EvalQuestion {
            id: instance.question_id.clone(),
            text: instance.question,
            category: instance.question_type,
            gold_turns,
            gold_sessions: instance.answer_session_ids,
            answer: in_words(&instance.answer),
        };
        Self {
            title: format!("longmemeval {}", instance.question_id),
            turns,
            questions: vec![question],
        }
    }
}
