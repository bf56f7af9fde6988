//! `treering demo`: a tour of the product on a sample conversation that is built into the
//! program.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use treering_engine::{Context, ContextRequest, JobScope, OutlineLine, Verification, Worker};

use super::output::{BOLD, DIM, GOOD, Output, count, grouped, paint, print_dim, print_text};
use super::{CliError, search, sessions, show};
use treering::config::Settings;
use treering::import::{FileReport, ImportOptions, Importer};
use treering_server::service::requests::{SearchRequest, SessionsRequest};
use treering_server::service::{ConversationList, SearchAnswer, Service};

/// Six weeks of a small software project, written for this program.
const SAMPLE: &str = include_str!("../../demo/tidewatch.jsonl");
/// The question of the tour, and the size of the context for it.
const QUESTION: &str = "Why does the gauge read too high on Tuesdays?";
const BUDGET: u32 = 800;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering demo
  treering demo --keep sample
  treering --home sample search \"why did we drop Brevitel\"")]
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
    let engine = treering::open_engine(&scratch.folder)?;
    let importer = Importer { engine: &engine, options: ImportOptions::default() };
    let first = importer.text("tidewatch.jsonl", SAMPLE.into())?;
    let second = importer.text("tidewatch.jsonl", SAMPLE.into())?;
    Worker::new(engine.clone())?.run(&JobScope::default(), &|_, _| {})?;
    let settings = Settings::load(&scratch.folder, &[])?.settings;
    let service = Service::new(engine, Arc::new(settings));
    let tour = Tour::new(&service, first, second)?;
    output.show(&tour.view(), |out| tour.print(out, args.keep.as_deref()))?;
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

/// The results that the tour shows, all computed before anything is printed.
struct Tour {
    first: FileReport,
    second: FileReport,
    sessions: ConversationList,
    answer: SearchAnswer,
    context: Context,
    tree: Vec<OutlineLine>,
    verification: Verification,
}

impl Tour {
    fn new(service: &Service, first: FileReport, second: FileReport) -> Result<Self, CliError> {
        let engine = service.engine();
        let conversation = engine.find("tidewatch")?;
        let search = SearchRequest {
            query: QUESTION.to_owned(),
            limit: Some(3),
            ..SearchRequest::default()
        };
        let context = ContextRequest {
            query: Some(QUESTION.to_owned()),
            budget: BUDGET,
            ..ContextRequest::new(conversation.id)
        };
        Ok(Self {
            first,
            second,
            sessions: service.sessions(&SessionsRequest::default())?,
            answer: service.search(&search)?,
            context: engine.context(&context)?,
            tree: engine.tree(conversation.id)?.outline(),
            verification: engine.verify(|_| ())?,
        })
    }

    fn view(&self) -> View {
        let totals = self.sessions.conversations.first();
        View {
            conversation: totals.map_or_else(String::new, |it| it.slug.clone()),
            turns: totals.map_or(0, |it| it.turns),
            messages: totals.map_or(0, |it| it.messages),
            tool_calls: totals.map_or(0, |it| it.tool_calls),
            tokens: totals.map_or(0, |it| it.tokens),
            nodes: self.verification.nodes,
            added_by_second_import: self.second.messages_new + self.second.tool_calls_new,
            verified: self.verification.is_clean(),
        }
    }

    fn print(&self, out: &mut dyn Write, kept: Option<&Path>) -> io::Result<()> {
        writeln!(out, "{}\n", paint(BOLD, "Treering: a memory for conversations with models"))?;
        let description = "The sample: over six weeks, Ana builds a tide and berth service for a small \
                     harbor with an assistant called Juno.";
        print_text(out, "", description)?;
        heading(out, "treering import tidewatch.jsonl", "Import it twice; it is stored once.")?;
        self.imports(out)?;
        heading(out, "treering sessions", "List conversations.")?;
        sessions::table(out, &self.sessions.conversations)?;
        heading(out, &format!("treering search \"{QUESTION}\" --limit 3"), "Find evidence.")?;
        self.answer.hits.iter().try_for_each(|hit| search::print(out, hit, false))?;
        let context =
            format!("treering context tidewatch --query \"{QUESTION}\" --budget {BUDGET}");
        heading(out, &context, "Build a context for a model.")?;
        self.context(out)?;
        heading(out, "treering show tidewatch --tree", "Summaries of summaries.")?;
        show::tree::branches(out, &self.tree)?;
        heading(out, "treering verify", "Check that the store is intact.")?;
        self.verification(out)?;
        writeln!(out)?;
        match kept {
            Some(folder) => {
                writeln!(out, "Explore it: treering --home {} show tidewatch", folder.display())
            }
            None => {
                writeln!(
                    out,
                    "The sample was deleted. Keep it with `treering demo --keep sample`."
                )?;
                writeln!(out, "Next: treering import ~/.claude/projects")
            }
        }
    }

    fn imports(&self, out: &mut dyn Write) -> io::Result<()> {
        for (sign, name, report) in [("+", "first ", &self.first), ("=", "second", &self.second)] {
            let messages = count(report.messages_new, "message");
            let calls = count(report.tool_calls_new, "tool call");
            writeln!(out, "{} {name} import: {messages}, {calls}", paint(GOOD, sign))?;
        }
        Ok(())
    }

    fn context(&self, out: &mut dyn Write) -> io::Result<()> {
        for line in self.context.markdown().lines() {
            match line.strip_prefix("> ") {
                Some(quoted) => print_text(out, "  > ", quoted)?,
                None => print_text(out, "  ", line)?,
            }
        }
        let receipt = &self.context.receipt;
        let (used, budget) = (grouped(receipt.tokens.into()), grouped(receipt.budget.into()));
        let total_tokens = self.view().tokens;
        let note = format!(
            "{used} of {budget} tokens, out of {}. `--receipt` explains each item.",
            grouped(total_tokens)
        );
        print_dim(out, "", &note)
    }

    fn verification(&self, out: &mut dyn Write) -> io::Result<()> {
        let report = &self.verification;
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
}

fn heading(out: &mut dyn Write, command: &str, description: &str) -> io::Result<()> {
    writeln!(out, "\n{}", paint(DIM, description))?;
    writeln!(out, "{}", paint(BOLD, format!("$ {command}")))
}
