//! `treering expand`: walks the tree one step, from a node down or from a message up.

use super::CliError;
use super::output::{BOLD, DIM, Output, fit, paint, print_dim, width};
use super::show::print_message;
use treering_server::service::ExpandedItem;
use treering_server::service::Service;
use treering_server::service::requests::ExpandRequest;
use treering_server::views::LineView;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  treering expand l2-b01e33ba     the sources of a node
  treering expand tidewatch 42    message 42 and the nodes that cover it
  treering expand tidewatch#42    the same")]
pub(super) struct Args {
    /// A node, such as l2-3f9a; a message, such as tidewatch#42; or a conversation, together with
    /// the position of a message
    #[arg(value_name = "ITEM")]
    reference: String,
    /// The position of the message
    #[arg(value_name = "IDX")]
    idx: Option<u32>,
}

pub(super) fn run(args: &Args, service: &Service, output: &Output) -> Result<(), CliError> {
    let id = match args.idx {
        Some(idx) => format!("{}#{idx}", args.reference),
        None => args.reference.clone(),
    };
    let expansion = service.expand(&ExpandRequest { id })?;
    let view = &expansion.around;
    output.show(view, |out| {
        match &expansion.item {
            ExpandedItem::Message(message, _) if message.body.forgotten => {
                let name = format!("{}{}", expansion.conversation.slug, message.idx);
                let hint =
                    format!("left out: it was forgotten or is wrong; see `treering show {name}`");
                print_dim(out, "", &hint)?;
            }
            ExpandedItem::Message(message, _) => print_message(out, message, false)?,
            _ => {}
        }
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
        if !view.down.is_empty() {
            writeln!(out, "{}", paint(BOLD, "below"))?;
            lines(out, &view.down, "  nothing")?;
        }
        Ok(())
    })?;
    Ok(())
}
