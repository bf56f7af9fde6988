//! `treering append`: stores turns and messages from flags or standard input.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use treering_core::{
    Entry, EntryKind, ExternalId, ForkPoint, MessageIdx, NewMessage, Role, ThreadName, Timestamp,
};
use treering_engine::{
    AppendReport, AppendTarget, Engine, EntryBatch, NewConversation, ReplayDetection, normalize_cwd,
};

use super::CliError;
use super::output::{BOLD, Output, count, paint};
use super::work::catch_up;
use treering::jsonl::{self, JsonLine};
use treering_server::views::AppendedView;

/// A commit reads no further line once it holds this many entries.
const LARGEST_PORTION: usize = 256;

#[derive(clap::Args)]
#[command(after_help = "\
Without --user, --assistant, --tool or --text, the command reads JSON lines from standard input:
  {\"type\":\"turn\",\"user\":\"…\",\"assistant\":\"…\",\"tool_calls\":[{\"name\":\"…\",\"args\":{},\"result\":…}]}
  {\"type\":\"message\",\"role\":\"user\",\"text\":\"…\",\"external_id\":\"…\"}
  {\"role\":\"user\",\"content\":\"…\"}
Each line is durable once its acknowledgement is printed.")]
pub(super) struct Args {
    /// Slug, id, or the first digits of an id [default: a new conversation]
    conversation: Option<String>,
    /// Find the conversation by its external id, or create it
    #[arg(long, value_name = "ID", conflicts_with = "conversation")]
    key: Option<String>,
    /// The user's message
    #[arg(long, value_name = "TEXT")]
    user: Option<String>,
    /// The assistant's answer
    #[arg(long, value_name = "TEXT")]
    assistant: Option<String>,
    /// A tool call of the turn, as JSON: {"name":…,"args":…,"result":…}
    #[arg(long = "tool", value_name = "JSON")]
    tools: Vec<String>,
    /// The text of a single message; `-` reads it from standard input
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["user", "assistant", "tools"])]
    text: Option<String>,
    /// The role of the author of --text
    #[arg(long, value_name = "ROLE", default_value = "user", value_parser = |text: &str| text.parse::<Role>())]
    role: Role,
    /// The name of the author of --text or --user
    #[arg(long, value_name = "NAME")]
    author: Option<String>,
    /// The thread to append to
    #[arg(long, value_name = "NAME")]
    thread: Option<String>,
    /// Fork the new thread from main after the message at this position
    #[arg(long, value_name = "IDX", requires = "thread")]
    fork_at: Option<u32>,
    /// The time of the message or turn [default: now]
    #[arg(long, value_name = "DATE", value_parser = |text: &str| text.parse::<Timestamp>())]
    at: Option<Timestamp>,
    /// The id of the message at its source; appending it again adds nothing
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// The title of a new conversation
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The folder of a new conversation [default: the current folder]
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<String>,
    /// Leave the summaries to a worker (`treering work`)
    #[arg(long)]
    no_tree: bool,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let target = target(args, memory)?;
    let by_flags = args.user.is_some() || args.assistant.is_some() || args.text.is_some();
    if by_flags || !args.tools.is_empty() {
        let entries = entries(args, memory)?;
        let appended = store(memory, target, entries)?;
        acknowledge(&appended, output)?;
        return match args.no_tree {
            true => Ok(()),
            false => catch_up(memory, Some(appended.conversation.id), output),
        };
    }
    if io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "nothing to append; pass --user and --assistant, or pipe JSON lines to standard input"
                .into(),
        ));
    }
    if args.no_tree || !memory.is_local() {
        return append_stdin(target, memory, output);
    }
    // A background worker writes the summaries, so that no line waits for them.
    let worker = memory.spawn_worker()?;
    let followed = append_stdin(target, memory, output);
    drop(worker);
    followed.and_then(|()| catch_up(memory, None, output))
}

fn target(args: &Args, memory: &Engine) -> Result<AppendTarget, CliError> {
    if let Some(reference) = &args.conversation {
        return Ok(AppendTarget::Existing(memory.find(reference)?.id));
    }
    let external_id = args.key.as_ref().map(|key| ExternalId::new(key.clone())).transpose()?;
    Ok(AppendTarget::FindOrCreate(NewConversation {
        external_id,
        title: args.title.clone(),
        title_source: treering_core::TitleSource::Source,
        cwd: Some(normalize_cwd(args.cwd.as_deref().unwrap_or("."))),
        ..NewConversation::default()
    }))
}

fn entries(args: &Args, memory: &Engine) -> Result<Vec<Entry>, CliError> {
    let thread =
        args.thread.as_deref().map(str::parse::<ThreadName>).transpose()?.unwrap_or_default();
    let at = args.at.unwrap_or_else(|| memory.clock().now());
    let mut kinds = Vec::new();
    if let Some(idx) = args.fork_at {
        let after = ForkPoint::Position(MessageIdx(idx));
        kinds.push(EntryKind::Fork { parent: ThreadName::main(), after });
    }
    let id = |part: Option<&str>| -> Result<Option<ExternalId>, CliError> {
        let Some(id) = &args.external_id else { return Ok(None) };
        Ok(Some(ExternalId::new(part.map_or_else(|| id.clone(), |part| format!("{id}/{part}")))?))
    };
    let said = |role: Role, text: &str, author: Option<String>, external_id| {
        EntryKind::Message(NewMessage {
            role,
            author,
            text: text.into(),
            parts: None,
            at,
            external_id,
        })
    };
    if let Some(text) = &args.text {
        let mut text = text.clone();
        if text == "-" {
            text.clear();
            io::stdin().lock().read_to_string(&mut text)?;
        }
        kinds.push(said(args.role, &text, args.author.clone(), id(None)?));
    }
    if let Some(text) = &args.user {
        kinds.push(said(Role::User, text, args.author.clone(), id(Some("user"))?));
    }
    for (order, tool) in args.tools.iter().enumerate() {
        let mut call = jsonl::parse_tool_call(tool, at).map_err(|error| {
            CliError::Usage(format!(
                "--tool {tool}: {error}; expected {{\"name\":…,\"args\":…,\"result\":…}}"
            ))
        })?;
        call.external_id = call.external_id.or(id(Some(&format!("tool-{order}")))?);
        kinds.push(EntryKind::ToolCall(call));
    }
    if let Some(text) = &args.assistant {
        kinds.push(said(Role::Assistant, text, None, id(Some("assistant"))?));
    }
    Ok(kinds.into_iter().map(|kind| Entry { thread: thread.clone(), kind }).collect())
}

fn store(
    memory: &Engine,
    target: AppendTarget,
    entries: Vec<Entry>,
) -> Result<AppendReport, CliError> {
    Ok(memory.append(EntryBatch { target, entries, replay_detection: ReplayDetection::None })?)
}

fn acknowledge(appended: &AppendReport, output: &Output) -> Result<(), CliError> {
    let view = AppendedView::of(appended);
    output.show(&view, |out| {
        let mut facts = vec![count(view.messages.len() as u64, "message")];
        if view.tool_calls > 0 {
            facts.push(count(view.tool_calls as u64, "tool call"));
        }
        if view.known > 0 {
            facts.push(format!("{} already stored", view.known));
        }
        if view.differs > 0 {
            facts.push(format!("{} ignored because the stored version differs", view.differs));
        }
        let new = if view.created { "new conversation " } else { "" };
        writeln!(out, "{new}{}: {}", paint(BOLD, &view.slug), facts.join(", "))
    })?;
    Ok(())
}

/// Appends standard input line by line. Lines that arrive together share a commit, and each
/// commit is acknowledged as soon as it is durable.
fn append_stdin(
    mut target: AppendTarget,
    memory: &Engine,
    output: &Output,
) -> Result<(), CliError> {
    let mut input = BufReader::with_capacity(1 << 18, io::stdin().lock());
    let mut number = 0_u64;
    loop {
        let mut entries = Vec::new();
        let mut next_target = None;
        let mut ended = false;
        while entries.len() < LARGEST_PORTION {
            let mut line = Vec::new();
            if input.read_until(b'\n', &mut line)? == 0 {
                ended = true;
                break;
            }
            number += 1;
            let parsed = parse(&line, number, memory.clock().now());
            match parsed {
                Ok(None | Some(JsonLine::Header)) => {}
                Ok(Some(JsonLine::Entries(more))) => entries.extend(more),
                Ok(Some(JsonLine::Conversation(about))) => {
                    next_target = Some(AppendTarget::FindOrCreate(*about));
                    break;
                }
                Err(error) => {
                    // Entries before the bad line are stored and acknowledged first.
                    if !entries.is_empty() {
                        print_line(&store(memory, target, entries)?, output)?;
                    }
                    return Err(error);
                }
            }
            if !input.buffer().contains(&b'\n') {
                break;
            }
        }
        if !entries.is_empty() {
            let appended = store(memory, target.clone(), entries)?;
            target = AppendTarget::Existing(appended.conversation.id);
            print_line(&appended, output)?;
        }
        if let Some(next) = next_target {
            target = next;
        }
        if ended {
            return Ok(());
        }
    }
}

fn parse(line: &[u8], number: u64, now: Timestamp) -> Result<Option<JsonLine>, CliError> {
    let text = std::str::from_utf8(line).map_err(|_| {
        CliError::Usage(format!("line {number} is not UTF-8; lines before it are stored"))
    })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let parsed = jsonl::parse_line(text, now);
    parsed.map(Some).map_err(|error| {
        CliError::Usage(format!("line {number}: {error}; lines before it are stored"))
    })
}

/// Acknowledges a commit and flushes, because the writer may wait for the acknowledgement.
fn print_line(appended: &AppendReport, output: &Output) -> Result<(), CliError> {
    if output.json {
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &AppendedView::of(appended))?;
        writeln!(out)?;
        return Ok(out.flush()?);
    }
    acknowledge(appended, output)?;
    Ok(io::stdout().flush()?)
}
