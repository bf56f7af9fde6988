//! A local sentence encoder: all-MiniLM-L6-v2, from a folder that `tools/encoder` builds.
//!
//! It embeds words in their context, which the static embedder cannot do, and takes thousands
//! of times as long. It never downloads anything.

mod network;
mod vocabulary;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use treering_core::{Embedder, ProviderError};

use network::Network;
use vocabulary::Vocabulary;

/// Dimensions of a vector.
const DIMS: usize = 384;
/// Maximum number of word pieces per text, including the start and end markers. The model was
/// not trained on longer texts.
const MAX_PIECES: usize = 256;
/// Maximum number of word pieces in a batch, including padding.
const BATCH_PIECES: usize = 512;

const MODEL: &str = "model.onnx";
const VOCABULARY: &str = "vocab.txt";
const CHECKSUMS: &str = "CHECKSUMS";

/// Embeds text with all-MiniLM-L6-v2. Opening is cheap; the files are read on first use.
#[derive(Debug)]
pub struct Encoder {
    folder: PathBuf,
    loaded: OnceLock<Result<LoadedEncoder, ProviderError>>,
}

#[derive(Debug)]
struct LoadedEncoder {
    vocabulary: Vocabulary,
    network: Network,
}

impl Encoder {
    /// Opens the encoder in a folder. Fails if a file is missing.
    pub fn open(folder: &Path) -> Result<Self, ProviderError> {
        let missing =
            [MODEL, VOCABULARY, CHECKSUMS].into_iter().find(|name| !folder.join(name).is_file());
        match missing {
            Some(name) => Err(unusable(folder, &format!("{name} is missing"))),
            None => Ok(Self { folder: folder.to_owned(), loaded: OnceLock::new() }),
        }
    }

    fn loaded(&self) -> Result<&LoadedEncoder, ProviderError> {
        let load =
            || LoadedEncoder::read(&self.folder).map_err(|reason| unusable(&self.folder, &reason));
        self.loaded.get_or_init(load).as_ref().map_err(Clone::clone)
    }
}

/// An error that says what is wrong with the folder and how to fix it.
fn unusable(folder: &Path, reason: &str) -> ProviderError {
    let folder = folder.display();
    ProviderError::permanent(format!(
        "the encoder in {folder} cannot be used: {reason}; `tools/encoder/make {folder}` rebuilds it"
    ))
}

impl LoadedEncoder {
    fn read(folder: &Path) -> Result<Self, String> {
        let file = |name: &str| {
            std::fs::read(folder.join(name)).map_err(|error| format!("{name}: {error}"))
        };
        let sums = String::from_utf8_lossy(&file(CHECKSUMS)?).into_owned();
        let read_file = |name: &str| {
            let bytes = file(name)?;
            match sums.lines().any(|line| line == format!("{}  {name}", blake3::hash(&bytes))) {
                true => Ok(bytes),
                false => Err(format!("{name} is damaged")),
            }
        };
        let pieces = String::from_utf8(read_file(VOCABULARY)?).ok();
        let vocabulary = pieces.as_deref().and_then(Vocabulary::read);
        let vocabulary = vocabulary.ok_or_else(|| format!("{VOCABULARY} is not a vocabulary"))?;
        let network =
            Network::read(read_file(MODEL)?).map_err(|reason| format!("{MODEL}: {reason}"))?;
        Ok(Self { vocabulary, network })
    }

    /// Embeds all texts; worker threads take batches from a shared counter.
    fn run(&self, texts: &[Vec<u16>]) -> Result<Vec<Vec<f32>>, String> {
        let batches = batches(texts);
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let pieces: Vec<&[u16]> =
                    batch.iter().map(|text| texts[*text].as_slice()).collect();
                done.extend(batch.iter().copied().zip(self.network.run(&pieces)?));
            }
            Ok::<_, String>(done)
        };
        let cores = thread::available_parallelism().map_or(1, usize::from).min(batches.len());
        let mut vectors = vec![vec![0.0; DIMS]; texts.len()];
        thread::scope(|scope| {
            let others: Vec<_> = (1..cores).map(|_| scope.spawn(work)).collect();
            let mut done = work()?;
            for other in others {
                done.extend(other.join().map_err(|_| "a thread panicked")??);
            }
            for (text, vector) in done {
                vectors[text] = vector;
            }
            Ok(())
        })
        .map(|()| vectors)
    }
}

/// Batches of texts of similar length, the longest first. Texts without pieces are in no batch.
fn batches(texts: &[Vec<u16>]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..texts.len()).filter(|text| !texts[*text].is_empty()).collect();
    order.sort_by_key(|text| std::cmp::Reverse(texts[*text].len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for text in order {
        match batches.last_mut() {
            Some(batch) if (batch.len() + 1) * texts[batch[0]].len() <= BATCH_PIECES => {
                batch.push(text);
            }
            _ => batches.push(vec![text]),
        }
    }
    batches
}

impl Embedder for Encoder {
    fn name(&self) -> &str {
        crate::ENCODER_NAME
    }

    fn dims(&self) -> usize {
        DIMS
    }

    fn is_remote(&self) -> bool {
        false
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ProviderError> {
        let loaded = self.loaded()?;
        let pieces: Vec<_> =
            texts.iter().map(|text| loaded.vocabulary.numbers(text, MAX_PIECES)).collect();
        loaded.run(&pieces).map_err(|reason| unusable(&self.folder, &reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_of_like_length_and_limited() {
        let texts: Vec<Vec<u16>> =
            [0, 3, 256, 250, 4, 256, 200, 1].map(|pieces| vec![7; pieces]).into();
        assert_eq!(batches(&texts), [vec![2, 5], vec![3, 6], vec![4, 1, 7]]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn a_folder_that_cannot_be_used_says_why() {
        let folder = std::env::temp_dir().join(format!("treering-encoder-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let check = |error: ProviderError, words: &[&str]| {
            for word in
                words.iter().copied().chain(["tools/encoder/make", &folder.to_string_lossy()])
            {
                assert!(error.reason.contains(word), "{error}");
            }
        };
        check(Encoder::open(&folder).unwrap_err(), &["model.onnx is missing"]);
        std::fs::write(folder.join(MODEL), "m").unwrap();
        std::fs::write(folder.join(VOCABULARY), "v").unwrap();
        let sums = format!(
            "{}  {VOCABULARY}\n{}  {MODEL}\n",
            blake3::hash(b"v"),
            blake3::hash(b"another")
        );
        std::fs::write(folder.join(CHECKSUMS), sums).unwrap();
        check(
            Encoder::open(&folder).unwrap().embed(&["x"]).unwrap_err(),
            &["vocab.txt is not a vocabulary"],
        );
        std::fs::write(folder.join(VOCABULARY), "w").unwrap();
        check(
            Encoder::open(&folder).unwrap().embed(&["x"]).unwrap_err(),
            &["vocab.txt is damaged"],
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
