//! `treering install` and `treering uninstall`: edit the configuration files of agents. The commands
//! never write without consent, keep the original of each file beside it, and change all files of a run or
//! none.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use similar::TextDiff;

use super::agents::{agent_paths, program};
use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint, size};
use super::{CliError, Global, import};
use treering::EmbeddedStore;
use treering::capture::CheckpointFolder;
use treering_core::ports::ConversationFilter;
use treering_core::{Labels, TenantId};
use treering_server::agents::{
    AgentPaths, CodingAgent, EditError, FileChange, OwnEntries, changes, history, note_installed,
    transcript_folder, transcripts,
};

mod files;

use files::{BackupAction, Planned, backup, write_all};

/// The speed of an import on two cores, measured by `cargo bench --bench histories`.
const IMPORT_BYTES_PER_SECOND: u64 = 8_000_000;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering install                      every agent found on this machine
  treering install claude-code --dry-run
  treering install claude-code
  treering uninstall claude-code

The command shows the changes to each file and asks before it writes them. While Treering is
installed, the original of each file is kept beside it as NAME.treering.bak. Either all files are
changed, or none.")]
pub(super) struct Args {
    /// The agent to connect or disconnect [default: every agent found on this machine]
    #[arg(value_enum)]
    agent: Option<CodingAgent>,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Make the changes without asking
    #[arg(long, short)]
    yes: bool,
    /// Put the command into `treering` entries that you made by hand, and keep their other keys
    #[arg(long)]
    merge: bool,
    /// Import the transcripts that the agent has on disk, without asking
    #[arg(long)]
    import: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InstallAction {
    Install,
    Uninstall,
}

#[derive(Serialize)]
struct View {
    agent: String,
    path: PathBuf,
    /// `created`, `changed`, `removed` or `unchanged`.
    action: &'static str,
    /// Entries for Treering that you made by hand. They are kept.
    own_entries: Vec<String>,
    diff: String,
}

pub(super) fn run(
    args: &Args,
    direction: InstallAction,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let paths = agent_paths()?;
    let agents = chosen(args.agent, direction, &paths)?;
    let own = if args.merge { OwnEntries::Merge } else { OwnEntries::Keep };
    let (program, mut planned, mut views) = (program(global)?, Vec::new(), Vec::new());
    for agent in &agents {
        for change in changes(*agent, &paths, &program) {
            let (file, own_entries) = plan(&change, direction, own)?;
            views.push(view(*agent, &file, own_entries));
            planned.push(file);
        }
    }
    output.show(&views, |out| print(out, &views))?;
    let is_new = planned.iter().any(|file| file.before != file.after);
    if args.dry_run {
        return Ok(());
    }
    if is_new {
        if !args.yes && !confirm("Change these files? [y/N] ")? {
            return Err(CliError::Usage("canceled; no files were changed".into()));
        }
        write_all(&planned)?;
        output.remark(match direction {
            InstallAction::Install => "done; restart the agent to load Treering",
            InstallAction::Uninstall => "done; captured conversations stay in the store",
        });
    }
    for agent in agents {
        let is_installed = direction == InstallAction::Install;
        let noted = note_installed(&global.home()?, agent, is_installed);
        noted.map_err(|error| CliError::File(global.home().unwrap_or_default(), error))?;
        if is_installed {
            if let Some(rest) = agent.post_install_note().filter(|_| is_new) {
                output.remark(rest);
            }
            offer_import(args, agent, &paths, global, output)?;
        }
    }
    Ok(())
}

/// The agent that was named, or every agent found on this machine.
fn chosen(
    named: Option<CodingAgent>,
    direction: InstallAction,
    paths: &AgentPaths,
) -> Result<Vec<CodingAgent>, CliError> {
    if let Some(agent) = named {
        return Ok(vec![agent]);
    }
    let agents = CodingAgent::ALL.into_iter();
    let found: Vec<CodingAgent> = match direction {
        InstallAction::Install => agents.filter(|agent| agent.is_there(paths)).collect(),
        InstallAction::Uninstall => agents.collect(),
    };
    if found.is_empty() {
        let names = CodingAgent::ALL.map(|agent| agent.to_string()).join(", ");
        let error = format!("no agent found in {}; name one of {names}", paths.home.display());
        return Err(CliError::Usage(error));
    }
    Ok(found)
}

/// Files of an agent that are not stored yet.
struct Unstored {
    files: Vec<PathBuf>,
    /// The paths to import.
    paths: Vec<PathBuf>,
    /// The same in the words of a command.
    named: PathBuf,
}

/// The transcripts that are not stored yet, or the history of an agent of which nothing is stored.
fn unstored(
    agent: CodingAgent,
    paths: &AgentPaths,
    global: &Global,
) -> Result<Option<Unstored>, CliError> {
    let home = global.home()?;
    if let Some((_, folder)) = transcript_folder(agent, paths) {
        let tenant = TenantId::new(global.load()?.settings.tenant)?;
        let checkpoints = CheckpointFolder::new(&home, &tenant);
        let mut found = transcripts(agent, paths);
        found.retain(|transcript| checkpoints.load(transcript.format, &transcript.path).is_none());
        let files = found.into_iter().map(|transcript| transcript.path).collect();
        return Ok(Some(Unstored { files, paths: vec![folder.clone()], named: folder }));
    }
    let Some(history) = history(agent, paths) else { return Ok(None) };
    if home.join(EmbeddedStore::FILE).exists() {
        let source = Labels::of_source(history.format.as_str())?;
        let filter = ConversationFilter { labels: source.to_vec(), ..ConversationFilter::all(1) };
        if !global.open()?.engine().listed_conversations(&filter)?.is_empty() {
            return Ok(None);
        }
    }
    let folders: BTreeSet<PathBuf> =
        history.files.iter().filter_map(|file| Some(file.parent()?.to_path_buf())).collect();
    let paths = folders.into_iter().collect();
    Ok(Some(Unstored { files: history.files, paths, named: history.folders }))
}

/// Offers to import what the agent has on disk and is not stored yet, because agents delete it.
fn offer_import(
    args: &Args,
    agent: CodingAgent,
    paths: &AgentPaths,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let Some(Unstored { files, paths, named }) = unstored(agent, paths, global)? else {
        return Ok(());
    };
    if files.is_empty() {
        return Ok(());
    }
    let sizes = files.iter().filter_map(|it| fs::metadata(it).ok()).map(|it| it.len());
    let bytes: u64 = sizes.sum();
    let seconds = bytes / IMPORT_BYTES_PER_SECOND;
    let time = match seconds {
        0..=1 => "a second".to_owned(),
        2..=90 => format!("{seconds} seconds"),
        _ => format!("{} minutes", seconds.div_ceil(60)),
    };
    let number = count(files.len() as u64, "transcript");
    let offer =
        format!("{agent} has {number} on disk that are not stored ({}, about {time})", size(bytes));
    let can_ask = io::stdin().is_terminal() && !args.yes && !output.json;
    if args.import || (can_ask && confirm(&format!("{offer}. Import them now? [y/N] "))?) {
        let args = import::Args::of_paths(paths);
        return import::run(&args, &global.home()?, &global.open()?, output);
    }
    output.remark(&format!("{offer}; to import them, run `treering import {}`", named.display()));
    Ok(())
}

fn print(out: &mut dyn io::Write, views: &[View]) -> io::Result<()> {
    for view in views {
        writeln!(out, "{} {}", paint(BOLD, view.path.display()), paint(DIM, view.action))?;
        for line in view.diff.lines().skip(2) {
            let style = match line.as_bytes().first() {
                Some(b'+') => GOOD,
                Some(b'-') => BAD,
                _ => DIM,
            };
            writeln!(out, "  {}", paint(style, line))?;
        }
        for entry in &view.own_entries {
            let kept = format!("you made {entry} by hand: it is kept; --merge updates its command");
            writeln!(out, "  {}", paint(DIM, kept))?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::Usage(format!("cannot read {}: {error}", path.display()))),
    }
}

/// The file that a path names. A symbolic link stays a link, also if its target does not exist yet:
/// the change goes to the target.
fn target(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    // Longer chains are loops.
    for _ in 0..40 {
        let Ok(link) = fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    fs::canonicalize(&path).unwrap_or(path)
}

/// Plans the change to a file. Returns the entries that a person made, too.
fn plan(
    change: &FileChange,
    direction: InstallAction,
    own: OwnEntries,
) -> Result<(Planned, Vec<String>), CliError> {
    const MARK: &str = "\u{feff}";
    let path = target(&change.path);
    let at = |error: EditError| CliError::Usage(format!("{}: {error}", path.display()));
    let before = read(&path)?;
    // A byte order mark stays where it is.
    let (mark, text) = match before.as_deref().unwrap_or_default() {
        text if text.starts_with(MARK) => text.split_at(MARK.len()),
        text => ("", text),
    };
    let own_entries = match own {
        OwnEntries::Keep => change.own_entries(text),
        OwnEntries::Merge => Vec::new(),
    };
    let without = change.revert(text).map_err(at)?;
    let is_in = without != text;
    let kept = read(&backup(&path))?;
    let (after, backup) = match direction {
        InstallAction::Install => {
            let after = Some(change.apply(text, own).map_err(at)?);
            let backup = match before {
                // A backup of a file that no longer exists is stale.
                None => BackupAction::Delete,
                Some(_) if !is_in || kept.is_none() => BackupAction::Create,
                Some(_) => BackupAction::Keep,
            };
            (after, backup)
        }
        InstallAction::Uninstall => {
            // If the file is otherwise unedited, restore the backup byte for byte, or delete the
            // file if Treering created it.
            let original = kept.as_deref().map(|kept| kept.trim_start_matches(MARK));
            let original = original.unwrap_or_default();
            let is_as_left = [OwnEntries::Keep, OwnEntries::Merge].into_iter().any(|own| {
                change.apply(original, own).is_ok_and(|put| put == text)
                    || change
                        .apply(original, own)
                        .and_then(|put| change.revert(&put))
                        .is_ok_and(|it| it == without && is_in)
            });
            let is_clean = change.revert(original).is_ok_and(|reverted| reverted == original);
            match (is_as_left && is_clean && (is_in || kept.is_some()), is_in) {
                (true, _) => {
                    let plain = kept.map(|kept| kept.trim_start_matches(MARK).to_owned());
                    (plain, BackupAction::Delete)
                }
                (false, true) => {
                    ((!without.trim().is_empty()).then_some(without), BackupAction::Delete)
                }
                (false, false) => {
                    let unchanged = before.is_some().then(|| text.to_owned());
                    (unchanged, BackupAction::Keep)
                }
            }
        }
    };
    let after = after.map(|after| format!("{mark}{after}"));
    Ok((Planned { path, before, after, backup }, own_entries))
}

fn view(agent: CodingAgent, file: &Planned, own_entries: Vec<String>) -> View {
    let (before, after) =
        (file.before.as_deref().unwrap_or_default(), file.after.as_deref().unwrap_or_default());
    let action = match (&file.before, &file.after) {
        (before, after) if before == after => "unchanged",
        (None, _) => "created",
        (_, None) => "removed",
        _ => "changed",
    };
    let diff = TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(2)
        .header("before", "after")
        .to_string();
    View { agent: agent.to_string(), path: file.path.clone(), action, own_entries, diff }
}

fn confirm(question: &str) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        let error = "cannot ask for confirmation without a terminal; pass --yes to confirm";
        return Err(CliError::Usage(error.into()));
    }
    write!(io::stderr(), "{question}")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
