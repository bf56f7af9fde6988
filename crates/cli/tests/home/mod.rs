//! A temporary home, and the program running on it as real processes.

#![allow(dead_code, reason = "every test takes what it needs of it")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// The name of the store's file in a home.
pub(crate) const FILE: &str = "treering.db";

/// Runs a command with this text on its standard input.
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// A temporary home, deleted when the test ends.
pub(crate) struct Home(tempfile::TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A home with the sample conversation and its tree.
    pub(crate) fn demo() -> Self {
        // Only the bytes are shared: a folder in a static would never be deleted.
        static STORE: OnceLock<Vec<u8>> = OnceLock::new();
        let make = || {
            let home = Self::new();
            home.ok(&["demo", "--keep", "."]);
            std::fs::read(home.path().join(FILE)).unwrap()
        };
        let home = Self::new();
        std::fs::write(home.path().join(FILE), STORE.get_or_init(make)).unwrap();
        home
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treering"));
        command.env_clear().env("TREERING_HOME", self.path()).args(args).current_dir(self.path());
        // The agents that are installed on the machine do not matter.
        command.env("HOME", self.path());
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn feed(&self, args: &[&str], input: &str) -> Output {
        run_with_input(&mut self.command(args), input)
    }

    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        serde_json::from_str(&self.ok(&args)).unwrap()
    }

    /// The items of the list that a command prints.
    #[track_caller]
    pub(crate) fn items(&self, args: &[&str]) -> Value {
        let mut printed = self.json(args);
        let lists = ["conversations", "hits", "jobs", "lines", "nodes"];
        let name = lists.iter().find(|name| printed[**name].is_array()).unwrap();
        printed[*name].take()
    }

    /// Asserts that the command fails with this code, prints nothing, and reports these words.
    /// Returns its errors.
    #[track_caller]
    pub(crate) fn complains(&self, args: &[&str], code: i32, words: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(
            (output.status.code(), printed.as_str()),
            (Some(code), ""),
            "{args:?}: {stderr}"
        );
        for word in words {
            assert!(stderr.contains(word), "{args:?}: {word}: {stderr}");
        }
        stderr
    }

    #[track_caller]
    pub(crate) fn refuses(&self, args: &[&str], words: &[&str]) -> String {
        self.complains(args, 1, words)
    }

    /// Asserts that the arguments are rejected as invalid usage.
    #[track_caller]
    pub(crate) fn misused(&self, args: &[&str], words: &[&str]) {
        self.complains(args, 2, words);
    }
}
