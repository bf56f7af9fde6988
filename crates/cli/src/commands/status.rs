//! `treering status`: shows the gate of a conversation, its jobs and its spending, and whether the
//! agents' hooks capture everything.

use std::io::{self, Write};
use std::time::Duration;

use serde::Serialize;
use treering_core::{ConversationId, GateStatus};
use treering_engine::Engine;

use super::local_time::local_of;
use super::output::{BAD, BOLD, DIM, GOOD, Output, count, paint, print_text};
use super::{CliError, Global, agents, spend};
use treering_server::agents::AgentHealth;
use treering_server::service::{Service, ServiceError};
use treering_server::views::StatusView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering status              the latest conversation
  treering status tidewatch --wait

Status also compares the transcripts of connected agents with the store. It exits with 1 if capture
is behind, or if a hook is missing, not trusted or failing.")]
pub(super) struct Args {
    /// Slug, key, id, or the first digits of an id [default: the latest conversation]
    conversation: Option<String>,
    /// Run the jobs and wait for the gate, at most `work.gate_timeout_ms`
    #[arg(long)]
    wait: bool,
}

#[derive(Serialize)]
struct View {
    /// Absent in a memory without conversations.
    #[serde(flatten)]
    status: Option<StatusView>,
    /// The agents whose hooks capture into this home.
    agents: Vec<AgentHealth>,
}

pub(super) fn run(
    args: &Args,
    global: &Global,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let engine = service.engine();
    let conversation = match service.named_or_latest(args.conversation.as_deref()) {
        // Hooks that do not work are why nothing was captured.
        Err(ServiceError::NoConversations) => None,
        found => Some(found?),
    };
    let agents = agents::health(global, engine)?;
    let Some(conversation) = conversation else {
        if agents.is_empty() {
            return Err(ServiceError::NoConversations.into());
        }
        let view = View { status: None, agents };
        output.show(&view, |out| {
            writeln!(out, "no conversations yet")?;
            agents::print(out, &view.agents)
        })?;
        return reported(&view.agents);
    };
    let gate = match args.wait {
        true => wait(engine, conversation.id)?,
        false => engine.gate(conversation.id)?,
    };
    let view = View { status: Some(service.status_of(&conversation, &gate)?), agents };
    output.show(&view, |out| {
        if let Some(status) = &view.status {
            print_status(out, status, &gate.describe(engine.clock().now()))?;
        }
        agents::print(out, &view.agents)
    })?;
    reported(&view.agents)
}

/// Fails if an agent is not captured.
fn reported(agents: &[AgentHealth]) -> Result<(), CliError> {
    let is_healthy = agents.iter().all(AgentHealth::is_healthy);
    if is_healthy { Ok(()) } else { Err(CliError::Reported) }
}

fn print_status(out: &mut dyn Write, view: &StatusView, gate: &str) -> io::Result<()> {
    let sign = match (view.clear, view.jobs_failed) {
        _ if view.writes_refused.is_some() => paint(BAD, "✗"),
        (true, 0) => paint(GOOD, "✓"),
        (true, _) => paint(BAD, "✗"),
        (false, _) => paint(DIM, "…"),
    };
    writeln!(out, "{sign} {}", paint(BOLD, &view.slug))?;
    print_text(out, "", gate)?;
    let failed = match view.jobs_failed {
        0 => String::new(),
        failed => {
            format!(", {failed} failed (contexts use raw turns; run `treering jobs retry`)")
        }
    };
    let queued = count(view.jobs_queued.into(), "job");
    let models = format!("summaries by {}, vectors by {}", view.summarizer, view.vectors);
    print_text(out, "", &format!("{queued} queued{failed}; {models}"))?;
    if let Some(configured) = &view.vectors_configured {
        let hint = format!("{configured} is configured: run `treering reindex` to switch to it");
        print_text(out, "", &hint)?;
    }
    if view.fallback_nodes > 0 {
        let nodes = count(view.fallback_nodes.into(), "node");
        let hint = "run `treering update` to regenerate them with";
        print_text(out, "", &format!("{nodes} by the fallback: {hint} {}", view.summarizer))?;
    }
    if view.capture_paused {
        let end = view.capture_paused_until.as_deref().map(local_of);
        let end = end.unwrap_or_else(|| "`treering resume`".into());
        print_text(out, "", &format!("capture is paused until {end}"))?;
    }
    if let Some(reason) = &view.writes_refused {
        print_text(out, "", reason)?;
    }
    spend::print(out, &view.spend)
}

/// Runs a worker until the gate is clear or the timeout has passed.
fn wait(engine: &Engine, id: ConversationId) -> Result<GateStatus, CliError> {
    let _worker = engine.spawn_worker()?;
    let timeout = Duration::from_millis(engine.work().gate_timeout_ms);
    Ok(engine.wait(id, timeout)?.status)
}
