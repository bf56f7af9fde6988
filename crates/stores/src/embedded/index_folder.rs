//! The files of the search index, in a folder beside the store. They are readable by this user
//! only, like the store.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use treering_core::TenantId;
use treering_core::ports::{IndexFile, IndexFiles, StoreResult};

use super::error::explain_io;
use super::open::{make_folder, private, sync_folder};

const FOLDER: &str = "index";

/// The file that a writer locks.
const LOCK: &str = "lock";

/// The folder with the search indexes of all tenants.
pub struct IndexFolder {
    path: PathBuf,
    /// Distinguishes the temporary files of this process.
    temporary_files: AtomicU64,
}

impl IndexFolder {
    /// The folder in a home. It is created with the first file.
    #[must_use]
    pub fn new(home: &Path) -> Self {
        Self { path: home.join(FOLDER), temporary_files: AtomicU64::new(0) }
    }

    /// Removes the folder from a home, as far as possible.
    pub(super) fn remove(home: &Path) {
        drop(fs::remove_dir_all(home.join(FOLDER)));
    }

    /// The folder of a tenant. The prefix keeps a tenant named `..` inside.
    fn folder(&self, tenant: &TenantId) -> PathBuf {
        self.path.join(format!("tenant-{tenant}"))
    }

    /// Writes a file under a temporary name, and renames it.
    fn replace(&self, folder: &Path, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        let number = self.temporary_files.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!("{name}.{}-{number}.part", std::process::id()));
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        private(&mut options);
        let written = options.open(&temporary).and_then(|mut file| {
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()?;
            fs::rename(&temporary, folder.join(name))?;
            sync_folder(folder)
        });
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        written
    }
}

struct OpenFile {
    file: File,
    path: PathBuf,
}

impl IndexFile for OpenFile {
    fn read(&mut self, max_bytes: u64, content: &mut Vec<u8>) -> StoreResult<()> {
        let read = (&self.file).take(max_bytes).read_to_end(content);
        read.map(drop).map_err(|error| explain_io(&self.path, "cannot read", &error))
    }
}

impl IndexFiles for IndexFolder {
    fn open(&self, tenant: &TenantId, name: &str) -> StoreResult<Option<Box<dyn IndexFile>>> {
        let path = self.folder(tenant).join(name);
        match File::open(&path) {
            Ok(file) => Ok(Some(Box::new(OpenFile { file, path }))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(explain_io(&path, "cannot read the search index", &error)),
        }
    }

    fn write(&self, tenant: &TenantId, name: &str, parts: &[&[u8]]) -> StoreResult<()> {
        let folder = self.folder(tenant);
        make_folder(&folder, &folder)?;
        self.replace(&folder, name, parts)
            .map_err(|error| explain_io(&folder, "cannot write the search index", &error))
    }

    fn retain(&self, tenant: &TenantId, names: &[&str]) -> StoreResult<()> {
        let folder = self.folder(tenant);
        let remove = || -> io::Result<()> {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let name = entry.file_name();
                let is_kept = |name: &str| name == LOCK || names.contains(&name);
                if !name.to_str().is_some_and(is_kept) {
                    fs::remove_file(entry.path())?;
                }
            }
            Ok(())
        };
        match remove() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(explain_io(&folder, "cannot remove an old file of the search index", &error))
            }
            _ => Ok(()),
        }
    }

    fn lock(&self, tenant: &TenantId, wait: bool) -> StoreResult<Option<Box<dyn Send>>> {
        let folder = self.folder(tenant);
        make_folder(&folder, &folder)?;
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(false);
        private(&mut options);
        let locked = options.open(folder.join(LOCK)).and_then(|file| match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) if wait => file.lock().map(|()| Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        });
        let boxed = |file: File| Box::new(file) as Box<dyn Send>;
        locked
            .map(|file| file.map(boxed))
            .map_err(|error| explain_io(&folder, "cannot lock the search index", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(files: &IndexFolder, tenant: &TenantId, name: &str) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        files.open(tenant, name).unwrap()?.read(u64::MAX, &mut content).unwrap();
        Some(content)
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_are_replaced_and_removed_by_tenant() {
        let home = tempfile::tempdir().unwrap();
        let files = IndexFolder::new(home.path());
        let (one, two) = (TenantId::default(), TenantId::new("..").unwrap());
        assert_eq!(content(&files, &one, "a"), None);
        assert!(!home.path().join("index").exists(), "a reader creates nothing");
        for (tenant, name) in [(&one, "a"), (&one, "b"), (&two, "a")] {
            files.write(tenant, name, &[b"o", b"ld"]).unwrap();
            files.write(tenant, name, &[name.as_bytes()]).unwrap();
        }
        let folder = home.path().join("index/tenant-default");
        fs::write(folder.join("a.77-0.part"), "left by a killed process").unwrap();
        files.retain(&one, &["b"]).unwrap();
        assert_eq!(names(&folder), ["b"]);
        assert_eq!(content(&files, &one, "b").unwrap(), b"b");
        assert_eq!(content(&files, &two, "a").unwrap(), b"a");
        assert_eq!(names(&home.path().join("index")), ["tenant-..", "tenant-default"]);
    }

    #[cfg(unix)]
    #[test]
    fn files_belong_to_the_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let files = IndexFolder::new(home.path());
        files.write(&TenantId::default(), "a", &[b"content"]).unwrap();
        let mode =
            |path: &str| fs::metadata(home.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("index/tenant-default/a"), 0o600);
        assert_eq!(mode("index/tenant-default"), 0o700);
        assert_eq!(mode("index"), 0o700);
    }

    #[test]
    fn one_writer_holds_the_lock() {
        let home = tempfile::tempdir().unwrap();
        let files = IndexFolder::new(home.path());
        let lock = files.lock(&TenantId::default(), false).unwrap();
        assert!(lock.is_some());
        assert!(files.lock(&TenantId::default(), false).unwrap().is_none());
        drop(lock);
        assert!(files.lock(&TenantId::default(), true).unwrap().is_some());
    }
}
