//! The pauses of live capture, in a file of the home folder. Hooks read it before they open the
//! store. Past pauses stay in it, because agents keep their transcripts and hooks read them later.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use treering_core::Pause;

const FILE: &str = "pauses.json";

/// A pause in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PauseEntry {
    /// The start.
    pub from: String,
    /// The end, if it has one.
    pub until: Option<String>,
}

/// The file with the pauses of a home folder.
#[must_use]
pub fn pauses_path(home: &Path) -> PathBuf {
    home.join(FILE)
}

/// The pauses so far. A damaged file is an error: what was said in a pause must not be captured.
pub fn read_pauses(home: &Path) -> Result<Vec<Pause>, String> {
    let path = pauses_path(home);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
    };
    let damaged = |reason: String| {
        format!("{} is damaged ({reason}); fix it, or delete it to end all pauses", path.display())
    };
    let entries: Vec<PauseEntry> =
        serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
    let pause = |entry: &PauseEntry| {
        Ok(Pause {
            from: entry.from.parse()?,
            until: entry.until.as_deref().map(str::parse).transpose()?,
        })
    };
    let pauses: Result<Vec<Pause>, treering_core::Invalid> = entries.iter().map(pause).collect();
    pauses.map_err(|error| damaged(error.to_string()))
}
