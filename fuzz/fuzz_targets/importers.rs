//! Every importer, and the detection of formats.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treering_core::Timestamp;
use treering_importers::{Format, Sink, SourceFile, TranscriptReader, detect};

fuzz_target!(|data: &[u8]| {
    let source = source(&String::from_utf8_lossy(data));
    let _ = detect(&source);
    for format in Format::ALL {
        assert_eq!(
            read(format, &source),
            read(format, &source),
            "{} reads the same source alike",
            format.as_str()
        );
        read_in_parts(format, &source);
    }
});

fn source(text: &str) -> SourceFile {
    SourceFile {
        path: "transcript.jsonl".into(),
        text: text.to_owned(),
        modified: Timestamp::from_micros(1_772_440_860_000_000),
    }
}

/// The conversations, what was skipped, and whether the source could be read.
fn read(format: Format, source: &SourceFile) -> impl PartialEq + std::fmt::Debug {
    let mut found = Vec::new();
    let mut keep = |it| {
        found.push(it);
        Ok(())
    };
    let mut sink = Sink::new(&mut keep);
    let is_read = format.read(source, &mut sink).is_ok();
    let skipped = sink.into_skipped();
    (found, skipped, is_read)
}

/// Reads a transcript that grows. It may be cut anywhere.
fn read_in_parts(format: Format, whole: &SourceFile) {
    let Some(mut reader) = TranscriptReader::new(format) else { return };
    let half = whole.text.floor_char_boundary(whole.text.len() / 2);
    for part in [&whole.text[..half], &whole.text[half..]] {
        let mut ignore = |_| Ok(());
        drop(reader.read(&source(part), &mut Sink::new(&mut ignore)));
    }
}
