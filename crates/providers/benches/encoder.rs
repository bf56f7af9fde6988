//! Benchmark of the encoder: `TREERING_ENCODER=FOLDER cargo bench -p treering-providers
//! --features encoder`.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::time::{Duration, Instant};

use treering_core::Embedder;
use treering_providers::Encoder;

/// A text of this many word pieces, including the start and end markers.
fn text(pieces: usize) -> String {
    ["tree", "ring", "water", "gauge", "harbour", "march", "reading"]
        .into_iter()
        .cycle()
        .take(pieces - 2)
        .collect::<Vec<_>>()
        .join(" ")
}

fn median(mut run: impl FnMut(), times: usize) -> Duration {
    let mut all: Vec<Duration> = (0..times)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    all.sort_unstable();
    all[times / 2]
}

fn main() {
    let Some(folder) = std::env::var_os("TREERING_ENCODER") else {
        println!("TREERING_ENCODER names no folder of the encoder; nothing is measured");
        return;
    };
    let start = Instant::now();
    let encoder = Encoder::open(Path::new(&folder)).unwrap();
    encoder.embed(&["first"]).unwrap();
    println!("loading and a first text: {:?}", start.elapsed());
    for pieces in [10, 50, 200, 256] {
        let text = text(pieces);
        let alone = median(|| drop(encoder.embed(&[&text]).unwrap()), 15);
        let batch = vec![text.as_str(); 64];
        let per_text = median(|| drop(encoder.embed(&batch).unwrap()), 3) / 64;
        println!("{pieces} pieces: {alone:?} alone, {per_text:?} each of 64");
    }
}
