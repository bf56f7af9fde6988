//! Gathers the writes of a commit: SQLite writes the log page by page, each in two pieces, and the
//! system takes ten times as long for those as for the same bytes at once.
//!
//! Held back is only what is appended: headers and pages, each where the one before it ended. The
//! page whose header ends a transaction is written with all before it, since afterwards others are
//! told of it; so whatever fails, fails in the commit. Anything else, above all what is written anew
//! where something stood, is written at once.
//!
//! Whoever uses it must write pages in commits only (`cache_spill` off). What a transaction has
//! written that is taken back would stay here, and be written over what others append meanwhile.

use std::ops::Range;

/// The length of what comes before each page in the log.
const HEADER: usize = 24;

/// Where a header has the size of the file after the transaction that its page ends; zero where
/// the transaction goes on.
const ENDS_TRANSACTION: Range<usize> = 4..8;

/// Where a header has what is another each time that the log begins anew.
const SALT: Range<usize> = 8..16;

/// How much is held back at the most: longer writes are hardly faster, and SQLite's own way to
/// files takes less than 128 KiB at once.
const MOST: usize = 120 << 10;

/// What is held back of a log.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    held: Vec<u8>,
    /// Where what was appended ends, whether it is held back or not.
    end: Option<u64>,
    salt: [u8; 8],
    /// The last write was a header, and says whether its page ends the transaction.
    header: Option<bool>,
}

impl Gathered {
    /// Takes a write. `out` writes to the file.
    pub(super) fn write<E>(
        &mut self,
        bytes: &[u8],
        at: u64,
        mut out: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_header = bytes.len() == HEADER;
        let before = self.header.take();
        let is_held = self.end == Some(at) && (is_header || before.is_some());
        if !is_held || self.held.len() + bytes.len() > MOST {
            self.write_held(&mut out)?;
        }
        if is_held {
            self.held.extend_from_slice(bytes);
        } else {
            out(bytes, at)?;
        }
        if is_held || self.is_new(bytes, at) {
            self.end = Some(at + bytes.len() as u64);
        }
        if is_header {
            self.salt.copy_from_slice(&bytes[SALT]);
            self.header = Some(bytes[ENDS_TRANSACTION] != [0; 4]);
        } else if before == Some(true) {
            self.write_held(&mut out)?;
        }
        Ok(())
    }

    /// Whether a write lies beyond all that was appended: to this log, or to one that began anew.
    fn is_new(&self, bytes: &[u8], at: u64) -> bool {
        at == 0 || self.end.is_none_or(|end| end <= at) || (bytes.len() == HEADER && bytes[SALT] != self.salt)
    }

    /// Makes ready for a read.
    pub(super) fn read<E>(
        &mut self,
        at: u64,
        length: u64,
        out: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.end {
            Some(end) if at < end && at + length > end - self.held.len() as u64 => self.write_held(out),
            _ => Ok(()),
        }
    }

    /// Writes what is held back. What cannot be written is dropped: its transaction has failed.
    pub(super) fn write_held<E>(
        &mut self,
        mut out: impl FnMut(&[u8], u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let (false, Some(end)) = (self.held.is_empty(), self.end) else { return Ok(()) };
        let written = out(&self.held, end - self.held.len() as u64);
        self.held.clear();
        if written.is_err() {
            (self.end, self.header) = (None, None);
        }
        written
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PAGE: usize = 512;
    const FRAME: u64 = (HEADER + PAGE) as u64;
    /// The length of what the log itself begins with.
    const LOG_HEADER: u64 = 32;

    /// Where a frame begins.
    const fn place(number: u64) -> u64 {
        LOG_HEADER + number * FRAME
    }

    /// A file, and how often it was written to.
    #[derive(Default, Clone, PartialEq, Debug)]
    struct File {
        bytes: Vec<u8>,
        writes: usize,
        is_full: bool,
    }

    impl File {
        fn write(&mut self, bytes: &[u8], at: u64) -> Result<(), ()> {
            if self.is_full {
                return Err(());
            }
            let (from, until) = (at as usize, at as usize + bytes.len());
            self.bytes.resize(self.bytes.len().max(until), 0);
            self.bytes[from..until].copy_from_slice(bytes);
            self.writes += 1;
            Ok(())
        }
    }

    fn header(number: u8, ends: bool) -> [u8; HEADER] {
        let mut header = [number; HEADER];
        header[SALT].fill(7);
        header[ENDS_TRANSACTION].copy_from_slice(&u32::from(ends).to_be_bytes());
        header
    }

    fn frame(gathered: &mut Gathered, file: &mut File, number: u64, ends: bool) -> Result<(), ()> {
        let (at, kind) = (place(number), number as u8);
        gathered.write(&header(kind, ends), at, |bytes, at| file.write(bytes, at))?;
        gathered.write(&[kind; PAGE], at + HEADER as u64, |bytes, at| file.write(bytes, at))
    }

    #[test]
    fn a_transaction_is_one_write() {
        let (mut gathered, mut file) = (Gathered::default(), File::default());
        frame(&mut gathered, &mut file, 0, true).unwrap();
        file.writes = 0;
        for number in 1..20 {
            frame(&mut gathered, &mut file, number, number == 19).unwrap();
        }
        assert_eq!((file.writes, file.bytes.len() as u64), (1, place(20)));
    }

    #[test]
    fn a_long_transaction_is_written_in_parts() {
        let (mut gathered, mut file) = (Gathered::default(), File::default());
        for number in 0..1000 {
            frame(&mut gathered, &mut file, number, false).unwrap();
            assert!(gathered.held.len() <= MOST);
        }
        assert!(file.writes < 10);
    }

    #[test]
    fn what_does_not_fit_fails_with_its_transaction_and_is_not_written_later() {
        let (mut gathered, mut file) = (Gathered::default(), File::default());
        frame(&mut gathered, &mut file, 0, true).unwrap();
        let before = file.bytes.clone();
        file.is_full = true;
        frame(&mut gathered, &mut file, 1, false).unwrap();
        assert_eq!(frame(&mut gathered, &mut file, 2, true), Err(()));
        file.is_full = false;
        gathered.write_held(|bytes, at| file.write(bytes, at)).unwrap();
        assert_eq!(file.bytes, before);
        frame(&mut gathered, &mut file, 1, true).unwrap();
        assert_eq!(file.bytes.len() as u64, place(2));
    }

    /// Another process may have carried the log over and begun it anew.
    #[test]
    fn a_log_that_began_anew_is_gathered_too() {
        let (mut gathered, mut file) = (Gathered::default(), File::default());
        for number in 0..20 {
            frame(&mut gathered, &mut file, number, true).unwrap();
        }
        file.writes = 0;
        let mut first = header(1, false);
        first[SALT].fill(8);
        gathered.write(&first, place(3), |bytes, at| file.write(bytes, at)).unwrap();
        for (number, bytes) in [&[1; PAGE][..], &header(1, true), &[1; PAGE]].into_iter().enumerate() {
            let at = place(3) + [HEADER as u64, FRAME, FRAME + HEADER as u64][number];
            gathered.write(bytes, at, |bytes, at| file.write(bytes, at)).unwrap();
        }
        assert_eq!(file.writes, 2);
    }

    #[derive(Debug, Clone)]
    enum Call {
        /// Appends a frame at the end, or where a transaction was taken back to.
        Append { back: u64, ends: bool },
        /// Writes a header or a page anew, as checksums and pages are that were written too early.
        Again { frame: u64, is_header: bool, ends: bool },
        /// Reads, which is where what is held back must be seen.
        Read { at: u64, length: u64 },
        /// The log was carried over and begins anew.
        Begin,
    }

    fn call() -> impl Strategy<Value = Call> {
        prop_oneof![
            6 => (prop_oneof![9 => Just(0), 1 => 0_u64..4], prop::bool::weighted(0.2))
                .prop_map(|(back, ends)| Call::Append { back, ends }),
            1 => (0_u64..8, any::<bool>(), any::<bool>())
                .prop_map(|(frame, is_header, ends)| Call::Again { frame, is_header, ends }),
            1 => (0_u64..5000, 1_u64..1500).prop_map(|(at, length)| Call::Read { at, length }),
            1 => Just(Call::Begin),
        ]
    }

    proptest! {
        /// Whoever reads what the calls say sees what was written, and so does everybody once a
        /// transaction ends.
        #[test]
        fn a_file_reads_as_if_nothing_were_held_back(calls in prop::collection::vec(call(), 1..60)) {
            let (mut gathered, mut file, mut plain) = (Gathered::default(), File::default(), File::default());
            let mut frames = 0;
            for (number, call) in std::iter::once(Call::Begin).chain(calls).enumerate() {
                let mut write = |bytes: &[u8], at: u64| {
                    plain.write(bytes, at).unwrap();
                    gathered.write(bytes, at, |bytes, at| file.write(bytes, at)).unwrap();
                };
                match call {
                    Call::Append { back, ends } => {
                        frames -= back.min(frames);
                        write(&header(number as u8, ends), place(frames));
                        write(&[number as u8; PAGE], place(frames) + HEADER as u64);
                        frames += 1;
                        if ends {
                            prop_assert_eq!(&file.bytes, &plain.bytes);
                        }
                    }
                    Call::Begin => {
                        write(&[number as u8; LOG_HEADER as usize], 0);
                        frames = 0;
                        prop_assert_eq!(&file.bytes, &plain.bytes);
                    }
                    Call::Again { frame, .. } if frame >= frames => (),
                    Call::Again { frame, is_header: true, ends } => {
                        write(&header(number as u8, ends), place(frame));
                        prop_assert_eq!(&file.bytes, &plain.bytes);
                    }
                    Call::Again { frame, .. } => {
                        write(&[number as u8; PAGE], place(frame) + HEADER as u64);
                        prop_assert_eq!(&file.bytes, &plain.bytes);
                    }
                    Call::Read { at, length } => {
                        gathered.read(at, length, |bytes, at| file.write(bytes, at)).unwrap();
                        let part = |file: &File| {
                            let end = file.bytes.len();
                            file.bytes[(at as usize).min(end)..((at + length) as usize).min(end)].to_vec()
                        };
                        prop_assert_eq!(part(&file), part(&plain));
                    }
                }
            }
            gathered.write_held(|bytes, at| file.write(bytes, at)).unwrap();
            prop_assert_eq!(file.bytes, plain.bytes);
        }
    }
}
