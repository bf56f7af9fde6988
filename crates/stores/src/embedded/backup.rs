//! Backups: copies a consistent snapshot of the store while other processes write, and restores
//! it. A restore never deletes the store that it replaces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OpenFlags, Row};
use treering_core::ports::{Reader as _, Span, StoreResult};
use treering_core::{ConversationId, Invalid, MessageIdx, StoreError, TenantId};

use super::error::{explain, explain_io};
use super::index_folder::IndexFolder;
use super::open::{
    Lock, check_application_id, configure, has_wal, make_folder, open_immutable, private,
    sidecar_path, sync_folder,
};
use super::read::TenantView;
use super::{check, schema, wal};

/// Number of messages per page when a backup is checked.
const PAGE: usize = 500;

/// The contents of a backup, over all tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupContents {
    /// Number of conversations.
    pub conversations: u64,
    /// Number of messages.
    pub messages: u64,
    /// The schema version of the store that was copied.
    pub schema_version: u32,
    /// The size of the file.
    pub bytes: u64,
}

/// Copies the store that `connection` reads to `to`, which must not exist.
pub(super) fn backup(connection: &Connection, path: &Path, to: &Path) -> StoreResult<()> {
    let failed = |error: io::Error| explain_io(to, "cannot write the backup", &error);
    if to.exists() {
        return Err(exists(to));
    }
    // Write under a temporary name, so that an interrupted backup is never mistaken for a
    // complete one.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let partial = sidecar_path(to, &format!(".partial-{}-{nanos}", std::process::id()));
    // SQLite would interpret a relative path such as `file:x` as a URI.
    let absolute = std::path::absolute(&partial).map_err(failed)?;
    let name = absolute.to_str().ok_or_else(|| refused(to, "its path is not UTF-8"))?;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    private(&mut options);
    options.open(&partial).map_err(failed)?;
    let copied = connection
        .execute("VACUUM INTO ?1", [name])
        .map_err(|error| match explain(path, &error) {
            StoreError::Full { .. } => StoreError::Full { path: to.to_path_buf() },
            other => other,
        })
        .and_then(|_| publish(&partial, to));
    // The temporary name no longer exists if `publish` fell back to a rename.
    drop(fs::remove_file(&partial));
    copied
}

/// Gives a complete backup its final name, unless that name was taken in the meantime.
fn publish(partial: &Path, to: &Path) -> StoreResult<()> {
    let link = || -> io::Result<()> {
        File::open(partial)?.sync_all()?;
        match fs::hard_link(partial, to) {
            // Not every file system supports hard links.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !to.exists() => {
                fs::rename(partial, to)
            }
            linked => linked,
        }?;
        sync_folder(to.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    };
    link().map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(to),
        _ => explain_io(to, "cannot write the backup", &error),
    })
}

/// Reads a whole backup, and refuses anything but an undamaged store of a known version.
pub(super) fn inspect(file: &Path) -> StoreResult<BackupContents> {
    let failed = |error: rusqlite::Error| explain(file, &error);
    let corrupt = |detail: String| StoreError::Corrupt { path: file.to_path_buf(), detail };
    if !file.is_file() {
        return Err(refused(file, "there is no such file"));
    }
    if has_wal(file) {
        let reason = "its write-ahead log is next to it, so it is a copy of a store, not a backup; \
                   put both files into a folder as treering.db and treering.db-wal, and pass \
                   that folder as --home";
        return Err(refused(file, reason));
    }
    let connection = open_immutable(file).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    check_application_id(&connection, file)?;
    let schema_version = schema::version(&connection).map_err(failed)?;
    if schema_version == 0 {
        return Err(corrupt("it is not a Treering store".into()));
    }
    let mut problems = Vec::new();
    if schema_version == schema::NEWEST {
        problems = check::problems(&connection).map_err(failed)?;
        problems.extend(changed_messages(&connection, file)?);
    } else {
        // Older versions have no checksums.
        let verdict: String = connection
            .query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))
            .map_err(failed)?;
        problems.extend(Some(verdict).filter(|verdict| verdict != "ok"));
    }
    if let Some(first) = problems.first() {
        let more = problems.len() - 1;
        return Err(corrupt(if more == 0 {
            first.clone()
        } else {
            format!("{first}; and {more} more problems")
        }));
    }
    let (conversations, messages, _) =
        schema::ground_truth(&connection, schema_version).map_err(failed)?;
    Ok(BackupContents {
        conversations: conversations.unsigned_abs(),
        messages: messages.unsigned_abs(),
        schema_version,
        bytes: fs::metadata(file).map_or(0, |file| file.len()),
    })
}

/// Describes each message whose content does not match its stored hash.
fn changed_messages(connection: &Connection, file: &Path) -> StoreResult<Vec<String>> {
    let list = || -> rusqlite::Result<Vec<(String, [u8; 16], String)>> {
        let sql =
            "SELECT t.name, c.id, c.slug FROM conversations c JOIN tenants t ON t.pk = c.tenant";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        connection.prepare(sql)?.query_map([], read)?.collect()
    };
    let mut problems = Vec::new();
    for (tenant, id, slug) in list().map_err(|error| explain(file, &error))? {
        let view = TenantView::new(connection, file, &TenantId::new(tenant)?)?;
        let (id, mut next) = (ConversationId::from_bytes(id), 0);
        loop {
            let page = view.messages(id, Span::starting(MessageIdx(next), PAGE))?;
            let changed = page.iter().filter(|message| message.body.hash() != message.hash);
            let sentence = |idx: MessageIdx| {
                format!("conversation {slug}: message {idx} is not what was stored")
            };
            problems.extend(changed.map(|message| sentence(message.idx)));
            match page.last() {
                Some(last) if page.len() == PAGE => next = last.idx.0 + 1,
                _ => break,
            }
        }
    }
    Ok(problems)
}

/// Replaces the store at `path` with a backup. No process may have the store open. Keeps the
/// previous store beside the new one and returns its path.
pub(super) fn restore(folder: &Path, path: &Path, from: &Path) -> StoreResult<Option<PathBuf>> {
    let failed = |error: io::Error| explain_io(path, "cannot move the backup into place", &error);
    if fs::canonicalize(path)
        .is_ok_and(|path| fs::canonicalize(from).is_ok_and(|from| from == path))
    {
        return Err(refused(from, "it is the store itself"));
    }
    inspect(from)?;
    make_folder(folder, path)?;
    let lock = Lock::acquire(folder);
    lock.check_exclusive(path)?;
    let incoming = sidecar_path(path, ".restoring");
    // Inspect the copy that goes into place, not only its source.
    let restored = wal::copy_private(from, &incoming)
        .map_err(failed)
        .and_then(|()| {
            if has_wal(from) { inspect(from).map(drop) } else { inspect(&incoming).map(drop) }
        })
        .and_then(|()| exchange(folder, path, &incoming).map_err(failed));
    match &restored {
        // An index of the previous store would not be used.
        Ok(_) => IndexFolder::remove(folder),
        Err(_) => drop(fs::remove_file(&incoming)),
    }
    restored
}

/// Replaces the store with the file `incoming`, and keeps the previous store under another
/// name.
fn exchange(folder: &Path, path: &Path, incoming: &Path) -> io::Result<Option<PathBuf>> {
    // Errors are ignored: a store that can no longer be opened is kept together with its WAL.
    if has_wal(path) && path.exists() {
        drop(wal::check_before_recovery(path));
        drop(checkpoint(path));
    }
    let replaced = wal::free_name(path, ".replaced");
    let replaces = path.exists() || has_wal(path);
    if path.exists() {
        fs::hard_link(path, &replaced).or_else(|_| wal::copy_private(path, &replaced))?;
    }
    // The old WAL must move too, or the next process would replay it into the restored
    // database.
    for suffix in ["-wal", "-shm"] {
        let sidecar = sidecar_path(path, suffix);
        if sidecar.exists() {
            fs::rename(sidecar, sidecar_path(&replaced, suffix))?;
        }
    }
    fs::rename(incoming, path)?;
    wal::move_set_aside(path, &replaced)?;
    sync_folder(folder)?;
    Ok(replaces.then_some(replaced))
}

/// Checkpoints the whole WAL.
fn checkpoint(path: &Path) -> rusqlite::Result<()> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn refused(file: &Path, reason: &str) -> StoreError {
    Invalid::new(format!("backup {}", file.display()), reason).into()
}

fn exists(file: &Path) -> StoreError {
    refused(file, "a file with this name exists; choose another name or remove it")
}
