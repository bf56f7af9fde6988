//! Compares the bundled embedder with reference vectors of its source model (`tools/distil`).

#![allow(clippy::unwrap_used)]

use treering_core::lexicon::french_words;
use treering_providers::StaticEmbedder;

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
    match dot(a, a) * dot(b, b) {
        0.0 => f32::from(u8::from(a == b)),
        norms => dot(a, b) / norms.sqrt(),
    }
}

#[test]
fn vectors_match_the_reference() {
    let embedder = StaticEmbedder::new();
    for line in include_str!("fixtures/static-expected.jsonl").lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        let (text, hex) = (case["text"].as_str().unwrap(), case["vector"].as_str().unwrap());
        let expected: Vec<f32> = (0..embedder.dims())
            .map(|i| f32::from(u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap() as i8))
            .collect();
        // The source model knows no French.
        if french_words(text).is_some() {
            continue;
        }
        let agreement = cosine(&embedder.embed(text), &expected);
        assert!(agreement > 0.999, "{agreement} for {text:?}");
    }
}
