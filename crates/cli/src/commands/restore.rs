//! `treering restore`: replaces the store with a backup. Never deletes the replaced store.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use treering_core::{StoreError, Timestamp};
use treering_engine::Error;

use super::local_time::local;
use super::output::{GOOD, Output, count, paint, size};
use super::{CliError, Global};
use treering::{BackupContents, EmbeddedStore};

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  treering restore ~/treering-2026-03-02.db

The command checks the whole backup before it replaces the store. Stop all programs that use
this home first. The replaced store is kept as treering.db.replaced-SECONDS; delete it when you no
longer need it.")]
pub(super) struct Args {
    /// A file written by `treering backup`
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace the store without asking
    #[arg(long, short)]
    yes: bool,
}

#[derive(Serialize)]
struct View {
    file: PathBuf,
    home: PathBuf,
    conversations: u64,
    messages: u64,
    schema_version: u32,
    bytes: u64,
    /// The time of the backup file's last modification.
    modified: Option<String>,
    /// The path at which the replaced store is kept.
    replaced: Option<PathBuf>,
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let url = global.load()?.settings.store.options()?.url;
    if url.is_server() {
        let advice = "restore the backup to another home, and copy that with `treering copy`";
        return Err(CliError::Usage(format!("the store is {url}, not in a folder; {advice}")));
    }
    let home = &global.home()?;
    let contents = treering::inspect_backup(&args.file).map_err(CliError::Backup)?;
    let modified = modified(&args.file);
    let BackupContents { conversations, messages, schema_version, bytes } = contents;
    let contents =
        format!("{}, {}", count(conversations, "conversation"), count(messages, "message"));
    if home.join(EmbeddedStore::FILE).exists() && !args.yes {
        let written = modified.map_or_else(String::new, |at| format!(", written {}", local(at)));
        let facts = format!("{contents}, schema {schema_version}, {}{written}", size(bytes));
        writeln!(io::stderr(), "{} contains {facts}.", args.file.display())?;
        if !agreed(home)? {
            writeln!(io::stderr(), "Canceled; the store was not changed.")?;
            return Err(CliError::Reported);
        }
    }
    let replaced = treering::restore(home, &args.file).map_err(CliError::Backup)?;
    let view = View {
        file: args.file.clone(),
        home: home.to_path_buf(),
        conversations,
        messages,
        schema_version,
        bytes,
        modified: modified.map(|at| at.to_string()),
        replaced,
    };
    output.show(&view, |out| {
        writeln!(out, "{} restored {contents} to {}", paint(GOOD, "✓"), home.display())?;
        match &view.replaced {
            Some(kept) => writeln!(out, "the replaced store is kept as {}", kept.display()),
            None => Ok(()),
        }
    })?;
    Ok(())
}

/// The hint for a backup that cannot be restored.
pub(super) fn restore_hint(error: &Error) -> String {
    let of_backup = "the store was not changed; restore another backup";
    match error {
        Error::Store(StoreError::Corrupt { .. }) | Error::Invalid(_) => of_backup.into(),
        other => other.hint().unwrap_or_else(|| of_backup.into()),
    }
}

fn modified(file: &Path) -> Option<Timestamp> {
    let modified: SystemTime = std::fs::metadata(file).ok()?.modified().ok()?;
    let micros = modified.duration_since(UNIX_EPOCH).ok()?.as_micros();
    Some(Timestamp::from_micros(i64::try_from(micros).ok()?))
}

fn agreed(home: &Path) -> Result<bool, CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "cannot ask for confirmation without a terminal; pass --yes to replace the store"
                .into(),
        ));
    }
    write!(
        io::stderr(),
        "Replace the store in {}? The old store is kept beside it. [y/N] ",
        home.display()
    )?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
