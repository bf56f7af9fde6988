//! The lines of `append` and of exports.
#![no_main]

use libfuzzer_sys::fuzz_target;
use treering_core::{
    Json, Timestamp, json_without_private, lines_without_private, without_private,
};
use treering_importers::jsonl;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let now = Timestamp::from_micros(1_772_440_860_000_000);
    for line in text.lines() {
        drop(jsonl::parse_line(line, now));
        drop(jsonl::parse_tool_call(line, now));
        drop(jsonl::tombstones(line));
        if let Ok(json) = Json::new(line) {
            assert!(Json::new(json.as_str()).is_ok(), "it stays JSON");
            drop(json.to_text());
            drop(json_without_private(&json));
        }
    }
    drop(without_private(&text));
    drop(lines_without_private(&text));
});
