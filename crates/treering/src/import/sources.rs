//! Finds the files to import and reads them, plain or from `.zip` archives.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use treering_core::Timestamp;

/// The endings of files that could hold conversations.
const ENDINGS: [&str; 7] = ["json", "jsonl", "ndjson", "md", "markdown", "traj", "zip"];
/// Maximum size of a file in an archive. An archive can claim any size.
const MAX_ARCHIVED_BYTES: u64 = 4 << 30;

/// A file that was read, or the reason why it was not.
pub(super) struct ReadFile {
    /// The path; for a file in an archive, the archive's path and the name in it.
    pub(super) path: PathBuf,
    pub(super) text: Result<String, String>,
    /// Whether a byte order mark was removed.
    pub(super) is_marked: bool,
    pub(super) is_archived: bool,
}

/// Reads a file, or every file of an archive that could hold conversations. `take` returns whether
/// to go on.
pub(super) fn read(path: &Path, take: &mut dyn FnMut(ReadFile) -> bool) {
    let is_zip = ending(path).is_some_and(|ending| ending == "zip");
    // Opening a FIFO would wait for its writer.
    if fs::metadata(path).is_ok_and(|file| !file.is_file()) {
        let error = io::Error::other("it is not a regular file; `-` reads standard input");
        take(decoded(path.to_path_buf(), Err(error), false));
    } else if is_zip && let Err(error) = read_archive(path, take) {
        take(ReadFile {
            path: path.to_path_buf(),
            text: Err(format!("the archive cannot be read: {error}")),
            is_marked: false,
            is_archived: false,
        });
    } else if !is_zip {
        take(decoded(path.to_path_buf(), fs::read(path), false));
    }
}

fn read_archive(path: &Path, take: &mut dyn FnMut(ReadFile) -> bool) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(io::BufReader::new(File::open(path)?))?;
    for index in 0..archive.len() {
        let file = archive.by_index(index)?;
        let name = file.name()?.into_owned();
        let inner = Path::new(name.trim_start_matches('/'));
        if file.is_dir() || name.starts_with("__MACOSX") || !is_transcript(inner) {
            continue;
        }
        let mut bytes = Vec::new();
        let read = match file.size() {
            size if size > MAX_ARCHIVED_BYTES => Err(io::Error::other("it is larger than 4 GiB")),
            _ => file.take(MAX_ARCHIVED_BYTES).read_to_end(&mut bytes).map(drop),
        };
        if !take(decoded(path.join(inner), read.map(|()| bytes), true)) {
            break;
        }
    }
    Ok(())
}

fn decoded(path: PathBuf, bytes: io::Result<Vec<u8>>, is_archived: bool) -> ReadFile {
    let text = match bytes.map(String::from_utf8) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => {
            let at = error.utf8_error().valid_up_to();
            Err(format!("it is not UTF-8: byte {at} is not part of any character"))
        }
        Err(error) => Err(format!("it cannot be read: {error}")),
    };
    let unmarked = text.as_ref().ok().and_then(|text| text.strip_prefix('\u{feff}'));
    let unmarked = unmarked.map(str::to_owned);
    let is_marked = unmarked.is_some();
    ReadFile { path, text: unmarked.map_or(text, Ok), is_marked, is_archived }
}

/// Adds every file below a folder that could be a transcript. Does not follow symbolic links.
pub(super) fn search(
    folder: &Path,
    files: &mut Vec<(Timestamp, PathBuf)>,
    found: &mut dyn FnMut(),
) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() {
            search(&path, files, found);
        } else if kind.is_file() && is_transcript(&path) {
            files.push((modified(&path), path));
            found();
        }
    }
}

fn is_transcript(path: &Path) -> bool {
    ending(path).is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
}

fn ending(path: &Path) -> Option<String> {
    path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase())
}

/// The modification time of a file.
#[must_use]
pub fn modified(path: &Path) -> Timestamp {
    let modified = fs::metadata(path).and_then(|file| file.modified()).ok();
    let since = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(0))
}

/// The date in the name of a file, such as `2026-03-14` or `2026-03-14_09-20-15`, in UTC.
pub(super) fn date_in_name(path: &Path) -> Option<Timestamp> {
    let name = path.file_stem()?.to_string_lossy().into_owned();
    let is_digit = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let start = (0..name.len()).find(|at| {
        let date = name.get(*at..at + 10);
        let is_date = date.is_some_and(|date| date.parse::<Timestamp>().is_ok());
        // More digits around it make it another number.
        is_date && !is_digit(at + 10) && (*at == 0 || !is_digit(at - 1))
    })?;
    let (date, rest) = (&name[start..start + 10], &name[start + 10..]);
    let clock: Vec<&str> =
        rest.get(1..).unwrap_or_default().split(['-', ':', '_', '.', 'Z', ' ']).take(3).collect();
    let is_pair = |part: &&&str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    let clock: Vec<&str> = clock.iter().take_while(is_pair).copied().collect();
    let time = match clock.as_slice() {
        [hour, minute] => format!("{date}T{hour}:{minute}:00Z").parse().ok(),
        [hour, minute, second] => format!("{date}T{hour}:{minute}:{second}Z").parse().ok(),
        _ => None,
    };
    time.or_else(|| date.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_found_in_names() {
        for (name, expected) in [
            ("2026-03-14.md", Some("2026-03-14 00:00")),
            ("chat 2026-03-14 about pumps.md", Some("2026-03-14 00:00")),
            ("2026-03-14_09-20-15Z-pumps.md", Some("2026-03-14 09:20")),
            ("session-2026-03-14T09-20-ef937a63.json", Some("2026-03-14 09:20")),
            ("2026-13-14.md", None),
            ("12026-03-14.md", None),
            ("pumps.md", None),
            ("é2026-03-14é.md", Some("2026-03-14 00:00")),
        ] {
            let found = date_in_name(Path::new(name)).map(Timestamp::to_minute);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
    }
}
