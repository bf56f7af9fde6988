//! Changes several files together: all of them, or none.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::commands::CliError;

/// A planned change to a file.
pub(super) struct Planned {
    pub(super) path: PathBuf,
    pub(super) before: Option<String>,
    /// `None` deletes the file.
    pub(super) after: Option<String>,
    pub(super) backup: BackupAction,
}

/// The effect on the backup, which holds the original of the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BackupAction {
    /// The current file becomes the backup.
    Create,
    Keep,
    Delete,
}

/// Makes all changes. If one fails, reverts those that were made.
pub(super) fn write_all(planned: &[Planned]) -> Result<(), CliError> {
    let changed: Vec<&Planned> = planned.iter().filter(|it| it.before != it.after).collect();
    // Most failures happen here, before any file has changed.
    for file in &changed {
        if let Err(error) = prepare(file) {
            changed.iter().for_each(|file| drop(fs::remove_file(new_path(&file.path))));
            return Err(CliError::File(file.path.clone(), error));
        }
    }
    for (done, file) in changed.iter().enumerate() {
        if let Err(error) = put(file) {
            for earlier in changed.iter().take(done) {
                // The original is in the backup if this fails, too.
                drop(restore(earlier));
            }
            changed.iter().for_each(|file| drop(fs::remove_file(new_path(&file.path))));
            return Err(CliError::File(file.path.clone(), error));
        }
    }
    for file in changed.iter().filter(|file| file.backup == BackupAction::Delete) {
        let kept = backup(&file.path);
        if kept.exists() {
            fs::remove_file(&kept).map_err(|error| CliError::File(kept, error))?;
        }
    }
    Ok(())
}

/// Writes the new file beside the old one, and the backup.
fn prepare(file: &Planned) -> io::Result<()> {
    if fs::metadata(&file.path).is_ok_and(|found| found.permissions().readonly()) {
        let advice = "it is read-only; make it writable, or add the changes yourself";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, advice));
    }
    if let Some(folder) = file.path.parent() {
        fs::create_dir_all(folder)?;
    }
    if let (Some(before), BackupAction::Create) = (&file.before, file.backup) {
        let kept = backup(&file.path);
        stage(&kept, before, &file.path)?;
        fs::rename(new_path(&kept), kept)?;
    }
    match &file.after {
        Some(after) => stage(&file.path, after, &file.path),
        None => Ok(()),
    }
}

fn put(file: &Planned) -> io::Result<()> {
    match &file.after {
        Some(_) => fs::rename(new_path(&file.path), &file.path),
        None => fs::remove_file(&file.path),
    }
}

fn restore(file: &Planned) -> io::Result<()> {
    match &file.before {
        Some(before) => {
            stage(&file.path, before, &file.path)?;
            fs::rename(new_path(&file.path), &file.path)
        }
        None => fs::remove_file(&file.path),
    }
}

pub(super) fn backup(path: &Path) -> PathBuf {
    sibling_path(path, ".treering.bak")
}

fn new_path(path: &Path) -> PathBuf {
    sibling_path(path, ".treering.new")
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// Writes a temporary file in the same folder. It has the permissions of `model` from the moment it exists.
fn stage(path: &Path, text: &str, model: &Path) -> io::Result<()> {
    let new = new_path(path);
    // A file left behind by an interrupted run may have other permissions.
    drop(fs::remove_file(&new));
    let rights = fs::metadata(model).ok().map(|found| found.permissions());
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(rights) = &rights {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        options.mode(rights.mode());
    }
    options.open(&new)?.write_all(text.as_bytes())?;
    match rights {
        Some(rights) => fs::set_permissions(&new, rights),
        None => Ok(()),
    }
}
