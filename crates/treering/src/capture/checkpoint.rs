//! Checkpoints: how far a transcript was stored, and what the reader needs to continue there.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use treering_core::{ContentHash, ExternalId, TenantId, Timestamp};
use treering_importers::{Format, TranscriptReader};

use crate::private_file;

/// The number of bytes at the start and before the offset that identify a transcript.
const FINGERPRINT_BYTES: u64 = 4096;
/// The size of a part that is parsed and stored at once, unless a line is longer.
const PART_BYTES: u64 = 1 << 20;

/// The position up to which a transcript was stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The number of bytes that were stored.
    pub offset: u64,
    /// The hash of the first bytes.
    head: ContentHash,
    /// The hash of the last bytes before the offset.
    tail: ContentHash,
    /// The latest stored entry. A store without it was replaced by an older copy.
    pub(super) latest: Option<LatestEntry>,
    /// The time of the latest entry.
    pub captured_until: Option<Timestamp>,
    pub(super) reader: TranscriptReader,
}

/// A stored entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LatestEntry {
    pub(super) conversation: String,
    pub(super) external_id: ExternalId,
}

impl Checkpoint {
    /// The start of a transcript; `None` if the format does not grow.
    #[must_use]
    pub fn start(format: Format) -> Option<Self> {
        Some(Self::unstored(TranscriptReader::new(format)?))
    }

    /// The checkpoint of a reader, before any of its entries is stored.
    pub(crate) fn unstored(reader: TranscriptReader) -> Self {
        let (reader, empty) = (reader.live(), ContentHash::of_fields(&[b""]));
        Self { offset: 0, head: empty, tail: empty, latest: None, captured_until: None, reader }
    }

    /// Whether the transcript can be read from here: it still begins with the bytes that were
    /// stored, which an agent may have replaced or truncated, and the reader has all it needs.
    pub fn matches(&self, file: &mut TranscriptFile) -> io::Result<bool> {
        let has_same_bytes =
            file.len()? >= self.offset && self.fingerprint(file)? == (self.head, self.tail);
        Ok(has_same_bytes && !self.reader.lacks_title())
    }

    /// Moves the checkpoint forward.
    pub(crate) fn advance(&mut self, file: &mut TranscriptFile, offset: u64) -> io::Result<()> {
        self.offset = offset;
        (self.head, self.tail) = self.fingerprint(file)?;
        Ok(())
    }

    fn fingerprint(&self, file: &mut TranscriptFile) -> io::Result<(ContentHash, ContentHash)> {
        let size = FINGERPRINT_BYTES.min(self.offset);
        let hash = |bytes: Vec<u8>| ContentHash::of_fields(&[&bytes]);
        Ok((hash(file.read(0, size)?), hash(file.read(self.offset - size, size)?)))
    }
}

/// A transcript, or the copy of its end in a spool.
pub struct TranscriptFile {
    file: File,
    pub(super) path: PathBuf,
    /// The time for entries without one.
    pub(super) modified: Timestamp,
    /// The first byte of the transcript that the file holds, and its position in the file.
    first: (u64, u64),
}

impl TranscriptFile {
    /// Opens a transcript. Refuses what is no file, because a pipe would block.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let (file, modified) = (File::open(path)?, crate::import::modified(path));
        Ok(Self { file, path: path.to_path_buf(), modified, first: (0, 0) })
    }

    /// The copy of the end of a transcript. It begins at the byte `first` of the transcript, which
    /// is the byte `position` of the file.
    #[must_use]
    pub const fn copy(
        file: File,
        path: PathBuf,
        modified: Timestamp,
        first: u64,
        position: u64,
    ) -> Self {
        Self { file, path, modified, first: (first, position) }
    }

    /// The length of the transcript.
    pub fn len(&self) -> io::Result<u64> {
        let (first, position) = self.first;
        Ok(self.file.metadata()?.len().saturating_sub(position) + first)
    }

    /// Whether the transcript has no bytes.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads at most `size` bytes from an offset.
    pub fn read(&mut self, offset: u64, size: u64) -> io::Result<Vec<u8>> {
        let (first, position) = self.first;
        let mut bytes = Vec::new();
        if offset >= first {
            self.file.seek(SeekFrom::Start(offset - first + position))?;
            (&self.file).take(size).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// The whole lines of the next part and, at the end of the file, what follows them.
    pub(super) fn part(&mut self, offset: u64) -> io::Result<String> {
        let mut size = PART_BYTES;
        loop {
            let mut bytes = self.read(offset, size)?;
            let is_end = (bytes.len() as u64) < size;
            match bytes.iter().rposition(|byte| *byte == b'\n') {
                _ if is_end => {}
                Some(last) => bytes.truncate(last + 1),
                None => {
                    size *= 2;
                    continue;
                }
            }
            return String::from_utf8(bytes).or_else(|error| {
                let fault = error.utf8_error();
                let valid = fault.valid_up_to();
                match fault.error_len() {
                    // The last character is still being written.
                    None if is_end => {
                        let mut bytes = error.into_bytes();
                        bytes.truncate(valid);
                        String::from_utf8(bytes).map_err(io::Error::other)
                    }
                    _ => {
                        let at = offset + valid as u64;
                        let reason = format!("byte {at} is not part of any UTF-8 character");
                        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
                    }
                }
            });
        }
    }
}

/// The folder that holds the checkpoints of a tenant, one file for each transcript. It is derived
/// state: without a checkpoint, the transcript is read from its start.
#[derive(Debug, Clone)]
pub struct CheckpointFolder {
    pub(super) home: PathBuf,
    folder: PathBuf,
    tenant: TenantId,
}

impl CheckpointFolder {
    /// The name of the folder in a home.
    pub const NAME: &str = "capture";

    /// The folder of a tenant in a home.
    #[must_use]
    pub fn new(home: &Path, tenant: &TenantId) -> Self {
        let (home, folder) = (home.to_path_buf(), home.join(Self::NAME));
        Self { home, folder, tenant: tenant.clone() }
    }

    /// The checkpoint of a transcript, if there is one.
    #[must_use]
    pub fn load(&self, format: Format, transcript: &Path) -> Option<Checkpoint> {
        serde_json::from_slice(&fs::read(self.path(format, transcript, "json")).ok()?).ok()
    }

    /// Replaces the checkpoint of a transcript. It is not synced: losing it costs a read of the
    /// whole transcript.
    pub(crate) fn save(
        &self,
        format: Format,
        transcript: &Path,
        checkpoint: &Checkpoint,
    ) -> io::Result<()> {
        let reader = checkpoint.reader.compact();
        let bytes = serde_json::to_vec(&Checkpoint { reader, ..checkpoint.clone() })?;
        let path = self.path(format, transcript, "json");
        let new = path.with_extension(format!("{}.new", std::process::id()));
        private_file::create_folder(&self.folder)?;
        fs::write(&new, bytes)?;
        fs::rename(new, path)
    }

    /// Waits until no other process captures this transcript.
    pub(super) fn lock(&self, format: Format, transcript: &Path) -> io::Result<File> {
        private_file::create_folder(&self.folder)?;
        let lock = File::create(self.path(format, transcript, "lock"))?;
        lock.lock()?;
        Ok(lock)
    }

    fn path(&self, format: Format, transcript: &Path, ending: &str) -> PathBuf {
        let absolute = std::path::absolute(transcript).unwrap_or_else(|_| transcript.into());
        let name = ContentHash::of_fields(&[
            self.tenant.as_str().as_bytes(),
            format.as_str().as_bytes(),
            absolute.as_os_str().as_encoded_bytes(),
        ]);
        self.folder.join(format!("{name}.{ending}"))
    }
}
