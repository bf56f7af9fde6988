//! The spool: a folder in the home folder for what was captured while the store could not be reached, apart for each
//! tenant. Each piece is a file of this user alone that is there whole or not at all; it goes when it is stored, and
//! its ids see to it that it is stored once. What one tenant said is never stored for another.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use treering_core::{ContentHash, TenantId, Timestamp};
use treering_engine::Engine;

use super::HookCapture;
use crate::private_file;
use crate::service::requests::{AppendRequest, MAX_ENTRIES};
use crate::service::{ServiceError, append};
use treering::import::{ImportOptions, Runner};
use treering::importers::Format;

const FOLDER: &str = "spool";
/// Below the spool: what was captured while the settings, and so the tenant, could not be read.
const UNSETTLED: &str = "unsettled";

/// The spool of a tenant in a home folder.
pub struct Spool {
    folder: PathBuf,
}

impl Spool {
    /// The spool of a tenant. That of the default tenant holds the others, each in a folder whose name is safe
    /// whatever the tenant's is.
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

    /// The spool of the tenant that the settings name, while they cannot be read.
    #[must_use]
    pub fn for_unknown_tenant(home: &Path) -> Self {
        Self { folder: home.join(FOLDER).join(UNSETTLED) }
    }

    /// Keeps what was captured until it can be stored. A transcript takes the place of its older state.
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

    /// Stores what is kept, the oldest first, and says how much that was. What cannot be stored now stays; what can
    /// never be is put aside.
    pub fn replay(&self, memory: &Engine) -> treering_engine::Result<usize> {
        let mut files: Vec<PathBuf> = match fs::read_dir(&self.folder) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(_) => return Ok(0),
        };
        files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        let mut stored = 0;
        for path in files {
            // Another process may be at it as well, and done first.
            let Ok(bytes) = fs::read(&path) else { continue };
            match serde_json::from_slice(&bytes).map(|captured| store(memory, &captured)) {
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

/// Stores what was captured. Stored again, it adds nothing.
pub fn store(memory: &Engine, captured: &HookCapture) -> Result<(), ServiceError> {
    match captured {
        HookCapture::Transcript { format, name, text } => {
            let format = Format::ALL.into_iter().find(|it| it.as_str() == format);
            let options = ImportOptions { format, ..ImportOptions::default() };
            let report = Runner { engine: memory, options }
                .text(&name.display().to_string(), text.clone())?;
            report.error.map_or(Ok(()), |error| Err(ServiceError::InvalidRequest(error)))
        }
        HookCapture::Entries(request) => {
            // Through text, because entries are kept as they were written.
            let mut request: AppendRequest =
                serde_json::from_str(&request.to_string()).map_err(|error| {
                    ServiceError::InvalidRequest(format!("the entries do not fit: {error}"))
                })?;
            // A long session holds more than one request may.
            let entries = std::mem::take(&mut request.entries);
            for some in entries.chunks(MAX_ENTRIES) {
                request.entries = some.to_vec();
                append(memory, &request)?;
            }
            Ok(())
        }
    }
}
