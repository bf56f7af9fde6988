//! The spool: a folder per tenant for captures made while the store was unavailable.
//!
//! Each capture is one file, readable only by this user and renamed into place complete. Replay
//! deletes a file once it is stored, and the ids of the source prevent duplicates. A capture of
//! one tenant is never stored for another.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use treering_core::{ContentHash, TenantId, Timestamp};
use treering_engine::Engine;

use super::HookCapture;
use crate::private_file;
use crate::service::requests::{AppendRequest, MAX_ENTRIES};
use crate::service::{ServiceError, append};
use treering::import::{ImportOptions, Importer};
use treering::importers::Format;

const FOLDER: &str = "spool";
/// The subfolder for captures made while the settings, and so the tenant, were unreadable.
const UNSETTLED: &str = "unsettled";

/// The spool of one tenant.
pub struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// The spool of a tenant. The default tenant uses the spool folder directly; other tenants
    /// use subfolders named by a hash, which is safe as a file name for any tenant id.
    #[must_use]
    pub fn for_tenant(home: &Path, tenant: &TenantId) -> Self {
        let spool = home.join(FOLDER);
        match *tenant == TenantId::default_tenant() {
            true => Self { folder: spool },
            false => Self {
                folder: spool
                    .join(ContentHash::of_fields(&[tenant.as_str().as_bytes()]).to_string()),
            },
        }
    }

    /// The spool for captures whose tenant is unknown because the settings are unreadable.
    #[must_use]
    pub fn for_unknown_tenant(home: &Path) -> Self {
        Self { folder: home.join(FOLDER).join(UNSETTLED) }
    }

    /// Saves a capture for later. A transcript replaces its earlier state.
    pub fn keep(&self, captured: &HookCapture, now: Timestamp) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let order = match captured {
            HookCapture::Transcript { .. } => 0,
            HookCapture::Entries(_) => now.as_micros(),
        };
        let name = format!("{order:020}-{}", captured.identity());
        let new = self.folder.join(format!("{name}.{}.new", std::process::id()));
        private_file::open(&new, OpenOptions::new().create(true).truncate(true))?
            .write_all(&serde_json::to_vec(captured)?)?;
        fs::rename(&new, self.folder.join(format!("{name}.json")))
    }

    /// Stores all captures, oldest first, and returns how many were stored. Stops and keeps the
    /// rest if the store fails; renames a capture that is invalid to `.bad`.
    pub fn replay(&self, engine: &Engine) -> treering_engine::Result<usize> {
        let mut files: Vec<PathBuf> = match fs::read_dir(&self.folder) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => return Ok(0),
        };
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut stored = 0;
        for path in files {
            // Another process may have replayed the file first.
            let Ok(bytes) = fs::read(&path) else { continue };
            match serde_json::from_slice(&bytes).map(|captured| store(engine, &captured)) {
                Ok(Ok(())) => {
                    drop(fs::remove_file(&path));
                    stored += 1;
                }
                Ok(Err(ServiceError::Engine(error @ treering_engine::Error::Store(_)))) => {
                    return Err(error);
                }
                Ok(Err(_)) | Err(_) => drop(fs::rename(&path, path.with_extension("bad"))),
            }
        }
        Ok(stored)
    }
}

impl Spool {
    /// Deletes the captures that could not be stored and interrupted ones, because they may have
    /// content that is being forgotten.
    pub fn delete_invalid(&self) -> io::Result<()> {
        let Ok(entries) = fs::read_dir(&self.folder) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            let is_leftover =
                |extension: &std::ffi::OsStr| extension == "bad" || extension == "new";
            if path.extension().is_some_and(is_leftover) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

/// Stores a capture. Storing it again adds nothing.
pub fn store(engine: &Engine, captured: &HookCapture) -> Result<(), ServiceError> {
    match captured {
        HookCapture::Transcript { format, name, text } => {
            let format = Format::ALL.into_iter().find(|it| it.as_str() == format);
            let options = ImportOptions { format, ..ImportOptions::default() };
            let report =
                Importer { engine, options }.text(&name.display().to_string(), text.clone())?;
            report.error.map_or(Ok(()), |error| Err(ServiceError::InvalidRequest(error)))
        }
        HookCapture::Entries(request) => {
            // Round-trip through text, because `RawValue` keeps entries exactly as written.
            let mut request: AppendRequest =
                serde_json::from_str(&request.to_string()).map_err(|error| {
                    ServiceError::InvalidRequest(format!("invalid entries: {error}"))
                })?;
            // A long session exceeds the limit of one request.
            let entries = std::mem::take(&mut request.entries);
            for some in entries.chunks(MAX_ENTRIES) {
                request.entries = some.to_vec();
                append(engine, &request)?;
            }
            Ok(())
        }
    }
}
