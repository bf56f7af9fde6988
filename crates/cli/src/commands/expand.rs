//! `treering expand`: walks the tree one step, from a node down or from a message up.

use treering_core::MessageIdx;
use treering_engine::Engine;

use super::CliError;
use super::output::{BOLD, DIM, Output, fit, paint, width};
use treering_server::views::{ExpandView, LineView};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering expand l2-b01e33ba     the sources of a node
  treering expand tidewatch 42    the nodes that cover message 42")]
pub(super) struct Args {
    /// A node, such as l2-3f9a; or a conversation, together with the position of a message
    #[arg(value_name = "NODE|CONVERSATION")]
    reference: String,
    /// The position of the message
    #[arg(value_name = "IDX")]
    idx: Option<u32>,
}

pub(super) fn run(args: &Args, memory: &Engine, output: &Output) -> Result<(), CliError> {
    let view = match args.idx {
        Some(idx) => {
            let conversation = memory.find(&args.reference)?;
            ExpandView::of_message(&conversation, MessageIdx(idx), memory)?
        }
        None if Engine::is_node_reference(&args.reference) => {
            let (conversation, node) = memory.find_node(&args.reference)?;
            ExpandView::of_node(&conversation, &node, memory)?
        }
        None => {
            return Err(CliError::Usage(
                "expected a node, such as l2-3f9a, or a conversation and a message position".into(),
            ));
        }
    };
    output.show(&view, |out| {
        let lines = |out: &mut dyn std::io::Write, lines: &[LineView], empty: &str| {
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
        lines(out, &view.up, "  no nodes yet")?;
        if args.idx.is_none() {
            writeln!(out, "{}", paint(BOLD, "below"))?;
            lines(out, &view.down, "  nothing")?;
        }
        Ok(())
    })?;
    Ok(())
}
