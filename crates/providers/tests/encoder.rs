//! Compares the encoder with reference vectors from PyTorch (`tools/encoder`).
//! `TREERING_ENCODER` names its folder.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};

use treering_core::Embedder;
use treering_providers::Encoder;

/// The encoder's folder. Without it, the tests are skipped.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("TREERING_ENCODER").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: TREERING_ENCODER names no folder; tools/encoder/make makes one");
    }
    folder
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn expected() -> Vec<(String, Vec<f32>)> {
    let read = |line: &str| {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let hex = case["vector"].as_str().unwrap();
        let number =
            |at: usize| f32::from(u16::from_str_radix(&hex[at..at + 4], 16).unwrap() as i16);
        let vector: Vec<f32> = (0..hex.len()).step_by(4).map(number).collect();
        let norm = dot(&vector, &vector).sqrt();
        (case["text"].as_str().unwrap().to_owned(), vector.iter().map(|x| x / norm).collect())
    };
    include_str!("fixtures/encoder-expected.jsonl").lines().map(read).collect()
}

#[test]
fn single_and_batched_vectors_match_the_reference() {
    let Some(folder) = folder() else { return };
    let encoder = Encoder::open(&folder).unwrap();
    let cases = expected();
    let texts: Vec<&str> = cases.iter().map(|(text, _)| text.as_str()).collect();
    // Repeat the texts so that they fill several batches.
    let batched = encoder.embed(&texts.repeat(3)).unwrap();
    for (at, vector) in batched.iter().enumerate() {
        let (text, expected) = &cases[at % cases.len()];
        let agreement = dot(vector, expected);
        assert!((agreement - 1.0).abs() < 1e-5, "{agreement} for {text:?}");
    }
    for (text, expected) in cases.iter().take(4) {
        let agreement = dot(&encoder.embed(&[text]).unwrap()[0], expected);
        assert!((agreement - 1.0).abs() < 1e-5, "{agreement} for {text:?} alone");
    }
}

#[test]
fn empty_texts_give_zeros_and_order_is_kept() {
    let Some(folder) = folder() else { return };
    let encoder = Encoder::open(&folder).unwrap();
    let vectors = encoder.embed(&["", "a longer text about tides", " \n\u{200b}", "ok"]).unwrap();
    let zeros = vec![0.0; encoder.dims()];
    assert_eq!((&vectors[0], &vectors[2]), (&zeros, &zeros));
    assert!(dot(&vectors[3], &encoder.embed(&["ok"]).unwrap()[0]) > 0.9999);
    assert!(encoder.embed(&[]).unwrap().is_empty());
}

#[test]
fn a_damaged_model_is_not_used() {
    let Some(folder) = folder() else { return };
    let damaged = std::env::temp_dir().join(format!("treering-damaged-{}", std::process::id()));
    std::fs::create_dir_all(&damaged).unwrap();
    for name in ["vocab.txt", "CHECKSUMS"] {
        std::fs::copy(folder.join(name), damaged.join(name)).unwrap();
    }
    let model = std::fs::read(folder.join("model.onnx")).unwrap();
    std::fs::write(damaged.join("model.onnx"), &model[..model.len() / 2]).unwrap();
    let error = Encoder::open(Path::new(&damaged)).unwrap().embed(&["ok"]).unwrap_err();
    assert!(error.reason.contains("model.onnx is damaged"), "{error}");
    std::fs::remove_dir_all(&damaged).unwrap();
}
