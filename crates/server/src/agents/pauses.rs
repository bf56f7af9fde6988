//! Begins and ends pauses of live capture.

use std::io::Write as _;
use std::path::Path;

pub use treering::capture::read_pauses;
use treering::capture::{PauseEntry, pauses_path};
use treering::private_file;
use treering_core::{Pause, Timestamp};

/// The pauses could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PauseError(String);

/// Pauses capture from now on, until a time or until [`resume`]. A running pause gets the new end.
pub fn pause(home: &Path, now: Timestamp, until: Option<Timestamp>) -> Result<(), PauseError> {
    let mut pauses = read_pauses(home).map_err(PauseError)?;
    match pauses.iter_mut().find(|pause| pause.contains(now)) {
        Some(running) => running.until = until,
        None => pauses.push(Pause { from: now, until }),
    }
    write(home, &pauses)
}

/// Ends the running pause. Returns whether there was one.
pub fn resume(home: &Path, now: Timestamp) -> Result<bool, PauseError> {
    let mut pauses = read_pauses(home).map_err(PauseError)?;
    let mut was_paused = false;
    for running in pauses.iter_mut().filter(|pause| pause.contains(now)) {
        running.until = Some(now);
        was_paused = true;
    }
    if was_paused {
        write(home, &pauses)?;
    }
    Ok(was_paused)
}

fn write(home: &Path, pauses: &[Pause]) -> Result<(), PauseError> {
    let path = pauses_path(home);
    let failed =
        |error: std::io::Error| PauseError(format!("cannot write {}: {error}", path.display()));
    private_file::create_folder(home).map_err(failed)?;
    let entry = |pause: &Pause| PauseEntry {
        from: pause.from.to_string(),
        until: pause.until.map(|until| until.to_string()),
    };
    let entries: Vec<PauseEntry> = pauses.iter().map(entry).collect();
    let text = serde_json::to_vec_pretty(&entries).map_err(std::io::Error::from).map_err(failed)?;
    private_file::replace(&path, failed, |out| out.write_all(&text).map_err(failed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_kept_after_they_end() {
        let home = tempfile::tempdir().unwrap();
        let home = &home.path().join("new");
        let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        assert!(read_pauses(home).unwrap().is_empty());
        assert!(!resume(home, at(1)).unwrap());
        pause(home, at(10), None).unwrap();
        pause(home, at(12), Some(at(60))).unwrap();
        assert_eq!(read_pauses(home).unwrap(), [Pause { from: at(10), until: Some(at(60)) }]);
        assert!(resume(home, at(20)).unwrap());
        pause(home, at(30), Some(at(40))).unwrap();
        assert!(!resume(home, at(50)).unwrap(), "it ended by itself");
        let expected = [
            Pause { from: at(10), until: Some(at(20)) },
            Pause { from: at(30), until: Some(at(40)) },
        ];
        assert_eq!(read_pauses(home).unwrap(), expected);
    }

    #[test]
    fn a_damaged_file_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(pauses_path(home.path()), "[{\"from\":\"soon\"}]").unwrap();
        let error = read_pauses(home.path()).unwrap_err();
        assert!(error.contains("damaged") && error.contains("delete"), "{error}");
        assert!(pause(home.path(), Timestamp::from_micros(0), None).is_err());
    }
}
