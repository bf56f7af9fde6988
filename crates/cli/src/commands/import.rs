//! `treering import`: imports transcripts. Importing the same file again adds nothing.

use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use treering_core::Timestamp;

use super::output::{BOLD, DIM, GOOD, Output, count, paint, print_dim, print_text};
use super::pause::pauses;
use super::work::catch_up;
use super::{CliError, local_time, seal_index};
use treering::capture::CheckpointFolder;
use treering::import::{FileReport, ImportOptions, ImportReport, Importer, SlugChange};
use treering::importers::Format;
use treering_engine::Engine;
use treering_server::service::Service;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering import ~/.claude/projects
  treering import chatgpt-export.zip --dry-run
  treering import transcripts/ --since 2026-01-01
  treering import notes.md --date 2025-11-03

Importing the same source again adds only what is new. A source that cannot be read is reported, and
the others are imported.")]
pub(super) struct Args {
    /// Files, folders or `.zip` exports; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The format of the files [default: detected from their content]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,
    /// Show what would be imported without writing anything
    #[arg(long)]
    dry_run: bool,
    /// Skip conversations that ended before this date; all others are imported whole
    #[arg(long, value_name = "DATE", value_parser = local_time::parse)]
    since: Option<Timestamp>,
    /// The time of entries without one [default: the date in the file's name, or its last change]
    #[arg(long, value_name = "DATE", value_parser = local_time::parse)]
    date: Option<Timestamp>,
    /// Also import what was said while capture was paused
    #[arg(long)]
    include_paused: bool,
    /// Leave the summaries to a worker (`treering work`)
    #[arg(long)]
    no_tree: bool,
}

impl Args {
    /// Imports files or folders with the default options.
    pub(super) fn of_paths(paths: Vec<PathBuf>) -> Self {
        let (format, since, date) = (None, None, None);
        let (dry_run, include_paused, no_tree) = (false, false, false);
        Self { paths, format, dry_run, since, date, include_paused, no_tree }
    }
}

/// Parses a format, and lists all of them in the help and in errors.
fn formats() -> impl clap::builder::TypedValueParser<Value = Format> {
    use clap::builder::{PossibleValuesParser, TypedValueParser as _};
    PossibleValuesParser::new(Format::ALL.map(Format::as_str)).try_map(|name| {
        Format::ALL.into_iter().find(|format| format.as_str() == name).ok_or("unknown format")
    })
}

#[derive(Serialize)]
struct View {
    dry_run: bool,
    files: Vec<FileView>,
    total: FileView,
}

#[derive(Serialize)]
struct FileView {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    conversations: u64,
    conversations_new: u64,
    messages_new: u64,
    tool_calls_new: u64,
    results_new: u64,
    threads_new: u64,
    known: u64,
    slugs_changed: Vec<SlugChange>,
    skipped: std::collections::BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl FileView {
    fn of(it: &FileReport) -> Self {
        Self {
            path: (!it.path.as_os_str().is_empty()).then(|| it.path.display().to_string()),
            format: it.format.map(Format::as_str),
            conversations: it.conversations,
            conversations_new: it.conversations_new,
            messages_new: it.messages_new,
            tool_calls_new: it.tool_calls_new,
            results_new: it.results_new,
            threads_new: it.threads_new,
            known: it.known,
            slugs_changed: it.slugs_changed.clone(),
            skipped: it.skipped.clone(),
            error: it.error.clone(),
        }
    }
}

pub(super) fn run(
    args: &Args,
    home: &Path,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let engine = service.engine();
    let pauses = match args.include_paused {
        true => Vec::new(),
        false => pauses(home)?,
    };
    let options = ImportOptions {
        format: args.format,
        dry_run: args.dry_run,
        since: args.since,
        date: args.date,
        pauses,
        checkpoints: Some(CheckpointFolder::new(home, engine.tenant())),
    };
    let runner = Importer { engine, options };
    let mut report = ImportReport::default();
    let (standard_input, paths): (Vec<_>, Vec<_>) =
        args.paths.iter().cloned().partition(|path| path.as_os_str() == "-");
    if !standard_input.is_empty() {
        let mut text = String::new();
        io::stdin().lock().read_to_string(&mut text)?;
        report.files.push(runner.text("standard input", text)?);
    }
    let scan = output.counter("scanning");
    let files = Importer::find_files(&paths, || scan.inc(1));
    scan.finish_and_clear();
    let bar = output.progress(files.len() as u64, "importing");
    report.files.extend(runner.run(&files, |_| bar.inc(1))?.files);
    bar.finish_and_clear();
    if !args.dry_run && !args.no_tree {
        catch_up(engine, None, output)?;
    }
    let total = report.total();
    if !args.dry_run && total.messages_new + total.tool_calls_new >= u64::from(Engine::SEAL_ITEMS) {
        // The first search would have to build the index otherwise. It reports errors.
        drop(engine.load_index());
        seal_index(engine);
    }
    let view = View {
        dry_run: args.dry_run,
        files: report.files.iter().map(FileView::of).collect(),
        total: FileView::of(&total),
    };
    output.show(&view, |out| print(out, &report, &total, args.dry_run))?;
    for file in &report.files {
        if let Some(error) = &file.error {
            output.error(&format!("{}: {error}", file.path.display()), None);
        }
    }
    let read = report.files.iter().filter(|file| file.error.is_none()).count();
    if read < report.files.len() { Err(CliError::Reported) } else { Ok(()) }
}

/// Prints the files worth a line of their own, then the totals, then what was skipped.
fn print(
    out: &mut dyn Write,
    report: &ImportReport,
    total: &FileReport,
    dry_run: bool,
) -> io::Result<()> {
    const SHOWN: usize = 20;
    let changed: Vec<&FileReport> =
        report.files.iter().filter(|file| file.error.is_none() && file.is_new()).collect();
    for file in changed.iter().take(SHOWN) {
        let name = file
            .path
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let format = file.format.map_or("", Format::as_str);
        let summary = format!(
            "{}, {}",
            count(file.messages_new, "message"),
            count(file.tool_calls_new, "tool call")
        );
        writeln!(
            out,
            "{} {} {} {summary}",
            paint(GOOD, "+"),
            paint(BOLD, name),
            paint(DIM, format)
        )?;
    }
    if changed.len() > SHOWN {
        writeln!(out, "{}", paint(DIM, format!("  … and {} more files", changed.len() - SHOWN)))?;
    }
    for SlugChange { requested, assigned } in &total.slugs_changed {
        writeln!(out, "  slug {requested} is taken; the new conversation is {assigned}")?;
    }
    for (reason, times) in &total.skipped {
        print_dim(out, "  ", &format!("skipped: {times} × {reason}"))?;
    }
    let files = report.files.iter().filter(|file| file.error.is_none()).count();
    if files == 0 && !report.files.is_empty() {
        return writeln!(out, "Nothing was imported.");
    }
    let verb = if dry_run { "Would import" } else { "Imported" };
    let mut facts = vec![
        format!("{} new", count(total.messages_new, "message")),
        format!("{} new", count(total.tool_calls_new, "tool call")),
        format!("{} new", count(total.conversations_new, "conversation")),
    ];
    if total.known > 0 {
        facts.push(format!("{} already stored", count(total.known, "entry")));
    }
    let files = count(files as u64, "file");
    print_text(out, "", &format!("{verb} from {files}: {}.", facts.join(", ")))
}
