//! The configuration file, flags, policy parameters and durations. The first line is a flag, the
//! rest is the file.
#![no_main]

use std::cell::OnceCell;

use libfuzzer_sys::fuzz_target;
use treering::config::Settings;
use treering_core::{Assignment, Label, parse_duration_ms};

thread_local! {
    static HOME: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (first, file) = text.split_once('\n').unwrap_or((&text, ""));
    drop(first.parse::<Assignment>());
    drop(first.parse::<Label>());
    drop(parse_duration_ms(first));
    HOME.with(|home| {
        let home = home.get_or_init(|| tempfile::tempdir().expect("a temporary folder"));
        let flag = first.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        std::fs::write(home.path().join("treering.toml"), file).expect("a file");
        let flags: Vec<(String, String)> = flag.into_iter().collect();
        if let Ok(loaded) = Settings::load(home.path(), &flags) {
            drop(loaded.settings.tree.policy());
        }
    });
});
