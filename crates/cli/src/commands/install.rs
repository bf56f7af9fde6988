//! `treering install` and `treering uninstall`: edit an agent's configuration files. They never
//! write without consent, and keep the original of each file beside it.

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use similar::TextDiff;

use super::output::{BAD, BOLD, DIM, GOOD, Output, paint};
use super::{CliError, Global};
use treering_server::agents::{AgentPaths, CodingAgent, EditError, FileChange, Program, changes};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering install claude-code --dry-run
  treering install claude-code
  treering uninstall claude-code

The command shows the changes to each file and asks before it writes them. While Treering is
installed, the original of each file is kept beside it as NAME.treering.bak.")]
pub(super) struct Args {
    /// The agent to connect or disconnect
    #[arg(value_enum)]
    agent: CodingAgent,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Make the changes without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum InstallAction {
    Install,
    Uninstall,
}

/// A planned change to a file.
struct Planned {
    path: PathBuf,
    before: Option<String>,
    /// `None` deletes the file.
    after: Option<String>,
    backup: BackupAction,
}

/// The effect on the backup, which holds the file as it was before Treering was installed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BackupAction {
    /// The current file becomes the backup.
    Create,
    Keep,
    Delete,
}

#[derive(Serialize)]
struct View {
    path: PathBuf,
    /// `created`, `changed`, `removed` or `unchanged`.
    action: &'static str,
    diff: String,
}

pub(super) fn run(
    args: &Args,
    direction: InstallAction,
    global: &Global,
    output: &Output,
) -> Result<(), CliError> {
    let program = Program { path: std::env::current_exe()?, options: global.repeated() };
    let planned = changes(args.agent, &agent_paths()?, &program)
        .iter()
        .map(|change| plan(change, direction))
        .collect::<Result<Vec<_>, _>>()?;
    let views: Vec<View> = planned.iter().map(view).collect();
    let is_new = planned.iter().any(|file| file.before != file.after);
    output.show(&views, |out| {
        for view in &views {
            writeln!(out, "{} {}", paint(BOLD, view.path.display()), paint(DIM, view.action))?;
            for line in view.diff.lines().skip(2) {
                let style = match line.as_bytes().first() {
                    Some(b'+') => GOOD,
                    Some(b'-') => BAD,
                    _ => DIM,
                };
                writeln!(out, "  {}", paint(style, line))?;
            }
        }
        Ok(())
    })?;
    if args.dry_run || !is_new {
        return Ok(());
    }
    if !args.yes && !confirm()? {
        return Err(CliError::Usage("canceled; no files were changed".into()));
    }
    for file in &planned {
        write(file)?;
    }
    output.note(match direction {
        InstallAction::Install => "done; restart the agent to load Treering",
        InstallAction::Uninstall => "done; captured conversations stay in the store",
    });
    if let (InstallAction::Install, Some(rest)) = (direction, args.agent.post_install_note()) {
        output.note(rest);
    }
    Ok(())
}

fn agent_paths() -> Result<AgentPaths, CliError> {
    let home = etcetera::home_dir()
        .map_err(|_| CliError::Usage("no home folder found; set HOME".into()))?;
    let folder = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let (config, claude, codex) =
        (folder("XDG_CONFIG_HOME"), folder("CLAUDE_CONFIG_DIR"), folder("CODEX_HOME"));
    Ok(AgentPaths { home, config, claude, codex })
}

fn read(path: &Path) -> Result<Option<String>, CliError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CliError::Usage(format!("cannot read {}: {error}", path.display()))),
    }
}

fn plan(change: &FileChange, direction: InstallAction) -> Result<Planned, CliError> {
    // A symbolic link stays a link: the change goes to its target.
    let path = fs::canonicalize(&change.path).unwrap_or_else(|_| change.path.clone());
    let at = |error: EditError| CliError::Usage(format!("{}: {error}", path.display()));
    let before = read(&path)?;
    let text = before.as_deref().unwrap_or_default();
    let without = change.revert(text).map_err(at)?;
    if direction == InstallAction::Install {
        let after = Some(change.apply(text).map_err(at)?);
        let backup = match before {
            // A backup of a file that no longer exists is stale.
            None => BackupAction::Delete,
            Some(_) if without == text => BackupAction::Create,
            Some(_) => BackupAction::Keep,
        };
        return Ok(Planned { path, before, after, backup });
    }
    if without == text {
        return Ok(Planned { path, after: before.clone(), before, backup: BackupAction::Keep });
    }
    // If the file is otherwise unedited, restore the backup byte for byte, or delete the file
    // if Treering created it.
    let kept = read(&backup(&path))?;
    let original = kept.as_deref().unwrap_or_default();
    let is_as_left =
        change.apply(original).and_then(|put| change.revert(&put)).is_ok_and(|it| it == without);
    let after = match is_as_left {
        true => kept,
        false => (!without.trim().is_empty()).then_some(without),
    };
    Ok(Planned { path, before, after, backup: BackupAction::Delete })
}

fn backup(path: &Path) -> PathBuf {
    sibling_path(path, ".treering.bak")
}

fn sibling_path(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

fn view(file: &Planned) -> View {
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
    View { path: file.path.clone(), action, diff }
}

fn confirm() -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        let error = "cannot ask for confirmation without a terminal; pass --yes to confirm";
        return Err(CliError::Usage(error.into()));
    }
    write!(io::stderr(), "Change these files? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Replaces or deletes the file, keeps its permissions, and updates its backup.
fn write(file: &Planned) -> Result<(), CliError> {
    let at = |error| CliError::File(file.path.clone(), error);
    if file.before == file.after {
        return Ok(());
    }
    if let Some(folder) = file.path.parent() {
        fs::create_dir_all(folder).map_err(at)?;
    }
    let kept = backup(&file.path);
    if let (Some(before), BackupAction::Create) = (&file.before, file.backup) {
        replace(&kept, before, &file.path).map_err(at)?;
    }
    match &file.after {
        Some(after) => replace(&file.path, after, &file.path).map_err(at)?,
        None => fs::remove_file(&file.path).map_err(at)?,
    }
    match file.backup {
        BackupAction::Delete if kept.exists() => fs::remove_file(&kept).map_err(at),
        _ => Ok(()),
    }
}

/// Replaces a file atomically. The new file has the permissions of `model` from the moment it
/// exists.
fn replace(path: &Path, text: &str, model: &Path) -> io::Result<()> {
    let new = sibling_path(path, ".treering.new");
    // A file left behind by an interrupted run may have other permissions.
    drop(fs::remove_file(&new));
    let rights = fs::metadata(model).ok().map(|found| found.permissions());
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if let Some(rights) = &rights {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        options.mode(rights.mode());
    }
    options.open(&new)?.write_all(text.as_bytes())?;
    if let Some(rights) = rights {
        fs::set_permissions(&new, rights)?;
    }
    fs::rename(&new, path)
}
