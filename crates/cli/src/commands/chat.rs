//! `treering chat`: a conversation with a model that is given a context for each turn.

use std::io::{self, BufRead, IsTerminal, Write};

use serde::Serialize;
use treering_core::chat::FinishReason;
use treering_core::{Conversation, ConversationId, TitleSource, text};
use treering_engine::{
    Agent, AgentOptions, AppendTarget, Context, Engine, EntryBatch, Error, NewConversation,
    ReplayDetection, Reply, normalize_cwd,
};

use super::output::{BOLD, DIM, Output, count, grouped, paint, stdout};
use super::{CliError, Global, context, work};
use treering::models::{Models, ProviderOptions};
use treering_server::service::ServiceError;

/// The hint when no model is configured.
pub(super) const NO_MODEL_HINT: &str = "set chat.model to a provider and its model, for example\n  \
    treering --set chat.model=ollama/llama3.2 chat\n  \
    treering --set chat.model=openai/gpt-6-luna chat    (needs OPENAI_API_KEY)\n\
    or save it in the settings file (`treering config` shows its path); docs/models.md lists all \
    providers";

/// The default system prompt.
const INSTRUCTIONS: &str = "You are talking with someone you know. Your memory of the conversation \
    is provided: use it to answer, and say so when it does not hold the answer.";

#[derive(clap::Args)]
#[command(after_help = "\
Every turn is stored. For each question, the model gets the best context that fits the setting
context.budget, however long the conversation gets. The setting chat.model selects the model.

Examples:
  treering chat                               start a new conversation
  treering chat tidewatch                     continue a conversation
  treering chat --last --say \"Which port?\"   ask one question and exit

In the chat, /receipt shows the context that the model got, and /quit or Ctrl-D exits.")]
pub(super) struct Args {
    /// The conversation to continue: slug, key, id, or the first digits of an id [default: a new one]
    conversation: Option<String>,
    /// Continue the latest conversation
    #[arg(long, conflicts_with = "conversation")]
    last: bool,
    /// Send this message, print the answer and exit
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
    /// The title of a new conversation
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Maximum number of tokens in the context [default: the setting context.budget]
    #[arg(long, short, value_name = "TOKENS")]
    budget: Option<u32>,
}

pub(super) fn run(args: &Args, global: &Global, output: &Output) -> Result<(), CliError> {
    let settings = global.load()?.settings;
    let Some((provider, model)) = settings.chat.model(&settings.summarize) else {
        return Err(CliError::NoModel);
    };
    let models = Models::new(ProviderOptions::from(&settings.providers));
    let chat = models.chat(provider, model).map_err(Error::Provider)?;
    let custom = Some(settings.chat.instructions.as_str()).filter(|text| !text.trim().is_empty());
    let agent_settings = AgentOptions {
        instructions: Some(custom.unwrap_or(INSTRUCTIONS).to_owned()),
        budget: Some(args.budget.unwrap_or(settings.context.budget)),
        profile: Some(settings.profile(&settings.context.profile)?),
        max_tokens: Some(settings.chat.max_tokens).filter(|limit| *limit > 0),
        temperature: Some(settings.chat.temperature as f32),
        gate_timeout: None,
    };
    let service = global.open_on(settings, &models)?;
    let engine = service.engine();
    let known = match (&args.conversation, args.last) {
        (None, false) => None,
        (reference, _) => Some(service.named_or_latest(reference.as_deref())?),
    };
    let agent = Agent::new(engine.clone(), chat, agent_settings)?;
    let mut session = ChatSession {
        engine,
        agent,
        output,
        title: args.title.clone(),
        conversation: known.as_ref().map(|it| it.id),
        last: None,
    };
    match &args.say {
        Some(text) => session.turn(text)?,
        None if io::stdin().is_terminal() => session.run_interactive(known.as_ref())?,
        None => session.run_lines()?,
    }
    let conversation = session.conversation;
    drop(session);
    if engine.is_local() { work::catch_up(engine, conversation, output) } else { Ok(()) }
}

/// A chat in progress.
struct ChatSession<'a> {
    engine: &'a Engine,
    agent: Agent,
    output: &'a Output,
    title: Option<String>,
    conversation: Option<ConversationId>,
    /// The context of the last turn.
    last: Option<Context>,
}

#[derive(Serialize)]
struct View<'a> {
    conversation: String,
    question: u32,
    answer: u32,
    text: &'a str,
    complete: bool,
    model: &'a str,
    tokens_in: u64,
    tokens_out: u64,
    context_tokens: u32,
    redacted: String,
}

impl ChatSession<'_> {
    fn run_interactive(&mut self, known: Option<&Conversation>) -> Result<(), CliError> {
        let remembered = known.map_or_else(
            || "a new conversation".to_owned(),
            |it| format!("{}, {} remembered", it.slug, count(it.totals.turns.into(), "turn")),
        );
        self.output.remark(&format!("{} · {remembered} · /receipt, /quit", self.agent.model()));
        loop {
            let mut out = stdout();
            write!(out, "\n{} ", paint(BOLD, "›"))?;
            out.flush()?;
            drop(out);
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                writeln!(stdout())?;
                return Ok(());
            }
            match line.trim() {
                "" => {}
                "/quit" => return Ok(()),
                "/receipt" => self.receipt()?,
                text => match self.turn(text) {
                    // Continue, so that the user can send the message again.
                    Err(CliError::Service(ServiceError::Engine(error @ Error::Unanswered(_)))) => {
                        writeln!(stdout())?;
                        self.output.error(&error.to_string(), error.hint().as_deref());
                    }
                    other => other?,
                },
            }
        }
    }

    /// Sends every line of standard input as a turn.
    fn run_lines(&mut self) -> Result<(), CliError> {
        for line in io::stdin().lock().lines() {
            let line = line?;
            if !line.trim().is_empty() {
                self.turn(line.trim())?;
            }
        }
        Ok(())
    }

    fn turn(&mut self, text: &str) -> Result<(), CliError> {
        let id = match self.conversation {
            Some(id) => id,
            None => self.begin(text)?,
        };
        let reply = match self.output.json {
            true => self.agent.ask(id, text)?,
            false => self.stream_answer(id, text)?,
        };
        if self.output.json {
            self.print(id, &reply)?;
        }
        self.last = Some(reply.context);
        Ok(())
    }

    /// Creates a conversation, titled after its first message unless a title was given.
    fn begin(&mut self, question: &str) -> Result<ConversationId, CliError> {
        let new = NewConversation {
            title: Some(self.title.clone().unwrap_or_else(|| text::preview(question, 60))),
            title_source: TitleSource::Source,
            cwd: Some(normalize_cwd(".")),
            ..NewConversation::default()
        };
        let incoming = EntryBatch {
            target: AppendTarget::FindOrCreate(new),
            entries: Vec::new(),
            replay_detection: ReplayDetection::None,
        };
        let conversation = self.engine.append(incoming)?.conversation;
        self.conversation = Some(conversation.id);
        Ok(conversation.id)
    }

    /// Prints the answer as it streams in.
    fn stream_answer(&self, id: ConversationId, text: &str) -> Result<Reply, CliError> {
        let mut failed = Ok(());
        let mut out = stdout();
        let reply = self.agent.ask_streaming(id, text, &mut |piece| {
            if failed.is_ok() {
                failed = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
            }
        })?;
        failed?;
        writeln!(out)?;
        let warning = match reply.end {
            FinishReason::Complete => None,
            FinishReason::Truncated => {
                Some("the answer reached the token limit; raise the setting chat.max_tokens")
            }
            FinishReason::Declined => Some("the model declined to continue"),
        };
        if let Some(warning) = warning {
            self.output.remark(warning);
        }
        if io::stdout().is_terminal() {
            let receipt = &reply.context.receipt;
            let context_tokens = grouped(receipt.tokens.into());
            writeln!(
                out,
                "{}",
                paint(
                    DIM,
                    format!(
                        "{context_tokens} tokens of context · {} recalled",
                        count(recalled(&reply.context), "message")
                    )
                )
            )?;
        }
        Ok(reply)
    }

    fn print(&self, id: ConversationId, reply: &Reply) -> Result<(), CliError> {
        let view = View {
            conversation: id.to_string(),
            question: reply.question.0,
            answer: reply.answer.0,
            text: &reply.text,
            complete: reply.end == FinishReason::Complete,
            model: self.agent.model(),
            tokens_in: reply.usage.tokens_in,
            tokens_out: reply.usage.tokens_out,
            context_tokens: reply.context.receipt.tokens,
            redacted: reply.redacted.to_string(),
        };
        let mut out = io::stdout().lock();
        serde_json::to_writer(&mut out, &view)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }

    fn receipt(&self) -> Result<(), CliError> {
        let mut out = stdout();
        match &self.last {
            Some(context) => Ok(context::receipt(&mut out, &context.receipt)?),
            None => Ok(writeln!(out, "no context yet; ask a question first")?),
        }
    }
}

/// The number of messages that a context recalls for the question.
fn recalled(context: &Context) -> u64 {
    let volatile = context.sections.iter().filter(|section| section.is_volatile);
    volatile.map(|section| section.items.len() as u64).sum()
}
