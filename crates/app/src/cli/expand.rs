//! `treering expand`

use serde::Serialize;
use treering_core::{Covers, MessageIdx, Node};
use treering_engine::Memory;

use super::Failure;
use super::output::{BOLD, DIM, Output, fit, paint, width};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering expand l2-76185f63           what a node was written from
  treering expand tidewatch 42          the nodes over a message")]
pub(super) struct Args {
    /// A node, such as l2-3f9a; or a conversation, with the position of a message
    #[arg(value_name = "NODE|CONVERSATION")]
    reference: String,
    /// The position of a message
    #[arg(value_name = "IDX")]
    idx: Option<u32>,
}

#[derive(Serialize)]
struct View {
    up: Vec<Line>,
    down: Vec<Line>,
}

#[derive(Serialize)]
struct Line {
    level: u8,
    id: String,
    text: String,
}

pub(super) fn run(args: &Args, memory: &Memory, output: &Output) -> Result<(), Failure> {
    let view = match args.idx {
        Some(idx) => {
            let conversation = memory.find(&args.reference)?;
            let over = memory.ancestors_of(conversation.id, MessageIdx(idx))?;
            View { up: over.iter().map(line).collect(), down: Vec::new() }
        }
        None if Memory::is_node_reference(&args.reference) => below(&args.reference, memory)?,
        None => {
            return Err(Failure::Usage(
                "give a node, such as l2-3f9a, or a conversation and the position of a message".into(),
            ));
        }
    };
    output.show(&view, |out| {
        let lines = |out: &mut dyn std::io::Write, lines: &[Line], empty: &str| {
            if lines.is_empty() {
                writeln!(out, "{}", paint(DIM, empty))?;
            }
            lines.iter().try_for_each(|line| {
                let text = fit(&line.text, width().saturating_sub(line.id.chars().count() + 12));
                writeln!(
                    out,
                    "  {} {} {text}",
                    paint(DIM, format!("level {}", line.level)),
                    paint(BOLD, &line.id)
                )
            })
        };
        writeln!(out, "{}", paint(BOLD, "above"))?;
        lines(out, &view.up, "  nothing covers it yet")?;
        if args.idx.is_none() {
            writeln!(out, "{}", paint(BOLD, "below"))?;
            lines(out, &view.down, "  nothing")?;
        }
        Ok(())
    })?;
    Ok(())
}

fn below(reference: &str, memory: &Memory) -> Result<View, Failure> {
    let (conversation, node) = memory.find_node(reference)?;
    let over = memory.ancestors_of(conversation.id, MessageIdx(node.source.from))?;
    let up = over.iter().filter(|other| other.level() > node.level()).map(line).collect();
    let down = match &node.task.covers {
        Covers::Nodes(_) => memory.children(conversation.id, &node)?.iter().map(line).collect(),
        Covers::Messages(_) => memory
            .messages_of(conversation.id, &node)?
            .iter()
            .map(|message| Line {
                level: 0,
                id: message.idx.to_string(),
                text: format!(
                    "{}: {}",
                    message.said.author.as_deref().unwrap_or(message.said.role.as_str()),
                    message.said.text
                ),
            })
            .collect(),
    };
    Ok(View { up, down })
}

fn line(node: &Node) -> Line {
    Line { level: node.level().number(), id: node.id.to_string(), text: node.content.overview.clone() }
}
