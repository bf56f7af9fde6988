//! `treering plugin`: writes a folder with plugins for agents, to share or to publish.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::CliError;
use super::output::{BOLD, Output, count, paint, print_text};
use treering_server::agents::plugin_files;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering plugin ~/treering-plugin
  claude plugin marketplace add ~/treering-plugin
  claude plugin install treering@treering
  codex plugin marketplace add ~/treering-plugin
  codex plugin add treering@treering

The folder is a marketplace with one plugin for Claude Code, Codex and Cursor: hooks, the MCP server
and a skill. It runs `treering` from the search path. Use either the plugin or `treering install`,
not both, or the agent recalls everything twice.")]
pub(super) struct Args {
    /// The folder to write; an earlier plugin in it is replaced
    folder: PathBuf,
}

#[derive(Serialize)]
struct View {
    folder: PathBuf,
    /// The written files, in the folder.
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), CliError> {
    let folder = std::path::absolute(&args.folder)?;
    let files = plugin_files();
    let is_ours = files.iter().any(|file| folder.join(&file.path).exists());
    if !is_ours && !is_empty(&folder)? {
        let folder = folder.display();
        return Err(CliError::Usage(format!(
            "{folder} is not empty and has no plugin of Treering; choose a new folder"
        )));
    }
    for file in &files {
        let path = folder.join(&file.path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, &file.text))
            .map_err(|error| CliError::File(path.clone(), error))?;
    }
    let view = View { folder, files: files.into_iter().map(|file| file.path).collect() };
    output.show(&view, |out| {
        let (folder, files) = (view.folder.display(), count(view.files.len() as u64, "file"));
        writeln!(out, "{} {files}", paint(BOLD, &folder))?;
        for (agent, steps) in [
            ("Claude Code", format!("claude plugin marketplace add {folder}, then claude plugin install treering@treering")),
            ("Codex", format!("codex plugin marketplace add {folder}, then codex plugin add treering@treering, and trust the hooks with /hooks")),
            ("Cursor", format!("copy {folder}/plugins/treering to ~/.cursor/plugins/local/treering")),
        ] {
            print_text(out, "  ", &format!("{agent}: {steps}"))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Whether a folder does not exist, or has nothing in it.
fn is_empty(folder: &Path) -> Result<bool, CliError> {
    match fs::read_dir(folder) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(CliError::Usage(format!("cannot read {}: {error}", folder.display()))),
    }
}
