//! Files that only their owner can read and write.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Opens a file for writing. A new file is readable and writable only by its owner.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.write(true).open(path)
}

/// Creates a folder and those above it, readable only by their owner.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Creates or replaces a file atomically. The content goes to a temporary file in the same
/// folder, which is fsynced and then renamed, so a crash leaves the old file intact. The new file
/// belongs to its owner alone, even if the old one had wider permissions.
pub fn replace<E>(
    path: &Path,
    failed: impl Fn(io::Error) -> E,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), E>,
) -> Result<(), E> {
    // Write through a symlink instead of replacing it.
    let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    drop(fs::remove_file(&temporary));
    let mut out =
        BufWriter::new(open(&temporary, OpenOptions::new().create_new(true)).map_err(&failed)?);
    let finished = write(&mut out).and_then(|()| {
        let synced = out.flush().and_then(|()| out.get_ref().sync_all());
        synced
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| sync_folder(&path))
            .map_err(&failed)
    });
    if finished.is_err() {
        drop(fs::remove_file(&temporary));
    }
    finished
}

/// Fsyncs the parent folder so that the rename is durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_write_leaves_the_file_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all.jsonl");
        fs::write(&path, "old").unwrap();
        let interrupted = replace(
            &path,
            |error| error,
            |out| {
                out.write_all(b"half a li")?;
                Err(io::Error::from(io::ErrorKind::Interrupted))
            },
        );
        assert!(interrupted.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
