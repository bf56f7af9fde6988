//! How SQLite reaches the log: a connection that writes it through what gathers its writes (see
//! `gather`), and one that carries it over by reading a little at a time, with others let run in
//! between. Every other file, and everything else, is as the system's own way has it.
#![expect(unsafe_code, reason = "SQLite calls it, and calls are all there is between C and Rust")]
#![allow(non_snake_case)]

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;

use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_CANTOPEN, SQLITE_FCNTL_FILE_POINTER, SQLITE_IOERR, SQLITE_OK, SQLITE_OPEN_WAL, SQLITE_SYNC_FULL,
    sqlite3_file, sqlite3_file_control, sqlite3_filename, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find,
    sqlite3_vfs_register,
};

use super::gather::Gathered;

/// The name that a connection asks for to have its writes gathered.
const GATHERING: &CStr = c"treering";

/// The name that a connection asks for to give way to others.
const GIVING_WAY: &CStr = c"treering-carrier";

/// How many pages are read before others are let run. Where every core is busy, a writer whose sync has ended may
/// otherwise wait for milliseconds behind whoever carries the log over.
const PAGES_AT_A_TIME: u64 = 8;

/// The system's own way.
static SYSTEM: AtomicPtr<sqlite3_vfs> = AtomicPtr::new(ptr::null_mut());

/// The name to open a connection with, so that what it writes to the log is gathered. `None` where SQLite
/// cannot be told of it, and opens files in its own way.
pub(super) fn gathering() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register(GATHERING, open_gathering)).then_some(GATHERING)
}

/// The same, so that others are let run while it reads the log.
pub(super) fn giving_way() -> Option<&'static CStr> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    REGISTERED.get_or_init(|| register(GIVING_WAY, open_giving_way)).then_some(GIVING_WAY)
}

/// Has the disk take what was written to a connection's file.
pub(super) fn sync_file(connection: &Connection) -> rusqlite::Result<()> {
    let mut file: *mut sqlite3_file = ptr::null_mut();
    // SAFETY: the connection is open, and nobody else uses it meanwhile; the file that SQLite tells of is its own.
    let synced = unsafe {
        let told = (&raw mut file).cast::<c_void>();
        match sqlite3_file_control(connection.handle(), c"main".as_ptr(), SQLITE_FCNTL_FILE_POINTER, told) {
            SQLITE_OK => match file.as_ref().and_then(|file| file.pMethods.as_ref()?.xSync) {
                Some(sync) => sync(file, SQLITE_SYNC_FULL),
                None => SQLITE_IOERR,
            },
            failed => failed,
        }
    };
    match synced {
        SQLITE_OK => Ok(()),
        failed => Err(rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(failed), None)),
    }
}

type Open =
    unsafe extern "C" fn(*mut sqlite3_vfs, sqlite3_filename, *mut sqlite3_file, c_int, *mut c_int) -> c_int;

/// Makes a name known to SQLite, and what opens files for it.
fn register(name: &'static CStr, open: Open) -> bool {
    // SAFETY: SQLite gives its default, which is never taken back, or null. The copy differs from it only in what
    // opens files and in how much room they need; it is never freed.
    unsafe {
        let system = sqlite3_vfs_find(ptr::null());
        let Some(found) = system.as_ref() else { return false };
        let ours = sqlite3_vfs {
            szOsFile: found.szOsFile + size_of::<LogFile>() as c_int,
            pNext: ptr::null_mut(),
            zName: name.as_ptr(),
            xOpen: Some(open),
            ..*found
        };
        SYSTEM.store(system, Ordering::Release);
        sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0) == SQLITE_OK
    }
}

/// The log as SQLite holds it; right after it in memory is the same file as the system has it.
#[repr(C)]
struct LogFile {
    base: sqlite3_file,
    gathered: Gathered,
    /// How many pages were read so as to give way.
    read: u64,
}

static GATHERED: sqlite3_io_methods = METHODS;

static GIVEN_WAY: sqlite3_io_methods = sqlite3_io_methods { xRead: Some(read_giving_way), ..METHODS };

/// What SQLite calls. Locks and shared memory are a matter of the store's file, not of its log.
const METHODS: sqlite3_io_methods = sqlite3_io_methods {
    iVersion: 1,
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
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// Calls a method of the file as the system has it.
macro_rules! system {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let below: *mut sqlite3_file = $file.cast::<LogFile>().add(1).cast();
        match (*below).pMethods.as_ref().and_then(|methods| methods.$method) {
            Some(method) => method(below $(, $argument)*),
            None => SQLITE_IOERR,
        }
    }};
}

/// What is held back of a file, and what writes to it.
///
/// # Safety
/// `file` is one that [`open`] has opened, and nobody else uses it meanwhile.
unsafe fn parts<'a>(
    file: *mut sqlite3_file,
) -> (&'a mut Gathered, impl FnMut(&[u8], u64) -> Result<(), c_int>) {
    // SAFETY: what opened it has put a `LogFile` there.
    let gathered = unsafe { &mut (*file.cast::<LogFile>()).gathered };
    let out = move |bytes: &[u8], at: u64| {
        let (start, length) = (bytes.as_ptr().cast::<c_void>(), bytes.len() as c_int);
        // SAFETY: the system's file follows, and it reads no more than the length says.
        match unsafe { system!(file, xWrite, start, length, at as i64) } {
            SQLITE_OK => Ok(()),
            failed => Err(failed),
        }
    };
    (gathered, out)
}

/// As SQLite wants it told.
fn code(done: Result<(), c_int>) -> c_int {
    done.err().unwrap_or(SQLITE_OK)
}

// SAFETY, of all that follows: SQLite calls these with a file that `open` has opened and not closed, with buffers as
// long as it says, and for one file from one thread at a time. `open` gets room as `szOsFile` says.

/// What opens files so that, where one is a log, these methods are called.
macro_rules! opening {
    ($name:ident, $methods:ident) => {
        unsafe extern "C" fn $name(
            _: *mut sqlite3_vfs,
            name: sqlite3_filename,
            file: *mut sqlite3_file,
            flags: c_int,
            flags_out: *mut c_int,
        ) -> c_int {
            unsafe { open(&$methods, name, file, flags, flags_out) }
        }
    };
}

opening!(open_gathering, GATHERED);
opening!(open_giving_way, GIVEN_WAY);

unsafe fn open(
    methods: &'static sqlite3_io_methods,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    flags_out: *mut c_int,
) -> c_int {
    unsafe {
        let system = SYSTEM.load(Ordering::Acquire);
        let Some(open) = system.as_ref().and_then(|system| system.xOpen) else { return SQLITE_CANTOPEN };
        if flags & SQLITE_OPEN_WAL == 0 {
            return open(system, name, file, flags, flags_out);
        }
        let log: *mut LogFile = file.cast();
        let below: *mut sqlite3_file = log.add(1).cast();
        (*file).pMethods = ptr::null();
        (*below).pMethods = ptr::null();
        let opened = open(system, name, below, flags, flags_out);
        if opened == SQLITE_OK {
            let base = sqlite3_file { pMethods: methods };
            log.write(LogFile { base, gathered: Gathered::default(), read: 0 });
        } else if !(*below).pMethods.is_null() {
            // SQLite would close it, but does not know of it.
            system!(file, xClose);
        }
        opened
    }
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    unsafe {
        // What is still held back is of no transaction.
        ptr::drop_in_place(&raw mut (*file.cast::<LogFile>()).gathered);
        system!(file, xClose)
    }
}

unsafe extern "C" fn read(file: *mut sqlite3_file, into: *mut c_void, length: c_int, at: i64) -> c_int {
    unsafe {
        let (gathered, out) = parts(file);
        match gathered.read(at as u64, length as u64, out) {
            Ok(()) => system!(file, xRead, into, length, at),
            Err(failed) => failed,
        }
    }
}

unsafe extern "C" fn read_giving_way(
    file: *mut sqlite3_file,
    into: *mut c_void,
    length: c_int,
    at: i64,
) -> c_int {
    unsafe {
        let pages = &mut (*file.cast::<LogFile>()).read;
        *pages += 1;
        if pages.is_multiple_of(PAGES_AT_A_TIME) {
            thread::yield_now();
        }
        read(file, into, length, at)
    }
}

unsafe extern "C" fn write(file: *mut sqlite3_file, from: *const c_void, length: c_int, at: i64) -> c_int {
    unsafe {
        let (gathered, out) = parts(file);
        code(gathered.write(slice::from_raw_parts(from.cast(), length as usize), at as u64, out))
    }
}

/// Writes what is held back, then calls a method of the system's file.
macro_rules! written {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let (gathered, out) = parts($file);
        match gathered.write_held(out) {
            Ok(()) => system!($file, $method $(, $argument)*),
            Err(failed) => failed,
        }
    }};
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, size: i64) -> c_int {
    unsafe { written!(file, xTruncate, size) }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    unsafe { written!(file, xSync, flags) }
}

unsafe extern "C" fn file_size(file: *mut sqlite3_file, size: *mut i64) -> c_int {
    unsafe { written!(file, xFileSize, size) }
}

unsafe extern "C" fn file_control(file: *mut sqlite3_file, what: c_int, about: *mut c_void) -> c_int {
    unsafe { written!(file, xFileControl, what, about) }
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

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    unsafe { system!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    unsafe { system!(file, xDeviceCharacteristics) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::OpenFlags;

    use super::super::open::{open_carrier, open_writer};
    use super::*;

    /// What a transaction does to a table.
    #[derive(Debug, Clone)]
    enum Step {
        Put {
            key: u8,
            size: u16,
        },
        Remove {
            key: u8,
        },
        /// Takes back a few puts that go beyond what SQLite keeps in memory.
        TakeBack {
            keys: u8,
        },
        Carry {
            beside: bool,
        },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (any::<u8>(), 0_u16..9000).prop_map(|(key, size)| Step::Put { key, size }),
            2 => any::<u8>().prop_map(|key| Step::Remove { key }),
            1 => (1_u8..40).prop_map(|keys| Step::TakeBack { keys }),
            1 => any::<bool>().prop_map(|beside| Step::Carry { beside }),
        ]
    }

    fn put(connection: &Connection, key: u8, size: u16) {
        let sql = "INSERT INTO t (key, text) VALUES (?1, randomblob(?2))
            ON CONFLICT (key) DO UPDATE SET text = excluded.text";
        connection.execute(sql, (key, size)).unwrap();
    }

    fn all(connection: &Connection) -> Vec<(u8, Vec<u8>)> {
        let mut statement = connection.prepare("SELECT key, text FROM t ORDER BY key").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Transactions that spill, take parts of themselves back and are carried over: after each, somebody who
        /// opened the file in SQLite's own way reads what the writer reads, and so does whoever finds the files as they are.
        #[test]
        fn others_read_what_was_committed(
            transactions in prop::collection::vec((prop::collection::vec(step(), 1..12), any::<bool>()), 1..12),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("gathered.db");
            let writer =
                Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), gathering().unwrap()).unwrap();
            writer.pragma_update(None, "journal_mode", "WAL").unwrap();
            writer.pragma_update(None, "synchronous", "NORMAL").unwrap();
            writer.pragma_update(None, "cache_size", 10).unwrap();
            writer.execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, text BLOB)").unwrap();
            let reader = Connection::open(&path).unwrap();
            let carrier = open_carrier(&path).unwrap();
            for (steps, commits) in transactions {
                writer.execute_batch("BEGIN IMMEDIATE").unwrap();
                for step in steps {
                    match step {
                        Step::Put { key, size } => put(&writer, key, size),
                        Step::Remove { key } => drop(writer.execute("DELETE FROM t WHERE key = ?1", [key]).unwrap()),
                        Step::TakeBack { keys } => {
                            writer.execute_batch("SAVEPOINT part").unwrap();
                            (0..keys).for_each(|key| put(&writer, key, 5000));
                            writer.execute_batch("ROLLBACK TO part; RELEASE part").unwrap();
                        }
                        Step::Carry { beside } => {
                            writer.execute_batch("COMMIT").unwrap();
                            let carrier = if beside { &carrier } else { &writer };
                            carrier.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
                            sync_file(carrier).unwrap();
                            writer.execute_batch("BEGIN IMMEDIATE").unwrap();
                        }
                    }
                }
                let inside = all(&writer);
                writer.execute_batch(if commits { "COMMIT" } else { "ROLLBACK" }).unwrap();
                let after = all(&writer);
                if commits {
                    prop_assert_eq!(&inside, &after);
                }
                prop_assert_eq!(&all(&reader), &after);
            }
            // As a crash leaves it.
            let copy = folder.path().join("copy.db");
            std::fs::copy(&path, &copy).unwrap();
            std::fs::copy(path.with_extension("db-wal"), copy.with_extension("db-wal")).unwrap();
            let copied = Connection::open(&copy).unwrap();
            prop_assert_eq!(all(&copied), all(&writer));
            let found: String = copied.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
            prop_assert_eq!(found, "ok");
        }
    }

    /// What is taken back leaves nothing behind that is written later, when others have written in its place.
    #[test]
    fn a_transaction_that_is_taken_back_harms_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gathered.db");
        let writer = open_writer(&path).unwrap();
        writer.execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, text BLOB)").unwrap();
        let other = Connection::open(&path).unwrap();
        // Up to what is kept in memory, a little more, and far beyond it.
        let sizes = [1, 10].into_iter().chain((700..900).step_by(8)).chain([5000]);
        for (round, rows) in sizes.enumerate() {
            writer.execute_batch("BEGIN IMMEDIATE").unwrap();
            for row in 0..rows {
                writer
                    .execute("INSERT INTO t (key, text) VALUES (?1, randomblob(5000))", [1000 + row])
                    .unwrap();
            }
            writer.execute_batch("ROLLBACK").unwrap();
            let key = round as u8;
            (0..20).for_each(|_| put(&other, 100 + key, 3000));
            assert_eq!(all(&writer), all(&other));
            put(&writer, key, 3000);
            assert_eq!(all(&writer), all(&other));
        }
        assert_eq!(all(&Connection::open(&path).unwrap()).len(), 56);
        let found: String = other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(found, "ok");
    }

    fn log_of(connection: &Connection) -> *mut sqlite3_file {
        let mut log: *mut sqlite3_file = ptr::null_mut();
        let what = rusqlite::ffi::SQLITE_FCNTL_JOURNAL_POINTER;
        // SAFETY: the connection is open, and the log is its own.
        let told = unsafe {
            sqlite3_file_control(connection.handle(), c"main".as_ptr(), what, (&raw mut log).cast::<c_void>())
        };
        assert_eq!(told, SQLITE_OK);
        log
    }

    /// The log does grow by one write for each commit, and others are let run while it is carried over, or all this
    /// would be for nothing.
    #[test]
    fn a_connection_gets_the_way_it_asks_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gathered.db");
        let connection =
            Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), gathering().unwrap()).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (key INTEGER PRIMARY KEY, text BLOB)").unwrap();
        let carrier = open_carrier(&path).unwrap();
        carrier.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap();
        let (log, carried) = (log_of(&connection), log_of(&carrier));
        // SAFETY: both connections are open, and nobody else uses their logs.
        let (held, read) = unsafe {
            assert!(ptr::eq((*log).pMethods, &GATHERED));
            assert!(ptr::eq((*carried).pMethods, &GIVEN_WAY));
            (&(*log.cast::<LogFile>()).gathered, &raw const (*carried.cast::<LogFile>()).read)
        };
        put(&connection, 1, 60_000);
        assert!(format!("{held:?}").contains("held: []"));
        // SAFETY: as above.
        let before = unsafe { *read };
        let carried: i64 = carrier.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2)).unwrap();
        // SAFETY: as above.
        let counted = unsafe { *read } - before;
        assert!(counted > PAGES_AT_A_TIME, "{counted} of {carried}");
    }
}
