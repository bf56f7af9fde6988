//! Benchmarks of the built-in summarizer: similarity to reference summaries of dialogues, and the
//! share of human notes about long chats that a summary of a fifth of their length retains. Two
//! simple baselines run beside it.
//!
//! `cargo bench --bench summaries`

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

mod baselines;
mod rouge;
mod stemmer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use treering_core::acceptance::accept;
use treering_core::{
    Level, MessagePassage, NodeContent, Passage, Role, SessionInfo, Strategy, Summarizer,
    SummaryLength, SummaryRequest, Timestamp,
};
use treering_providers::Extractive;

fn main() {
    let Some(data) = data() else {
        println!(
            "skipped: no data; set TREERING_DATA to the folder that holds dialogsum and locomo-native"
        );
        return;
    };
    dialogues(&data.join("dialogsum/dialogsum.dev.jsonl"));
    println!();
    observations(&data.join("locomo-native/locomo-sample.json"));
    println!();
    measure_speed(&data.join("locomo-dev"));
}

fn data() -> Option<PathBuf> {
    let default_path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let configured = std::env::var_os("TREERING_DATA").map(PathBuf::from);
    configured.or(Some(default_path)).filter(|folder| folder.is_dir())
}

fn read(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok();
    if text.is_none() {
        println!("skipped: {} is not there", path.display());
    }
    text
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "reached" } else { "MISSED" }
}

fn passage(author: &str, text: &str) -> Passage {
    let at = Timestamp::from_micros(0);
    Passage::Message(MessagePassage {
        role: Role::User,
        author: Some(author.to_owned()),
        at,
        text: text.to_owned(),
    })
}

fn request(passages: Vec<Passage>, kept_share: impl Fn(&SummaryRequest) -> f32) -> SummaryRequest {
    let (level, strategy, length) = (Level::FIRST, Strategy::Concise, SummaryLength::Keep(1.0));
    let mut request =
        SummaryRequest::new(level, strategy, length, true, passages, SessionInfo::default());
    request.length = SummaryLength::Keep(kept_share(&request));
    request
}

fn summarize(request: &SummaryRequest) -> NodeContent {
    Extractive.summarize(request).unwrap()
}

/// ROUGE F1 at reference length: every summary is cut to the number of words of its reference.
fn dialogues(path: &Path) {
    let Some(text) = read(path) else { return };
    const GOALS: [f64; 3] = [31.0, 10.0, 26.0];
    let mut sums = [[0.0; 3]; 3];
    let mut grounded = 0.0;
    let mut count = 0;
    for line in text.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let (dialogue, reference) =
            (entry["dialogue"].as_str().unwrap(), entry["summary"].as_str().unwrap());
        let turns: Vec<(&str, &str)> =
            dialogue.lines().filter_map(|line| line.split_once(": ")).collect();
        let passages = turns.iter().map(|(author, text)| passage(author, text)).collect();
        // Slightly longer than the reference, because the summary is cut afterwards.
        let target_chars = reference.chars().count() as f32 * 1.06;
        let request = request(passages, |request| target_chars / request.chars() as f32);
        let summary = summarize(&request);
        let words = reference.split_whitespace().count();
        let summaries = [
            baselines::lead(&turns, words),
            baselines::centroid(&turns, words),
            summary.overview.clone(),
        ];
        for (sum, summary) in sums.iter_mut().zip(&summaries) {
            let cut: Vec<&str> = summary.split_whitespace().take(words).collect();
            let scores = rouge::scores(reference, &cut.join(" "));
            sum.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        }
        let fidelity = accept(&summary, request.facts(), request.chars());
        grounded += fidelity.map_or(0.0, |fidelity| f64::from(fidelity.grounded));
        count += 1;
    }
    println!(
        "{count} dialogues, F1 at reference length {:>10} {:>8} {:>8}",
        "ROUGE-1", "ROUGE-2", "ROUGE-L"
    );
    let percent = |sum: f64| 100.0 * sum / f64::from(count);
    for (name, sum) in ["lead", "plain centroid", "extractive"].iter().zip(&sums) {
        let [one, two, longest] = sum.map(percent);
        println!("{name:<40} {one:>10.1} {two:>8.1} {longest:>8.1}");
    }
    let [one, two, longest] = GOALS;
    let is_met = sums[2].iter().zip(GOALS).all(|(sum, goal)| percent(*sum) >= goal);
    println!("{:<40} {one:>10.1} {two:>8.1} {longest:>8.1}  {}", "goal", verdict(is_met));
    let grounded = percent(grounded);
    println!(
        "{:<40} {grounded:>9.1}%  {}",
        "facts of the summaries that are grounded",
        verdict(grounded > 99.99)
    );
}

/// Human notes about chats, each with the turns that support it. A note is retained if the
/// summary contains at least 60% of its content words. The result depends on that definition, so
/// three others are printed too: 70% of the note's words, and 60% or 70% of the words of a
/// supporting turn.
fn observations(path: &Path) {
    let Some(text) = read(path) else { return };
    const GOAL: f64 = 26.0;
    let samples: Value = serde_json::from_str(&text).unwrap();
    let mut kept = [[0_u32; 4]; 3];
    let mut count = 0_u32;
    for sample in samples.as_array().unwrap() {
        for number in 1..100 {
            let session = &sample["conversation"][format!("session_{number}")];
            let Some(session) = session.as_array() else { continue };
            let turns: Vec<(&str, &str)> = session
                .iter()
                .map(|turn| (turn["speaker"].as_str().unwrap(), turn["text"].as_str().unwrap()))
                .collect();
            let passages = turns.iter().map(|(author, text)| passage(author, text)).collect();
            let request = request(passages, |_| 0.2);
            let chars = request.chars() as usize / 5;
            let summaries = [
                baselines::lead_chars(&turns, chars),
                baselines::centroid_chars(&turns, chars),
                summarize(&request).overview,
            ];
            let words = summaries.map(|summary| baselines::content(&summary));
            let notes = &sample["observation"][format!("session_{number}_observation")];
            for note in notes
                .as_object()
                .into_iter()
                .flat_map(|notes| notes.values())
                .filter_map(Value::as_array)
                .flatten()
            {
                let cited: Vec<&str> = session
                    .iter()
                    .filter(|turn| cites(&note[1], turn["dia_id"].as_str().unwrap()))
                    .map(|turn| turn["text"].as_str().unwrap())
                    .collect();
                if cited.is_empty() {
                    continue;
                }
                count += 1;
                for (kept, words) in kept.iter_mut().zip(&words) {
                    let coverage_of_note = coverage(note[0].as_str().unwrap(), words);
                    let turn = cited.iter().map(|text| coverage(text, words)).fold(0.0, f64::max);
                    kept[0] += u32::from(coverage_of_note >= 0.6);
                    kept[1] += u32::from(coverage_of_note >= 0.7);
                    kept[2] += u32::from(turn >= 0.6);
                    kept[3] += u32::from(turn >= 0.7);
                }
            }
        }
    }
    println!("{:<40} {:>10} {:>8} {:>9} {:>9}", "", "note 60 %", "70 %", "turn 60 %", "70 %");
    println!("{count} notes on chats, retained at 5x");
    let percent = |kept: u32| 100.0 * f64::from(kept) / f64::from(count.max(1));
    for (name, kept) in ["lead", "plain centroid", "extractive"].iter().zip(&kept) {
        let [note, strict, turn, strictest] = kept.map(percent);
        println!("{name:<40} {note:>10.1} {strict:>8.1} {turn:>9.1} {strictest:>9.1}");
    }
    let is_met = |column: usize| verdict(percent(kept[2][column]) > GOAL);
    let [note, strict, turn, strictest] = [0, 1, 2, 3].map(is_met);
    println!("{:<40} {note:>10} {strict:>8} {turn:>9} {strictest:>9}", format!("goal {GOAL:.1}"));
}

fn cites(ids: &Value, id: &str) -> bool {
    match ids {
        Value::String(ids) => ids.split([',', ';', ' ']).any(|one| one == id),
        Value::Array(ids) => ids.iter().any(|one| cites(one, id)),
        _ => false,
    }
}

/// The share of a text's content words that are in `words`.
fn coverage(text: &str, words: &HashSet<String>) -> f64 {
    let note_words = baselines::content(text);
    note_words.intersection(words).count() as f64 / note_words.len().max(1) as f64
}

/// The time to summarize a window of the default size.
fn measure_speed(folder: &Path) {
    let mut times: Vec<Duration> = Vec::new();
    let (mut messages, mut chars) = (0, 0);
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for file in files {
        let haystack: Value =
            serde_json::from_str(&std::fs::read_to_string(file.path()).unwrap()).unwrap();
        let turns = haystack["turns"].as_array().unwrap();
        for window in turns.chunks(40) {
            let passages: Vec<Passage> = window
                .iter()
                .map(|turn| {
                    passage(turn["author"].as_str().unwrap(), turn["text"].as_str().unwrap())
                })
                .collect();
            messages += passages.len();
            let mut request = request(passages, |_| 0.5);
            request.strategy = Strategy::Detailed;
            chars += request.chars();
            let start = Instant::now();
            std::hint::black_box(summarize(&request));
            times.push(start.elapsed());
        }
    }
    if times.is_empty() {
        println!("skipped: {} is not there", folder.display());
        return;
    }
    times.sort_unstable();
    let total: Duration = times.iter().sum();
    let median = times[times.len() / 2].as_secs_f64() * 1e3;
    let size = chars as usize / times.len();
    println!(
        "window of {size} characters, median {median:>18.2} ms  (goal 3 ms)  {}",
        verdict(median < 3.0)
    );
    println!(
        "messages per second {:>34.0}  (goal 2,000)  {}",
        messages as f64 / total.as_secs_f64(),
        verdict(messages as f64 / total.as_secs_f64() > 2000.0)
    );
}
