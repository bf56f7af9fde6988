//! `treering demo`: a tour of the product on a sample conversation that is built into the
//! program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use treering_core::ports::{ConversationFilter, Span};
use treering_core::{Conversation, TurnNo};
use treering_engine::{ContextRequest, Engine, JobScope, Worker};

use super::output::{BOLD, DIM, GOOD, Output, count, paint};
use super::{CliError, context, sessions, show};
use treering::import::{FileReport, ImportOptions, Importer};

/// Six weeks of a small software project, written for this program.
const SAMPLE: &str = include_str!("../../demo/tidewatch.jsonl");

#[derive(clap::Args)]
pub(super) struct Args {
    /// Keep the sample in this folder so that you can explore it
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

#[derive(Serialize)]
struct View {
    conversation: String,
    turns: u32,
    messages: u32,
    tool_calls: u32,
    tokens: u64,
    nodes: u64,
    added_by_second_import: u64,
    verified: bool,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), CliError> {
    let scratch = Scratch::new(args.keep.as_deref())?;
    let memory = treering::open_engine(&scratch.folder)?;
    let runner = Importer { engine: &memory, options: ImportOptions::default() };
    let first = runner.text("tidewatch.jsonl", SAMPLE.into())?;
    let second = runner.text("tidewatch.jsonl", SAMPLE.into())?;
    Worker::new(memory.clone())?.run(&JobScope::default(), &|_, _| {})?;
    let conversation = memory.find("tidewatch")?;
    let verification = memory.verify(|_| ())?;
    let view = View {
        conversation: conversation.slug.clone(),
        turns: conversation.totals.turns,
        messages: conversation.totals.messages,
        tool_calls: conversation.totals.tool_calls,
        tokens: conversation.totals.tokens,
        nodes: verification.nodes,
        added_by_second_import: second.messages_new + second.tool_calls_new,
        verified: verification.is_clean(),
    };
    let tour =
        Tour { memory: &memory, conversation: &conversation, first: &first, second: &second };
    let sessions = memory.listed_conversations(&ConversationFilter::all(5))?;
    let early = memory.turns(conversation.id, Span::starting(TurnNo(0), 1))?;
    let late =
        memory.turns(conversation.id, Span::starting(TurnNo(view.turns.saturating_sub(1)), 1))?;
    let branches = memory.tree(conversation.id)?.outline();
    let asked = "Which database holds the tide readings?";
    let request = ContextRequest {
        query: Some(asked.to_owned()),
        budget: 1200,
        ..ContextRequest::new(conversation.id)
    };
    let handed = memory.context(&request)?;
    output.show(&view, |out| {
        tour.welcome(out)?;
        heading(out, "treering sessions", "List conversations by name, folder or id.")?;
        sessions::table(out, &sessions)?;
        heading(out, "treering show tidewatch --limit 1", "The first turn, word for word.")?;
        early.iter().try_for_each(|turn| show::print_turn(out, turn, false))?;
        heading(out, "treering show tidewatch --last 1", "Six weeks later:")?;
        late.iter().try_for_each(|turn| show::print_turn(out, turn, false))?;
        heading(out, "treering show tidewatch --tree", "The tree: summaries of summaries.")?;
        show::tree::branches(out, &branches)?;
        let command =
            format!("treering context tidewatch --query \"{asked}\" --budget 1200 --receipt");
        heading(out, &command, "The whole history in a context of 1,200 tokens.")?;
        context::receipt(out, &handed.receipt)?;
        tour.ledger(out, &verification)?;
        tour.goodbye(out, args.keep.as_deref())
    })?;
    Ok(())
}

/// The demo's folder, deleted on drop unless the user keeps it.
struct Scratch {
    folder: PathBuf,
    keep: bool,
}

impl Scratch {
    fn new(keep: Option<&Path>) -> Result<Self, CliError> {
        if let Some(folder) = keep {
            return Ok(Self { folder: folder.to_path_buf(), keep: true });
        }
        let folder = std::env::temp_dir().join(format!("treering-demo-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|error| CliError::File(folder.clone(), error))?;
        Ok(Self { folder, keep: false })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // Best effort: a leftover scratch folder does no harm.
            drop(std::fs::remove_dir_all(&self.folder));
        }
    }
}

struct Tour<'a> {
    memory: &'a Engine,
    conversation: &'a Conversation,
    first: &'a FileReport,
    second: &'a FileReport,
}

impl Tour<'_> {
    fn welcome(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "{}",
            paint(BOLD, "Treering: a memory for conversations with language models")
        )?;
        writeln!(out)?;
        writeln!(
            out,
            "The sample: Ana builds a tide and berth service for a small harbor with an"
        )?;
        writeln!(out, "assistant called Juno, over six weeks. The import:")?;
        writeln!(out)?;
        let added = |report: &FileReport| {
            format!(
                "{}, {}",
                count(report.messages_new, "message"),
                count(report.tool_calls_new, "tool call")
            )
        };
        writeln!(out, "  {} first import   {}", paint(GOOD, "+"), added(self.first))?;
        writeln!(
            out,
            "  {} second import  {} (importing twice changes nothing)",
            paint(DIM, "="),
            added(self.second)
        )
    }

    fn ledger(
        &self,
        out: &mut dyn Write,
        report: &treering_engine::Verification,
    ) -> io::Result<()> {
        heading(out, "treering verify", "Check that nothing is lost:")?;
        let read = format!(
            "{}, {}, {}, {}",
            count(report.conversations.into(), "conversation"),
            count(report.messages, "message"),
            count(report.tool_calls, "tool call"),
            count(report.nodes, "node")
        );
        if report.is_clean() {
            return writeln!(out, "{} {read}: no problems found", paint(GOOD, "✓"));
        }
        report.problems.iter().try_for_each(|problem| writeln!(out, "✗ {problem}"))
    }

    fn goodbye(&self, out: &mut dyn Write, kept: Option<&Path>) -> io::Result<()> {
        let tokens = count(self.conversation.totals.tokens, "token");
        let tenant = self.memory.tenant();
        writeln!(out)?;
        writeln!(out, "{}", paint(DIM, format!("{tokens} in tenant {tenant:?}.")))?;
        match kept {
            Some(folder) => {
                writeln!(out, "Explore it: treering --home {} show tidewatch", folder.display())
            }
            None => {
                writeln!(out, "The sample was deleted. Next: treering import ~/.claude/projects")
            }
        }
    }
}

fn heading(out: &mut dyn Write, command: &str, what: &str) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "{} {}", paint(BOLD, format!("$ {command}")), paint(DIM, format!("  {what}")))
}
