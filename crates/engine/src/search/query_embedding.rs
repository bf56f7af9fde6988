//! Query embeddings. A remote model gets a short timeout, and its circuit breaker opens if it
//! does not answer; until it closes, search uses words only.

use std::sync::mpsc;
use std::time::Duration;

use treering_core::embedding_text;

use crate::engine::Engine;

impl Engine {
    /// The query's embedding by the model of an index, or the reason why there is none.
    pub(super) fn embed_query(
        &self,
        text: &str,
        model: &str,
        dims: usize,
    ) -> (Vec<f32>, Option<String>) {
        let embedded = match self.embedder_named(model) {
            Some(_) if dims == 0 => Err(format!("{model:?} has not returned a vector yet")),
            Some(embedder) if embedder.is_remote() => self.embed_query_with_timeout(model, text),
            Some(_) => self.embed_query_text(model, text),
            None => Err(format!(
                "the stored vectors come from the model {model:?}, which is not configured"
            )),
        };
        match embedded {
            Ok(vector) if vector.len() == dims => (vector, None),
            Ok(_) => (
                vec![0.0; dims],
                Some(format!("{model:?} returned no vector with {dims} dimensions")),
            ),
            Err(reason) => (vec![0.0; dims], Some(reason)),
        }
    }

    /// Asks a remote model with a timeout. A late answer still closes the circuit breaker.
    fn embed_query_with_timeout(&self, model: &str, text: &str) -> Result<Vec<f32>, String> {
        let now = self.clock().now();
        if let Some((seconds, reason)) = self.circuit_breakers().left(model, now) {
            return Err(format!("{reason}; {model:?} is called again in {seconds} s"));
        }
        let timeout = Duration::from_millis(self.work().query_timeout_ms.max(1));
        let (sender, receiver) = mpsc::channel();
        let (engine, model_name, text) = (self.clone(), model.to_owned(), text.to_owned());
        // The receiver may have timed out before the answer arrives.
        std::thread::spawn(move || drop(sender.send(engine.embed_query_text(&model_name, &text))));
        receiver.recv_timeout(timeout).unwrap_or_else(|_| {
            let reason = format!("{model:?} did not answer within {} ms", timeout.as_millis());
            self.circuit_breakers().call_failed(model, now, &reason);
            Err(reason)
        })
    }

    fn embed_query_text(&self, model: &str, text: &str) -> Result<Vec<f32>, String> {
        let embedder =
            self.embedder_named(model).ok_or_else(|| format!("there is no model {model:?}"))?;
        let text = embedding_text::truncated(text, self.embed_text_options().max_chars);
        let texts = [&*text];
        let meter = self.spend_meter(None);
        let embedded = self.with_circuit_breaker(model, || embedder.embed_metered(&texts, &meter));
        meter.log_redactions(&format!("called {model} for the vector of a question"));
        let mut vectors = embedded.map_err(|error| error.reason)?;
        vectors.pop().ok_or_else(|| format!("{model:?} returned no vector"))
    }
}
