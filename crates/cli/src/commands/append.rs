//! `treering append`: stores turns and messages from flags or standard input.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};

use treering_core::{Entry, ExternalId, Labels, NewMessage, ThreadName, Timestamp};
use treering_engine::{AppendReport, AppendTarget};

use super::create::NewConversationArgs;
use super::label::of_flags;
use super::output::{BOLD, Output, count, paint};
use super::work::catch_up;
use super::{CliError, local_time};
use treering::jsonl::{self, JsonLine};
use treering_server::service::Service;
use treering_server::service::requests::{RoleName, TurnRequest, fork_entry};
use treering_server::views::AppendedView;

/// A commit reads no further line once it holds this many entries.
const MAX_BATCH_ENTRIES: usize = 256;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering append --user \"Which port?\" --assistant \"7410, since March.\"
  treering append tidewatch --text \"And production?\" --author Ana
  treering append --key support:42 < turns.jsonl

Without --user, --assistant, --tool or --text, the command reads JSON lines from standard input:
  {\"type\":\"turn\",\"user\":\"…\",\"assistant\":\"…\",\"tool_calls\":[{\"name\":\"…\"}]}
  {\"type\":\"message\",\"role\":\"user\",\"text\":\"…\",\"external_id\":\"…\"}
  {\"role\":\"user\",\"content\":\"…\"}
Each line is durable once its acknowledgement is printed.")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id [default: a new conversation]
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
    #[arg(long, value_enum, value_name = "ROLE", default_value_t = RoleName::User)]
    role: RoleName,
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
    #[arg(long, value_name = "DATE", value_parser = local_time::parse)]
    at: Option<Timestamp>,
    /// The id of the message at its source; appending it again adds nothing
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    #[command(flatten)]
    new: NewConversationArgs,
    /// Leave the summaries to a worker (`treering work`)
    #[arg(long)]
    no_tree: bool,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let engine = service.engine();
    let is_turn = args.user.is_some() || args.assistant.is_some() || !args.tools.is_empty();
    if is_turn || args.text.is_some() {
        let request = request(args, engine.clock().now())?;
        let stored = match &args.text {
            Some(text) => {
                let target = request.target(engine)?;
                let message = message(args, text, engine.clock().now())?;
                service.store(target, message, &request.labels)?
            }
            None => service.append_turn(request)?,
        };
        acknowledge(&stored, output)?;
        return match args.no_tree {
            true => Ok(()),
            false => catch_up(engine, Some(stored.conversation.id), output),
        };
    }
    if io::stdin().is_terminal() {
        return Err(CliError::Usage(
            "nothing to append; pass --user and --assistant, or pipe JSON lines to standard input"
                .into(),
        ));
    }
    let request = request(args, engine.clock().now())?;
    let (target, labels) = (request.target(engine)?, request.labels);
    if args.no_tree || !engine.is_local() {
        return append_stdin(target, labels, service, output);
    }
    // A background worker writes the summaries, so that no line waits for them.
    let worker = engine.spawn_worker()?;
    let followed = append_stdin(target, labels, service, output);
    drop(worker);
    followed.and_then(|()| catch_up(engine, None, output))
}

/// The turn of the flags, and its conversation.
fn request(args: &Args, now: Timestamp) -> Result<TurnRequest, CliError> {
    let tools = args.tools.iter().map(|tool| {
        serde_json::from_str(tool).map_err(|error| {
            CliError::Usage(format!(
                "--tool {tool}: {error}; expected {{\"name\":…,\"args\":…,\"result\":…}}"
            ))
        })
    });
    let is_new = args.conversation.is_none();
    Ok(TurnRequest {
        conversation: args.conversation.clone(),
        key: args.key.clone(),
        title: args.new.title.clone(),
        cwd: is_new.then(|| args.new.cwd()),
        project_path: args.new.project.clone(),
        labels: of_flags(&args.new.label)?,
        thread: args.thread.clone(),
        fork_at: args.fork_at,
        author: args.author.clone(),
        user: args.user.clone(),
        assistant: args.assistant.clone(),
        tool_calls: tools.collect::<Result<_, _>>()?,
        external_id: args.external_id.clone(),
        at: Some(args.at.unwrap_or(now).to_string()),
        pinned: false,
    })
}

/// The message of `--text`, after the fork that `--fork-at` asks for.
fn message(args: &Args, text: &str, now: Timestamp) -> Result<Vec<Entry>, CliError> {
    let mut text = text.to_owned();
    if text == "-" {
        text.clear();
        io::stdin().lock().read_to_string(&mut text)?;
    }
    let thread = args.thread.as_deref().map(str::parse::<ThreadName>).transpose()?;
    let mut entries = fork_entry(thread.clone(), args.fork_at)?;
    let message = NewMessage {
        author: args.author.clone(),
        external_id: args.external_id.clone().map(ExternalId::new).transpose()?,
        ..NewMessage::new(args.role.into(), text, args.at.unwrap_or(now))
    };
    entries.push(Entry::message(thread.unwrap_or_default(), message));
    Ok(entries)
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
        if view.forgotten > 0 {
            facts.push(format!("{} not stored because it was forgotten", view.forgotten));
        }
        if view.private > 0 {
            facts.push(format!("{} left out", count(view.private as u64, "private passage")));
        }
        if view.excluded > 0 {
            facts.push(format!("{} excluded by the settings under `capture`", view.excluded));
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
    mut labels: Labels,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let mut input = BufReader::with_capacity(1 << 18, io::stdin().lock());
    let mut number = 0_u64;
    loop {
        let mut entries = Vec::new();
        let mut next_target = None;
        let mut ended = false;
        while entries.len() < MAX_BATCH_ENTRIES {
            let mut line = Vec::new();
            if input.read_until(b'\n', &mut line)? == 0 {
                ended = true;
                break;
            }
            number += 1;
            let parsed = parse(&line, number, service.engine().clock().now());
            match parsed {
                Ok(None | Some(JsonLine::Header)) => {}
                Ok(Some(JsonLine::Entries(more))) => entries.extend(more),
                Ok(Some(JsonLine::Conversation(conversation))) => {
                    next_target = Some(AppendTarget::FindOrCreate(*conversation));
                    break;
                }
                Err(error) => {
                    // Entries before the bad line are stored and acknowledged first.
                    if !entries.is_empty() {
                        print_line(&service.store(target, entries, &labels)?, output)?;
                    }
                    return Err(error);
                }
            }
            if !input.buffer().contains(&b'\n') {
                break;
            }
        }
        if !entries.is_empty() {
            let appended = service.store(target.clone(), entries, &labels)?;
            target = AppendTarget::Existing(appended.conversation.id);
            print_line(&appended, output)?;
        }
        if let Some(next) = next_target {
            // The flags describe only the conversation that they name.
            (target, labels) = (next, Labels::new());
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
