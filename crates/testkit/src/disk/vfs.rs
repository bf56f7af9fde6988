//! The recorder's SQLite VFS. It forwards every call to the system's VFS and reports the
//! operations on watched files to the recorder. It never decides what survives a crash.
#![expect(unsafe_code, reason = "SQLite's C interface to files")]
#![allow(non_snake_case)]

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FULL, SQLITE_IOERR, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE,
    SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_CREATE, SQLITE_OPEN_DELETEONCLOSE,
    SQLITE_OPEN_MAIN_JOURNAL, SQLITE_OPEN_SUPER_JOURNAL, SQLITE_OPEN_WAL, sqlite3_file,
    sqlite3_filename, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

use super::fault::{FaultKind, FaultPoint};
use super::recorder::Recorder;
use super::recorder_of;
use super::trace::{DiskOp, FileId};

/// The previous default VFS.
static SYSTEM: AtomicPtr<sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// Makes the recording VFS the default of this process. Later calls have no effect.
pub(super) fn register() -> io::Result<()> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    match REGISTERED.get_or_init(register_default) {
        true => Ok(()),
        false => Err(io::Error::other("SQLite refuses the recording VFS")),
    }
}

fn register_default() -> bool {
    // SAFETY: SQLite returns null or its default VFS, which stays registered. The copy is never
    // freed; it differs in its name, the size of its file objects, and how it opens and
    // deletes files.
    unsafe {
        let system = sqlite3_vfs_find(ptr::null());
        let Some(found) = system.as_ref() else { return false };
        let recording = sqlite3_vfs {
            szOsFile: found.szOsFile + size_of::<RecordedFile>() as c_int,
            pNext: ptr::null_mut(),
            zName: c"treering-recorder".as_ptr(),
            xOpen: Some(open),
            xDelete: Some(delete),
            ..*found
        };
        SYSTEM.store(system, Ordering::Release);
        sqlite3_vfs_register(Box::into_raw(Box::new(recording)), 1) == SQLITE_OK
    }
}

/// A file in a watched folder. The system's file follows it in memory.
#[repr(C)]
struct RecordedFile {
    base: sqlite3_file,
    recording: Recording,
}

struct Recording {
    recorder: Arc<Recorder>,
    name: String,
    file: FileId,
    /// The system's VFS syncs the directory at the first sync of a journal or WAL that it may
    /// have created.
    syncs_directory: bool,
}

impl Recording {
    fn trigger(&self, point: FaultPoint) -> Option<FaultKind> {
        self.recorder.strike(&self.name, point)
    }
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 3,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: Some(shm_map),
    xShmLock: Some(shm_lock),
    xShmBarrier: Some(shm_barrier),
    xShmUnmap: Some(shm_unmap),
    xFetch: Some(fetch),
    xUnfetch: Some(unfetch),
};

/// Calls a method of the system's file.
macro_rules! system {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let inner = system_file($file);
        match (*inner).pMethods.as_ref().and_then(|methods| methods.$method) {
            Some(method) => method(inner $(, $argument)*),
            None => SQLITE_IOERR,
        }
    }};
}

// SAFETY, for everything below: SQLite passes files that `open` opened and that are not closed
// yet, and buffers of the stated length, and it uses a file from one thread at a time. `open`
// gets a buffer of `szOsFile` bytes.

unsafe fn system_file(file: *mut sqlite3_file) -> *mut sqlite3_file {
    unsafe { file.cast::<RecordedFile>().add(1).cast() }
}

unsafe fn recording<'a>(file: *mut sqlite3_file) -> &'a mut Recording {
    unsafe { &mut (*file.cast::<RecordedFile>()).recording }
}

unsafe fn path_of<'a>(name: *const c_char) -> Option<&'a Path> {
    match name.is_null() {
        true => None,
        false => Some(Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()))),
    }
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    unsafe {
        let system = SYSTEM.load(Ordering::Acquire);
        let Some(open) = system.as_ref().and_then(|system| system.xOpen) else {
            return SQLITE_CANTOPEN;
        };
        let path = path_of(name).filter(|_| flags & SQLITE_OPEN_DELETEONCLOSE == 0);
        let Some((path, (recorder, name_there))) =
            path.and_then(|path| Some((path, recorder_of(path)?)))
        else {
            return open(system, name, file, flags, flags_out);
        };
        let existed = path.exists();
        let inner = system_file(file);
        (*file).pMethods = ptr::null();
        (*inner).pMethods = ptr::null();
        let open_result = open(system, name, inner, flags, flags_out);
        let recorded = match open_result {
            SQLITE_OK => recorder.record_open(&name_there, existed).ok(),
            _ => None,
        };
        let Some(id) = recorded else {
            if !(*inner).pMethods.is_null() {
                system!(file, xClose);
            }
            return if open_result == SQLITE_OK { SQLITE_CANTOPEN } else { open_result };
        };
        let journals = SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL;
        let syncs_directory = flags & SQLITE_OPEN_CREATE != 0 && flags & journals != 0;
        file.cast::<RecordedFile>().write(RecordedFile {
            base: sqlite3_file { pMethods: &METHODS },
            recording: Recording { recorder, name: name_there, file: id, syncs_directory },
        });
        SQLITE_OK
    }
}

unsafe extern "C" fn delete(
    _: *mut sqlite3_vfs,
    name: *const c_char,
    sync_directory: c_int,
) -> c_int {
    unsafe {
        let system = SYSTEM.load(Ordering::Acquire);
        let Some(delete) = system.as_ref().and_then(|system| system.xDelete) else {
            return SQLITE_IOERR;
        };
        let deleted = delete(system, name, sync_directory);
        if deleted == SQLITE_OK
            && let Some((recorder, name_there)) = path_of(name).and_then(recorder_of)
        {
            recorder.deleted(&name_there, sync_directory != 0);
        }
        deleted
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        ptr::drop_in_place(&raw mut (*file.cast::<RecordedFile>()).recording);
        system!(file, xClose)
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    from: *const c_void,
    length: c_int,
    at: i64,
) -> c_int {
    unsafe {
        let recording = recording(file);
        let fault = recording.trigger(FaultPoint::Write);
        let (length, refused) = match fault {
            Some(FaultKind::Io) => return SQLITE_IOERR_WRITE,
            Some(FaultKind::Full) => (length / 2, SQLITE_FULL),
            Some(FaultKind::Lie) | None => (length, SQLITE_OK),
        };
        let written = system!(file, xWrite, from, length, at);
        if written != SQLITE_OK {
            return written;
        }
        let bytes = slice::from_raw_parts(from.cast::<u8>(), length as usize).to_vec();
        let is_lie = fault == Some(FaultKind::Lie);
        recording.recorder.push(DiskOp::Write {
            file: recording.file,
            offset: at as u64,
            bytes,
            is_lie,
        });
        refused
    }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    unsafe {
        let recording = recording(file);
        let fault = recording.trigger(FaultPoint::Truncate);
        match fault {
            Some(FaultKind::Io) => return SQLITE_IOERR_TRUNCATE,
            Some(FaultKind::Full) => return SQLITE_FULL,
            Some(FaultKind::Lie) | None => {}
        }
        let truncated = system!(file, xTruncate, size);
        if truncated == SQLITE_OK {
            let is_lie = fault == Some(FaultKind::Lie);
            recording.recorder.push(DiskOp::Truncate {
                file: recording.file,
                size: size as u64,
                is_lie,
            });
        }
        truncated
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    unsafe {
        let recording = recording(file);
        let start = recording.recorder.position();
        let synced = match recording.trigger(FaultPoint::Sync) {
            Some(FaultKind::Io) => SQLITE_IOERR_FSYNC,
            Some(FaultKind::Full) => SQLITE_FULL,
            Some(FaultKind::Lie) => return SQLITE_OK,
            None => system!(file, xSync, flags),
        };
        let id = recording.file;
        if synced != SQLITE_OK {
            recording.recorder.push(DiskOp::FailedSync { file: id, start });
            return synced;
        }
        recording.recorder.push(DiskOp::Sync { file: id, start });
        if std::mem::take(&mut recording.syncs_directory) {
            recording.recorder.push(DiskOp::DirectorySync { start });
        }
        SQLITE_OK
    }
}

unsafe extern "C" fn read(
    file: *mut sqlite3_file,
    into: *mut c_void,
    length: c_int,
    at: i64,
) -> c_int {
    unsafe { system!(file, xRead, into, length, at) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    unsafe { system!(file, xFileSize, size) }
}

unsafe extern "C" fn lock(file: *mut sqlite3_file, level: c_int) -> c_int {
    unsafe { system!(file, xLock, level) }
}

unsafe extern "C" fn unlock(file: *mut sqlite3_file, level: c_int) -> c_int {
    unsafe { system!(file, xUnlock, level) }
}

unsafe extern "C" fn check_reserved_lock(file: *mut sqlite3_file, reserved: *mut c_int) -> c_int {
    unsafe { system!(file, xCheckReservedLock, reserved) }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, op: c_int, arg: *mut c_void) -> c_int {
    unsafe { system!(file, xFileControl, op, arg) }
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    unsafe { system!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    unsafe { system!(file, xDeviceCharacteristics) }
}

unsafe extern "C" fn shm_map(
    file: *mut sqlite3_file,
    region: c_int,
    size: c_int,
    extend: c_int,
    mapped: *mut *mut c_void,
) -> c_int {
    unsafe { system!(file, xShmMap, region, size, extend, mapped) }
}

unsafe extern "C" fn shm_lock(
    file: *mut sqlite3_file,
    offset: c_int,
    count: c_int,
    flags: c_int,
) -> c_int {
    unsafe { system!(file, xShmLock, offset, count, flags) }
}

unsafe extern "C" fn shm_barrier(file: *mut sqlite3_file) {
    unsafe {
        let inner = system_file(file);
        if let Some(barrier) = (*inner).pMethods.as_ref().and_then(|methods| methods.xShmBarrier) {
            barrier(inner);
        }
    }
}

unsafe extern "C" fn shm_unmap(file: *mut sqlite3_file, delete: c_int) -> c_int {
    unsafe { system!(file, xShmUnmap, delete) }
}

unsafe extern "C" fn fetch(
    file: *mut sqlite3_file,
    at: i64,
    length: c_int,
    page: *mut *mut c_void,
) -> c_int {
    unsafe { system!(file, xFetch, at, length, page) }
}

unsafe extern "C" fn unfetch(file: *mut sqlite3_file, at: i64, page: *mut c_void) -> c_int {
    unsafe { system!(file, xUnfetch, at, page) }
}
