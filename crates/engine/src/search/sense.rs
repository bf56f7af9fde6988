//! Sense: what a question means to the model of an index. A model beyond this machine is not waited for long, and one
//! that does not answer is left in peace for a while: the words alone decide meanwhile.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock, mpsc};
use std::time::Duration;

use treering_core::Timestamp;

use super::arena::Arena;
use super::text;
use crate::memory::Memory;

/// How long a model rests after it failed once, in seconds; twice as long after each further time.
const REST: i64 = 15;
/// How long it rests at the most.
const LONGEST_REST: i64 = 300;

/// The models that have not answered.
#[derive(Default)]
pub(crate) struct Rests(Mutex<HashMap<String, Rest>>);

struct Rest {
    failures: u32,
    until: Timestamp,
    why: String,
}

impl Rests {
    /// How long a model still rests, in seconds, and why.
    fn left(&self, model: &str, now: Timestamp) -> Option<(u64, String)> {
        let rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = rests.get(model)?;
        let micros = u64::try_from(rest.until.as_micros() - now.as_micros()).ok().filter(|left| *left > 0)?;
        Some((micros.div_ceil(1_000_000), rest.why.clone()))
    }

    fn failed(&self, model: &str, now: Timestamp, why: &str) {
        let mut rests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = rests.get(model).map_or(0, |rest| rest.failures);
        let seconds = REST.saturating_mul(1 << failures.min(16)).min(LONGEST_REST);
        let until = now.plus_micros(seconds * 1_000_000);
        rests.insert(model.to_owned(), Rest { failures: failures + 1, until, why: why.to_owned() });
    }

    fn answered(&self, model: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(model);
    }
}

impl Memory {
    /// What a question means to the model of an arena, or why that cannot be said.
    pub(super) fn sense_of(&self, text: &str, arena: &RwLock<Arena>) -> (Vec<f32>, Option<String>) {
        let (model, dims) = {
            let arena = arena.read().unwrap_or_else(PoisonError::into_inner);
            (arena.model.clone(), arena.dims)
        };
        let asked = match self.embedder_named(&model) {
            Some(_) if dims == 0 => Err(format!("{model:?} has given no vector yet")),
            Some(embedder) if embedder.is_remote() => self.ask_patiently(&model, text),
            Some(_) => self.ask_for_vector(&model, text),
            None => Err(format!("the vectors are of the model {model:?}, which is not configured here")),
        };
        match asked {
            Ok(vector) if vector.len() == dims => (vector, None),
            Ok(_) => (vec![0.0; dims], Some(format!("{model:?} gave no vector of {dims} numbers"))),
            Err(why) => (vec![0.0; dims], Some(why)),
        }
    }

    /// Asks a model beyond this machine, no longer than a question can wait. What comes later is not lost: it ends the
    /// rest of the model.
    fn ask_patiently(&self, model: &str, text: &str) -> Result<Vec<f32>, String> {
        let now = self.clock().now();
        if let Some((seconds, why)) = self.rests().left(model, now) {
            return Err(format!("{why}; {model:?} is asked again in {seconds} s"));
        }
        let patience = Duration::from_millis(self.work().query_timeout_ms.max(1));
        let (tell, told) = mpsc::channel();
        let (memory, asked, text) = (self.clone(), model.to_owned(), text.to_owned());
        std::thread::spawn(move || {
            let answer = memory.ask_for_vector(&asked, &text);
            // Who waited in vain has noted that already.
            let Err(mpsc::SendError(answer)) = tell.send(answer) else { return };
            if answer.is_ok() {
                memory.rests().answered(&asked);
            }
        });
        let late = || Err(format!("{model:?} did not answer within {} ms", patience.as_millis()));
        let answer = told.recv_timeout(patience).unwrap_or_else(|_| late());
        match &answer {
            Ok(_) => self.rests().answered(model),
            Err(why) => self.rests().failed(model, now, why),
        }
        answer
    }

    fn ask_for_vector(&self, model: &str, text: &str) -> Result<Vec<f32>, String> {
        let embedder = self.embedder_named(model).ok_or_else(|| format!("there is no model {model:?}"))?;
        let vectors = embedder.embed_metered(&[text::longest_embedded(text)], &self.purse(None));
        let mut vectors = vectors.map_err(|error| error.reason)?;
        vectors.pop().ok_or_else(|| format!("{model:?} gave no vector"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_fails_rests_longer_each_time_and_none_for_ever() {
        let rests = Rests::default();
        let mut now = Timestamp::from_micros(0);
        assert_eq!(rests.left("m", now), None);
        for seconds in [15, 30, 60, 120, 240, 300, 300] {
            rests.failed("m", now, "down");
            assert_eq!(rests.left("m", now), Some((seconds, "down".to_owned())));
            assert_eq!(rests.left("other", now), None);
            now = now.plus_micros(i64::try_from(seconds).unwrap() * 1_000_000);
            assert_eq!(rests.left("m", now), None, "then it is asked again");
        }
        rests.answered("m");
        rests.failed("m", now, "down");
        assert_eq!(rests.left("m", now), Some((15, "down".to_owned())), "an answer makes good");
    }
}
