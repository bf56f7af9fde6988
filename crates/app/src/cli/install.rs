//! `treering install` and `treering uninstall`

use std::fs;
use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use similar::TextDiff;

use super::output::{BAD, BOLD, DIM, GOOD, Output, paint};
use super::{Failure, Global};
use crate::agents::{Agent, Change, Places, Program, Unfit, changes};

#[derive(clap::Args)]
#[command(after_help = "\
Shows what it would change in which file and asks first. A file that is changed is kept beside itself as
NAME.treering.bak.")]
pub(super) struct Args {
    /// The agent
    #[arg(value_enum)]
    agent: Agent,
    /// Shows what it would change, and changes nothing
    #[arg(long)]
    dry_run: bool,
    /// Does not ask
    #[arg(long, short)]
    yes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
}

/// A file as it is and as it is to be.
struct Planned {
    path: PathBuf,
    before: Option<String>,
    /// Nothing where the file is to go.
    after: Option<String>,
    /// Whether it is the state before Treering came that is put back.
    restores: bool,
}

#[derive(Serialize)]
struct View {
    path: PathBuf,
    /// `created`, `changed`, `removed` or `unchanged`.
    what: &'static str,
    diff: String,
}

pub(super) fn run(
    args: &Args,
    direction: Direction,
    global: &Global,
    output: &Output,
) -> Result<(), Failure> {
    let program = Program { path: std::env::current_exe()?, options: global.repeated() };
    let planned = changes(args.agent, &places()?, &program)
        .iter()
        .map(|change| plan(change, direction))
        .collect::<Result<Vec<_>, _>>()?;
    let views: Vec<View> = planned.iter().map(view).collect();
    let is_new = planned.iter().any(|file| file.before != file.after);
    output.show(&views, |out| {
        for view in &views {
            writeln!(out, "{} {}", paint(BOLD, view.path.display()), paint(DIM, view.what))?;
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
    if !args.yes && !agreed()? {
        return Err(Failure::Usage("nothing was changed".into()));
    }
    for file in &planned {
        write(file)?;
    }
    output.note(match direction {
        Direction::In => "done; start the agent anew so that it sees Treering",
        Direction::Out => "done; what was captured stays in the memory",
    });
    Ok(())
}

fn places() -> Result<Places, Failure> {
    let home = etcetera::home_dir().map_err(|_| Failure::Usage("this user has no home folder".into()))?;
    let folder = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    Ok(Places { home, config: folder("XDG_CONFIG_HOME"), codex: folder("CODEX_HOME") })
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Usage(format!("cannot read {}: {error}", path.display()))),
    }
}

fn plan(change: &Change, direction: Direction) -> Result<Planned, Failure> {
    // A link stays one: what it leads to is changed.
    let path = fs::canonicalize(&change.path).unwrap_or_else(|_| change.path.clone());
    let at = |error: Unfit| Failure::Usage(format!("{}: {error}", path.display()));
    let before = read(&path)?;
    let text = before.clone().unwrap_or_default();
    let put_in = |text: &str| change.edits.iter().try_fold(text.to_owned(), |text, edit| edit.put_in(&text));
    if direction == Direction::In {
        let after = put_in(&text).map_err(at)?;
        return Ok(Planned { path, before, after: Some(after), restores: false });
    }
    if before.is_none() {
        return Ok(Planned { path, before: None, after: None, restores: false });
    }
    // Nothing else was changed since: the file becomes what it was, to the letter.
    let backup = read(&backup(&path))?;
    if put_in(backup.as_deref().unwrap_or_default()).is_ok_and(|then| then == text) {
        return Ok(Planned { path, before, after: backup, restores: true });
    }
    let out = change.edits.iter().try_fold(text, |text, edit| edit.take_out(&text)).map_err(at)?;
    let after = (!out.trim().is_empty()).then_some(out);
    Ok(Planned { path, before, after, restores: false })
}

fn backup(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".treering.bak");
    path.with_file_name(name)
}

fn view(file: &Planned) -> View {
    let (before, after) =
        (file.before.as_deref().unwrap_or_default(), file.after.as_deref().unwrap_or_default());
    let what = match (&file.before, &file.after) {
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
    View { path: file.path.clone(), what, diff }
}

fn agreed() -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Usage("nothing was changed; --yes changes it without asking".into()));
    }
    write!(io::stderr(), "Change these files? [y/N] ")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Writes a file as a whole, with the rights it had, and keeps how it was before Treering came.
fn write(file: &Planned) -> Result<(), Failure> {
    let at = |error| Failure::File(file.path.clone(), error);
    if file.before == file.after {
        return Ok(());
    }
    let kept = backup(&file.path);
    let Some(after) = &file.after else {
        fs::remove_file(&file.path).map_err(at)?;
        return Ok(());
    };
    if let Some(folder) = file.path.parent() {
        fs::create_dir_all(folder).map_err(at)?;
    }
    if let (Some(before), false, false) = (&file.before, file.restores, kept.exists()) {
        fs::write(&kept, before).map_err(at)?;
    }
    let mut name = file.path.file_name().unwrap_or_default().to_owned();
    name.push(".treering.new");
    let new = file.path.with_file_name(name);
    fs::write(&new, after).map_err(at)?;
    if let Ok(found) = fs::metadata(&file.path) {
        fs::set_permissions(&new, found.permissions()).map_err(at)?;
    }
    fs::rename(&new, &file.path).map_err(at)?;
    if file.restores {
        fs::remove_file(&kept).map_err(at)?;
    }
    Ok(())
}
