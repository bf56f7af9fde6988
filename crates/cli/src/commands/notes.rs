//! `treering remember` and `treering notes`: keeps statements outside any conversation.

use std::io::{self, Read as _, Write};

use super::CliError;
use super::local_time::local_of;
use super::output::{BOLD, DIM, Output, paint, print_text, short_path};
use treering_server::service::Service;
use treering_server::service::requests::{ChangeNoteRequest, NoteRequest, NotesRequest};
use treering_server::views::{NoteList, NoteView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering remember \"The staging port is 7410.\"
  treering remember --pin \"Never deploy on Fridays.\"
  treering remember --everywhere \"I write British English.\"
  treering remember < decision.txt

The note belongs to the project of the current folder. `treering context --project` and the context
that agents get at the start of a session begin with the pinned notes; search finds all of them.")]
pub(super) struct RememberArgs {
    /// The statement to keep [default: read from standard input]
    text: Option<String>,
    /// The folder of the project that it is about [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    project: Option<String>,
    /// Keep it for every project
    #[arg(long, conflicts_with = "project")]
    everywhere: bool,
    /// Show it first in contexts over its project
    #[arg(long)]
    pin: bool,
    /// The author of the note
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// An id; a note with the same id is not stored again
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering notes                          those of the current folder and below
  treering notes --everything             those of every project
  treering notes notes-shop#3 --pin
  treering notes notes-shop#3 --correct \"The staging port is 7411.\"
  treering notes notes-shop#3 --withdraw
  treering forget notes-shop --message 3  erases it for good")]
pub(super) struct Args {
    /// The note to change, such as notes-shop#3
    #[arg(requires = "change")]
    note: Option<String>,
    #[command(flatten)]
    change: NoteFlags,
    /// List the notes of this folder and below, and those that hold for every project [default: the
    /// current folder]
    #[arg(long, value_name = "FOLDER", default_value = ".", hide_default_value = true)]
    project: String,
    /// List the notes of every project
    #[arg(long, conflicts_with = "project")]
    everything: bool,
    /// Include withdrawn notes
    #[arg(long)]
    all: bool,
}

#[derive(clap::Args)]
#[group(id = "change", multiple = false, requires = "note")]
struct NoteFlags {
    /// Show it first in contexts over its project
    #[arg(long)]
    pin: bool,
    /// Unpin it
    #[arg(long)]
    unpin: bool,
    /// Replace the statement; the earlier one stays in the history
    #[arg(long, value_name = "TEXT")]
    correct: Option<String>,
    /// Withdraw it: it stays in the history, and search and contexts leave it out
    #[arg(long)]
    withdraw: bool,
}

pub(super) fn remember(
    args: &RememberArgs,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let text = match &args.text {
        Some(text) => text.clone(),
        None => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text)?;
            text.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    let folder = args.project.clone().unwrap_or_else(|| ".".to_owned());
    let view = service.add_note(NoteRequest {
        text,
        project_path: (!args.everywhere).then_some(folder),
        author: args.author.clone(),
        pinned: args.pin,
        external_id: args.external_id.clone(),
        at: None,
    })?;
    Ok(output.show(&view, |out| line(out, &view))?)
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    if let Some(note) = &args.note {
        let NoteFlags { pin, unpin, correct, withdraw } = &args.change;
        let pinned = match (pin, unpin) {
            (false, false) => None,
            (pin, _) => Some(*pin),
        };
        let (text, withdrawn) = (correct.clone(), *withdraw);
        let view = service.change_note(note, ChangeNoteRequest { pinned, text, withdrawn })?;
        return Ok(output.show(&view, |out| line(out, &view))?);
    }
    let project_path = (!args.everything).then(|| args.project.clone());
    let list: NoteList = service.notes(&NotesRequest { project_path, all: args.all })?;
    output.show(&list.notes, |out| {
        if list.notes.is_empty() {
            return writeln!(out, "No notes. Keep one with `treering remember TEXT`.");
        }
        list.notes.iter().try_for_each(|note| line(out, note))
    })?;
    Ok(())
}

fn line(out: &mut dyn Write, note: &NoteView) -> io::Result<()> {
    let facts = [
        Some(local_of(&note.at)),
        note.author.clone(),
        note.pinned.then(|| "pinned".to_owned()),
        note.withdrawn.then(|| "withdrawn".to_owned()),
        note.project_path.as_deref().map(short_path),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    writeln!(out, "{} {}", paint(BOLD, &note.note), paint(DIM, facts.join(" · ")))?;
    match note.text.is_empty() {
        true => Ok(()),
        false => print_text(out, "  ", &note.text),
    }
}
