//! `treering show --tree`, and `treering show` of a node.

use std::io::{self, Write};

use treering_core::{Conversation, Coverage, Node};
use treering_engine::OutlineLine;

use crate::commands::CliError;
use crate::commands::local_time::{local, local_of};
use crate::commands::output::{
    BAD, BOLD, DIM, GOOD, Output, count, fit, grouped, pad, paint, print_dim, print_text, width,
};
use treering_server::service::Service;
use treering_server::service::requests::NodesRequest;
use treering_server::views::{ExpandView, ExpandedNodeView, NodeView, TreePage};

pub(crate) fn tree(
    conversation: &Conversation,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let outline = service.engine().tree(conversation.id)?.outline();
    output.show(&TreePage::of(conversation, &outline), |out| {
        super::head(out, conversation, &conversation.threads)?;
        branches(out, &outline)
    })?;
    Ok(())
}

/// Lists nodes: id, time, and the beginning of the overview.
pub(crate) fn nodes(
    conversation: &Conversation,
    request: &NodesRequest,
    service: &Service,
    output: &Output,
) -> Result<(), CliError> {
    let list = service.nodes(&conversation.id.to_string(), request)?;
    output.show(&list, |out| {
        for node in &list.nodes {
            let position = format!("level {} · {}", node.level, local_of(&node.range_end));
            writeln!(out, "{} {}", paint(BOLD, &node.id), paint(DIM, position))?;
            let overview = fit(&node.content.overview, width().saturating_sub(2));
            writeln!(out, "  {overview}")?;
        }
        if list.nodes.is_empty() {
            writeln!(out, "no nodes")?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Prints the outline of a tree.
pub(crate) fn branches(out: &mut dyn Write, branches: &[OutlineLine]) -> io::Result<()> {
    if branches.is_empty() {
        return writeln!(out, "{}", paint(DIM, "no tree yet: the conversation is empty"));
    }
    branches.iter().try_for_each(|branch| print_branch(out, branch))
}

/// Prints a node of the tree: its id and what it covers, and at the right its size.
fn print_branch(out: &mut dyn Write, branch: &OutlineLine) -> io::Result<()> {
    const SIZES: usize = 30;
    let sign = match branch.state {
        "open" => paint(DIM, "◌"),
        "pending" | "generating" => paint(DIM, "○"),
        "failed" => paint(BAD, "✗"),
        "dirty" => paint(BAD, "●"),
        _ => paint(GOOD, "●"),
    };
    let id = branch.id.split('-').take(2).map(|part| &part[..part.len().min(8)]);
    let (label, id) = match branch.level {
        0 => ("open window", String::new()),
        _ => ("", format!("{} ", id.collect::<Vec<_>>().join("-"))),
    };
    let label = match branch.state {
        "open" | "active" | "superseded" | "archived" => format!("{label} {}", branch.covers),
        state => format!("{label} {} · {state}", branch.covers),
    };
    let used = branch.prefix.chars().count() + 2 + id.len();
    let max_width = width().saturating_sub(used + SIZES + 1).max(12);
    let label = pad(&fit(label.trim_start(), max_width), max_width);
    let sizes = match branch.removed_percent() {
        Some(removed) => {
            let (from, to) = (grouped(branch.source_chars), grouped(branch.chars));
            format!("{from} → {to} chars {:>5}", signed_percent(-removed))
        }
        None if branch.chars > 0 => format!("{} chars", grouped(branch.chars)),
        None => String::new(),
    };
    let line = format!("{}{sign} {}{label}", paint(DIM, &branch.prefix), paint(BOLD, &id));
    writeln!(out, "{line} {}", paint(DIM, format!("{sizes:>SIZES$}")))
}

/// A change in percent with its sign: `−62 %`, `+26 %`.
fn signed_percent(percent: i64) -> String {
    let sign = if percent < 0 { '−' } else { '+' };
    format!("{sign}{}%", percent.abs())
}

pub(crate) fn node(reference: &str, service: &Service, output: &Output) -> Result<(), CliError> {
    let (conversation, node) = service.engine().find_node(reference)?;
    let around = ExpandView::of_node(&conversation, &node, service.engine())?;
    let expanded = ExpandedNodeView { node: NodeView::of(&conversation, &node), around };
    let page = &expanded.node;
    output.show(&expanded, |out| {
        let covers = match &node.spec.covers {
            Coverage::Messages(window) => format!("messages {window}"),
            Coverage::Nodes(children) => format!("{} nodes", children.len()),
            Coverage::Whole(children) => {
                format!("the whole conversation, {}", count(children.len() as u64, "node"))
            }
            Coverage::Sessions(sessions) => count(sessions.len() as u64, "session"),
        };
        writeln!(out, "{} {}", paint(BOLD, &node.id), paint(DIM, &conversation.slug))?;
        let facts = [
            format!("level {}", node.level()),
            covers,
            count(node.source.turns.into(), "turn"),
            format!("{} → {} chars", grouped(page.source_chars), grouped(node.chars.into())),
            page.state.to_owned(),
            format!("sealed: {}", page.sealed_because),
        ];
        print_dim(out, "", &facts.join(" · "))?;
        let provenance = [
            format!("{} to {}", local(node.range_start), local(node.range_end)),
            format!("written by {} in {} ms", page.generated_by, page.generation_ms),
            format!(
                "grounded {:.0}%, retained {:.0}%",
                node.grounded * 100.0,
                node.retained * 100.0
            ),
        ];
        print_dim(out, "", &provenance.join(" · "))?;
        if !node.invented.is_empty() {
            writeln!(out, "{} {}", paint(BAD, "not in the sources:"), node.invented.join(", "))?;
        }
        writeln!(out)?;
        print_text(out, "", &node.content.overview)?;
        writeln!(out)?;
        print_lists(out, &node)?;
        let children = node.spec.covers.nodes();
        if !children.is_empty() {
            let ids: Vec<&str> = children.iter().map(treering_core::NodeId::as_str).collect();
            writeln!(out, "{}", paint(DIM, "sources"))?;
            print_text(out, "  ", &ids.join(" "))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn print_lists(out: &mut dyn Write, node: &Node) -> io::Result<()> {
    let content = &node.content;
    let tools: Vec<String> = content
        .tools_used
        .iter()
        .map(|tool| match tool.failed {
            0 => format!("{} ×{}", tool.name, tool.succeeded + tool.unknown),
            failed => format!(
                "{} ×{} ({failed} failed)",
                tool.name,
                tool.succeeded + tool.unknown + failed
            ),
        })
        .collect();
    let lists = [
        ("topics", &content.topics),
        ("files", &content.files_mentioned),
        ("code", &content.identifiers),
        ("URLs", &content.urls),
        ("tools", &tools),
        ("names", &content.entities),
        ("dates", &content.dates),
        ("numbers", &content.numbers),
    ];
    for (name, items) in lists {
        if !items.is_empty() {
            let line = fit(&items.join(", "), width().saturating_sub(15));
            writeln!(out, "{} {line}", paint(DIM, pad(name, 14)))?;
        }
    }
    Ok(())
}
