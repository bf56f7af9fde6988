//! Runs the program as real processes and inspects the files they leave.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::io::Seek as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::ChildStdin;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread;

use serde_json::Value;

use crate::turns::{parsed, turns_of};

/// The name of the store's file in a home.
pub(crate) const FILE: &str = "treering.db";

/// Commands that only read.
pub(crate) const READING: [&str; 5] = ["sessions", "show", "stats", "export", "verify"];

/// The program and the home it runs on.
#[derive(Clone)]
pub(crate) struct Treering {
    pub(crate) program: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) user: Option<u32>,
}

impl Treering {
    pub(crate) fn at(home: &Path) -> Self {
        Self { program: env!("CARGO_BIN_EXE_treering").into(), home: home.into(), user: None }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        // The smaller tokenizer, because every process builds its own.
        command.env("TREERING_TOKENS_TOKENIZER", "cl100k");
        command.arg("--home").arg(&self.home).arg("--json").args(args).current_dir("/");
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Runs a command to completion.
    pub(crate) fn run(&self, args: &[&str], input: &[u8]) -> CommandResult {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(input).unwrap();
        file.rewind().unwrap();
        let output = self.command(args).stdin(file).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        CommandResult::new(
            format!("{args:?}"),
            output.status,
            text(output.stdout),
            text(output.stderr),
        )
    }

    pub(crate) fn turns(&self) -> BTreeMap<String, Vec<String>> {
        turns_of(&self.run(&["export"], b"").expect_success())
    }

    pub(crate) fn verify(&self) {
        let report = parsed(&self.run(&["verify"], b"").expect_success());
        assert_eq!(report["clean"], true, "{report}");
    }
}

/// The result of a finished command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub(crate) description: String,
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// An error and its hint.
#[derive(Debug)]
pub(crate) struct ReportedError {
    pub(crate) error: String,
    pub(crate) hint: String,
}

impl CommandResult {
    pub(crate) fn new(
        description: String,
        status: ExitStatus,
        output: String,
        errors: String,
    ) -> Self {
        assert!(!errors.contains("panicked"), "{description} panicked: {errors}");
        let code =
            status.code().unwrap_or_else(|| panic!("{description} ended with {status}: {errors}"));
        Self { description, code, output, errors }
    }

    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        let errors = without_incomplete(&self.errors);
        assert!(
            self.code == 0 && errors.is_empty(),
            "{}: {} {errors}",
            self.description,
            self.code
        );
        self.output
    }

    /// Asserts that the command failed with an error that names the path, and a hint.
    #[track_caller]
    pub(crate) fn expect_error(&self, path: &Path) -> ReportedError {
        assert_eq!(self.code, 1, "{}: {}", self.description, self.errors);
        let error = self.reported_error();
        assert!(error.error.contains(&*path.to_string_lossy()), "{}: {error:?}", self.description);
        assert!(!error.hint.is_empty(), "{} does not say what to do: {error:?}", self.description);
        error
    }

    #[track_caller]
    pub(crate) fn reported_error(&self) -> ReportedError {
        assert!(
            !self.errors.contains("panicked"),
            "{} panicked: {}",
            self.description,
            self.errors
        );
        let parsed_errors = parsed(&self.errors);
        let text = |key: &str| parsed_errors[key].as_str().unwrap_or_default().to_owned();
        ReportedError { error: text("error"), hint: text("hint") }
    }

    /// Whether this is the output of a verification that found problems.
    pub(crate) fn lists_problems(&self) -> bool {
        let report: Value = serde_json::from_str(&self.output).unwrap_or_default();
        report["problems"].as_array().is_some_and(|problems| !problems.is_empty())
    }
}

/// A process that appends the lines it receives until its input is closed.
pub(crate) struct WriterProcess {
    pub(crate) process: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) acknowledgements: Receiver<Value>,
    pub(crate) errors: File,
}

impl WriterProcess {
    pub(crate) fn start(treering: &Treering, key: &str) -> Self {
        Self::spawn(treering.command(&["append", "--key", key]))
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let errors = tempfile::tempfile().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.try_clone().unwrap());
        let mut process = command.spawn().unwrap();
        let input = process.stdin.take();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let (sender, acknowledgements) = mpsc::channel();
        thread::spawn(move || {
            let mut ack = String::new();
            // An incomplete line acknowledges nothing.
            while output.read_line(&mut ack).is_ok_and(|_| ack.ends_with('\n')) {
                if sender.send(parsed(&ack)).is_err() {
                    return;
                }
                ack.clear();
            }
        });
        Self { process, input, acknowledgements, errors }
    }

    pub(crate) fn send(&mut self, lines: &str) {
        self.input.as_mut().unwrap().write_all(lines.as_bytes()).unwrap();
    }

    /// Waits for the next acknowledgement.
    #[track_caller]
    pub(crate) fn acknowledgement(&mut self) -> Value {
        let ack = self.acknowledgements.recv();
        ack.unwrap_or_else(|_| panic!("the writer ended early: {}", read_errors(&mut self.errors)))
    }

    pub(crate) fn close(&mut self) {
        self.input = None;
    }

    /// Kills the process. Returns its status, the acknowledgements not yet read, and its errors.
    pub(crate) fn kill(mut self) -> (ExitStatus, Vec<Value>, String) {
        self.process.kill().unwrap();
        let status = self.process.wait().unwrap();
        let errors = without_incomplete(&read_errors(&mut self.errors));
        (status, self.acknowledgements.iter().collect(), errors)
    }

    /// Closes the input and waits for the process to exit.
    pub(crate) fn finish(mut self) -> CommandResult {
        self.close();
        let rest: Vec<String> = self.acknowledgements.iter().map(|ack| ack.to_string()).collect();
        let status = self.process.wait().unwrap();
        CommandResult::new(
            "a writer".into(),
            status,
            rest.join("\n"),
            read_errors(&mut self.errors),
        )
    }
}

/// Removes the warning about an incomplete commit, which a killed writer may cause in the next
/// process.
fn without_incomplete(errors: &str) -> String {
    errors.lines().filter(|line| !line.contains("incomplete commit")).collect()
}

pub(crate) fn read_errors(errors: &mut File) -> String {
    let mut text = String::new();
    errors.rewind().and_then(|()| errors.read_to_string(&mut text)).unwrap();
    text
}

/// The names of the files in a folder that changed, appeared or disappeared.
pub(crate) fn changed(folder: &Path, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
    let now = files(folder);
    let names: BTreeSet<&String> = now.keys().chain(before.keys()).collect();
    names.into_iter().filter(|name| now.get(*name) != before.get(*name)).cloned().collect()
}

/// The files of a folder and their contents.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
    };
    let mut files: BTreeMap<_, _> = fs::read_dir(folder).unwrap().map(read).collect();
    // The empty lock file stays: processes lock it while they have the store open.
    files.remove("treering.lock");
    files.remove("treering.opening");
    files
}

pub(crate) fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
