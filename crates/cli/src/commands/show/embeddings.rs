//! `treering show --embeddings`: prints the embeddings of turns.

use std::io;

use serde::Serialize;
use treering_engine::TurnEmbedding;

use crate::commands::CliError;
use crate::commands::output::{Output, fit, print_dim, width};

/// The embedding of a turn.
#[derive(Serialize)]
struct EmbeddingView<'a> {
    turn: u32,
    model: &'a str,
    embedding_hash: String,
    text: &'a str,
    embedding: &'a [f32],
}

impl<'a> EmbeddingView<'a> {
    fn of(embedding: &'a TurnEmbedding) -> Self {
        Self {
            turn: embedding.turn.0,
            model: &embedding.model,
            embedding_hash: embedding.hash.to_string(),
            text: &embedding.text,
            embedding: &embedding.vector,
        }
    }
}

pub(super) fn print(
    embeddings: &[TurnEmbedding],
    full: bool,
    output: &Output,
) -> Result<(), CliError> {
    let views: Vec<EmbeddingView<'_>> = embeddings.iter().map(EmbeddingView::of).collect();
    output.show(&views, |out| {
        for view in &views {
            let EmbeddingView { turn, model, embedding_hash, .. } = view;
            let dimensions = view.embedding.len();
            let header =
                format!("turn {turn} · {model} · {dimensions} dimensions · {embedding_hash}");
            print_dim(out, "", &header)?;
            for line in view.text.lines() {
                let line =
                    if full { line.to_owned() } else { fit(line, width().saturating_sub(2)) };
                writeln!(out, "  {line}")?;
            }
        }
        Ok::<(), io::Error>(())
    })?;
    Ok(())
}
